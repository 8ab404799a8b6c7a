//! What differs between two times: one pass over `rows`, looking into `history` only where something changed since.

use super::edges::read_edge;
use super::vertices::read_vertex;
use super::{FirstError, corrupt};
use esker_model::key::RowKey;
use esker_model::record::{EdgeRecord, VertexRecord};
use esker_model::{Difference, Flow, Result, Schema, Version};
use esker_store::{KeyRange, Read, Table};

/// Calls `sink` with each vertex and each edge (in its defined direction) that is not the same at both times.
pub(crate) fn diff(
    read: &(impl Read + ?Sized),
    schema: &Schema,
    before: Version,
    after: Version,
    sink: &mut dyn FnMut(Difference) -> Flow,
) -> Result<()> {
    let (first, last) = (before.min(after), before.max(after));
    let mut error = FirstError::default();
    read.scan(Table::Rows, &KeyRange::ALL, &mut |key, value| {
        let bad = |e| corrupt("rows", e);
        match error.keep(RowKey::decode(key).map_err(bad))? {
            RowKey::Vertex(id) => {
                let record = error.keep(VertexRecord::decode(value).map_err(bad))?;
                // Nothing newer than the first time, or nothing by the last: the same at both.
                if record.latest <= first || record.first > last {
                    return Flow::Continue(());
                }
                let old = error
                    .keep(read_vertex(read, id, before))?
                    .filter(|v| !v.deleted);
                let new = error
                    .keep(read_vertex(read, id, after))?
                    .filter(|v| !v.deleted);
                if old == new {
                    Flow::Continue(())
                } else {
                    sink(Difference::Vertex(old, new))
                }
            }
            RowKey::Edge(edge) => {
                let forward = schema.edge_type(edge.edge_type).is_some_and(|t| {
                    t.forward && (t.inverse != edge.edge_type || edge.source <= edge.destination)
                });
                let head = EdgeRecord::decode_head(value).map_err(bad);
                let (_, version) = error.keep(head)?;
                if !forward || version <= first {
                    return Flow::Continue(());
                }
                let old = error.keep(read_edge(read, edge, before))?;
                let new = error.keep(read_edge(read, edge, after))?;
                if old == new {
                    Flow::Continue(())
                } else {
                    sink(Difference::Edge(old, new))
                }
            }
        }
    })?;
    error.into_result()
}
