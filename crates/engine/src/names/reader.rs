//! Reads: each is written once, over a [`RowSource`].

use super::inode_view::{hide_unreadable, with_sums};
use super::partial_rows::{PlannedRow, stopped_error};
use super::resolve::{Reached, Resolver, present};
use super::rows::{self, NameRows};
use super::source::RowSource;
use super::vertex_paths::VertexPaths;
use super::vertices::{IsFile, file_at, is_file};
use super::{LocalDirectories, file_kind, open, show_tags};
use crate::Engine;
use crate::read::FirstError;
use crate::txn::check_vertex;
use esker_model::key::Measure;
use esker_model::namespace::record::{
    Dentry, DentryInode, decode_dentry_key, dentry_key, location_key,
};
use esker_model::namespace::{
    Change, Cookie, Entry, Errno, Inode, Kind, Name, NamePath, Open, OpenLookup, Usage, digest,
    hash_of, is_superuser, root,
};
use esker_model::object::Principal;
use esker_model::visibility::sees;
use esker_model::{Error, Flow, Result, VertexId, VertexRef, VertexTypeId};

/// Permission to list a directory, and to look up a known name in it.
const READ: u32 = 4;

/// A vertex that may be a file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaybeFile {
    /// Id of the vertex.
    pub id: VertexId,
    /// Type and key of the vertex, if it exists.
    pub vertex: Option<(VertexTypeId, String)>,
}

/// Visibility and key of such a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVisibility {
    /// Whether the vertex is visible to the principal.
    pub visible: bool,
    /// Present path as a key, if the vertex is a live file.
    pub key: Option<String>,
}

/// The space that a directory uses itself, and its subdirectories.
pub type DirectoryUsage = (Usage, Vec<(VertexId, Name)>);

/// Reads on behalf of a principal. Data that is missing stops a read with an error ([`RowSource::is_stopped`]).
pub struct NamesReader<'a> {
    resolver: Resolver<'a, dyn RowSource + 'a>,
    engine: &'a Engine,
}

