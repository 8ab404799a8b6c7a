//! Parts of batches, for the hosts of clusters: what one of several engines is to do of a batch that all of them do
//! together, at a version that the host gives.
//!
//! An edge's two directions may lie on two engines, so here each is written by itself.

use super::checks::{check_properties, check_row};
use super::{Effects, Mark, Overlay, Txn, Writer, lock};
use crate::Engine;
use crate::names::Arriving;
use crate::object::{BulkTag, GroupTag};
use esker_model::key::{Counter, EdgeKey};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::object::{Identity, ObjectId};
use esker_model::{
    Commit, EdgeTypeId, Error, Mutation, Op, Properties, Result, Schema, Version, VertexId,
};
use esker_store::Table;
use std::sync::atomic::Ordering;

/// One change of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartOp<'a> {
    /// When it holds from: its own version, or the part's.
    pub at: Option<Version>,
    /// What.
    pub change: PartChange<'a>,
}

/// What can change on one engine of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PartChange<'a> {
    /// Anything about a vertex; never an edge.
    Vertex(&'a Op),
    /// An object is to have an identity that belongs here, wherever the object is: refused if another object here has it.
    Claim {
        /// Which identity.
        identity: &'a Identity,
        /// Which object.
        object: ObjectId,
    },
    /// An object no longer has an identity that belongs here.
    Release {
        /// Which identity.
        identity: &'a Identity,
        /// Which object.
        object: ObjectId,
    },
    /// One direction of an edge.
    Edge {
        /// In this direction.
        key: EdgeKey,
        /// Whether it is deleted.
        gone: bool,
        /// Exactly these.
        properties: &'a Properties,
        /// Whether this is the direction that was asked for: the one that is counted, and must exist to be deleted.
        asked: bool,
    },
}

/// Rows of the host's own, and rows that come from or go to another engine, committed with a part or not at all.
#[derive(Debug, Default)]
pub struct Beside {
    /// Rows as they lie in the store; `None` removes one.
    pub rows: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
    /// What that changes of counters.
    pub counters: Vec<(Counter, i64)>,
    /// Whose edges of which type it changes.
    pub touched: Vec<(VertexId, EdgeTypeId)>,
    /// Rows of table `names` that come from another engine in large numbers, as a sorted table past the log.
    pub arriving: Option<Arriving>,
    /// The batch's marker ([`esker_model::Batch::once`]): if it was applied before, nothing is done.
    pub once: Option<Vec<u8>>,
}

/// What is to become of changes whose vertex or edge is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The part is refused.
    Refuse,
    /// They change nothing: it was decided that the part is done, and something else came between.
    PassOver,
}

impl Engine {
    /// The newest version that this engine gave or was given for a commit, through all times it was opened.
    pub fn newest_given(&self) -> Version {
        lock(&self.writer).clock.last()
    }

    /// The number of the newest commit. It may be later than all versions given outside: each commit has one of its own.
    pub fn newest_commit(&self) -> Version {
        Version(self.newest_commit.load(Ordering::Acquire))
    }

    /// The newest version that any change took: later than the clock if data dated in the future is stored.
    pub fn newest_stored(&self) -> Version {
        Version(self.newest_seen.load(Ordering::Acquire))
    }

