//! Hash functions that decide where data is stored. They must never change.

/// A permutation of 64-bit numbers in which each bit of the input moves half of the output (`SplitMix64`'s finisher;
/// Steele, Lea, Flood 2014).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of an edge's two ends; their order matters.
pub(crate) fn pair(source: u64, destination: u64) -> u64 {
    mix(mix(source) ^ destination)
}

/// Maps a hash to a number below `n`: equal ranges of hashes, in their order.
pub(crate) fn scale(hash: u64, n: u32) -> u32 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored data was placed by these values; other values would lose it.
    #[test]
    fn the_same_forever() {
        assert_eq!(mix(0), 16_294_208_416_658_607_535);
        assert_eq!(mix(1), 10_451_216_379_200_822_465);
        assert_eq!(pair(1, 2), 13_608_149_317_741_381_227);
        assert_eq!(pair(2, 1), 16_171_810_823_986_729_605);
    }

    #[test]
    fn scaling_keeps_order_and_reaches_both_ends() {
        assert_eq!(scale(0, 7), 0);
        assert_eq!(scale(u64::MAX, 7), 6);
        assert_eq!(scale(1 << 63, 32), 16);
    }
}
