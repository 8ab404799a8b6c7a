//! Objects: SoMeta's flat namespace. They are vertices, stored in columns in memory, so that a search reads only the columns
//! that it names.
//!
//! `positions` ← `cells`, `dictionary`, `sorted` ← `column`, `shapes` ← `table` (all objects) ← `log` (on disk), `layer` (as rows of the
//! store) ← `lookup` (a term), `select` (a filter), `find` (results of a search), `group` (tags of many).

mod cells;
mod chunk;
mod column;
mod dictionary;
mod find;
mod gather;
mod group;
mod layer;
mod log;
mod lookup;
mod merge;
mod new_objects;
mod positions;
mod select;
mod shapes;
mod sorted;
mod spans;
mod table;
mod usage;

pub(crate) use group::{GroupTag, UNINDEXED};
pub(crate) use layer::{ObjectStore, identity_of_key, identity_value, object_of};
pub(crate) use log::BulkTag;
pub(crate) use new_objects::NewObjects;
pub(crate) use table::NewObject;
pub use usage::{ObjectUsage, ObjectUsages};
