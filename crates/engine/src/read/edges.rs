//! Edges as of a version, or in a range of versions: current rows merged with `history`.

use super::{Source, corrupt};
use esker_model::key::{EdgeKey, edges_of_type_prefix, edges_prefix};
use esker_model::record::EdgeRecord;
use esker_model::{
    Edge, EdgeSelect, EdgeTypeId, Flow, Properties, Result, Version, VersionRange, Versions,
    VertexId,
};
use esker_store::{Cursor, KeyRange, Read, Table};

/// Returns edges as of a version, in the order of `keys`.
pub(crate) fn read_edges(
    source: &Source<'_>,
    keys: &[EdgeKey],
    as_of: Version,
) -> Result<Vec<Option<Edge>>> {
    let mut found = Vec::with_capacity(keys.len());
    let past = |key: &EdgeKey, ranges: &mut Vec<_>| ranges.push(versions_until(key, as_of));
    source.in_pieces(keys, past, |_, piece| {
        for key in piece {
            found.push(read_edge(source, *key, as_of)?);
        }
        Ok(Flow::Continue(()))
    })?;
    Ok(found)
}

/// Key range of an edge's superseded versions, from `as_of` back.
pub(super) fn versions_until(key: &EdgeKey, as_of: Version) -> KeyRange {
    KeyRange {
        from: key.history(as_of),
        until: Some([key.history(Version::ZERO).as_slice(), &[0]].concat()),
    }
}

/// Returns one edge as of a version.
pub(crate) fn read_edge(
    read: &(impl Read + ?Sized),
    key: EdgeKey,
    as_of: Version,
) -> Result<Option<Edge>> {
    let mut current = None;
    read.get_with(Table::Rows, &key.encode(), &mut |value| {
        current = Some(EdgeRecord::decode(value));
    })?;
    let Some(current) = current.transpose().map_err(|e| corrupt("rows", e))? else {
        return Ok(None);
    };
    if current.version <= as_of {
        return Ok((!current.deleted).then(|| edge(key, current)));
    }
    let mut past = None;
    let range = versions_until(&key, as_of);
    read.scan(Table::History, &range, &mut |k, value| {
        past = Some(decode_past(k, value, true));
        Flow::Break(())
    })?;
    let past = past.transpose()?;
    Ok(past.filter(|e| !e.deleted))
}

fn edge(key: EdgeKey, record: EdgeRecord) -> Edge {
    let EdgeRecord {
        deleted,
        version,
        properties,
    } = record;
    Edge {
        key,
        version,
        deleted,
        properties,
    }
}

fn decode_current(key: &[u8], value: &[u8], properties: bool) -> Result<Edge> {
    let key = EdgeKey::decode(key).map_err(|e| corrupt("rows", e))?;
    decode_value(key, value, properties).map_err(|e| corrupt("rows", e))
}

fn decode_value(
    key: EdgeKey,
    value: &[u8],
    properties: bool,
) -> Result<Edge, esker_model::codec::DecodeError> {
    if properties {
        return EdgeRecord::decode(value).map(|r| edge(key, r));
    }
    let (deleted, version) = EdgeRecord::decode_head(value)?;
    Ok(Edge {
        key,
        version,
        deleted,
        properties: Properties::new(),
    })
}

fn decode_past(key: &[u8], value: &[u8], properties: bool) -> Result<Edge> {
    let (key, version) = EdgeKey::decode_history(key).map_err(|e| corrupt("history", e))?;
    let mut edge = decode_value(key, value, properties).map_err(|e| corrupt("history", e))?;
    edge.version = version;
    Ok(edge)
}

