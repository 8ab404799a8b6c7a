//! Disk cache of a tier: below memory, and across restarts.
//!
//! Answers are appended to segments; when the capacity is reached, the oldest segment is deleted, so the files never exceed the
//! capacity and no data is moved. An index in memory locates the newest record of each path; it is rebuilt from the segments at the
//! start. A record has a checksum and its full key: torn records and records of other paths are ignored.
//!
//! A change invalidates earlier answers: it is recorded in memory for this run, and as a record for the next one.

pub(crate) mod hostile;
mod record;
mod segment;

use crate::answer::digest;
use esker_origin::PathMetadata;
use esker_site_cache::entry::{ChangeKind, Time, Wants};
use foldhash::fast::FixedState;
use record::{Body, Record};
use segment::Segments;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of paths in the index; beyond it, the oldest segment is deleted.
const PATHS_MAX: usize = 4 << 20;
/// Maximum number of individual changes; beyond it, all earlier answers count as invalid.
const CHANGES_MAX: usize = 1 << 20;

/// An answer from the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredAnswer {
    /// Metadata of the path.
    pub(crate) found: PathMetadata,
    /// Time at which the origin was read.
    pub(crate) at: Time,
    /// Whether upstream has sent invalidations since, in this run, and none of this path.
    pub(crate) subscribed: bool,
}

impl StoredAnswer {
    /// Returns the digest of the answer, for requests whose response may be that it is unchanged.
    pub(crate) fn digest(&self) -> u64 {
        digest(&self.found)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct ChangeTimes {
    own: Time,
    tree: Time,
}

struct State {
    segments: Segments,
    /// Location of the newest record, by hash of the path.
    index: HashMap<u64, segment::At, FixedState>,
    changes: HashMap<u64, ChangeTimes, FixedState>,
    /// Answers fetched before this time count as changed.
    floor: Time,
}

/// Disk cache of one tier. Reads and writes are short, and block.
pub(crate) struct Disk {
    state: Mutex<State>,
    /// Start of this run: earlier subscriptions have ended.
    run: Time,
}

fn hash(origin: &str, path: &[u8], wants: Wants) -> u64 {
    FixedState::with_seed(17).hash_one((origin, path, wants))
}

/// Iterates over the path and its ancestors.
fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |at| {
        let end = at.iter().rposition(|b| *b == b'/')?;
        match end {
            0 if at.len() > 1 => Some(&at[..1]),
            0 => None,
            _ => Some(&at[..end]),
        }
    })
}

impl Disk {
    /// Opens a folder, created if missing, for exclusive use by this tier.
    pub(crate) fn open(folder: &Path, bytes_max: u64, now: Time) -> io::Result<Self> {
        let mut index: HashMap<u64, segment::At, FixedState> = HashMap::default();
        let mut changes: HashMap<u64, ChangeTimes, FixedState> = HashMap::default();
        let segments = Segments::open(folder, bytes_max, &mut |at, record: &Record| match &record
            .body
        {
            Body::Answer { .. } => {
                index.insert(hash(&record.origin, &record.path, record.wants), at);
            }
            Body::Changed { tree } => {
                insert_change(&mut changes, &record.origin, &record.path, *tree, record.at);
            }
        })?;
        let state = State {
            segments,
            index,
            changes,
            floor: 0,
        };
        Ok(Self {
            state: Mutex::new(state),
            run: now,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the files in bytes, and the number of indexed paths.
    pub(crate) fn used(&self) -> (u64, usize) {
        let state = self.lock();
        (state.segments.bytes(), state.index.len())
    }

    /// Returns the stored answer of a path, unless it changed since. `holds_since` is the last time that upstream subscriptions were lost.
    pub(crate) fn get(
        &self,
        origin: &str,
        path: &[u8],
        wants: Wants,
        holds_since: Time,
    ) -> Option<StoredAnswer> {
        let mut state = self.lock();
        let key = hash(origin, path, wants);
        let at = *state.index.get(&key)?;
        let record = state.segments.read(at).ok().flatten();
        let record =
            record.filter(|r| *r.origin == *origin && *r.path == *path && r.wants == wants);
        let Some(Record {
            at,
            body: Body::Answer { found, subscribed },
            ..
        }) = record
        else {
            state.index.remove(&key);
            return None;
        };
        if state.is_changed(origin, path, at) {
            state.index.remove(&key);
            return None;
        }
        let subscribed = subscribed && at >= self.run.max(holds_since);
        Some(StoredAnswer {
            found,
            at,
            subscribed,
        })
    }

    /// Stores an answer to a request that was sent at `at`, unless the path changed since.
    pub(crate) fn put(
        &self,
        origin: &str,
        path: &[u8],
        wants: Wants,
        old: &StoredAnswer,
    ) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_changed(origin, path, old.at) {
            return Ok(());
        }
        let record = Record {
            origin: origin.into(),
            path: path.into(),
            wants,
            at: old.at,
            body: Body::Answer {
                found: old.found.clone(),
                subscribed: old.subscribed,
            },
        };
        let key = hash(origin, path, wants);
        if let Some(at) = state.segments.append(&record)? {
            state.index.insert(key, at);
        } else {
            // Too large for any segment.
            state.index.remove(&key);
        }
        state.shrink()
    }

    /// Records a change of a path.
    pub(crate) fn record_change(
        &self,
        origin: &str,
        path: &[u8],
        kind: &ChangeKind,
        now: Time,
    ) -> io::Result<()> {
        let tree = !matches!(kind, ChangeKind::Changed(_));
        let mut state = self.lock();
        insert_change(&mut state.changes, origin, path, tree, now);
        if state.changes.len() > CHANGES_MAX {
            state.changes.clear();
            state.floor = now;
            state.index.clear();
            return state.segments.clear();
        }
        let record = Record {
            origin: origin.into(),
            path: path.into(),
            wants: Wants::Stat,
            at: now,
            body: Body::Changed { tree },
        };
        if let Err(error) = state.segments.append(&record) {
            // The next run would miss the change: it must find no answers instead.
            state.index.clear();
            state.segments.clear()?;
            return Err(error);
        }
        state.shrink()
    }
}

/// Records a change of a path and of its parent's listing.
fn insert_change(
    changes: &mut HashMap<u64, ChangeTimes, FixedState>,
    origin: &str,
    path: &[u8],
    tree: bool,
    at: Time,
) {
    for (path, tree) in upwards(path).zip([tree, false]) {
        let one = changes.entry(hash(origin, path, Wants::Stat)).or_default();
        one.own = one.own.max(at);
        if tree {
            one.tree = one.tree.max(at);
        }
    }
}

impl State {
    fn is_changed(&self, origin: &str, path: &[u8], at: Time) -> bool {
        if at < self.floor {
            return true;
        }
        let of = |path: &[u8]| {
            let key = hash(origin, path, Wants::Stat);
            self.changes.get(&key).copied().unwrap_or_default()
        };
        of(path).own >= at || upwards(path).any(|p| of(p).tree >= at)
    }

    /// Removes index entries of deleted segments.
    fn shrink(&mut self) -> io::Result<()> {
        if self.index.len() > PATHS_MAX {
            self.segments.drop_oldest()?;
        }
        if self.segments.take_dropped() {
            let segments = &self.segments;
            self.index.retain(|_, at| segments.has(*at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
