//! Records of the producers that number their batches ([`esker_model::idempotency`]), for idempotency: one row each in `meta`, with a
//! copy in memory.
//!
//! ```text
//!  once/[00]esker-sender/[producer 16] [version 8][since][floor][count]([gap][length])*      all but the version LEB128
//!                                      [count]([number][bytes])*                             if there are any
//! ```
//!
//! Every number below `floor` was applied or is settled. Above it, applied numbers are listed as ranges: the distance of
//! the first number from the end of the previous range (from `floor` at first), and the length. A producer whose batches
//! arrive in order needs only the floor. The version is that of the newest commit with a batch of the producer, so that
//! records of inactive producers can be dropped; `since` is the time at which the row was created, in milliseconds: a row
//! that was created again after it was dropped does not know earlier batches.

#![deny(clippy::indexing_slicing)]

use super::lock;
use crate::Engine;
use crate::catalog::idempotency_row_key;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_model::idempotency::{
    BATCH_AGE_MILLIS_MAX, PRODUCER_PREFIX, PRODUCER_RETENTION_MILLIS, ProducerKey,
    SEQUENCE_SPAN_MAX,
};
use esker_model::{Error, Flow, Result, Version};
use esker_store::{Durability, KeyRange, Read, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::collections::HashMap;

type ProducerId = [u8; 16];
type Map = HashMap<ProducerId, ProducerRecord, FixedState>;

/// Maximum number of records copied in memory. Others are read again when they are needed.
const PRODUCERS_MAX: usize = 1 << 14;
/// Maximum number of ranges in a copied record.
const RUNS_KEPT_MAX: usize = 64;
/// Maximum bytes of responses in a copied record.
const ANSWERS_COPIED_MAX: usize = 4 << 10;
/// Maximum bytes of responses in a row. If a producer has more open, the oldest are dropped.
const ANSWERS_BYTES_MAX: usize = 64 << 10;

/// Numbers from `first` up to, but excluding, `past`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberRange {
    first: u64,
    past: u64,
}

/// The applied batches of one producer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProducerRecord {
    since: u64,
    floor: u64,
    /// Ranges in order, each preceded by a number that was not applied.
    runs: Vec<NumberRange>,
    /// Responses, by number, of batches that are not settled.
    answers: Vec<(u64, Box<[u8]>)>,
}

/// Cached records, and the changes of the group that is being applied.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    cached: Map,
    changed: Map,
}

fn row_key(producer: &ProducerId) -> Vec<u8> {
    idempotency_row_key(&[PRODUCER_PREFIX, producer.as_slice()].concat())
}

/// Parses an idempotency key; `None` if it is not a numbered one.
pub(crate) fn parse(idempotency_key: &[u8]) -> Result<Option<ProducerKey>> {
    ProducerKey::parse(idempotency_key)
        .map_err(|e| Error::Invalid(format!("malformed idempotency key of a producer: {e}")))
}

impl ProducerRecord {
    fn has(&self, number: u64) -> bool {
        let after = self.runs.partition_point(|r| r.past <= number);
        number < self.floor || self.runs.get(after).is_some_and(|r| r.first <= number)
    }

    fn add(&mut self, numbered: &ProducerKey) {
        self.answers.retain(|(n, _)| *n >= numbered.settled_below);
        self.raise(numbered.settled_below);
        let number = numbered.sequence;
        if self.has(number) {
            return;
        }
        if number == self.floor {
            self.raise(number + 1);
            return;
        }
        let place = self.runs.partition_point(|r| r.past < number);
        match self.runs.get_mut(place) {
            Some(run) if run.past == number => {
                run.past += 1;
                let past = run.past;
                if let Some(next) = self.runs.get(place + 1).copied()
                    && next.first == past
                {
                    self.runs.remove(place + 1);
                    if let Some(run) = self.runs.get_mut(place) {
                        run.past = next.past;
                    }
                }
            }
            Some(run) if run.first == number + 1 => run.first = number,
            _ => {
                let past = number + 1;
                self.runs.insert(
                    place,
                    NumberRange {
                        first: number,
                        past,
                    },
                );
            }
        }
    }

