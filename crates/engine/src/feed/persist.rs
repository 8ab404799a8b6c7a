//! The change feed on disk: items touched since derived data was last written, so that a later process can bring that data up to
//! date.
//!
//! ```text
//!  feed            present while the feed is kept: [place 8][mark 8][base 8][keys 8]
//!  feed/<place 8>  items touched by the commit at that position: [mark 8][late 8][names 1], then items of 17 or 36 bytes
//! ```
//!
//! A row is part of the commit that it describes, so both exist or neither does. A change that cannot be listed removes `feed` in the
//! same commit or in one before; leftover rows are removed when the feed is next enabled. A position alone does not identify a
//! commit, because after a power failure another commit may get the position of a lost one: the mark, its version, does.

use super::{FeedChanges, FeedEntry, Touched};
use crate::Engine;
use crate::txn::lock;
use esker_model::codec::{DecodeError, Reader, put_u64};
use esker_model::key::{EDGE_KEY_BYTES, EdgeKey};
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{Durability, KeyRange, Store, Table, WriteBatch};

/// Key of the row that enables the feed on disk.
pub(crate) const HEAD: &[u8] = b"feed";
/// Prefix of the keys of rows.
const ROWS: &[u8] = b"feed/";
/// Maximum number of items and rows on disk; followers that are further behind read everything.
const KEYS_MAX: u64 = 200_000;

const VERTEX: u8 = 0;
const EDGE: u8 = 1;

/// A position of the feed on disk, with the version that distinguishes it from lost commits at the same position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedMark {
    /// Position in the feed.
    pub position: u64,
    /// Version of the commit.
    pub version: Version,
}

/// Content of the row `feed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeedHead {
    last: FeedMark,
    /// The position after which all changes are listed.
    base: u64,
    /// Number of items and rows on disk.
    keys: u64,
}

/// Whether the feed is stored on disk.
#[derive(Debug, Default)]
pub(super) enum Persistence {
    #[default]
    Off,
    On(FeedHead),
    /// Disabled, but the disk may still say otherwise.
    Ending,
}

impl FeedHead {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        for n in [
            self.last.position,
            self.last.version.0,
            self.base,
            self.keys,
        ] {
            put_u64(&mut out, n);
        }
        out
    }

    fn decode(row: &[u8]) -> std::result::Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let mut next = || r.u64("a number of the feed");
        let head = Self {
            last: FeedMark {
                position: next()?,
                version: Version(next()?),
            },
            base: next()?,
            keys: next()?,
        };
        r.finish()?;
        Ok(head)
    }
}

fn row_key(position: u64) -> Vec<u8> {
    [ROWS, &position.to_be_bytes()].concat()
}

fn encode(entry: &FeedEntry, mark: Version) -> Vec<u8> {
    let mut out = Vec::with_capacity(17 + 17 * entry.touched.len());
    put_u64(&mut out, mark.0);
    put_u64(&mut out, entry.late.0);
    out.push(u8::from(entry.names));
    for touched in &entry.touched {
        match touched {
            Touched::Vertex(id) => {
                out.push(VERTEX);
                out.extend_from_slice(&id.0);
            }
            Touched::Edge(key) => {
                out.push(EDGE);
                out.extend_from_slice(&key.encode());
            }
        }
    }
    out
}

fn decode(row: &[u8]) -> std::result::Result<(Version, FeedEntry), DecodeError> {
    let mut r = Reader::new(row);
    let mark = Version(r.u64("a version")?);
    let mut entry = FeedEntry {
        touched: Vec::new(),
        late: Version(r.u64("a version")?),
        names: r.u8("whether names changed")? != 0,
    };
    while r.remaining() > 0 {
        entry.touched.push(match r.u8("what was touched")? {
            VERTEX => Touched::Vertex(VertexId(r.array("a vertex id")?)),
            EDGE => {
                let key: [u8; EDGE_KEY_BYTES] = r.array("an edge's key")?;
                Touched::Edge(EdgeKey::decode(&key)?)
            }
            _ => return Err(r.error("a vertex (0) or an edge (1)")),
        });
    }
    Ok((mark, entry))
}

fn head_of(store: &dyn Store) -> Result<Option<FeedHead>> {
    store
        .get(Table::Meta, HEAD)?
        .map(|row| {
            FeedHead::decode(&row).map_err(|e| Error::corrupt("row `feed` of table `meta`", e))
        })
        .transpose()
}

impl super::Feed {
    /// Loads the state of the feed from a store.
    pub(crate) fn load(store: &dyn Store) -> Result<Self> {
        let feed = Self::default();
        if let Some(head) = head_of(store)? {
            feed.followed.store(true, super::Ordering::Release);
            let mut inner = lock(&feed.inner);
            inner.until = head.last.position;
            inner.persistence = Persistence::On(head);
        }
        Ok(feed)
    }

