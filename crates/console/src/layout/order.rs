//! Order of items within their columns.

use super::Columns;

/// Maximum number of sweeps over the columns, in alternating directions.
const SWEEPS: usize = 12;
/// Number of sweeps without improvement after which the search ends.
const PATIENCE: usize = 4;

/// Orders the columns so that few lines cross: keeps the best result of several sweeps.
pub(super) fn order(columns: &mut Columns) {
    let mut place = vec![0; columns.items.len()];
    note(columns, &mut place);
    let mut best = (total(columns, &place), columns.stacks.clone());
    let mut tired = 0;
    for sweep in 0..SWEEPS {
        if best.0 == 0 || tired == PATIENCE {
            break;
        }
        let to_right = sweep % 2 == 0;
        let count = columns.stacks.len();
        for step in 1..count {
            let number = if to_right { step } else { count - 1 - step };
            by_medians(columns, number, to_right, &mut place);
        }
        exchange(columns, &mut place);
        let crossings = total(columns, &place);
        if crossings < best.0 {
            best = (crossings, columns.stacks.clone());
            tired = 0;
        } else {
            tired += 1;
        }
    }
    columns.stacks = best.1;
}

fn note(columns: &Columns, place: &mut [usize]) {
    for column in &columns.stacks {
        for (at, item) in column.iter().enumerate() {
            place[*item] = at;
        }
    }
}

/// Orders the items of a column by the median of their neighbours; items without neighbours keep their position.
fn by_medians(columns: &mut Columns, number: usize, to_right: bool, place: &mut [usize]) {
    let beside = if to_right {
        &columns.left
    } else {
        &columns.right
    };
    let column = &columns.stacks[number];
    let mut with: Vec<(f64, usize)> = Vec::with_capacity(column.len());
    for item in column {
        let mut places: Vec<usize> = beside[*item].iter().map(|n| place[*n]).collect();
        if !places.is_empty() {
            places.sort_unstable();
            with.push((median(&places), *item));
        }
    }
    with.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut with = with.into_iter().map(|(_, item)| item);
    let ordered: Vec<usize> = column
        .iter()
        .map(|item| {
            if beside[*item].is_empty() {
                *item
            } else {
                with.next().unwrap_or(*item)
            }
        })
        .collect();
    for (at, item) in ordered.iter().enumerate() {
        place[*item] = at;
    }
    columns.stacks[number] = ordered;
}

/// Returns the median; for an even number, weighted towards the denser side (Gansner and others, 1993, section 3).
fn median(places: &[usize]) -> f64 {
    let (half, last) = (places.len() / 2, places.len() - 1);
    let at = |n: usize| places[n] as f64;
    if places.len() % 2 == 1 {
        at(half)
    } else if places.len() == 2 {
        f64::midpoint(at(0), at(1))
    } else {
        let (left, right) = (at(half - 1) - at(0), at(last) - at(half));
        if left + right == 0.0 {
            f64::midpoint(at(half - 1), at(half))
        } else {
            (at(half - 1) * right + at(half) * left) / (left + right)
        }
    }
}

/// Exchanges neighbours in a column as long as that reduces crossings.
fn exchange(columns: &mut Columns, place: &mut [usize]) {
    for number in 0..columns.stacks.len() {
        for _ in 0..4 {
            let mut changed = false;
            for at in 1..columns.stacks[number].len() {
                let (a, b) = (columns.stacks[number][at - 1], columns.stacks[number][at]);
                let (mut now, mut then) = (0, 0);
                for beside in [&columns.left, &columns.right] {
                    let (one, other) = pair(&beside[a], &beside[b], place);
                    now += one;
                    then += other;
                }
                if then < now {
                    columns.stacks[number].swap(at - 1, at);
                    place[a] = at;
                    place[b] = at - 1;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }
}

/// Counts crossings between the lines of two neighbours: with the first above the second, and the reverse.
fn pair(a: &[usize], b: &[usize], place: &[usize]) -> (u64, u64) {
    // Sorting makes this linear in the number of lines, instead of quadratic for hubs.
    let sorted = |items: &[usize]| {
        let mut places: Vec<usize> = items.iter().map(|n| place[*n]).collect();
        places.sort_unstable();
        places
    };
    let (a, b) = (sorted(a), sorted(b));
    let above = |a: &[usize], b: &[usize]| {
        let (mut sum, mut less) = (0_u64, 0);
        for one in a {
            while b.get(less).is_some_and(|other| other < one) {
                less += 1;
            }
            sum += less as u64;
        }
        sum
    };
    (above(&a, &b), above(&b, &a))
}

fn total(columns: &Columns, place: &[usize]) -> u64 {
    let pairs = columns.stacks.iter().map(|column| {
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for (at, item) in column.iter().enumerate() {
            ends.extend(columns.right[*item].iter().map(|to| (at, place[*to])));
        }
        crossings(&mut ends)
    });
    pairs.sum()
}

/// Counts the crossings of lines between two columns, given by the positions of their ends.
fn crossings(ends: &mut [(usize, usize)]) -> u64 {
    ends.sort_unstable();
    let size = ends.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
    // Number of lines so far that end at or above each position, as a Fenwick tree.
    let mut tree = vec![0_u64; size + 1];
    let (mut sum, mut seen) = (0, 0);
    for (_, to) in ends.iter() {
        let (mut at, mut above) = (to + 1, 0);
        while at > 0 {
            above += tree[at];
            at &= at - 1;
        }
        sum += seen - above;
        let mut at = to + 1;
        while at <= size {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
        seen += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn crossings_are_counted_as_looking_at_all_pairs_does(
            mut ends in prop::collection::vec((0_usize..12, 0_usize..12), 0..40),
        ) {
            let mut expected = 0;
            for (n, a) in ends.iter().enumerate() {
                for b in &ends[n + 1..] {
                    expected += u64::from((a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1));
                }
            }
            prop_assert_eq!(crossings(&mut ends), expected);
        }
    }
}
