//! Files and directories go, and get further names.

use super::NamesTxn;
use super::change::Named;
use super::directory::Naming;
use super::resolve::Reached;
use super::rows;
use super::space;
use crate::txn::Txn;
use esker_model::key::SpaceKey;
use esker_model::namespace::record::{Dentry, DentryInode, Whereabouts, child_key};
use esker_model::namespace::{Errno, Inode, Kind, LINKS_MAX, NamePath};
use esker_model::object::Asker;
use esker_model::{Error, Result, VertexId, VertexRef};
use esker_store::Table;

impl Txn<'_, '_> {
    pub(super) fn unlink(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
    ) -> Result<VertexId> {
        let named = match self.named(names, asker, path, false) {
            Err(Error::File(e)) if e.errno == Errno::Busy => {
                return Err(Errno::IsDirectory.at(path).into());
            }
            named => named?,
        };
        Self::demand_removal(&named.parent, &named.inode, asker, path)?;
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
        asker: Option<&Asker>,
        path: &NamePath,
    ) -> Result<VertexId> {
        let named = self.named(names, asker, path, false)?;
        Self::demand_removal(&named.parent, &named.inode, asker, path)?;
        if !named.inode.is_directory() {
            return Err(Errno::NotDirectory.at(path).into());
        }
        if names.entries(self.overlay.store(), named.inode.id)? > 0 {
            return Err(Errno::NotEmpty.at(path).into());
        }
        let id = named.inode.id;
        self.remove_name(names, named)?;
        Ok(id)
    }

