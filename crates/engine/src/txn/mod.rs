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
mod idempotency;
mod object;
mod overlay;
mod part;
mod past;
mod vertex;

pub(crate) use checks::{check_properties, check_row, check_static, check_tag_name, check_vertex};
pub(crate) use idempotency::{
    ProducerRecord, Producers, applied as was_applied, parse as parse_idempotency_key,
};
pub(crate) use object::{check_identity, check_object};
pub(crate) use overlay::Overlay;
pub use part::{Absent, EdgeRow, PartChange, PartOp, SideWrites};

use crate::Engine;
use crate::archive::Archive;
use crate::catalog::{
    NEWEST_KEY, SCHEMA_KEY, encode_schema, idempotency_row_key, pending_key, version_value,
};
use crate::clock::HybridClock;
use crate::counts::{Changes, PendingCounters, encode_pending};
use crate::memtable::MemtableStore;
use crate::object::{BulkTag, ObjectStore};
use esker_model::idempotency::ProducerKey;
use esker_model::key::vertex as vertex_key;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::object::ObjectId;
use esker_model::{
    Batch, Commit, EdgeTypeId, Error, Mutation, Op, Result, Schema, SchemaChange, Version, VertexId,
};
use esker_store::{Durability, Table, WriteBatch};
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

/// Effects of one batch, apart from the rows in the overlay.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) changes: Changes,
    /// Adjacency lists that are no longer valid.
    pub(crate) touched: Vec<(VertexId, EdgeTypeId)>,
    /// Vertices that the batch deletes.
    pub(crate) deleted: Vec<VertexId>,
    /// Whether paths of several files may have changed, so that no directory in memory is current.
    pub(crate) moves_paths: bool,
    /// Tags set on many objects at once.
    pub(crate) tags: Vec<BulkTag>,
    pub(crate) vertices_created: u64,
    pub(crate) edges_created: u64,
    pub(crate) unchanged: u64,
    /// The newest version assigned to any change.
    pub(crate) newest: MaxVersion,
    /// The newest version assigned to a change that did not specify one.
    pub(crate) max_assigned: MaxVersion,
    /// The oldest version that a change specified.
    pub(crate) min_explicit: Option<Version>,
}

/// A maximum of versions; zero by default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxVersion(pub(crate) Version);