    /// Adds the entry of a commit to its batch.
    pub(crate) fn persist(&self, entry: &FeedEntry, mark: Version, batch: &mut WriteBatch) {
        let mut inner = lock(&self.inner);
        let position = inner.until + 1;
        let Persistence::On(head) = &mut inner.persistence else {
            if matches!(inner.persistence, Persistence::Ending) {
                batch.remove(Table::Meta, HEAD);
            }
            return;
        };
        let keys = head.keys + 1 + entry.touched.len() as u64;
        if keys > KEYS_MAX {
            inner.persistence = Persistence::Ending;
            batch.remove(Table::Meta, HEAD);
            return;
        }
        // If the commit fails, `committed` ends the feed.
        *head = FeedHead {
            last: FeedMark {
                position,
                version: mark,
            },
            keys,
            ..*head
        };
        batch.put(Table::Meta, HEAD, head.encode());
        batch.put(Table::Meta, row_key(position), encode(entry, mark));
    }

    /// Ends the feed on disk with a commit whose changes cannot be listed.
    pub(crate) fn end_persistence(&self, batch: &mut WriteBatch) {
        let mut inner = lock(&self.inner);
        if !matches!(inner.persistence, Persistence::Off) {
            inner.persistence = Persistence::Ending;
            batch.remove(Table::Meta, HEAD);
        }
    }

    /// Reports the outcome of a commit changed by [`Self::persist`] or [`Self::end_persistence`].
    pub(crate) fn committed(&self, done: bool) {
        let mut inner = lock(&self.inner);
        inner.persistence = match (std::mem::take(&mut inner.persistence), done) {
            (Persistence::Ending, true) => Persistence::Off,
            // The outcome of the commit is unknown.
            (Persistence::On(_), false) => Persistence::Ending,
            (persistence, _) => persistence,
        };
    }

    /// Adds the changes on disk at a range of positions; returns false if they are incomplete.
    pub(super) fn read(
        head: &FeedHead,
        store: &dyn Store,
        positions: std::ops::RangeInclusive<u64>,
        news: &mut FeedChanges,
    ) -> bool {
        if *positions.start() <= head.base {
            return false;
        }
        let (from, until) = (row_key(*positions.start()), row_key(*positions.end() + 1));
        let (mut next, mut right) = (*positions.start(), true);
        let read = store.scan(
            Table::Meta,
            &KeyRange::between(&from, &until),
            &mut |key, row| {
                match decode(row) {
                    Ok((_, entry)) if key == row_key(next) => {
                        next += 1;
                        news.add(&entry);
                    }
                    _ => right = false,
                }
                if right {
                    Flow::Continue(())
                } else {
                    Flow::Break(())
                }
            },
        );
        right && read.is_ok() && next == *positions.end() + 1
    }
}

