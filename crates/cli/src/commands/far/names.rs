//! An origin as a namespace that nothing can be changed in: what `esker mount --origin` shows.
//!
//! A file's id is a hash of its path. Handles name a directory by id and a file in it by name, so that all that has to be known
//! is where directories are that somebody has looked at.

use esker_model::namespace::{
    Change, Content, Cookie, Done, Entry, Errno, Inode, Looked, Name, NamePath, Namespace, Open,
    Partition, Space, SpaceBy, Usage, below, hash_of, root,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result, Version, VertexId};
use esker_origin::{Found, Named, Place};
use esker_site::{Far, Given, Refused};
use esker_site_cache::entry::{Attributes, Kind, Wants};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A listing in the order in which it is read on.
type Sorted = Arc<Vec<(Cookie, Entry)>>;

/// An origin from a path on.
pub(crate) struct FarNames {
    far: Far,
    place: Place,
    /// Which directory is shown as the root.
    top: Vec<u8>,
    /// Where directories are, below the top.
    directories: Mutex<HashMap<VertexId, Arc<[u8]>>>,
    /// What was listed last: the rest of it is asked for next.
    listed: Mutex<Option<(Vec<u8>, Sorted)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FarNames {
    pub(crate) fn new(far: Far, place: Place, top: Vec<u8>) -> Self {
        let top = if top == b"/" { Vec::new() } else { top };
        let directories = HashMap::from([(root(), Arc::from(&b""[..]))]);
        Self {
            far,
            place,
            top,
            directories: Mutex::new(directories),
            listed: Mutex::default(),
        }
    }

    /// A path, or an open file's, below the top; the top itself is empty.
    fn below(&self, path: &NamePath) -> Result<Vec<u8>> {
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

    fn ask(&self, below: &[u8], wants: Wants) -> Result<Found> {
        let path = [&self.top, below].concat();
        let path = if path.is_empty() { b"/" } else { &path[..] };
        let shown = String::from_utf8_lossy(path);
        let given = self.far.get(&self.place, path, wants, &NeverCancel);
        match given {
            Some(Ok(Given { found, .. })) => Ok(found),
            Some(Err(Refused::Denied(_))) => Err(Errno::Access.at(shown).into()),
            Some(Err(refused)) => Err(Error::Unavailable(refused.to_string())),
            None => Err(Error::Interrupted),
        }
    }

    fn inode(&self, below: &[u8], of: &Attributes) -> Inode {
        let directory = of.kind == Kind::Directory;
        let more = |name: &str| super::more(of, name);
        let number = |name| more(name).and_then(|n| n.parse().ok());
        let target = more("target").unwrap_or_default();
        let (kind, usual) = match of.kind {
            Kind::Directory => (0o4_0000, 0o555),
            Kind::Link => (0o12_0000, 0o777),
            // What does not say what it is is mostly a file.
            Kind::File | Kind::Unknown | Kind::Other => (0o10_0000, 0o444),
        };
        let time = of.modified.unwrap_or(0);
        let id = if below.is_empty() {
            root()
        } else {
            let path = [&self.top, below].concat();
            VertexId::of(&self.place.to_string(), &String::from_utf8_lossy(&path))
        };
        if directory {
            lock(&self.directories)
                .entry(id)
                .or_insert_with(|| below.into());
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

    fn sorted(&self, below: &[u8]) -> Result<Sorted> {
        let children = match self.ask(below, Wants::List)? {
            Found::Listing { children, .. } => children,
            Found::Present(_) => {
                return Err(Errno::NotDirectory
                    .at(String::from_utf8_lossy(below))
                    .into());
            }
            Found::Absent => {
                return Err(Errno::NotFound.at(String::from_utf8_lossy(below)).into());
            }
        };
        let entry = |child: &Named| {
            // What can be no name here is not shown.
            let name = Name::new(&child.name).ok()?;
            let path = [below, &b"/"[..], &child.name].concat();
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

impl Namespace for FarNames {
    fn stat(&self, _: Option<&Asker>, path: &NamePath, _: bool) -> Result<Inode> {
        let below = self.below(path)?;
        match self.ask(&below, Wants::Stat)? {
            Found::Absent => Err(Errno::NotFound.at(path).into()),
            Found::Present(of) | Found::Listing { attributes: of, .. } => {
                Ok(self.inode(&below, &of))
            }
        }
    }

    fn list(
        &self,
        _: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let below = self.below(path)?;
        let known = lock(&self.listed).clone();
        let all = match (known, after) {
            (Some((path, all)), Some(_)) if path == below => all,
            _ => {
                let all = self.sorted(&below)?;
                *lock(&self.listed) = Some((below, Arc::clone(&all)));
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
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        below::walk(self, asker, path, cancel, sink)
    }

    fn change(&self, _: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        let refused = |change: &Change| Err(Errno::NotPermitted.at(change.path()).into());
        Ok(changes.iter().map(refused).collect())
    }

    fn usage(&self, _: Option<&Asker>, _: &NamePath, _: bool) -> Result<Usage> {
        Ok(Usage::default())
    }

    fn usages(
        &self,
        _: Option<&Asker>,
        _: &NamePath,
        _: &dyn Cancel,
        _: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        Ok(())
    }

    fn look(&self, asker: Option<&Asker>, path: &NamePath, _: Open) -> Result<Looked> {
        let inode = self.stat(asker, path, false)?;
        Ok(Looked::Found(path.clone(), Box::new(inode)))
    }

    fn space(&self, _: SpaceBy) -> Result<Vec<Space>> {
        Ok(Vec::new())
    }

    fn partitions(&self, _: &NamePath) -> Result<Vec<Partition>> {
        Ok(Vec::new())
    }
}
