//! The vertices visited at one position of a chain.

use foldhash::fast::FixedState;
use std::collections::HashMap;

const VISITED: u8 = 1;
const REFUSED: u8 = 2;

/// Number of marks from which on an array is used instead of a hash table: an array costs one byte of memory for each
/// vertex in the adjacency cache, however few are visited.
const SPARSE_MAX: usize = 1 << 13;
/// Number of vertices in the cache up to which an array is used from the beginning.
const DENSE_VERTICES: usize = 1 << 16;

/// Vertices visited at a position, by their dense numbers in the adjacency cache.
#[derive(Debug, Default)]
pub(crate) struct VisitedSet {
    marks: Marks,
    /// Visited vertices, in runs of one step each.
    visited: Vec<u32>,
    /// Index in `visited` at which each step's run begins, and the step.
    runs: Vec<(usize, u32)>,
}

/// The mark of each vertex: 0 for not reached, `VISITED` or `REFUSED`.
#[derive(Debug)]
enum Marks {
    Sparse(HashMap<u32, u8, FixedState>),
    Dense(Vec<u8>),
}

impl Default for Marks {
    fn default() -> Self {
        Self::Sparse(HashMap::default())
    }
}

impl VisitedSet {
    /// Marks vertices as visited; returns those that were not reached before, which the caller adds or refuses.
    /// `cached` is the number of vertices in the cache.
    pub(crate) fn mark<'n>(
        &mut self,
        numbers: impl IntoIterator<Item = &'n u32>,
        cached: usize,
        fresh: &mut Vec<u32>,
    ) {
        for number in numbers {
            let first = match &mut self.marks {
                // Most edges of a large traversal come here, so that a call for each of them would be felt.
                Marks::Dense(marks) => first_visit(slot(marks, *number)),
                Marks::Sparse(_) => self.marks.visit(*number, cached),
            };
            if first {
                fresh.push(*number);
            }
        }
    }

    /// Marks a reached vertex as refused by a filter.
    pub(crate) fn refuse(&mut self, number: u32) {
        self.marks.set(number, REFUSED);
    }

    /// Adds vertices that the step was the first to reach.
    pub(crate) fn add(&mut self, step: u32, numbers: &[u32]) {
        if self.runs.last().is_none_or(|(_, last)| *last != step) {
            self.runs.push((self.visited.len(), step));
        }
        self.visited.extend_from_slice(numbers);
    }

    /// Whether a vertex was reached and not refused.
    pub(crate) fn is_visited(&self, number: u32) -> bool {
        self.marks.get(number) == VISITED
    }

    /// The visited vertices, in runs of one step each.
    pub(crate) fn visited(&self) -> &[u32] {
        &self.visited
    }

    /// The vertices that the step was the first to reach.
    pub(crate) fn reached_by(&self, step: u32) -> &[u32] {
        let run = self.runs.iter().rev().find(|(_, of)| *of == step);
        run.and_then(|(begin, _)| self.visited.get(*begin..))
            .unwrap_or_default()
    }

    /// Sorts the vertices of each step by their ids, which `id` returns.
    pub(crate) fn sort_steps(&mut self, id: impl Fn(u32) -> u128) {
        let mut end = self.visited.len();
        for (begin, _) in self.runs.iter().rev() {
            if let Some(run) = self.visited.get_mut(*begin..end) {
                // The first half of an id mostly decides. Beside the number it spares two random reads for each comparison.
                let half = |number: &u32| ((id(*number) >> 64) as u64, *number);
                let mut halves: Vec<(u64, u32)> = run.iter().map(half).collect();
                halves
                    .sort_unstable_by(|(a, m), (b, n)| a.cmp(b).then_with(|| id(*m).cmp(&id(*n))));
                for (slot, (_, number)) in run.iter_mut().zip(halves) {
                    *slot = number;
                }
            }
            end = *begin;
        }
    }

    /// Removes the vertices after the first `limit`; returns them.
    pub(crate) fn cut(&mut self, limit: usize) -> Vec<u32> {
        let cut = self.visited.split_off(limit.min(self.visited.len()));
        cut.iter().for_each(|number| self.refuse(*number));
        cut
    }

    /// Frees the marks of a position to which the chain does not return.
    pub(crate) fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }
}

