//! Vertical positions of items.

use super::{Columns, Gaps, LayoutItem, Size};

/// Number of sweeps over the columns.
const SWEEPS: usize = 10;

/// Returns the vertical centre of each item, from top to bottom.
pub(super) fn positions(columns: &Columns, sizes: &[Size], gaps: Gaps) -> Vec<f64> {
    let height = |item: usize| sizes.get(item).map_or(0.0, |size| size.height);
    let gap = |a: usize, b: usize| match (columns.items[a], columns.items[b]) {
        (LayoutItem::Box(_), LayoutItem::Box(_)) => gaps.rows,
        _ => gaps.lines,
    };
    let distance = |a: usize, b: usize| f64::midpoint(height(a), height(b)) + gap(a, b);
    let mut middle = vec![0.0; columns.items.len()];
    for column in &columns.stacks {
        let mut last: Option<usize> = None;
        for item in column {
            middle[*item] = last.map_or(height(*item) / 2.0, |last| {
                middle[last] + distance(last, *item)
            });
            last = Some(*item);
        }
    }
    let count = columns.stacks.len();
    for sweep in 0..SWEEPS {
        for step in 0..count {
            let number = if sweep % 2 == 0 {
                step
            } else {
                count - 1 - step
            };
            let column = &columns.stacks[number];
            let ideal: Vec<(f64, f64)> = column
                .iter()
                .map(|item| ideal_position(columns, *item, sweep, &middle))
                .collect();
            let distance: Vec<f64> = column.windows(2).map(|w| distance(w[0], w[1])).collect();
            for (item, at) in column.iter().zip(nearest(&ideal, &distance)) {
                middle[*item] = at;
            }
        }
    }
    middle
}

/// Returns an item's ideal position between its neighbours, and its weight: long lines get a high weight, to be straight.
fn ideal_position(columns: &Columns, item: usize, sweep: usize, middle: &[f64]) -> (f64, f64) {
    let weight = |other: usize| match (columns.items[item], columns.items[other]) {
        (LayoutItem::Bend(_), LayoutItem::Bend(_)) => 8.0,
        (LayoutItem::Box(_), LayoutItem::Box(_)) => 1.0,
        _ => 2.0,
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    let sides: &[&Vec<Vec<usize>>] = match sweep {
        // One side first, so that the other comes near; then both.
        0 | 2 => &[&columns.left],
        1 | 3 => &[&columns.right],
        _ => &[&columns.left, &columns.right],
    };
    for side in sides {
        for other in &side[item] {
            let weight = weight(*other);
            sum += weight * middle[*other];
            weights += weight;
        }
    }
    if weights == 0.0 {
        // Without neighbours, it keeps its position with a low weight.
        (middle[item], 0.01)
    } else {
        (sum / weights, weights)
    }
}

/// Returns the positions closest to the ideal ones (weighted least squares) that keep order and minimum distances: after subtraction of
/// the distances, this is isotonic regression, solved by pooling adjacent violators.
fn nearest(ideal: &[(f64, f64)], distance: &[f64]) -> Vec<f64> {
    /// Adjacent items at minimum distance: weighted mean of their ideal positions, total weight, and number.
    struct Pool {
        mean: f64,
        weight: f64,
        count: usize,
    }
    let mut offsets = Vec::with_capacity(ideal.len());
    let mut offset = 0.0;
    let mut pools: Vec<Pool> = Vec::new();
    for (n, (at, weight)) in ideal.iter().enumerate() {
        if n > 0 {
            offset += distance[n - 1];
        }
        offsets.push(offset);
        let mut pool = Pool {
            mean: at - offset,
            weight: *weight,
            count: 1,
        };
        while let Some(last) = pools.pop_if(|last| last.mean > pool.mean) {
            let weight = last.weight + pool.weight;
            pool = Pool {
                mean: (last.mean * last.weight + pool.mean * pool.weight) / weight,
                weight,
                count: last.count + pool.count,
            };
        }
        pools.push(pool);
    }
    let means = pools
        .iter()
        .flat_map(|pool| std::iter::repeat_n(pool.mean, pool.count));
    means
        .zip(offsets)
        .map(|(mean, offset)| mean + offset)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_get_their_ideal_position_if_there_is_room() {
        let ideal = [(0.0, 1.0), (100.0, 1.0)];
        assert_eq!(nearest(&ideal, &[50.0]), [0.0, 100.0]);
    }

    #[test]
    fn those_that_want_the_same_place_stand_round_it() {
        let ideal = [(10.0, 1.0), (10.0, 1.0), (10.0, 1.0)];
        assert_eq!(nearest(&ideal, &[20.0, 20.0]), [-10.0, 10.0, 30.0]);
    }

    #[test]
    fn the_heavier_moves_less() {
        let places = nearest(&[(10.0, 9.0), (10.0, 1.0)], &[20.0]);
        assert!((places[0] - 8.0).abs() < 1e-9, "{places:?}");
        assert!((places[1] - 28.0).abs() < 1e-9, "{places:?}");
    }
}
