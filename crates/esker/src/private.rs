//! A subtree that nobody else sees until it is merged (`IndexFS`'s bulk insertion; Ren, Zheng, Patil & Gibson, SC 2014).
//!
//! A program that writes a new directory tree has it to itself: nothing in it needs a call of its own. It is kept in memory, by the same
//! code that keeps the namespace, and comes into the database in one call.

use crate::Database;
use crate::clock::SystemClock;
use crate::engine::{Engine, NoArchive, Settings};
use esker_model::namespace::{
    Change, Content, Cookie, Done, Entry, Errno, Inode, Kind, Looked, Make, NamePath, Namespace,
    Open, Partition, SUBTREE_BYTES_MAX, SetAttributes, Space, SpaceBy, Usage, too_large,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, VertexId};
use esker_store::memory::MemoryStore;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Changes of which a note takes about so many bytes in a subtree.
const ENTRY_BYTES: usize = 32;

/// A directory that is made in memory, with all below it.
///
/// It is a namespace of its own: what it is asked for, and what is changed in it, goes nowhere. Only paths in it can be changed; of what is above
/// there are the directories that lead to it, with their permissions. [`Self::merge`] brings all of it into the database at once;
/// what is dropped without has never been.
pub struct Private<N: Namespace = Database> {
    files: N,
    asker: Option<Asker>,
    path: NamePath,
    local: Engine,
    /// What it takes as a subtree, at most.
    bytes: AtomicUsize,
    bytes_max: usize,
    merged: bool,
}

impl<N: Namespace> fmt::Debug for Private<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Private")
            .field("path", &self.path)
            .field("merged", &self.merged)
            .finish_non_exhaustive()
    }
}

impl<N: Namespace> Private<N> {
    /// A new directory at a path where there is nothing, in a directory that is there; of mode 755 and whoever asks.
    pub fn new(files: N, asker: Option<Asker>, path: &NamePath) -> Result<Self> {
        let missing = files.stat(asker.as_ref(), path, false);
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
                entries_bytes: 1 << 20,
                // All rows stay where they were put first.
                staged_bytes: usize::MAX,
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
            let inode = files.stat(asker.as_ref(), &path, true)?;
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
                Change::Make(path, Make::new(inode.mode, inode.uid, inode.gid))
            };
            one(&local, None, change)?;
        }
        let uid = asker.as_ref().map_or(0, |a| a.uid);
        let gid = asker.as_ref().and_then(|a| a.gids.first().copied());
        let number = |n: i64| {
            u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} is no number of a user")))
        };
        let make = Make::new(
            Kind::Directory.bits() | 0o755,
            number(uid)?,
            number(gid.unwrap_or(0))?,
        );
        one(&local, asker.as_ref(), Change::Make(path.clone(), make))?;
        Ok(Self {
            files,
            asker,
            path: path.clone(),
            local,
            bytes: AtomicUsize::new(0),
            bytes_max: SUBTREE_BYTES_MAX,
            merged: false,
        })
    }

    /// The same with room for fewer bytes; a file takes some 30, its name, and what is kept with it.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: bytes_max.min(SUBTREE_BYTES_MAX),
            ..self
        }
    }

    /// Where it is to be.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Brings all of it into the database: at once, at one version, or nothing of it. `EEXIST` if there is something by now, or
    /// another error of what it is to lie in; it stays as it is then, and can be merged again. Times are those of the changes
    /// in it; nothing is known of what its files were before.
    pub fn merge(&mut self) -> Result<Done> {
        self.check()?;
        let subtree = self.local.subtree(&self.path)?;
        let done = self
            .files
            .change(self.asker.as_ref(), &[Change::Merge(subtree)])?;
        let done = done.into_iter().next().unwrap_or_else(|| {
            Err(Error::Unavailable(
                "the merge of a subtree was not answered; look whether it is there".into(),
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

    /// Whoever asks for nobody asks for whom it belongs to.
    fn asker<'a>(&'a self, asker: Option<&'a Asker>) -> Option<&'a Asker> {
        asker.or(self.asker.as_ref())
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        let itself = |path: &NamePath| *path == self.path;
        let (paths, moves) = match change {
            Change::Rename { from, to, .. } => (vec![from, to], itself(from) || itself(to)),
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

    /// Takes room for changes.
    fn take_room(&self, changes: &[Change]) -> Result<()> {
        let more: usize = changes.iter().map(bytes).sum();
        // What only removes is never refused for want of room.
        if more == 0 {
            return Ok(());
        }
        let taken = self.bytes.fetch_add(more, Ordering::Relaxed) + more;
        if taken <= self.bytes_max {
            return Ok(());
        }
        // Much may have gone again.
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

/// What a change adds to a subtree, at most.
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
            Change::Make(path, make) => {
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
            Change::Unlink(_) | Change::Rmdir(_) | Change::Merge(_) => 0,
        }
}

fn one(local: &Engine, asker: Option<&Asker>, change: Change) -> Result<()> {
    let done = local.change(asker, &[change])?;
    done.into_iter().try_for_each(|done| done.map(drop))
}

/// Whoever asks for nobody asks for whom it belongs to.
impl<N: Namespace> Namespace for Private<N> {
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.check()?;
        self.local.stat(self.asker(asker), path, follow)
    }

    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local.list(self.asker(asker), path, after, sink)
    }

    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local.walk(self.asker(asker), path, cancel, sink)
    }

    /// Changes of the subtree. If one is refused because it is about something else, or there is no room, none is made.
    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        self.check()?;
        changes.iter().try_for_each(|c| self.check_change(c))?;
        self.take_room(changes)?;
        self.local.change(self.asker(asker), changes)
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        self.check()?;
        self.local.usage(self.asker(asker), path, below)
    }

    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        self.check()?;
        self.local.usages(self.asker(asker), path, cancel, sink)
    }

    /// None can be opened before it is merged: an open file would be another one then.
    fn look(&self, _: Option<&Asker>, path: &NamePath, _: Open) -> Result<Looked> {
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
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.check()?;
        self.local.ids(self.asker(asker), paths)
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.check()?;
        self.local.partitions(path)
    }
}

impl Database {
    /// A new directory that nobody else sees until it is merged, on behalf of somebody.
    pub fn private(&self, asker: Option<Asker>, path: &NamePath) -> Result<Private<Self>> {
        Private::new(self.clone(), asker, path)
    }
}
