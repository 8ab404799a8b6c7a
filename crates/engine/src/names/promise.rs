//! Promises that what somebody was told of a file stays so for a while: leases without a list of who has them (IndexFS; Ren,
//! Zheng, Patil & Gibson, SC 2014, section 3.3).
//!
//! An answer depends on the row of the entry, on that of its vertex, and on the way to it: its directories, with their
//! permissions. What is remembered is only until when something was promised: of the ways, one time for all; of rows, one time for
//! each of some thousand slots that they are dealt out to by their keys' hashes. A commit that would change something promised is
//! refused before anything is done, with how long to wait; until a little after that nothing is promised there, so that whoever comes
//! again is not too late again. Only spans of time count, never what a clock shows.
//!
//! Between a promise and the answer that it is for no commit can come: the promise is made first, then the answer is read. A
//! commit that has begun takes its slots out until it has ended.

use super::apart::{Fetched, Placed, Ran, RowPlace};
use super::resolve::Reached;
use crate::Engine;
use crate::txn::{Overlay, lock};
use esker_model::key;
use esker_model::namespace::record::{DentryInode, dentries_prefix, dentry_key};
use esker_model::namespace::{Inode, Kind, NamePath, Namespace as _, hash_of};
use esker_model::object::Asker;
use esker_model::{Error, Result, VertexId};
use esker_store::{Durability, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that promises may be out there that nobody remembers: how long they last at most, in milliseconds.
const PROMISED_KEY: &[u8] = b"promised";
/// Bytes that the rows of a directory's entries begin with.
const PREFIX: usize = 17;
/// Slots that rows are dealt out to.
const SLOTS: usize = 1 << 12;
/// The longest promise, in milliseconds.
pub const PROMISE_MAX: u32 = 10_000;
/// Something is promised if it is asked for this many times as often as it changes.
const READS_FOR_A_CHANGE: u32 = 4;
/// Of so many readings and changes of a slot, half are forgotten.
const COUNTED_MAX: u32 = 128;

/// What is known of a row, or of all ways.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// It stays as it is until then.
    until: u64,
    /// Nothing is promised until then: somebody waits.
    closed: u64,
    /// Commits under way that change it.
    writing: u32,
    reads: u32,
    changes: u32,
}

#[derive(Debug)]
struct State {
    /// The longest promise, in microseconds; none are given where it is 0.
    length: u64,
    ways: Slot,
    rows: Vec<Slot>,
}

/// What was promised, and to whom nobody knows.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Nothing was ever promised otherwise.
    on: AtomicBool,
    state: Mutex<Option<Box<State>>>,
}

/// Rows that a commit changes, until it has ended.
#[must_use = "what is being changed must not be promised"]
pub(crate) struct Writing<'p> {
    promises: &'p Promises,
    slots: Vec<usize>,
    ways: bool,
}

/// The slot of a row, if answers depend on it.
fn slot_of(table: Table, key: &[u8]) -> Option<usize> {
    const HASHED: usize = 25;
    let key = match table {
        // All entries with one hash go together: the number behind it may change.
        Table::Names => key.get(..HASHED).unwrap_or(key),
        Table::Rows if key.len() == size_of_val(&key::vertex(VertexId([0; 16]))) => key,
        _ => return None,
    };
    let hash = FixedState::default().hash_one((table as u8, key));
    Some(hash as usize % SLOTS)
}

impl Slot {
    fn count(&mut self) {
        if self.reads + self.changes >= COUNTED_MAX {
            self.reads /= 2;
            self.changes /= 2;
        }
    }

    fn free(&self, now: u64) -> bool {
        self.writing == 0 && self.closed <= now
    }
}

impl State {
    fn new(length: u64, until: u64) -> Self {
        let slot = Slot {
            until,
            ..Slot::default()
        };
        Self {
            length,
            ways: slot,
            rows: vec![slot; SLOTS],
        }
    }

