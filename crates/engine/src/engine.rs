//! The engine: opens over a store, reads from one consistent snapshot, writes through [`crate::txn`].

use crate::adjacency::Adjacency;
use crate::archive::Archive;
use crate::catalog;
use crate::clock::{Clock, HybridClock};
use crate::counts::{self, PendingCounters};
use crate::deleted::DeletedVertices;
use crate::feed::Feed;
use crate::memtable::MemtableStore;
use crate::names::{Filters, Names};
use crate::object::ObjectStore;
use crate::read::{self, Source};
use crate::settings::{Settings, Stats};
use crate::traverse;
use crate::txn::{Producers, Queue, Writer, lock, parse_idempotency_key, was_applied};
use esker_model::key::Counter;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Batch, Cancel, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey,
    EdgeSelect, EdgeTypeId, Flow, GraphRead, GraphWrite, Result, Schema, SchemaChange, Traversal,
    Version, VersionRange, Versions, Vertex, VertexEvent, VertexId, VertexSelect,
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
    fn source_as_of(&self, as_of: Version) -> Result<Source<'_>> {
        self.source(as_of, until(as_of))
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

/// All versions up to and including `last`.
fn until(last: Version) -> VersionRange {
    VersionRange {
        from: Version::ZERO,
        until: last.next(),
    }
}

impl GraphRead for Engine {
    fn schema(&self) -> Result<Arc<Schema>> {
        Ok(self.schema_now())
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        if let [id] = ids
            && as_of == Version::MAX
        {
            // A single row is consistent without a snapshot.
            return Ok(vec![read::read_vertex(&*self.store, *id, as_of)?]);
        }
        read::read_vertices(&self.source_as_of(as_of)?, ids, as_of)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        read::read_edges(&self.source_as_of(as_of)?, keys, as_of)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let source = match select.versions {
            Versions::AsOf(as_of) => self.source_as_of(as_of),
            Versions::Range(range) => self.source(range.from, range),
        };
        read::scan_edges(&source?, frontier, select, sink)
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let source = self.source_as_of(select.as_of)?;
        read::scan_vertices(&source, &self.schema_now(), select, sink)
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let snapshot = self.store.snapshot()?;
        read::vertex_history(&*snapshot, &*self.archive, id, range)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let snapshot = self.store.snapshot()?;
        read::edge_history(&*snapshot, &*self.archive, key, range)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        let mut pending = lock(&self.counters);
        of.iter()
            .map(|(id, edge_type)| {
                let counter = Counter::Degree(*id, *edge_type);
                let merged = counts::read(&*self.store, &counter.encode())?;
                counts::apply(&counter, merged, pending.change(&counter))
            })
            .collect()
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        crate::top::top_degrees(self, edge_type, limit)
    }

    fn counts(&self) -> Result<Counts> {
        let schema = self.schema_now();
        let mut pending = lock(&self.counters);
        let mut total = |counter: Counter| {
            let merged = counts::read(&*self.store, &counter.encode())?;
            counts::apply(&counter, merged, pending.change(&counter))
        };
        let vertices = schema
            .vertex_types()
            .map(|(t, _)| Ok((t, total(Counter::Vertices(t))?)))
            .collect::<Result<_>>()?;
        let edges = schema
            .edge_types()
            .map(|(t, _)| Ok((t, total(Counter::Edges(t))?)))
            .collect::<Result<_>>()?;
        Ok(Counts { vertices, edges })
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let (before, after) = (select.before, select.after);
        let source = self.source(before.min(after), until(before.max(after)))?;
        read::diff(&source, &self.schema_now(), select, sink)
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        traverse::run(self, traversal, budget, cancel, None)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        if let Some(numbered) = parse_idempotency_key(idempotency_key)? {
            return was_applied(&*self.store, &numbered);
        }
        self.store.get_with(
            Table::Meta,
            &catalog::idempotency_row_key(idempotency_key),
            &mut |_| {},
        )
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
