//! The feed on disk: what commits touched since somebody wrote down what is derived from the database, so that it can be brought
//! up to date by a later process too.
//!
//! ```text
//!  feed            present while it is kept: [place 8][mark 8][base 8][keys 8]
//!  feed/<place 8>  what the commit of that place touched: [mark 8][late 8][names 1], then things of 17 or 36 bytes
//! ```
//!
//! A row goes into the commit that it tells of, so both are there or none. What cannot be listed takes `feed` away in the same
//! commit or in one before; rows that are left over then are nobody's, and go when the feed is next kept. A place alone does
//! not say which commit it was, for one that a power failure took gives its place to another: the mark, its version, does.

use super::{Entry, News, Touched};
use crate::Engine;
use crate::txn::lock;
use esker_model::codec::{DecodeError, Reader, put_u64};
use esker_model::key::{EDGE_KEY_BYTES, EdgeKey};
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{Durability, KeyRange, Store, Table, WriteBatch};

/// Whether the feed is kept, and where.
pub(crate) const HEAD: &[u8] = b"feed";
/// Before the places of rows.
const ROWS: &[u8] = b"feed/";
/// Things and rows that are kept; who is further behind reads everything.
const KEYS_MAX: u64 = 200_000;

const VERTEX: u8 = 0;
const EDGE: u8 = 1;

/// A place of the feed that is on disk, and the version that tells it from others of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The place.
    pub place: u64,
    /// The version.
    pub version: Version,
}

/// What is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    last: Mark,
    /// The first place from which on it is told what came.
    base: u64,
    /// What is kept, in things and rows.
    keys: u64,
}

/// Whether the feed is kept on disk.
#[derive(Debug, Default)]
pub(super) enum Kept {
    #[default]
    No,
    Since(Head),
    /// Not any more, but it may still say so on disk.
    Ending,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        for n in [self.last.place, self.last.version.0, self.base, self.keys] {
            put_u64(&mut out, n);
        }
        out
    }

    fn decode(row: &[u8]) -> std::result::Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let mut next = || r.u64("a number of the feed");
        let head = Self {
            last: Mark {
                place: next()?,
                version: Version(next()?),
            },
            base: next()?,
            keys: next()?,
        };
        r.finish()?;
        Ok(head)
    }
}

fn row_key(place: u64) -> Vec<u8> {
    [ROWS, &place.to_be_bytes()].concat()
}