impl Default for MaxVersion {
    fn default() -> Self {
        Self(Version::ZERO)
    }
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
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        let mut total = Effects::default();
        let mut answers = Vec::with_capacity(group.len());
        writer.producers.begin();
        for ticket in group {
            let slot = std::mem::replace(&mut *lock(ticket), TicketState::Taken);
            let TicketState::Waiting(batch) = slot else {
                continue;
            };
            let now_millis = self.clock.now_millis();
            let version = writer.clock.tick(now_millis);
            overlay.savepoint();
            let producers = &mut writer.producers;
            let mut txn = Txn::begin(self, &mut overlay, &schema, producers, version, now_millis);
            let answer = txn.apply(batch);
            let effects = txn.effects;
            match &answer {
                Ok(_) => total.absorb(effects),
                Err(_) => overlay.undo(),
            }
            answers.push((ticket, answer));
        }
        let writing = self.begin_changes(&overlay, false);
        let committed = match &writing {
            Ok(_) => self.commit_group(writer, overlay, &mut total),
            Err(e) => Err(clone_error(e)),
        };
        writer.producers.end(committed.is_ok());
        for (ticket, answer) in answers {
            let answer = match (&committed, answer) {
                (Err(e), Ok(_)) => Err(clone_error(e)),
                (_, answer) => answer,
            };
            *lock(ticket) = TicketState::Done(answer);
        }
    }

    pub(crate) fn commit_group(
        &self,
        writer: &mut Writer,
        overlay: Overlay<'_>,
        total: &mut Effects,
    ) -> Result<()> {
        let (mut batch, new_objects) = overlay.into_batch();
        let version = writer.clock.last();
        writer.producers.put(version, &mut batch);
        if batch.is_empty() && new_objects.is_empty() && total.tags.is_empty() {
            return Ok(());
        }
        total.changes.settle();
        // Rows of `names` go into the pending row and into the memtable: see `memtable`.
        let named = batch.iter().any(|w| w.table == Table::Names);
        let files = named.then(|| {
            let rest = batch.without(Table::Names);
            Arc::new(std::mem::replace(&mut batch, rest))
        });
        if let Some(files) = &files {
            MemtableStore::check(files)?;
        }
        let counted = !total.changes.is_empty() || files.is_some();
        let slot = counted.then(|| lock(&self.counters).take_slot());
        let mut pending = Vec::new();
        match slot {
            Some(slot) => {
                pending = encode_pending(version, &total.changes, files.as_deref());
                batch.put(Table::Meta, pending_key(slot), &pending);
                if let Some(files) = &files {
                    self.memtable.announce(pending_key(slot), Arc::clone(files));
                }
            }
            None => batch.put(Table::Meta, NEWEST_KEY, version_value(version)),
        }
        self.deleted.add(&total.deleted);
        let touched = self.feed.collect(
            files.as_deref().into_iter().chain([&batch]),
            new_objects.ids().map(ObjectId::vertex),
            total.min_explicit.unwrap_or(Version::MAX),
            |id| {
                self.names.has_vertices()
                    && self
                        .store
                        .get_with(Table::Rows, &vertex_key(id), &mut |_| {})
                        .unwrap_or(true)
            },
        );
        // Followers of the change feed ignore files without a vertex.
        let touched = touched.filter(|t| !t.is_empty() || !total.tags.is_empty());
        let told = touched.is_some();
        match &touched {
            Some(_) if !total.tags.is_empty() => self.feed.end_persistence(&mut batch),
            Some(entry) => self.feed.persist(entry, version, &mut batch),
            None => {}
        }
        let watched = self.names.watch.gather(
            files.as_deref(),
            (&batch, self.names.has_vertices()),
            &total.changes,
            &*self.store,
        );
        let dirty = self.adjacency.begin_write(&total.touched);
        let committed =
            self.objects
                .commit_with(batch, &new_objects, &total.tags, self.settings.durability);
        self.adjacency.end_write(dirty, &total.touched);
        // A listener may read the paths again.
        if total.moves_paths || committed.is_err() {
            self.names.directories.clear();
        }
        self.names.watch.notify(watched, committed.is_ok());
        match touched {
            Some(_) if !total.tags.is_empty() => self.feed.invalidate(),
            Some(entry) => self.feed.append(entry),
            None => {}
        }
        if told {
            self.feed.committed(committed.is_ok());
        }
        if let (Err(_), Some(slot)) = (&committed, slot) {
            self.memtable.withdraw();
            // If the failed commit's rows are in the store nevertheless, they become visible: later commits build on them.
            let there = files.is_some()
                && self
                    .store
                    .get(Table::Meta, &pending_key(slot))
                    .is_ok_and(|row| row.is_some_and(|row| row == pending));
            match (&files, there) {
                (Some(files), true) => {
                    self.memtable.add(files)?;
                    lock(&self.counters).add(&total.changes);
                }
                _ => lock(&self.counters).failed(slot),
            }
        }
        committed?;
        // Updated first, so that a thread that reads `newest_seen` also finds `newest_commit`.
        self.newest_commit.fetch_max(version.0, Ordering::AcqRel);
        self.newest_seen
            .fetch_max(version.0.max(total.newest.0.0), Ordering::AcqRel);
        // The batches are committed even if this fails: a later commit tries again.
        let _ = self.objects.checkpoint_if_due();
        if !counted {
            return Ok(());
        }
        let full = {
            let mut pending = lock(&self.counters);
            pending.add(&total.changes);
            pending.len() >= self.settings.pending_counters_max
                || pending.rows() >= PENDING_ROWS_MAX
                || files.is_some() && self.memtable.bytes() >= self.settings.memtable_bytes
        };
        if full {
            // The batches are committed even if this fails: a later attempt merges what is still pending.
            let _ = self.merge_counters(writer);
        }
        Ok(())
    }

    /// Merges pending counter changes into their rows. Must be called by the holder of the write lock.
    pub(crate) fn merge_counters(&self, writer: &Writer) -> Result<()> {
        self.merge_counters_and(writer.clock.last(), false)
    }

    /// Merges pending counter changes during a commit that already has its version.
    pub(crate) fn merge_counters_before(&self, version: Version) -> Result<()> {
        self.merge_counters_and(Version(version.0.saturating_sub(1)), false)
    }

    /// Merges pending counter changes and removes their rows, so that the next opening has none to read.
    pub(crate) fn tidy_counters(&self, writer: &Writer) -> Result<()> {
        self.merge_counters_and(writer.clock.last(), true)
    }

    fn merge_counters_and(&self, newest: Version, tidy: bool) -> Result<()> {
        let due = |pending: &PendingCounters| pending.rows() > 0 || tidy && pending.has_leftovers();
        if !due(&lock(&self.counters)) {
            return Ok(());
        }
        self.memtable.write_out()?;
        // Readers of counters wait for this lock, so that they see each change once: in its row or pending.
        let mut pending = lock(&self.counters);
        let mut batch = pending.merge(&*self.store, newest, tidy)?;
        batch.put(Table::Meta, NEWEST_KEY, version_value(newest));
        // This commit acknowledges nothing new, so it needs no sync.
        self.store.commit(batch, Durability::Relaxed)?;
        pending.clear(tidy);
        Ok(())
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

/// Upper bound of pending rows; they are all read when a database is opened.
const PENDING_ROWS_MAX: usize = 1 << 17;

fn lost_write() -> Error {
    Error::Unavailable("the write was lost on its way to the store; try again".into())
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

impl Effects {
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.changes.is_empty() {
            self.changes = other.changes;
        } else {
            self.changes.extend(&other.changes);
        }
        self.touched.extend(other.touched);
        self.deleted.extend(other.deleted);
        self.newest = MaxVersion(self.newest.0.max(other.newest.0));
        self.min_explicit = self
            .min_explicit
            .into_iter()
            .chain(other.min_explicit)
            .min();
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
        let mark = match &batch.idempotency_key {
            Some(idempotency_key) => self.admit(idempotency_key)?,
            None => BatchStatus::None,
        };
        let applied = !matches!(mark, BatchStatus::Applied);
        if applied {
            if batch.len() > BATCH_SMALL {
                let is_new = |m: &&Mutation| matches!(m.op, Op::CreateObject { .. });
                let objects = batch.mutations.iter().filter(is_new).count();
                let others = batch.len() - objects;
                self.overlay.new_objects().reserve(objects);
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
        Ok(Commit {
            // Reads as of this version see all that the batch changed at the present time.
            version: self.version.max(self.effects.max_assigned.0),
            applied,
            vertices_created: self.effects.vertices_created,
            edges_created: self.effects.edges_created,
            unchanged: self.effects.unchanged,
        })
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

    fn apply_one(&mut self, mutation: Mutation) -> Result<()> {
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
            Op::CreateObject {
                identity,
                attributes,
                tags,
            } => self.create_object(&identity, &attributes, &tags, at),
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