    /// Tries a part at a version without doing it. Fails as doing it would. Returns, by place, the changes that would
    /// take a later version because what is stored is later.
    pub fn try_part(&self, version: Version, ops: &[PartOp<'_>]) -> Result<Vec<(usize, Version)>> {
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        overlay.savepoint();
        let mut senders = super::Senders::default();
        let mut txn = self.part_txn(&mut overlay, &schema, version, &mut senders);
        let mut later = Vec::new();
        for (i, op) in ops.iter().enumerate() {
            txn.effects.own.0 = Version::ZERO;
            txn.part_op(*op)?;
            let took = txn.effects.own.0;
            if took > version {
                later.push((i, took));
            }
        }
        Ok(later)
    }

    /// Does a part at a version, all or nothing, with rows of the host's own.
    pub fn apply_part(
        &self,
        version: Version,
        ops: &[PartOp<'_>],
        absent: Absent,
        beside: Beside,
    ) -> Result<Commit> {
        let mut writer = lock(&self.writer);
        self.apply_part_holding(&mut writer, version, ops, absent, beside)
    }

    fn apply_part_holding(
        &self,
        writer: &mut Writer,
        version: Version,
        ops: &[PartOp<'_>],
        absent: Absent,
        beside: Beside,
    ) -> Result<Commit> {
        // Each commit has a number of its own, later than all before: it says which counters' changes have been merged. The
        // part's version may be older.
        let next = writer.clock.last().next();
        writer.clock.witness(version.max(next));
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        overlay.savepoint();
        writer.senders.begin();
        let mut txn = self.part_txn(&mut overlay, &schema, version, &mut writer.senders);
        let mark = match &beside.once {
            Some(marker) => txn.admit(marker)?,
            None => Mark::None,
        };
        if matches!(mark, Mark::Applied) {
            return Ok(Commit {
                version,
                applied: false,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            });
        }
        for op in ops {
            match txn.part_op(*op) {
                Err(Error::NoVertex { .. } | Error::NoEdge { .. })
                    if absent == Absent::PassOver =>
                {
                    txn.effects.unchanged += 1;
                }
                done => done?,
            }
        }
        for (table, key, value) in beside.rows {
            match value {
                Some(value) => txn.overlay.put(table, key, value),
                None => txn.overlay.remove(table, key),
            }
        }
        for (counter, change) in beside.counters {
            txn.count(counter, change);
        }
        txn.effects.touched.extend(beside.touched);
        txn.note(&mark);
        let mut effects = txn.effects;
        let commit = Commit {
            version: version.max(effects.own.0),
            applied: true,
            vertices_created: effects.vertices_created,
            edges_created: effects.edges_created,
            unchanged: effects.unchanged,
        };
        let committed = match &beside.arriving {
            Some(arriving) => self.commit_arriving(writer, overlay, &mut effects, arriving),
            None => self.commit_group(writer, overlay, &mut effects),
        };
        writer.senders.end(committed.is_ok());
        committed.map(|()| commit)
    }

    /// Tags of many objects, and changes of single ones, in one commit at a version (at a new one without it); the version
    /// that what changed took, or `None` if the marker was there before.
    pub(crate) fn apply_group_tags(
        &self,
        writer: &mut Writer,
        ops: Vec<Op>,
        tags: Vec<GroupTag>,
        version: Option<Version>,
        beside: Beside,
    ) -> Result<Option<Version>> {
        let version = match version {
            Some(version) => {
                let next = writer.clock.last().next();
                writer.clock.witness(version.max(next));
                version
            }
            None => writer.clock.tick(self.clock.now_millis()),
        };
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        overlay.savepoint();
        writer.senders.begin();
        let mut txn = self.part_txn(&mut overlay, &schema, version, &mut writer.senders);
        let mark = match &beside.once {
            Some(marker) => txn.admit(marker)?,
            None => Mark::None,
        };
        if matches!(mark, Mark::Applied) {
            return Ok(None);
        }
        for op in ops {
            txn.apply_one(Mutation { version: None, op })?;
        }
        for (table, key, value) in beside.rows {
            match value {
                Some(value) => txn.overlay.put(table, key, value),
                None => txn.overlay.remove(table, key),
            }
        }
        txn.note(&mark);
        let mut effects = txn.effects;
        effects.newest.0 = effects.newest.0.max(version);
        effects.tags = tags
            .into_iter()
            .map(|tag| BulkTag::at(version, tag))
            .collect();
        let took = version.max(effects.own.0);
        let committed = self.commit_group(writer, overlay, &mut effects);
        writer.senders.end(committed.is_ok());
        committed.map(|()| Some(took))
    }

    fn part_txn<'a, 's>(
        &'s self,
        overlay: &'a mut Overlay<'s>,
        schema: &'a Schema,
        version: Version,
        senders: &'a mut super::Senders,
    ) -> Txn<'a, 's>
    where
        's: 'a,
    {
        Txn {
            overlay,
            schema,
            effects: Effects::default(),
            version,
            archive: &*self.archive,
            retained: Version(self.retained_since.load(Ordering::Acquire)),
            scratch: Vec::new(),
            senders,
            objects: &self.objects,
            now_millis: self.clock.now_millis(),
            names: &self.names,
        }
    }

    /// Refuses a change that no state of the database would take: names, kinds, sizes. `PutEdge`s that pass cannot fail.
    pub fn check_mutation(&self, mutation: &Mutation) -> Result<()> {
        if mutation.version == Some(Version::MAX) {
            return Err(Error::Invalid(
                "a version must lie before the end of time".into(),
            ));
        }
        let schema = self.schema_now();
        match &mutation.op {
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => {
                schema.check_ends(*edge_type, source.type_id, destination.type_id)?;
                check_properties("an edge's properties", properties, PROPERTIES_MAX)?;
                if properties.is_empty() {
                    return Ok(());
                }
                let mut row = vec![0; 9];
                properties.encode(&mut row);
                check_row("an edge", row.len())
            }
            Op::DeleteEdge {
                source,
                edge_type,
                destination,
            } => schema
                .check_ends(*edge_type, source.type_id, destination.type_id)
                .map_err(Into::into),
            Op::EnsureVertex { vertex, key } | Op::PutVertex { vertex, key, .. } => {
                match super::check_vertex(&schema, *vertex, key) {
                    // Files may have other ids than their paths: that is looked up.
                    Err(_) if crate::names::file_kind(&schema, vertex.type_id).is_some() => {
                        esker_model::id::check_key(key).or_else(|_| self.check_name(*vertex, key))
                    }
                    checked => checked,
                }
            }
            Op::ChangeVertex { .. } | Op::SetAttributes { .. } | Op::DeleteVertex { .. } => Ok(()),
            Op::CreateObject {
                identity,
                attributes,
                tags,
            } => super::check_object(&schema, identity, attributes, tags),
            Op::MoveObject { to, .. } => super::check_identity(to),
        }
    }
}

impl Txn<'_, '_> {
    fn part_op(&mut self, op: PartOp<'_>) -> Result<()> {
        match op.change {
            // What else belongs to a move are parts of their own.
            PartChange::Vertex(Op::MoveObject { object, from, to }) => {
                self.move_attributes(*object, from, to, op.at)
            }
            PartChange::Claim { identity, object } => self.claim_identity(identity, object),
            PartChange::Release { identity, object } => {
                self.release_identity(identity, object);
                Ok(())
            }
            PartChange::Vertex(change) => self.apply_one(Mutation {
                version: op.at,
                op: change.clone(),
            }),
            PartChange::Edge {
                key,
                gone,
                properties,
                asked,
            } => self.direction(&key, gone, properties, asked, op.at),
        }
    }
}

/// A row of an edge as it lies in the store: which edge, in which table, its key, its value; deletions say so.
pub type EdgeRow<'a> = (EdgeKey, Table, &'a [u8], &'a [u8]);

impl Engine {
    /// All rows of the edges that leave a vertex, current ones first, then superseded ones, in key order; archived ones
    /// are not among them. The sink gets each and whether it is an edge that exists now.
    pub fn edge_rows(
        &self,
        vertex: VertexId,
        sink: &mut dyn FnMut(EdgeRow<'_>, bool) -> esker_model::Flow,
    ) -> Result<()> {
        let snapshot = self.store.snapshot()?;
        let prefix = esker_model::key::edges_prefix(vertex);
        let range = esker_store::KeyRange::prefix(&prefix);
        let mut failure = None;
        let mut stopped = false;
        for table in [Table::Rows, Table::History] {
            if stopped {
                break;
            }
            snapshot.scan(table, &range, &mut |key, value| {
                let decoded = if table == Table::Rows {
                    EdgeKey::decode(key).and_then(|edge| {
                        let (gone, _) = esker_model::record::EdgeRecord::decode_head(value)?;
                        Ok((edge, !gone))
                    })
                } else {
                    EdgeKey::decode_history(key).map(|(edge, _)| (edge, false))
                };
                let flow = match decoded {
                    Ok((edge, now)) => sink((edge, table, key, value), now),
                    Err(e) => {
                        let what = format!("a row of table `{}`", table.name());
                        failure = Some(Error::corrupt(what, e));
                        esker_model::Flow::Break(())
                    }
                };
                stopped = flow.is_break();
                flow
            })?;
        }
        failure.map_or(Ok(()), Err)
    }
}
