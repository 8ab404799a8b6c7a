//! Renaming: a file keeps its id, and with it its tags, its edges and its past.

use super::NamesTxn;
use super::change::NamedEntry;
use super::directory::Directory;
use super::resolve::Reached;
use super::{rows, space};
use crate::txn::Txn;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{Dentry, DentryInode, LocationRecord, child_key};
use esker_model::namespace::{Errno, Inode, Kind, Name, NamePath};
use esker_model::object::Principal;
use esker_model::{Error, Result, VertexId};
use esker_store::Table;
use std::sync::Arc;

/// An entry that was removed from its directory, of a file that gets another one.
struct DetachedEntry {
    parent: Arc<Directory>,
    name: Name,
    hash: u64,
    /// Number of the entry among those of its hash.
    number: u8,
    inode: Inode,
    linked: bool,
}

impl Txn<'_, '_> {
    /// Checks are made in the order of Linux (`do_renameat2`, `vfs_rename`), so that a call with two errors fails with the same
    /// one.
    pub(super) fn rename(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        from: &NamePath,
        to: &NamePath,
        no_replace: bool,
    ) -> Result<VertexId> {
        let source = entry(self.reach(names, principal, from, false)?, from)?;
        let (target_parent, target_name, target) = match self.reach(names, principal, to, false)? {
            Reached::Directory(_) if no_replace => return Err(Errno::Exists.at(to).into()),
            reached => entry(reached, to)?,
        };
        let source = self.existing_entry(source, from)?;
        let (target, place) = match target {
            Ok(_) if no_replace => return Err(Errno::Exists.at(to).into()),
            Ok(found) => {
                let place = (found.hash, found.n);
                let target = (Arc::clone(&target_parent), target_name.clone(), Ok(found));
                (Some(self.existing_entry(target, to)?), place)
            }
            Err(place) => (None, place),
        };
        if source.inode.is_directory()
            && target_parent
                .with_ancestors()
                .any(|d| d.id == source.inode.id)
        {
            return Err(Errno::Invalid.at(format!("{to} is inside {from}")).into());
        }
        if let Some(target) = &target {
            if source
                .parent
                .with_ancestors()
                .any(|d| d.id == target.inode.id)
            {
                return Err(Errno::NotEmpty.at(to).into());
            }
            if target.inode.id == source.inode.id {
                return Ok(source.inode.id);
            }
        }
        Self::demand_removal(&source.parent, &source.inode, principal, from)?;
        match &target {
            None => target_parent.inode.demand(principal, 3, to.as_bytes())?,
            Some(target) => {
                Self::demand_removal(&target_parent, &target.inode, principal, to)?;
                match (source.inode.is_directory(), target.inode.is_directory()) {
                    (true, false) => return Err(Errno::NotDirectory.at(to).into()),
                    (false, true) => return Err(Errno::IsDirectory.at(to).into()),
                    _ => {}
                }
            }
        }
        if source.inode.is_directory() && source.parent.id != target_parent.id {
            // The entry `..` of the directory changes.
            source.inode.demand(principal, 2, from.as_bytes())?;
        }
        if let Some(target) = target {
            if target.inode.is_directory() && names.entries(target.inode.id)? > 0 {
                return Err(Errno::NotEmpty.at(to).into());
            }
            self.remove_name(names, target)?;
        }
        // The removal may have changed the number of an entry with the same hash.
        let source = self.reload_entry(source)?;
        let place = match rows::find(&*self.overlay, target_parent.id, &target_name)? {
            Err(free) => free,
            Ok(_) => place,
        };
        self.move_entry(names, source, &target_parent, target_name, place)
    }

    /// Reads the inode of an entry, which must exist.
    pub(super) fn existing_entry(
        &self,
        (parent, name, found): ResolvedEntry,
        path: &NamePath,
    ) -> Result<NamedEntry> {
        let found = found.map_err(|_| Error::from(Errno::NotFound.at(path)))?;
        let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
        Ok(NamedEntry {
            parent,
            name,
            found,
            inode,
        })
    }

