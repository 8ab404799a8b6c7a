//! Writing: batches that arrive concurrently are applied as one group (group commit), each atomically.
//!
//! A writer puts its batch in a queue and takes the write lock. The holder of the lock takes all queued batches, applies
//! them in order to an overlay over the store, and commits the overlay once: one log record and, in `sync` mode, one
//! fsync for all. Writers that get the lock afterwards find their results in their tickets. Where a commit does not wait
//! for the disk, each writer commits its own batch instead: the saving would not pay for waking another thread
//! ([`crate::Settings::group_commits`]).

mod batching;
mod change;
mod checks;
mod edge;
mod effects;
mod idempotency;
mod object;
mod overlay;
mod part;
mod past;
mod vertex;

pub(crate) use checks::{check_properties, check_row, check_static, check_tag_name, check_vertex};
pub(crate) use effects::{CommitKind, Effects};
pub(crate) use idempotency::{
    ProducerRecord, Producers, applied as was_applied, must_apply, parse as parse_idempotency_key,
};
pub(crate) use object::{check_identity, check_object};
pub(crate) use overlay::Overlay;
pub use part::{Absent, EdgeRow, PartChange, PartCommit, PartOp, SideWrites};

use crate::Engine;
use crate::archive::Archive;
use crate::catalog::{SCHEMA_KEY, encode_schema, idempotency_row_key, version_value};
use crate::clock::HybridClock;
use crate::commit::CommitParticipant;
use crate::object::ObjectStore;
use effects::MaxVersion;
use esker_model::idempotency::ProducerKey;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::{Batch, Commit, Error, Mutation, Op, Result, Schema, SchemaChange, Version};
use esker_store::{Durability, Store, Table, WriteBatch};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// State that belongs to the holder of the write lock.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) clock: HybridClock,
    pub(crate) producers: Producers,
    /// Filters that tell which names directories lack.
    pub(crate) filters: crate::names::Filters,
}

/// A batch in the queue, replaced by its result.
type Ticket = Arc<Mutex<TicketState>>;

#[derive(Debug)]
enum TicketState {
    Waiting(Batch),
    Done(Result<Commit>),
    Taken,
}

/// Batches waiting for the write lock.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Vec<Ticket>>);

/// Locks a mutex and ignores poisoning. The data is consistent even if a holder panicked: it is changed only by
/// complete assignments after the store has accepted the changes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attempts to get a lock before the thread sleeps: some ten microseconds, the time of one change of a file. Waking a thread
/// takes longer.
const SPINS: u32 = 256;

/// Locks a mutex that is held only for short times: spins before it sleeps.
pub(crate) fn lock_spinning<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(e)) => return e.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    lock(mutex)
}

/// One batch being applied.
pub(crate) struct Txn<'a, 's> {
    pub(crate) overlay: &'a mut Overlay<'s>,
    pub(crate) schema: &'a Schema,
    pub(crate) effects: Effects,
    /// Version of changes that do not specify one.
    pub(crate) version: Version,
    /// Archive that may have versions older than `retained`.
    pub(crate) archive: &'a dyn Archive,
    pub(crate) retained: Version,
    /// Buffer in which a row is encoded.
    pub(crate) scratch: Vec<u8>,
    pub(crate) producers: &'a mut Producers,
    /// Allocates the numbers of objects.
    pub(crate) objects: &'a ObjectStore,
    /// Present time of the host's clock.
    pub(crate) now_millis: u64,
    pub(crate) names: &'a crate::names::Names,
}

/// Changes that go into one commit, each of which is applied whole or not at all.
pub(crate) struct Group<'g, 's> {
    engine: &'g Engine,
    schema: Arc<Schema>,
    pub(crate) overlay: Overlay<'s>,
    pub(crate) effects: Effects,
    pub(crate) producers: &'g mut Producers,
    pub(crate) clock: &'g mut HybridClock,
    /// A bulk load of rows that become reachable with the commit.
    pub(crate) bulk_load: Option<Box<dyn CommitParticipant + 'g>>,
}

