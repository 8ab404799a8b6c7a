//! Histories: all events of a vertex or an edge, from the live store and the archive.

use super::vertices::{put_or_deleted, static_part, vertex_record};
use super::{FirstError, corrupt};
use crate::archive::Archive;
use esker_model::key::{EdgeKey, HistoryKey, vertex_history_range};
use esker_model::record::{AttributeRecord, EdgeRecord, StaticRecord};
use esker_model::{
    Edge, EdgeEvent, Flow, Result, VersionRange, VertexChange, VertexEvent, VertexId,
};
use esker_store::{KeyRange, Read, Table};
use std::collections::BTreeSet;

/// Returns all events of a vertex in a range of versions, newest first.
pub(crate) fn vertex_history(
    read: &(impl Read + ?Sized),
    archive: &dyn Archive,
    id: VertexId,
    versions: VersionRange,
) -> Result<Vec<VertexEvent>> {
    let Some(record) = vertex_record(read, id)? else {
        return Ok(Vec::new());
    };
    let mut events = vec![VertexEvent {
        version: record.static_version,
        change: put_or_deleted(static_part(&record)),
        archived: false,
    }];
    events.extend(record.user.into_iter().map(|a| VertexEvent {
        version: a.version,
        change: VertexChange::Set(a.name, a.value),
        archived: false,
    }));
    let (from, until) = vertex_history_range(id);
    let decode = |key: &[u8], value: &[u8], archived| -> Result<VertexEvent> {
        let bad = |e| corrupt("history", e);
        let (version, change) = match HistoryKey::decode(key).map_err(bad)? {
            HistoryKey::Static(_, version) => (
                version,
                put_or_deleted(StaticRecord::decode(value).map_err(bad)?),
            ),
            HistoryKey::Attribute(_, name, version) => {
                let change = match AttributeRecord::decode(value).map_err(bad)?.0 {
                    Some(value) => VertexChange::Set(name, value),
                    None => VertexChange::Removed(name),
                };
                (version, change)
            }
            HistoryKey::Edge(..) => {
                return Err(bad(
                    esker_model::codec::Reader::new(key).error("a vertex's key")
                ));
            }
        };
        Ok(VertexEvent {
            version,
            change,
            archived,
        })
    };
    both(
        read,
        archive,
        &KeyRange::between(&from, &until),
        &mut |key, value, archived| {
            events.push(decode(key, value, archived)?);
            Ok(())
        },
    )?;
    events.retain(|e| versions.contains(e.version));
    // Within one version, the vertex itself precedes its attributes.
    events.sort_by(|a, b| {
        b.version
            .cmp(&a.version)
            .then_with(|| order(a).cmp(&order(b)))
    });
    Ok(events)
}

fn order(event: &VertexEvent) -> (u8, &str) {
    match &event.change {
        VertexChange::Put(_) | VertexChange::Deleted => (0, ""),
        VertexChange::Set(name, _) | VertexChange::Removed(name) => (1, name),
    }
}

/// Returns all versions of one edge in a range of versions, newest first.
pub(crate) fn edge_history(
    read: &(impl Read + ?Sized),
    archive: &dyn Archive,
    key: EdgeKey,
    versions: VersionRange,
) -> Result<Vec<EdgeEvent>> {
    let event = |record: EdgeRecord, archived| {
        let EdgeRecord {
            deleted,
            version,
            properties,
        } = record;
        EdgeEvent {
            edge: Edge {
                key,
                version,
                deleted,
                properties,
            },
            archived,
        }
    };
    let mut events = Vec::new();
    let mut current = None;
    read.get_with(Table::Rows, &key.encode(), &mut |value| {
        current = Some(EdgeRecord::decode(value));
    })?;
    if let Some(current) = current.transpose().map_err(|e| corrupt("rows", e))? {
        events.push(event(current, false));
    }
    both(
        read,
        archive,
        &KeyRange::prefix(&key.encode()),
        &mut |_, value, archived| {
            events.push(event(
                EdgeRecord::decode(value).map_err(|e| corrupt("history", e))?,
                archived,
            ));
            Ok(())
        },
    )?;
    events.retain(|e| versions.contains(e.edge.version));
    events.sort_by_key(|e| std::cmp::Reverse(e.edge.version));
    Ok(events)
}

/// Passes the rows of a range of `history` in the store to `sink`, then those that only the archive has.
fn both(
    read: &(impl Read + ?Sized),
    archive: &dyn Archive,
    range: &KeyRange,
    sink: &mut dyn FnMut(&[u8], &[u8], bool) -> Result<()>,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut error = FirstError::default();
    read.scan(Table::History, range, &mut |key, value| {
        seen.insert(key.to_vec());
        error.keep(sink(key, value, false))
    })?;
    error.into_result()?;
    let mut error = FirstError::default();
    archive.scan(range, &mut |key, value| {
        if seen.contains(key) {
            Flow::Continue(())
        } else {
            error.keep(sink(key, value, true))
        }
    })?;
    error.into_result()
}
