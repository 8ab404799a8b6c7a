//! What is remembered of senders that number their batches ([`esker_model::once`]): one row each in `meta`, a copy of it
//! here.
//!
//! ```text
//!  once/[00]esker-sender/[sender 16]   [version 8][since][floor][count]([gap][length])*      all but the version LEB128
//!                                      [count]([number][bytes])*                             if there are any
//! ```
//!
//! Of the numbers below `floor` each was applied or is settled. Above it those that were applied are listed as runs:
//! how many numbers after the end of the run before (after `floor` at first) one begins, and how many it holds. A sender
//! whose batches arrive in order is its floor alone. The version is that of the newest commit with a batch of the
//! sender, so that those that are long gone can be forgotten; `since` is when the row was made, in milliseconds: one that
//! was made anew, after the sender was forgotten, does not know what was before.

#![deny(clippy::indexing_slicing)]

use super::lock;
use crate::Engine;
use crate::catalog::once_key;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_model::once::{AGE_MILLIS_MAX, KEPT_MILLIS, Numbered, SENDER_PREFIX, SPAN_MAX};
use esker_model::{Error, Flow, Result, Version};
use esker_store::{Durability, KeyRange, Read, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::collections::HashMap;

type Sender = [u8; 16];
type Map = HashMap<Sender, Record, FixedState>;

/// Copies kept of senders' rows. The rest is read again when it is needed.
const SENDERS_MAX: usize = 1 << 14;
/// A copy with more runs is not kept.
const RUNS_KEPT_MAX: usize = 64;
/// A copy with more bytes of answers is not kept.
const ANSWERS_COPIED_MAX: usize = 4 << 10;
/// Bytes of answers in a row. Where a sender has more open, the oldest are left out.
const ANSWERS_BYTES_MAX: usize = 64 << 10;

/// Numbers from `first` to before `past`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u64,
    past: u64,
}

/// What one sender has had applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    since: u64,
    floor: u64,
    /// In order, with a number that was not applied before each.
    runs: Vec<Run>,
    /// What was answered, by number, of those that are not settled.
    answers: Vec<(u64, Box<[u8]>)>,
}

/// All senders known, and what the group that is being applied changes about them.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    known: Map,
    changed: Map,
}

fn row_key(sender: &Sender) -> Vec<u8> {
    once_key(&[SENDER_PREFIX, sender.as_slice()].concat())
}

/// What a marker says, if it is a numbered one.
pub(crate) fn parse(marker: &[u8]) -> Result<Option<Numbered>> {
    Numbered::parse(marker).map_err(|e| {
        Error::Invalid(format!(
            "the marker of a batch begins as those of clients that number their batches, but goes on wrong: {e}"
        ))
    })
}

impl Record {
    fn has(&self, number: u64) -> bool {
        let after = self.runs.partition_point(|r| r.past <= number);
        number < self.floor || self.runs.get(after).is_some_and(|r| r.first <= number)
    }

