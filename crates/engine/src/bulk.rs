//! Bulk load: many new vertices and edges as sorted tables that bypass the log and the memtable.
//!
//! Mutations are collected until a buffer is full, sorted by key, and new items are passed to the store in key order;
//! changes of existing items are applied as ordinary batches. A marker in `meta` records that a load is in progress: after a
//! crash the counters are recomputed.

use crate::Engine;
use crate::catalog::{BULK_KEY, NEWEST_KEY, version_value};
use crate::counts::{self, Changes};
use crate::names::file_kind;
use crate::settings::{BulkReport, CheckOptions};
use crate::txn::{Writer, check_properties, check_row, check_static, check_vertex, lock};
use esker_model::key::{Counter, EDGE_KEY_BYTES, EdgeKey, type_index, vertex as vertex_key};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::object::ObjectId;
use esker_model::record::{EdgeRecord, VertexRecord};
use esker_model::{
    Batch, Error, Mutation, NeverCancel, Op, Properties, Result, Schema, Version, VertexRef,
};
use esker_store::{Durability, Table, WriteBatch};
use std::collections::HashSet;

/// Size of the buffer of one round, in bytes.
const ROUND_BYTES: usize = 192 << 20;

/// The content of one round; keys of edges are separate from values, so that sorting moves little.
#[derive(Default)]
struct Round {
    edges: Vec<EdgeEntry>,
    values: Vec<u8>,
    /// Changes in the given order, which is kept for each vertex.
    vertices: Vec<VertexChange>,
    vertex_bytes: usize,
    /// Deletions of edges, and edges put under the same keys after them.
    ordinary: Vec<Mutation>,
    /// Edges with a deletion in `ordinary`, in both directions.
    deleted: HashSet<EdgeKey>,
}

/// A change of a vertex and its version.
struct VertexChange {
    vertex: VertexRef,
    op: Op,
    at: Version,
}

#[derive(Clone, Copy)]
struct EdgeEntry {
    key: [u8; EDGE_KEY_BYTES],
    /// Whether this is the given direction; otherwise the inverse.
    forward: bool,
    at: u32,
    len: u32,
}

impl Round {
    fn bytes(&self) -> usize {
        self.values.len()
            + self.edges.len() * size_of::<EdgeEntry>()
            + self.vertex_bytes
            + self.ordinary.len() * 256
    }

    /// Adds a mutation; `files` tells whether there are files, whose vertices may have ids that differ from those of their names.
    fn add(
        &mut self,
        schema: &Schema,
        mutation: Mutation,
        version: Version,
        files: bool,
    ) -> Result<()> {
        let at = mutation.version.unwrap_or(version);
        if at == Version::MAX {
            return Err(Error::Invalid(
                "a version must be below the largest possible one".into(),
            ));
        }
        if let Op::SetAttributes { vertex, .. }
        | Op::ChangeVertex { vertex, .. }
        | Op::EnsureVertex { vertex, .. }
        | Op::PutVertex { vertex, .. }
        | Op::DeleteVertex { vertex } = &mutation.op
            && ObjectId::of_vertex(vertex.id).is_some()
        {
            // Objects are stored in columns, not in tables of rows.
            self.ordinary.push(mutation);
            return Ok(());
        }
        match &mutation.op {
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => {
                schema.check_ends(*edge_type, source.type_id, destination.type_id)?;
                check_properties("an edge's properties", properties, PROPERTIES_MAX)?;
                let key = EdgeKey {
                    source: source.id,
                    edge_type: *edge_type,
                    destination: destination.id,
                };
                if self.deleted.contains(&key) {
                    self.ordinary(mutation.op, at);
                } else {
                    self.edge(schema, key, properties, at)?;
                }
            }
            Op::DeleteEdge {
                source,
                edge_type,
                destination,
            } => {
                let key = EdgeKey {
                    source: source.id,
                    edge_type: *edge_type,
                    destination: destination.id,
                };
                self.deleted.insert(key);
                self.deleted
                    .insert(key.reversed(schema.inverse(*edge_type)));
                self.ordinary(mutation.op, at);
            }
            Op::PutVertex { vertex, key, .. } | Op::EnsureVertex { vertex, key }
                if files
                    && file_kind(schema, vertex.type_id).is_some()
                    && check_vertex(schema, *vertex, key).is_err() =>
            {
                // Whether the vertex is a file is looked up with the ordinary mutations.
                self.ordinary.push(Mutation {
                    version: Some(at),
                    op: mutation.op,
                });
            }
            Op::PutVertex {
                vertex,
                key,
                attributes,
            } => {
                check_vertex(schema, *vertex, key)?;
                check_static(schema, vertex.type_id, attributes)?;
                self.vertex(
                    *vertex,
                    192 + key.len() + 64 * attributes.len(),
                    mutation.op,
                    at,
                );
            }
            Op::EnsureVertex { vertex, key } => {
                check_vertex(schema, *vertex, key)?;
                self.vertex(*vertex, 192 + key.len(), mutation.op, at);
            }
            Op::ChangeVertex {
                vertex,
                set,
                remove,
            }
            | Op::SetAttributes {
                vertex,
                set,
                remove,
            } => {
                let bytes = 192 + 64 * (set.len() + remove.len());
                self.vertex(*vertex, bytes, mutation.op, at);
            }
            Op::DeleteVertex { vertex } => self.vertex(*vertex, 192, mutation.op, at),
            Op::CreateObject { .. } | Op::MoveObject { .. } => self.ordinary.push(mutation),
        }
        Ok(())
    }