impl<'s> Group<'_, 's> {
    /// Returns a new version, later than all before.
    pub(crate) fn tick(&mut self) -> Version {
        self.clock.tick(self.engine.clock.now_millis())
    }

    /// Makes the clock count a change at a version that the host specifies. Each commit has its own number, later than all
    /// before, which says up to which commit counter changes are merged; the change's version may be older.
    pub(crate) fn witness(&mut self, version: Version) {
        let next = self.clock.last().next();
        self.clock.witness(version.max(next));
    }

    /// Begins a change at a version. It ends with [`Self::keep`] or [`Self::undo`].
    pub(crate) fn begin(&mut self, version: Version) -> Txn<'_, 's> {
        self.overlay.savepoint();
        Txn::begin(
            self.engine,
            &mut self.overlay,
            &self.schema,
            self.producers,
            version,
            self.engine.clock.now_millis(),
        )
    }

    /// Makes the change that was begun last a part of the commit.
    pub(crate) fn keep(&mut self, effects: Effects) {
        self.effects.absorb(effects);
    }

    /// Rolls the change back that was begun last.
    pub(crate) fn undo(&mut self) {
        self.overlay.undo();
    }

    /// Applies a change at a version; if it fails, the others of the group are not affected.
    pub(crate) fn change<T>(
        &mut self,
        version: Version,
        apply: impl FnOnce(&mut Txn<'_, 's>) -> Result<T>,
    ) -> Result<T> {
        let mut txn = self.begin(version);
        let done = apply(&mut txn);
        let effects = txn.effects;
        match &done {
            Ok(_) => self.keep(effects),
            Err(_) => self.undo(),
        }
        done
    }
}

impl<'g, 's> Group<'g, 's> {
    /// Begins a group over a store. Caller holds the write lock.
    pub(crate) fn new(engine: &'g Engine, writer: &'g mut Writer, store: &'s dyn Store) -> Self {
        writer.producers.begin();
        Self {
            engine,
            schema: engine.schema_now(),
            overlay: Overlay::new(store),
            effects: Effects::default(),
            producers: &mut writer.producers,
            clock: &mut writer.clock,
            bulk_load: None,
        }
    }

    /// Adds a bulk load of rows that become reachable with the commit.
    pub(crate) fn bulk_load(&mut self, load: impl CommitParticipant + 'g) {
        self.bulk_load = Some(Box::new(load));
    }
}

impl Engine {
    pub(crate) fn apply_batch(&self, batch: Batch) -> Result<Commit> {
        if batch.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a batch's number of mutations".into(),
                got: batch.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        if !self.settings.group_commits {
            return self.apply_locked(&mut lock(&self.writer), batch);
        }
        let ticket: Ticket = Arc::new(Mutex::new(TicketState::Waiting(batch)));
        lock(&self.queue.0).push(Arc::clone(&ticket));
        let mut writer = lock(&self.writer);
        if let Some(answer) = take_answer(&ticket) {
            return answer;
        }
        let group = std::mem::take(&mut *lock(&self.queue.0));
        self.apply_group(&mut writer, &group);
        drop(writer);
        take_answer(&ticket).unwrap_or_else(|| Err(lost_write()))
    }

    /// Number of batches that wait for the write lock; the next holder commits them as one group.
    pub fn queued_batches(&self) -> usize {
        lock(&self.queue.0).len()
    }

    /// Applies one batch for a caller that already holds the write lock.
    pub(crate) fn apply_locked(&self, writer: &mut Writer, batch: Batch) -> Result<Commit> {
        let ticket: Ticket = Arc::new(Mutex::new(TicketState::Waiting(batch)));
        self.apply_group(writer, std::slice::from_ref(&ticket));
        take_answer(&ticket).unwrap_or_else(|| Err(lost_write()))
    }

