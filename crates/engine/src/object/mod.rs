//! Objects: SoMeta's flat namespace. They are vertices, and lie in columns in memory, so that a search reads what it asks
//! about and nothing else.
//!
//! `cells`, `words`, `sorted` ← `column`, `shapes` ← `table` (all objects) ← `log` (on disk), `layer` (as rows of the
//! store) ← `lookup` (a term), `select` (a filter), `find` (what a search gives), `group` (tags of many).

mod cells;
mod chunk;
mod column;
mod find;
mod fresh;
mod gather;
mod group;
mod layer;
mod log;
mod lookup;
mod merge;
mod select;
mod shapes;
mod sorted;
mod spans;
mod table;
mod words;

pub(crate) use fresh::Fresh;
pub(crate) use group::{GroupTag, UNINDEXED};
pub(crate) use layer::{
    IDENTITY, ObjectStore, identity_key, identity_of_key, identity_value, object_of,
};
pub(crate) use log::BulkTag;
pub(crate) use table::decimal;

/// The mark, in table `index`, of identities of objects that lie where another one would belong.
pub(crate) const ALIAS: u8 = 4;

/// The key in `index` that says which object has an identity of that hash, where it belongs elsewhere.
pub(crate) fn alias_key(hash: &[u8; 16]) -> [u8; 17] {
    let mut key = [ALIAS; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = *hash;
    }
    key
}
