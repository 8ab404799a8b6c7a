//! The data model of Esker: ids, values, versions, schema, key and row encodings, limits, and the API traits.
//!
//! Every other crate uses these types. This crate does no I/O, reads no clock and starts no threads.
//!
//! Suggested reading order: [`id`], [`value`], [`version`], [`schema`], [`key`], [`record`], [`mutation`], [`graph`],
//! [`traversal`].

mod caret;
pub mod codec;
mod default_schema;
pub mod error;
pub mod file_home;
pub mod filter;
pub mod graph;
pub mod graph_read;
pub mod id;
pub mod idempotency;
pub mod iri;
pub mod key;
pub mod limits;
pub mod mutation;
pub mod namespace;
pub mod object;
pub mod record;
pub mod resume;
pub mod schema;
pub mod sharded_lock;
pub mod sharing;
pub mod traversal;
pub mod value;
pub mod version;
pub mod visibility;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use graph::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeSelect, Flow, NeverCancel,
    Versions, Vertex, VertexChange, VertexEvent, VertexSelect,
};
pub use graph_read::{GraphRead, GraphWrite};
pub use id::{EdgeTypeId, VertexId, VertexName, VertexRef, VertexTypeId};
pub use key::EdgeKey;
pub use mutation::{Batch, Commit, Mutation, NamedEnds, Op};
pub use schema::{AttributeDefinition, Schema, SchemaChange, SchemaError};
pub use traversal::Traversal;
pub use value::{Properties, Value, ValueKind};
pub use version::{Version, VersionRange};
