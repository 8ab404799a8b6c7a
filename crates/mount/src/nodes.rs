//! Nodes: the files that the kernel knows, by their inode numbers.
//!
//! An inode number is half of the file's id, so it is the same in every mount. If two files have the same half, the
//! second one gets the next free number.

use crate::attributes;
use crate::content::Opened;
use esker_model::VertexId;
use esker_model::namespace::{
    ACL_DEFAULT, Content, DEEP_PATH_BYTES_MAX, Errno, FileError, Handle, Inode, Kind, Name,
    NamePath, PATH_BYTES_MAX, SEAL_BYTES, root,
};
use esker_model::version::Version;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Inode number of the root directory.
pub(crate) const ROOT: u64 = 1;
/// Lowest inode number of a file. Lower ones are those of the root directory and of views.
pub(crate) const VIEW_NUMBERS: u64 = 1 << 32;
const SHARDS: usize = 64;
/// Longest time between two ticks of the kernel, in nanoseconds.
const TICK: i64 = 10_000_000;
/// Largest number of names remembered of one file.
const NAMES_MAX: usize = 8;

/// A file that the kernel knows.
#[derive(Debug)]
pub(crate) struct Node {
    /// Inode number of the file.
    pub(crate) number: u64,
    /// Id of the file.
    pub(crate) id: VertexId,
    /// Kind of the file, which never changes.
    pub(crate) kind: Kind,
    state: Mutex<State>,
    /// The open content; locked while the file is opened, closed or written back.
    opened: Mutex<Option<Opened>>,
}

impl Drop for Node {
    /// Frees the directories that only this node has, one after the other: a deep tree would exhaust the stack.
    fn drop(&mut self) {
        let mut left: Vec<(Arc<Self>, Name)> = std::mem::take(&mut self.state.get_mut().names);
        while let Some((directory, _)) = left.pop() {
            if let Some(mut directory) = Arc::into_inner(directory) {
                left.append(&mut directory.state.get_mut().names);
            }
        }
    }
}

/// Cached knowledge of a file.
#[derive(Debug, Default)]
pub(crate) struct State {
    lookups: u64,
    /// Directories that contain the file, with its names there; the last used first.
    names: Vec<(Arc<Node>, Name)>,
    /// Path of a directory, with the number of directory moves when it was computed.
    path: Option<(u64, NamePath)>,
    /// Version of the attributes that the kernel was last told.
    pub(crate) reported: Option<Version>,
    /// The version whose content is in the kernel's page cache.
    pub(crate) cached: Option<Version>,
    /// Path of the object with the content, if known.
    pub(crate) object: Option<Box<[u8]>>,
    /// Whether the file has no name any more.
    pub(crate) unlinked: bool,
    /// Number of names, as far as known.
    pub(crate) links: u32,
    /// Whether the file has set-user-id or set-group-id bits.
    pub(crate) privileged: bool,
    /// Whether files created in this directory inherit its group, or its default access list.
    pub(crate) inherits: bool,
    /// Time at which the file was found to have no access control lists.
    pub(crate) without_acls: Option<Instant>,
}