    fn answer_bytes(&self) -> usize {
        self.answers.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Stores the response, to be repeated until the producer confirms that it received it.
    fn answered(&mut self, number: u64, answer: Vec<u8>) {
        self.answers.push((number, answer.into()));
        while self.answer_bytes() > ANSWERS_BYTES_MAX {
            let oldest = self.answers.iter().enumerate().min_by_key(|(_, (n, _))| *n);
            let Some((place, _)) = oldest else { return };
            self.answers.remove(place);
        }
    }

    /// Merges the record of a producer that sent batches to two databases. Each may lack batches from before it was created.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.since = self.since.max(other.since);
        let mut runs = [self.runs.as_slice(), &other.runs].concat();
        runs.sort_unstable_by_key(|run| run.first);
        self.runs.clear();
        for run in runs {
            match self.runs.last_mut() {
                Some(last) if run.first <= last.past => last.past = last.past.max(run.past),
                _ => self.runs.push(run),
            }
        }
        self.raise(other.floor.max(self.floor));
        self.answers.extend(other.answers.iter().cloned());
        self.answers.sort_unstable();
        self.answers.dedup_by_key(|(number, _)| *number);
    }

    /// Removes a number that was not applied after all.
    pub(crate) fn remove(&mut self, number: u64) {
        self.answers.retain(|(n, _)| *n != number);
        let mut runs = std::mem::take(&mut self.runs);
        if number < self.floor {
            let (first, past) = (number, self.floor);
            runs.insert(0, NumberRange { first, past });
            self.floor = number;
        }
        for run in runs {
            if (run.first..run.past).contains(&number) {
                let (before, behind) = ((run.first, number), (number + 1, run.past));
                let left = [before, behind].map(|(first, past)| NumberRange { first, past });
                self.runs
                    .extend(left.into_iter().filter(|r| r.first < r.past));
            } else {
                self.runs.push(run);
            }
        }
    }

    /// Raises the floor, and extends it over ranges that follow directly.
    fn raise(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let swallowed = self.runs.partition_point(|r| r.first <= self.floor);
        for run in self.runs.drain(..swallowed) {
            self.floor = self.floor.max(run.past);
        }
    }

    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + 4 * self.runs.len());
        put_u64(&mut out, version.0);
        put_varint(&mut out, self.since);
        put_varint(&mut out, self.floor);
        put_varint(&mut out, self.runs.len() as u64);
        let mut before = self.floor;
        for run in &self.runs {
            put_varint(&mut out, run.first - before);
            put_varint(&mut out, run.past - run.first);
            before = run.past;
        }
        if !self.answers.is_empty() {
            put_varint(&mut out, self.answers.len() as u64);
            for (number, answer) in &self.answers {
                put_varint(&mut out, *number);
                put_bytes(&mut out, answer);
            }
        }
        out
    }

    pub(crate) fn decode(row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        r.u64("a version")?;
        let (since, floor) = (r.varint("a time")?, r.varint("a number")?);
        let count = r.count(2, "a count of runs")?;
        let (mut runs, mut before) = (Vec::with_capacity(count), floor);
        for _ in 0..count {
            let (gap, length) = (r.varint("a gap")?, r.varint("a length")?);
            let first = before.checked_add(gap);
            let past = first.and_then(|f| f.checked_add(length));
            match (first, past) {
                (Some(first), Some(past)) if gap > 0 && length > 0 => {
                    runs.push(NumberRange { first, past });
                    before = past;
                }
                _ => return Err(r.error("a run of numbers of 64 bits after the one before")),
            }
        }
        let mut answers = Vec::new();
        if r.remaining() > 0 {
            for _ in 0..r.count(2, "a count of answers")? {
                answers.push((r.varint("a number")?, r.bytes("an answer")?.into()));
            }
        }
        r.finish()?;
        Ok(Self {
            since,
            floor,
            runs,
            answers,
        })
    }

    fn read(store: &dyn Read, producer: &ProducerId) -> Result<Option<Self>> {
        let mut record = None;
        store.get_with(Table::Meta, &row_key(producer), &mut |row| {
            record = Some(Self::decode(row));
        })?;
        let corrupt = |e| Error::corrupt("row of a producer in table `meta`", e);
        record.transpose().map_err(corrupt)
    }
}

