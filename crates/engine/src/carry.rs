//! What databases hold, to be dealt out anew among others: rows as they lie in the store, objects with their hashes, and what a
//! database remembers beside its rows. For hosts that change the number of a cluster's servers.
//!
//! Rows go through the store's seam ([`Engine::store`]), so that nothing here is in the way of millions of them; [`carried`] says
//! what each is about.

use crate::Engine;
use crate::archive::Archive;
use crate::catalog::{
    NEWEST_KEY, RETAINED_KEY, SCHEMA_KEY, encode_schema, once_key, read_version, version_value,
};
use crate::object::{ALIAS, Fresh, IDENTITY, UNINDEXED, identity_key, object_of};
use crate::txn::SenderRecord;
use esker_model::key::{
    DELETED_INDEX_PREFIX, EdgeKey, HistoryKey, RowKey, decode_type_index, vertex as vertex_key,
};
use esker_model::namespace::record::{Lies, lies};
use esker_model::object::{ObjectId, prefix_of};
use esker_model::once::{Numbered, SENDER_PREFIX};
use esker_model::{Error, Flow, GraphRead as _, Result, Schema, Version, VertexId};
use esker_store::{Durability, KeyRange, Read as _, Table, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows of one commit.
const ROWS_AT_ONCE: usize = 1 << 14;

/// What a row is about: that decides where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// A vertex, or anything that lies with it.
    Vertex(VertexId),
    /// One direction of an edge.
    Edge(EdgeKey),
    /// An object's own row: it lies in columns, and goes by [`Engine::carry_objects`].
    Object(ObjectId),
    /// An entry of a directory, or anything that lies with the entries of its hash.
    Entry(VertexId, u64),
    /// Nothing of its own: it is made from objects.
    Derived,
}

/// What a row of `rows`, `history`, `index` or `names` is about.
pub fn carried(table: Table, key: &[u8]) -> Result<Carried> {
    let corrupt = |e| Error::corrupt(format!("a key of table `{}`", table.name()), e);
    Ok(match table {
        Table::Rows => match (object_of(key), RowKey::decode(key).map_err(corrupt)?) {
            (Some(object), _) => Carried::Object(object),
            (None, RowKey::Vertex(id)) => Carried::Vertex(id),
            (None, RowKey::Edge(edge)) => Carried::Edge(edge),
        },
        Table::History => match HistoryKey::decode(key).map_err(corrupt)? {
            HistoryKey::Static(id, _) | HistoryKey::Attribute(id, ..) => Carried::Vertex(id),
            HistoryKey::Edge(edge, _) => Carried::Edge(edge),
        },
        Table::Index => match (key.first(), key.get(1..).and_then(|k| k.try_into().ok())) {
            (Some(&IDENTITY), Some(_)) => Carried::Derived,
            (Some(&ALIAS), Some(hash)) => Carried::Vertex(prefix_of(&hash).place()),
            (Some(first), Some(id)) if [*first] == DELETED_INDEX_PREFIX => {
                Carried::Vertex(VertexId(id))
            }
            _ => {
                let id = decode_type_index(key).map_err(corrupt)?;
                match ObjectId::of_vertex(id) {
                    Some(_) => Carried::Derived,
                    None => Carried::Vertex(id),
                }
            }
        },
        Table::Names => match lies(key).map_err(corrupt)? {
            Lies::Entry(directory, hash) => Carried::Entry(directory, hash),
            Lies::Home(id) => Carried::Vertex(id),
            // What an inode was lies where it was written; from here on with whatever says where it is.
            Lies::Anywhere => {
                let id = key.get(1..17).and_then(|id| id.try_into().ok());
                Carried::Vertex(VertexId(id.unwrap_or_default()))
            }
        },
        Table::Counts | Table::Meta | Table::Objects => {
            return Err(Error::Invalid(format!(
                "rows of table `{}` are not carried over one by one",
                table.name()
            )));
        }
    })
}

/// What a database remembers beside its rows.
#[derive(Debug, Clone)]
pub struct Memory {
    /// Its types and attributes.
    pub schema: Arc<Schema>,
    /// No version given before is later.
    pub newest: Version,
    /// As of then or later, the live store alone tells what was.
    pub retained: Option<Version>,
    /// Names that searches build no index on.
    pub unindexed: BTreeSet<String>,
    /// Markers of batches that were applied, and when; those that are numbered are apart.
    pub markers: BTreeMap<Vec<u8>, Version>,
    senders: BTreeMap<[u8; 16], (Version, SenderRecord)>,
}

impl Memory {
    /// What both remember. The schema stays this one's.
    pub fn merge(&mut self, other: &Self) {
        self.newest = self.newest.max(other.newest);
        self.retained = self.retained.max(other.retained);
        self.unindexed.extend(other.unindexed.iter().cloned());
        for (marker, version) in &other.markers {
            let known = self.markers.entry(marker.clone()).or_insert(*version);
            *known = (*known).max(*version);
        }
        for (sender, (version, record)) in &other.senders {
            let known = self.senders.get_mut(sender);
            if let Some((newest, known)) = known {
                *newest = (*newest).max(*version);
                known.merge(record);
            } else {
                self.senders.insert(*sender, (*version, record.clone()));
            }
        }
    }

