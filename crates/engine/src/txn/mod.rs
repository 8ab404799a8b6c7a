//! Writing: batches that arrive together are applied together (group commit), each whole or not at all.
//!
//! A writer puts its batch in a queue and takes the write lock. Whoever holds the lock takes everything that
//! queued up meanwhile, applies batch after batch to an overlay over the store, and commits the overlay once:
//! one log record and, in `sync` mode, one fsync for all. Those who then get the lock find their answer there.
//! Where a commit does not wait for the disk, each commits its own batch instead: there is nothing to share that is worth
//! waking another thread for ([`crate::Settings::group_commits`]).

mod change;
mod checks;
mod edge;
mod object;
mod overlay;
mod part;
mod past;
mod senders;
mod together;
mod vertex;

pub(crate) use checks::{check_properties, check_row, check_static, check_tag_name, check_vertex};
pub(crate) use object::{check_identity, check_object};
pub(crate) use overlay::Overlay;
pub use part::{Absent, Beside, EdgeRow, PartChange, PartOp};
pub(crate) use senders::{
    Record as SenderRecord, Senders, applied as sender_applied, parse as parse_marker,
};

use crate::Engine;
use crate::archive::Archive;
use crate::catalog::{NEWEST_KEY, SCHEMA_KEY, encode_schema, once_key, pending_key, version_value};
use crate::clock::HybridClock;
use crate::counts::{Changes, PendingCounters, encode_pending};
use crate::object::{BulkTag, ObjectStore};
use crate::staged::StagedStore;
use esker_model::key::vertex as vertex_key;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::object::ObjectId;
use esker_model::once::Numbered;
use esker_model::{
    Batch, Commit, EdgeTypeId, Error, Mutation, Op, Result, Schema, SchemaChange, Version, VertexId,
};
use esker_store::{Durability, Table, WriteBatch};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// What the holder of the write lock owns.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) clock: HybridClock,
    pub(crate) senders: Senders,
    /// Which names directories lack.
    pub(crate) filters: crate::names::Filters,
}

/// A batch in the queue, and where its answer will be.
type Ticket = Arc<Mutex<Slot>>;

#[derive(Debug)]
enum Slot {
    Waiting(Batch),
    Done(Result<Commit>),
    Taken,
}

/// Batches waiting for the write lock.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Vec<Ticket>>);

/// A lock whose holder panicked is still consistent here: everything is changed by whole assignments after the
/// store has accepted them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often who wants a lock looks before they sleep: some ten microseconds, what a change of one file takes. To be woken takes
/// longer than that.
const LOOKS: u32 = 256;

/// The same for a lock that is held for short times.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(e)) => return e.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    lock(mutex)
}

/// What one batch does, apart from the rows in the overlay.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) changes: Changes,
    /// Adjacency lists that are no longer true.
    pub(crate) touched: Vec<(VertexId, EdgeTypeId)>,
    /// Vertices that were deleted.
    pub(crate) deleted: Vec<VertexId>,
    /// Tags of many objects at once.
    pub(crate) tags: Vec<BulkTag>,
    pub(crate) vertices_created: u64,
    pub(crate) edges_created: u64,
    pub(crate) unchanged: u64,
    /// The newest version that any change took.
    pub(crate) newest: Version0,
    /// The newest version that a change without one of its own took.
    pub(crate) own: Version0,
    /// The oldest version that a change brought with it.
    pub(crate) late: Option<Version>,
}

/// A version that starts at zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version0(pub(crate) Version);

