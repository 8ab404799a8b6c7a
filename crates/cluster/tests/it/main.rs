//! Invariants of placement for every tree, history and map, and codecs of messages about objects.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod objects;
mod placements;
mod vnodes;
