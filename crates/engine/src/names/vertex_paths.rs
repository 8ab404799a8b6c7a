//! Paths of vertices: the present location of a file, and who may reach it.
//!
//! A file that was renamed, has several names, or has an id that is not derived from its path has a location record. Any other
//! is found at the path that it was made at: in the directory that owns the path of its parent.

use super::rows::{self, NameRows};
use esker_model::namespace::record::path_named_key;
use esker_model::namespace::{
    DEEP_PATH_BYTES_MAX, Inode, Kind, Name, NamePath, display, id_at, root,
};
use esker_model::object::Principal;
use esker_model::visibility::{Access, ItemAccess, SEARCH};
use esker_model::{Result, Schema, VertexId, VertexTypeId};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum depth of a directory; deeper chains indicate corruption.
const DEPTH_MAX: usize = DEEP_PATH_BYTES_MAX / 2;

/// The kind of file that vertices of a type represent: `File` includes all kinds but directories.
pub(crate) fn file_kind(schema: &Schema, type_id: VertexTypeId) -> Option<Kind> {
    let name = &schema.vertex_type(type_id)?.name;
    [Kind::File, Kind::Directory]
        .into_iter()
        .find(|kind| kind.type_name() == name)
}

/// A directory with its ancestors.
#[derive(Debug)]
pub(crate) struct AncestorDirectory {
    parent: Option<Rc<Self>>,
    inode: Inode,
    name: Option<Name>,
    /// Whether the principal may search the directory and all its ancestors.
    open: OnceCell<bool>,
}

impl Drop for AncestorDirectory {
    /// Frees the ancestors that only this directory has, one after the other: a deep tree would exhaust the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut directory) = next.and_then(Rc::into_inner) {
            next = directory.parent.take();
        }
    }
}

impl AncestorDirectory {
    fn with_ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |d| d.parent.as_deref())
    }

    /// Returns the path of an entry of this directory, or of the directory itself.
    fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        let above = self.with_ancestors().filter_map(|d| d.name.as_ref());
        let names: Vec<&Name> = name.into_iter().chain(above).collect();
        let mut path = Vec::with_capacity(names.iter().map(|n| n.as_bytes().len() + 1).sum());
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name.as_bytes());
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    fn open(&self, principal: Option<&Principal>) -> bool {
        // Ancestors are visited iteratively: a path may have too many parts for recursion.
        let mut chain = Vec::new();
        let mut next = Some(self);
        while let Some(directory) = next.filter(|d| d.open.get().is_none()) {
            chain.push(directory);
            next = directory.parent.as_deref();
        }
        let mut open = next.and_then(|d| d.open.get().copied()).unwrap_or(true);
        for directory in chain.into_iter().rev() {
            open = open && Access::of_file(&directory.inode).allows(principal, SEARCH);
            let _ = directory.open.set(open);
        }
        open
    }
}

/// All names of a file, and its inode.
pub(crate) struct FileLocation {
    names: Vec<(Rc<AncestorDirectory>, Name)>,
    inode: Inode,
}

impl FileLocation {
    /// Whether the principal can reach one of the file's names.
    fn reachable(&self, principal: Option<&Principal>) -> bool {
        self.names.is_empty() || self.names.iter().any(|(d, _)| d.open(principal))
    }

    /// Returns the inode of the file.
    pub(crate) fn into_inode(self) -> Inode {
        self.inode
    }

    /// All paths of the file.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        if self.names.is_empty() {
            return vec![b"/".to_vec()];
        }
        self.names
            .iter()
            .map(|(d, name)| d.path_of(Some(name)))
            .collect()
    }

    /// A path of the file: the first that the principal can reach.
    fn path(&self, principal: Option<&Principal>) -> Vec<u8> {
        let open = self.names.iter().find(|(d, _)| d.open(principal));
        open.or(self.names.first())
            .map_or_else(|| b"/".to_vec(), |(d, name)| d.path_of(Some(name)))
    }
}

/// Converts a path to the key of a vertex: unchanged, or escaped for display if it is not UTF-8.
pub(crate) fn key_of(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap_or_else(|e| display(e.as_bytes()).to_string())
}

