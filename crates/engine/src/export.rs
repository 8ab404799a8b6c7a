//! Export and import of a database's content when the number of a cluster's servers changes: rows as they are stored, objects with
//! their hashes, and the state in `meta`.
//!
//! Rows are read and written through [`Engine::store`], so that millions of them pass without overhead; [`row_subject`] tells
//! what each row describes.

use crate::Engine;
use crate::archive::Archive;
use crate::catalog::{
    NEWEST_KEY, RETAINED_KEY, SCHEMA_KEY, encode_schema, idempotency_row_key, read_version,
    version_value,
};
use crate::object::{NewObjects, UNINDEXED, object_of};
use crate::txn::ProducerRecord;
use esker_model::idempotency::{PRODUCER_PREFIX, ProducerKey};
use esker_model::key::names::NamesKey;
use esker_model::key::{
    EdgeKey, HistoryKey, IndexKey, RowKey, identity_index, vertex as vertex_key,
};
use esker_model::namespace::record::{RowHome, row_home};
use esker_model::object::{ObjectId, prefix_of};
use esker_model::{Error, Flow, GraphRead as _, Result, Schema, Version, VertexId};
use esker_store::{Durability, KeyRange, Read as _, Table, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows per commit.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Subject of a row, which decides the server that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSubject {
    /// A vertex, or a row stored with it.
    Vertex(VertexId),
    /// One direction of an edge.
    Edge(EdgeKey),
    /// An object's own row; it is stored in columns, and is imported by [`Engine::import_objects`].
    Object(ObjectId),
    /// A directory entry, or a row stored with the entries of its hash.
    Entry(VertexId, u64),
    /// Derived from objects; not exported.
    Derived,
}

/// Returns the subject of a row of `rows`, `history`, `index` or `names`.
pub fn row_subject(table: Table, key: &[u8]) -> Result<RowSubject> {
    let corrupt = |e| Error::corrupt(format!("a key of table `{}`", table.name()), e);
    Ok(match table {
        Table::Rows => match (object_of(key), RowKey::decode(key).map_err(corrupt)?) {
            (Some(object), _) => RowSubject::Object(object),
            (None, RowKey::Vertex(id)) => RowSubject::Vertex(id),
            (None, RowKey::Edge(edge)) => RowSubject::Edge(edge),
        },
        Table::History => match HistoryKey::decode(key).map_err(corrupt)? {
            HistoryKey::Static(id, _) | HistoryKey::Attribute(id, ..) => RowSubject::Vertex(id),
            HistoryKey::Edge(edge, _) => RowSubject::Edge(edge),
        },
        Table::Index => match IndexKey::decode(key).map_err(corrupt)? {
            IndexKey::Identity(_) => RowSubject::Derived,
            IndexKey::Alias(hash) => RowSubject::Vertex(prefix_of(&hash).home_vertex()),
            IndexKey::Deleted(id) => RowSubject::Vertex(id),
            IndexKey::Type(_, id) => match ObjectId::of_vertex(id) {
                Some(_) => RowSubject::Derived,
                None => RowSubject::Vertex(id),
            },
        },
        Table::Names => match row_home(key).map_err(corrupt)? {
            RowHome::Entry(directory, hash) => RowSubject::Entry(directory, hash),
            RowHome::Home(id) => RowSubject::Vertex(id),
            // A past inode was stored on the server that wrote it; it now goes with the location record of its file.
            RowHome::Anywhere => RowSubject::Vertex(NamesKey::decode(key).map_err(corrupt)?.id()),
        },
        Table::Counts | Table::Meta | Table::Objects => {
            return Err(Error::Invalid(format!(
                "rows of table `{}` cannot be copied one by one",
                table.name()
            )));
        }
    })
}

/// State of a database in its `meta` table, apart from its rows.
#[derive(Debug, Clone)]
pub struct DatabaseMeta {
    /// Types and attributes of the database.
    pub schema: Arc<Schema>,
    /// Upper bound of all versions assigned.
    pub newest: Version,
    /// Reads as of this version or later need only the live store.
    pub retained: Option<Version>,
    /// Names of attributes that searches do not index.
    pub unindexed: BTreeSet<String>,
    /// Idempotency keys of applied batches and their versions; numbered ones are in the producers' records.
    pub idempotency_keys: BTreeMap<Vec<u8>, Version>,
    producers: BTreeMap<[u8; 16], (Version, ProducerRecord)>,
}

impl DatabaseMeta {
    /// Merges the state of another database; the schema stays this one's.
    pub fn merge(&mut self, other: &Self) {
        self.newest = self.newest.max(other.newest);
        self.retained = self.retained.max(other.retained);
        self.unindexed.extend(other.unindexed.iter().cloned());
        for (idempotency_key, version) in &other.idempotency_keys {
            let known = self
                .idempotency_keys
                .entry(idempotency_key.clone())
                .or_insert(*version);
            *known = (*known).max(*version);
        }
        for (producer, (version, record)) in &other.producers {
            let known = self.producers.get_mut(producer);
            if let Some((newest, known)) = known {
                *newest = (*newest).max(*version);
                known.merge(record);
            } else {
                self.producers.insert(*producer, (*version, record.clone()));
            }
        }
    }

    /// Removes the record that one batch of a producer was applied.
    pub fn forget(&mut self, numbered: &ProducerKey) {
        if let Some((_, record)) = self.producers.get_mut(&numbered.producer) {
            record.remove(numbered.sequence);
        }
    }

    /// Number of producers with recorded batches.
    pub fn producers(&self) -> usize {
        self.producers.len()
    }
}

impl Engine {
    /// Reads the state of this database. Shares are not part of it: only a database of one server has any.
    pub fn database_meta(&self) -> Result<DatabaseMeta> {
        let mut meta = DatabaseMeta {
            schema: self.schema()?,
            newest: self.newest_assigned(),
            retained: read_version(&*self.store, RETAINED_KEY)?,
            unindexed: BTreeSet::new(),
            idempotency_keys: BTreeMap::new(),
            producers: BTreeMap::new(),
        };
        let all = KeyRange::prefix(UNINDEXED);
        self.store.scan(Table::Meta, &all, &mut |key, _| {
            let name = key.get(UNINDEXED.len()..).unwrap_or_default();
            let name = std::str::from_utf8(name).map(str::to_owned);
            meta.unindexed.extend(name);
            Flow::Continue(())
        })?;
        let mut failure = None;
        let prefix = idempotency_row_key(&[]);
        self.store
            .scan(Table::Meta, &KeyRange::prefix(&prefix), &mut |key, row| {
                let idempotency_key = key.get(prefix.len()..).unwrap_or_default();
                match meta.take_idempotency_row(idempotency_key, row) {
                    Ok(()) => Flow::Continue(()),
                    Err(e) => {
                        failure = Some(e);
                        Flow::Break(())
                    }
                }
            })?;
        failure.map_or(Ok(meta), Err)
    }

    /// Writes the state of another database into this one, which must be new and must be opened again afterwards.
    pub fn write_database_meta(&self, meta: &DatabaseMeta) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, SCHEMA_KEY, encode_schema(&meta.schema));
        batch.put(Table::Meta, NEWEST_KEY, version_value(meta.newest));
        if let Some(retained) = meta.retained {
            batch.put(Table::Meta, RETAINED_KEY, version_value(retained));
        }
        for name in &meta.unindexed {
            batch.put(Table::Meta, [UNINDEXED, name.as_bytes()].concat(), []);
        }
        for (producer, (version, record)) in &meta.producers {
            let idempotency_key = [PRODUCER_PREFIX, producer.as_slice()].concat();
            batch.put(
                Table::Meta,
                idempotency_row_key(&idempotency_key),
                record.encode(*version),
            );
        }
        for (idempotency_key, version) in &meta.idempotency_keys {
            batch.put(
                Table::Meta,
                idempotency_row_key(idempotency_key),
                version_value(*version),
            );
            if batch.len() >= ROWS_AT_ONCE {
                self.store
                    .commit(std::mem::take(&mut batch), Durability::Relaxed)?;
            }
        }
        self.store.commit(batch, Durability::Relaxed)
    }

    /// The archive of superseded versions that left the live store.
    pub fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    /// Returns all objects, including deleted ones, in the order of creation, with the version of each one's creation.
    pub fn objects_in_order(&self) -> Vec<(ObjectId, Version)> {
        self.objects.in_order()
    }

    /// Calls `sink` with the hash of an object's ID attributes and with its row; returns whether the object exists.
    pub fn object_row(&self, object: ObjectId, sink: &mut dyn FnMut(u128, &[u8])) -> Result<bool> {
        let hash = self.objects.hash_of(object);
        let key = vertex_key(object.vertex());
        self.objects
            .get_with(Table::Rows, &key, &mut |row| sink(hash, row))
    }

    /// Imports objects as [`Self::object_row`] returned them, in this order. Nothing is checked; the caller updates the counters.
    pub fn import_objects(&self, objects: &[(ObjectId, u128, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (object, hash, row) in objects {
            batch.put(Table::Rows, vertex_key(object.vertex()), row);
            let identity = identity_index(&hash.to_be_bytes());
            batch.put(Table::Index, identity, object.0.to_be_bytes());
        }
        let new_objects = NewObjects::default();
        self.objects
            .commit_with(batch, None, &new_objects, &[], Durability::Relaxed)?;
        self.objects.checkpoint_if_due()
    }
}

impl DatabaseMeta {
    fn take_idempotency_row(&mut self, idempotency_key: &[u8], row: &[u8]) -> Result<()> {
        let corrupt = |e| Error::corrupt("a row of table `meta` about batches applied before", e);
        let mut r = esker_model::codec::Reader::new(row);
        let version = Version(r.u64("a version").map_err(corrupt)?);
        let producer = idempotency_key.strip_prefix(PRODUCER_PREFIX);
        match producer.and_then(|s| s.try_into().ok()) {
            Some(producer) => {
                let record = ProducerRecord::decode(row).map_err(corrupt)?;
                self.producers.insert(producer, (version, record));
            }
            None => {
                self.idempotency_keys
                    .insert(idempotency_key.to_vec(), version);
            }
        }
        Ok(())
    }
}