impl Node {
    fn new(number: u64, id: VertexId, kind: Kind) -> Self {
        Self {
            number,
            id,
            kind,
            state: Mutex::default(),
            opened: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn opened(&self) -> MutexGuard<'_, Option<Opened>> {
        self.opened.lock()
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Returns the path form of a handle with all rights: the caller's rights were checked before.
    pub(crate) fn handle(&self) -> NamePath {
        if self.id == root() {
            return NamePath::root();
        }
        let state = self.state();
        let place = state.names.first().map(|(d, name)| (d.id, name.clone()));
        drop(state);
        let (directory, name) = match place {
            Some(place) => place,
            // The file is looked up by its id then.
            None => match Name::new(b"?") {
                Ok(name) => (root(), name),
                Err(_) => return NamePath::root(),
            },
        };
        Handle {
            id: self.id,
            directory,
            name,
            born: 0,
            read: true,
            write: true,
            seal: [0; SEAL_BYTES],
        }
        .path()
    }

    /// Returns the number of the parent directory.
    pub(crate) fn parent_number(&self) -> u64 {
        let state = self.state();
        let above = state.names.first();
        above.map_or(ROOT, |(directory, _)| directory.number)
    }

    /// Updates the cached knowledge from the current attributes.
    pub(crate) fn note(&self, inode: &Inode) {
        let mut state = self.state();
        state.reported = Some(inode.version);
        state.unlinked = inode.links == 0;
        state.links = inode.links;
        state.privileged = inode.kind() == Kind::File && inode.mode & 0o6000 != 0;
        let has = |acl: &[u8]| inode.xattrs.iter().any(|(name, _)| name == acl);
        let inherited = has(ACL_DEFAULT);
        state.inherits = inode.is_directory() && (inode.mode & 0o2000 != 0 || inherited);
        state.without_acls = (!inode.has_acl()).then(Instant::now);
        state.object = match &inode.content {
            Content::Object(path) => Some(path.as_slice().into()),
            _ => None,
        };
    }
}

impl State {
    /// Returns the time of a write, in nanoseconds since 1970, from the time of the backing file. The clock of files is up to a tick
    /// of the kernel behind the clock that gave the last change its version; a write that follows the change is not older.
    pub(crate) fn time_of_write(&self, mtime: i64) -> i64 {
        let last = self.reported.map_or(mtime, attributes::of_version);
        if (0..=TICK).contains(&last.saturating_sub(mtime)) {
            last
        } else {
            mtime
        }
    }

    /// Returns the last used name.
    fn first_name(&self) -> Result<&Name, FileError> {
        let first = self.names.first().map(|(_, name)| name);
        first.ok_or_else(|| Errno::Stale.at("a directory that no longer has a path"))
    }

    /// Adds a name; replaces the others unless the file may have several.
    pub(crate) fn add_name(&mut self, directory: &Arc<Node>, name: &Name, links: u32) {
        let same = |(d, n): &(Arc<Node>, Name)| d.number == directory.number && n == name;
        if self.names.first().is_some_and(same) {
            return;
        }
        if links < 2 {
            self.names.clear();
        }
        self.names.retain(|known| !same(known));
        self.names.truncate(NAMES_MAX - 1);
        self.names.insert(0, (Arc::clone(directory), name.clone()));
        self.path = None;
    }

    /// Removes a name. The last known one stays as a starting point for look-ups.
    pub(crate) fn remove_name(&mut self, directory: &Node, name: &Name) {
        if self.names.len() > 1 {
            self.names
                .retain(|(d, n)| d.number != directory.number || n != name);
        }
    }

    /// Replaces a name by another.
    pub(crate) fn rename(&mut self, from: (&Node, &Name), to: (&Arc<Node>, &Name)) {
        self.names
            .retain(|(d, n)| d.number != from.0.number || n != from.1);
        self.names.insert(0, (Arc::clone(to.0), to.1.clone()));
        self.path = None;
    }
}

/// All nodes of a mount.
#[derive(Debug)]
pub(crate) struct Nodes {
    shards: [Mutex<HashMap<u64, Arc<Node>>>; SHARDS],
    root: Arc<Node>,
    /// Numbers of files whose own number was taken.
    collided: Mutex<HashMap<VertexId, u64>>,
    collisions: AtomicUsize,
    /// Number of directory moves so far; paths computed before the last one are invalid.
    moved: AtomicU64,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            root: Arc::new(Node::new(ROOT, root(), Kind::Directory)),
            collided: Mutex::default(),
            collisions: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
        }
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Arc<Node>>> {
        self.shards[(number % SHARDS as u64) as usize].lock()
    }

    /// Returns the node with this number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Node>> {
        if number == ROOT {
            return Some(Arc::clone(&self.root));
        }
        self.shard(number).get(&number).cloned()
    }

    /// Returns the number of a file, or the one that it would get if that is free.
    pub(crate) fn number_of(&self, id: VertexId) -> u64 {
        if id == root() {
            return ROOT;
        }
        if self.collisions.load(Ordering::Acquire) > 0
            && let Some(number) = self.collided.lock().get(&id)
        {
            return *number;
        }
        let half =
            id.0.last_chunk()
                .map_or(0, |half| u64::from_be_bytes(*half));
        if half < VIEW_NUMBERS {
            half | 1 << 63
        } else {
            half
        }
    }