/// State of a vertex as a file.
pub(crate) enum FileState {
    /// The namespace has no file with this id.
    Unknown,
    /// The file was removed; its last location and inode.
    Gone(FileLocation),
    /// The file exists.
    Live(FileLocation),
    /// Rows contradict each other: its visibility cannot be decided.
    Inconsistent,
}

impl FileState {
    /// Returns what decides whether the principal sees the vertex: a removed file as when it was removed.
    pub(crate) fn item(&self, principal: Option<&Principal>) -> ItemAccess {
        match self {
            Self::Unknown => ItemAccess::Vertex,
            Self::Inconsistent => ItemAccess::File {
                access: None,
                reachable: false,
            },
            Self::Live(place) | Self::Gone(place) => ItemAccess::File {
                access: Some(Access::of_file(&place.inode)),
                reachable: place.reachable(principal),
            },
        }
    }

    /// Returns the present path as the key of the vertex, if it is a live file. A removed file has its last path for a principal that does
    /// not see everything: the stored key may name directories that are closed to it.
    pub(crate) fn key(&self, principal: Option<&Principal>) -> Option<String> {
        match self {
            Self::Live(place) => Some(key_of(place.path(principal))),
            Self::Gone(place) => {
                Principal::limited(principal).map(|limited| key_of(place.path(Some(limited))))
            }
            Self::Unknown | Self::Inconsistent => None,
        }
    }
}

/// Locations of vertices in one snapshot. Cached permissions on directories apply to one principal.
pub(crate) struct VertexPaths<'r, R: ?Sized> {
    rows: &'r R,
    directories: RefCell<HashMap<VertexId, Option<Rc<AncestorDirectory>>>>,
    /// Directories that own a path, by the id derived from the path.
    path_owners: RefCell<HashMap<VertexId, Option<VertexId>>>,
}

impl<'r, R: NameRows + ?Sized> VertexPaths<'r, R> {
    pub(crate) fn new(rows: &'r R) -> Self {
        Self {
            rows,
            directories: RefCell::default(),
            path_owners: RefCell::default(),
        }
    }

    /// Returns the state of any vertex as a file, given its type and key if it exists.
    pub(crate) fn state(
        &self,
        schema: &Schema,
        id: VertexId,
        vertex: Option<(VertexTypeId, &str)>,
    ) -> Result<FileState> {
        match vertex {
            Some((type_id, key)) => match file_kind(schema, type_id) {
                Some(kind) => self.of(id, kind, key),
                None => Ok(FileState::Unknown),
            },
            None => Ok(self.by_location_record(id)?.unwrap_or(FileState::Unknown)),
        }
    }

    /// Returns the state of a vertex as a file; `key` is the one that the vertex was created with.
    fn of(&self, id: VertexId, kind: Kind, key: &str) -> Result<FileState> {
        if id == root() {
            return Ok(FileState::Live(FileLocation {
                names: Vec::new(),
                inode: rows::root_inode(self.rows)?,
            }));
        }
        if let Some(known) = self.by_location_record(id)? {
            return Ok(known);
        }
        self.by_path(id, kind, key)
    }

    /// Returns the path of a directory, if the rows determine it.
    pub(crate) fn directory(&self, id: VertexId) -> Result<Option<Vec<u8>>> {
        Ok(self.ancestors(id)?.map(|above| above.path_of(None)))
    }

    /// Returns the state of a file that has a location record; `None` without one.
    fn by_location_record(&self, id: VertexId) -> Result<Option<FileState>> {
        let Some(place) = rows::location_record(self.rows, id)? else {
            return Ok(None);
        };
        let somewhere = !place.names.is_empty();
        let mut inode = place.inode;
        let mut names = Vec::with_capacity(place.names.len());
        for (directory, name) in place.names {
            if inode.is_none()
                && let Ok(found) = rows::find(self.rows, directory, &name)?
                && found.dentry.id == id
            {
                inode = Some(rows::inode(self.rows, found.dentry)?);
            }
            if let Some(above) = self.ancestors(directory)? {
                names.push((above, name));
            }
        }
        // A record that only says that an entry left the directory has no location.
        let Some(inode) = inode.filter(|_| !names.is_empty()) else {
            return Ok(somewhere.then_some(FileState::Inconsistent));
        };
        let found = FileLocation { names, inode };
        Ok(Some(if place.deleted {
            FileState::Gone(found)
        } else {
            FileState::Live(found)
        }))
    }

