//! Interned paths of origins.
//!
//! An origin (`sftp://host`) is a root; every other path is a name below another path. A path keeps its number as long as it is
//! interned, so that caches, queues and predictors are arrays and maps of numbers. A server removes unreferenced paths with
//! [`Paths::sweep`].

use crate::error::{Error, Result};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

/// Maximum length of a file name, in bytes.
pub const NAME_BYTES_MAX: usize = 4096;
/// Maximum depth of a path, in names.
pub const DEPTH_MAX: usize = 1024;

const NONE: u32 = u32::MAX;
/// Fixed hash seed, so that runs are deterministic.
const SEED: u64 = 0x5349_5445;

/// Number of an interned path. Numbers of removed paths are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub(crate) u32);

impl PathId {
    /// Returns the number as an array index: numbers are small and dense.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Node {
    parent: u32,
    first_child: u32,
    next: u32,
    previous: u32,
    /// Last name of the path; a root's is the origin.
    name: Box<[u8]>,
    used: bool,
}

/// All interned paths, as trees.
#[derive(Debug, Default)]
pub struct Paths {
    nodes: Vec<Node>,
    table: HashTable<u32>,
    free: Vec<u32>,
}

fn hash(parent: u32, name: &[u8]) -> u64 {
    FixedState::with_seed(SEED).hash_one((parent, name))
}

impl Paths {
    /// Creates an empty set of paths.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Whether there are no paths.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one more than the largest number assigned so far.
    pub fn bound(&self) -> usize {
        self.nodes.len()
    }

    /// Interns an origin; its root is the path `/`.
    pub fn origin(&mut self, origin: &str) -> PathId {
        PathId(self.add(NONE, origin.as_bytes()))
    }

    /// Interns the path `name` below `parent`.
    pub fn child(&mut self, parent: PathId, name: &[u8]) -> Result<PathId> {
        check_name(name)?;
        Ok(PathId(self.add(parent.0, name)))
    }

    /// Looks up the path `name` below `parent`, if it is interned.
    pub fn find_child(&self, parent: PathId, name: &[u8]) -> Option<PathId> {
        self.find(parent.0, name).map(PathId)
    }

    /// Interns a path below an origin. `/` and `//` separate names and `.` is skipped; `..` is refused, because only the origin
    /// knows where a link leads.
    pub fn intern(&mut self, origin: PathId, path: &[u8]) -> Result<PathId> {
        if path.first() != Some(&b'/') {
            return Err(bad(path, "it does not begin with /"));
        }
        let mut at = origin;
        let parts = path.split(|b| *b == b'/');
        for (depth, name) in parts.filter(|n| !n.is_empty() && *n != b".").enumerate() {
            if name == b".." {
                return Err(bad(
                    path,
                    ".. is not followed here; give the path without it",
                ));
            }
            if depth >= DEPTH_MAX {
                return Err(bad(path, "it is deeper than 1,024 names"));
            }
            at = self.child(at, name)?;
        }
        Ok(at)
    }

    /// Returns the parent directory; `None` for a root.
    pub fn parent(&self, path: PathId) -> Option<PathId> {
        let parent = self.nodes.get(path.index())?.parent;
        (parent != NONE).then_some(PathId(parent))
    }

    /// Returns the last name; a root's is the origin.
    pub fn name(&self, path: PathId) -> &[u8] {
        self.nodes.get(path.index()).map_or(&[], |n| &n.name)
    }

    /// Iterates over the path and its ancestors, upwards.
    pub fn upwards(&self, path: PathId) -> impl Iterator<Item = PathId> {
        std::iter::successors(Some(path), |p| self.parent(*p))
    }

    /// Returns the number of names below the root.
    pub fn depth(&self, path: PathId) -> usize {
        self.upwards(path).count().saturating_sub(1)
    }

    /// Whether `above` is `path` or an ancestor of it.
    pub fn covers(&self, above: PathId, path: PathId) -> bool {
        self.upwards(path).any(|p| p == above)
    }

    /// Iterates over the interned children of a path, the latest first.
    pub fn children(&self, path: PathId) -> impl Iterator<Item = PathId> {
        let first = self.nodes.get(path.index()).map_or(NONE, |n| n.first_child);
        let link = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(link(first), move |at| link(self.nodes[*at as usize].next))
            .map(PathId)
    }

    /// Returns the path, then all interned paths below it.
    pub fn subtree(&self, path: PathId) -> Vec<PathId> {
        let mut found = vec![path];
        let mut at = 0;
        while let Some(next) = found.get(at) {
            let next = *next;
            found.extend(self.children(next));
            at += 1;
        }
        found
    }

    /// Returns the path as its origin knows it.
    pub fn bytes(&self, path: PathId) -> Vec<u8> {
        let mut names: Vec<&[u8]> = self
            .upwards(path)
            .filter(|p| self.parent(*p).is_some())
            .map(|p| self.name(p))
            .collect();
        names.reverse();
        let mut whole = Vec::new();
        for name in &names {
            whole.push(b'/');
            whole.extend_from_slice(name);
        }
        if names.is_empty() {
            whole.push(b'/');
        }
        whole
    }

    /// Returns the path for display, without its origin.
    pub fn text(&self, path: PathId) -> String {
        String::from_utf8_lossy(&self.bytes(path)).into_owned()
    }

