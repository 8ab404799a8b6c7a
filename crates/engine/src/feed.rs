//! The change feed: which vertices and edges commits have touched, for those who keep something derived from them.
//!
//! It is kept in memory, from when somebody first follows it, and says *what* to read again, not what it became. Who was away
//! for too long, or whose derived data a change touched as a whole, is told so and reads everything.

use crate::Engine;
use crate::object::object_of;
use crate::txn::lock;
use esker_model::key::{EdgeKey, RowKey};
use esker_model::{Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Table, WriteBatch};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
}

#[derive(Debug)]
struct Entry {
    touched: Vec<Touched>,
    late: Version,
    names: bool,
}

impl Feed {
    /// What a commit is about to touch, if anybody follows.
    pub(crate) fn gather<'w>(
        &self,
        batches: impl Iterator<Item = &'w WriteBatch>,
        fresh: impl Iterator<Item = VertexId>,
    ) -> Option<(Vec<Touched>, bool)> {
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
                Table::History => {
                    let id = write
                        .key
                        .first_chunk()
                        .filter(|_| write.key.get(16) != Some(&EDGE));
                    touched.extend(id.map(|id| Touched::Vertex(VertexId(*id))));
                }
                Table::Names if write.key.first() == Some(&WHEREABOUTS) => {
                    names = true;
                    let id = write.key.get(1..17).and_then(|id| id.try_into().ok());
                    touched.extend(id.map(|id| Touched::Vertex(VertexId(id))));
                }
                _ => {}
            }
        }
        Some((touched, names))
    }

    /// A commit is there, or may be.
    pub(crate) fn note(&self, touched: Vec<Touched>, late: Version, names: bool) {
        let mut inner = lock(&self.inner);
        inner.until += 1;
        inner.keys += touched.len() + 1;
        inner.entries.push_back(Entry {
            touched,
            late,
            names,
        });
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
        let first = inner.entries.len().checked_sub(behind)?;
        let mut news = News {
            until: inner.until,
            touched: Vec::new(),
            late: Version::MAX,
            names: false,
        };
        for entry in inner.entries.range(first..) {
            news.touched.extend(&entry.touched);
            news.late = news.late.min(entry.late);
            news.names |= entry.names;
        }
        Some(news)
    }

    /// Vertices of which the live store has rows of the past: what was superseded, or came late.
    pub fn vertices_with_past(&self) -> Result<Vec<VertexId>> {
        let mut all: Vec<VertexId> = Vec::new();
        self.store
            .scan(Table::History, &KeyRange::ALL, &mut |key, _| {
                if key.get(16) != Some(&EDGE)
                    && let Some(id) = key.first_chunk()
                    && all.last() != Some(&VertexId(*id))
                {
                    all.push(VertexId(*id));
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
            feed.gather(std::iter::empty(), std::iter::empty())
                .is_none(),
            "nobody follows"
        );
        let since = |feed: &Feed, place: u64| {
            let inner = lock(&feed.inner);
            inner.until - place <= inner.entries.len() as u64
        };
        feed.note(vec![vertex(1)], Version::MAX, false);
        feed.note(vec![vertex(2)], Version::MAX, false);
        assert!(since(&feed, 0) && since(&feed, 2));
        feed.note(vec![vertex(3); KEYS_MAX - 2], Version::MAX, false);
        assert!(!since(&feed, 1) && since(&feed, 2), "the oldest went");
        feed.lose();
        assert!(!since(&feed, 3) && since(&feed, 4));
    }
}
