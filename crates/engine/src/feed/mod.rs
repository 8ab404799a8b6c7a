//! The change feed: vertices and edges touched by commits, for consumers that maintain derived data.
//!
//! The feed is in memory, from the time of the first follower, and lists *what* to read again, not the new values. A follower
//! that is too far behind, or whose derived data is affected by an unlisted change, is told to read everything. [`persist`] optionally
//! stores the feed on disk.

mod persist;

use crate::Engine;
use crate::commit::ChangedRow;
use crate::txn::lock;
use esker_model::key::{EdgeKey, RowKey, vertex as vertex_key};
use esker_model::namespace::record::Dentry;
use esker_model::{Flow, Result, Schema, Version, VertexId};
use esker_store::{KeyRange, Store, Table};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub use persist::FeedMark;
use persist::Persistence;

/// Maximum number of keys in memory; followers that are further behind read everything.
const KEYS_MAX: usize = 1 << 20;

/// An item touched by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touched {
    /// A vertex whose attributes or name changed.
    Vertex(VertexId),
    /// An edge, in the direction of one of its rows.
    Edge(EdgeKey),
}

impl From<RowKey> for Touched {
    fn from(key: RowKey) -> Self {
        match key {
            RowKey::Vertex(id) => Self::Vertex(id),
            RowKey::Edge(edge) => Self::Edge(edge),
        }
    }
}

/// Changes since a position of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedChanges {
    /// Position up to which the changes are listed.
    pub until: u64,
    /// Touched items in the order of the commits, with duplicates.
    pub touched: Vec<Touched>,
    /// The oldest explicit version of a change: reads as of this version or later may have changed.
    pub late: Version,
    /// Whether names of files changed.
    pub names: bool,
}

impl FeedChanges {
    /// Returns each vertex and each edge once, in the order of first occurrence; edges in their defined direction.
    pub fn distinct(&self, schema: &Schema) -> (Vec<VertexId>, Vec<EdgeKey>) {
        let (mut vertices, mut edges) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for one in &self.touched {
            let one = match *one {
                Touched::Edge(key)
                    if schema.edge_type(key.edge_type).is_some_and(|t| !t.forward) =>
                {
                    Touched::Edge(EdgeKey {
                        source: key.destination,
                        edge_type: schema.inverse(key.edge_type),
                        destination: key.source,
                    })
                }
                one => one,
            };
            if seen.insert(one) {
                match one {
                    Touched::Vertex(id) => vertices.push(id),
                    Touched::Edge(key) => edges.push(key),
                }
            }
        }
        (vertices, edges)
    }
}

/// Items touched by commits, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    followed: AtomicBool,
    inner: Mutex<FeedState>,
}

#[derive(Debug, Default)]
struct FeedState {
    /// Position after the newest entry.
    until: u64,
    entries: VecDeque<FeedEntry>,
    keys: usize,
    persistence: Persistence,
}

/// Items touched by one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeedEntry {
    pub(crate) touched: Vec<Touched>,
    pub(crate) late: Version,
    pub(crate) names: bool,
}

impl FeedEntry {
    /// Whether the entry lists no change.
    pub(crate) fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.late == Version::MAX
    }
}

impl FeedChanges {
    fn add(&mut self, entry: &FeedEntry) {
        self.touched.extend(&entry.touched);
        self.late = self.late.min(entry.late);
        self.names |= entry.names;
    }
}

/// Collects the items that a commit touches.
pub(crate) struct FeedCollector<'s> {
    store: &'s dyn Store,
    /// Whether files may have vertices.
    file_vertices: bool,
    touched: Vec<Touched>,
    names: bool,
}

impl FeedCollector<'_> {
    /// Adds the item that a row belongs to.
    pub(crate) fn add(&mut self, row: ChangedRow<'_>) {
        let touched = match row {
            ChangedRow::Vertex(id) => Some(Touched::Vertex(id)),
            ChangedRow::Edge(key) => Some(Touched::Edge(key)),
            // Changes with older versions touch only rows of `history`.
            ChangedRow::History(key) => {
                let of = RowKey::of_history(key).map(Touched::from);
                of.filter(|of| self.touched.last() != Some(of))
            }
            ChangedRow::Location(id) => {
                self.names = true;
                Some(Touched::Vertex(id))
            }
            // The attributes of a file with one name are in its entry.
            ChangedRow::Dentry(_, row) => {
                let dentry = row.and_then(|row| Dentry::decode(row).ok());
                let id = dentry.map(|d| d.id).filter(|id| self.is_vertex(*id));
                id.map(Touched::Vertex)
            }
        };
        self.touched.extend(touched);
    }

    /// Whether a file has a vertex.
    fn is_vertex(&self, id: VertexId) -> bool {
        let read = || {
            self.store
                .get_with(Table::Rows, &vertex_key(id), &mut |_| {})
        };
        self.file_vertices && read().unwrap_or(true)
    }

    /// Returns the entry of the commit; `late` is the oldest explicit version of a change.
    pub(crate) fn finish(
        self,
        new_objects: impl Iterator<Item = VertexId>,
        late: Version,
    ) -> FeedEntry {
        let Self {
            mut touched, names, ..
        } = self;
        touched.extend(new_objects.map(Touched::Vertex));
        touched.sort_unstable();
        touched.dedup();
        FeedEntry {
            touched,
            late,
            names,
        }
    }
}

