//! Parts of distributed batches: the changes that one of several engines applies of a batch that all of them apply, at a
//! version that the host specifies.
//!
//! The two directions of an edge may belong to two engines, so each is written separately here.

use super::checks::{check_properties, check_row};
use super::{
    BatchStatus, CommitKind, Group, Overlay, Txn, Writer, committed, lock, lost_write, must_apply,
};
use crate::Engine;
use crate::names::{IngestLoad, IngestedRows};
use crate::object::{BulkTag, GroupTag};
use esker_model::idempotency::ProducerKey;
use esker_model::key::{Counter, EdgeKey};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::object::{Identity, ObjectId};
use esker_model::{Commit, EdgeTypeId, Error, Mutation, Op, Properties, Result, Version, VertexId};
use esker_store::Table;
use std::sync::atomic::Ordering;

/// One change of a part of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartOp<'a> {
    /// Version of the change; `None` takes the part's version.
    pub at: Option<Version>,
    /// The change to be applied.
    pub change: PartChange<'a>,
}

/// A change that one engine of several can apply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PartChange<'a> {
    /// A change of a vertex; never an edge.
    Vertex(&'a Op),
    /// Reserves an identity that this engine owns for an object of any engine; refused if another object has the identity.
    Claim {
        /// The reserved identity.
        identity: &'a Identity,
        /// The object that gets it.
        object: ObjectId,
    },
    /// Releases an identity that this engine owns.
    Release {
        /// The released identity.
        identity: &'a Identity,
        /// The object that had it.
        object: ObjectId,
    },
    /// One direction of an edge.
    Edge {
        /// Key of the edge in this direction.
        key: EdgeKey,
        /// Whether the edge is deleted.
        deleted: bool,
        /// All properties of the edge; they replace the previous ones.
        properties: &'a Properties,
        /// Whether this is the requested direction: the one that is counted, and must exist to be deleted.
        requested: bool,
    },
}

/// Additional rows of the host, and rows moved between engines, committed atomically with a part.
#[derive(Debug, Default)]
pub struct SideWrites {
    /// Rows as they are stored; `None` removes one.
    pub rows: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
    /// Changes of counters caused by the rows.
    pub counters: Vec<(Counter, i64)>,
    /// Adjacency lists that the rows change.
    pub touched: Vec<(VertexId, EdgeTypeId)>,
    /// Whether the rows move or remove directories, or change their permissions.
    pub moves_paths: bool,
    /// Rows of table `names` received from another engine in large numbers, as a sorted table that bypasses the log.
    pub ingested: Option<IngestedRows>,
    /// Idempotency key of the batch ([`esker_model::Batch::idempotency_key`]): if the batch was applied before, nothing is done.
    pub idempotency_key: Option<Vec<u8>>,
}

/// A part of a distributed batch, to be applied at a version.
#[derive(Debug)]
pub struct PartCommit<'a> {
    /// Version of changes that do not specify one.
    pub version: Version,
    /// The changes, in the order in which they are applied.
    pub ops: Vec<PartOp<'a>>,
    /// Treatment of changes whose vertex or edge does not exist.
    pub absent: Absent,
    /// Rows that are committed with the part.
    pub side_writes: SideWrites,
}

/// Treatment of changes whose vertex or edge does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Refuses the part.
    Refuse,
    /// Skips the change: the transaction is already decided, and a concurrent change removed its target.
    PassOver,
}

impl Engine {
    /// The newest version that this engine assigned or received for a commit, over all times it was opened.
    pub fn newest_assigned(&self) -> Version {
        lock(&self.writer).clock.last()
    }

    /// The number of the newest commit. It may exceed all versions returned to clients: each commit has its own number.
    pub fn newest_commit(&self) -> Version {
        Version(self.newest_commit.load(Ordering::Acquire))
    }

    /// The newest version of any stored change: later than the clock if data dated in the future is stored.
    pub fn newest_stored(&self) -> Version {
        Version(self.newest_seen.load(Ordering::Acquire))
    }

