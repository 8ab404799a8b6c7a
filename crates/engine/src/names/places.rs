//! From a vertex back to its paths: where a file is now, and who gets there.
//!
//! A file that was renamed, has several names, or got its id otherwise than from its path has whereabouts. Any other lies
//! where the path that it was made at led to: in the directory that has claimed the path above it.

use super::rows::{self, Rows};
use esker_model::namespace::record::claim_key;
use esker_model::namespace::{Inode, Kind, Name, NamePath, display, id_at, root};
use esker_model::object::Asker;
use esker_model::visibility::{Access, READ, SEARCH};
use esker_model::{Result, VertexId};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// More directories above each other than a sound tree has.
const DEPTH_MAX: usize = 1 << 16;

/// A directory with those above it.
#[derive(Debug)]
pub(crate) struct Above {
    parent: Option<Rc<Self>>,
    inode: Inode,
    path: Vec<u8>,
    /// Whether the asker gets into it.
    open: OnceCell<bool>,
}

impl Above {
    fn open(&self, asker: Option<&Asker>) -> bool {
        // Those above were asked first: they are as many as a path has parts, not to be recursed through.
        let mut way = Vec::new();
        let mut next = Some(self);
        while let Some(directory) = next.filter(|d| d.open.get().is_none()) {
            way.push(directory);
            next = directory.parent.as_deref();
        }
        let mut open = next.and_then(|d| d.open.get().copied()).unwrap_or(true);
        for directory in way.into_iter().rev() {
            open = open && Access::of_file(&directory.inode).lets(asker, SEARCH);
            let _ = directory.open.set(open);
        }
        open
    }
}

/// Where a file is, under all its names, and what it is.
pub(crate) struct Place {
    names: Vec<(Rc<Above>, Name)>,
    inode: Inode,
}

impl Place {
    /// Whether someone may read it: its mode bits let them, and they get to it by one of its names.
    fn readable(&self, asker: Option<&Asker>) -> bool {
        Access::of_file(&self.inode).lets(asker, READ)
            && (self.names.is_empty() || self.names.iter().any(|(d, _)| d.open(asker)))
    }

    /// What it is.
    pub(crate) fn into_inode(self) -> Inode {
        self.inode
    }

    /// All its paths.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        if self.names.is_empty() {
            return vec![b"/".to_vec()];
        }
        self.names
            .iter()
            .map(|(d, name)| below(&d.path, name))
            .collect()
    }

    /// Its path: where it has several, the first that someone gets to.
    fn path(&self, asker: Option<&Asker>) -> Vec<u8> {
        let open = self.names.iter().find(|(d, _)| d.open(asker));
        open.or(self.names.first())
            .map_or_else(|| b"/".to_vec(), |(d, name)| below(&d.path, name))
    }
}

fn below(directory: &[u8], name: &Name) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.as_bytes().len());
    if directory != b"/" {
        path.extend_from_slice(directory);
    }
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    path
}

/// A path as the key of a vertex: as it is, or, where it is no UTF-8, as a person reads it.
pub(crate) fn key_of(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap_or_else(|e| display(e.as_bytes()).to_string())
}

/// What is known of a vertex as a file.
pub(crate) enum Known {
    /// The namespace knows nothing of it.
    Nothing,
    /// It was removed; this is where it was, and what.
    Gone(Place),
    /// It is here.
    Here(Place),
    /// Rows contradict each other: nobody can tell who may see it.
    Lost,
}

impl Known {
    /// Whether someone may know of the vertex: a file is seen by those who may read it, or might when it was removed.
    pub(crate) fn shows(&self, asker: Option<&Asker>) -> bool {
        match self {
            Self::Nothing => true,
            Self::Lost => Asker::limited(asker).is_none(),
            Self::Here(place) | Self::Gone(place) => place.readable(asker),
        }
    }

    /// The key that the vertex goes by for someone, if it is a file that is there: its present path.
    pub(crate) fn key(&self, asker: Option<&Asker>) -> Option<String> {
        match self {
            Self::Here(place) => Some(key_of(place.path(asker))),
            Self::Nothing | Self::Gone(_) | Self::Lost => None,
        }
    }
}

/// Places of vertices at one moment. What was found out about the way to a file holds for one asker.
pub(crate) struct Places<'r, R: ?Sized> {
    rows: &'r R,
    directories: RefCell<HashMap<VertexId, Option<Rc<Above>>>>,
    /// Who has claimed which path.
    claims: RefCell<HashMap<VertexId, Option<VertexId>>>,
}

