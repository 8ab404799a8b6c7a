//! The vocabulary of Esker: ids, values, versions, schema, key encodings, limits, the API traits.
//!
//! Everything else speaks in these words. Nothing here does I/O, reads a clock or starts a thread.
//!
//! Suggested reading order: [`id`], [`value`], [`version`], [`schema`], [`key`], [`record`], [`mutation`],
//! [`graph`], [`traversal`].

mod caret;
pub mod codec;
mod default_schema;
pub mod error;
pub mod filter;
pub mod graph;
pub mod id;
pub mod iri;
pub mod key;
pub mod lanes;
pub mod limits;
pub mod mutation;
pub mod namespace;
pub mod object;
pub mod once;
pub mod place;
pub mod record;
pub mod schema;
pub mod traversal;
pub mod value;
pub mod version;
pub mod visibility;

pub use error::{Error, ErrorKind, Result};
pub use graph::{
    Cancel, Counts, Degree, Difference, Edge, EdgeEvent, EdgeSelect, Flow, GraphRead, GraphWrite,
    NeverCancel, Versions, Vertex, VertexChange, VertexEvent, VertexSelect,
};
pub use id::{EdgeTypeId, VertexId, VertexName, VertexRef, VertexTypeId};
pub use key::EdgeKey;
pub use mutation::{Batch, Commit, Mutation, Op};
pub use schema::{AttributeDefinition, Schema, SchemaChange, SchemaError};
pub use traversal::Traversal;
pub use value::{Properties, Value, ValueKind};
pub use version::{Version, VersionRange};
