//! The change feed: which vertices and edges commits have touched, for those who keep something derived from them.
//!
//! It is kept in memory, from when somebody first follows it, and says *what* to read again, not what it became. Who was away
//! for too long, or whose derived data a change touched as a whole, is told so and reads everything. [`kept`] has it on disk too, where
//! somebody wants that.

mod kept;

use crate::Engine;
use crate::object::object_of;
use crate::txn::lock;
use esker_model::key::{EDGE_KEY_BYTES, EdgeKey, RowKey};
use esker_model::namespace::record::{Dentry, is_dentry};
use esker_model::{Flow, Result, Schema, Version, VertexId};
use esker_store::{KeyRange, Table, WriteBatch};
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use kept::Kept;
pub use kept::Mark;

/// Keys that are remembered; whoever is further behind reads everything.
const KEYS_MAX: usize = 1 << 20;
/// Where a row of the namespace says where an inode is.
const WHEREABOUTS: u8 = 2;
/// What stands behind the id in a row of an edge.
const EDGE: u8 = 3;

/// What a commit touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touched {
    /// A vertex: what is said of it, or its name.
    Vertex(VertexId),
    /// An edge, in the direction of one of its rows.
    Edge(EdgeKey),
}

/// What was touched since a place of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The place up to which this tells.
    pub until: u64,
    /// What, in the order of the commits; things may stand there several times.
    pub touched: Vec<Touched>,
    /// The oldest version that was written to with a version of its own: what was as of then or later may have become
    /// something else.
    pub late: Version,
    /// Whether names of files changed.
    pub names: bool,
}

impl News {
    /// Each vertex and each edge once, in the order in which it first stands there; edges in their defined direction.
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

/// What commits touched, newest last.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    followed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The place after the newest entry.
    until: u64,
    entries: VecDeque<Entry>,
    keys: usize,
    kept: Kept,
}

/// What one commit touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) touched: Vec<Touched>,
    pub(crate) late: Version,
    pub(crate) names: bool,
}

impl Entry {
    /// Whether it tells nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.touched.is_empty() && self.late == Version::MAX
    }
}

impl News {
    fn add(&mut self, entry: &Entry) {
        self.touched.extend(&entry.touched);
        self.late = self.late.min(entry.late);
        self.names |= entry.names;
    }
}

impl Feed {
    /// What a commit is about to touch, if anybody follows.
    pub(crate) fn gather<'w>(
        &self,
        batches: impl Iterator<Item = &'w WriteBatch>,
        fresh: impl Iterator<Item = VertexId>,
        late: Version,
        is_vertex: impl Fn(VertexId) -> bool,
    ) -> Option<Entry> {
        if !self.followed.load(Ordering::Acquire) {
            return None;
        }
        let mut names = false;
        let mut touched: Vec<Touched> = fresh.map(Touched::Vertex).collect();
        for write in batches.flat_map(WriteBatch::iter) {
            match write.table {
                Table::Rows => match object_of(write.key) {
                    Some(id) => touched.push(Touched::Vertex(id.vertex())),
                    None => touched.extend(RowKey::decode(write.key).ok().map(|key| match key {
                        RowKey::Vertex(id) => Touched::Vertex(id),
                        RowKey::Edge(edge) => Touched::Edge(edge),
                    })),
                },
                // What came late changed only what was.
                Table::History => match past_of(write.key) {
                    Some(of) if touched.last() != Some(&of) => touched.push(of),
                    _ => {}
                },
                Table::Names if write.key.first() == Some(&WHEREABOUTS) => {
                    names = true;
                    let id = write.key.get(1..17).and_then(|id| id.try_into().ok());
                    touched.extend(id.map(|id| Touched::Vertex(VertexId(id))));
                }
                // What a file is stands beside its name, where it has only one.
                Table::Names if is_dentry(write.key) => {
                    let dentry = write.value.and_then(|row| Dentry::decode(row).ok());
                    let id = dentry.map(|d| d.id).filter(|id| is_vertex(*id));
                    touched.extend(id.map(Touched::Vertex));
                }
                _ => {}
            }
        }
        touched.sort_unstable();
        touched.dedup();
        Some(Entry {
            touched,
            late,
            names,
        })
    }

    /// A commit is there, or may be.
    pub(crate) fn note(&self, entry: Entry) {
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

    /// Something changed that cannot be listed: all who follow read everything.
    pub(crate) fn lose(&self) {
        let mut inner = lock(&self.inner);
        inner.until += 1;
        inner.entries.clear();
        inner.keys = 0;
    }
}

/// What a row of `history` is of.
fn past_of(key: &[u8]) -> Option<Touched> {
    if key.get(16) == Some(&EDGE) {
        let key = key.get(..EDGE_KEY_BYTES)?;
        return EdgeKey::decode(key).ok().map(Touched::Edge);
    }
    key.first_chunk().map(|id| Touched::Vertex(VertexId(*id)))
}

impl Engine {
    /// Begins to follow: the feed's present place. What is read from now on has all that was before.
    pub fn follow(&self) -> u64 {
        self.feed.followed.store(true, Ordering::Release);
        // A commit that is under way did not look yet, or is over once this lock is had.
        drop(lock(&self.writer));
        lock(&self.feed.inner).until
    }

    /// The feed's present place.
    pub fn place(&self) -> u64 {
        lock(&self.feed.inner).until
    }

    /// What was touched since a place; `None` if that cannot be told.
    pub fn news_since(&self, place: u64) -> Option<News> {
        let inner = lock(&self.feed.inner);
        let behind = usize::try_from(inner.until.checked_sub(place)?).ok()?;
        let mut news = News {
            until: inner.until,
            touched: Vec::new(),
            late: Version::MAX,
            names: false,
        };
        let first = if let Some(first) = inner.entries.len().checked_sub(behind) {
            first
        } else {
            let Kept::Since(head) = &inner.kept else {
                return None;
            };
            let places = place + 1..=inner.until - inner.entries.len() as u64;
            if !Feed::read(head, &*self.store, places, &mut news) {
                return None;
            }
            0
        };
        for entry in inner.entries.range(first..) {
            news.add(entry);
        }
        Some(news)
    }

    /// Vertices and edges of which the live store has rows of the past: what was superseded, or came late.
    pub fn with_past(&self) -> Result<Vec<Touched>> {
        let mut all: Vec<Touched> = Vec::new();
        self.store
            .scan(Table::History, &KeyRange::ALL, &mut |key, _| {
                if let Some(of) = past_of(key)
                    && all.last() != Some(&of)
                {
                    all.push(of);
                }
                Flow::Continue(())
            })?;
        Ok(all)
    }

    /// Reads while nobody writes.
    pub fn while_nobody_writes<T>(&self, read: impl FnOnce() -> T) -> T {
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
        assert!(
            feed.gather(std::iter::empty(), std::iter::empty(), Version::MAX, |_| {
                true
            })
            .is_none(),
            "nobody follows"
        );
        let since = |feed: &Feed, place: u64| {
            let inner = lock(&feed.inner);
            inner.until - place <= inner.entries.len() as u64
        };
        let note = |touched| {
            feed.note(Entry {
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
        feed.lose();
        assert!(!since(&feed, 3) && since(&feed, 4));
    }
}
