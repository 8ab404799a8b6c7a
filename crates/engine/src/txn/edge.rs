//! Edges: the current version under its key, superseded ones in `history`; each with its inverse edge.

use super::Txn;
use super::checks::{check_properties, check_row};
use esker_model::key::{Counter, EdgeKey};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::record::{EdgeRecord, VertexRecord};
use esker_model::{EdgeTypeId, Error, Properties, Result, Version, VertexId, VertexRef};
use esker_store::Table;

/// The current row of an edge.
struct Current {
    deleted: bool,
    version: Version,
    value: Vec<u8>,
}

impl Txn<'_, '_> {
    pub(super) fn put_edge(
        &mut self,
        source: VertexRef,
        edge_type: EdgeTypeId,
        destination: VertexRef,
        properties: &Properties,
        at: Option<Version>,
    ) -> Result<()> {
        self.schema
            .check_ends(edge_type, source.type_id, destination.type_id)?;
        check_properties("an edge's properties", properties, PROPERTIES_MAX)?;
        let key = EdgeKey {
            source: source.id,
            edge_type,
            destination: destination.id,
        };
        let current = self.current_edge(&key)?;
        let stored = current.as_ref().map_or(Version::ZERO, |c| c.version);
        let version = self.version_after(at, stored);
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        value.push(0);
        value.extend_from_slice(&version.0.to_be_bytes());
        properties.encode(&mut value);
        let written = check_row("an edge", value.len())
            .and_then(|()| self.write_edge(&key, current, version, false, &value));
        self.scratch = value;
        written
    }

    pub(super) fn delete_edge(
        &mut self,
        source: VertexRef,
        edge_type: EdgeTypeId,
        destination: VertexRef,
        at: Option<Version>,
    ) -> Result<()> {
        self.schema
            .check_ends(edge_type, source.type_id, destination.type_id)?;
        let key = EdgeKey {
            source: source.id,
            edge_type,
            destination: destination.id,
        };
        let current = self.current_edge(&key)?;
        let stored = current.as_ref().map(|c| (c.deleted, c.version));
        let version = self.version_after(at, stored.map_or(Version::ZERO, |s| s.1));
        // Deleting an edge again at the version of its deletion is a repetition; otherwise the edge must exist.
        let deletable = stored.is_some_and(|(deleted, v)| !deleted || version <= v);
        if !deletable {
            return Err(self.no_edge(source, edge_type, destination));
        }
        let mut value = Vec::with_capacity(10);
        EdgeRecord {
            deleted: true,
            version,
            properties: Properties::new(),
        }
        .encode(&mut value);
        self.write_edge(&key, current, version, true, &value)
    }

    fn current_edge(&self, key: &EdgeKey) -> Result<Option<Current>> {
        let mut current = None;
        self.overlay
            .get_with(Table::Rows, &key.encode(), &mut |value| {
                current = Some(
                    EdgeRecord::decode_head(value).map(|(deleted, version)| Current {
                        deleted,
                        version,
                        value: value.to_vec(),
                    }),
                );
            })?;
        current
            .transpose()
            .map_err(|e| Error::corrupt("an edge in table `rows`", e))
    }

    /// Writes one version of an edge and of its inverse: as the current one, or into the past.
    fn write_edge(
        &mut self,
        key: &EdgeKey,
        current: Option<Current>,
        version: Version,
        deleted: bool,
        value: &[u8],
    ) -> Result<()> {
        let inverse = key.reversed(self.schema.inverse(key.edge_type));
        let both = [*key, inverse];
        // A loop over a symmetric type is its own inverse.
        let both = if inverse == *key {
            &both[..1]
        } else {
            &both[..]
        };
        self.write_directions(both, current, version, deleted, value)
    }