impl Marks {
    fn get(&self, number: u32) -> u8 {
        match self {
            Self::Sparse(marks) => marks.get(&number).copied(),
            Self::Dense(marks) => marks.get(number as usize).copied(),
        }
        .unwrap_or(0)
    }

    fn set(&mut self, number: u32, mark: u8) {
        match self {
            Self::Sparse(marks) => {
                marks.insert(number, mark);
            }
            Self::Dense(marks) => *slot(marks, number) = mark,
        }
    }

    /// Marks a vertex as visited unless it has a mark; returns whether it had none.
    fn visit(&mut self, number: u32, cached: usize) -> bool {
        if let Self::Sparse(marks) = self
            && (marks.len() >= SPARSE_MAX || cached <= DENSE_VERTICES)
        {
            // Zeroed memory that is never touched costs nothing.
            let mut dense = vec![0; cached.next_power_of_two()];
            for (number, mark) in marks.drain() {
                *slot(&mut dense, number) = mark;
            }
            *self = Self::Dense(dense);
        }
        match self {
            Self::Sparse(marks) => first_visit(marks.entry(number).or_insert(0)),
            Self::Dense(marks) => first_visit(slot(marks, number)),
        }
    }
}

/// Marks a vertex as visited unless it has a mark; returns whether it had none.
#[inline]
fn first_visit(mark: &mut u8) -> bool {
    let first = *mark == 0;
    if first {
        *mark = VISITED;
    }
    first
}

/// The mark of a vertex, which may have got its number after the array was made.
#[inline]
fn slot(marks: &mut Vec<u8>, number: u32) -> &mut u8 {
    let i = number as usize;
    if marks.len() <= i {
        marks.resize((i + 1).next_power_of_two(), 0);
    }
    &mut marks[i]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Small and large sets, in small and large caches, agree with a map.
        #[test]
        fn a_set_agrees_with_a_map(
            steps in prop::collection::vec(prop::collection::vec(0_u32..40_000, 0..9_000), 1..4),
            cached in prop::sample::select(vec![1_usize, 40_000, 1 << 17]),
            refused in 2_u32..5,
        ) {
            let mut set = VisitedSet::default();
            let mut model = BTreeMap::<u32, Option<u32>>::new();
            for (step, numbers) in (0..).zip(&steps) {
                let mut fresh = Vec::new();
                set.mark(numbers, cached, &mut fresh);
                for number in numbers {
                    let kept = (number % refused != 0).then_some(step);
                    model.entry(*number).or_insert(kept);
                }
                fresh.iter().filter(|n| **n % refused == 0).for_each(|n| set.refuse(*n));
                fresh.retain(|n| n % refused != 0);
                set.add(step, &fresh);
                let mut by_step: Vec<u32> = set.reached_by(step).to_vec();
                by_step.sort_unstable();
                let expected = model.iter().filter(|(_, s)| **s == Some(step));
                prop_assert_eq!(by_step, expected.map(|(n, _)| *n).collect::<Vec<_>>());
            }
            // Up to eight vertices have the first half of their ids in common.
            let id = |n: u32| u128::from(n % 5000) << 64 | u128::from(!n);
            set.sort_steps(id);
            let mut expected: Vec<(u32, u128, u32)> =
                model.iter().filter_map(|(n, step)| Some(((*step)?, id(*n), *n))).collect();
            expected.sort_unstable();
            let expected: Vec<u32> = expected.into_iter().map(|(_, _, n)| n).collect();
            prop_assert_eq!(set.visited(), &expected);
            for number in 0..40_000 {
                let visited = model.get(&number).is_some_and(Option::is_some);
                prop_assert_eq!(set.is_visited(number), visited);
            }
            let half = expected.len() / 2;
            prop_assert_eq!(set.cut(half), &expected[half..]);
            prop_assert_eq!(set.visited(), &expected[..half]);
        }
    }
}