    fn apply_group(&self, writer: &mut Writer, group: &[Ticket]) {
        let mut answers = Vec::with_capacity(group.len());
        let done = self.commit(writer, CommitKind::Local, &*self.store, |commit| {
            for ticket in group {
                let slot = std::mem::replace(&mut *lock(ticket), TicketState::Taken);
                let TicketState::Waiting(batch) = slot else {
                    continue;
                };
                let version = commit.tick();
                let answer = commit.change(version, |txn| txn.apply(batch));
                answers.push((ticket, answer));
            }
            Ok(())
        });
        for (ticket, answer) in answers {
            *lock(ticket) = TicketState::Done(committed(&done, answer));
        }
    }

    pub(crate) fn define_types(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        let _writer = lock(&self.writer);
        let mut schema = (*self.schema_now()).clone();
        let mut changed = false;
        for change in changes {
            changed |= schema.apply(change)?;
        }
        if !changed {
            return Ok(self.schema_now());
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, SCHEMA_KEY, encode_schema(&schema));
        self.store.commit(batch, Durability::Sync)?;
        let schema = Arc::new(schema);
        *self.schema.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&schema);
        Ok(schema)
    }
}

/// Number of mutations up to which capacity is not reserved in advance.
const BATCH_SMALL: usize = 16;

fn lost_write() -> Error {
    Error::Undecided("the write was lost on its way to the store; try again".into())
}

fn take_answer(ticket: &Ticket) -> Option<Result<Commit>> {
    let mut slot = lock(ticket);
    match std::mem::replace(&mut *slot, TicketState::Taken) {
        TicketState::Done(answer) => Some(answer),
        other => {
            *slot = other;
            None
        }
    }
}

/// The answer to a change of a group whose commit has ended: a failed commit fails all changes in it.
fn committed<T>(commit: &Result<()>, answer: Result<T>) -> Result<T> {
    match (commit, answer) {
        (Err(e), Ok(_)) => Err(clone_error(e)),
        (_, answer) => answer,
    }
}

/// Copies an error, so that each batch of a group gets it.
pub(crate) fn clone_error(e: &Error) -> Error {
    match e {
        Error::Io { context, source } => Error::io(
            context.clone(),
            source.raw_os_error().map_or_else(
                || std::io::Error::from(source.kind()),
                std::io::Error::from_raw_os_error,
            ),
        ),
        Error::Store { engine, message } => Error::Store {
            engine,
            message: message.clone(),
        },
        Error::Leased { millis } => Error::Leased { millis: *millis },
        other => Error::Store {
            engine: "store",
            message: other.to_string(),
        },
    }
}

/// Result of looking up a batch's idempotency key.
enum BatchStatus {
    /// The batch was applied before.
    Applied,
    /// New batch of a producer; the producer's row must record it.
    Numbered(ProducerKey),
    /// New batch; its idempotency key, if any, is already in the overlay.
    None,
}

impl<'a, 's> Txn<'a, 's> {
    /// Starts a batch that takes `version`.
    pub(crate) fn begin(
        engine: &'a Engine,
        overlay: &'a mut Overlay<'s>,
        schema: &'a Schema,
        producers: &'a mut Producers,
        version: Version,
        now_millis: u64,
    ) -> Self {
        Self {
            overlay,
            schema,
            effects: Effects::default(),
            version,
            archive: &*engine.archive,
            retained: Version(engine.retained_since.load(Ordering::Acquire)),
            scratch: Vec::new(),
            producers,
            objects: &engine.objects,
            now_millis,
            names: &engine.names,
        }
    }
}

impl Txn<'_, '_> {
    fn apply(&mut self, batch: Batch) -> Result<Commit> {
        let mark = self.admit_key(batch.idempotency_key.as_deref())?;
        let applied = !matches!(mark, BatchStatus::Applied);
        if applied {
            if batch.len() > BATCH_SMALL {
                let is_new = |m: &&Mutation| matches!(m.op, Op::CreateObject { .. });
                let objects = batch.mutations.iter().filter(is_new).count();
                let others = batch.len() - objects;
                // Upper bound: each mutation writes an edge and its inverse, of two vertices.
                self.overlay.reserve(2 * others);
                self.effects.changes.reserve(2 * others);
                self.effects.touched.reserve(2 * others);
            }
            for mutation in batch.mutations {
                self.apply_one(mutation)?;
            }
            self.note(&mark);
        }
        Ok(self.answer(applied))
    }

