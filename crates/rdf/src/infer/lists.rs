//! Operations on ascending lists: merge and difference.

use crate::id::Id;
use crate::quads::{pack, sort, unpack};
use std::cell::OnceCell;

/// Inferred pairs of a property.
#[derive(Debug, Default)]
pub(super) struct InferredPairs {
    pub(super) so: Vec<u64>,
    os: OnceCell<Vec<u64>>,
    /// Pairs that are edges of a transitive property, not results of its closure.
    pub(super) edges: Vec<u64>,
}

impl InferredPairs {
    /// Invalidates the reverse direction, which is computed from the pairs.
    pub(super) fn changed(&mut self) {
        self.os = OnceCell::new();
    }

    pub(super) fn os(&self) -> &[u64] {
        self.os.get_or_init(|| {
            let mut turned: Vec<u64> = self.so.iter().map(|p| p.rotate_left(32)).collect();
            sort(&mut turned);
            turned
        })
    }
}

/// Returns the values of a key in ascending packed pairs.
pub(super) fn range(pairs: &[u64], key: Id) -> impl Iterator<Item = Id> + '_ {
    let from = pairs.partition_point(|p| *p < pack(key, 0));
    pairs[from..]
        .iter()
        .map(|p| unpack(*p))
        .take_while(move |(k, _)| *k == key)
        .map(|(_, v)| v)
}

/// Merges two disjoint ascending lists.
pub(super) fn merge<T: Ord + Copy>(a: &mut Vec<T>, b: &[T]) {
    if b.is_empty() {
        return;
    }
    if a.last() < b.first() {
        a.extend_from_slice(b);
        return;
    }
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i] < b[j] {
            all.push(a[i]);
            i += 1;
        } else {
            all.push(b[j]);
            j += 1;
        }
    }
    all.extend_from_slice(&a[i..]);
    all.extend_from_slice(&b[j..]);
    *a = all;
}

/// Sorts a concatenation of sorted lists; this sort makes use of the runs.
#[expect(
    clippy::stable_sort_primitive,
    reason = "it merges runs, the unstable one does not"
)]
pub(super) fn sort_runs(ids: &mut [Id]) {
    ids.sort();
}

/// Removes the items of another ascending list from an ascending list.
pub(super) fn subtract<T: Ord + Copy>(list: &mut Vec<T>, other: &[T]) {
    let mut at = 0;
    list.retain(|x| {
        while at < other.len() && other[at] < *x {
            at += 1;
        }
        other.get(at) != Some(x)
    });
}