    fn edge(
        &mut self,
        schema: &Schema,
        key: EdgeKey,
        properties: &Properties,
        at: Version,
    ) -> Result<()> {
        let start = self.values.len();
        self.values.push(0);
        self.values.extend_from_slice(&at.0.to_be_bytes());
        properties.encode(&mut self.values);
        let len = self.values.len() - start;
        check_row("an edge", len)?;
        let inverse = key.reversed(schema.inverse(key.edge_type));
        for (k, forward) in [(key, true), (inverse, false)] {
            if forward || k != key {
                self.edges.push(EdgeEntry {
                    key: k.encode(),
                    forward,
                    at: start as u32,
                    len: len as u32,
                });
            }
        }
        Ok(())
    }

    fn vertex(&mut self, vertex: VertexRef, bytes: usize, op: Op, at: Version) {
        self.vertex_bytes += bytes;
        self.vertices.push(VertexChange { vertex, op, at });
    }

    fn ordinary(&mut self, op: Op, at: Version) {
        let version = Some(at);
        self.ordinary.push(Mutation { version, op });
    }

    fn value(&self, entry: &EdgeEntry) -> &[u8] {
        let start = entry.at as usize;
        self.values
            .get(start..start + entry.len as usize)
            .unwrap_or_default()
    }

    fn version(&self, entry: &EdgeEntry) -> &[u8] {
        self.value(entry).get(1..9).unwrap_or_default()
    }
}

