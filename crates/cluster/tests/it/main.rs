//! Laws of placement: what holds for every tree, every history and every map. What servers say about objects.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod objects;
mod placements;
mod vnodes;