    fn reload_entry(&self, named: NamedEntry) -> Result<NamedEntry> {
        let found = rows::find(&*self.overlay, named.parent.id, &named.name)?;
        let found = found.map_err(|_| Error::from(Errno::NotFound.at(&named.name)))?;
        let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
        Ok(NamedEntry {
            found: Box::new(found),
            inode,
            ..named
        })
    }

    /// Exchanges two entries. Checks are made in the order of Linux, as for a rename with `RENAME_EXCHANGE`.
    pub(super) fn exchange(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        from: &NamePath,
        to: &NamePath,
    ) -> Result<VertexId> {
        let first = entry(self.reach(names, principal, from, false)?, from)?;
        let second = entry(self.reach(names, principal, to, false)?, to)?;
        let first = self.existing_entry(first, from)?;
        let second = self.existing_entry(second, to)?;
        for (entry, other, path) in [(&first, &second, to), (&second, &first, from)] {
            let mut above = other.parent.with_ancestors();
            if entry.inode.is_directory() && above.any(|d| d.id == entry.inode.id) {
                let inside =
                    format!("{path} is inside the directory that it would be exchanged with");
                return Err(Errno::Invalid.at(inside).into());
            }
        }
        if first.inode.id == second.inode.id {
            return Ok(first.inode.id);
        }
        let moves = first.parent.id != second.parent.id;
        for (entry, path) in [(&first, from), (&second, to)] {
            Self::demand_removal(&entry.parent, &entry.inode, principal, path)?;
        }
        for (entry, path) in [(&first, from), (&second, to)] {
            if moves && entry.inode.is_directory() {
                // The entry `..` of the directory changes.
                entry.inode.demand(principal, 2, path.as_bytes())?;
            }
        }
        let (id, first_name, second_name) =
            (first.inode.id, first.name.clone(), second.name.clone());
        let (first_parent, second_parent) = (Arc::clone(&first.parent), Arc::clone(&second.parent));
        let first = self.detach_entry(names, first)?;
        // The removal may have changed the number of an entry with the same hash.
        let second = self.reload_entry(second)?;
        let second = self.detach_entry(names, second)?;
        for (entry, parent, name) in [
            (first, second_parent, second_name),
            (second, first_parent, first_name),
        ] {
            let Err(place) = rows::find(&*self.overlay, parent.id, &name)? else {
                return Err(Errno::Exists.at(name).into());
            };
            self.attach_entry(names, entry, &parent, name, place)?;
        }
        Ok(id)
    }

    fn move_entry(
        &mut self,
        names: &mut NamesTxn<'_>,
        source: NamedEntry,
        target: &Arc<Directory>,
        name: Name,
        mut place: (u64, u8),
    ) -> Result<VertexId> {
        let entry = self.detach_entry(names, source)?;
        if entry.parent.id == target.id && entry.hash == place.0 && entry.number < place.1 {
            // An entry with the same hash was moved into the gap.
            place.1 -= 1;
        }
        self.attach_entry(names, entry, target, name, place)
    }

    /// Removes an entry from its directory, to give the file another one.
    fn detach_entry(&mut self, names: &NamesTxn<'_>, source: NamedEntry) -> Result<DetachedEntry> {
        let linked = source.linked();
        let NamedEntry {
            parent,
            name,
            found,
            inode,
        } = source;
        self.supersede(parent.id, &name, &inode)?;
        self.remove_dentry(parent.id, &found)?;
        self.record_departure(names, &parent, found.hash)?;
        Ok(DetachedEntry {
            parent,
            name,
            hash: found.hash,
            number: found.n,
            inode,
            linked,
        })
    }