impl<'r, R: Rows + ?Sized> Places<'r, R> {
    pub(crate) fn new(rows: &'r R) -> Self {
        Self {
            rows,
            directories: RefCell::default(),
            claims: RefCell::default(),
        }
    }

    /// Where the file is whose vertex that is; `key` is the one that the vertex was made with.
    pub(crate) fn of(&self, id: VertexId, kind: Kind, key: &str) -> Result<Known> {
        if id == root() {
            return Ok(Known::Here(Place {
                names: Vec::new(),
                inode: rows::root_inode(self.rows)?,
            }));
        }
        if let Some(known) = self.by_whereabouts(id)? {
            return Ok(known);
        }
        self.by_claim(id, kind, key)
    }

    /// The path of a directory, if rows say it.
    pub(crate) fn directory(&self, id: VertexId) -> Result<Option<Vec<u8>>> {
        Ok(self.above(id)?.map(|above| above.path.clone()))
    }

    /// The same for a file that has whereabouts.
    pub(crate) fn by_whereabouts(&self, id: VertexId) -> Result<Option<Known>> {
        let Some(place) = rows::whereabouts(self.rows, id)? else {
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
            if let Some(above) = self.above(directory)? {
                names.push((above, name));
            }
        }
        // A row that only says that something left it tells nothing.
        let Some(inode) = inode.filter(|_| !names.is_empty()) else {
            return Ok(somewhere.then_some(Known::Lost));
        };
        let found = Place { names, inode };
        Ok(Some(if place.gone {
            Known::Gone(found)
        } else {
            Known::Here(found)
        }))
    }

    fn by_claim(&self, id: VertexId, kind: Kind, key: &str) -> Result<Known> {
        let Ok(path) = NamePath::parse(key.as_bytes()) else {
            return Ok(Known::Nothing);
        };
        let Some((parent, name)) = path.split() else {
            return Ok(Known::Nothing);
        };
        if path.as_bytes() != key.as_bytes() || id_at(kind, path.as_bytes()) != id {
            return Ok(Known::Nothing);
        }
        let Some(directory) = self.claimer(id_at(Kind::Directory, parent))? else {
            return Ok(Known::Nothing);
        };
        let Ok(found) = rows::find(self.rows, directory, &name)? else {
            return Ok(Known::Nothing);
        };
        if found.dentry.id != id {
            return Ok(Known::Nothing);
        }
        let inode = rows::inode(self.rows, found.dentry)?;
        Ok(match self.above(directory)? {
            Some(above) => Known::Here(Place {
                names: vec![(above, name)],
                inode,
            }),
            None => Known::Lost,
        })
    }

    fn claimer(&self, path: VertexId) -> Result<Option<VertexId>> {
        if let Some(known) = self.claims.borrow().get(&path) {
            return Ok(*known);
        }
        let mut owner = None;
        self.rows.row(&claim_key(path), &mut |row| {
            owner = row.try_into().ok().map(VertexId);
        })?;
        self.claims.borrow_mut().insert(path, owner);
        Ok(owner)
    }

    /// A directory with those above it; one that is gone where it was. `None` where rows contradict each other.
    fn above(&self, directory: VertexId) -> Result<Option<Rc<Above>>> {
        let mut way = Vec::new();
        let mut next = directory;
        let mut known = loop {
            if let Some(known) = self.directories.borrow().get(&next) {
                break known.clone();
            }
            if next == root() {
                let above = Some(Rc::new(Above {
                    parent: None,
                    inode: rows::root_inode(self.rows)?,
                    path: b"/".to_vec(),
                    open: OnceCell::new(),
                }));
                self.directories.borrow_mut().insert(next, above.clone());
                break above;
            }
            let place = rows::whereabouts(self.rows, next)?;
            let first = place.and_then(|p| Some((p.names.into_iter().next()?, p.inode)));
            let Some(((parent, name), inode)) = first.filter(|_| way.len() < DEPTH_MAX) else {
                break None;
            };
            way.push((next, parent, name, inode));
            next = parent;
        };
        if known.is_none() {
            for (id, ..) in way {
                self.directories.borrow_mut().insert(id, None);
            }
            return Ok(None);
        }
        // All are read before any is needed: rows that lie elsewhere are fetched together.
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
        let way: Vec<Result<(VertexId, Name, Option<Inode>)>> =
            way.into_iter().rev().map(read).collect();
        for step in way {
            let (id, name, inode) = step?;
            known = match known {
                None => None,
                Some(above) => inode.map(|inode| {
                    Rc::new(Above {
                        path: below(&above.path, &name),
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