    /// Promises an answer that depends on these rows: for how long. They are asked for often enough for that, or not.
    fn promise(&mut self, slots: &[usize], now: u64) -> Option<u64> {
        let (mut reads, mut changes) = (u32::MAX, 0);
        for &number in slots {
            let slot = self.rows.get_mut(number)?;
            slot.count();
            slot.reads += 1;
            reads = reads.min(slot.reads);
            changes = changes.max(slot.changes);
        }
        let free = |number: &usize| self.rows.get(*number).is_some_and(|slot| slot.free(now));
        let worth = reads >= READS_FOR_A_CHANGE.saturating_mul(changes);
        if !worth || self.length == 0 || !self.ways.free(now) || !slots.iter().all(free) {
            return None;
        }
        // The share of readings of what happens to it.
        let length = self.length * u64::from(reads) / u64::from(reads + changes);
        let until = now + length;
        self.ways.until = self.ways.until.max(until);
        for &number in slots {
            let slot = self.rows.get_mut(number)?;
            slot.until = slot.until.max(until);
        }
        Some(length)
    }

    fn latest(&self) -> u64 {
        // Whoever promises a row promises the way to it.
        self.ways.until
    }
}

impl Promises {
    /// Takes what a commit changes out of what may be promised, until it has ended; with `ways`, it moves or removes directories or
    /// gives them other permissions. Something of it may have been promised.
    pub(crate) fn begin<'k>(
        &self,
        keys: impl Iterator<Item = (Table, &'k [u8])>,
        ways: bool,
        now: impl Fn() -> u64,
    ) -> Result<Option<Writing<'_>>> {
        if !self.on.load(Ordering::Acquire) {
            return Ok(None);
        }
        let slots: Vec<usize> = keys.filter_map(|(t, key)| slot_of(t, key)).collect();
        let mut held = lock(&self.state);
        let Some(state) = held.as_deref_mut() else {
            return Ok(None);
        };
        let now = now();
        let rows = slots.iter().filter_map(|number| state.rows.get(*number));
        let mut until = rows.map(|slot| slot.until).max().unwrap_or(0);
        if ways {
            until = until.max(state.ways.until);
        }
        if until > now {
            let closed = until + 2 * (until - now) + state.length;
            for number in slots {
                if let Some(slot) = state.rows.get_mut(number) {
                    slot.closed = slot.closed.max(closed);
                }
            }
            if ways {
                state.ways.closed = state.ways.closed.max(closed);
            }
            return Err(Error::Promised {
                millis: (until - now).div_ceil(1_000) + 1,
            });
        }
        for number in &slots {
            if let Some(slot) = state.rows.get_mut(*number) {
                slot.count();
                slot.changes += 1;
                slot.writing += 1;
            }
        }
        if ways {
            state.ways.writing += 1;
        }
        drop(held);
        Ok(Some(Writing {
            promises: self,
            slots,
            ways,
        }))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.promises.state);
        let Some(state) = held.as_deref_mut() else {
            return;
        };
        for number in &self.slots {
            if let Some(slot) = state.rows.get_mut(*number) {
                slot.writing = slot.writing.saturating_sub(1);
            }
        }
        if self.ways {
            state.ways.writing = state.ways.writing.saturating_sub(1);
        }
    }
}

impl Engine {
    /// Takes account of promises that an engine made which ended without a close. To be called when it is opened.
    pub(crate) fn recall_promises(&self) -> Result<()> {
        let Some(row) = self.store.get(Table::Meta, PROMISED_KEY)? else {
            return Ok(());
        };
        let millis = row.try_into().map_or(PROMISE_MAX, u32::from_be_bytes);
        let until = self.clock.monotonic_micros() + u64::from(millis) * 1_000;
        *lock(&self.names.promises.state) = Some(Box::new(State::new(0, until)));
        self.names.promises.on.store(true, Ordering::Release);
        Ok(())
    }