    /// Takes a name away; the file goes with its last one. Its past stays.
    pub(super) fn remove_name(&mut self, names: &mut NamesTxn<'_>, named: Named) -> Result<()> {
        let now = self.now_nanos();
        let linked = named.linked();
        let Named {
            parent,
            name,
            found,
            mut inode,
        } = named;
        self.remove_dentry(parent.id, &found)?;
        // Nothing says where a file is that never was elsewhere: its id is made of its path, by the only directory that does
        // that with this path, and nothing of its name has left it.
        let plain = names.apart.is_some()
            && !linked
            && !inode.is_directory()
            && inode.id == parent.id_at(inode.kind(), &name)
            && !self.has_left(parent.id, found.hash)?
            && self.naming(names, &parent)? == Naming::Path;
        self.depart(names, &parent, found.hash)?;
        names.note_changed(parent.id, now);
        if linked {
            let mut place = rows::whereabouts(&*self.overlay, inode.id)?.unwrap_or_default();
            let index = place
                .names
                .iter()
                .position(|(d, n)| *d == parent.id && *n == name);
            let index = index.unwrap_or(0);
            if place.names.len() > 1 {
                self.supersede(parent.id, &name, &inode);
                place.names.remove(index);
                let sign = |names: &mut NamesTxn<'_>, directory, sized, sign| {
                    space::of_name(directory, &inode, sized, sign, &mut |c, n| names.note(c, n));
                };
                sign(names, parent.id, index == 0, -1);
                if let (0, Some((next, next_name))) = (index, place.names.first()) {
                    // Its size is where its first name is, and so is its ending.
                    space::of_size(SpaceKey::Directory(*next), &inode, 1, &mut |c, n| {
                        names.note(c, n);
                    });
                    Self::move_ending(names, &inode, &name, next_name);
                }
                inode.links = place.names.len() as u32;
                inode.version = self.version;
                inode.touch_change(now);
                let id = inode.id;
                place.inode = Some(inode);
                self.put_whereabouts(id, &place);
                return Ok(());
            }
        }
        names.note_file(parent.id, &name, &inode, -1);
        if inode.is_directory() {
            self.overlay
                .remove(Table::Names, child_key(parent.id, inode.id));
            names.restructure();
            names.filters.forget(Some(inode.id));
        } else if rows::kind(&found.dentry) == Kind::Symlink {
            names.restructure();
        }
        self.supersede(parent.id, &name, &inode);
        self.forget_vertex(names, &inode)?;
        if plain {
            return Ok(());
        }
        inode.version = self.version;
        inode.links = 0;
        let id = inode.id;
        let place = Whereabouts {
            gone: true,
            departed: true,
            names: vec![(parent.id, name)],
            inode: Some(inode),
        };
        self.put_whereabouts(id, &place);
        Ok(())
    }

    /// The vertex of a file that goes is deleted, too, if the graph knows of it.
    fn forget_vertex(&mut self, names: &NamesTxn<'_>, inode: &Inode) -> Result<()> {
        let known = match names.apart {
            Some(_) => inode.tracked,
            None => self.names.has_vertices(),
        };
        if !known {
            return Ok(());
        }
        let vertex = VertexRef {
            id: inode.id,
            type_id: self.schema.vertex_type_id(inode.kind().type_name())?,
        };
        if let Some(apart) = names.apart {
            apart.forget(vertex);
            return Ok(());
        }
        match self.delete_vertex(vertex, None) {
            Err(Error::NoVertex { .. }) => Ok(()),
            done => done,
        }
    }

    pub(super) fn link(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        from: &NamePath,
        to: &NamePath,
    ) -> Result<VertexId> {
        let named = match self.named(names, asker, from, false) {
            Err(Error::File(e)) if e.errno == Errno::Busy => {
                return Err(Errno::NotPermitted.at(from).into());
            }
            named => named?,
        };
        let (parent, name, at) = match self.reach(names, asker, to, false)? {
            Reached::Directory(_) | Reached::Entry(_, _, Ok(_)) => {
                return Err(Errno::Exists.at(to).into());
            }
            Reached::Entry(parent, name, Err(at)) => (parent, name, at),
        };
        if !may_link(&named.inode, asker) {
            return Err(Errno::NotPermitted.at(from).into());
        }
        parent.inode.demand(asker, 3, to.as_bytes())?;
        if named.inode.is_directory() {
            return Err(Errno::NotPermitted.at(from).into());
        }
        if named.inode.links >= LINKS_MAX {
            return Err(Errno::TooManyLinks.at(from).into());
        }
        let now = self.now_nanos();
        let linked = named.linked();
        let mut inode = named.inode;
        self.supersede(named.parent.id, &named.name, &inode);
        let mut place = if linked {
            rows::whereabouts(&*self.overlay, inode.id)?.unwrap_or_default()
        } else {
            Whereabouts::at(named.parent.id, named.name.clone())
        };
        place.names.push((parent.id, name.clone()));
        inode.links = place.names.len() as u32;
        inode.version = self.version;
        inode.touch_change(now);
        let (id, kind) = (inode.id, inode.kind());
        space::of_name(parent.id, &inode, false, 1, &mut |c, n| names.note(c, n));
        names.note_changed(parent.id, now);
        place.inode = Some(inode);
        self.put_whereabouts(id, &place);
        let dentry = |name| Dentry {
            name,
            id,
            inode: DentryInode::Elsewhere(kind),
        };
        if !linked {
            let old = (named.found.hash, named.found.n);
            self.put_dentry(names, named.parent.id, old, &dentry(named.name));
        }
        self.put_dentry(names, parent.id, at, &dentry(name));
        Ok(id)
    }
}

/// Whether someone may give a file another name: those who own it or could write it (`fs.protected_hardlinks`, which all
/// distributions set: with a name of one's own one keeps a file that its owner has removed).
fn may_link(inode: &Inode, asker: Option<&Asker>) -> bool {
    let owns = asker.is_none_or(|a| a.uid == 0 || a.uid == i64::from(inode.uid));
    let setuid = inode.mode & 0o4000 != 0 || inode.mode & 0o2010 == 0o2010;
    owns || inode.kind() == Kind::File && !setuid && inode.allows(asker, 6)
}
