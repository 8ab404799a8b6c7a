//! Exact counters: degrees by vertex and edge type, totals by type.
//!
//! A counter row per edge written would double the cost of an insert. So each commit writes *one* row with all its
//! changes (`meta`, `pending/<version>`), the sums stay in memory, and once many have gathered they are merged
//! into their rows in key order and the pending rows dropped, in one atomic batch. On opening, what is pending is
//! read back: its size is bounded, so opening stays fast whatever the size of the database.

use crate::catalog::{PENDING_PREFIX, pending_key};
use esker_model::codec::{Reader, put_bytes, put_varint};
use esker_model::key::Counter;
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Store, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Changes of counters, by counter.
pub(crate) type Changes = HashMap<Counter, i64, FixedState>;

/// Counter changes that are durable but not yet merged into their rows.
#[derive(Debug, Default)]
pub(crate) struct PendingCounters {
    changes: Changes,
    rows: Vec<Version>,
}

impl PendingCounters {
    /// Reads back what was pending when the database was last closed; also the newest version among it.
    pub(crate) fn load(store: &dyn Store) -> Result<(Self, Option<Version>)> {
        let mut pending = Self::default();
        let mut failed = None;
        store.scan(
            Table::Meta,
            &KeyRange::prefix(PENDING_PREFIX),
            &mut |key, value| match decode(key, value, &mut pending.changes) {
                Ok(version) => {
                    pending.rows.push(version);
                    Flow::Continue(())
                }
                Err(e) => {
                    failed = Some(Error::corrupt("a pending row of table `meta`", e));
                    Flow::Break(())
                }
            },
        )?;
        let newest = pending.rows.last().copied();
        failed.map_or(Ok((pending, newest)), Err)
    }

    /// Adds one commit's changes; its row has gone to the store.
    pub(crate) fn add(&mut self, version: Version, changes: &Changes) {
        for (counter, change) in changes {
            *self.changes.entry(*counter).or_default() += change;
        }
        self.rows.push(version);
    }

    /// How many counters have changes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// How many rows are pending.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The change of one counter.
    pub(crate) fn change(&self, counter: &Counter) -> i64 {
        self.changes.get(counter).copied().unwrap_or(0)
    }

    /// All changes, in key order.
    pub(crate) fn sorted(&self) -> Vec<(Counter, i64)> {
        let mut all: Vec<_> = self
            .changes
            .iter()
            .filter(|(_, n)| **n != 0)
            .map(|(c, n)| (*c, *n))
            .collect();
        all.sort_unstable_by_key(|(c, _)| place(c));
        all
    }

    /// The writes that merge everything pending into the counters' own rows.
    pub(crate) fn merge(&self, store: &dyn Store) -> Result<WriteBatch> {
        let mut batch = WriteBatch::default();
        for (counter, change) in self.sorted() {
            let key = counter.encode();
            let value = apply(read(store, &key)?, change)?;
            if value == 0 {
                batch.remove(Table::Counts, key);
            } else {
                batch.put(Table::Counts, key, encode_value(value));
            }
        }
        for version in &self.rows {
            batch.remove(Table::Meta, pending_key(*version));
        }
        Ok(batch)
    }

    /// Forgets everything: it has been merged.
    pub(crate) fn clear(&mut self) {
        // Its room is needed again: counters gather at the same pace.
        self.changes.clear();
        self.rows.clear();
    }
}

/// Orders counters as their keys do, without making them: totals lie under sixteen zero bytes, which no vertex's id is.
fn place(counter: &Counter) -> (VertexId, u8, u16) {
    match counter {
        Counter::Degree(id, t) => (*id, 0, t.0),
        Counter::Vertices(t) => (VertexId::default(), 1, t.0),
        Counter::Edges(t) => (VertexId::default(), 2, t.0),
    }
}

/// Adds a change to a counter; below zero means that the database contradicts itself.
pub(crate) fn apply(value: u64, change: i64) -> Result<u64> {
    value
        .checked_add_signed(change)
        .ok_or_else(|| Error::Store {
            engine: "counters",
            message: format!(
                "a counter of {value} would change by {change}; run `esker check --repair`"
            ),
        })
}

/// The merged value of a counter: zero where there is no row.
pub(crate) fn read(store: &dyn Store, key: &[u8]) -> Result<u64> {
    let mut value = Ok(0);
    store.get_with(Table::Counts, key, &mut |bytes| value = decode_value(bytes))?;
    value
}

/// A counter's row value.
pub(crate) fn encode_value(value: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(4);
    put_varint(&mut out, value);
    out
}

/// Reads a counter's row value.
pub(crate) fn decode_value(bytes: &[u8]) -> Result<u64> {
    let value = Reader::new(bytes).varint("a count");
    value.map_err(|e| Error::corrupt("a row of table `counts`", e))
}

/// Bytes of a degree's key, as [`Counter::encode`] makes it: nearly all keys of a pending row are such.
const DEGREE_KEY_BYTES: u64 = 16 + 2;

/// The value of a pending row: `([len][counter key][zigzag LEB128])*`.
pub(crate) fn encode_pending(changes: &Changes) -> Vec<u8> {
    let mut sorted: Vec<_> = changes.iter().filter(|(_, n)| **n != 0).collect();
    // Any order would do; this one makes equal changes equal bytes.
    sorted.sort_unstable_by_key(|(c, _)| place(c));
    let mut out = Vec::with_capacity(sorted.len() * 21);
    for (counter, change) in sorted {
        match counter {
            Counter::Degree(id, t) => {
                put_varint(&mut out, DEGREE_KEY_BYTES);
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&t.0.to_be_bytes());
            }
            total => put_bytes(&mut out, &total.encode()),
        }
        put_varint(&mut out, ((change << 1) ^ (change >> 63)) as u64);
    }
    out
}

fn decode(
    key: &[u8],
    value: &[u8],
    changes: &mut Changes,
) -> Result<Version, esker_model::codec::DecodeError> {
    let mut r = Reader::new(key);
    r.take(PENDING_PREFIX.len(), "`pending/`")?;
    let version = Version(r.u64("a version")?);
    let mut r = Reader::new(value);
    while r.remaining() > 0 {
        let counter = Counter::decode(r.bytes("a counter's key")?)?;
        let zigzag = r.varint("a change")?;
        *changes.entry(counter).or_default() += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    }
    Ok(version)
}