    /// Forgets that one batch of a client was applied.
    pub fn forget(&mut self, numbered: &Numbered) {
        if let Some((_, record)) = self.senders.get_mut(&numbered.sender) {
            record.remove(numbered.number);
        }
    }

    /// How many clients' batches it remembers.
    pub fn senders(&self) -> usize {
        self.senders.len()
    }
}

impl Engine {
    /// What this database remembers.
    pub fn memory(&self) -> Result<Memory> {
        let mut memory = Memory {
            schema: self.schema()?,
            newest: self.newest_given(),
            retained: read_version(&*self.store, RETAINED_KEY)?,
            unindexed: BTreeSet::new(),
            markers: BTreeMap::new(),
            senders: BTreeMap::new(),
        };
        let all = KeyRange::prefix(UNINDEXED);
        self.store.scan(Table::Meta, &all, &mut |key, _| {
            let name = key.get(UNINDEXED.len()..).unwrap_or_default();
            let name = std::str::from_utf8(name).map(str::to_owned);
            memory.unindexed.extend(name);
            Flow::Continue(())
        })?;
        let mut failure = None;
        let once = once_key(&[]);
        self.store
            .scan(Table::Meta, &KeyRange::prefix(&once), &mut |key, row| {
                let marker = key.get(once.len()..).unwrap_or_default();
                match memory.take_marker(marker, row) {
                    Ok(()) => Flow::Continue(()),
                    Err(e) => {
                        failure = Some(e);
                        Flow::Break(())
                    }
                }
            })?;
        failure.map_or(Ok(memory), Err)
    }

    /// Writes what another database remembers into this one, which must be new. It is to be opened anew afterwards.
    pub fn remember(&self, memory: &Memory) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, SCHEMA_KEY, encode_schema(&memory.schema));
        batch.put(Table::Meta, NEWEST_KEY, version_value(memory.newest));
        if let Some(retained) = memory.retained {
            batch.put(Table::Meta, RETAINED_KEY, version_value(retained));
        }
        for name in &memory.unindexed {
            batch.put(Table::Meta, [UNINDEXED, name.as_bytes()].concat(), []);
        }
        for (sender, (version, record)) in &memory.senders {
            let marker = [SENDER_PREFIX, sender.as_slice()].concat();
            batch.put(Table::Meta, once_key(&marker), record.encode(*version));
        }
        for (marker, version) in &memory.markers {
            batch.put(Table::Meta, once_key(marker), version_value(*version));
            if batch.len() >= ROWS_AT_ONCE {
                self.store
                    .commit(std::mem::take(&mut batch), Durability::Relaxed)?;
            }
        }
        self.store.commit(batch, Durability::Relaxed)
    }

    /// Superseded versions that are no longer in the live store.
    pub fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    /// All objects, those that are deleted too, in the order in which they came, and since when each is known.
    pub fn objects_in_order(&self) -> Vec<(ObjectId, Version)> {
        self.objects.in_order()
    }

    /// Calls `sink` with the hash of an object's ID attributes and with its row; whether there is such an object.
    pub fn object_row(&self, object: ObjectId, sink: &mut dyn FnMut(u128, &[u8])) -> Result<bool> {
        let hash = self.objects.hash_of(object);
        let key = vertex_key(object.vertex());
        self.objects
            .get_with(Table::Rows, &key, &mut |row| sink(hash, row))
    }

    /// Takes objects over as [`Self::object_row`] gave them, in this order. Nothing is checked; counters are the caller's affair.
    pub fn carry_objects(&self, objects: &[(ObjectId, u128, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (object, hash, row) in objects {
            batch.put(Table::Rows, vertex_key(object.vertex()), row);
            let identity = identity_key(&hash.to_be_bytes());
            batch.put(Table::Index, identity, object.0.to_be_bytes());
        }
        let fresh = Fresh::default();
        self.objects
            .commit_with(batch, &fresh, &[], Durability::Relaxed)?;
        self.objects.checkpoint_if_due()
    }
}

impl Memory {
    fn take_marker(&mut self, marker: &[u8], row: &[u8]) -> Result<()> {
        let corrupt = |e| Error::corrupt("a row of table `meta` about batches applied before", e);
        let mut r = esker_model::codec::Reader::new(row);
        let version = Version(r.u64("a version").map_err(corrupt)?);
        let sender = marker.strip_prefix(SENDER_PREFIX);
        match sender.and_then(|s| s.try_into().ok()) {
            Some(sender) => {
                let record = SenderRecord::decode(row).map_err(corrupt)?;
                self.senders.insert(sender, (version, record));
            }
            None => {
                self.markers.insert(marker.to_vec(), version);
            }
        }
        Ok(())
    }
}
