//! An origin as a read-only namespace, for `esker mount --origin`.
//!
//! A file's id is a hash of its path. Handles identify a directory by id and a file in it by name, so only the paths of visited
//! directories are kept.

use esker_model::namespace::{
    AppliedChange, Change, Content, Cookie, Entry, Errno, Inode, Name, NamePath, Namespace, Open,
    OpenLookup, Partition, Space, SpaceBy, Usage, hash_of, root, tree_walk,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result, Version, VertexId};
use esker_origin::{DirEntry, OriginUrl, PathMetadata};
use esker_site::{Refused, RemoteFiles, TierAnswer};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A listing in the order of its cursors.
type SortedListing = Arc<Vec<(Cookie, Entry)>>;

/// A namespace of an origin's files below one path.
pub(crate) struct RemoteNamespace {
    client: RemoteFiles,
    place: OriginUrl,
    /// The directory that is shown as the root.
    top: Vec<u8>,
    /// Paths of visited directories by id, relative to `top`.
    directories: Mutex<HashMap<VertexId, Arc<[u8]>>>,
    /// The latest listing, whose rest the next call reads.
    listed: Mutex<Option<(Vec<u8>, SortedListing)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteNamespace {
    pub(crate) fn new(client: RemoteFiles, place: OriginUrl, top: Vec<u8>) -> Self {
        let top = if top == b"/" { Vec::new() } else { top };
        let directories = HashMap::from([(root(), Arc::from(&b""[..]))]);
        Self {
            client,
            place,
            top,
            directories: Mutex::new(directories),
            listed: Mutex::default(),
        }
    }

    /// Returns a path, or an open file's path, relative to `top`, which itself is empty.
    fn relative_path(&self, path: &NamePath) -> Result<Vec<u8>> {
        let Some(handle) = path.handle() else {
            let bytes = path.as_bytes();
            return Ok(if bytes == b"/" { &[] } else { bytes }.to_vec());
        };
        if handle.id == root() {
            return Ok(Vec::new());
        }
        let directory = lock(&self.directories).get(&handle.directory).cloned();
        let directory = directory.ok_or_else(|| Errno::Stale.at("a file that was open"))?;
        Ok([&directory, &b"/"[..], handle.name.as_bytes()].concat())
    }

    fn lookup(&self, relative_path: &[u8], wants: Wants) -> Result<PathMetadata> {
        let path = [&self.top, relative_path].concat();
        let path = if path.is_empty() { b"/" } else { &path[..] };
        let shown = String::from_utf8_lossy(path);
        let given = self.client.get(&self.place, path, wants, &NeverCancel);
        match given {
            Some(Ok(TierAnswer { found, .. })) => Ok(found),
            Some(Err(Refused::Denied(_))) => Err(Errno::Access.at(shown).into()),
            Some(Err(refused)) => Err(Error::Unavailable(refused.to_string())),
            None => Err(Error::Interrupted),
        }
    }

    fn inode(&self, relative_path: &[u8], of: &Attributes) -> Inode {
        let directory = of.kind == Kind::Directory;
        let more = |name: &str| super::attribute(of, name);
        let number = |name| more(name).and_then(|n| n.parse().ok());
        let target = more("target").unwrap_or_default();
        let (kind, usual) = match of.kind {
            Kind::Directory => (0o4_0000, 0o555),
            Kind::Link => (0o12_0000, 0o777),
            // An entry of unknown kind is shown as a file.
            Kind::File | Kind::Unknown | Kind::Other => (0o10_0000, 0o444),
        };
        let time = of.modified.unwrap_or(0);
        let id = if relative_path.is_empty() {
            root()
        } else {
            let path = [&self.top, relative_path].concat();
            VertexId::of(&self.place.to_string(), &String::from_utf8_lossy(&path))
        };
        if directory {
            lock(&self.directories)
                .entry(id)
                .or_insert_with(|| relative_path.into());
        }
        let size = of.size.unwrap_or(match of.kind {
            Kind::Link => target.len() as u64,
            _ => 0,
        });
        Inode {
            id,
            version: Version::ZERO,
            mode: kind | of.mode.unwrap_or(usual),
            uid: number("uid").unwrap_or_else(|| rustix::process::getuid().as_raw()),
            gid: number("gid").unwrap_or_else(|| rustix::process::getgid().as_raw()),
            links: if directory { 2 } else { 1 },
            size: if directory { 0 } else { size },
            blocks: size.div_ceil(512),
            rdev: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: 0,
            content: match of.kind {
                Kind::Link => Content::Symlink(target.as_bytes().to_vec()),
                _ => Content::None,
            },
            xattrs: Vec::new(),
            tracked: false,
        }
    }

    fn sorted_listing(&self, relative_path: &[u8]) -> Result<SortedListing> {
        let children = match self.lookup(relative_path, Wants::List)? {
            PathMetadata::Listing { children, .. } => children,
            PathMetadata::Present(_) => {
                return Err(Errno::NotDirectory
                    .at(String::from_utf8_lossy(relative_path))
                    .into());
            }
            PathMetadata::Absent => {
                return Err(Errno::NotFound
                    .at(String::from_utf8_lossy(relative_path))
                    .into());
            }
        };
        let entry = |child: &DirEntry| {
            // A name that is not valid in the namespace is skipped.
            let name = Name::new(&child.name).ok()?;
            let path = [relative_path, &b"/"[..], &child.name].concat();
            let inode = self.inode(&path, &child.attributes);
            let hash = hash_of(&name);
            Some((Cookie { hash, n: 0 }, Entry { name, inode }))
        };
        let mut all: Vec<(Cookie, Entry)> = children.iter().filter_map(entry).collect();
        all.sort_by(|(a, one), (b, two)| {
            (a.hash, one.name.as_bytes()).cmp(&(b.hash, two.name.as_bytes()))
        });
        let mut before: Option<Cookie> = None;
        for (cookie, _) in &mut all {
            if let Some(last) = before.filter(|last| last.hash == cookie.hash) {
                cookie.n = last.n.saturating_add(1);
            }
            before = Some(*cookie);
        }
        Ok(Arc::new(all))
    }
}

impl Namespace for RemoteNamespace {
    fn stat(&self, _: Option<&Principal>, path: &NamePath, _: bool) -> Result<Inode> {
        let relative_path = self.relative_path(path)?;
        match self.lookup(&relative_path, Wants::Stat)? {
            PathMetadata::Absent => Err(Errno::NotFound.at(path).into()),
            PathMetadata::Present(of) | PathMetadata::Listing { attributes: of, .. } => {
                Ok(self.inode(&relative_path, &of))
            }
        }
    }

