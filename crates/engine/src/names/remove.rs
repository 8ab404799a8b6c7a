//! Removal of files and directories, and additional names of files.

use super::NamesTxn;
use super::change::NamedEntry;
use super::directory::Naming;
use super::resolve::Reached;
use super::rows;
use super::space;
use crate::txn::Txn;
use esker_model::key::SpaceKey;
use esker_model::namespace::record::{Dentry, DentryInode, LocationRecord, child_key};
use esker_model::namespace::{Errno, Inode, Kind, LINKS_MAX, NamePath};
use esker_model::object::Principal;
use esker_model::{Error, Op, Result, VertexId, VertexRef};
use esker_store::Table;

impl Txn<'_, '_> {
    pub(super) fn unlink(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
    ) -> Result<VertexId> {
        let named = match self.named(names, principal, path, false) {
            Err(Error::File(e)) if e.errno == Errno::Busy => {
                return Err(Errno::IsDirectory.at(path).into());
            }
            named => named?,
        };
        Self::demand_removal(&named.parent, &named.inode, principal, path)?;
        if named.inode.is_directory() {
            return Err(Errno::IsDirectory.at(path).into());
        }
        let id = named.inode.id;
        self.remove_name(names, named)?;
        Ok(id)
    }

    pub(super) fn rmdir(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
    ) -> Result<VertexId> {
        let named = self.named(names, principal, path, false)?;
        Self::demand_removal(&named.parent, &named.inode, principal, path)?;
        if !named.inode.is_directory() {
            return Err(Errno::NotDirectory.at(path).into());
        }
        if names.entries(named.inode.id)? > 0 {
            return Err(Errno::NotEmpty.at(path).into());
        }
        let id = named.inode.id;
        self.remove_name(names, named)?;
        Ok(id)
    }