    /// From now on [`Self::stat_promised`] makes promises, of so many milliseconds at most; none with 0.
    pub fn make_promises(&self, millis: u32) -> Result<()> {
        let millis = millis.min(PROMISE_MAX);
        // Who writes now does not know of promises yet, and ends first.
        let _writer = lock(&self.writer);
        let promises = &self.names.promises;
        if millis == 0 && !promises.on.load(Ordering::Acquire) {
            return Ok(());
        }
        let known = self.store.get(Table::Meta, PROMISED_KEY)?;
        let known = known.map(|row| row.try_into().map_or(PROMISE_MAX, u32::from_be_bytes));
        if known.is_none_or(|known| known < millis) {
            let mut batch = WriteBatch::default();
            batch.put(Table::Meta, PROMISED_KEY, millis.to_be_bytes());
            self.store.commit(batch, Durability::Sync)?;
        }
        let mut state = lock(&promises.state);
        let state = state.get_or_insert_with(|| Box::new(State::new(0, 0)));
        state.length = u64::from(millis) * 1_000;
        promises.on.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether [`Error::Promised`] may come.
    pub fn has_promised(&self) -> bool {
        self.names.promises.on.load(Ordering::Acquire)
    }

    /// Makes no more promises. For how many milliseconds some hold yet; after that none is remembered.
    pub fn end_promises(&self) -> Result<u64> {
        let _writer = lock(&self.writer);
        let promises = &self.names.promises;
        let mut held = lock(&promises.state);
        let Some(state) = held.as_deref_mut() else {
            return Ok(0);
        };
        state.length = 0;
        let left = state.latest().saturating_sub(self.clock.monotonic_micros());
        if left > 0 {
            return Ok(left.div_ceil(1_000));
        }
        let mut batch = WriteBatch::default();
        batch.remove(Table::Meta, PROMISED_KEY);
        self.store.commit(batch, Durability::Sync)?;
        *held = None;
        promises.on.store(false, Ordering::Release);
        Ok(0)
    }

    /// As [`esker_model::namespace::Namespace::stat`], and for how many milliseconds from now on the answer stays what it is; 0
    /// where nothing is promised.
    pub fn stat_promised(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, u32)> {
        let promised = if self.has_promised() {
            let reached = self.reach(asker, |way| way.reach(path, follow));
            let place = reached.ok().and_then(|reached| promisable(path, &reached));
            place.map(|(id, entry)| {
                let rows = [
                    (Table::Names, entry.as_slice()),
                    (Table::Rows, &key::vertex(id)),
                ];
                (id, self.promise(rows.into_iter()))
            })
        } else {
            None
        };
        let inode = self.stat(asker, path, follow)?;
        let millis = match promised {
            Some((id, millis)) if id == inode.id => millis,
            _ => 0,
        };
        Ok((inode, millis))
    }

    /// Promises that rows stay as they are, and all ways: for how many milliseconds from now on; 0 if not.
    fn promise<'k>(&self, rows: impl Iterator<Item = (Table, &'k [u8])>) -> u32 {
        let mut slots: Vec<usize> = rows.filter_map(|(t, key)| slot_of(t, key)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut held = lock(&self.names.promises.state);
        let now = self.clock.monotonic_micros();
        let length = held.as_deref_mut().and_then(|s| s.promise(&slots, now));
        // Rounded down: a promise is kept for longer rather than for shorter.
        length.map_or(0, |length| u32::try_from(length / 1_000).unwrap_or(0))
    }

    /// The same for one vertex, that of a file which may lie with another engine.
    pub fn promise_vertex(&self, id: VertexId) -> u32 {
        self.promise(std::iter::once((Table::Rows, &key::vertex(id)[..])))
    }

    /// The same for the entry that a path leads to by directories alone, if it lies here; it does not leave here meanwhile. Its vertex, and
    /// its row.
    pub fn promise_spread(
        &self,
        asker: Option<&Asker>,
        (path, follow): (&NamePath, bool),
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Option<(VertexId, Vec<u8>, u32)>>> {
        self.way_apart(asker, placed, fetched, |way, _| {
            let Some((id, entry)) = promisable(path, &way.reach(path, follow)?) else {
                return Ok(None);
            };
            if placed.place(&entry) != RowPlace::Here {
                return Ok(None);
            }
            let directory = entry.get(..PREFIX).unwrap_or(&entry);
            let rows = [(Table::Names, entry.as_slice()), (Table::Names, directory)];
            let millis = self.promise(rows.into_iter());
            Ok(Some((id, entry, millis)))
        })
    }

    /// For how many milliseconds rows of the namespace, vertices, entries of whole directories, or (`ways`) all directories are promised to
    /// stay as they are. If they are, nothing more is promised of them for a while: who asks wants to change them.
    pub fn promised(
        &self,
        rows: &[Vec<u8>],
        vertices: &[VertexId],
        directories: &[VertexId],
        ways: bool,
    ) -> u64 {
        if !self.has_promised() {
            return 0;
        }
        let vertices: Vec<[u8; 17]> = vertices.iter().map(|id| key::vertex(*id)).collect();
        let directories: Vec<_> = directories.iter().map(|id| dentries_prefix(*id)).collect();
        let rows = rows.iter().map(|key| (Table::Names, key.as_slice()));
        let vertices = vertices.iter().map(|key| (Table::Rows, &key[..]));
        let directories = directories.iter().map(|key| (Table::Names, &key[..]));
        let all = rows.chain(vertices).chain(directories);
        let clock = || self.clock.monotonic_micros();
        match self.names.promises.begin(all, ways, clock) {
            Err(Error::Promised { millis }) => millis,
            _ => 0,
        }
    }

    /// [`Promises::begin`] for whatever there is.
    pub(crate) fn begin_anything(&self) -> Result<Option<Writing<'_>>> {
        let clock = || self.clock.monotonic_micros();
        self.names.promises.begin(std::iter::empty(), true, clock)
    }

    /// [`Promises::begin`] for all that is in an overlay.
    pub(crate) fn begin_changes(
        &self,
        overlay: &Overlay<'_>,
        ways: bool,
    ) -> Result<Option<Writing<'_>>> {
        let clock = || self.clock.monotonic_micros();
        self.names.promises.begin(overlay.keys(), ways, clock)
    }
}

