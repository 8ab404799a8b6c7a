//! Exact counters: degrees by vertex and edge type, totals by type.
//!
//! Updating a counter row for each edge would double the cost of an insert. So each commit writes *one* row with all its
//! changes (`meta`, `pending/<slot>`), and the sums stay in memory. Once many have accumulated, they are merged into their
//! rows in key order, in one atomic batch that also records up to which version all changes are merged. Slots are then
//! reused from the first. Opening reads the pending rows; their number is bounded, so opening stays fast regardless of the
//! size of the database.

use crate::catalog::{MERGED_KEY, PENDING_PREFIX, pending_key, read_version, version_value};
use crate::memtable;
use esker_model::codec::{Reader, put_u64, put_varint};
use esker_model::key::{Counter, Measure};
use esker_model::{Error, Flow, Result, Version};
use esker_store::{KeyRange, Store, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::collections::HashMap;

mod changes;

pub(crate) use changes::Changes;

/// Counter changes that are durable but not yet merged into their rows.
#[derive(Debug, Default)]
pub(crate) struct PendingCounters {
    /// Sums by counter, for changes up to the last lookup.
    gathered: HashMap<Counter, i64, FixedState>,
    /// Changes since the last lookup: most are never looked up, and sorting once is cheaper than a map.
    recent: Changes,
    /// Slots of rows since the last merge: `first..next`.
    first: u32,
    next: u32,
    /// Slots below this one may hold a row, merged or not.
    used: u32,
    /// Slots whose commit failed: their rows may still be in the store when the database is opened again.
    unsure: Vec<u32>,
}

impl PendingCounters {
    /// Reads the changes that were pending when the database was closed, and returns the newest version of any row.
    /// Passes pending rows of `names` to `memtable`, oldest first.
    pub(crate) fn load(
        store: &dyn Store,
        memtable: &mut dyn FnMut(WriteBatch) -> Result<()>,
    ) -> Result<(Self, Option<Version>)> {
        let mut rows = Vec::new();
        let merged = read_version(store, MERGED_KEY)?.unwrap_or(Version::ZERO);
        let mut pending = Self::default();
        let (mut newest, mut failed) = (None, None);
        store.scan(
            Table::Meta,
            &KeyRange::prefix(PENDING_PREFIX),
            &mut |key, value| match decode(key, value, merged, &mut pending.recent) {
                Ok((slot, version, files)) => {
                    rows.extend((!files.is_empty()).then_some((version, files)));
                    newest = newest.max(Some(version));
                    pending.used = slot.saturating_add(1);
                    if version > merged {
                        pending.next = pending.used;
                    }
                    Flow::Continue(())
                }
                Err(e) => {
                    failed = Some(Error::corrupt("a pending row of table `meta`", e));
                    Flow::Break(())
                }
            },
        )?;
        if let Some(e) = failed {
            return Err(e);
        }
        // Slots are reused, so their order is not that of the commits.
        rows.sort_by_key(|(version, _)| *version);
        rows.into_iter().try_for_each(|(_, rows)| memtable(rows))?;
        Ok((pending, newest))
    }

    /// Allocates the slot of the next commit's row.
    pub(crate) fn take_slot(&mut self) -> u32 {
        let slot = self.next;
        self.next += 1;
        self.used = self.used.max(self.next);
        slot
    }

    /// Adds one commit's changes, after its row was written to the store.
    pub(crate) fn add(&mut self, changes: &Changes) {
        self.recent.extend(changes);
        // Space counters are few, and each commit changes the same ones.
        for (counter, change) in self.recent.take_space() {
            let sum = self.gathered.entry(counter).or_default();
            *sum = counter.combine(*sum, change);
        }
    }

    /// Notes that the commit with the row in `slot` failed.
    pub(crate) fn failed(&mut self, slot: u32) {
        self.unsure.push(slot);
    }

    /// Upper bound of the number of counters with changes.
    pub(crate) fn len(&self) -> usize {
        self.gathered.len() + self.recent.len()
    }

    /// Number of pending rows.
    pub(crate) fn rows(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// Whether the store has rows that are already merged.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.used > 0
    }

    fn gather(&mut self) {
        for (counter, change) in self.recent.iter() {
            let sum = self.gathered.entry(counter).or_default();
            *sum = counter.combine(*sum, change);
        }
        self.recent.clear();
    }

    /// The pending change of one counter.
    pub(crate) fn change(&mut self, counter: &Counter) -> i64 {
        self.gather();
        self.gathered.get(counter).copied().unwrap_or(0)
    }

    /// All changes, in key order.
    pub(crate) fn sorted(&mut self) -> impl Iterator<Item = (Counter, i64)> {
        for (counter, change) in self.gathered.drain() {
            self.recent.add(counter, change);
        }
        self.recent.settle();
        self.recent.iter()
    }

    /// Returns the writes that merge everything pending, all of `version` or before, into the counters' own rows.
    ///
    /// A merged row stays until its slot is reused: `merged` invalidates it, and a removal would cost as much as the row did.
    /// `tidy` removes such rows, so that a closed database opens without reading them.
    pub(crate) fn merge(
        &mut self,
        store: &dyn Store,
        version: Version,
        tidy: bool,
    ) -> Result<WriteBatch> {
        let mut batch = WriteBatch::default();
        for (counter, change) in self.sorted() {
            let key = counter.encode();
            let value = apply(&counter, read(store, &key)?, change)?;
            if value == 0 {
                batch.remove(Table::Counts, key);
            } else {
                batch.put(Table::Counts, key, encode_value(value));
            }
        }
        let sure = |slot: &u32| !self.unsure.contains(slot);
        if self.unsure.is_empty() {
            batch.put(Table::Meta, MERGED_KEY, version_value(version));
        } else if !tidy {
            // `merged` would cover failed rows that may be stored nevertheless.
            for slot in (self.first..self.next).filter(sure) {
                batch.remove(Table::Meta, pending_key(slot));
            }
        }
        if tidy {
            for slot in (0..self.used).filter(sure) {
                batch.remove(Table::Meta, pending_key(slot));
            }
        }
        Ok(batch)
    }

    /// Clears all changes after they were merged.
    pub(crate) fn clear(&mut self, tidy: bool) {
        // The capacity is kept: counters accumulate at the same pace.
        self.gathered.clear();
        self.recent.clear();
        if self.unsure.is_empty() {
            self.next = 0;
            if tidy {
                self.used = 0;
            }
        }
        self.first = self.next;
    }
}

/// Adds a change to a counter; a result below zero means that the database contradicts itself (except for `Space`).
pub(crate) fn apply(counter: &Counter, value: u64, change: i64) -> Result<u64> {
    match counter {
        Counter::Space(_, Measure::Changed) => return Ok(value.max(change.cast_unsigned())),
        // Each server of a cluster has only the changes that it made; only their total over all servers is meaningful.
        Counter::Space(..) => return Ok(value.wrapping_add_signed(change)),
        _ => {}
    }
    value
        .checked_add_signed(change)
        .ok_or_else(|| Error::Store {
            engine: "counters",
            message: format!(
                "a counter of {value} would change by {change}; run `esker check --repair`"
            ),
        })
}

/// Reads the merged value of a counter; zero where there is no row.
pub(crate) fn read(store: &dyn Store, key: &[u8]) -> Result<u64> {
    let mut value = Ok(0);
    store.get_with(Table::Counts, key, &mut |bytes| value = decode_value(bytes))?;
    value
}

/// Encodes a counter's row value.
pub(crate) fn encode_value(value: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(4);
    put_varint(&mut out, value);
    out
}

/// Decodes a counter's row value.
pub(crate) fn decode_value(bytes: &[u8]) -> Result<u64> {
    let value = Reader::new(bytes).varint("a count");
    value.map_err(|e| Error::corrupt("a row of table `counts`", e))
}

/// Length of a degree's key, as [`Counter::encode`] writes it: nearly all keys of a pending row are of this kind.
const DEGREE_KEY_BYTES: u64 = 16 + 2;

/// Offset added to the length of a key whose first sixteen bytes are zero; these bytes are not stored.
const SHORT: u64 = 64;

/// Encodes a pending row from settled changes: `[version 8]([len][counter key][zigzag LEB128])*`, followed, if there are any,
/// by `[00]` and the commit's rows of `names` ([`memtable::encode`]).
pub(crate) fn encode_pending(
    version: Version,
    changes: &Changes,
    files: Option<&WriteBatch>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + changes.len() * 36 + files.map_or(0, WriteBatch::bytes));
    put_u64(&mut out, version.0);
    for (counter, change) in changes.iter() {
        match counter {
            Counter::Degree(id, t) => {
                put_varint(&mut out, DEGREE_KEY_BYTES);
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&t.0.to_be_bytes());
            }
            total => {
                // The length is below 64, so it takes one byte, which is written after the key.
                let at = out.len();
                out.push(0);
                total.put_total(&mut out);
                let length = (out.len() - at - 1) as u8;
                if let Some(place) = out.get_mut(at) {
                    *place = SHORT as u8 + length;
                }
            }
        }
        put_varint(&mut out, ((change << 1) ^ (change >> 63)) as u64);
    }
    if let Some(files) = files {
        out.push(0);
        memtable::encode(files, &mut out);
    }
    out
}

