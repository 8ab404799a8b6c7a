//! Files as vertices of the graph: the vertex at a path, the check of vertex names, and tags as extended attributes.

use super::NamesTxn;
use super::attributes::check_xattr;
use super::open::OpenLocation;
use super::resolve::{Reached, Resolver};
use super::rows::NameRows;
use super::vertex_paths::{VertexPaths, file_kind, key_of};
use super::{LocalDirectories, rows};
use crate::txn::{Txn, check_vertex};
use esker_model::namespace::record::LocationRecord;
use esker_model::namespace::tags::{TAG_PREFIX, text_of, value_of};
use esker_model::namespace::{Errno, Handle, Inode, Kind, NamePath, XattrMode, display};
use esker_model::object::Principal;
use esker_model::record::UserAttribute;
use esker_model::{Error, Mutation, Op, Properties, Result, VertexId, VertexRef};

/// Adds the tags of a file's vertex as extended attributes.
pub fn show_tags(inode: &mut Inode, user: &[UserAttribute]) {
    inode.tracked = true;
    inode.xattrs.extend(user.iter().map(|tag| {
        let name = [TAG_PREFIX, tag.name.as_bytes()].concat();
        (name, text_of(&tag.value))
    }));
    inode.xattrs.sort();
}

/// Returns id and kind of the file at a path, if the principal can reach one.
pub(super) fn file_at<R: NameRows + ?Sized>(
    resolver: &Resolver<'_, R>,
    path: &NamePath,
) -> Result<Option<(VertexId, Kind)>> {
    Ok(match resolver.reach(path, false) {
        Ok(Reached::Directory(directory)) => Some((directory.id, Kind::Directory)),
        Ok(Reached::Entry(_, _, Ok(found))) => Some((found.dentry.id, rows::kind(&found.dentry))),
        Ok(Reached::Entry(_, _, Err(_))) | Err(Error::File(_)) => None,
        Err(e) => return Err(e),
    })
}

/// Result of checking whether a vertex is a file whose id is not derived from the path in its name.
pub(super) enum IsFile {
    /// The vertex is no file.
    No,
    /// The vertex is a file with a location record.
    Recorded,
    /// The vertex is a file that needs this location record.
    At(LocationRecord),
}

/// Looks up a vertex as a file.
pub(super) fn is_file<R: NameRows + ?Sized>(
    resolver: &Resolver<'_, R>,
    id: VertexId,
    kind: Kind,
    key: &str,
) -> Result<IsFile> {
    if rows::location_record(resolver.rows, id)?.is_some_and(|p| !p.names.is_empty()) {
        return Ok(IsFile::Recorded);
    }
    let Ok(path) = NamePath::parse(key.as_bytes()) else {
        return Ok(IsFile::No);
    };
    Ok(match resolver.reach(&path, false) {
        Ok(Reached::Entry(directory, name, Ok(found)))
            if found.dentry.id == id
                && rows::kind(&found.dentry).type_name() == kind.type_name() =>
        {
            IsFile::At(LocationRecord::at(directory.id, name))
        }
        Ok(_) | Err(Error::File(_)) => IsFile::No,
        Err(e) => return Err(e),
    })
}

impl Txn<'_, '_> {
    /// Refuses a vertex whose key is invalid, or whose id is not that of its name; a file may be named by any of its present or
    /// past paths.
    pub(crate) fn check_name(&mut self, vertex: VertexRef, key: &str) -> Result<()> {
        let Err(refused) = check_vertex(self.schema, vertex, key) else {
            return Ok(());
        };
        if self.names.is_distributed() && file_kind(self.schema, vertex.type_id).is_some() {
            // The coordinator of the batch has checked this: [`super::NamesReader::check_file_names`].
            return esker_model::id::check_key(key).map_err(|_| refused);
        }
        let kind = file_kind(self.schema, vertex.type_id).filter(|_| self.names.any());
        let Some(kind) = kind else {
            return Err(refused);
        };
        if esker_model::id::check_key(key).is_ok() && self.is_file(vertex.id, kind, key)? {
            return Ok(());
        }
        Err(refused)
    }

    /// Whether a vertex is a file whose id is not derived from the path in its name. Writes its location record, because the path
    /// becomes useless when a directory above is renamed.
    fn is_file(&mut self, id: VertexId, kind: Kind, key: &str) -> Result<bool> {
        let resolver = Resolver {
            rows: &*self.overlay,
            principal: None,
            cached: None,
            epoch: None,
            local: &LocalDirectories::default(),
            filters: None,
        };
        match is_file(&resolver, id, kind, key)? {
            IsFile::No => return Ok(false),
            IsFile::Recorded => {}
            IsFile::At(place) => self.put_location_record(id, &place),
        }
        Ok(true)
    }