    /// Adds an entry for a file that has lost one.
    fn attach_entry(
        &mut self,
        names: &mut NamesTxn<'_>,
        entry: DetachedEntry,
        target: &Arc<Directory>,
        name: Name,
        place: (u64, u8),
    ) -> Result<VertexId> {
        let now = self.now_nanos();
        let DetachedEntry {
            parent,
            name: old_name,
            mut inode,
            linked,
            ..
        } = entry;
        let id = inode.id;
        for directory in [parent.id, target.id] {
            names.note_changed(directory, now);
        }
        let kind = inode.kind();
        if kind == Kind::Directory {
            // Times derived from entries count only where they are newer than the inode's version.
            let present = Self::with_entries(names, inode.clone())?;
            for (inode, sign) in [(&inode, -1), (&present, 1)] {
                space::count_inode(inode, &old_name, sign, &mut |c, n| names.note(c, n));
            }
            inode = present;
        }
        inode.version = self.version;
        inode.touch_change(now);
        let mut at = if linked || kind == Kind::Directory {
            rows::location_record(&*self.overlay, id)?.unwrap_or_default()
        } else {
            LocationRecord::default()
        };
        let index = at
            .names
            .iter()
            .position(|(d, n)| *d == parent.id && *n == old_name)
            .unwrap_or(0);
        match at.names.get_mut(index) {
            Some(entry) => *entry = (target.id, name.clone()),
            None => at.names.push((target.id, name.clone())),
        }
        if index == 0 {
            // Sums by extension use the first name.
            Self::move_ending(names, &inode, &old_name, &name);
        }
        if parent.id != target.id {
            Self::move_space(names, &inode, (parent.id, target.id), index == 0);
        }
        if kind == Kind::Directory {
            self.overlay.remove(Table::Names, child_key(parent.id, id));
            self.overlay
                .put(Table::Names, child_key(target.id, id), name.as_bytes());
        }
        let state = if linked {
            at.inode = Some(inode);
            DentryInode::Linked(kind)
        } else {
            DentryInode::Inline(inode)
        };
        self.put_location_record(id, &at);
        self.put_dentry(
            names,
            target.id,
            place,
            &Dentry {
                name,
                id,
                inode: state,
            },
        );
        if matches!(kind, Kind::Directory | Kind::Symlink) {
            names.invalidate_cache();
        }
        Ok(id)
    }

    /// Moves a file's space from one directory's sums to another's.
    fn move_space(
        names: &mut NamesTxn<'_>,
        inode: &Inode,
        (from, to): (VertexId, VertexId),
        sized: bool,
    ) {
        let mut add = |counter, n| names.note(counter, n);
        if inode.is_directory() {
            // A directory's own content stays in its own sums.
            for (directory, n) in [(from, -1), (to, 1)] {
                add(
                    Counter::Space(SpaceKey::Directory(directory), Measure::Directories),
                    n,
                );
            }
            return;
        }
        space::count_name(from, inode, sized, -1, &mut add);
        space::count_name(to, inode, sized, 1, &mut add);
    }

    /// Moves a file's space to the sums of another name's extension.
    pub(super) fn move_ending(names: &mut NamesTxn<'_>, inode: &Inode, from: &Name, to: &Name) {
        let (old, new) = (space::ending(from), space::ending(to));
        if inode.kind() != Kind::File || old == new {
            return;
        }
        for (ending, sign) in [(old, -1), (new, 1)] {
            let key = SpaceKey::Ending(ending);
            names.note(Counter::Space(key, Measure::Files), sign);
            space::count_size(key, inode, sign, &mut |c, n| names.note(c, n));
        }
    }
}

pub(super) type ResolvedEntry = (Arc<Directory>, Name, Result<Box<rows::Found>, (u64, u8)>);

fn entry(reached: Reached, path: &NamePath) -> Result<ResolvedEntry> {
    match reached {
        Reached::Directory(_) => Err(Errno::Busy.at(path).into()),
        Reached::Entry(parent, name, found) => Ok((parent, name, found)),
    }
}
