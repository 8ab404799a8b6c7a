//! Runs of a history against an engine, compared with the model.

use crate::archive::MemoryArchive;
use crate::clock::SimClock;
use crate::compare::{self, Compared};
use crate::history::{History, START_MILLIS, Step};
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::test_graph::{TestGraph, schema_changes};
use esker_engine::{Engine, Settings};
use esker_model::{
    Batch, Commit, ErrorKind, GraphWrite, Mutation, NeverCancel, Op, Result, Schema, Version,
    VertexName,
};
use esker_store::fault::FaultStore;
use esker_store::memory::MemoryStore;
use esker_store::{Durability, Store};
use std::sync::Arc;

/// Opens a store that outlives the process; called repeatedly.
pub type Opener = Box<dyn Fn() -> Result<Arc<dyn Store>>>;

enum StoreUnderTest {
    Memory(Arc<FaultStore<MemoryStore>>),
    Opened(Opener),
}

/// Statistics of a run, which show that it tested something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Number of batches applied.
    pub applied: u64,
    /// Number of batches refused.
    pub refused: u64,
    /// Number of batches that came in groups.
    pub grouped: u64,
    /// Number of mutations loaded in bulk.
    pub bulk: u64,
    /// Number of times the database was opened.
    pub opened: u64,
    /// Number of versions archived.
    pub archived: u64,
    /// Number of full comparisons.
    pub compared: u64,
}

/// A state that may come back after a power failure.
struct Saved {
    /// Number of unsynced commits that must survive for this state.
    commits: usize,
    model: GraphModel,
    max_committed: Version,
}

/// An engine under test with its model.
pub struct Run {
    stage: StoreUnderTest,
    engine: Option<Arc<Engine>>,
    settings: Settings,
    clock: SimClock,
    archive: Arc<MemoryArchive>,
    graph: TestGraph,
    /// The expected state of the engine.
    pub model: GraphModel,
    /// Largest version that may have been issued so far.
    max_issued: Version,
    /// Largest version of a batch that changed something.
    max_committed: Version,
    saved: Vec<Saved>,
    rng: Rng,
    /// Statistics of the run so far.
    pub stats: RunStats,
}

impl Run {
    /// Creates a run with a new in-memory database.
    pub fn in_memory(settings: Settings) -> Result<Self> {
        let store = Arc::new(FaultStore::new(MemoryStore::new())?);
        Self::on(StoreUnderTest::Memory(store), settings)
    }

    /// Creates a run with a new database in a store opened by `open`.
    pub fn opened(open: Opener, settings: Settings) -> Result<Self> {
        Self::on(StoreUnderTest::Opened(open), settings)
    }

    fn on(stage: StoreUnderTest, settings: Settings) -> Result<Self> {
        let mut run = Self {
            stage,
            engine: None,
            settings,
            clock: SimClock::at(START_MILLIS + 10),
            archive: Arc::default(),
            graph: TestGraph::new(),
            model: GraphModel::new(Schema::default()),
            max_issued: Version::ZERO,
            max_committed: Version::ZERO,
            saved: Vec::new(),
            rng: Rng::new(1),
            stats: RunStats::default(),
        };
        run.open()?;
        let schema = run.engine().define(&schema_changes())?;
        run.model.schema = (*schema).clone();
        run.save(0);
        Ok(run)
    }

    /// Returns the open engine.
    ///
    /// # Panics
    /// Never: the engine is only absent inside [`Self::step`].
    pub fn engine(&self) -> Arc<Engine> {
        self.engine
            .clone()
            .unwrap_or_else(|| unreachable!("closed between steps"))
    }

    /// Returns the clock of the engine.
    pub fn clock(&self) -> &SimClock {
        &self.clock
    }

    fn open(&mut self) -> Result<()> {
        let store: Arc<dyn Store> = match &self.stage {
            StoreUnderTest::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            StoreUnderTest::Opened(open) => open()?,
        };
        let clock = Arc::new(self.clock.clone());
        let archive = Arc::clone(&self.archive);
        self.engine = Some(Arc::new(Engine::open(
            store,
            clock,
            archive,
            self.settings,
        )?));
        self.stats.opened += 1;
        Ok(())
    }

    fn unsynced(&self) -> usize {
        match &self.stage {
            StoreUnderTest::Memory(store) => store.unsynced(),
            StoreUnderTest::Opened(_) => 0,
        }
    }

    /// Saves the present state, which comes back if at least `commits` unsynced commits survive.
    fn save(&mut self, commits: usize) {
        if self.unsynced() == 0 {
            self.saved.clear();
        }
        let (model, max_committed) = (self.model.clone(), self.max_committed);
        let commits = commits.min(self.unsynced());
        self.saved.push(Saved {
            commits,
            model,
            max_committed,
        });
    }

    /// Runs a history, comparing everything occasionally and at the end.
    pub fn run(&mut self, history: &History) -> Compared {
        let graph = self.graph.clone();
        for (i, (seed, step)) in history.steps(&graph).enumerate() {
            self.rng = Rng::new(seed ^ 0x5eed);
            let compare = self.rng.percent(15);
            let done = self
                .step(&step)
                .and_then(|()| if compare { self.compare() } else { Ok(()) });
            done.map_err(|e| format!("after step {i}, {step:?}:\n{e}"))?;
        }
        self.compare()?;
        compare::check(&self.engine(), &self.model)
    }