    /// Removes all paths except those for which `keep` is true and their ancestors; returns the number removed. Numbers of removed
    /// paths are reused, so `keep` must be true for every number in use.
    pub fn sweep(&mut self, keep: impl Fn(PathId) -> bool) -> usize {
        let mut stay = vec![false; self.nodes.len()];
        for at in 0..self.nodes.len() {
            if !self.nodes[at].used || !keep(PathId(at as u32)) {
                continue;
            }
            let mut above = at as u32;
            while above != NONE && !stay[above as usize] {
                stay[above as usize] = true;
                above = self.nodes[above as usize].parent;
            }
        }
        let before = self.free.len();
        for (at, stays) in stay.iter().enumerate() {
            if self.nodes[at].used && !stays {
                self.forget(at as u32);
            }
        }
        self.free.len() - before
    }

    fn forget(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let (parent, next, previous) = (node.parent, node.next, node.previous);
        let hashed = hash(parent, &node.name);
        if let Ok(found) = self.table.find_entry(hashed, |other| *other == at) {
            found.remove();
        }
        if previous != NONE {
            self.nodes[previous as usize].next = next;
        } else if parent != NONE {
            self.nodes[parent as usize].first_child = next;
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        let node = &mut self.nodes[at as usize];
        node.used = false;
        node.name = Box::default();
        (node.parent, node.next, node.previous, node.first_child) = (NONE, NONE, NONE, NONE);
        self.free.push(at);
    }

    fn find(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let same = |at: &u32| {
            let node = &self.nodes[*at as usize];
            node.parent == parent && *node.name == *name
        };
        self.table.find(hash(parent, name), same).copied()
    }

    fn add(&mut self, parent: u32, name: &[u8]) -> u32 {
        if let Some(found) = self.find(parent, name) {
            return found;
        }
        let next = match parent {
            NONE => NONE,
            _ => self.nodes[parent as usize].first_child,
        };
        let node = Node {
            parent,
            first_child: NONE,
            next,
            previous: NONE,
            name: name.into(),
            used: true,
        };
        let at = if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            at
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        if next != NONE {
            self.nodes[next as usize].previous = at;
        }
        if parent != NONE {
            self.nodes[parent as usize].first_child = at;
        }
        let nodes = &self.nodes;
        self.table
            .insert_unique(hash(parent, name), at, |other: &u32| {
                let node = &nodes[*other as usize];
                hash(node.parent, &node.name)
            });
        at
    }
}

/// Whether a name is a valid path component.
pub fn is_name(name: &[u8]) -> bool {
    check_name(name).is_ok()
}

fn check_name(name: &[u8]) -> Result<()> {
    let why = match name {
        b"" | b"." | b".." => "a name is neither empty nor . nor ..",
        _ if name.len() > NAME_BYTES_MAX => "a name is longer than 4,096 bytes",
        _ if name.iter().any(|b| *b == 0 || *b == b'/') => "a name holds / or a zero byte",
        _ => return Ok(()),
    };
    Err(bad(name, why))
}

fn bad(path: &[u8], why: &'static str) -> Error {
    let shown = &path[..path.len().min(120)];
    Error::Path {
        path: shown.escape_ascii().to_string(),
        why,
    }
}

/// Removes `.`, `..` and doubled `/` from a path of a trace, lexically.
pub fn lexical(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    let above = if path.first() == Some(&b'/') {
        &[][..]
    } else {
        directory
    };
    for name in above
        .split(|b| *b == b'/')
        .chain(path.split(|b| *b == b'/'))
    {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    let mut whole = Vec::with_capacity(path.len() + 1);
    for name in &names {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number() {
        let mut paths = Paths::new();
        let root = paths.origin("sftp://a");
        let one = paths.intern(root, b"/x/y").unwrap();
        assert_eq!(paths.intern(root, b"//x/./y/").unwrap(), one);
        assert_eq!(paths.text(one), "/x/y");
        assert_eq!(paths.intern(root, b"/").unwrap(), root);
        assert_eq!(paths.text(root), "/");
        let other = paths.origin("sftp://b");
        assert_ne!(paths.intern(other, b"/x/y").unwrap(), one);
        assert_eq!(paths.depth(one), 2);
        assert!(paths.covers(root, one) && !paths.covers(other, one));
    }

    #[test]
    fn what_no_origin_could_have_is_refused() {
        let mut paths = Paths::new();
        let root = paths.origin("sftp://a");
        for path in [&b"x"[..], b"", b"/a/../b", b"/a\0"] {
            assert!(paths.intern(root, path).is_err(), "{path:?}");
        }
        assert!(paths.intern(root, &b"/".repeat(70_000)).is_ok());
        assert!(paths.intern(root, &b"/a".repeat(2000)).is_err());
        let long = [b"/", &[b'a'; 5000][..]].concat();
        assert!(paths.intern(root, &long).is_err());
    }

    #[test]
    fn forgotten_numbers_are_given_again() {
        let mut paths = Paths::new();
        let root = paths.origin("sftp://a");
        let keep = paths.intern(root, b"/x/keep").unwrap();
        for i in 0..100 {
            paths.intern(root, format!("/x/{i}").as_bytes()).unwrap();
        }
        assert_eq!(paths.sweep(|p| p == keep), 100);
        assert_eq!(paths.len(), 3);
        let x = paths.parent(keep).unwrap();
        assert_eq!(paths.children(x).collect::<Vec<_>>(), [keep]);
        let bound = paths.bound();
        for i in 0..100 {
            paths.intern(root, format!("/y/{i}").as_bytes()).unwrap();
        }
        assert_eq!(paths.bound(), bound + 1);
        assert_eq!(paths.text(keep), "/x/keep");
    }

    #[test]
    fn dots_of_traces_go() {
        assert_eq!(lexical(b"/a/b", b"../c/./d"), b"/a/c/d");
        assert_eq!(lexical(b"/a/b", b"/x//y/.."), b"/x");
        assert_eq!(lexical(b"/", b"../.."), b"/");
    }
}