    /// Tries a part at a version without committing it; fails as `apply_part` would. Returns, by index, the changes that would
    /// take a later version because the stored version is later.
    pub fn try_part(&self, version: Version, ops: &[PartOp<'_>]) -> Result<Vec<(usize, Version)>> {
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        overlay.savepoint();
        let mut producers = super::Producers::default();
        let now_millis = self.clock.now_millis();
        let mut txn = Txn::begin(
            self,
            &mut overlay,
            &schema,
            &mut producers,
            version,
            now_millis,
        );
        let mut later = Vec::new();
        for (i, op) in ops.iter().enumerate() {
            txn.effects.max_assigned.0 = Version::ZERO;
            txn.part_op(*op)?;
            let took = txn.effects.max_assigned.0;
            if took > version {
                later.push((i, took));
            }
        }
        Ok(later)
    }

    /// Applies a part at a version atomically, together with additional rows.
    pub fn apply_part(
        &self,
        version: Version,
        ops: &[PartOp<'_>],
        absent: Absent,
        side_writes: SideWrites,
    ) -> Result<Commit> {
        let part = PartCommit {
            version,
            ops: ops.to_vec(),
            absent,
            side_writes,
        };
        let one = self.apply_parts(vec![part]).pop();
        one.unwrap_or_else(|| Err(lost_write()))
    }

    /// Applies parts in one commit, each atomically; a part with ingested rows has a commit of its own. The results are in the
    /// order of the parts.
    pub fn apply_parts(&self, parts: Vec<PartCommit<'_>>) -> Vec<Result<Commit>> {
        let mut writer = lock(&self.writer);
        let mut commits = Vec::with_capacity(parts.len());
        let mut left = parts.into_iter().peekable();
        while let Some(mut first) = left.next() {
            if let Some(rows) = first.side_writes.ingested.take() {
                commits.push(self.commit_ingest(&mut writer, first, rows));
                continue;
            }
            let mut answers = Vec::with_capacity(1 + left.len());
            let done = self.commit(&mut writer, CommitKind::Decided, &*self.store, |commit| {
                answers.push(commit.part(first));
                while let Some(next) = left.next_if(|p| p.side_writes.ingested.is_none()) {
                    answers.push(commit.part(next));
                }
                Ok(())
            });
            commits.extend(answers.into_iter().map(|answer| committed(&done, answer)));
        }
        commits
    }

    /// Commits a part after bulk-loading ingested rows; on any failure, all of these rows are removed.
    fn commit_ingest(
        &self,
        writer: &mut Writer,
        part: PartCommit<'_>,
        rows: IngestedRows,
    ) -> Result<Commit> {
        rows.check()?;
        self.commit(writer, CommitKind::Decided, &*self.store, |commit| {
            let done = commit.part(part)?;
            if done.applied {
                commit.bulk_load(IngestLoad::new(self, rows));
            }
            Ok(done)
        })
    }

    /// Sets tags of many objects, and changes single ones, in one commit at `version` (a new one if `None`). Returns the version
    /// of the changes, or `None` if the idempotency key was recorded before.
    pub(crate) fn apply_group_tags(
        &self,
        writer: &mut Writer,
        kind: CommitKind,
        ops: Vec<Op>,
        tags: Vec<GroupTag>,
        version: Version,
        side_writes: SideWrites,
    ) -> Result<Option<Version>> {
        self.commit(writer, kind, &*self.store, |commit| {
            commit.witness(version);
            commit.change(version, |txn| {
                let mark = txn.admit_key(side_writes.idempotency_key.as_deref())?;
                if matches!(mark, BatchStatus::Applied) {
                    return Ok(None);
                }
                for op in ops {
                    txn.apply_one(Mutation { version: None, op })?;
                }
                txn.side_writes(side_writes);
                txn.note(&mark);
                let effects = &mut txn.effects;
                effects.newest.0 = effects.newest.0.max(version);
                let tags = tags.into_iter();
                effects.tags = tags.map(|tag| BulkTag::at(version, tag)).collect();
                Ok(Some(version.max(effects.max_assigned.0)))
            })
        })
    }

    /// Whether a numbered batch must be applied: false if it was applied before. Fails if the batch is refused for its
    /// number or its age; one that passes is not refused for them later.
    pub fn must_apply(&self, numbered: &ProducerKey) -> Result<bool> {
        must_apply(&*self.store, numbered, self.clock.now_millis())
    }

    /// Refuses a mutation that is invalid in every state of the database: names, kinds, sizes. A `PutEdge` that passes cannot fail.
    pub fn check_mutation(&self, mutation: &Mutation) -> Result<()> {
        if mutation.version == Some(Version::MAX) {
            return Err(Error::Invalid(
                "a version must be below the largest possible one".into(),
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
                    // A file's id may differ from the hash of its path: look up the path.
                    Err(refused) if crate::names::file_kind(&schema, vertex.type_id).is_some() => {
                        esker_model::id::check_key(key).map_err(|_| refused)
                    }
                    checked => checked,
                }
            }
            Op::ChangeVertex { .. } | Op::SetAttributes { .. } | Op::DeleteVertex { .. } => Ok(()),
            Op::CreateObject {
                identity,
                attributes,
                tags,
            } => super::check_object(&schema, identity, attributes, tags).map(drop),
            Op::MoveObject { to, .. } => super::check_identity(to),
        }
    }
}

impl Group<'_, '_> {
    /// Applies a part.
    fn part(&mut self, part: PartCommit<'_>) -> Result<Commit> {
        let version = part.version;
        self.witness(version);
        self.change(version, |txn| txn.part(part))
    }
}

impl Txn<'_, '_> {
    fn part(&mut self, part: PartCommit<'_>) -> Result<Commit> {
        let mark = self.admit_key(part.side_writes.idempotency_key.as_deref())?;
        let applied = !matches!(mark, BatchStatus::Applied);
        if applied {
            for op in part.ops {
                match self.part_op(op) {
                    Err(Error::NoVertex { .. } | Error::NoEdge { .. })
                        if part.absent == Absent::PassOver =>
                    {
                        self.effects.unchanged += 1;
                    }
                    done => done?,
                }
            }
            self.side_writes(part.side_writes);
            self.note(&mark);
        }
        Ok(self.answer(applied))
    }

    /// Adds rows of the host, and their effects.
    fn side_writes(&mut self, side_writes: SideWrites) {
        for (table, key, value) in side_writes.rows {
            match value {
                Some(value) => self.overlay.put(table, key, value),
                None => self.overlay.remove(table, key),
            }
        }
        for (counter, change) in side_writes.counters {
            self.count(counter, change);
        }
        self.effects.touched.extend(side_writes.touched);
        self.effects.moves_paths |= side_writes.moves_paths;
    }

    fn part_op(&mut self, op: PartOp<'_>) -> Result<()> {
        match op.change {
            // Separate parts have the remaining changes of a move.
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
                deleted,
                properties,
                requested,
            } => self.direction(&key, deleted, properties, requested, op.at),
        }
    }
}

/// A row of an edge as it is stored: the edge, the table, the key and the value; tombstones included.
pub type EdgeRow<'a> = (EdgeKey, Table, &'a [u8], &'a [u8]);

impl Engine {
    /// Passes all rows of the edges that leave a vertex to `sink`: current ones first, then superseded ones, in key order, without
    /// archived ones. The flag tells whether the row is an edge that exists now.
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
                        let (deleted, _) = esker_model::record::EdgeRecord::decode_head(value)?;
                        Ok((edge, !deleted))
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