    fn add(&mut self, numbered: &Numbered) {
        self.answers.retain(|(n, _)| *n >= numbered.settled);
        self.raise(numbered.settled);
        let number = numbered.number;
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
                    Run {
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

    /// What the sender is answered, and is to be answered again until it says that it knows.
    fn answered(&mut self, number: u64, answer: Vec<u8>) {
        self.answers.push((number, answer.into()));
        while self.answer_bytes() > ANSWERS_BYTES_MAX {
            let oldest = self.answers.iter().enumerate().min_by_key(|(_, (n, _))| *n);
            let Some((place, _)) = oldest else { return };
            self.answers.remove(place);
        }
    }

    /// What either knows, for a sender whose batches went to two databases. Each may have forgotten what was before it began.
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

    /// That one was not applied after all.
    pub(crate) fn remove(&mut self, number: u64) {
        self.answers.retain(|(n, _)| *n != number);
        let mut runs = std::mem::take(&mut self.runs);
        if number < self.floor {
            let (first, past) = (number, self.floor);
            runs.insert(0, Run { first, past });
            self.floor = number;
        }
        for run in runs {
            if (run.first..run.past).contains(&number) {
                let (before, behind) = ((run.first, number), (number + 1, run.past));
                let left = [before, behind].map(|(first, past)| Run { first, past });
                self.runs
                    .extend(left.into_iter().filter(|r| r.first < r.past));
            } else {
                self.runs.push(run);
            }
        }
    }

    /// All below is settled; what was applied right above it goes into the floor too.
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
                    runs.push(Run { first, past });
                    before = past;
                }
                _ => return Err(r.error("a run of numbers of 64 bits behind the one before")),
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

    fn read(store: &dyn Read, sender: &Sender) -> Result<Option<Self>> {
        let mut record = None;
        store.get_with(Table::Meta, &row_key(sender), &mut |row| {
            record = Some(Self::decode(row));
        })?;
        let corrupt = |e| Error::corrupt("row of a sender in table `meta`", e);
        record.transpose().map_err(corrupt)
    }
}

/// Whether a batch with that marker has been applied or is settled, by what is stored.
pub(crate) fn applied(store: &dyn Read, numbered: &Numbered) -> Result<bool> {
    let record = Record::read(store, &numbered.sender)?;
    Ok(record.is_some_and(|r| r.has(numbered.number)))
}

fn version_of(row: &[u8]) -> Option<Version> {
    Reader::new(row).u64("a version").ok().map(Version)
}

/// Refuses a batch if it cannot be told whether it was applied before its sender was forgotten and known again `since`;
/// or, if it comes from the future, because its sender may be forgotten before it is too old.
fn check_made(numbered: &Numbered, now_millis: u64, since: u64) -> Result<()> {
    const HOUR: u64 = 3_600_000;
    if numbered.made > now_millis.saturating_add(AGE_MILLIS_MAX) {
        return Err(Error::Invalid(format!(
            "a batch came {} hours before it was made: set the clock of this machine or of the one that sent it",
            (numbered.made - now_millis) / HOUR
        )));
    }
    if since > numbered.made.saturating_add(AGE_MILLIS_MAX) {
        return Err(Error::Unavailable(format!(
            "a batch was made {} hours ago by a client that was forgotten since, so that nobody can tell whether it was \
             applied then; look whether what it says is there, and write it anew if not",
            now_millis.saturating_sub(numbered.made) / HOUR
        )));
    }
    Ok(())
}

impl Senders {
    /// Begins a group. What an earlier one left that did not come to its end was not committed.
    pub(crate) fn begin(&mut self) {
        self.changed.clear();
    }

    /// Whether a batch is to be applied now: not if it was, in this group or before.
    pub(crate) fn admit(
        &mut self,
        store: &dyn Read,
        numbered: &Numbered,
        now_millis: u64,
    ) -> Result<bool> {
        let sender = &numbered.sender;
        if !self.changed.contains_key(sender)
            && !self.known.contains_key(sender)
            && let Some(record) = Record::read(store, sender)?
        {
            if self.known.len() >= SENDERS_MAX {
                self.known.clear();
            }
            self.known.insert(*sender, record);
        }
        let record = self.changed.get(sender).or_else(|| self.known.get(sender));
        if record.is_some_and(|r| r.has(numbered.number)) {
            return Ok(false);
        }
        check_made(numbered, now_millis, record.map_or(now_millis, |r| r.since))?;
        let floor = numbered.settled.max(record.map_or(0, |r| r.floor));
        let span = numbered.number - floor.min(numbered.number);
        if span >= SPAN_MAX {
            return Err(Error::Limit {
                what: "the number of batches between a client's oldest open one and its newest"
                    .into(),
                got: span,
                limit: SPAN_MAX - 1,
            });
        }
        Ok(true)
    }

    /// A batch of this group is applied.
    pub(super) fn add(&mut self, numbered: &Numbered, now_millis: u64) {
        let known = self.known.get(&numbered.sender);
        let new = || Record {
            since: now_millis,
            ..Record::default()
        };
        self.changed
            .entry(numbered.sender)
            .or_insert_with(|| known.cloned().unwrap_or_else(new))
            .add(numbered);
    }

    /// Changes of the namespace of this group are made, and answered so.
    pub(crate) fn answered(&mut self, numbered: &Numbered, now_millis: u64, answer: Vec<u8>) {
        self.add(numbered, now_millis);
        if let Some(record) = self.changed.get_mut(&numbered.sender) {
            record.answered(numbered.number, answer);
        }
    }