/// Whether a batch must be applied, by its producer's stored record: false if it was applied or is settled. Fails if the
/// batch is refused for its number or its age; one that passes cannot be refused for them later.
pub(crate) fn must_apply(
    store: &dyn Read,
    numbered: &ProducerKey,
    now_millis: u64,
) -> Result<bool> {
    let record = ProducerRecord::read(store, &numbered.producer)?;
    admits(record.as_ref(), numbered, now_millis)
}

fn admits(
    record: Option<&ProducerRecord>,
    numbered: &ProducerKey,
    now_millis: u64,
) -> Result<bool> {
    if record.is_some_and(|r| r.has(numbered.sequence)) {
        return Ok(false);
    }
    check_age(numbered, now_millis, record.map_or(now_millis, |r| r.since))?;
    let floor = numbered.settled_below.max(record.map_or(0, |r| r.floor));
    let span = numbered.sequence - floor.min(numbered.sequence);
    if span >= SEQUENCE_SPAN_MAX {
        return Err(Error::Limit {
            what: "the number of batches between a client's oldest open one and its newest".into(),
            got: span,
            limit: SEQUENCE_SPAN_MAX - 1,
        });
    }
    Ok(true)
}

/// Whether the stored record says that a batch was applied or is settled.
pub(crate) fn applied(store: &dyn Read, numbered: &ProducerKey) -> Result<bool> {
    let record = ProducerRecord::read(store, &numbered.producer)?;
    Ok(record.is_some_and(|r| r.has(numbered.sequence)))
}

fn version_of(row: &[u8]) -> Option<Version> {
    Reader::new(row).u64("a version").ok().map(Version)
}

/// Refuses a batch if its producer's record was dropped after the batch was made, since it may have been applied then;
/// also a batch dated in the future, because its producer's record may be dropped before the batch is too old.
fn check_age(numbered: &ProducerKey, now_millis: u64, since: u64) -> Result<()> {
    const HOUR: u64 = 3_600_000;
    if numbered.created_millis > now_millis.saturating_add(BATCH_AGE_MILLIS_MAX) {
        return Err(Error::Invalid(format!(
            "a batch arrived {} hours before it was made: set the clock of this machine or of the one that sent it",
            (numbered.created_millis - now_millis) / HOUR
        )));
    }
    if since > numbered.created_millis.saturating_add(BATCH_AGE_MILLIS_MAX) {
        return Err(Error::Undecided(format!(
            "a batch was made {} hours ago by a client that has been forgotten since, so it is not \
             known whether the batch was applied; check whether its changes are there, and write \
             them again if not",
            now_millis.saturating_sub(numbered.created_millis) / HOUR
        )));
    }
    Ok(())
}

impl Producers {
    /// Begins a group. Changes of an earlier group that did not end were not committed.
    pub(crate) fn begin(&mut self) {
        self.changed.clear();
    }

    /// Whether a batch must be applied: false if it was applied, in this group or before.
    pub(crate) fn admit(
        &mut self,
        store: &dyn Read,
        numbered: &ProducerKey,
        now_millis: u64,
    ) -> Result<bool> {
        let producer = &numbered.producer;
        if !self.changed.contains_key(producer)
            && !self.cached.contains_key(producer)
            && let Some(record) = ProducerRecord::read(store, producer)?
        {
            if self.cached.len() >= PRODUCERS_MAX {
                self.cached.clear();
            }
            self.cached.insert(*producer, record);
        }
        let record = self
            .changed
            .get(producer)
            .or_else(|| self.cached.get(producer));
        admits(record, numbered, now_millis)
    }