    /// Writes one version of one direction of an edge, when another engine has the other direction.
    pub(super) fn direction(
        &mut self,
        key: &EdgeKey,
        deleted: bool,
        properties: &Properties,
        requested: bool,
        at: Option<Version>,
    ) -> Result<()> {
        let current = self.current_edge(key)?;
        let stored = current.as_ref().map(|c| (c.deleted, c.version));
        let version = self.version_after(at, stored.map_or(Version::ZERO, |s| s.1));
        let deletable = stored.is_some_and(|(deleted, v)| !deleted || version <= v);
        if deleted && requested && !deletable {
            return Err(self.no_edge_of(key));
        }
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        value.push(u8::from(deleted));
        value.extend_from_slice(&version.0.to_be_bytes());
        properties.encode(&mut value);
        let before = (self.effects.edges_created, self.effects.unchanged);
        let written = self.write_directions(&[*key], current, version, deleted, &value);
        self.scratch = value;
        written?;
        if !requested {
            (self.effects.edges_created, self.effects.unchanged) = before;
        }
        Ok(())
    }

    /// Writes one version of the given directions of an edge.
    fn write_directions(
        &mut self,
        both: &[EdgeKey],
        current: Option<Current>,
        version: Version,
        deleted: bool,
        value: &[u8],
    ) -> Result<()> {
        let mut alive_before = false;
        if let Some(current) = current {
            alive_before = !current.deleted;
            if version < current.version {
                return self.write_past_edge(both, version, value);
            }
            if current.value == value {
                self.effects.unchanged += 1;
                return Ok(());
            }
            if version > current.version {
                let past = both.iter().map(|k| k.history(current.version));
                self.overlay.put_all(Table::History, past, &current.value);
            }
        }
        let change = i64::from(!deleted) - i64::from(alive_before);
        let keys = both.iter().map(EdgeKey::encode);
        self.overlay.put_all(Table::Rows, keys, value);
        for k in both {
            self.effects.touched.push((k.source, k.edge_type));
            if change != 0 {
                self.count(Counter::Degree(k.source, k.edge_type), change);
                self.count(Counter::Edges(k.edge_type), change);
            }
        }
        self.effects.edges_created += u64::from(change > 0);
        Ok(())
    }

    fn write_past_edge(&mut self, both: &[EdgeKey], version: Version, value: &[u8]) -> Result<()> {
        for k in both {
            let key = k.history(version);
            if self.overlay.get(Table::History, &key)?.as_deref() == Some(value) {
                self.effects.unchanged += 1;
                return Ok(());
            }
            self.overlay.put(Table::History, key, value);
            self.effects.touched.push((k.source, k.edge_type));
        }
        Ok(())
    }

    fn no_edge_of(&self, key: &EdgeKey) -> Error {
        let name = |id: VertexId| {
            let row = self.current_vertex(id).ok().flatten();
            row.map_or_else(
                || id.to_string(),
                |r| format!("{}:{}", self.schema.prefix(r.type_id), r.key),
            )
        };
        let edge_type = self.schema.edge_type(key.edge_type);
        Error::NoEdge {
            source_name: name(key.source),
            edge_type: edge_type
                .map_or_else(|| format!("#{}", key.edge_type.0), |t| t.name.clone()),
            destination_name: name(key.destination),
        }
    }

    fn no_edge(&self, source: VertexRef, edge_type: EdgeTypeId, destination: VertexRef) -> Error {
        Error::NoEdge {
            source_name: self.name_of(source),
            edge_type: self
                .schema
                .edge_type(edge_type)
                .map_or_else(|| format!("#{}", edge_type.0), |t| t.name.clone()),
            destination_name: self.name_of(destination),
        }
    }

    /// Returns `type:key`, or the id if no stored row has the key.
    pub(super) fn name_of(&self, vertex: VertexRef) -> String {
        let mut name = None;
        let key = esker_model::key::vertex(vertex.id);
        let read = self.overlay.get_with(Table::Rows, &key, &mut |value| {
            name = VertexRecord::decode(value).ok().map(|r| r.key);
        });
        let key = read.ok().and(name).unwrap_or_else(|| vertex.id.to_string());
        format!("{}:{key}", self.schema.prefix(vertex.type_id))
    }
}
