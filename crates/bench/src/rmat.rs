//! RMAT graphs (Chakrabarti, Zhan, Faloutsos: R-MAT, SDM 2004): few vertices with very many edges, many with few.
//!
//! a = 0.45, b = 0.15, c = 0.15, d = 0.25, as in GraphMeta's evaluation. Edges are distinct, without loops.

use super::random::Random;

const A: f64 = 0.45;
const B: f64 = 0.15;
const C: f64 = 0.15;

/// Returns `count` distinct edges between `2^scale` vertices, in random order; `None` if there cannot be that many.
pub(crate) fn edges(scale: u32, count: u64, seed: u64) -> Option<Vec<(u32, u32)>> {
    // Above a quarter of all pairs, the improbable ones would have to be drawn, which takes too long.
    let pairs = 1_u64.checked_shl(2 * scale)?;
    if scale == 0 || scale > 31 || count > pairs / 4 {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let mut random = Random::new(seed);
    let permutation = Permutation::new(scale, &mut random);
    let mut all: Vec<u64> = Vec::with_capacity(count + count / 8);
    while all.len() < count {
        for _ in 0..(count - all.len()) {
            let (source, destination) = one(scale, &mut random);
            if source != destination {
                let (source, destination) = (permutation.of(source), permutation.of(destination));
                all.push(u64::from(source) << 32 | u64::from(destination));
            }
        }
        all.sort_unstable();
        all.dedup();
    }
    random.shuffle(&mut all);
    Some(
        all.into_iter()
            .map(|e| ((e >> 32) as u32, e as u32))
            .collect(),
    )
}

/// Draws an edge: halves the adjacency matrix `scale` times, each time choosing one quarter.
fn one(scale: u32, random: &mut Random) -> (u32, u32) {
    let (mut source, mut destination) = (0, 0);
    for _ in 0..scale {
        let at = random.unit();
        let (down, right) = if at < A {
            (0, 0)
        } else if at < A + B {
            (0, 1)
        } else if at < A + B + C {
            (1, 0)
        } else {
            (1, 1)
        };
        source = source << 1 | down;
        destination = destination << 1 | right;
    }
    (source, destination)
}

/// A permutation of `0..2^scale`, so that a vertex's degree is independent of its number.
struct Permutation {
    scale: u32,
    factors: [u32; 2],
}

impl Permutation {
    fn new(scale: u32, random: &mut Random) -> Self {
        // Odd factors are invertible modulo a power of two.
        Self {
            scale,
            factors: [random.next() as u32 | 1, random.next() as u32 | 1],
        }
    }

    fn of(&self, number: u32) -> u32 {
        let mask = ((1_u64 << self.scale) - 1) as u32;
        let mut x = number;
        for factor in self.factors {
            x = x.wrapping_mul(factor) & mask;
            x ^= x >> self.scale.div_ceil(2);
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_permutation_is_one() {
        for scale in [1, 2, 7, 12] {
            let p = Permutation::new(scale, &mut Random::new(3));
            let all: HashSet<u32> = (0..1 << scale).map(|x| p.of(x)).collect();
            assert_eq!(all.len(), 1 << scale);
            assert!(all.iter().all(|x| *x < 1 << scale));
        }
    }

    #[test]
    fn edges_are_distinct_reproducible_and_skewed() {
        let all = edges(12, 20_000, 1).unwrap();
        assert_eq!(all.len(), 20_000);
        assert_eq!(all, edges(12, 20_000, 1).unwrap());
        assert_ne!(all, edges(12, 20_000, 2).unwrap());
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 20_000);
        assert!(all.iter().all(|(s, d)| s != d));
        let mut degrees = vec![0_u32; 1 << 12];
        all.iter().for_each(|(s, _)| degrees[*s as usize] += 1);
        // The mean is 5; the maximum of an RMAT graph is many times higher.
        assert!(degrees.iter().max().unwrap() > &50);
    }

    #[test]
    fn too_many_edges_are_refused() {
        assert!(edges(4, 1000, 1).is_none());
        assert!(edges(0, 1, 1).is_none());
        assert!(edges(40, 1, 1).is_none());
    }
}
