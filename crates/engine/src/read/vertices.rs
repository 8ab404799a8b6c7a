//! Vertices as of a version: the current row if it is old enough, else its parts from `history`.

use super::{FirstError, Source, corrupt};
use esker_model::key::{
    HistoryKey, decode_type_index, static_history, type_index, type_index_prefix,
    vertex as vertex_key, vertex_history_range,
};
use esker_model::record::{AttributeRecord, StaticRecord, UserAttribute, VertexRecord};
use esker_model::{
    Flow, Properties, Result, Schema, Value, Version, Vertex, VertexId, VertexSelect, VertexTypeId,
};
use esker_store::{KeyRange, Read, Table};
use std::ops::ControlFlow;

/// Returns the current row of a vertex.
pub(crate) fn vertex_record(
    read: &(impl Read + ?Sized),
    id: VertexId,
) -> Result<Option<VertexRecord>> {
    let mut record = None;
    read.get_with(Table::Rows, &vertex_key(id), &mut |value| {
        record = Some(VertexRecord::decode(value));
    })?;
    record.transpose().map_err(|e| corrupt("rows", e))
}

/// Returns vertices as of a version, in the order of `ids`.
pub(crate) fn read_vertices(
    source: &Source<'_>,
    ids: &[VertexId],
    as_of: Version,
) -> Result<Vec<Option<Vertex>>> {
    let mut found = Vec::with_capacity(ids.len());
    source.in_pieces(ids, past_of_vertex, |_, piece| {
        for id in piece {
            found.push(read_vertex(source, *id, as_of)?);
        }
        Ok(Flow::Continue(()))
    })?;
    Ok(found)
}

/// Adds the key range in `history` of a vertex and its attributes.
pub(crate) fn past_of_vertex(id: &VertexId, ranges: &mut Vec<KeyRange>) {
    let (from, until) = vertex_history_range(*id);
    ranges.push(KeyRange::between(&from, &until));
}

/// Returns a vertex as of a version: `None` if it did not exist yet, marked if it was deleted.
pub(crate) fn read_vertex(
    read: &(impl Read + ?Sized),
    id: VertexId,
    as_of: Version,
) -> Result<Option<Vertex>> {
    let Some(record) = vertex_record(read, id)? else {
        return Ok(None);
    };
    if record.latest <= as_of {
        return Ok(Some(current(id, record)));
    }
    if as_of < record.first {
        return Ok(None);
    }
    past(read, id, record, as_of)
}

fn current(id: VertexId, record: VertexRecord) -> Vertex {
    Vertex {
        id,
        type_id: record.type_id,
        key: record.key,
        version: if record.deleted {
            record.static_version
        } else {
            record.latest
        },
        deleted: record.deleted,
        attributes: record.attributes,
        user: if record.deleted {
            Vec::new()
        } else {
            record.user
        },
    }
}

fn past(
    read: &(impl Read + ?Sized),
    id: VertexId,
    record: VertexRecord,
    as_of: Version,
) -> Result<Option<Vertex>> {
    let statics = if record.static_version <= as_of {
        Some((
            record.static_version,
            StaticRecord {
                deleted: record.deleted,
                mentioned: record.mentioned,
                attributes: record.attributes,
            },
        ))
    } else {
        static_as_of(read, id, as_of)?
    };
    let Some((static_version, statics)) = statics else {
        return Ok(None);
    };
    let mut vertex = Vertex {
        id,
        type_id: record.type_id,
        key: record.key,
        version: static_version,
        deleted: statics.deleted,
        attributes: statics.attributes,
        user: Vec::new(),
    };
    if vertex.deleted {
        return Ok(Some(vertex));
    }
    let events = attribute_events(read, id)?;
    let newest_event = events.iter().map(|e| e.1).filter(|v| *v <= as_of).max();
    let mut user = attributes_as_of(&events, as_of);
    for attribute in record.user.into_iter().filter(|a| a.version <= as_of) {
        match user.binary_search_by(|a| a.name.cmp(&attribute.name)) {
            Ok(i) if user[i].version <= attribute.version => user[i] = attribute,
            Ok(_) => {}
            Err(i) => user.insert(i, attribute),
        }
    }
    let newest_user = user.iter().map(|a| a.version).max();
    vertex.version = Some(vertex.version)
        .max(newest_event)
        .max(newest_user)
        .unwrap_or(static_version);
    vertex.user = user;
    Ok(Some(vertex))
}

/// Returns the newest static record in `history` at or before a version.
fn static_as_of(
    read: &(impl Read + ?Sized),
    id: VertexId,
    as_of: Version,
) -> Result<Option<(Version, StaticRecord)>> {
    let end = static_history(id, Version::ZERO);
    let range = KeyRange {
        from: static_history(id, as_of),
        until: Some([end.as_slice(), &[0]].concat()),
    };
    let mut found = None;
    read.scan(Table::History, &range, &mut |key, value| {
        found = Some(decode_static(key, value));
        Flow::Break(())
    })?;
    found.transpose()
}

fn decode_static(key: &[u8], value: &[u8]) -> Result<(Version, StaticRecord)> {
    let bad = |e| corrupt("history", e);
    match HistoryKey::decode(key).map_err(bad)? {
        HistoryKey::Static(_, version) => Ok((version, StaticRecord::decode(value).map_err(bad)?)),
        _ => Err(bad(
            esker_model::codec::Reader::new(key).error("a static record's key")
        )),
    }
}