    /// Compares all answers with the model's.
    pub fn compare(&mut self) -> Compared {
        self.stats.compared += 1;
        compare::compare(&*self.engine(), &self.model, &self.graph, &mut self.rng)
    }

    /// Runs one step of a history.
    pub fn step(&mut self, step: &Step) -> Compared {
        match step {
            Step::Apply(batch) => {
                let before = self.unsynced();
                let answer = self.engine().apply(batch.clone());
                self.applied(batch, answer)?;
                // Synced commits survive any power failure; only the merge of counters behind them does not.
                let synced = self.settings.durability == Durability::Sync;
                self.save(if synced { 0 } else { before + 1 });
            }
            Step::Group(batches) => self.group(batches)?,
            Step::Bulk(mutations) => self.bulk(mutations)?,
            Step::Compact(since) => {
                let since = (*since).min(Version::new(self.clock.millis(), 0));
                let report = self
                    .engine()
                    .compact(Some(since), &NeverCancel)
                    .map_err(|e| format!("compact: {e}"))?;
                self.stats.archived += report.archived;
                self.model.compact(since);
                self.persist()?;
            }
            Step::Check => compare::check(&self.engine(), &self.model)?,
            Step::Persist => self.persist()?,
            Step::Close => {
                self.engine().close().map_err(|e| format!("close: {e}"))?;
                self.reopen()?;
            }
            Step::Drop => self.reopen()?,
            Step::Crash(percent) => self.crash(*percent)?,
            Step::Clock(by) => self.clock.advance(*by),
        }
        Ok(())
    }

    fn persist(&mut self) -> Compared {
        self.engine()
            .persist()
            .map_err(|e| format!("persist: {e}"))?;
        self.save(0);
        Ok(())
    }

    fn applied(&mut self, batch: &Batch, answer: Result<Commit>) -> Compared {
        // The rule of the hybrid clock, as documented in `Version` and `engine::Clock`.
        let tick = self
            .max_issued
            .next()
            .max(Version::new(self.clock.millis(), 0));
        self.max_issued = tick;
        let before = self.model.clone();
        let expected = self.model.apply(batch, tick);
        if self.model != before {
            self.max_committed = tick;
        }
        match (answer, expected) {
            (Ok(commit), Ok(expected)) => {
                self.stats.applied += 1;
                let got = (
                    commit.version,
                    commit.applied,
                    commit.vertices_created,
                    commit.edges_created,
                );
                let wanted = (
                    expected.version,
                    expected.applied,
                    expected.vertices_created,
                    expected.edges_created,
                );
                if got == wanted {
                    Ok(())
                } else {
                    Err(format!(
                        "{batch:?}\n  engine: {commit:?}\n  model:  {expected:?}"
                    ))
                }
            }
            (Err(e), Err(kind)) if e.kind() == kind => {
                self.stats.refused += 1;
                Ok(())
            }
            (got, wanted) => Err(format!(
                "{batch:?}\n  engine: {got:?}\n  model:  {wanted:?}"
            )),
        }
    }

    /// Returns the store if it can inject faults.
    pub fn faults(&self) -> Option<Arc<FaultStore<MemoryStore>>> {
        match &self.stage {
            StoreUnderTest::Memory(store) => Some(Arc::clone(store)),
            StoreUnderTest::Opened(_) => None,
        }
    }

    /// Applies a batch to a store that may fail. Only in that case nothing of the batch is expected. Returns whether
    /// the batch was applied.
    pub fn apply_through_faults(&mut self, batch: &Batch) -> std::result::Result<bool, String> {
        match self.engine().apply(batch.clone()) {
            Err(e) if e.kind() == ErrorKind::Storage => {
                self.max_issued = self
                    .max_issued
                    .next()
                    .max(Version::new(self.clock.millis(), 0));
                Ok(false)
            }
            answer => self.applied(batch, answer).map(|()| true),
        }
    }

    /// Simulates a power failure after which exactly the synced commits come back; that must be the present state of the model.
    pub fn crash_to_what_was_synced(&mut self) -> Compared {
        self.save(0);
        self.crash(0)
    }

    /// Blocks the first batch in the middle of its commit until all others wait in the queue.
    fn group(&mut self, batches: &[Batch]) -> Compared {
        let engine = self.engine();
        self.clock.block_next_reader();
        let clock = self.clock.clone();
        let answers: Vec<Result<Commit>> = std::thread::scope(|scope| {
            let mut writers = Vec::new();
            for (i, batch) in batches.iter().enumerate() {
                let (writer, batch) = (Arc::clone(&engine), batch.clone());
                writers.push(scope.spawn(move || writer.apply(batch)));
                if i == 0 {
                    clock.wait_until_blocked();
                }
                while engine.queued_batches() < i {
                    std::thread::yield_now();
                }
            }
            clock.unblock();
            writers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                .collect()
        });
        self.stats.grouped += batches.len() as u64;
        for (batch, answer) in batches.iter().zip(answers) {
            self.applied(batch, answer)?;
        }
        self.persist()
    }