impl Feed {
    /// Whether anybody follows, or the feed is on disk.
    pub(crate) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Acquire)
    }

    /// Begins to collect the items that a commit is about to touch. `file_vertices` tells whether files may have vertices.
    pub(crate) fn collect(store: &Arc<dyn Store>, file_vertices: bool) -> FeedCollector<'_> {
        FeedCollector {
            store: &**store,
            file_vertices,
            touched: Vec::new(),
            names: false,
        }
    }

    /// Appends the entry of a commit that succeeded, or may have.
    pub(crate) fn append(&self, entry: FeedEntry) {
        let mut inner = lock(&self.inner);
        inner.until += 1;
        inner.keys += entry.touched.len() + 1;
        inner.entries.push_back(entry);
        while inner.keys > KEYS_MAX {
            let Some(oldest) = inner.entries.pop_front() else {
                break;
            };
            inner.keys -= oldest.touched.len() + 1;
        }
    }

    /// Records a change that cannot be listed: all followers must read everything.
    pub(crate) fn invalidate(&self) {
        let mut inner = lock(&self.inner);
        inner.until += 1;
        inner.entries.clear();
        inner.keys = 0;
    }
}

impl Engine {
    /// Starts following; returns the present position of the feed. Reads from now on include everything before it.
    pub fn follow(&self) -> u64 {
        self.feed.followed.store(true, Ordering::Release);
        // A commit in progress has not collected its items yet, or has ended once this lock is taken.
        drop(lock(&self.writer));
        lock(&self.feed.inner).until
    }

    /// The present position of the feed.
    pub fn feed_position(&self) -> u64 {
        lock(&self.feed.inner).until
    }

    /// Returns the changes since a position; `None` if they are not available any more.
    pub fn changes_since(&self, position: u64) -> Option<FeedChanges> {
        let inner = lock(&self.feed.inner);
        let behind = usize::try_from(inner.until.checked_sub(position)?).ok()?;
        let mut news = FeedChanges {
            until: inner.until,
            touched: Vec::new(),
            late: Version::MAX,
            names: false,
        };
        let first = if let Some(first) = inner.entries.len().checked_sub(behind) {
            first
        } else {
            let Persistence::On(head) = &inner.persistence else {
                return None;
            };
            let positions = position + 1..=inner.until - inner.entries.len() as u64;
            if !Feed::read(head, &*self.store, positions, &mut news) {
                return None;
            }
            0
        };
        for entry in inner.entries.range(first..) {
            news.add(entry);
        }
        Some(news)
    }

    /// Returns the vertices and edges with superseded versions in the live store.
    pub fn with_history(&self) -> Result<Vec<Touched>> {
        let mut all: Vec<Touched> = Vec::new();
        self.store
            .scan(Table::History, &KeyRange::ALL, &mut |key, _| {
                if let Some(of) = RowKey::of_history(key).map(Touched::from)
                    && all.last() != Some(&of)
                {
                    all.push(of);
                }
                Flow::Continue(())
            })?;
        Ok(all)
    }

    /// Runs `read` while writers are blocked.
    pub fn with_writers_blocked<T>(&self, read: impl FnOnce() -> T) -> T {
        let _writer = lock(&self.writer);
        read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex(n: u8) -> Touched {
        Touched::Vertex(VertexId([n; 16]))
    }

    #[test]
    fn it_tells_what_came_since_or_that_it_cannot() {
        let feed = Feed::default();
        assert!(!feed.is_followed());
        let since = |feed: &Feed, position: u64| {
            let inner = lock(&feed.inner);
            inner.until - position <= inner.entries.len() as u64
        };
        let note = |touched| {
            feed.append(FeedEntry {
                touched,
                late: Version::MAX,
                names: false,
            });
        };
        note(vec![vertex(1)]);
        note(vec![vertex(2)]);
        assert!(since(&feed, 0) && since(&feed, 2));
        note(vec![vertex(3); KEYS_MAX - 2]);
        assert!(!since(&feed, 1) && since(&feed, 2), "the oldest went");
        feed.invalidate();
        assert!(!since(&feed, 3) && since(&feed, 4));
    }
}
