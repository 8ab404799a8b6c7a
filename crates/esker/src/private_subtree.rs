//! Private subtrees: directory trees that nobody else sees until they are merged (`IndexFS`'s bulk insertion; Ren, Zheng,
//! Patil & Gibson, SC 2014).
//!
//! A program that writes a new directory tree needs no call per file: the tree is kept in memory by the same code that
//! keeps the namespace, and is merged into the database in one call.

use crate::Database;
use crate::clock::SystemClock;
use crate::engine::{Engine, NoArchive, Settings};
use esker_model::namespace::{
    AppliedChange, Change, Content, Cookie, Entry, Errno, Inode, Kind, NamePath, Namespace,
    NewFile, Open, OpenLookup, Partition, SUBTREE_BYTES_MAX, SetAttributes, Space, SpaceBy, Usage,
    too_large,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, Result, VertexId};
use esker_store::memory::MemoryStore;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Estimated bytes of one change in a subtree, apart from names and contents.
const ENTRY_BYTES: usize = 32;

/// A directory and its descendants, built in memory.
///
/// It is a separate namespace: reads and changes stay local. Only paths inside the directory can be changed; outside, only
/// the ancestor directories exist, with their permissions. [`Self::merge`] brings all of it into the database at once.
/// A subtree that is dropped before it is merged leaves no trace.
pub struct PrivateSubtree<N: Namespace = Database> {
    files: N,
    principal: Option<Principal>,
    path: NamePath,
    local: Engine,
    /// Upper bound of the subtree's encoded size in bytes.
    bytes: AtomicUsize,
    bytes_max: usize,
    merged: bool,
}

impl<N: Namespace> fmt::Debug for PrivateSubtree<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Private")
            .field("path", &self.path)
            .field("merged", &self.merged)
            .finish_non_exhaustive()
    }
}

impl<N: Namespace> PrivateSubtree<N> {
    /// Creates a new directory at an unused path in an existing directory, with mode 755 and owned by the principal.
    pub fn new(files: N, principal: Option<Principal>, path: &NamePath) -> Result<Self> {
        let missing = files.stat(principal.as_ref(), path, false);
        match missing {
            Ok(_) => return Err(Errno::Exists.at(path).into()),
            Err(Error::File(e)) if e.errno == Errno::NotFound => {}
            Err(e) => return Err(e),
        }
        let local = Engine::open(
            Arc::new(MemoryStore::new()),
            Arc::new(SystemClock),
            Arc::new(NoArchive),
            Settings {
                adjacency_bytes: 1 << 20,
                row_cache_bytes: 1 << 20,
                // All rows stay in the memtable.
                memtable_bytes: usize::MAX,
                group_commits: false,
                ..Settings::default()
            },
        )?;
        let mut above = vec![NamePath::root()];
        for name in path.parent().names() {
            let next = above.last().map(|path| path.join(&name));
            above.extend(next);
        }
        for path in above {
            let inode = files.stat(principal.as_ref(), &path, true)?;
            if !inode.is_directory() {
                return Err(Errno::NotDirectory.at(&path).into());
            }
            let change = if path.is_root() {
                let set = SetAttributes {
                    mode: Some(inode.mode & !Kind::MASK),
                    uid: Some(inode.uid),
                    gid: Some(inode.gid),
                    ..SetAttributes::default()
                };
                Change::Set {
                    path,
                    follow: false,
                    set,
                }
            } else {
                Change::Create(path, NewFile::new(inode.mode, inode.uid, inode.gid))
            };
            apply_one(&local, None, change)?;
        }
        let uid = principal.as_ref().map_or(0, |a| a.uid);
        let gid = principal.as_ref().and_then(|a| a.gids.first().copied());
        let number =
            |n: i64| u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} is not a user id")));
        let make = NewFile::new(
            Kind::Directory.bits() | 0o755,
            number(uid)?,
            number(gid.unwrap_or(0))?,
        );
        apply_one(
            &local,
            principal.as_ref(),
            Change::Create(path.clone(), make),
        )?;
        Ok(Self {
            files,
            principal,
            path: path.clone(),
            local,
            bytes: AtomicUsize::new(0),
            bytes_max: SUBTREE_BYTES_MAX,
            merged: false,
        })
    }

    /// Limits the subtree to fewer bytes; a file takes about 30 bytes, its name, and what is stored with it.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max.min(SUBTREE_BYTES_MAX),
            ..self
        }
    }

    /// Path that the directory will have.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Brings the whole subtree into the database at one version, or none of it. Fails with `EEXIST` if the path is used by
    /// now, or with another error of the parent directory; the subtree is then unchanged and can be merged again. Times are
    /// those of the changes in the subtree; earlier states of its files are not kept.
    pub fn merge(&mut self) -> Result<AppliedChange> {
        self.check()?;
        let subtree = self.local.subtree(&self.path)?;
        let done = self
            .files
            .change(self.principal.as_ref(), &[Change::Merge(subtree)])?;
        let done = done.into_iter().next().unwrap_or_else(|| {
            Err(Error::Undecided(
                "the merge of a subtree got no answer; check whether it is there".into(),
            ))
        })?;
        self.merged = true;
        Ok(done)
    }

    fn check(&self) -> Result<()> {
        if self.merged {
            return Err(Error::Invalid(format!(
                "the private subtree {} was merged: its files are in the database",
                self.path
            )));
        }
        Ok(())
    }

    /// The principal of a call; by default the owner of the subtree.
    fn principal<'a>(&'a self, principal: Option<&'a Principal>) -> Option<&'a Principal> {
        principal.or(self.principal.as_ref())
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        let itself = |path: &NamePath| *path == self.path;
        let (paths, moves) = match change {
            Change::Rename { from, to, .. } | Change::Exchange { from, to } => {
                (vec![from, to], itself(from) || itself(to))
            }
            Change::Link { from, to } => (vec![from, to], false),
            Change::Unlink(path) | Change::Rmdir(path) => (vec![path], itself(path)),
            Change::Merge(_) => {
                return Err(Error::Invalid(
                    "a subtree is merged into the database, not into another subtree".into(),
                ));
            }
            other => (vec![other.path()], false),
        };
        if let Some(path) = paths.into_iter().find(|path| !path.within(&self.path)) {
            return Err(Error::Invalid(format!(
                "{path} is not in the private subtree {}: it is changed through the database",
                self.path
            )));
        }
        if moves {
            return Err(Errno::Busy.at(&self.path).into());
        }
        Ok(())
    }

    /// Reserves space in the size limit for changes.
    fn reserve(&self, changes: &[Change]) -> Result<()> {
        let more: usize = changes.iter().map(bytes).sum();
        // Removals are never refused for lack of space.
        if more == 0 {
            return Ok(());
        }
        let taken = self.bytes.fetch_add(more, Ordering::Relaxed) + more;
        if taken <= self.bytes_max {
            return Ok(());
        }
        // Later removals may have freed space: compute the exact size.
        let exact = match self.local.subtree(&self.path) {
            Ok(subtree) => subtree.as_bytes().len(),
            Err(Error::Limit { got, .. }) => usize::try_from(got).unwrap_or(usize::MAX),
            Err(e) => return Err(e),
        };
        self.bytes.store(exact, Ordering::Relaxed);
        if exact.saturating_add(more) > self.bytes_max - self.bytes_max / 8 {
            return Err(too_large(
                exact.saturating_add(more) as u64,
                self.bytes_max as u64,
            ));
        }
        Ok(())
    }
}