/// Decodes a pending row and adds its changes if it is newer than `merged`. Returns its slot, its version and its rows of `names`.
fn decode(
    key: &[u8],
    value: &[u8],
    merged: Version,
    changes: &mut Changes,
) -> Result<(u32, Version, WriteBatch), esker_model::codec::DecodeError> {
    let mut r = Reader::new(key);
    r.take(PENDING_PREFIX.len(), "`pending/`")?;
    let slot = r.u32("a slot")?;
    r.finish()?;
    let mut r = Reader::new(value);
    let version = Version(r.u64("a version")?);
    while version > merged && r.remaining() > 0 {
        let length = r.varint("the length of a counter's key")?;
        if length == 0 {
            return Ok((slot, version, memtable::decode(&mut r)?));
        }
        let mut key = [0; 16 + SHORT as usize];
        let (at, length): (usize, u64) = if length > SHORT {
            (16, length - SHORT)
        } else {
            (0, length)
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(place) = at.checked_add(length).and_then(|end| key.get_mut(at..end)) else {
            return Err(r.error("a counter's key"));
        };
        place.copy_from_slice(r.take(length, "a counter's key")?);
        let counter = Counter::decode(key.get(..at + length).unwrap_or_default())?;
        let zigzag = r.varint("a change")?;
        changes.add(counter, (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
    }
    Ok((slot, version, WriteBatch::default()))
}