impl<'a> NamesReader<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        source: &'a (dyn RowSource + 'a),
        principal: Option<&'a Principal>,
        local: &'a LocalDirectories,
    ) -> Self {
        let resolver = Resolver {
            rows: source,
            principal,
            cached: source.directories(),
            local,
            filters: None,
            epoch: source.epoch(),
        };
        Self { resolver, engine }
    }

    fn source(&self) -> &'a (dyn RowSource + 'a) {
        self.resolver.rows
    }

    /// Looks at all items, also behind one that lacks data, so that the data for all of them is fetched at once.
    fn each<T, U>(
        &self,
        all: impl IntoIterator<Item = T>,
        mut one: impl FnMut(T) -> Result<U>,
    ) -> Result<Vec<U>> {
        let mut found = Vec::new();
        for item in all {
            match one(item) {
                Ok(value) => found.push(value),
                Err(_) if self.source().is_stopped() => {}
                Err(e) => return Err(e),
            }
        }
        self.demand_complete()?;
        Ok(found)
    }

    fn demand_complete(&self) -> Result<()> {
        if self.source().is_stopped() {
            return Err(stopped_error());
        }
        Ok(())
    }

    /// Resolves a path; `follow` says whether a symbolic link as the last name is followed.
    pub(super) fn reach(&self, path: &NamePath, follow: bool) -> Result<Reached> {
        self.resolver.reach(path, follow)
    }

    /// Returns a file's attributes, as [`esker_model::namespace::Namespace::stat`].
    pub fn stat(&self, path: &NamePath, follow: bool) -> Result<Inode> {
        let inode = match path.handle() {
            Some(handle) => {
                let (inode, named) = self.resolver.open_inode(&handle)?;
                if !named {
                    return Ok(hide_unreadable(self.resolver.principal, path, inode));
                }
                inode
            }
            None => match self.reach(path, follow)? {
                Reached::Directory(directory) => present(self.source(), &directory)?,
                Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
                Reached::Entry(_, _, Ok(found)) => rows::inode(self.source(), found.dentry)?,
            },
        };
        self.visible_inode_with_tags(path, inode)
    }

    /// Checks that a path may be opened, as [`esker_model::namespace::Namespace::resolve_open`].
    pub fn resolve_open(&self, path: &NamePath, how: Open) -> Result<OpenLookup> {
        Ok(match open::look(&self.resolver, path, how)? {
            OpenLookup::Found(path, inode) if inode.links > 0 => {
                let inode = self.visible_inode_with_tags(&path, *inode)?;
                OpenLookup::Found(path, Box::new(inode))
            }
            looked => looked,
        })
    }

    /// Returns an inode as the principal sees it: content and attributes only with read permission; a directory with the
    /// link count and times that are derived from its entries.
    pub(super) fn visible_inode(&self, path: &NamePath, inode: Inode) -> Result<Inode> {
        let inode = hide_unreadable(self.resolver.principal, path, inode);
        if !inode.is_directory() {
            return Ok(inode);
        }
        let of = |measure| self.source().sum(inode.id, measure);
        let (directories, changed) = (of(Measure::Directories)?, of(Measure::Changed)?);
        Ok(with_sums(inode, directories, changed))
    }

    /// Returns such an inode with the tags of the file as extended attributes.
    fn visible_inode_with_tags(&self, path: &NamePath, inode: Inode) -> Result<Inode> {
        let tags = if inode.allows(self.resolver.principal, READ) {
            self.source().tags(inode.id)
        } else {
            Ok(None)
        };
        let mut inode = self.visible_inode(path, inode)?;
        if let Some(user) = tags? {
            show_tags(&mut inode, &user);
        }
        Ok(inode)
    }

    /// Returns id and kind of each file, as [`esker_model::namespace::Namespace::ids`].
    pub fn ids(&self, paths: &[NamePath]) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.each(paths, |path| file_at(&self.resolver, path))
    }

    /// Returns the id of a directory, whatever its permissions.
    pub fn directory(&self, path: &NamePath) -> Result<VertexId> {
        Ok(self.resolver.directory(path)?.id)
    }

    /// Returns a directory that the principal may list and search; without search permission entries have no attributes.
    pub fn listable(&self, path: &NamePath) -> Result<VertexId> {
        let directory = self.resolver.directory(path)?;
        match path.handle() {
            Some(handle) if handle.read => {}
            Some(_) => return Err(Errno::BadHandle.at(path).into()),
            None => (directory.inode).demand(self.resolver.principal, READ, path.as_bytes())?,
        }
        directory.demand_search(self.resolver.principal)?;
        Ok(directory.id)
    }

    /// Passes the entries of a directory to `sink`, as [`esker_model::namespace::Namespace::list`].
    pub(super) fn list(
        &self,
        path: &NamePath,
        after: Option<Cookie>,
        limit: usize,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let directory = self.listable(path)?;
        // Each entry is checked by its own mode, regardless of how the directory was opened.
        let any = NamePath::root();
        let mut error = FirstError::default();
        let listed = |rows: &dyn NameRows, key: &[u8], value: &[u8]| {
            let (cookie, mut entry) = entry(rows, key, value)?;
            entry.inode = self.visible_inode(&any, entry.inode)?;
            Ok((cookie, entry))
        };
        self.source()
            .entries(directory, after, limit, &mut |rows, key, value| {
                let listed = listed(rows, key, value);
                if listed.is_err() && self.source().is_stopped() {
                    return Flow::Continue(());
                }
                let (cookie, entry) = error.keep(listed)?;
                sink(cookie, entry)
            })?;
        error.into_result()?;
        self.demand_complete()
    }

    /// Returns a page of such a listing with at most `limit` entries, at least one, and whether there may be more.
    pub fn page(
        &self,
        path: &NamePath,
        after: Option<Cookie>,
        limit: usize,
    ) -> Result<(Vec<(Cookie, Entry)>, bool)> {
        let (mut entries, mut full) = (Vec::new(), false);
        self.list(path, after, limit, &mut |cookie, entry| {
            entries.push((cookie, entry));
            full = entries.len() >= limit;
            if full {
                return Flow::Break(());
            }
            Flow::Continue(())
        })?;
        Ok((entries, full))
    }

    /// Returns the space used by a file, or by a directory itself.
    pub fn usage(&self, path: &NamePath) -> Result<Usage> {
        let inode = self.stat(path, false)?;
        if inode.is_directory() {
            return self.usage_of(self.listable(path)?);
        }
        Ok(Usage {
            files: 1,
            directories: 0,
            bytes: inode.size,
            blocks: inode.blocks,
        })
    }

    fn usage_of(&self, directory: VertexId) -> Result<Usage> {
        let of = |measure| {
            let sum = self.source().sum(directory, measure);
            sum.map(|n| n.max(0).cast_unsigned())
        };
        Ok(Usage {
            files: of(Measure::Files)?,
            directories: of(Measure::Directories)?,
            bytes: of(Measure::Bytes)?,
            blocks: of(Measure::Blocks)?,
        })
    }

    /// Returns the space that each directory uses itself, and those of its subdirectories that the principal may list and
    /// search.
    pub fn usages(&self, directories: &[VertexId]) -> Result<Vec<DirectoryUsage>> {
        self.each(directories, |id| {
            let (own, children) = (self.usage_of(*id), self.source().children(*id));
            let (own, children) = (own?, children?);
            Ok((own, self.open_children(*id, children)?))
        })
    }

    fn open_children(
        &self,
        directory: VertexId,
        mut children: Vec<(VertexId, Name)>,
    ) -> Result<Vec<(VertexId, Name)>> {
        if is_superuser(self.resolver.principal) {
            return Ok(children);
        }
        let open = self.each(&children, |(id, name)| {
            // The name may have been removed or given to another file meanwhile.
            let found = rows::find(self.source(), directory, name)?;
            Ok(found.is_ok_and(|found| match found.dentry.inode {
                DentryInode::Inline(inode) => {
                    found.dentry.id == *id && inode.lets_walk(self.resolver.principal)
                }
                DentryInode::Linked(_) => false,
            }))
        })?;
        let mut open = open.into_iter();
        children.retain(|_| open.next().unwrap_or(false));
        Ok(children)
    }

    /// Returns the entry that a change is primarily about: its directory and the hash of its name. `None` if its path does
    /// not exist or is the root: then any engine may answer.
    pub fn target(&self, change: &Change) -> Result<Option<(VertexId, u64)>> {
        if let Some(handle) = change.path().handle() {
            // The location at the time of opening; the root has no directory.
            let target = (handle.directory, hash_of(&handle.name));
            return Ok((handle.id != root()).then_some(target));
        }
        let Some((parent, name)) = change.path().split() else {
            return Ok(None);
        };
        match self.directory(&NamePath::parse_deep(parent)?) {
            Ok(directory) => Ok(Some((directory, hash_of(&name)))),
            Err(Error::File(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns vertex and row of the entry at a path without symbolic links, if its attributes can be leased: a file with
    /// one name that is neither a directory nor a symbolic link.
    pub(super) fn leasable(
        &self,
        path: &NamePath,
        follow: bool,
    ) -> Result<Option<(VertexId, Vec<u8>)>> {
        let Reached::Entry(directory, name, Ok(found)) = self.reach(path, follow)? else {
            return Ok(None);
        };
        let DentryInode::Inline(inode) = &found.dentry.inode else {
            return Ok(None);
        };
        let plain = !matches!(inode.kind(), Kind::Directory | Kind::Symlink) && inode.links == 1;
        let straight = directory.path_of(&name) == path.as_bytes();
        let entry = dentry_key(directory.id, hash_of(&name), 0);
        Ok((plain && straight).then(|| (found.dentry.id, entry.to_vec())))
    }

    /// Checks vertices whose ids are not those of their names: a vertex may be a file that has or had this path. Returns the
    /// location record to be written if it is missing.
    pub fn check_file_names(
        &self,
        vertices: &[(VertexRef, &str)],
    ) -> Result<Vec<Result<Option<PlannedRow>>>> {
        let schema = self.engine.schema_now();
        self.each(vertices, |(vertex, key)| {
            let Err(refused) = check_vertex(&schema, *vertex, key) else {
                return Ok(Ok(None));
            };
            let kind = file_kind(&schema, vertex.type_id);
            let Some(kind) = kind.filter(|_| esker_model::id::check_key(key).is_ok()) else {
                return Ok(Err(refused));
            };
            Ok(match is_file(&self.resolver, vertex.id, kind, key)? {
                IsFile::At(place) => {
                    let mut row = Vec::new();
                    place.encode(&mut row);
                    Ok(Some(PlannedRow {
                        key: location_key(vertex.id).to_vec(),
                        value: Some(row),
                        read: Some(digest(None)),
                    }))
                }
                IsFile::Recorded => Ok(None),
                IsFile::No => Err(refused),
            })
        })
    }

    /// Returns the visibility of vertices that may be files.
    pub fn visibility(&self, of: &[MaybeFile]) -> Result<Vec<FileVisibility>> {
        let schema = self.engine.schema_now();
        let (paths, principal) = (VertexPaths::new(self.source()), self.resolver.principal);
        self.each(of, |file| {
            let vertex = file.vertex.as_ref().map(|(t, key)| (*t, key.as_str()));
            let state = paths.state(&schema, file.id, vertex)?;
            Ok(FileVisibility {
                visible: sees(principal, &state.item(principal), None),
                key: state.key(principal),
            })
        })
    }
}

/// Decodes one row of a listing.
pub(super) fn entry(
    rows: &(impl NameRows + ?Sized),
    key: &[u8],
    value: &[u8],
) -> Result<(Cookie, Entry)> {
    let (_, hash, n) = decode_dentry_key(key).map_err(rows::corrupt)?;
    let dentry = Dentry::decode(value).map_err(rows::corrupt)?;
    let entry = match dentry.inode {
        DentryInode::Inline(inode) => Entry {
            name: dentry.name,
            inode,
        },
        DentryInode::Linked(_) => Entry {
            name: dentry.name.clone(),
            inode: rows::inode(rows, dentry)?,
        },
    };
    Ok((Cookie { hash, n }, entry))
}