    /// Records that a batch of this group was applied.
    pub(super) fn add(&mut self, numbered: &ProducerKey, now_millis: u64) {
        let known = self.cached.get(&numbered.producer);
        let new = || ProducerRecord {
            since: now_millis,
            ..ProducerRecord::default()
        };
        self.changed
            .entry(numbered.producer)
            .or_insert_with(|| known.cloned().unwrap_or_else(new))
            .add(numbered);
    }

    /// Records that namespace changes of this group were applied, and their response.
    pub(crate) fn answered(&mut self, numbered: &ProducerKey, now_millis: u64, answer: Vec<u8>) {
        self.add(numbered, now_millis);
        if let Some(record) = self.changed.get_mut(&numbered.producer) {
            record.answered(numbered.sequence, answer);
        }
    }

    /// Returns the response to changes that were applied before, if it is still stored.
    pub(crate) fn answer(
        &self,
        store: &dyn Read,
        numbered: &ProducerKey,
    ) -> Result<Option<Box<[u8]>>> {
        let producer = &numbered.producer;
        let of = |record: &ProducerRecord| {
            let found = record.answers.iter().find(|(n, _)| *n == numbered.sequence);
            found.map(|(_, answer)| answer.clone())
        };
        if let Some(record) = self
            .changed
            .get(producer)
            .or_else(|| self.cached.get(producer))
        {
            return Ok(of(record));
        }
        Ok(ProducerRecord::read(store, producer)?.as_ref().and_then(of))
    }

    /// Whether batches of the group were applied.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Appends the records changed by the group to the commit.
    pub(crate) fn put(&self, version: Version, batch: &mut WriteBatch) {
        for (producer, record) in &self.changed {
            batch.put(Table::Meta, row_key(producer), record.encode(version));
        }
    }

    /// Ends the group. If it was not committed, or that is unknown, the stored rows decide.
    pub(crate) fn end(&mut self, committed: bool) {
        for (producer, record) in self.changed.drain() {
            let small =
                record.runs.len() <= RUNS_KEPT_MAX && record.answer_bytes() <= ANSWERS_COPIED_MAX;
            if committed && small {
                self.cached.insert(producer, record);
            } else {
                self.cached.remove(&producer);
            }
        }
    }
}

