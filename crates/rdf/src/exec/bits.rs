//! Bitmap for fast membership tests.

use crate::id::Id;

/// Bits from the smallest to the largest id of a list.
#[derive(Debug)]
pub(crate) struct Bits {
    first: Id,
    words: Vec<u64>,
}

/// Limit of a bitmap, in bytes; other lists are searched.
const BYTES_MAX: usize = 64 << 20;

impl Bits {
    /// Builds the bitmap of an ascending list; `None` if the ids are too sparse.
    pub(crate) fn of(list: &[Id]) -> Option<Self> {
        let (first, last) = (*list.first()?, *list.last()?);
        let words = (last - first) as usize / 64 + 1;
        if words * 8 > BYTES_MAX || words > list.len() * 16 + 1024 {
            return None;
        }
        let mut bits = Self {
            first,
            words: vec![0; words],
        };
        for id in list {
            let n = id - first;
            bits.words[n as usize / 64] |= 1 << (n % 64);
        }
        Some(bits)
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        let n = id.wrapping_sub(self.first);
        self.words
            .get(n as usize / 64)
            .is_some_and(|w| w >> (n % 64) & 1 == 1)
    }
}