impl Default for Version0 {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

/// One batch being applied.
pub(crate) struct Txn<'a, 's> {
    pub(crate) overlay: &'a mut Overlay<'s>,
    pub(crate) schema: &'a Schema,
    pub(crate) effects: Effects,
    /// For changes without a version of their own.
    pub(crate) version: Version,
    /// Where older versions than `retained` may lie.
    pub(crate) archive: &'a dyn Archive,
    pub(crate) retained: Version,
    /// Room for a row that is being made.
    pub(crate) scratch: Vec<u8>,
    pub(crate) senders: &'a mut Senders,
    /// Gives objects their numbers.
    pub(crate) objects: &'a ObjectStore,
    /// What time it is.
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
            return self.apply_holding(&mut lock(&self.writer), batch);
        }
        let ticket: Ticket = Arc::new(Mutex::new(Slot::Waiting(batch)));
        lock(&self.queue.0).push(Arc::clone(&ticket));
        let mut writer = lock(&self.writer);
        if let Some(answer) = take_answer(&ticket) {
            return answer;
        }
        let group = std::mem::take(&mut *lock(&self.queue.0));
        self.apply_group(&mut writer, &group);
        drop(writer);
        take_answer(&ticket).unwrap_or_else(|| Err(lost()))
    }

    /// How many batches wait for the write lock: they will be committed together.
    pub fn waiting(&self) -> usize {
        lock(&self.queue.0).len()
    }

    /// Applies one batch for a caller that holds the write lock already.
    pub(crate) fn apply_holding(&self, writer: &mut Writer, batch: Batch) -> Result<Commit> {
        let ticket: Ticket = Arc::new(Mutex::new(Slot::Waiting(batch)));
        self.apply_group(writer, std::slice::from_ref(&ticket));
        take_answer(&ticket).unwrap_or_else(|| Err(lost()))
    }

    fn apply_group(&self, writer: &mut Writer, group: &[Ticket]) {
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        let mut total = Effects::default();
        let mut answers = Vec::with_capacity(group.len());
        writer.senders.begin();
        for ticket in group {
            let slot = std::mem::replace(&mut *lock(ticket), Slot::Taken);
            let Slot::Waiting(batch) = slot else { continue };
            let now_millis = self.clock.now_millis();
            let version = writer.clock.tick(now_millis);
            overlay.savepoint();
            let senders = &mut writer.senders;
            let mut txn = Txn::begin(self, &mut overlay, &schema, senders, version, now_millis);
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
            Err(e) => Err(repeat(e)),
        };
        writer.senders.end(committed.is_ok());
        for (ticket, answer) in answers {
            let answer = match (&committed, answer) {
                (Err(e), Ok(_)) => Err(repeat(e)),
                (_, answer) => answer,
            };
            *lock(ticket) = Slot::Done(answer);
        }
    }

    pub(crate) fn commit_group(
        &self,
        writer: &mut Writer,
        overlay: Overlay<'_>,
        total: &mut Effects,
    ) -> Result<()> {
        let (mut batch, fresh) = overlay.into_batch();
        let version = writer.clock.last();
        writer.senders.put(version, &mut batch);
        if batch.is_empty() && fresh.is_empty() && total.tags.is_empty() {
            return Ok(());
        }
        total.changes.settle();
        // Rows of files go into the pending row and wait in memory: `staged`.
        let named = batch.iter().any(|w| w.table == Table::Names);
        let files = named.then(|| {
            let rest = batch.without(Table::Names);
            Arc::new(std::mem::replace(&mut batch, rest))
        });
        if let Some(files) = &files {
            StagedStore::check(files)?;
        }
        let counted = !total.changes.is_empty() || files.is_some();
        let slot = counted.then(|| lock(&self.counters).take_slot());
        let mut pending = Vec::new();
        match slot {
            Some(slot) => {
                pending = encode_pending(version, &total.changes, files.as_deref());
                batch.put(Table::Meta, pending_key(slot), &pending);
                if let Some(files) = &files {
                    self.staged.expect(pending_key(slot), Arc::clone(files));
                }
            }
            None => batch.put(Table::Meta, NEWEST_KEY, version_value(version)),
        }
        self.deleted.add(&total.deleted);
        let touched = self.feed.gather(
            files.as_deref().into_iter().chain([&batch]),
            fresh.ids().map(ObjectId::vertex),
            total.late.unwrap_or(Version::MAX),
            |id| {
                self.names.has_vertices()
                    && self
                        .store
                        .get_with(Table::Rows, &vertex_key(id), &mut |_| {})
                        .unwrap_or(true)
            },
        );
        // Files that the graph does not know are nothing to those who follow it.
        let touched = touched.filter(|t| !t.is_nothing() || !total.tags.is_empty());
        let told = touched.is_some();
        match &touched {
            Some(_) if !total.tags.is_empty() => self.feed.end(&mut batch),
            Some(entry) => self.feed.keep(entry, version, &mut batch),
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
                .commit_with(batch, &fresh, &total.tags, self.settings.durability);
        self.adjacency.end_write(dirty, &total.touched);
        self.names.watch.tell(watched, committed.is_ok());
        match touched {
            Some(_) if !total.tags.is_empty() => self.feed.lose(),
            Some(entry) => self.feed.note(entry),
            None => {}
        }
        if told {
            self.feed.committed(committed.is_ok());
        }
        if let (Err(_), Some(slot)) = (&committed, slot) {
            self.staged.expect_nothing();
            // Rows of files that are there after all are there for everybody: later commits build on them.
            let there = files.is_some()
                && self
                    .store
                    .get(Table::Meta, &pending_key(slot))
                    .is_ok_and(|row| row.is_some_and(|row| row == pending));
            match (&files, there) {
                (Some(files), true) => {
                    self.staged.add(files)?;
                    lock(&self.counters).add(&total.changes);
                }
                _ => lock(&self.counters).failed(slot),
            }
        }
        committed?;
        // First: whoever sees the one sees the other.
        self.newest_commit.fetch_max(version.0, Ordering::AcqRel);
        self.newest_seen
            .fetch_max(version.0.max(total.newest.0.0), Ordering::AcqRel);
        // The batches are committed, whatever becomes of this: a later commit tries again.
        let _ = self.objects.checkpoint_if_due();
        if !counted {
            return Ok(());
        }
        let full = {
            let mut pending = lock(&self.counters);
            pending.add(&total.changes);
            pending.len() >= self.settings.pending_counters_max
                || pending.rows() >= PENDING_ROWS_MAX
                || files.is_some() && self.staged.bytes() >= self.settings.staged_bytes
        };
        if full {
            // The batches are committed, whatever becomes of this: what stays pending is merged by a later attempt.
            let _ = self.merge_counters(writer);
        }
        Ok(())
    }

    /// Merges pending degree changes into their rows. Only the holder of the write lock may.
    pub(crate) fn merge_counters(&self, writer: &Writer) -> Result<()> {
        self.merge_counters_and(writer.clock.last(), false)
    }

    /// The same on the way to a commit that has its version already.
    pub(crate) fn merge_counters_before(&self, version: Version) -> Result<()> {
        self.merge_counters_and(Version(version.0.saturating_sub(1)), false)
    }

    /// Merges pending degree changes and removes their rows, so that the next opening has none to read.
    pub(crate) fn tidy_counters(&self, writer: &Writer) -> Result<()> {
        self.merge_counters_and(writer.clock.last(), true)
    }

    fn merge_counters_and(&self, newest: Version, tidy: bool) -> Result<()> {
        let due = |pending: &PendingCounters| pending.rows() > 0 || tidy && pending.has_leftovers();
        if !due(&lock(&self.counters)) {
            return Ok(());
        }
        self.staged.write_out()?;
        // Readers of counters wait here, so that they see each change once: in its row or pending.
        let mut pending = lock(&self.counters);
        let mut batch = pending.merge(&*self.store, newest, tidy)?;
        batch.put(Table::Meta, NEWEST_KEY, version_value(newest));
        // Nothing new is acknowledged here, so there is nothing to sync.
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

/// Up to so many mutations, room is made as it is needed.
const BATCH_SMALL: usize = 16;

/// Pending rows are read back when a database is opened, so there are never many.
const PENDING_ROWS_MAX: usize = 1 << 17;

fn lost() -> Error {
    Error::Unavailable("the write was lost on its way to the store; try again".into())
}

fn take_answer(ticket: &Ticket) -> Option<Result<Commit>> {
    let mut slot = lock(ticket);
    match std::mem::replace(&mut *slot, Slot::Taken) {
        Slot::Done(answer) => Some(answer),
        other => {
            *slot = other;
            None
        }
    }
}

/// The same failure for each batch of a group.
pub(crate) fn repeat(e: &Error) -> Error {
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
        Error::Promised { millis } => Error::Promised { millis: *millis },
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
        self.newest = Version0(self.newest.0.max(other.newest.0));
        self.late = self.late.into_iter().chain(other.late).min();
    }
}

/// What a batch's marker says.
enum Mark {
    /// It was applied before.
    Applied,
    /// It was not, and its sender's row is to say that it is now.
    Numbered(Numbered),
    /// It was not; all that is to be noted is.
    None,
}

impl<'a, 's> Txn<'a, 's> {
    /// A batch that is to be applied at a version.
    pub(crate) fn begin(
        engine: &'a Engine,
        overlay: &'a mut Overlay<'s>,
        schema: &'a Schema,
        senders: &'a mut Senders,
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
            senders,
            objects: &engine.objects,
            now_millis,
            names: &engine.names,
        }
    }
}