    /// Returns the node of a file, if the kernel knows it.
    pub(crate) fn find(&self, id: VertexId) -> Option<Arc<Node>> {
        self.get(self.number_of(id)).filter(|node| node.id == id)
    }

    /// Counts a look-up by the kernel and returns the node, creating it if needed.
    pub(crate) fn remember(&self, inode: &Inode, directory: &Arc<Node>, name: &Name) -> Arc<Node> {
        let (id, kind) = (inode.id, inode.kind());
        if id == root() {
            return Arc::clone(&self.root);
        }
        let own = self.number_of(id);
        let mut number = own;
        loop {
            let mut shard = self.shard(number);
            let node = shard
                .entry(number)
                .or_insert_with(|| Arc::new(Node::new(number, id, kind)));
            if node.id == id {
                let mut state = node.state();
                state.lookups += 1;
                state.add_name(directory, name, inode.links);
                drop(state);
                let node = Arc::clone(node);
                drop(shard);
                if number != own {
                    self.collided.lock().insert(id, number);
                    self.collisions.fetch_add(1, Ordering::AcqRel);
                }
                return node;
            }
            drop(shard);
            number = number.wrapping_add(1).max(VIEW_NUMBERS);
        }
    }

    /// Creates the node of a file that this process opens without the kernel; it is removed on close.
    pub(crate) fn remember_open(&self, inode: &Inode, handle: Option<&Handle>) -> Arc<Node> {
        let directory = handle.map_or_else(root, |h| h.directory);
        let above = Arc::new(Node::new(ROOT, directory, Kind::Directory));
        let name = handle.map(|h| h.name.clone());
        // If the name is unknown, a placeholder is used and the file is looked up by its id.
        let Some(name) = name.or_else(|| Name::new(b"?").ok()) else {
            return Arc::clone(&self.root);
        };
        self.remember(inode, &above, &name)
    }