/// The vertex and the row of what a path leads to by directories alone, if its attributes can be promised: it has one name, and nothing is in
/// it.
fn promisable(path: &NamePath, reached: &Reached) -> Option<(VertexId, Vec<u8>)> {
    let Reached::Entry(directory, name, Ok(found)) = reached else {
        return None;
    };
    let DentryInode::Here(inode) = &found.dentry.inode else {
        return None;
    };
    let plain = !matches!(inode.kind(), Kind::Directory | Kind::Symlink) && inode.links == 1;
    let straight = directory.path_of(name) == path.as_bytes();
    let entry = dentry_key(directory.id, hash_of(name), 0);
    (plain && straight).then(|| (found.dentry.id, entry.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn promises(length: u64) -> Promises {
        let promises = Promises::default();
        *lock(&promises.state) = Some(Box::new(State::new(length, 0)));
        promises.on.store(true, Ordering::Release);
        promises
    }

    fn promise(promises: &Promises, row: usize, now: u64) -> Option<u64> {
        let mut state = lock(&promises.state);
        state.as_deref_mut().unwrap().promise(&[row], now)
    }

    fn entry(n: u64) -> [u8; 26] {
        dentry_key(VertexId([1; 16]), n, 0)
    }

    fn change(promises: &Promises, key: &[u8], ways: bool, now: u64) -> Result<(), u64> {
        match promises.begin([(Table::Names, key)].into_iter(), ways, || now) {
            Ok(_) => Ok(()),
            Err(Error::Promised { millis }) => Err(millis),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn what_was_promised_waits_and_is_not_promised_again_until_it_is_done() {
        let promises = promises(SECOND);
        let (mine, other) = (entry(1), entry(2));
        let row = slot_of(Table::Names, &mine).unwrap();
        assert_eq!(promise(&promises, row, 0), Some(SECOND));
        assert_eq!(change(&promises, &other, false, 10), Ok(()));
        assert_eq!(change(&promises, &mine, false, SECOND / 2), Err(501));
        // Somebody waits.
        assert_eq!(promise(&promises, row, SECOND / 2), None);
        assert_eq!(promise(&promises, row, SECOND + 1), None);
        assert_eq!(change(&promises, &mine, false, SECOND + 1), Ok(()));
        // A change of directories waits for all.
        let late = 100 * SECOND;
        let row = slot_of(Table::Names, &entry(3)).unwrap();
        assert_eq!(promise(&promises, row, late), Some(SECOND));
        assert_eq!(change(&promises, &other, true, late), Err(1_001));
        assert_eq!(promise(&promises, row, late), None);
        assert_eq!(change(&promises, &other, true, late + SECOND), Ok(()));
    }

    #[test]
    fn what_is_being_changed_or_changes_often_is_not_promised() {
        let promises = promises(SECOND);
        let mine = entry(1);
        let row = slot_of(Table::Names, &mine).unwrap();
        let clock = || 0;
        let writing = promises.begin([(Table::Names, &mine[..])].into_iter(), false, clock);
        for _ in 0..10 {
            assert_eq!(promise(&promises, row, 0), None);
        }
        drop(writing);
        // Eleven readings, one change.
        assert_eq!(promise(&promises, row, 0), Some(SECOND * 11 / 12));
        let mut now = SECOND;
        for _ in 0..20 {
            change(&promises, &mine, false, now).unwrap();
            now += SECOND;
        }
        assert_eq!(promise(&promises, row, now), None);
    }
}