/// Upper bound of the bytes that a change adds to a subtree.
fn bytes(change: &Change) -> usize {
    let content = |content: &Content| match content {
        Content::None => 0,
        Content::Symlink(bytes) | Content::Inline(bytes) | Content::Object(bytes) => bytes.len(),
    };
    let name = |path: &NamePath| path.split_bytes().map_or(0, |(_, name)| name.len());
    if matches!(change, Change::Unlink(_) | Change::Rmdir(_)) {
        return 0;
    }
    ENTRY_BYTES
        + match change {
            Change::Create(path, make) => {
                let xattrs = make.xattrs.iter().map(|(n, v)| n.len() + v.len() + 8);
                name(path) + content(&make.content) + xattrs.sum::<usize>()
            }
            Change::Link { from, to } => from.as_bytes().len() + to.as_bytes().len(),
            Change::Rename { to, .. } => name(to),
            Change::Set { set, .. } => set.content.as_ref().map_or(0, content),
            Change::Xattr {
                path, name, value, ..
            } => path.as_bytes().len() + name.len() + value.as_ref().map_or(0, Vec::len),
            Change::Write { data, .. } => data.len(),
            Change::Exchange { .. } | Change::Unlink(_) | Change::Rmdir(_) | Change::Merge(_) => 0,
        }
}

fn apply_one(local: &Engine, principal: Option<&Principal>, change: Change) -> Result<()> {
    let done = local.change(principal, &[change])?;
    done.into_iter().try_for_each(|done| done.map(drop))
}

/// Calls without a principal act as the subtree's owner.
impl<N: Namespace> Namespace for PrivateSubtree<N> {
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.check()?;
        self.local.stat(self.principal(principal), path, follow)
    }

    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local
            .list(self.principal(principal), path, after, sink)
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local
            .walk(self.principal(principal), path, cancel, sink)
    }

    /// Changes the subtree. If one change is outside of it, or the size limit is reached, none is made.
    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.check()?;
        changes.iter().try_for_each(|c| self.check_change(c))?;
        self.reserve(changes)?;
        self.local.change(self.principal(principal), changes)
    }

    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        self.check()?;
        self.local.usage(self.principal(principal), path, below)
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local
            .usages(self.principal(principal), path, cancel, sink)
    }

    /// Always fails: after the merge an open file would be another file.
    fn resolve_open(&self, _: Option<&Principal>, path: &NamePath, _: Open) -> Result<OpenLookup> {
        Err(Errno::NotSupported
            .at(format!(
                "{path}: a private subtree; open its files once it is merged"
            ))
            .into())
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        self.check()?;
        self.local.space(by)
    }

    fn ids(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.check()?;
        self.local.ids(self.principal(principal), paths)
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.check()?;
        self.local.partitions(path)
    }
}

impl Database {
    /// Creates a private subtree for a principal; nobody else sees it until it is merged.
    pub fn private(
        &self,
        principal: Option<Principal>,
        path: &NamePath,
    ) -> Result<PrivateSubtree<Self>> {
        PrivateSubtree::new(self.clone(), principal, path)
    }
}
