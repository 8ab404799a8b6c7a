//! Approximate recent request counts of paths in little memory: W-TinyLFU's sketch of four-bit counters.

use crate::path::PathId;

/// Rows of counters; the smallest counter of a path is the estimate.
const ROWS: usize = 4;

/// A count-min sketch that halves all counters after ten times as many uses as it has columns.
#[derive(Debug)]
pub(super) struct Sketch {
    /// Two counters per byte would save half; one byte each is simpler and costs four bytes per cached path.
    counters: Vec<[u8; ROWS]>,
    uses: u64,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Self {
            counters: vec![[0; ROWS]; 1024],
            uses: 0,
        }
    }

    /// Grows to at least as many columns as the cache has paths; growing resets the counters.
    pub(super) fn fit(&mut self, paths: usize) {
        if paths > self.counters.len() {
            self.counters = vec![[0; ROWS]; (paths * 2).next_power_of_two()];
            self.uses = 0;
        }
    }

    fn positions(&self, path: PathId) -> [usize; ROWS] {
        let mut hash = (u64::from(path.0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        std::array::from_fn(|_| {
            hash ^= hash >> 32;
            hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            (hash >> 20) as usize & (self.counters.len() - 1)
        })
    }

    pub(super) fn count(&mut self, path: PathId) {
        for (row, position) in self.positions(path).into_iter().enumerate() {
            let counter = &mut self.counters[position][row];
            *counter = (*counter + 1).min(15);
        }
        self.uses += 1;
        if self.uses >= 10 * self.counters.len() as u64 {
            self.uses /= 2;
            for counter in self.counters.iter_mut().flatten() {
                *counter /= 2;
            }
        }
    }

    pub(super) fn estimate(&self, path: PathId) -> u8 {
        let positions = self.positions(path).into_iter().enumerate();
        positions
            .map(|(row, position)| self.counters[position][row])
            .min()
            .unwrap_or(0)
    }
}
