//! Hash tables whose order is the same in every run: messages sent in that order must be repeatable from a seed.
//! (Keys are hashes already, so a fast hash function suffices.)

use foldhash::fast::FixedState;

pub(crate) type Map<K, V> = std::collections::HashMap<K, V, FixedState>;
pub(crate) type Set<T> = std::collections::HashSet<T, FixedState>;
