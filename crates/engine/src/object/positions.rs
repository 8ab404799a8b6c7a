//! Order in which to fill a large hash table: by position, so that consecutive insertions touch the same memory. A table beyond
//! the processor's caches is filled several times faster so.

/// Parts of a table that are filled one after the other, as a power of two.
const PARTS_BITS: u32 = 8;
const PARTS: usize = 1 << PARTS_BITS;

/// Widens a hash: `HashTable` takes the position from the low bits and a tag from the high ones.
pub(super) fn widen(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Sorts hashes and their numbers by the part of a table with `buckets` (a power of two) to which [`widen`] assigns them.
/// Those of one part keep their order.
pub(super) fn by_position(
    hashes: impl Iterator<Item = (u32, u32)> + Clone,
    buckets: usize,
) -> Vec<(u32, u32)> {
    let shift = buckets.max(1).ilog2().saturating_sub(PARTS_BITS);
    let part = |hash: u32| {
        let position = widen(hash) as usize & buckets.saturating_sub(1);
        (position >> shift).min(PARTS - 1)
    };
    let mut places = [0_usize; PARTS];
    for (hash, _) in hashes.clone() {
        places[part(hash)] += 1;
    }
    let mut all = 0;
    for place in &mut places {
        all += std::mem::replace(place, all);
    }
    let mut sorted = vec![(0, 0); all];
    for (hash, number) in hashes {
        let place = &mut places[part(hash)];
        sorted[*place] = (hash, number);
        *place += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::HashTable;

    #[test]
    fn all_are_there_in_the_order_of_the_table() {
        for count in [0_u32, 1, 100, 40_000] {
            let mut table = HashTable::<u32>::with_capacity(count as usize);
            let hashes = (0..count).map(|n| (n.wrapping_mul(2_654_435_761) / 3, n));
            let sorted = by_position(hashes.clone(), table.num_buckets());
            let position = |hash| widen(hash) as usize & table.num_buckets().saturating_sub(1);
            let parts: Vec<_> = sorted
                .iter()
                .map(|(hash, _)| position(*hash) * PARTS / table.num_buckets().max(PARTS))
                .collect();
            assert!(parts.is_sorted(), "{count}");
            for (hash, number) in sorted {
                table.insert_unique(widen(hash), number, |_| 0);
            }
            for (hash, number) in hashes {
                assert_eq!(table.find(widen(hash), |n| *n == number), Some(&number));
            }
        }
    }
}