    /// Subtracts look-ups that the kernel has forgotten, and removes the node at zero.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        if number == ROOT {
            return;
        }
        let mut shard = self.shard(number);
        let Some(node) = shard.get(&number) else {
            return;
        };
        let mut state = node.state();
        state.lookups = state.lookups.saturating_sub(times);
        if state.lookups > 0 {
            return;
        }
        drop(state);
        let node = shard.remove(&number);
        drop(shard);
        if self.collisions.load(Ordering::Acquire) > 0
            && let Some(node) = node
            && self.collided.lock().remove(&node.id).is_some()
        {
            self.collisions.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Returns the number of nodes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Invalidates cached paths after a directory was moved.
    pub(crate) fn moved(&self) {
        self.moved.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the path of a directory, as far as this mount knows it.
    pub(crate) fn path(&self, directory: &Arc<Node>) -> Result<NamePath, FileError> {
        let moved = self.moved.load(Ordering::Acquire);
        let mut above: Vec<Arc<Node>> = Vec::new();
        let mut at = Arc::clone(directory);
        let mut path = loop {
            if at.number == ROOT {
                break NamePath::root();
            }
            let state = at.state();
            if let Some((then, path)) = &state.path
                && *then == moved
            {
                break path.clone();
            }
            let Some((parent, _)) = state.names.first() else {
                return Err(Errno::Stale.at("a directory that no longer has a path"));
            };
            let parent = Arc::clone(parent);
            drop(state);
            above.push(at);
            if above.len() > DEEP_PATH_BYTES_MAX / 2 {
                return Err(Errno::NameTooLong.at("a directory that is too deep"));
            }
            at = parent;
        };
        let mut above = above.into_iter().rev();
        for node in above.by_ref() {
            let mut state = node.state();
            path = joined(&path, state.first_name()?)?;
            if path.as_bytes().len() > PATH_BYTES_MAX {
                break;
            }
            state.path = Some((moved, path.clone()));
        }
        if above.len() == 0 {
            return Ok(path);
        }
        // Longer paths are not kept: those of a deep tree need memory that grows with the square of the depth.
        let mut bytes = path.as_bytes().to_vec();
        for node in above {
            bytes.push(b'/');
            bytes.extend_from_slice(node.state().first_name()?.as_bytes());
        }
        NamePath::parse_deep(&bytes)
    }

    /// Returns the path of an entry.
    pub(crate) fn entry(&self, directory: &Arc<Node>, name: &Name) -> Result<NamePath, FileError> {
        joined(&self.path(directory)?, name)
    }

    /// Returns the last known path of a file.
    pub(crate) fn file(&self, node: &Arc<Node>) -> Result<NamePath, FileError> {
        if node.is_directory() {
            return self.path(node);
        }
        let place = node.state().names.first().cloned();
        match place {
            Some((directory, name)) => self.entry(&directory, &name),
            None => Err(Errno::Stale.at("a file that no longer has a path")),
        }
    }
}

fn joined(path: &NamePath, name: &Name) -> Result<NamePath, FileError> {
    let joined = path.join(name);
    if joined.as_bytes().len() > DEEP_PATH_BYTES_MAX {
        return Err(Errno::NameTooLong.at(name));
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::namespace::NewFile;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn file(id: [u8; 16]) -> Inode {
        let make = NewFile::new(Kind::File.bits() | 0o644, 0, 0);
        Inode {
            id: VertexId(id),
            version: Version::ZERO,
            mode: make.mode,
            uid: 0,
            gid: 0,
            links: 1,
            size: 0,
            blocks: 0,
            rdev: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            content: Content::None,
            xattrs: Vec::new(),
            tracked: false,
        }
    }

    proptest! {
        /// After any sequence of look-ups and forgets, each known file has one number that no other file has, even if
        /// their halves are equal; a file that was forgotten as often as looked up is removed.
        #[test]
        fn numbers_are_of_one_file(steps in proptest::collection::vec((0_u8..6, 0_u8..2, any::<bool>()), 1..80)) {
            let nodes = Nodes::new();
            let root = nodes.get(ROOT).unwrap();
            let mut model: HashMap<[u8; 16], (u64, u64)> = HashMap::new();
            for (first, second, forget) in steps {
                let mut id = [second; 16];
                id[0] = first;
                if forget {
                    if let Some((number, times)) = model.get_mut(&id) {
                        nodes.forget(*number, 1);
                        *times -= 1;
                        if *times == 0 {
                            model.remove(&id);
                        }
                    }
                } else {
                    let name = Name::new(&[b'a' + first]).unwrap();
                    let node = nodes.remember(&file(id), &root, &name);
                    let known = model.entry(id).or_insert((node.number, 0));
                    prop_assert_eq!(known.0, node.number);
                    known.1 += 1;
                }
                prop_assert_eq!(nodes.len(), model.len());
                for (id, (number, _)) in &model {
                    prop_assert_eq!(nodes.get(*number).map(|n| n.id), Some(VertexId(*id)));
                    prop_assert_eq!(nodes.find(VertexId(*id)).map(|n| n.number), Some(*number));
                }
            }
        }
    }

    #[test]
    fn paths_follow_directories() {
        let nodes = Nodes::new();
        let root = nodes.get(ROOT).unwrap();
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let directory = |n: u8| Inode {
            mode: Kind::Directory.bits() | 0o755,
            links: 2,
            ..file([n; 16])
        };
        let a = nodes.remember(&directory(1), &root, &name("a"));
        let b = nodes.remember(&directory(2), &a, &name("b"));
        let path = |directory: &Arc<Node>| nodes.path(directory).unwrap().to_string();
        assert_eq!((path(&a), path(&b)), ("/a".into(), "/a/b".into()));
        a.state().rename((&root, &name("a")), (&root, &name("c")));
        nodes.moved();
        assert_eq!(path(&b), "/c/b");
        let f = nodes.remember(&file([3; 16]), &b, &name("f"));
        assert_eq!(nodes.file(&f).unwrap().to_string(), "/c/b/f");
        let handle = f.handle().handle().unwrap();
        assert_eq!((handle.id, handle.directory), (f.id, b.id));
    }
}