fn encode(entry: &Entry, mark: Version) -> Vec<u8> {
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

fn decode(row: &[u8]) -> std::result::Result<(Version, Entry), DecodeError> {
    let mut r = Reader::new(row);
    let mark = Version(r.u64("a version")?);
    let mut entry = Entry {
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

fn head_of(store: &dyn Store) -> Result<Option<Head>> {
    store
        .get(Table::Meta, HEAD)?
        .map(|row| Head::decode(&row).map_err(|e| Error::corrupt("row `feed` of table `meta`", e)))
        .transpose()
}

impl super::Feed {
    /// Goes on with what is kept in a store.
    pub(crate) fn load(store: &dyn Store) -> Result<Self> {
        let feed = Self::default();
        if let Some(head) = head_of(store)? {
            feed.followed.store(true, super::Ordering::Release);
            let mut inner = lock(&feed.inner);
            inner.until = head.last.place;
            inner.kept = Kept::Since(head);
        }
        Ok(feed)
    }

    /// Puts into a commit what is to be kept of it.
    pub(crate) fn keep(&self, entry: &Entry, mark: Version, batch: &mut WriteBatch) {
        let mut inner = lock(&self.inner);
        let place = inner.until + 1;
        let Kept::Since(head) = &mut inner.kept else {
            if matches!(inner.kept, Kept::Ending) {
                batch.remove(Table::Meta, HEAD);
            }
            return;
        };
        let keys = head.keys + 1 + entry.touched.len() as u64;
        if keys > KEYS_MAX {
            inner.kept = Kept::Ending;
            batch.remove(Table::Meta, HEAD);
            return;
        }
        // If the commit fails, this is not so: `committed` says.
        *head = Head {
            last: Mark {
                place,
                version: mark,
            },
            keys,
            ..*head
        };
        batch.put(Table::Meta, HEAD, head.encode());
        batch.put(Table::Meta, row_key(place), encode(entry, mark));
    }

    /// Puts into a commit that what it changes is not told.
    pub(crate) fn end(&self, batch: &mut WriteBatch) {
        let mut inner = lock(&self.inner);
        if !matches!(inner.kept, Kept::No) {
            inner.kept = Kept::Ending;
            batch.remove(Table::Meta, HEAD);
        }
    }

    /// What became of a commit that [`Self::keep`] or [`Self::end`] put something into.
    pub(crate) fn committed(&self, done: bool) {
        let mut inner = lock(&self.inner);
        inner.kept = match (std::mem::take(&mut inner.kept), done) {
            (Kept::Ending, true) => Kept::No,
            // Whether it is there is not known.
            (Kept::Since(_), false) => Kept::Ending,
            (kept, _) => kept,
        };
    }

    /// What is kept on disk from behind a place up to another one, added to news; false if that is not all.
    pub(super) fn read(
        head: &Head,
        store: &dyn Store,
        places: std::ops::RangeInclusive<u64>,
        news: &mut News,
    ) -> bool {
        if *places.start() <= head.base {
            return false;
        }
        let (from, until) = (row_key(*places.start()), row_key(*places.end() + 1));
        let (mut next, mut right) = (*places.start(), true);
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
        right && read.is_ok() && next == *places.end() + 1
    }
}

impl Engine {
    /// Keeps the feed on disk from now on, if it is not yet.
    pub fn keep_feed(&self) -> Result<()> {
        self.follow();
        let writer = lock(&self.writer);
        let mut inner = lock(&self.feed.inner);
        if matches!(inner.kept, Kept::Since(_)) {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        self.remove_rows(&KeyRange::prefix(ROWS), &mut batch)?;
        let last = Mark {
            place: inner.until,
            version: writer.clock.last(),
        };
        let head = Head {
            last,
            base: last.place,
            keys: 0,
        };
        let entry = Entry {
            touched: Vec::new(),
            late: Version::MAX,
            names: false,
        };
        batch.put(Table::Meta, HEAD, head.encode());
        batch.put(
            Table::Meta,
            row_key(last.place),
            encode(&entry, last.version),
        );
        self.store.commit(batch, Durability::Relaxed)?;
        inner.kept = Kept::Since(head);
        Ok(())
    }

    /// The mark of a place of the feed, if what comes behind it is kept on disk.
    pub fn feed_mark(&self, place: u64) -> Option<Mark> {
        let inner = lock(&self.feed.inner);
        let Kept::Since(head) = &inner.kept else {
            return None;
        };
        if place == head.last.place {
            return Some(head.last);
        }
        if place < head.base || place > head.last.place {
            return None;
        }
        let row = self.store.get(Table::Meta, &row_key(place)).ok()??;
        let (version, _) = decode(&row).ok()?;
        Some(Mark { place, version })
    }

    /// How much of the feed is kept, in things and rows.
    pub fn feed_keys(&self) -> u64 {
        match &lock(&self.feed.inner).kept {
            Kept::Since(head) => head.keys,
            Kept::No | Kept::Ending => 0,
        }
    }

    /// Forgets what came up to a place: whoever keeps something has it.
    pub fn trim_feed(&self, place: u64) -> Result<()> {
        let _writer = lock(&self.writer);
        let mut inner = lock(&self.feed.inner);
        let Kept::Since(head) = &inner.kept else {
            return Ok(());
        };
        let mut head = *head;
        if place <= head.base || place > head.last.place {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        let range = KeyRange::between(&row_key(head.base), &row_key(place));
        self.remove_rows(&range, &mut batch)?;
        head.base = place;
        head.keys = 0;
        let left = KeyRange::between(&row_key(place + 1), &row_key(head.last.place + 1));
        self.store.scan(Table::Meta, &left, &mut |_, row| {
            let touched = decode(row).map_or(0, |(_, entry)| entry.touched.len());
            head.keys += 1 + touched as u64;
            Flow::Continue(())
        })?;
        batch.put(Table::Meta, HEAD, head.encode());
        self.store.commit(batch, Durability::Relaxed)?;
        inner.kept = Kept::Since(head);
        Ok(())
    }

    fn remove_rows(&self, range: &KeyRange, batch: &mut WriteBatch) -> Result<()> {
        self.store.scan(Table::Meta, range, &mut |key, _| {
            batch.remove(Table::Meta, key);
            Flow::Continue(())
        })
    }

    /// What is changed next cannot be told: whatever is kept on disk is over before that.
    pub(crate) fn end_feed(&self) -> Result<()> {
        let mut batch = WriteBatch::default();
        self.feed.end(&mut batch);
        if batch.is_empty() {
            return Ok(());
        }
        let done = self.store.commit(batch, Durability::Sync);
        self.feed.committed(done.is_ok());
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::Feed;
    use super::*;
    use esker_store::memory::MemoryStore;

    fn entry(touched: usize) -> Entry {
        Entry {
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
        let head = Head {
            last: Mark {
                place: 4,
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
            feed.keep(&entry(touched), Version(8), &mut batch);
            if done {
                store.commit(batch, Durability::Relaxed).unwrap();
            }
            feed.committed(done);
            feed.note(entry(touched));
        };
        let kept = || head_of(&store).unwrap().map(|h| (h.last.place, h.keys));
        let feed = begin();
        commit(&feed, 3, true);
        assert_eq!(kept(), Some((5, 4)));
        // Who comes later goes on there.
        commit(&Feed::load(&store).unwrap(), 1, true);
        assert_eq!(kept(), Some((6, 6)));
        commit(&Feed::load(&store).unwrap(), KEYS_MAX as usize, true);
        assert_eq!(kept(), None);
        // Whether a commit that failed is there is not known: the next one ends it.
        let feed = begin();
        commit(&feed, 3, false);
        assert!(kept().is_some());
        commit(&feed, 1, true);
        assert_eq!(kept(), None);
        commit(&feed, 1, true);
        assert_eq!(kept(), None);
        let feed = begin();
        let mut batch = WriteBatch::default();
        feed.end(&mut batch);
        store.commit(batch, Durability::Relaxed).unwrap();
        feed.committed(true);
        assert_eq!(kept(), None);
    }
}
