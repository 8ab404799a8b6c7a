//! Leases on the state of files without a list of lease holders (IndexFS; Ren, Zheng, Patil & Gibson, SC 2014, section 3.3).
//!
//! An answer depends on the row of the entry, on that of its vertex, and on its path: the directories, with their permissions.
//! Only expiry times are recorded: one for all directories on paths together; for rows, one for each of some thousand slots,
//! chosen by the hashes of their keys. A commit that would change a leased row is refused before it writes anything, with the
//! time to wait; until somewhat later no lease is granted there, so that the retry succeeds. Only durations count, never
//! clock readings.
//!
//! No commit can come between a lease and its answer: the lease is granted first, then the answer is read. A commit in
//! progress blocks leases in its slots until it has ended.

use crate::Engine;
use crate::object::object_of;
use crate::txn::lock;
use esker_model::key;
use esker_model::namespace::record::is_dentry;
use esker_model::namespace::{Inode, NamePath, Namespace as _};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use esker_store::{Durability, Table, WriteBatch};
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Present while leases may exist that no process remembers: their maximum duration in milliseconds.
const LEASED_KEY: &[u8] = b"promised";
/// Number of slots that rows are hashed into.
const SLOTS: usize = 1 << 12;
/// The longest lease, in milliseconds.
pub const LEASE_MAX: u32 = 10_000;
/// Minimum ratio of reads to changes for which a lease is granted.
const READS_FOR_A_CHANGE: u32 = 4;
/// Counters are halved when the sum of reads and changes reaches this value.
const COUNTED_MAX: u32 = 128;

/// Lease state of rows with one hash, or of all directories on paths.
#[derive(Debug, Clone, Copy, Default)]
struct LeaseSlot {
    /// Time at which the last lease ends.
    until: u64,
    /// Time until which no lease is granted, because a writer waits.
    closed: u64,
    /// Commits in progress that change the slot.
    writing: u32,
    reads: u32,
    changes: u32,
}

#[derive(Debug)]
struct LeaseState {
    /// The longest lease, in microseconds; 0 disables granting.
    length: u64,
    paths: LeaseSlot,
    rows: Vec<LeaseSlot>,
}

/// All leases, without their holders.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Whether any lease may exist.
    on: AtomicBool,
    state: Mutex<Option<Box<LeaseState>>>,
}

/// Rows that a commit in progress changes; blocks leases on them until dropped.
#[must_use = "what is being changed must not be promised"]
pub(crate) struct LeaseBlock<'p> {
    leases: &'p Leases,
    slots: Vec<usize>,
    paths: bool,
}

/// Returns the slot of a row, if answers depend on the row: that of an entry, and that of a file's vertex.
fn slot_of(table: Table, key: &[u8]) -> Option<usize> {
    let key = match table {
        // All entries with one hash share a slot.
        Table::Names if is_dentry(key) => key::names::without_number(key),
        Table::Rows if key::vertex_of(key).is_some() => object_of(key).is_none().then_some(key)?,
        _ => return None,
    };
    let hash = FixedState::default().hash_one((table as u8, key));
    Some(hash as usize % SLOTS)
}

impl LeaseSlot {
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

impl LeaseState {
    fn new(length: u64, until: u64) -> Self {
        let slot = LeaseSlot {
            until,
            ..LeaseSlot::default()
        };
        Self {
            length,
            paths: slot,
            rows: vec![slot; SLOTS],
        }
    }

    /// Grants a lease on an answer that depends on these rows; returns its duration. `None` if they change too often.
    fn grant(&mut self, slots: &[usize], now: u64) -> Option<u64> {
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
        if !worth || self.length == 0 || !self.paths.free(now) || !slots.iter().all(free) {
            return None;
        }
        // The duration is proportional to the share of reads.
        let length = self.length * u64::from(reads) / u64::from(reads + changes);
        let until = now + length;
        self.paths.until = self.paths.until.max(until);
        for &number in slots {
            let slot = self.rows.get_mut(number)?;
            slot.until = slot.until.max(until);
        }
        Some(length)
    }