    fn by_path(&self, id: VertexId, kind: Kind, key: &str) -> Result<FileState> {
        let Ok(path) = NamePath::parse(key.as_bytes()) else {
            return Ok(FileState::Unknown);
        };
        let Some((parent, name)) = path.split() else {
            return Ok(FileState::Unknown);
        };
        if path.as_bytes() != key.as_bytes() || id_at(kind, path.as_bytes()) != id {
            return Ok(FileState::Unknown);
        }
        let Some(directory) = self.path_owner(id_at(Kind::Directory, parent))? else {
            return Ok(FileState::Unknown);
        };
        let Ok(found) = rows::find(self.rows, directory, &name)? else {
            return Ok(FileState::Unknown);
        };
        if found.dentry.id != id {
            return Ok(FileState::Unknown);
        }
        let inode = rows::inode(self.rows, found.dentry)?;
        Ok(match self.ancestors(directory)? {
            Some(above) => FileState::Live(FileLocation {
                names: vec![(above, name)],
                inode,
            }),
            None => FileState::Inconsistent,
        })
    }

    fn path_owner(&self, path: VertexId) -> Result<Option<VertexId>> {
        if let Some(known) = self.path_owners.borrow().get(&path) {
            return Ok(*known);
        }
        let mut owner = None;
        self.rows.row(&path_named_key(path), &mut |row| {
            owner = row.try_into().ok().map(VertexId);
        })?;
        self.path_owners.borrow_mut().insert(path, owner);
        Ok(owner)
    }

    /// Returns a directory with its ancestors; a removed one at its last location. `None` if rows contradict each other.
    fn ancestors(&self, directory: VertexId) -> Result<Option<Rc<AncestorDirectory>>> {
        let mut chain = Vec::new();
        let mut next = directory;
        let mut known = loop {
            if let Some(known) = self.directories.borrow().get(&next) {
                break known.clone();
            }
            if next == root() {
                let above = Some(Rc::new(AncestorDirectory {
                    parent: None,
                    inode: rows::root_inode(self.rows)?,
                    name: None,
                    open: OnceCell::new(),
                }));
                self.directories.borrow_mut().insert(next, above.clone());
                break above;
            }
            let place = rows::location_record(self.rows, next)?;
            let first = place.and_then(|p| Some((p.names.into_iter().next()?, p.inode)));
            let Some(((parent, name), inode)) = first.filter(|_| chain.len() < DEPTH_MAX) else {
                break None;
            };
            chain.push((next, parent, name, inode));
            next = parent;
        };
        if known.is_none() {
            for (id, ..) in chain {
                self.directories.borrow_mut().insert(id, None);
            }
            return Ok(None);
        }
        // All rows are read before the first error is returned: remote rows are fetched together.
        let read = |(id, parent, name, last): (VertexId, VertexId, Name, Option<Inode>)| {
            let inode = match last {
                Some(inode) => Some(inode),
                None => match rows::find(self.rows, parent, &name)? {
                    Ok(found) if found.dentry.id == id => {
                        Some(rows::inode(self.rows, found.dentry)?)
                    }
                    _ => None,
                },
            };
            Ok((id, name, inode))
        };
        let chain: Vec<Result<(VertexId, Name, Option<Inode>)>> =
            chain.into_iter().rev().map(read).collect();
        for step in chain {
            let (id, name, inode) = step?;
            known = match known {
                None => None,
                Some(above) => inode.map(|inode| {
                    Rc::new(AncestorDirectory {
                        name: Some(name),
                        parent: Some(above),
                        inode,
                        open: OnceCell::new(),
                    })
                }),
            };
            self.directories.borrow_mut().insert(id, known.clone());
        }
        Ok(known)
    }
}