    /// What was answered to changes that were made before, if it is kept still.
    pub(crate) fn answer(
        &self,
        store: &dyn Read,
        numbered: &Numbered,
    ) -> Result<Option<Box<[u8]>>> {
        let sender = &numbered.sender;
        let of = |record: &Record| {
            let found = record.answers.iter().find(|(n, _)| *n == numbered.number);
            found.map(|(_, answer)| answer.clone())
        };
        if let Some(record) = self.changed.get(sender).or_else(|| self.known.get(sender)) {
            return Ok(of(record));
        }
        Ok(Record::read(store, sender)?.as_ref().and_then(of))
    }

    /// Appends the rows of the group.
    pub(super) fn put(&self, version: Version, batch: &mut WriteBatch) {
        for (sender, record) in &self.changed {
            batch.put(Table::Meta, row_key(sender), record.encode(version));
        }
    }

    /// The group is committed; or it is not, or that is not known, and the rows tell.
    pub(crate) fn end(&mut self, committed: bool) {
        for (sender, record) in self.changed.drain() {
            let small =
                record.runs.len() <= RUNS_KEPT_MAX && record.answer_bytes() <= ANSWERS_COPIED_MAX;
            if committed && small {
                self.known.insert(sender, record);
            } else {
                self.known.remove(&sender);
            }
        }
    }
}

impl Engine {
    /// Forgets senders that have been silent for [`KEPT_MILLIS`], and says how many.
    pub fn forget_senders(&self, now_millis: u64) -> Result<u64> {
        let before = now_millis.saturating_sub(KEPT_MILLIS);
        let is_old = |row: &[u8]| version_of(row).is_some_and(|v| v.millis() < before);
        let mut old = Vec::new();
        let rows = KeyRange::prefix(&once_key(SENDER_PREFIX));
        self.store.scan(Table::Meta, &rows, &mut |key, row| {
            if is_old(row) {
                old.push(key.to_vec());
            }
            Flow::Continue(())
        })?;
        if old.is_empty() {
            return Ok(0);
        }
        // Whoever has written since is looked at again where nobody else can write.
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
        // Few of them are in use, and those are read again.
        writer.senders.known.clear();
        self.store.commit(batch, Durability::Relaxed)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn numbered(number: u64, settled: u64) -> Numbered {
        Numbered {
            sender: [1; 16],
            number,
            settled,
            made: 0,
        }
    }

    fn run(first: u64, past: u64) -> Run {
        Run { first, past }
    }

    #[test]
    fn a_record_remembers_what_may_be_repeated() {
        let mut record = Record::default();
        for n in [numbered(2, 0), numbered(5, 0), numbered(4, 0)] {
            assert!(!record.has(n.number));
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
        assert_eq!(Record::decode(&row), Ok(record.clone()));
        assert_eq!(version_of(&row), Some(Version(77)));
        let (_, cut_off) = row.split_last().unwrap();
        assert!(Record::decode(cut_off).is_err());
        // What arrives late brings an older bound.
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
            Record::decode(&row)
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
        /// Two records together know what either knew; a number that is taken out is the only one that is missing then.
        #[test]
        fn records_are_merged(
            one in prop::collection::vec(0_u64..40, 0..30),
            other in prop::collection::vec(0_u64..40, 0..30),
            out in 0_u64..40,
        ) {
            let record = |numbers: &[u64]| {
                let mut record = Record::default();
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
            prop_assert_eq!(Record::decode(&without.encode(Version(1))), Ok(without));
        }

        /// Against a set of numbers, in any order, with bounds that rise as they like.
        #[test]
        fn a_record_is_a_set(batches in prop::collection::vec((0_u64..60, 0_u64..20), 0..120)) {
            let (mut record, mut set, mut floor) = (Record::default(), BTreeSet::new(), 0);
            for (number, below) in batches {
                let n = numbered(number, number.saturating_sub(below));
                record.add(&n);
                set.insert(number);
                floor = n.settled.max(floor);
                for asked in 0..62 {
                    prop_assert_eq!(record.has(asked), asked < floor || set.contains(&asked), "{}", asked);
                }
                prop_assert_eq!(Record::decode(&record.encode(Version(1))), Ok(record.clone()));
                let mut before = record.floor;
                for run in &record.runs {
                    prop_assert!(before < run.first && run.first < run.past);
                    before = run.past;
                }
            }
        }
    }
}
