//! Hash tables whose order is the same in every run: what is sent in their order is to be repeatable from a seed. (And
//! ids are hashes: a quick one will do.)

use foldhash::fast::FixedState;

pub(crate) type Map<K, V> = std::collections::HashMap<K, V, FixedState>;
pub(crate) type Set<T> = std::collections::HashSet<T, FixedState>;