impl Engine {
    /// Enables the feed on disk, if it is not enabled yet.
    pub fn persist_feed(&self) -> Result<()> {
        self.follow();
        let writer = lock(&self.writer);
        let mut inner = lock(&self.feed.inner);
        if matches!(inner.persistence, Persistence::On(_)) {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        self.remove_rows(&KeyRange::prefix(ROWS), &mut batch)?;
        let last = FeedMark {
            position: inner.until,
            version: writer.clock.last(),
        };
        let head = FeedHead {
            last,
            base: last.position,
            keys: 0,
        };
        let entry = FeedEntry {
            touched: Vec::new(),
            late: Version::MAX,
            names: false,
        };
        batch.put(Table::Meta, HEAD, head.encode());
        batch.put(
            Table::Meta,
            row_key(last.position),
            encode(&entry, last.version),
        );
        self.store.commit(batch, Durability::Relaxed)?;
        inner.persistence = Persistence::On(head);
        Ok(())
    }

    /// Returns the mark of a position, if the changes after it are on disk.
    pub fn feed_mark(&self, position: u64) -> Option<FeedMark> {
        let inner = lock(&self.feed.inner);
        let Persistence::On(head) = &inner.persistence else {
            return None;
        };
        if position == head.last.position {
            return Some(head.last);
        }
        if position < head.base || position > head.last.position {
            return None;
        }
        let row = self.store.get(Table::Meta, &row_key(position)).ok()??;
        let (version, _) = decode(&row).ok()?;
        Some(FeedMark { position, version })
    }

    /// Number of items and rows of the feed on disk.
    pub fn feed_keys(&self) -> u64 {
        match &lock(&self.feed.inner).persistence {
            Persistence::On(head) => head.keys,
            Persistence::Off | Persistence::Ending => 0,
        }
    }

    /// Removes changes up to a position that all derived data includes.
    pub fn trim_feed(&self, position: u64) -> Result<()> {
        let _writer = lock(&self.writer);
        let mut inner = lock(&self.feed.inner);
        let Persistence::On(head) = &inner.persistence else {
            return Ok(());
        };
        let mut head = *head;
        if position <= head.base || position > head.last.position {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        let range = KeyRange::between(&row_key(head.base), &row_key(position));
        self.remove_rows(&range, &mut batch)?;
        head.base = position;
        head.keys = 0;
        let left = KeyRange::between(&row_key(position + 1), &row_key(head.last.position + 1));
        self.store.scan(Table::Meta, &left, &mut |_, row| {
            let touched = decode(row).map_or(0, |(_, entry)| entry.touched.len());
            head.keys += 1 + touched as u64;
            Flow::Continue(())
        })?;
        batch.put(Table::Meta, HEAD, head.encode());
        self.store.commit(batch, Durability::Relaxed)?;
        inner.persistence = Persistence::On(head);
        Ok(())
    }

    fn remove_rows(&self, range: &KeyRange, batch: &mut WriteBatch) -> Result<()> {
        self.store.scan(Table::Meta, range, &mut |key, _| {
            batch.remove(Table::Meta, key);
            Flow::Continue(())
        })
    }

    /// Commits rows past the transactions whose changes cannot be listed. All followers must read everything.
    pub(crate) fn commit_unlisted(&self, mut batch: WriteBatch) -> Result<()> {
        self.feed.end_persistence(&mut batch);
        let done = self.store.commit(batch, Durability::Sync);
        self.feed.committed(done.is_ok());
        self.feed.invalidate();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::Feed;
    use super::*;
    use esker_store::memory::MemoryStore;

    fn entry(touched: usize) -> FeedEntry {
        FeedEntry {
            touched: vec![Touched::Vertex(VertexId([7; 16])); touched],
            late: Version(9),
            names: true,
        }
    }

    #[test]
    fn a_row_comes_back_and_a_broken_one_does_not() {
        let mut entry = entry(2);
        entry.touched.push(Touched::Edge(EdgeKey {
            source: VertexId([1; 16]),
            edge_type: esker_model::EdgeTypeId(3),
            destination: VertexId([2; 16]),
        }));
        let row = encode(&entry, Version(5));
        assert_eq!(decode(&row).unwrap(), (Version(5), entry));
        for cut in [3, 16, 20, row.len() - 1] {
            assert!(decode(&row[..cut]).is_err(), "{cut}");
        }
        let mut odd = row;
        odd[17] = 9;
        assert!(decode(&odd).is_err());
    }

    #[test]
    fn it_ends_where_too_much_was_touched_or_a_commit_failed() {
        let store = MemoryStore::default();
        let head = FeedHead {
            last: FeedMark {
                position: 4,
                version: Version(1),
            },
            base: 4,
            keys: 0,
        };
        let begin = || {
            let mut batch = WriteBatch::default();
            batch.put(Table::Meta, HEAD, head.encode());
            store.commit(batch, Durability::Relaxed).unwrap();
            Feed::load(&store).unwrap()
        };
        let commit = |feed: &Feed, touched: usize, done: bool| {
            let mut batch = WriteBatch::default();
            feed.persist(&entry(touched), Version(8), &mut batch);
            if done {
                store.commit(batch, Durability::Relaxed).unwrap();
            }
            feed.committed(done);
            feed.append(entry(touched));
        };
        let persistence = || head_of(&store).unwrap().map(|h| (h.last.position, h.keys));
        let feed = begin();
        commit(&feed, 3, true);
        assert_eq!(persistence(), Some((5, 4)));
        // A later process continues there.
        commit(&Feed::load(&store).unwrap(), 1, true);
        assert_eq!(persistence(), Some((6, 6)));
        commit(&Feed::load(&store).unwrap(), KEYS_MAX as usize, true);
        assert_eq!(persistence(), None);
        // The outcome of a failed commit is unknown: the next commit ends the feed.
        let feed = begin();
        commit(&feed, 3, false);
        assert!(persistence().is_some());
        commit(&feed, 1, true);
        assert_eq!(persistence(), None);
        commit(&feed, 1, true);
        assert_eq!(persistence(), None);
        let feed = begin();
        let mut batch = WriteBatch::default();
        feed.end_persistence(&mut batch);
        store.commit(batch, Durability::Relaxed).unwrap();
        feed.committed(true);
        assert_eq!(persistence(), None);
    }
}