    /// The answer to a batch.
    fn answer(&self, applied: bool) -> Commit {
        Commit {
            // Reads as of this version see all that the batch changed at the present time.
            version: self.version.max(self.effects.max_assigned.0),
            applied,
            vertices_created: self.effects.vertices_created,
            edges_created: self.effects.edges_created,
            unchanged: self.effects.unchanged,
        }
    }

    /// Looks up the idempotency key of a batch, if it has one.
    fn admit_key(&mut self, idempotency_key: Option<&[u8]>) -> Result<BatchStatus> {
        idempotency_key.map_or(Ok(BatchStatus::None), |key| self.admit(key))
    }

    /// Looks up an idempotency key; decides whether the batch must be applied.
    fn admit(&mut self, idempotency_key: &[u8]) -> Result<BatchStatus> {
        if let Some(numbered) = parse_idempotency_key(idempotency_key)? {
            let store = self.overlay.store();
            return Ok(
                if self.producers.admit(store, &numbered, self.now_millis)? {
                    BatchStatus::Numbered(numbered)
                } else {
                    BatchStatus::Applied
                },
            );
        }
        let key = idempotency_row_key(idempotency_key);
        if self.overlay.get_with(Table::Meta, &key, &mut |_| {})? {
            return Ok(BatchStatus::Applied);
        }
        self.overlay
            .put(Table::Meta, key, version_value(self.version));
        Ok(BatchStatus::None)
    }

    /// Records that the batch with this idempotency key was applied.
    fn note(&mut self, mark: &BatchStatus) {
        if let BatchStatus::Numbered(numbered) = mark {
            self.producers.add(numbered, self.now_millis);
        }
    }

    pub(crate) fn apply_one(&mut self, mutation: Mutation) -> Result<()> {
        let at = mutation.version;
        if let Some(at) = at {
            self.effects.min_explicit =
                Some(self.effects.min_explicit.map_or(at, |late| late.min(at)));
        }
        if at == Some(Version::MAX) {
            return Err(Error::Invalid(
                "a version must be below the largest possible one".into(),
            ));
        }
        match mutation.op {
            // By reference: large batches of objects are not moved.
            Op::CreateObject {
                ref identity,
                ref attributes,
                ref tags,
            } => self.create_object(identity, attributes, tags, at),
            Op::PutVertex {
                vertex,
                key,
                attributes,
            } => self.put_vertex(vertex, key, attributes, at),
            Op::EnsureVertex { vertex, key } => self.ensure_vertex(vertex, key, at),
            Op::ChangeVertex {
                vertex,
                set,
                remove,
            } => self.change_vertex(vertex, set, &remove, at),
            Op::SetAttributes {
                vertex,
                set,
                remove,
            } => self.set_attributes(vertex, set, remove, at),
            Op::DeleteVertex { vertex } => self.delete_vertex(vertex, at),
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => self.put_edge(source, edge_type, destination, &properties, at),
            Op::DeleteEdge {
                source,
                edge_type,
                destination,
            } => self.delete_edge(source, edge_type, destination, at),
            Op::MoveObject { object, from, to } => self.move_object(object, &from, &to, at),
        }
    }

    pub(crate) fn count(&mut self, counter: esker_model::key::Counter, change: i64) {
        self.effects.changes.add(counter, change);
    }

    /// Returns the version of a change: its own if specified; else the commit's, or the one after the stored version if that is
    /// later (an import may have come from a machine whose clock is fast), so that a writer sees its own write.
    pub(crate) fn version_after(&mut self, at: Option<Version>, stored: Version) -> Version {
        let version = at.unwrap_or_else(|| {
            let version = if stored > self.version {
                stored.next()
            } else {
                self.version
            };
            self.effects.max_assigned = MaxVersion(self.effects.max_assigned.0.max(version));
            version
        });
        self.effects.newest = MaxVersion(self.effects.newest.0.max(version));
        version
    }
}