    /// Removes a name; the last name of a file removes the file, whose past states stay.
    pub(super) fn remove_name(
        &mut self,
        names: &mut NamesTxn<'_>,
        named: NamedEntry,
    ) -> Result<()> {
        let now = self.now_nanos();
        let linked = named.linked();
        let NamedEntry {
            parent,
            name,
            found,
            mut inode,
        } = named;
        self.remove_dentry(parent.id, &found)?;
        // A file that was never elsewhere needs no location record: its id is derived from its path, in the only directory that
        // derives ids from this path, and no entry of its hash has left that directory.
        let plain = !names.source.is_whole()
            && !linked
            && !inode.is_directory()
            && parent.short_path().is_some()
            && inode.id == parent.id_at(inode.kind(), &name, found.hash)
            && !self.has_left(parent.id, found.hash)?
            && self.naming(names, &parent)? == Naming::Path;
        self.record_departure(names, &parent, found.hash)?;
        names.note_changed(parent.id, now);
        if linked {
            let mut place = rows::location_record(&*self.overlay, inode.id)?.unwrap_or_default();
            let index = place
                .names
                .iter()
                .position(|(d, n)| *d == parent.id && *n == name);
            let index = index.unwrap_or(0);
            if place.names.len() > 1 {
                self.supersede(parent.id, &name, &inode)?;
                place.names.remove(index);
                let sign = |names: &mut NamesTxn<'_>, directory, sized, sign| {
                    space::count_name(directory, &inode, sized, sign, &mut |c, n| names.note(c, n));
                };
                sign(names, parent.id, index == 0, -1);
                if let (0, Some((next, next_name))) = (index, place.names.first()) {
                    // The directory and the extension of the first name count the size.
                    space::count_size(SpaceKey::Directory(*next), &inode, 1, &mut |c, n| {
                        names.note(c, n);
                    });
                    Self::move_ending(names, &inode, &name, next_name);
                }
                inode.links = place.names.len() as u32;
                inode.version = self.version;
                inode.touch_change(now);
                let id = inode.id;
                place.inode = Some(inode);
                self.put_location_record(id, &place);
                return Ok(());
            }
        }
        names.note_file(parent.id, &name, &inode, -1);
        if inode.is_directory() {
            self.overlay
                .remove(Table::Names, child_key(parent.id, inode.id));
            names.invalidate_cache();
            names.filters.forget(Some(inode.id));
        } else if rows::kind(&found.dentry) == Kind::Symlink {
            names.invalidate_cache();
        }
        self.supersede(parent.id, &name, &inode)?;
        // The graph keeps the vertex's history; its visibility depends on the last state of the file.
        let known = self.forget_vertex(names, &inode)?;
        if plain && !known {
            return Ok(());
        }
        inode.version = self.version;
        inode.links = 0;
        let id = inode.id;
        let place = LocationRecord {
            deleted: true,
            departed: true,
            names: vec![(parent.id, name)],
            inode: Some(inode),
        };
        self.put_location_record(id, &place);
        Ok(())
    }

    /// Deletes the vertex of a removed file, if the graph has one; returns whether it had.
    fn forget_vertex(&mut self, names: &NamesTxn<'_>, inode: &Inode) -> Result<bool> {
        if !self.names.has_vertices() {
            return Ok(false);
        }
        let vertex = VertexRef {
            id: inode.id,
            type_id: self.schema.vertex_type_id(inode.kind().type_name())?,
        };
        let known = self.file_tags(names, inode.id)?.is_some();
        if known {
            self.change_file_vertex(names, vertex.id, Op::DeleteVertex { vertex })?;
        }
        Ok(known)
    }

    pub(super) fn link(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        from: &NamePath,
        to: &NamePath,
    ) -> Result<VertexId> {
        let named = match self.named(names, principal, from, false) {
            Err(Error::File(e)) if e.errno == Errno::Busy => {
                return Err(Errno::NotPermitted.at(from).into());
            }
            named => named?,
        };
        let (parent, name, at) = match self.reach(names, principal, to, false)? {
            Reached::Directory(_) | Reached::Entry(_, _, Ok(_)) => {
                return Err(Errno::Exists.at(to).into());
            }
            Reached::Entry(parent, name, Err(at)) => (parent, name, at),
        };
        if !may_link(&named.inode, principal) {
            return Err(Errno::NotPermitted.at(from).into());
        }
        parent.inode.demand(principal, 3, to.as_bytes())?;
        if named.inode.is_directory() {
            return Err(Errno::NotPermitted.at(from).into());
        }
        if named.inode.links >= LINKS_MAX {
            return Err(Errno::TooManyLinks.at(from).into());
        }
        let now = self.now_nanos();
        let linked = named.linked();
        let mut inode = named.inode;
        self.supersede(named.parent.id, &named.name, &inode)?;
        let mut place = if linked {
            rows::location_record(&*self.overlay, inode.id)?.unwrap_or_default()
        } else {
            LocationRecord::at(named.parent.id, named.name.clone())
        };
        place.names.push((parent.id, name.clone()));
        inode.links = place.names.len() as u32;
        inode.version = self.version;
        inode.touch_change(now);
        let (id, kind) = (inode.id, inode.kind());
        space::count_name(parent.id, &inode, false, 1, &mut |c, n| names.note(c, n));
        names.note_changed(parent.id, now);
        place.inode = Some(inode);
        self.put_location_record(id, &place);
        let dentry = |name| Dentry {
            name,
            id,
            inode: DentryInode::Linked(kind),
        };
        if !linked {
            let old = (named.found.hash, named.found.n);
            self.put_dentry(names, named.parent.id, old, &dentry(named.name));
        }
        self.put_dentry(names, parent.id, at, &dentry(name));
        Ok(id)
    }
}

/// Whether the principal may give a file another name: its owner, or a user who may write the file (`fs.protected_hardlinks`,
/// which all distributions set: another name keeps a file that its owner has removed).
fn may_link(inode: &Inode, principal: Option<&Principal>) -> bool {
    let owns = principal.is_none_or(|a| a.uid == 0 || a.uid == i64::from(inode.uid));
    let setuid = inode.mode & 0o4000 != 0 || inode.mode & 0o2010 == 0o2010;
    owns || inode.kind() == Kind::File && !setuid && inode.allows(principal, 6)
}
