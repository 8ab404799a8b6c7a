//! What files take: sums by directory, owner, group, kind, ending and age, kept with each change.
//!
//! They are counters like all others ([`crate::counts`]), so a commit writes one row for all of them and each is exact. A
//! directory's are those of its own entries; what is below it is summed up when it is asked for, over directories alone.

use super::NamesTxn;
use crate::counts::{self, PendingCounters};
use crate::txn::lock;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::{Inode, Kind, Name, Usage};
use esker_model::{Result, VertexId};
use esker_store::Store;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Mutex;

const DAY_NANOS: i64 = 86_400 * 1_000_000_000;

/// Differences by counter.
#[derive(Debug, Default)]
pub(crate) struct Differences(HashMap<Counter, i64, FixedState>);

impl Differences {
    fn add(&mut self, counter: Counter, change: i64) {
        let sum = self.0.entry(counter).or_default();
        *sum = counter.combine(*sum, change);
    }

    fn of(&self, counter: &Counter) -> i64 {
        self.0.get(counter).copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counter, i64)> {
        self.0.iter().map(|(c, n)| (*c, *n))
    }
}

/// The ending of a name: what is behind its last dot, if that is one to eight bytes, not digits alone, and not all of the name.
/// Digits number files (`out.00017`): each would be a kind of its own, with a counter of its own.
pub(crate) fn ending(name: &Name) -> [u8; 8] {
    let mut out = [0; 8];
    let bytes = name.as_bytes();
    if let Some(dot) = bytes.iter().rposition(|b| *b == b'.')
        && dot > 0
        && let Some(text) = bytes.get(dot + 1..)
        && !text.iter().all(u8::is_ascii_digit)
        && let Some(place) = out.get_mut(..text.len())
    {
        place.copy_from_slice(text);
        out.make_ascii_lowercase();
    }
    out
}

/// The day of a time in nanoseconds since 1970.
pub(crate) fn day(time: i64) -> i32 {
    i32::try_from(time.div_euclid(DAY_NANOS)).unwrap_or(0)
}

/// What one file adds to its owner's, group's, kind's, ending's and day's sums.
pub(crate) fn of_inode(inode: &Inode, name: &Name, sign: i64, add: &mut dyn FnMut(Counter, i64)) {
    let directory = inode.is_directory();
    let count = if directory {
        Measure::Directories
    } else {
        Measure::Files
    };
    for key in keys(inode, name) {
        add(Counter::Space(key, count), sign);
        of_size(key, inode, sign, add);
    }
}

/// The sums that one file is a part of, whatever directory it is in.
pub(crate) fn keys(inode: &Inode, name: &Name) -> impl Iterator<Item = SpaceKey> {
    let keys = [
        SpaceKey::User(inode.uid),
        SpaceKey::Group(inode.gid),
        SpaceKey::Kind(inode.kind().bits()),
        SpaceKey::Day(day(inode.mtime)),
        SpaceKey::Ending(ending(name)),
    ];
    keys.into_iter()
        .take(if inode.kind() == Kind::File { 5 } else { 4 })
}

/// Its bytes and blocks, if it has any.
pub(crate) fn of_size(key: SpaceKey, inode: &Inode, sign: i64, add: &mut dyn FnMut(Counter, i64)) {
    for (measure, n) in [
        (Measure::Bytes, inode.size),
        (Measure::Blocks, inode.blocks),
    ] {
        if n > 0 {
            add(
                Counter::Space(key, measure),
                sign.saturating_mul(n.cast_signed()),
            );
        }
    }
}

/// What one name adds to its directory's sums: it is counted, and its size where `sized` (a file with several names has its
/// size where its first name is).
pub(crate) fn of_name(
    directory: VertexId,
    inode: &Inode,
    sized: bool,
    sign: i64,
    add: &mut dyn FnMut(Counter, i64),
) {
    let key = SpaceKey::Directory(directory);
    if inode.is_directory() {
        add(Counter::Space(key, Measure::Directories), sign);
        // What a directory takes itself is part of what is below it.
        of_size(SpaceKey::Directory(inode.id), inode, sign, add);
        return;
    }
    add(Counter::Space(key, Measure::Files), sign);
    if sized {
        of_size(key, inode, sign, add);
    }
}

