//! Laws of placement: what holds for every tree, every history and every map.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod placements;
mod vnodes;
