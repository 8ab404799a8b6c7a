//! How often paths were asked for lately, in little memory: W-TinyLFU's sketch of four-bit counters.

use crate::path::PathId;

/// Rows of counters; the least of a path's counters is the estimate.
const ROWS: usize = 4;

/// A count-min sketch that halves all counters after ten times as many uses as it has places.
#[derive(Debug)]
pub(super) struct Sketch {
    /// Two counters a byte would save half; a byte each is simpler and costs four bytes a cached path.
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

    /// Has at least as many places as the cache has paths; what was counted is forgotten when it grows.
    pub(super) fn fit(&mut self, paths: usize) {
        if paths > self.counters.len() {
            self.counters = vec![[0; ROWS]; (paths * 2).next_power_of_two()];
            self.uses = 0;
        }
    }

    fn places(&self, path: PathId) -> [usize; ROWS] {
        let mut hash = (u64::from(path.0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        std::array::from_fn(|_| {
            hash ^= hash >> 32;
            hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            (hash >> 20) as usize & (self.counters.len() - 1)
        })
    }

    pub(super) fn count(&mut self, path: PathId) {
        for (row, place) in self.places(path).into_iter().enumerate() {
            let counter = &mut self.counters[place][row];
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
        let places = self.places(path).into_iter().enumerate();
        places
            .map(|(row, place)| self.counters[place][row])
            .min()
            .unwrap_or(0)
    }
}