impl NamesTxn<'_> {
    pub(super) fn note(&mut self, counter: Counter, change: i64) {
        self.present.push((counter, change));
    }

    /// The change that was being applied holds.
    pub(super) fn keep_differences(&mut self) {
        for (counter, change) in self.present.drain(..) {
            self.space.add(counter, change);
        }
    }

    /// Something came into a directory or went from it.
    pub(super) fn note_changed(&mut self, directory: VertexId, now: i64) {
        self.note(
            Counter::Space(SpaceKey::Directory(directory), Measure::Changed),
            now,
        );
    }

    /// A file with one name comes (1) or goes (-1).
    pub(super) fn note_file(&mut self, directory: VertexId, name: &Name, inode: &Inode, sign: i64) {
        let present = &mut self.present;
        let mut add = |counter, change| present.push((counter, change));
        of_inode(inode, name, sign, &mut add);
        of_name(directory, inode, true, sign, &mut add);
    }

    /// A sum of a directory, as this commit has it.
    pub(super) fn sum(
        &self,
        store: &dyn Store,
        directory: VertexId,
        measure: Measure,
    ) -> Result<u64> {
        let counter = Counter::Space(SpaceKey::Directory(directory), measure);
        if let Some(apart) = self.apart {
            let sum = apart.sum(directory, measure)?.cast_signed();
            let sum = counter.combine(sum, self.space.of(&counter));
            return Ok(sum.max(0).cast_unsigned());
        }
        let change = lock(self.pending).change(&counter);
        let change = counter.combine(change, self.space.of(&counter));
        counts::apply(&counter, counts::read(store, &counter.encode())?, change)
    }

    /// How many entries a directory has, as this commit has it.
    pub(super) fn entries(&self, store: &dyn Store, directory: VertexId) -> Result<u64> {
        if let Some(apart) = self.apart {
            // Whoever has entries of it looks again.
            apart.empty(directory);
        }
        let files = self.sum(store, directory, Measure::Files)?;
        Ok(files + self.sum(store, directory, Measure::Directories)?)
    }
}

/// A counter's value as it is committed.
pub(crate) fn value(
    store: &dyn Store,
    pending: &Mutex<PendingCounters>,
    counter: Counter,
) -> Result<u64> {
    // Merging needs the same lock, so a change is either in the row or pending.
    let mut pending = lock(pending);
    counts::apply(
        &counter,
        counts::read(store, &counter.encode())?,
        pending.change(&counter),
    )
}

/// The sums of one key.
pub(crate) fn usage(
    store: &dyn Store,
    pending: &Mutex<PendingCounters>,
    key: SpaceKey,
) -> Result<Usage> {
    let of = |measure| value(store, pending, Counter::Space(key, measure));
    Ok(Usage {
        files: of(Measure::Files)?,
        directories: of(Measure::Directories)?,
        bytes: of(Measure::Bytes)?,
        blocks: of(Measure::Blocks)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_and_days() {
        let ending = |name: &str| {
            let out = ending(&Name::new(name.as_bytes()).unwrap());
            String::from_utf8(out.into_iter().take_while(|b| *b != 0).collect()).unwrap()
        };
        for (name, expected) in [
            ("a.H5", "h5"),
            ("a.tar.gz", "gz"),
            (".bashrc", ""),
            ("a", ""),
            ("a.", ""),
            ("a.ninechars", ""),
            ("a.eightchr", "eightchr"),
            ("a.7z", "7z"),
            ("a.0017", ""),
        ] {
            assert_eq!(ending(name), expected, "{name}");
        }
        assert_eq!((day(-1), day(0), day(DAY_NANOS)), (-1, 0, 1));
    }
}