impl Engine {
    /// Drops the records of producers that have been inactive for [`PRODUCER_RETENTION_MILLIS`]; returns their number.
    pub fn forget_producers(&self, now_millis: u64) -> Result<u64> {
        let before = now_millis.saturating_sub(PRODUCER_RETENTION_MILLIS);
        let is_old = |row: &[u8]| version_of(row).is_some_and(|v| v.millis() < before);
        let mut old = Vec::new();
        let rows = KeyRange::prefix(&idempotency_row_key(PRODUCER_PREFIX));
        self.store.scan(Table::Meta, &rows, &mut |key, row| {
            if is_old(row) {
                old.push(key.to_vec());
            }
            Flow::Continue(())
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        // Checked again under the write lock, in case a producer has written since.
        let mut writer = lock(&self.writer);
        let (mut batch, mut count) = (WriteBatch::default(), 0);
        for key in old {
            let mut still = false;
            self.store
                .get_with(Table::Meta, &key, &mut |row| still = is_old(row))?;
            if still {
                batch.remove(Table::Meta, key);
                count += 1;
            }
        }
        if count == 0 {
            return Ok(0);
        }
        // Only a few copies are in use, and those are read again.
        writer.producers.cached.clear();
        self.store.commit(batch, Durability::Relaxed)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn numbered(number: u64, settled: u64) -> ProducerKey {
        ProducerKey {
            producer: [1; 16],
            sequence: number,
            settled_below: settled,
            created_millis: 0,
        }
    }

    fn run(first: u64, past: u64) -> NumberRange {
        NumberRange { first, past }
    }

    #[test]
    fn a_record_remembers_what_may_be_repeated() {
        let mut record = ProducerRecord::default();
        for n in [numbered(2, 0), numbered(5, 0), numbered(4, 0)] {
            assert!(!record.has(n.sequence));
            record.add(&n);
        }
        assert_eq!(record.runs, [run(2, 3), run(4, 6)]);
        assert!(!record.has(0) && !record.has(1) && !record.has(3) && !record.has(6));
        record.add(&numbered(3, 1));
        assert_eq!(
            (record.floor, record.runs.as_slice()),
            (1, &[run(2, 6)][..])
        );
        let row = record.encode(Version(77));
        assert_eq!(ProducerRecord::decode(&row), Ok(record.clone()));
        assert_eq!(version_of(&row), Some(Version(77)));
        let (_, cut_off) = row.split_last().unwrap();
        assert!(ProducerRecord::decode(cut_off).is_err());
        // A delayed batch brings an older bound.
        record.add(&numbered(1, 0));
        assert_eq!((record.floor, record.runs.len()), (6, 0));
        assert!(record.has(0) && record.has(5) && !record.has(6));
    }

    #[test]
    fn rows_that_make_no_sense_are_refused() {
        let row = |numbers: &[u64]| {
            let mut row = vec![0; 8];
            for n in numbers {
                put_varint(&mut row, *n);
            }
            ProducerRecord::decode(&row)
        };
        assert_eq!(row(&[5, 7, 1, 1, 1]).unwrap().runs, [run(8, 9)]);
        for wrong in [
            [5, u64::MAX, 1, 1, 1],
            [5, 7, 1, 0, 1],
            [5, 7, 1, 1, 0],
            [5, 7, 2, 1, 1],
        ] {
            assert!(row(&wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        /// A merged record has the numbers of both; removing a number removes only that one.
        #[test]
        fn records_are_merged(
            one in prop::collection::vec(0_u64..40, 0..30),
            other in prop::collection::vec(0_u64..40, 0..30),
            out in 0_u64..40,
        ) {
            let record = |numbers: &[u64]| {
                let mut record = ProducerRecord::default();
                numbers.iter().for_each(|n| record.add(&numbered(*n, 0)));
                record
            };
            let mut merged = record(&one);
            merged.merge(&record(&other));
            prop_assert_eq!(&merged, &record(&[one.as_slice(), &other].concat()));
            let mut without = merged.clone();
            without.remove(out);
            for n in 0..42 {
                prop_assert_eq!(without.has(n), n != out && merged.has(n), "{}", n);
            }
            prop_assert_eq!(ProducerRecord::decode(&without.encode(Version(1))), Ok(without));
        }

        /// A record equals a set of numbers added in any order, with bounds that rise arbitrarily.
        #[test]
        fn a_record_is_a_set(batches in prop::collection::vec((0_u64..60, 0_u64..20), 0..120)) {
            let (mut record, mut set, mut floor) = (ProducerRecord::default(), BTreeSet::new(), 0);
            for (number, below) in batches {
                let n = numbered(number, number.saturating_sub(below));
                record.add(&n);
                set.insert(number);
                floor = n.settled_below.max(floor);
                for requested in 0..62 {
                    prop_assert_eq!(record.has(requested), requested < floor || set.contains(&requested), "{}", requested);
                }
                prop_assert_eq!(ProducerRecord::decode(&record.encode(Version(1))), Ok(record.clone()));
                let mut before = record.floor;
                for run in &record.runs {
                    prop_assert!(before < run.first && run.first < run.past);
                    before = run.past;
                }
            }
        }
    }
}