/// Passes all selected edges that leave a frontier to `sink`, in the order of the frontier.
pub(crate) fn scan_edges(
    source: &Source<'_>,
    frontier: &[VertexId],
    select: &EdgeSelect,
    sink: &mut dyn FnMut(usize, Edge) -> Flow,
) -> Result<()> {
    let mut select = select.clone();
    select.types.sort_unstable();
    select.types.dedup();
    let first = frontier.first().copied();
    let past = |id: &VertexId, ranges: &mut Vec<_>| {
        let start = ranges.len();
        prefetch_ranges(*id, &select.types, ranges);
        if let Some(after) = select.after
            && Some(*id) == first
        {
            let from = start_after(*id, after);
            for range in ranges.iter_mut().skip(start) {
                range.from = range.from.clone().max(from.clone());
            }
        }
    };
    source.in_pieces(frontier, past, |before, piece| {
        for (i, id) in piece.iter().enumerate() {
            let mut sink = |edge| sink(before + i, edge);
            let after = select.after.filter(|_| before + i == 0);
            if scan_one(source, *id, (&select, after), &mut sink)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    })
}

/// The start of the key range of the edges after a cursor, in `rows` and in `history`: after all versions of that edge.
fn start_after(id: VertexId, (edge_type, destination): (EdgeTypeId, VertexId)) -> Vec<u8> {
    let last = EdgeKey {
        source: id,
        edge_type,
        destination,
    };
    [last.history(Version::ZERO).as_slice(), &[0]].concat()
}

/// Number of edge types above which all archived edges of a vertex are prefetched in one range.
const PREFETCH_RANGES_MAX: usize = 4;

/// Adds the key ranges in `history` of the edges of these types (sorted; empty: all) that leave a vertex.
pub(crate) fn prefetch_ranges(id: VertexId, types: &[EdgeTypeId], ranges: &mut Vec<KeyRange>) {
    if types.is_empty() || types.len() > PREFETCH_RANGES_MAX {
        ranges.push(KeyRange::prefix(&edges_prefix(id)));
    } else {
        let of_type = |t: &EdgeTypeId| KeyRange::prefix(&edges_of_type_prefix(id, *t));
        ranges.extend(types.iter().map(of_type));
    }
}

/// Passes the selected edges that leave one vertex to `sink`, those after a cursor only. Types must be sorted and unique.
pub(crate) fn scan_one(
    read: &(impl Read + ?Sized),
    id: VertexId,
    (select, after): (&EdgeSelect, Option<(EdgeTypeId, VertexId)>),
    sink: &mut dyn FnMut(Edge) -> Flow,
) -> Result<Flow> {
    let from = after.map(|after| start_after(id, after));
    let mut scan = |prefix: &[u8]| {
        let mut range = KeyRange::prefix(prefix);
        if let Some(from) = from.as_ref().filter(|from| **from > range.from) {
            range.from.clone_from(from);
        }
        scan_range(read, &range, select, sink)
    };
    if select.types.is_empty() {
        return scan(&edges_prefix(id));
    }
    for edge_type in &select.types {
        let is_before = after.is_some_and(|(start, _)| *edge_type < start);
        if !is_before && scan(&edges_of_type_prefix(id, *edge_type))?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

fn scan_range(
    read: &(impl Read + ?Sized),
    range: &KeyRange,
    select: &EdgeSelect,
    sink: &mut dyn FnMut(Edge) -> Flow,
) -> Result<Flow> {
    let mut past = HistoryCursor {
        read,
        range,
        cursor: None,
    };
    let mut flow = Flow::Continue(());
    let mut error = super::FirstError::default();
    read.scan(Table::Rows, range, &mut |key, value| {
        let current = error.keep(decode_current(key, value, select.properties))?;
        flow = match select.versions {
            Versions::AsOf(as_of) if current.version <= as_of => {
                if current.deleted {
                    Flow::Continue(())
                } else {
                    sink(current)
                }
            }
            Versions::AsOf(as_of) => {
                match error.keep(past.newest(key, as_of, select.properties))? {
                    Some(edge) if !edge.deleted => sink(edge),
                    _ => Flow::Continue(()),
                }
            }
            Versions::Range(versions) => {
                error.keep(past.all(key, current, versions, select.properties, sink))?
            }
        };
        flow
    })?;
    error.into_result().map(|()| flow)
}

/// A cursor over `history` that follows a scan of `rows`: both are in the order of edges. It is opened at the first edge
/// that needs it, which reads of the present never do.
struct HistoryCursor<'r, R: ?Sized> {
    read: &'r R,
    range: &'r KeyRange,
    cursor: Option<(Box<dyn Cursor + 'r>, bool)>,
}

impl<R: Read + ?Sized> HistoryCursor<'_, R> {
    /// Moves to the first row at or after `key` and returns whether there is one. Keys must ascend.
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let (cursor, more) = match &mut self.cursor {
            Some(open) => open,
            none => {
                let range = KeyRange {
                    from: key.to_vec(),
                    until: self.range.until.clone(),
                };
                let mut cursor = self.read.cursor(Table::History, &range)?;
                let more = cursor.advance()?;
                none.insert((cursor, more))
            }
        };
        while *more && cursor.key() < key {
            *more = cursor.advance()?;
        }
        Ok(*more)
    }

    /// The row at the cursor, if it belongs to the edge with this key in `rows`.
    fn row(&self, edge_key: &[u8]) -> Option<(&[u8], &[u8])> {
        let (cursor, more) = self.cursor.as_ref()?;
        (*more && cursor.key().starts_with(edge_key)).then(|| (cursor.key(), cursor.value()))
    }

    fn newest(
        &mut self,
        edge_key: &[u8],
        as_of: Version,
        properties: bool,
    ) -> Result<Option<Edge>> {
        let key = [edge_key, &(!as_of.0).to_be_bytes()].concat();
        self.seek(&key)?;
        self.row(edge_key)
            .map(|(k, v)| decode_past(k, v, properties))
            .transpose()
    }

    fn all(
        &mut self,
        edge_key: &[u8],
        current: Edge,
        versions: VersionRange,
        properties: bool,
        sink: &mut dyn FnMut(Edge) -> Flow,
    ) -> Result<Flow> {
        if versions.contains(current.version) && sink(current).is_break() {
            return Ok(Flow::Break(()));
        }
        self.seek(edge_key)?;
        while let Some((k, v)) = self.row(edge_key) {
            let edge = decode_past(k, v, properties)?;
            if versions.contains(edge.version) && sink(edge).is_break() {
                return Ok(Flow::Break(()));
            }
            if let Some((cursor, more)) = &mut self.cursor {
                *more = cursor.advance()?;
            }
        }
        Ok(Flow::Continue(()))
    }
}