    fn bulk(&mut self, mutations: &[Mutation]) -> Compared {
        let tick = self
            .max_issued
            .next()
            .max(Version::new(self.clock.millis(), 0));
        let mut after = self.model.clone();
        let mut good = Vec::new();
        for mutation in mutations {
            // All changes of a bulk load without an explicit version take one version.
            let version = Some(mutation.version.unwrap_or(tick));
            let dated = Mutation {
                version,
                op: mutation.op.clone(),
            };
            let batch = Batch {
                mutations: vec![dated],
                idempotency_key: None,
            };
            if after.apply(&batch, tick).is_ok() {
                good.push(mutation.clone());
            }
        }
        self.stats.bulk += good.len() as u64;
        let report = self
            .engine()
            .bulk_load(&mut good.iter().cloned().map(Ok), &mut |_| {})
            .map_err(|e| format!("bulk load of {good:?}: {e}"))?;
        if report.mutations != good.len() as u64 {
            return Err(format!("bulk load of {} mutations: {report:?}", good.len()));
        }
        (self.max_issued, self.max_committed) = (tick, tick);
        self.model = after;
        self.persist()?;
        // Existing items are applied in batches, which take versions of the clock.
        self.probe()?;
        self.compare()
            .map_err(|e| format!("after a bulk load of {good:?}\n{e}"))
    }

    fn reopen(&mut self) -> Compared {
        self.engine = None;
        self.open().map_err(|e| format!("open: {e}"))?;
        self.probe()
    }

    fn crash(&mut self, percent: usize) -> Compared {
        if let StoreUnderTest::Memory(store) = &self.stage {
            let kept = store.unsynced() * percent / 100;
            let image = store.crash_image(kept).map_err(|e| e.to_string())?;
            let store = FaultStore::new(image).map_err(|e| e.to_string())?;
            let at = self.saved.iter().rposition(|s| s.commits <= kept);
            let saved = self.saved.swap_remove(at.ok_or("nothing was saved")?);
            self.saved.clear();
            (self.model, self.max_committed) = (saved.model, saved.max_committed);
            self.stage = StoreUnderTest::Memory(Arc::new(store));
        }
        self.reopen()?;
        compare::check(&self.engine(), &self.model)?;
        self.compare()
    }

    /// Learns which version the clock issues next; it must be later than all acknowledged ones.
    fn probe(&mut self) -> Compared {
        let name = VertexName {
            type_name: "user".into(),
            key: "probe".into(),
        };
        let vertex = name
            .resolve(&self.model.schema)
            .map_err(|e| e.to_string())?;
        let mut batch = Batch::new();
        batch.push(Op::EnsureVertex {
            vertex,
            key: name.key,
        });
        let commit = self
            .engine()
            .apply(batch.clone())
            .map_err(|e| e.to_string())?;
        if commit.version <= self.max_committed {
            return Err(format!(
                "{:?} was given again: {:?} had been given",
                commit.version, self.max_committed
            ));
        }
        self.max_issued = commit.version;
        let before = self.model.clone();
        self.model
            .apply(&batch, commit.version)
            .map_err(|e| format!("{e:?}"))?;
        if self.model != before {
            self.max_committed = commit.version;
        }
        self.persist()
    }

    /// Returns the test graph of the run.
    pub fn graph(&self) -> &TestGraph {
        &self.graph
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("figures", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Reads a range of seeds from an environment variable: `n` for the first n, `a..b` for a range, otherwise the default.
pub fn seeds(variable: &str, default: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var(variable) else {
        return 0..default;
    };
    let number = |t: &str| {
        t.trim()
            .parse::<u64>()
            .unwrap_or_else(|e| panic!("{variable}={text}: {e}"))
    };
    match text.split_once("..") {
        Some((a, b)) => number(a)..number(b),
        None => 0..number(&text),
    }
}

/// Runs a history; if it fails, finds a short one that fails as well and describes it.
///
/// # Panics
/// If the engine and the model disagree.
pub fn run_or_explain(seed: u64, steps: usize, start: &dyn Fn() -> Run) -> RunStats {
    let fails = |history: &History| {
        let mut run = start();
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.run(history)));
        match played {
            Ok(Ok(())) => Ok(run.stats),
            Ok(Err(e)) => Err(e),
            Err(panic) => Err(panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a panic".into())),
        }
    };
    let history = History::new(seed, steps);
    match fails(&history) {
        Ok(stats) => stats,
        Err(first) => {
            let short = history.minimise(&mut |h| fails(h).is_err());
            let e = fails(&short).err().unwrap_or(first);
            let graph = TestGraph::new();
            let steps: Vec<String> = short
                .steps(&graph)
                .map(|(s, step)| format!("  {s:#x}: {step:?}"))
                .collect();
            let story = format!("seed {seed}: {e}\nafter these steps:\n{}", steps.join("\n"));
            panic!("{}", graph.readable(&story));
        }
    }
}