    fn latest(&self) -> u64 {
        // A lease on a row also leases all directories on its path.
        self.paths.until
    }
}

impl Leases {
    /// Blocks leases on the rows that a commit changes until it has ended; with `paths`, also on directories, which the commit moves,
    /// removes or gives other permissions. Fails with `Leased` if any of them is leased.
    pub(crate) fn begin<'k>(
        &self,
        keys: impl Iterator<Item = (Table, &'k [u8])>,
        paths: bool,
        now: impl Fn() -> u64,
    ) -> Result<Option<LeaseBlock<'_>>> {
        if !self.on.load(Ordering::Acquire) {
            return Ok(None);
        }
        let slots: Vec<usize> = keys.filter_map(|(t, key)| slot_of(t, key)).collect();
        let mut guard = lock(&self.state);
        let Some(state) = guard.as_deref_mut() else {
            return Ok(None);
        };
        let now = now();
        let rows = slots.iter().filter_map(|number| state.rows.get(*number));
        let mut until = rows.map(|slot| slot.until).max().unwrap_or(0);
        if paths {
            until = until.max(state.paths.until);
        }
        if until > now {
            let closed = until + 2 * (until - now) + state.length;
            for number in slots {
                if let Some(slot) = state.rows.get_mut(number) {
                    slot.closed = slot.closed.max(closed);
                }
            }
            if paths {
                state.paths.closed = state.paths.closed.max(closed);
            }
            return Err(Error::Leased {
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
        if paths {
            state.paths.writing += 1;
        }
        drop(guard);
        Ok(Some(LeaseBlock {
            leases: self,
            slots,
            paths,
        }))
    }
}

impl Drop for LeaseBlock<'_> {
    fn drop(&mut self) {
        let mut guard = lock(&self.leases.state);
        let Some(state) = guard.as_deref_mut() else {
            return;
        };
        for number in &self.slots {
            if let Some(slot) = state.rows.get_mut(*number) {
                slot.writing = slot.writing.saturating_sub(1);
            }
        }
        if self.paths {
            state.paths.writing = state.paths.writing.saturating_sub(1);
        }
    }
}

impl Engine {
    /// Recovers leases granted by a process that ended without a close. Must be called when the database is opened.
    pub(crate) fn recover_leases(&self) -> Result<()> {
        let Some(row) = self.store.get(Table::Meta, LEASED_KEY)? else {
            return Ok(());
        };
        let millis = row.try_into().map_or(LEASE_MAX, u32::from_be_bytes);
        let until = self.clock.monotonic_micros() + u64::from(millis) * 1_000;
        *lock(&self.names.leases.state) = Some(Box::new(LeaseState::new(0, until)));
        self.names.leases.on.store(true, Ordering::Release);
        Ok(())
    }

