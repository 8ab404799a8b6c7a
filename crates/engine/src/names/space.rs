//! Space used by files: sums by directory, owner, group, kind, extension and age, updated with each change.
//!
//! They are ordinary counters ([`crate::counts`]), so a commit writes one row for all of them and each is exact. A
//! directory's sums cover its own entries; a tree is summed on request, over directories only.

use super::NamesTxn;
use crate::counts::{self, PendingCounters};
use crate::txn::lock;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::{Inode, Kind, Name};
use esker_model::{Result, VertexId};
use esker_store::Store;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Mutex;

const DAY_NANOS: i64 = 86_400 * 1_000_000_000;

/// Number of counters up to which a list is faster than a map: more than one change of a file has.
const FEW_MAX: usize = 24;

/// Changes of sums by counter.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// The first counters; empty once there are more.
    few: Vec<(Counter, i64)>,
    many: HashMap<Counter, i64, FixedState>,
}

impl Differences {
    fn add(&mut self, counter: Counter, change: i64) {
        if self.many.is_empty() {
            if let Some((_, sum)) = self.few.iter_mut().find(|(c, _)| *c == counter) {
                *sum = counter.combine(*sum, change);
                return;
            }
            if self.few.len() < FEW_MAX {
                self.few.push((counter, counter.combine(0, change)));
                return;
            }
            self.many.extend(self.few.drain(..));
        }
        let sum = self.many.entry(counter).or_default();
        *sum = counter.combine(*sum, change);
    }

    fn of(&self, counter: &Counter) -> i64 {
        let few = self.few.iter().find(|(c, _)| c == counter);
        let sum = few.map(|(_, sum)| sum).or_else(|| self.many.get(counter));
        sum.copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counter, i64)> {
        let many = self.many.iter().map(|(c, n)| (*c, *n));
        self.few.iter().copied().chain(many)
    }
}

/// Returns the extension of a name: the text after its last dot, if that is one to eight bytes, not all digits, and not the full name.
/// Digits number files (`out.00017`): each number would be a kind with a counter of its own.
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

/// Adds one file to the sums of its owner, group, kind, extension and day.
pub(crate) fn count_inode(
    inode: &Inode,
    name: &Name,
    sign: i64,
    add: &mut dyn FnMut(Counter, i64),
) {
    let directory = inode.is_directory();
    let count = if directory {
        Measure::Directories
    } else {
        Measure::Files
    };
    for key in keys(inode, name) {
        add(Counter::Space(key, count), sign);
        count_size(key, inode, sign, add);
    }
}

/// The sums that include a file independently of its directory.
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

/// Whether two states of a file with the same names count the same in all sums.
pub(crate) fn counts_equal(a: &Inode, b: &Inode) -> bool {
    let counted = |inode: &Inode| {
        let owner = (inode.uid, inode.gid, inode.kind());
        (owner, day(inode.mtime), inode.size, inode.blocks)
    };
    counted(a) == counted(b)
}

/// Adds a file's bytes and blocks, if it has any.
pub(crate) fn count_size(
    key: SpaceKey,
    inode: &Inode,
    sign: i64,
    add: &mut dyn FnMut(Counter, i64),
) {
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

/// Adds one name to its directory's sums: its count, and its size if `sized` (a file with several names counts its size in the
/// directory of the first name).
pub(crate) fn count_name(
    directory: VertexId,
    inode: &Inode,
    sized: bool,
    sign: i64,
    add: &mut dyn FnMut(Counter, i64),
) {
    let key = SpaceKey::Directory(directory);
    if inode.is_directory() {
        add(Counter::Space(key, Measure::Directories), sign);
        // The content of a directory itself counts in its own sums.
        count_size(SpaceKey::Directory(inode.id), inode, sign, add);
        return;
    }
    add(Counter::Space(key, Measure::Files), sign);
    if sized {
        count_size(key, inode, sign, add);
    }
}

impl NamesTxn<'_> {
    pub(super) fn note(&mut self, counter: Counter, change: i64) {
        self.current.push((counter, change));
    }

    /// Keeps the differences of the change that was being applied.
    pub(super) fn keep_differences(&mut self) {
        for (counter, change) in self.current.drain(..) {
            self.space.add(counter, change);
        }
    }

    /// Records that an entry of a directory was added or removed.
    pub(super) fn note_changed(&mut self, directory: VertexId, now: i64) {
        self.note(
            Counter::Space(SpaceKey::Directory(directory), Measure::Changed),
            now,
        );
    }

    /// Adds (1) or removes (-1) a file with one name.
    pub(super) fn note_file(&mut self, directory: VertexId, name: &Name, inode: &Inode, sign: i64) {
        let current = &mut self.current;
        let mut add = |counter, change| current.push((counter, change));
        count_inode(inode, name, sign, &mut add);
        count_name(directory, inode, true, sign, &mut add);
    }

    /// Returns a sum of a directory, including the changes of this commit.
    pub(super) fn sum(&self, directory: VertexId, measure: Measure) -> Result<i64> {
        let counter = Counter::Space(SpaceKey::Directory(directory), measure);
        let sum = self.source.sum(directory, measure)?;
        Ok(counter.combine(sum, self.space.of(&counter)))
    }

    /// Returns the number of entries of a directory, including the changes of this commit.
    pub(super) fn entries(&self, directory: VertexId) -> Result<i64> {
        // Engines that have entries of the directory check again at commit.
        self.source.require_empty(directory);
        let files = self.sum(directory, Measure::Files)?;
        Ok(files + self.sum(directory, Measure::Directories)?)
    }
}

/// Returns the committed value of a counter.
pub(crate) fn value(
    store: &dyn Store,
    pending: &Mutex<PendingCounters>,
    counter: Counter,
) -> Result<u64> {
    // Merging takes the same lock, so a change is either in the row or pending.
    let mut pending = lock(pending);
    counts::apply(
        &counter,
        counts::read(store, &counter.encode())?,
        pending.change(&counter),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums equal those of a map, whether they are few or many.
    #[test]
    fn differences_are_sums() {
        let (mut differences, mut sums) = (Differences::default(), HashMap::new());
        for n in 0..200_u32 {
            let key = SpaceKey::User(n * n % 61);
            for (measure, change) in [
                (Measure::Files, 1),
                (Measure::Files, -1),
                (Measure::Bytes, i64::from(n)),
                (Measure::Changed, i64::from(n % 7)),
            ] {
                let counter = Counter::Space(key, measure);
                differences.add(counter, change);
                let sum = sums.entry(counter).or_insert(0);
                *sum = counter.combine(*sum, change);
                assert_eq!(differences.of(&counter), *sum);
            }
            assert_eq!(differences.iter().collect::<HashMap<_, _>>(), sums);
            assert_eq!(differences.iter().count(), sums.len());
        }
        let absent = Counter::Space(SpaceKey::Group(1), Measure::Files);
        assert_eq!(differences.of(&absent), 0);
    }

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
