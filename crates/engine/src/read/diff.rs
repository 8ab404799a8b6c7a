//! Differences between two versions: one pass over `rows`, with look-ups in `history` only where something changed since.

use super::edges::{read_edge, versions_until};
use super::vertices::{past_of_vertex, read_vertex};
use super::{FirstError, Source, corrupt};
use esker_model::key::RowKey;
use esker_model::record::{EdgeRecord, VertexRecord};
use esker_model::{DiffSelect, Difference, Flow, Result, Schema, Version};
use esker_store::{KeyRange, Read as _, Table};

/// Calls `sink` with each vertex and each edge (in its defined direction) that differs between the versions, after the cursor.
pub(crate) fn diff(
    source: &Source<'_>,
    schema: &Schema,
    select: &DiffSelect,
    sink: &mut dyn FnMut(Difference) -> Flow,
) -> Result<()> {
    let (before, after) = (select.before, select.after);
    let (first, last) = (before.min(after), before.max(after));
    let past = |key: &RowKey, ranges: &mut Vec<_>| match key {
        RowKey::Vertex(id) => past_of_vertex(id, ranges),
        RowKey::Edge(edge) => ranges.push(versions_until(edge, last)),
    };
    let mut give = |changed: &[RowKey]| -> Result<Flow> {
        let mut flow = Flow::Continue(());
        source.in_pieces(changed, past, |_, piece| {
            for key in piece {
                if let Some(difference) = at_both(source, key, before, after)? {
                    flow = sink(difference);
                    if flow.is_break() {
                        break;
                    }
                }
            }
            Ok(flow)
        })?;
        Ok(flow)
    };
    let range = match select.start_after {
        None => KeyRange::ALL,
        Some(key) => KeyRange {
            from: [key.encode().as_slice(), &[0]].concat(),
            until: None,
        },
    };
    let mut changed = Vec::new();
    let mut error = FirstError::default();
    source.scan(Table::Rows, &range, &mut |key, value| {
        let key = error.keep(RowKey::decode(key).map_err(|e| corrupt("rows", e)))?;
        if !error.keep(may_differ(&key, value, schema, first, last))? {
            return Flow::Continue(());
        }
        changed.push(key);
        if changed.len() < source.piece() {
            return Flow::Continue(());
        }
        let flow = error.keep(give(&changed))?;
        changed.clear();
        flow
    })?;
    error.into_result()?;
    // Empty if the sink broke.
    give(&changed).map(|_| ())
}

/// Whether the vertex or edge under a key may have changed between two versions.
fn may_differ(
    key: &RowKey,
    value: &[u8],
    schema: &Schema,
    first: Version,
    last: Version,
) -> Result<bool> {
    let bad = |e| corrupt("rows", e);
    match key {
        RowKey::Vertex(_) => {
            let record = VertexRecord::decode(value).map_err(bad)?;
            // Unchanged if nothing is newer than the first version, or the vertex appeared after the last.
            Ok(record.latest > first && record.first <= last)
        }
        RowKey::Edge(edge) => {
            let forward = schema.edge_type(edge.edge_type).is_some_and(|t| {
                t.forward && (t.inverse != edge.edge_type || edge.source <= edge.destination)
            });
            let (_, version) = EdgeRecord::decode_head(value).map_err(bad)?;
            Ok(forward && version > first)
        }
    }
}

/// Returns the states at both versions, if they differ.
fn at_both(
    source: &Source<'_>,
    key: &RowKey,
    before: Version,
    after: Version,
) -> Result<Option<Difference>> {
    match key {
        RowKey::Vertex(id) => {
            let at =
                |time| -> Result<_> { Ok(read_vertex(source, *id, time)?.filter(|v| !v.deleted)) };
            let (old, new) = (at(before)?, at(after)?);
            Ok((old != new).then_some(Difference::Vertex(old, new)))
        }
        RowKey::Edge(edge) => {
            let (old, new) = (
                read_edge(source, *edge, before)?,
                read_edge(source, *edge, after)?,
            );
            Ok((old != new).then_some(Difference::Edge(old, new)))
        }
    }
}