    /// Enables leases in [`Self::stat_with_lease`], of at most `millis` milliseconds; 0 disables granting.
    pub fn enable_leases(&self, millis: u32) -> Result<()> {
        let millis = millis.min(LEASE_MAX);
        // Taking the write lock waits out commits begun before leases were enabled.
        let _writer = lock(&self.writer);
        let leases = &self.names.leases;
        if millis == 0 && !leases.on.load(Ordering::Acquire) {
            return Ok(());
        }
        let known = self.store.get(Table::Meta, LEASED_KEY)?;
        let known = known.map(|row| row.try_into().map_or(LEASE_MAX, u32::from_be_bytes));
        if known.is_none_or(|known| known < millis) {
            let mut batch = WriteBatch::default();
            batch.put(Table::Meta, LEASED_KEY, millis.to_be_bytes());
            self.store.commit(batch, Durability::Sync)?;
        }
        let mut state = lock(&leases.state);
        let state = state.get_or_insert_with(|| Box::new(LeaseState::new(0, 0)));
        state.length = u64::from(millis) * 1_000;
        leases.on.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether writes may fail with [`Error::Leased`].
    pub fn has_leases(&self) -> bool {
        self.names.leases.on.load(Ordering::Acquire)
    }

    /// Stops granting leases. Returns the milliseconds until the last lease ends; at 0 all lease state is cleared.
    pub fn disable_leases(&self) -> Result<u64> {
        let _writer = lock(&self.writer);
        let leases = &self.names.leases;
        let mut guard = lock(&leases.state);
        let Some(state) = guard.as_deref_mut() else {
            return Ok(0);
        };
        state.length = 0;
        let left = state.latest().saturating_sub(self.clock.monotonic_micros());
        if left > 0 {
            return Ok(left.div_ceil(1_000));
        }
        let mut batch = WriteBatch::default();
        batch.remove(Table::Meta, LEASED_KEY);
        self.store.commit(batch, Durability::Sync)?;
        *guard = None;
        leases.on.store(false, Ordering::Release);
        Ok(0)
    }

    /// Returns the result of [`esker_model::namespace::Namespace::stat`] with the duration of its lease in milliseconds; 0 if none
    /// was granted.
    pub fn stat_with_lease(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, u32)> {
        let leased = if self.has_leases() {
            let place = self.read_local(principal, |reader| reader.leasable(path, follow));
            place.ok().flatten().map(|(id, entry)| {
                let rows = [
                    (Table::Names, entry.as_slice()),
                    (Table::Rows, &key::vertex(id)),
                ];
                (id, self.grant(rows.into_iter()))
            })
        } else {
            None
        };
        let inode = self.stat(principal, path, follow)?;
        let millis = match leased {
            Some((id, millis)) if id == inode.id => millis,
            _ => 0,
        };
        Ok((inode, millis))
    }

    /// Leases rows and all directories on paths; returns the duration in milliseconds, or 0 if no lease was granted.
    pub(super) fn grant<'k>(&self, rows: impl Iterator<Item = (Table, &'k [u8])>) -> u32 {
        let mut slots: Vec<usize> = rows.filter_map(|(t, key)| slot_of(t, key)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut guard = lock(&self.names.leases.state);
        let now = self.clock.monotonic_micros();
        let length = guard.as_deref_mut().and_then(|s| s.grant(&slots, now));
        // Rounded down: the engine keeps the lease longer than the client relies on it.
        length.map_or(0, |length| u32::try_from(length / 1_000).unwrap_or(0))
    }

    /// [`Leases::begin`] for a change of unknown extent.
    pub(crate) fn begin_structural_change(&self) -> Result<Option<LeaseBlock<'_>>> {
        let clock = || self.clock.monotonic_micros();
        self.names.leases.begin(std::iter::empty(), true, clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexId;
    use esker_model::namespace::record::dentry_key;

    const SECOND: u64 = 1_000_000;

    fn leases(length: u64) -> Leases {
        let leases = Leases::default();
        *lock(&leases.state) = Some(Box::new(LeaseState::new(length, 0)));
        leases.on.store(true, Ordering::Release);
        leases
    }

    fn grant(leases: &Leases, row: usize, now: u64) -> Option<u64> {
        let mut state = lock(&leases.state);
        state.as_deref_mut().unwrap().grant(&[row], now)
    }

    fn entry(n: u64) -> [u8; 26] {
        dentry_key(VertexId([1; 16]), n, 0)
    }

    fn change(leases: &Leases, key: &[u8], paths: bool, now: u64) -> Result<(), u64> {
        match leases.begin([(Table::Names, key)].into_iter(), paths, || now) {
            Ok(_) => Ok(()),
            Err(Error::Leased { millis }) => Err(millis),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn a_change_of_a_leased_row_waits_and_blocks_new_leases() {
        let leases = leases(SECOND);
        let (mine, other) = (entry(1), entry(2));
        let row = slot_of(Table::Names, &mine).unwrap();
        assert_eq!(grant(&leases, row, 0), Some(SECOND));
        assert_eq!(change(&leases, &other, false, 10), Ok(()));
        assert_eq!(change(&leases, &mine, false, SECOND / 2), Err(501));
        // A writer waits.
        assert_eq!(grant(&leases, row, SECOND / 2), None);
        assert_eq!(grant(&leases, row, SECOND + 1), None);
        assert_eq!(change(&leases, &mine, false, SECOND + 1), Ok(()));
        // A change of directories waits for all leases.
        let late = 100 * SECOND;
        let row = slot_of(Table::Names, &entry(3)).unwrap();
        assert_eq!(grant(&leases, row, late), Some(SECOND));
        assert_eq!(change(&leases, &other, true, late), Err(1_001));
        assert_eq!(grant(&leases, row, late), None);
        assert_eq!(change(&leases, &other, true, late + SECOND), Ok(()));
    }

    #[test]
    fn rows_in_change_or_changed_often_are_not_leased() {
        let leases = leases(SECOND);
        let mine = entry(1);
        let row = slot_of(Table::Names, &mine).unwrap();
        let clock = || 0;
        let writing = leases.begin([(Table::Names, &mine[..])].into_iter(), false, clock);
        for _ in 0..10 {
            assert_eq!(grant(&leases, row, 0), None);
        }
        drop(writing);
        // Eleven reads, one change.
        assert_eq!(grant(&leases, row, 0), Some(SECOND * 11 / 12));
        let mut now = SECOND;
        for _ in 0..20 {
            change(&leases, &mine, false, now).unwrap();
            now += SECOND;
        }
        assert_eq!(grant(&leases, row, now), None);
    }
}
