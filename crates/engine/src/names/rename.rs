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
        let (source_parent, source_name, source) =
            entry(self.reach(names, principal, from, false)?, from)?;
        let (target_parent, target_name, target) = match self.reach(names, principal, to, false)? {
            Reached::Directory(_) if no_replace => return Err(Errno::Exists.at(to).into()),
            reached => entry(reached, to)?,
        };
        let Ok(found) = source else {
            return Err(Errno::NotFound.at(from).into());
        };
        let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
        let source = NamedEntry {
            parent: source_parent,
            name: source_name,
            found,
            inode,
        };
        let (target, place) = match target {
            Ok(_) if no_replace => return Err(Errno::Exists.at(to).into()),
            Ok(found) => {
                let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
                let place = (found.hash, found.n);
                let parent = Arc::clone(&target_parent);
                let name = target_name.clone();
                (
                    Some(NamedEntry {
                        parent,
                        name,
                        found,
                        inode,
                    }),
                    place,
                )
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

    fn move_entry(
        &mut self,
        names: &mut NamesTxn<'_>,
        source: NamedEntry,
        target: &Arc<Directory>,
        name: Name,
        mut place: (u64, u8),
    ) -> Result<VertexId> {
        let now = self.now_nanos();
        let linked = source.linked();
        let NamedEntry {
            parent,
            name: old_name,
            found,
            mut inode,
        } = source;
        let id = inode.id;
        self.supersede(parent.id, &old_name, &inode);
        self.remove_dentry(parent.id, &found)?;
        if parent.id == target.id && found.hash == place.0 && found.n < place.1 {
            // An entry with the same hash was moved into the gap.
            place.1 -= 1;
        }
        self.record_departure(names, &parent, found.hash)?;
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

type ResolvedEntry = (Arc<Directory>, Name, Result<Box<rows::Found>, (u64, u8)>);

fn entry(reached: Reached, path: &NamePath) -> Result<ResolvedEntry> {
    match reached {
        Reached::Directory(_) => Err(Errno::Busy.at(path).into()),
        Reached::Entry(parent, name, found) => Ok((parent, name, found)),
    }
}
