//! The engine: opens over a store, reads from one consistent snapshot, writes through [`crate::txn`].

use crate::adjacency::Adjacency;
use crate::archive::Archive;
use crate::catalog;
use crate::clock::{Clock, HybridClock};
use crate::counts::PendingCounters;
use crate::deleted::DeletedVertices;
use crate::feed::Feed;
use crate::memtable::MemtableStore;
use crate::names::{Filters, Names};
use crate::object::ObjectStore;
use crate::read::Source;
use crate::settings::{Settings, Stats};
use crate::shares::Shares;
use crate::txn::{Producers, Queue, Writer, lock};
use esker_model::{
    Batch, Commit, Flow, GraphRead, GraphWrite, Result, Schema, SchemaChange, Version, VersionRange,
};
use esker_store::{Durability, KeyRange, Store, Table};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A database over a store; shared between threads by reference.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The object layer of `store`, with the operations on objects that the `Store` trait lacks.
    pub(crate) objects: Arc<ObjectStore>,
    /// The store below the object layer; keeps rows of `names` in its memtable until they are merged.
    pub(crate) memtable: Arc<MemtableStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) settings: Settings,
    pub(crate) schema: RwLock<Arc<Schema>>,
    pub(crate) queue: Queue,
    pub(crate) writer: Mutex<Writer>,
    /// Held during a bulk load: its marker in `meta` is the only one, and others would count what it has half written.
    pub(crate) bulk_load: Mutex<()>,
    pub(crate) counters: Mutex<PendingCounters>,
    pub(crate) deleted: DeletedVertices,
    pub(crate) names: Names,
    pub(crate) adjacency: Adjacency,
    /// The newest version assigned to any change.
    pub(crate) newest_seen: AtomicU64,
    /// Version of the newest commit, assigned by this engine's clock.
    pub(crate) newest_commit: AtomicU64,
    /// Reads as of this version or later need only the live store; see `compact`.
    pub(crate) retained_since: AtomicU64,
    /// Number of moves of rows from the live store to the archive since the engine was opened.
    pub(crate) archive_moves: AtomicU64,
    pub(crate) feed: Feed,
    pub(crate) shares: Shares,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the database in a store; an empty store becomes a new database with the default schema.
    pub fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        archive: Arc<dyn Archive>,
        settings: Settings,
    ) -> Result<Self> {
        let schema = if let Some((mut schema, format)) = catalog::load(&*store)? {
            if schema.upgrade() || format < catalog::FORMAT {
                store.commit(catalog::create(&schema), Durability::Sync)?;
            }
            schema
        } else {
            let schema = Schema::default();
            store.commit(catalog::create(&schema), Durability::Sync)?;
            schema
        };
        let adjacency = Adjacency::new(settings.adjacency_bytes);
        let memtable = MemtableStore::new(store, settings.row_cache_bytes, adjacency.free_memory());
        let memtable = Arc::new(memtable);
        let objects = Arc::new(ObjectStore::open(
            Arc::<MemtableStore>::clone(&memtable),
            &schema,
            settings.index_objects_least,
        )?);
        let store: Arc<dyn Store> = Arc::<ObjectStore>::clone(&objects);
        let (pending, pending_newest) =
            PendingCounters::load(&*store, &mut |rows| memtable.add(&rows))?;
        let newest = catalog::read_version(&*store, catalog::NEWEST_KEY)?;
        let newest = newest.max(pending_newest).unwrap_or(Version::ZERO);
        let retained = catalog::read_version(&*store, catalog::RETAINED_KEY)?;
        let engine = Self {
            deleted: DeletedVertices::load(&*store)?,
            names: Names::default(),
            adjacency,
            schema: RwLock::new(Arc::new(schema)),
            queue: Queue::default(),
            bulk_load: Mutex::default(),
            writer: Mutex::new(Writer {
                clock: HybridClock::after(newest),
                producers: Producers::default(),
                filters: Filters::default(),
            }),
            counters: Mutex::new(pending),
            newest_seen: AtomicU64::new(newest.0),
            newest_commit: AtomicU64::new(newest.0),
            retained_since: AtomicU64::new(retained.map_or(0, |v| v.0)),
            archive_moves: AtomicU64::new(0),
            feed: Feed::load(&*store)?,
            shares: Shares::load(&*store)?,
            store,
            memtable,
            objects,
            clock,
            archive,
            settings,
        };
        engine.note_names()?;
        engine.recover_leases()?;
        if settings.lease_millis > 0 {
            engine.enable_leases(settings.lease_millis)?;
        }
        engine.recover_bulk_load()?;
        engine.recover_subtree()?;
        engine.recover_ingest()?;
        engine.load_unindexed()?;
        Ok(engine)
    }

    /// Notes whether the namespace has any rows, and whether any file has a vertex.
    fn note_names(&self) -> Result<()> {
        let first = &mut |_: &[u8], _: &[u8]| {
            self.names.note_any();
            Flow::Break(())
        };
        self.store
            .scan(Table::Names, &KeyRange::prefix(&[]), first)?;
        let schema = self.schema_now();
        let counts = self.counts()?;
        let files = |(t, n): &(_, u64)| *n > 0 && crate::names::file_kind(&schema, *t).is_some();
        if counts.vertices.iter().any(files) {
            self.names.note_vertices();
        }
        Ok(())
    }

    /// Returns the key-value store of this engine.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Makes everything acknowledged survive a power failure.
    pub fn persist(&self) -> Result<()> {
        self.store.persist()
    }

    /// Merges pending counters and checkpoints the objects, so that the next opening has nothing to replay.
    pub fn close(&self) -> Result<()> {
        let writer = lock(&self.writer);
        self.tidy_counters(&writer)?;
        self.objects.checkpoint_closing()?;
        self.store.persist()
    }

    pub(crate) fn schema_now(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a snapshot for reads at `oldest` or later: the live store and, if that does not have all superseded versions,
    /// the archive, restricted to `versions`.
    pub(crate) fn source(&self, oldest: Version, versions: VersionRange) -> Result<Source<'_>> {
        // Read after the snapshot: a thread that moves rows announces it before they leave the live store.
        let moves = || self.archive_moves.load(Ordering::Acquire);
        let retained_since = || Version(self.retained_since.load(Ordering::Acquire));
        let live = self.store.snapshot()?;
        if oldest >= retained_since() {
            return Ok(Source::live(live));
        }
        drop(live);
        loop {
            let before = moves();
            // The archive view comes first: its rows were all written before the snapshot is taken.
            let view = self.archive.view()?;
            let live = self.store.snapshot()?;
            if moves() == before {
                return Ok(Source::with_archive(live, view, versions));
            }
        }
    }

    /// Returns a snapshot for reading vertices or edges as of one version.
    pub(crate) fn source_as_of(&self, as_of: Version) -> Result<Source<'_>> {
        self.source(as_of, VersionRange::up_to(as_of))
    }

    /// Returns counts, memory use and store figures of the database.
    pub fn stats(&self) -> Result<Stats> {
        let adjacency = self.adjacency.stats();
        let (objects_bytes, objects_index_bytes, objects_disk_bytes) = self.objects.sizes();
        let version = |v: u64| (v > 0).then_some(Version(v));
        Ok(Stats {
            counts: self.counts()?,
            store: self.store.stats()?,
            adjacency_lists: adjacency.lists,
            adjacency_edges: adjacency.edges,
            adjacency_bytes: adjacency.bytes,
            adjacency_bytes_max: self.settings.adjacency_bytes,
            objects_bytes,
            objects_index_bytes,
            objects_disk_bytes,
            newest: version(self.newest_seen.load(Ordering::Acquire)),
            retained_since: version(self.retained_since.load(Ordering::Acquire)),
        })
    }
}

impl GraphWrite for Engine {
    fn apply(&self, batch: Batch) -> Result<Commit> {
        self.apply_batch(batch)
    }

    fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.define_types(changes)
    }
}