impl Engine {
    /// Loads vertices and edges as sorted tables. New items load several times faster than with batches; existing ones are updated
    /// as by batches. All changes without a version of their own get the same version. `progress` is called with the number of
    /// mutations read.
    pub fn bulk_load(
        &self,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BulkReport> {
        let _bulk_load = lock(&self.bulk_load);
        // A load that failed midway may have left wrong counters.
        self.recover_bulk_load()?;
        self.names.note_vertices();
        let mut writer = lock(&self.writer);
        let _writing = self.begin_structural_change()?;
        self.merge_counters(writer.clock.last())?;
        let version = writer.clock.tick(self.clock.now_millis());
        let mut marker = WriteBatch::default();
        marker.put(Table::Meta, BULK_KEY, Vec::new());
        // Recorded so that the version is not assigned again after a crash.
        marker.put(Table::Meta, NEWEST_KEY, version_value(version));
        self.commit_unlisted(marker)?;
        let mut report = BulkReport::default();
        let loaded = self.load_rounds(&mut writer, version, mutations, progress, &mut report);
        // Followers read everything again, also what a load wrote that failed midway.
        self.feed.invalidate();
        let invalid = loaded?;
        let mut done = WriteBatch::default();
        done.remove(Table::Meta, BULK_KEY);
        done.put(Table::Meta, NEWEST_KEY, version_value(writer.clock.last()));
        self.store.commit(done, Durability::Sync)?;
        invalid.map_or(Ok(report), Err)
    }

    /// Writes all mutations up to the first invalid one, whose error is returned.
    fn load_rounds(
        &self,
        writer: &mut Writer,
        version: Version,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
        report: &mut BulkReport,
    ) -> Result<Option<Error>> {
        let schema = self.schema_now();
        let mut round = Round::default();
        let mut invalid = None;
        for mutation in mutations {
            match mutation.and_then(|m| round.add(&schema, m, version, self.names.any())) {
                Ok(()) => report.mutations += 1,
                Err(e) => {
                    // The valid mutations so far are written; the caller gets the error.
                    invalid = Some(e);
                    break;
                }
            }
            if round.bytes() >= ROUND_BYTES {
                self.write_round(writer, std::mem::take(&mut round), report)?;
                progress(report.mutations);
            }
        }
        self.write_round(writer, round, report)?;
        progress(report.mutations);
        Ok(invalid)
    }

    fn write_round(
        &self,
        writer: &mut Writer,
        round: Round,
        report: &mut BulkReport,
    ) -> Result<()> {
        let mut round = round;
        let mut changes = Changes::default();
        let new_vertices = self.new_vertices(&mut round, report, &mut changes)?;
        self.new_edges(&mut round, report, &mut changes)?;
        let dirty = self.adjacency.begin_write_everywhere();
        let written = self.write_sorted(&round, &new_vertices, &mut changes);
        self.adjacency.end_write_everywhere(dirty);
        written?;
        // Changes of existing items, in the given order.
        let ordinary = std::mem::take(&mut round.ordinary);
        for mutations in ordinary.chunks(1 << 14) {
            let batch = Batch {
                mutations: mutations.to_vec(),
                idempotency_key: None,
            };
            let commit = self.apply_locked(writer, batch)?;
            report.vertices_created += commit.vertices_created;
            report.edges_created += commit.edges_created;
        }
        self.merge_counters(writer.clock.last())
    }

    /// Returns rows of new vertices, by key. Other changes of vertices become ordinary mutations, in the given order.
    fn new_vertices(
        &self,
        round: &mut Round,
        report: &mut BulkReport,
        changes: &mut Changes,
    ) -> Result<Vec<(VertexRef, Vec<u8>)>> {
        let mut given = std::mem::take(&mut round.vertices);
        given.sort_by_key(|change| change.vertex.id);
        let mut rows: Vec<(VertexRef, Vec<u8>)> = Vec::with_capacity(given.len());
        let mut before = None;
        for VertexChange { vertex, op, at } in given {
            let first = before.replace(vertex.id) != Some(vertex.id);
            let key = vertex_key(vertex.id);
            let new = first && !self.store.get_with(Table::Rows, &key, &mut |_| {})?;
            let (key, attributes, mentioned) = match op {
                Op::PutVertex {
                    key, attributes, ..
                } if new => (key, attributes, false),
                Op::EnsureVertex { key, .. } if new => (key, Properties::new(), true),
                op => {
                    round.ordinary(op, at);
                    continue;
                }
            };
            let record = VertexRecord {
                deleted: false,
                mentioned,
                first: at,
                latest: at,
                static_version: at,
                type_id: vertex.type_id,
                key,
                attributes,
                user: Vec::new(),
            };
            let mut value = Vec::with_capacity(64 + record.key.len());
            record.encode(&mut value);
            check_row("a vertex with its attributes", value.len())?;
            rows.push((vertex, value));
            changes.add(Counter::Vertices(vertex.type_id), 1);
        }
        report.vertices_created += rows.len() as u64;
        Ok(rows)
    }

    /// Keeps only the new edges in the round, sorted; the others become ordinary mutations.
    fn new_edges(
        &self,
        round: &mut Round,
        report: &mut BulkReport,
        changes: &mut Changes,
    ) -> Result<()> {
        let schema = self.schema_now();
        let mut entries = std::mem::take(&mut round.edges);
        // The last edge given with a key becomes its row; its value has the highest position.
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key).then(b.at.cmp(&a.at)));
        let mut new: Vec<EdgeEntry> = Vec::with_capacity(entries.len());
        let mut others: Vec<EdgeEntry> = Vec::new();
        for entry in entries {
            match new.last() {
                Some(last) if last.key == entry.key => {
                    let same = round.version(last) == round.version(&entry);
                    others.extend((entry.forward && !same).then_some(entry));
                }
                _ => new.push(entry),
            }
        }
        let mut known = HashSet::new();
        for entry in new.iter().filter(|e| e.forward) {
            if self.store.get_with(Table::Rows, &entry.key, &mut |_| {})? {
                known.insert(entry.at);
                // One direction suffices: applying the mutation writes both.
                others.push(*entry);
            }
        }
        new.retain(|e| !known.contains(&e.at));
        // In the given order, and before the deletions: edges put after a deletion are not among the entries.
        others.sort_unstable_by_key(|e| e.at);
        let mut ordinary = others
            .iter()
            .map(|e| to_mutation(round.value(e), &e.key, &schema))
            .collect::<Result<Vec<_>>>()?;
        ordinary.append(&mut round.ordinary);
        round.ordinary = ordinary;
        for entry in &new {
            let key =
                EdgeKey::decode(&entry.key).map_err(|e| Error::corrupt("an edge's key", e))?;
            changes.add(Counter::Degree(key.source, key.edge_type), 1);
            changes.add(Counter::Edges(key.edge_type), 1);
            report.edges_created += u64::from(entry.forward);
        }
        round.edges = new;
        Ok(())
    }

    fn write_sorted(
        &self,
        round: &Round,
        vertices: &[(VertexRef, Vec<u8>)],
        changes: &mut Changes,
    ) -> Result<()> {
        let mut index: Vec<_> = vertices
            .iter()
            .map(|(v, _)| type_index(v.type_id, v.id))
            .collect();
        index.sort_unstable();
        let mut load = self.store.bulk_load(Table::Index)?;
        index.iter().try_for_each(|key| load.push(key, &[]))?;
        load.finish()?;

        let mut load = self.store.bulk_load(Table::Counts)?;
        changes.settle();
        for (counter, change) in changes.iter() {
            let key = counter.encode();
            let value = counts::apply(&counter, counts::read(&*self.store, &key)?, change)?;
            load.push(&key, &counts::encode_value(value))?;
        }
        let counts = load;

        let mut rows = self.store.bulk_load(Table::Rows)?;
        let mut vertices = vertices
            .iter()
            .map(|(v, value)| (vertex_key(v.id), value))
            .peekable();
        for entry in &round.edges {
            while let Some((key, value)) = vertices.next_if(|(key, _)| key[..] < entry.key[..]) {
                rows.push(&key, value)?;
            }
            rows.push(&entry.key, round.value(entry))?;
        }
        for (key, value) in vertices {
            rows.push(&key, value)?;
        }
        rows.finish()?;
        counts.finish()
    }

    /// Recomputes the counters after a crash during a bulk load.
    pub(crate) fn recover_bulk_load(&self) -> Result<()> {
        if !self.store.get_with(Table::Meta, BULK_KEY, &mut |_| {})? {
            return Ok(());
        }
        self.check(
            &CheckOptions {
                repair: true,
                part: false,
            },
            &NeverCancel,
            &mut |_| {},
        )?;
        let mut done = WriteBatch::default();
        done.remove(Table::Meta, BULK_KEY);
        self.store.commit(done, Durability::Sync)
    }
}

/// Converts an edge of a round to a mutation. Its ends were checked when it was added, so the vertex types of its edge type
/// replace the actual ones.
fn to_mutation(value: &[u8], key: &[u8], schema: &Schema) -> Result<Mutation> {
    let bad = |e| Error::corrupt("an edge being loaded", e);
    let key = EdgeKey::decode(key).map_err(bad)?;
    let record = EdgeRecord::decode(value).map_err(bad)?;
    let Some(edge_type) = schema.edge_type(key.edge_type) else {
        return Err(Error::Invalid(format!(
            "the schema has no edge type #{}",
            key.edge_type.0
        )));
    };
    let op = Op::PutEdge {
        source: VertexRef {
            id: key.source,
            type_id: edge_type.source,
        },
        edge_type: key.edge_type,
        destination: VertexRef {
            id: key.destination,
            type_id: edge_type.destination,
        },
        properties: record.properties,
    };
    Ok(Mutation {
        version: Some(record.version),
        op,
    })
}