/// Returns superseded values and removals of all user-defined attributes of a vertex: by name, newest first.
fn attribute_events(
    read: &(impl Read + ?Sized),
    id: VertexId,
) -> Result<Vec<(String, Version, Option<Value>)>> {
    let (start, end) = vertex_history_range(id);
    let mut from = start.to_vec();
    if let Some(marker) = from.last_mut() {
        *marker += 1; // past the static records
    }
    let mut events = Vec::new();
    let mut error = FirstError::default();
    read.scan(
        Table::History,
        &KeyRange::between(&from, &end),
        &mut |key, value| {
            events.push(error.keep(decode_attribute_event(key, value))?);
            Flow::Continue(())
        },
    )?;
    error.into_result().map(|()| events)
}

/// Decodes name, version and value (`None`: removed) of an attribute's row in `history`.
pub(crate) fn decode_attribute_event(
    key: &[u8],
    value: &[u8],
) -> Result<(String, Version, Option<Value>)> {
    let bad = |e| corrupt("history", e);
    match HistoryKey::decode(key).map_err(bad)? {
        HistoryKey::Attribute(_, name, version) => Ok((
            name,
            version,
            AttributeRecord::decode(value).map_err(bad)?.0,
        )),
        _ => Err(bad(
            esker_model::codec::Reader::new(key).error("an attribute's key")
        )),
    }
}

/// Returns the attributes that had a value at a version, sorted by name; `events` are by name, newest first.
pub(crate) fn attributes_as_of(
    events: &[(String, Version, Option<Value>)],
    as_of: Version,
) -> Vec<UserAttribute> {
    let mut alive: Vec<UserAttribute> = Vec::new();
    let mut decided: Option<&str> = None;
    for (name, version, value) in events.iter().filter(|(_, v, _)| *v <= as_of) {
        if decided == Some(name) {
            continue;
        }
        decided = Some(name);
        if let Some(value) = value {
            alive.push(UserAttribute {
                name: name.clone(),
                version: *version,
                value: value.clone(),
            });
        }
    }
    alive
}

/// Whether a traversal can visit a vertex as of a version: false if it is deleted by then, or inserted only later. A vertex
/// that edges lead to, but that was never inserted, can be visited.
pub(crate) fn exists(read: &(impl Read + ?Sized), id: VertexId, as_of: Version) -> Result<bool> {
    let Some(record) = vertex_record(read, id)? else {
        return Ok(true);
    };
    if record.static_version <= as_of {
        return Ok(!record.deleted);
    }
    if as_of < record.first {
        return Ok(false);
    }
    Ok(static_as_of(read, id, as_of)?.is_some_and(|(_, s)| !s.deleted))
}

/// Passes the selected vertices to `sink`, by (type, id).
pub(crate) fn scan_vertices(
    source: &Source<'_>,
    schema: &Schema,
    select: &VertexSelect,
    sink: &mut dyn FnMut(Vertex) -> Flow,
) -> Result<()> {
    let mut give = |ids: &[VertexId]| -> Result<Flow> {
        let mut flow = Flow::Continue(());
        source.in_pieces(ids, past_of_vertex, |_, piece| {
            for id in piece {
                let vertex = read_vertex(source, *id, select.as_of)?;
                if let Some(vertex) = vertex.filter(|v| select.deleted || !v.deleted) {
                    flow = sink(vertex);
                    if flow.is_break() {
                        break;
                    }
                }
            }
            Ok(flow)
        })?;
        Ok(flow)
    };
    let mut ids = Vec::new();
    let mut error = FirstError::default();
    scan_type_index(source, schema, select.type_id, select.after, &mut |id| {
        ids.push(id);
        if ids.len() < source.piece() {
            return Flow::Continue(());
        }
        let flow = error.keep(give(&ids))?;
        ids.clear();
        flow
    })?;
    error.into_result()?;
    // Empty if the sink broke.
    give(&ids).map(|_| ())
}

/// Passes the ids of all vertices of a type and its subtypes, including deleted ones, to `sink`, by (type, id).
pub(crate) fn scan_type_index(
    read: &(impl Read + ?Sized),
    schema: &Schema,
    type_id: VertexTypeId,
    after: Option<(VertexTypeId, VertexId)>,
    sink: &mut dyn FnMut(VertexId) -> Flow,
) -> Result<()> {
    let mut flow = Flow::Continue(());
    for t in schema.specialisations(type_id) {
        let prefix = type_index_prefix(t);
        let range = match after {
            Some((after_type, _)) if t < after_type => continue,
            Some((after_type, id)) if t == after_type => {
                KeyRange::prefix_after(&prefix, &type_index(t, id))
            }
            _ => KeyRange::prefix(&prefix),
        };
        let mut error = FirstError::default();
        read.scan(Table::Index, &range, &mut |key, _| {
            flow = sink(error.keep(decode_type_index(key).map_err(|e| corrupt("index", e)))?);
            flow
        })?;
        error.into_result()?;
        if let ControlFlow::Break(()) = flow {
            break;
        }
    }
    Ok(())
}

/// The event of a static record, for histories.
pub(super) fn put_or_deleted(statics: StaticRecord) -> esker_model::VertexChange {
    let StaticRecord {
        deleted,
        attributes,
        ..
    } = statics;
    if deleted {
        esker_model::VertexChange::Deleted
    } else {
        esker_model::VertexChange::Put(attributes)
    }
}

/// The static part of a current row.
pub(super) fn static_part(record: &VertexRecord) -> StaticRecord {
    let attributes = if record.deleted {
        Properties::new()
    } else {
        record.attributes.clone()
    };
    StaticRecord {
        deleted: record.deleted,
        mentioned: record.mentioned,
        attributes,
    }
}
