//! Classification of a commit's rows for its listeners: the change feed and the watches of directories.

use esker_model::VertexId;
use esker_model::key::{EdgeKey, RowKey};
use esker_model::namespace::record::{is_dentry, located_vertex};
use esker_store::{Table, Write};

/// A row that a commit changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangedRow<'r> {
    /// The present state of a vertex or an object.
    Vertex(VertexId),
    /// The present state of an edge, in one direction.
    Edge(EdgeKey),
    /// A superseded version, by its key.
    History(&'r [u8]),
    /// The location record of a vertex.
    Location(VertexId),
    /// An entry of a directory, by its key, with its new row.
    Dentry(&'r [u8], Option<&'r [u8]>),
}

impl<'r> ChangedRow<'r> {
    /// Returns what a write changes; `None` if nobody follows such rows.
    pub(crate) fn of(write: Write<'r>) -> Option<Self> {
        match write.table {
            Table::Rows => match RowKey::decode(write.key).ok()? {
                RowKey::Vertex(id) => Some(Self::Vertex(id)),
                RowKey::Edge(key) => Some(Self::Edge(key)),
            },
            Table::History => Some(Self::History(write.key)),
            Table::Names if is_dentry(write.key) => Some(Self::Dentry(write.key, write.value)),
            Table::Names => located_vertex(write.key).map(Self::Location),
            _ => None,
        }
    }
}