    /// Resolves an open file by its present path.
    fn reach_open(&self, names: &NamesTxn<'_>, handle: &Handle) -> Result<Reached> {
        let (directory, name) = match self.resolver(names, None).locate_open(handle)? {
            OpenLocation::Entry(directory, name, _) => (directory, name),
            OpenLocation::Root | OpenLocation::Gone(_) => {
                return self.reach(names, None, &NamePath::root(), false);
            }
        };
        let place = VertexPaths::new(&*self.overlay).directory(directory)?;
        let path = place.ok_or_else(|| Errno::NotFound.at(handle.path()))?;
        self.reach(
            names,
            None,
            &NamePath::parse_deep(&path)?.join(&name),
            false,
        )
    }

    /// Returns the tags of a file, or `None` if the graph has no vertex of the file.
    pub(super) fn file_tags(
        &self,
        names: &NamesTxn<'_>,
        id: VertexId,
    ) -> Result<Option<Vec<UserAttribute>>> {
        if names.source.is_home(id) {
            let own = self.current_vertex(id)?.filter(|r| !r.deleted);
            if own.is_none() || names.source.is_whole() {
                return Ok(own.map(|r| r.user));
            }
        }
        names.source.tags(id)
    }

    /// Changes the vertex of a file, which may be on another engine.
    pub(super) fn change_file_vertex(
        &mut self,
        names: &NamesTxn<'_>,
        id: VertexId,
        op: Op,
    ) -> Result<()> {
        match names.source.take_over(id, op)? {
            Some(op) => self.apply_one(Mutation { version: None, op }),
            None => Ok(()),
        }
    }

    /// Sets or removes the tag named by an extended attribute `user.esker.NAME`.
    pub(super) fn set_tag(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        (path, follow): (&NamePath, bool),
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<VertexId> {
        let (before, at) = self.inode_at(names, principal, path, follow)?;
        if at.is_gone() {
            // The vertex was deleted with the last name.
            return Err(Errno::NotFound.at(path).into());
        }
        check_xattr(&before, principal, name, path)?;
        let tag = name.strip_prefix(TAG_PREFIX).unwrap_or_default();
        let refused = |e: Error| match e {
            e @ (Error::File(_) | Error::Store { .. } | Error::Corrupt { .. }) => e,
            e => Errno::Invalid
                .at(format!("{path}: tag `{}`: {e}", display(tag)))
                .into(),
        };
        let tag = std::str::from_utf8(tag)
            .map_err(|_| refused(Error::Invalid("tags are named in UTF-8".into())))?;
        let id = before.id;
        // Attributes of the vertex, if it exists.
        let user = self.file_tags(names, id)?;
        let there = user
            .as_ref()
            .is_some_and(|user| user.iter().any(|a| a.name == tag));
        match (there, value) {
            (false, None) => return Err(Errno::NoData.at(path).into()),
            (false, Some(_)) if mode == XattrMode::Replace => {
                return Err(Errno::NoData.at(path).into());
            }
            (true, Some(_)) if mode == XattrMode::Create => {
                return Err(Errno::Exists.at(path).into());
            }
            _ => {}
        }
        let type_id = self.schema.vertex_type_id(before.kind().type_name())?;
        let vertex = VertexRef { id, type_id };
        let (mut set, mut remove) = (Properties::new(), Vec::new());
        match value {
            Some(value) => set.set(tag, value_of(value)),
            None => remove.push(tag.to_owned()),
        }
        self.check_attributes(vertex, &set, &remove)
            .map_err(refused)?;
        if user.is_none() {
            let reached = match path.handle() {
                Some(handle) => self.reach_open(names, &handle)?,
                None => self.reach(names, principal, path, follow)?,
            };
            let key = match reached {
                Reached::Directory(directory) => directory.path().into_owned(),
                Reached::Entry(directory, name, _) => {
                    let path = directory.path_of(&name);
                    let plain = std::str::from_utf8(&path)
                        .is_ok_and(|p| VertexId::of(before.kind().type_name(), p) == id);
                    if !plain && rows::location_record(&*self.overlay, id)?.is_none() {
                        self.put_location_record(id, &LocationRecord::at(directory.id, name));
                    }
                    path
                }
            };
            let key = key_of(key);
            self.change_file_vertex(names, id, Op::EnsureVertex { vertex, key })
                .map_err(refused)?;
        }
        let change = Op::SetAttributes {
            vertex,
            set,
            remove,
        };
        self.change_file_vertex(names, id, change)
            .map_err(refused)?;
        let mut inode = before.clone();
        inode.touch_change(self.now_nanos());
        self.put_inode(names, at, &before, inode)
    }
}