    fn list(
        &self,
        _: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let relative_path = self.relative_path(path)?;
        let known = lock(&self.listed).clone();
        let all = match (known, after) {
            (Some((path, all)), Some(_)) if path == relative_path => all,
            _ => {
                let all = self.sorted_listing(&relative_path)?;
                *lock(&self.listed) = Some((relative_path, Arc::clone(&all)));
                all
            }
        };
        let from = all.partition_point(|(cookie, _)| after.is_some_and(|after| *cookie <= after));
        for (cookie, entry) in all.iter().skip(from) {
            if sink(*cookie, entry.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        tree_walk::walk(self, principal, path, cancel, sink)
    }

    fn change(
        &self,
        _: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        let refused = |change: &Change| Err(Errno::NotPermitted.at(change.path()).into());
        Ok(changes.iter().map(refused).collect())
    }

    fn usage(&self, _: Option<&Principal>, _: &NamePath, _: bool) -> Result<Usage> {
        Ok(Usage::default())
    }

    fn usages(
        &self,
        _: Option<&Principal>,
        _: &NamePath,
        _: &dyn Cancel,
        _: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        Ok(())
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        _: Open,
    ) -> Result<OpenLookup> {
        let inode = self.stat(principal, path, false)?;
        Ok(OpenLookup::Found(path.clone(), Box::new(inode)))
    }

    fn space(&self, _: SpaceBy) -> Result<Vec<Space>> {
        Ok(Vec::new())
    }

    fn partitions(&self, _: &NamePath) -> Result<Vec<Partition>> {
        Ok(Vec::new())
    }
}