impl Txn<'_, '_> {
    fn apply(&mut self, batch: Batch) -> Result<Commit> {
        let mark = match &batch.once {
            Some(marker) => self.admit(marker)?,
            None => Mark::None,
        };
        let applied = !matches!(mark, Mark::Applied);
        if applied {
            if batch.len() > BATCH_SMALL {
                let is_new = |m: &&Mutation| matches!(m.op, Op::CreateObject { .. });
                let objects = batch.mutations.iter().filter(is_new).count();
                let others = batch.len() - objects;
                self.overlay.fresh().reserve(objects);
                // At most: each mutation an edge and its inverse, of two vertices.
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
            // Whoever reads as of this version sees all that the batch did now.
            version: self.version.max(self.effects.own.0),
            applied,
            vertices_created: self.effects.vertices_created,
            edges_created: self.effects.edges_created,
            unchanged: self.effects.unchanged,
        })
    }

    /// Whether a batch with this marker is to be applied.
    fn admit(&mut self, marker: &[u8]) -> Result<Mark> {
        if let Some(numbered) = parse_marker(marker)? {
            let store = self.overlay.store();
            return Ok(if self.senders.admit(store, &numbered, self.now_millis)? {
                Mark::Numbered(numbered)
            } else {
                Mark::Applied
            });
        }
        let key = once_key(marker);
        if self.overlay.get_with(Table::Meta, &key, &mut |_| {})? {
            return Ok(Mark::Applied);
        }
        self.overlay
            .put(Table::Meta, key, version_value(self.version));
        Ok(Mark::None)
    }

    /// The batch with this marker is applied.
    fn note(&mut self, mark: &Mark) {
        if let Mark::Numbered(numbered) = mark {
            self.senders.add(numbered, self.now_millis);
        }
    }

    fn apply_one(&mut self, mutation: Mutation) -> Result<()> {
        let at = mutation.version;
        if let Some(at) = at {
            self.effects.late = Some(self.effects.late.map_or(at, |late| late.min(at)));
        }
        if at == Some(Version::MAX) {
            return Err(Error::Invalid(
                "a version must lie before the end of time".into(),
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

    /// The version a change takes: its own; else the commit's, or the one after what is stored if that is later
    /// (an import may have come from a machine whose clock runs ahead), so that a writer sees its own write.
    pub(crate) fn version_after(&mut self, at: Option<Version>, stored: Version) -> Version {
        let version = at.unwrap_or_else(|| {
            let version = if stored > self.version {
                stored.next()
            } else {
                self.version
            };
            self.effects.own = Version0(self.effects.own.0.max(version));
            version
        });
        self.effects.newest = Version0(self.effects.newest.0.max(version));
        version
    }
}
