//! What a tier keeps on disk: behind memory, and across restarts.
//!
//! Answers are appended to segments; when there is no room, the oldest segment goes whole, so the files never take more than was allowed
//! and nothing is ever moved. An index in memory says where the newest record of a path is; it is made from the segments at the
//! start. A record has a checksum and its whole key: what is torn or is another path's is as if it were not there.
//!
//! A change makes what was fetched before it untrue: it is noted in memory for this run, and as a record for the next one.

pub(crate) mod hostile;
mod record;
mod segment;

use crate::given::digest;
use esker_origin::Found;
use esker_site_cache::entry::{Happened, Time, Wants};
use foldhash::fast::FixedState;
use record::{Body, Record};
use segment::Segments;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Paths that the index has at most; then the oldest segment goes.
const PATHS_MAX: usize = 4 << 20;
/// Changes that are noted one by one; then all that was fetched before is taken to be touched.
const CHANGES_MAX: usize = 1 << 20;

/// An answer from the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Old {
    /// What there was.
    pub(crate) found: Found,
    /// When the origin was asked.
    pub(crate) at: Time,
    /// Whether somebody has told of changes since, in this run, and of none.
    pub(crate) told: bool,
}

impl Old {
    /// Its number, for who may say that nothing has changed.
    pub(crate) fn digest(&self) -> u64 {
        digest(&self.found)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Touched {
    own: Time,
    tree: Time,
}

struct State {
    segments: Segments,
    /// Of each path's hash, where its newest record is.
    index: HashMap<u64, segment::At, FixedState>,
    touched: HashMap<u64, Touched, FixedState>,
    /// What was fetched before this may be touched.
    floor: Time,
}

/// The disk of one tier. Reading and writing are short, and block.
pub(crate) struct Disk {
    state: Mutex<State>,
    /// When this run began: what was told before holds no more.
    run: Time,
}

fn hash(origin: &str, path: &[u8], wants: Wants) -> u64 {
    FixedState::with_seed(17).hash_one((origin, path, wants))
}

/// Itself and the directories above it.
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
    /// Opens a folder, made if it is not there. It is this tier's alone.
    pub(crate) fn open(folder: &Path, bytes_max: u64, now: Time) -> io::Result<Self> {
        let mut index: HashMap<u64, segment::At, FixedState> = HashMap::default();
        let mut touched: HashMap<u64, Touched, FixedState> = HashMap::default();
        let segments = Segments::open(folder, bytes_max, &mut |at, record: &Record| match &record
            .body
        {
            Body::Answer { .. } => {
                index.insert(hash(&record.origin, &record.path, record.wants), at);
            }
            Body::Touched { tree } => {
                note(&mut touched, &record.origin, &record.path, *tree, record.at);
            }
        })?;
        let state = State {
            segments,
            index,
            touched,
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

    /// Bytes of its files, and paths it knows.
    pub(crate) fn used(&self) -> (u64, usize) {
        let state = self.lock();
        (state.segments.bytes(), state.index.len())
    }

    /// What was kept of a path, unless it was touched since. `holds_since` is when promises to tell of changes were last lost.
    pub(crate) fn get(
        &self,
        origin: &str,
        path: &[u8],
        wants: Wants,
        holds_since: Time,
    ) -> Option<Old> {
        let mut state = self.lock();
        let key = hash(origin, path, wants);
        let at = *state.index.get(&key)?;
        let record = state.segments.read(at).ok().flatten();
        let record =
            record.filter(|r| *r.origin == *origin && *r.path == *path && r.wants == wants);
        let Some(Record {
            at,
            body: Body::Answer { found, told },
            ..
        }) = record
        else {
            state.index.remove(&key);
            return None;
        };
        if state.is_touched(origin, path, at) {
            state.index.remove(&key);
            return None;
        }
        let told = told && at >= self.run.max(holds_since);
        Some(Old { found, at, told })
    }

    /// Keeps an answer to a question that was sent at `at`, unless something happened since.
    pub(crate) fn put(&self, origin: &str, path: &[u8], wants: Wants, old: &Old) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_touched(origin, path, old.at) {
            return Ok(());
        }
        let record = Record {
            origin: origin.into(),
            path: path.into(),
            wants,
            at: old.at,
            body: Body::Answer {
                found: old.found.clone(),
                told: old.told,
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

    /// Something happened to a path.
    pub(crate) fn happened(
        &self,
        origin: &str,
        path: &[u8],
        happened: &Happened,
        now: Time,
    ) -> io::Result<()> {
        let tree = !matches!(happened, Happened::Changed(_));
        let mut state = self.lock();
        note(&mut state.touched, origin, path, tree, now);
        if state.touched.len() > CHANGES_MAX {
            state.touched.clear();
            state.floor = now;
            state.index.clear();
            return state.segments.clear();
        }
        let record = Record {
            origin: origin.into(),
            path: path.into(),
            wants: Wants::Stat,
            at: now,
            body: Body::Touched { tree },
        };
        if let Err(error) = state.segments.append(&record) {
            // The next run would not know: it is to find nothing instead.
            state.index.clear();
            state.segments.clear()?;
            return Err(error);
        }
        state.shrink()
    }
}

/// Something happened to a path: the listing above shows it, too.
fn note(
    touched: &mut HashMap<u64, Touched, FixedState>,
    origin: &str,
    path: &[u8],
    tree: bool,
    at: Time,
) {
    for (path, tree) in upwards(path).zip([tree, false]) {
        let one = touched.entry(hash(origin, path, Wants::Stat)).or_default();
        one.own = one.own.max(at);
        if tree {
            one.tree = one.tree.max(at);
        }
    }
}

impl State {
    fn is_touched(&self, origin: &str, path: &[u8], at: Time) -> bool {
        if at < self.floor {
            return true;
        }
        let of = |path: &[u8]| {
            let key = hash(origin, path, Wants::Stat);
            self.touched.get(&key).copied().unwrap_or_default()
        };
        of(path).own >= at || upwards(path).any(|p| of(p).tree >= at)
    }

    /// Forgets what lay in segments that are gone.
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
