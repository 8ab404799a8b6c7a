//! Playing a history against an engine, with the model beside it.

use crate::archive::MemoryArchive;
use crate::clock::SimClock;
use crate::compare::{self, Compared};
use crate::history::{History, START_MILLIS, Step};
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::world::{World, schema_changes};
use esker_engine::{Engine, Settings};
use esker_model::{
    Batch, Commit, ErrorKind, GraphWrite, Mutation, NeverCancel, Op, Result, Schema, Version,
    VertexName,
};
use esker_store::fault::FaultStore;
use esker_store::memory::MemoryStore;
use esker_store::{Durability, Store};
use std::sync::Arc;

/// Opens a store that outlives the process, again and again.
pub type Opener = Box<dyn Fn() -> Result<Arc<dyn Store>>>;

enum Stage {
    Memory(Arc<FaultStore<MemoryStore>>),
    Opened(Opener),
}

/// What a run did, to know that it was worth something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Batches applied.
    pub applied: u64,
    /// Batches refused.
    pub refused: u64,
    /// Batches that came in groups.
    pub grouped: u64,
    /// Mutations loaded in bulk.
    pub bulk: u64,
    /// Times opened again.
    pub opened: u64,
    /// Versions archived.
    pub archived: u64,
    /// Full comparisons.
    pub compared: u64,
}

/// A state that power failure may bring back.
struct Saved {
    /// How many of the unsynced commits must survive for it.
    commits: usize,
    model: GraphModel,
    promised: Version,
}

/// An engine, and what it should answer.
pub struct Run {
    stage: Stage,
    engine: Option<Arc<Engine>>,
    settings: Settings,
    clock: SimClock,
    archive: Arc<MemoryArchive>,
    world: World,
    /// What the engine should answer.
    pub model: GraphModel,
    /// No version given so far is larger.
    last: Version,
    /// No version of a batch that changed something is larger.
    promised: Version,
    saved: Vec<Saved>,
    rng: Rng,
    /// What was done.
    pub figures: Figures,
}

impl Run {
    /// A new database in memory.
    pub fn in_memory(settings: Settings) -> Result<Self> {
        let store = Arc::new(FaultStore::new(MemoryStore::new())?);
        Self::on(Stage::Memory(store), settings)
    }

    /// A new database in a store that is opened like this.
    pub fn opened(open: Opener, settings: Settings) -> Result<Self> {
        Self::on(Stage::Opened(open), settings)
    }

    fn on(stage: Stage, settings: Settings) -> Result<Self> {
        let mut run = Self {
            stage,
            engine: None,
            settings,
            clock: SimClock::at(START_MILLIS + 10),
            archive: Arc::default(),
            world: World::new(),
            model: GraphModel::new(Schema::default()),
            last: Version::ZERO,
            promised: Version::ZERO,
            saved: Vec::new(),
            rng: Rng::new(1),
            figures: Figures::default(),
        };
        run.open()?;
        let schema = run.engine().define(&schema_changes())?;
        run.model.schema = (*schema).clone();
        run.save(0);
        Ok(run)
    }

    /// The engine as it is open now.
    ///
    /// # Panics
    /// Never: it is only absent inside [`Self::step`].
    pub fn engine(&self) -> Arc<Engine> {
        self.engine
            .clone()
            .unwrap_or_else(|| unreachable!("closed between steps"))
    }

    /// Its clock.
    pub fn clock(&self) -> &SimClock {
        &self.clock
    }

    fn open(&mut self) -> Result<()> {
        let store: Arc<dyn Store> = match &self.stage {
            Stage::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            Stage::Opened(open) => open()?,
        };
        let clock = Arc::new(self.clock.clone());
        let archive = Arc::clone(&self.archive);
        self.engine = Some(Arc::new(Engine::open(
            store,
            clock,
            archive,
            self.settings,
        )?));
        self.figures.opened += 1;
        Ok(())
    }

    fn unsynced(&self) -> usize {
        match &self.stage {
            Stage::Memory(store) => store.unsynced(),
            Stage::Opened(_) => 0,
        }
    }

    /// Notes the present state: it is what comes back if at least so many unsynced commits survive.
    fn save(&mut self, commits: usize) {
        if self.unsynced() == 0 {
            self.saved.clear();
        }
        let (model, promised) = (self.model.clone(), self.promised);
        let commits = commits.min(self.unsynced());
        self.saved.push(Saved {
            commits,
            model,
            promised,
        });
    }

    /// Plays a history, comparing everything now and then and at the end.
    pub fn play(&mut self, history: &History) -> Compared {
        let world = self.world.clone();
        for (i, (seed, step)) in history.steps(&world).enumerate() {
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

    /// Compares everything.
    pub fn compare(&mut self) -> Compared {
        self.figures.compared += 1;
        compare::compare(&*self.engine(), &self.model, &self.world, &mut self.rng)
    }

    /// One step.
    pub fn step(&mut self, step: &Step) -> Compared {
        match step {
            Step::Apply(batch) => {
                let before = self.unsynced();
                let answer = self.engine().apply(batch.clone());
                self.applied(batch, answer)?;
                // What is synced survives any power failure; only the merging of counters behind it is not.
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
                self.figures.archived += report.archived;
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
        // The hybrid clock's rule, as `Version` and `engine::Clock` say it.
        let tick = self.last.next().max(Version::new(self.clock.millis(), 0));
        self.last = tick;
        let before = self.model.clone();
        let expected = self.model.apply(batch, tick);
        if self.model != before {
            self.promised = tick;
        }
        match (answer, expected) {
            (Ok(commit), Ok(expected)) => {
                self.figures.applied += 1;
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
                self.figures.refused += 1;
                Ok(())
            }
            (got, wanted) => Err(format!(
                "{batch:?}\n  engine: {got:?}\n  model:  {wanted:?}"
            )),
        }
    }

    /// The store, where it is one that can be made to fail.
    pub fn faults(&self) -> Option<Arc<FaultStore<MemoryStore>>> {
        match &self.stage {
            Stage::Memory(store) => Some(Arc::clone(store)),
            Stage::Opened(_) => None,
        }
    }

    /// Applies a batch to a store that may fail: then, and only then, nothing of the batch is expected. Says whether it
    /// got through.
    pub fn apply_through_faults(&mut self, batch: &Batch) -> std::result::Result<bool, String> {
        match self.engine().apply(batch.clone()) {
            Err(e) if e.kind() == ErrorKind::Storage => {
                self.last = self.last.next().max(Version::new(self.clock.millis(), 0));
                Ok(false)
            }
            answer => self.applied(batch, answer).map(|()| true),
        }
    }

    /// Power fails; everything that was synced and nothing else comes back, and it must be the present state of the model.
    pub fn crash_to_what_was_synced(&mut self) -> Compared {
        self.save(0);
        self.crash(0)
    }

    /// The first batch is held in mid-commit until all others wait in the queue.
    fn group(&mut self, batches: &[Batch]) -> Compared {
        let engine = self.engine();
        self.clock.hold();
        let clock = self.clock.clone();
        let answers: Vec<Result<Commit>> = std::thread::scope(|scope| {
            let mut writers = Vec::new();
            for (i, batch) in batches.iter().enumerate() {
                let (writer, batch) = (Arc::clone(&engine), batch.clone());
                writers.push(scope.spawn(move || writer.apply(batch)));
                if i == 0 {
                    clock.held();
                }
                while engine.waiting() < i {
                    std::thread::yield_now();
                }
            }
            clock.release();
            writers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                .collect()
        });
        self.figures.grouped += batches.len() as u64;
        for (batch, answer) in batches.iter().zip(answers) {
            self.applied(batch, answer)?;
        }
        self.persist()
    }

    fn bulk(&mut self, mutations: &[Mutation]) -> Compared {
        let tick = self.last.next().max(Version::new(self.clock.millis(), 0));
        let mut after = self.model.clone();
        let mut good = Vec::new();
        for mutation in mutations {
            // All changes of a bulk load without a version of their own take one version.
            let version = Some(mutation.version.unwrap_or(tick));
            let dated = Mutation {
                version,
                op: mutation.op.clone(),
            };
            let batch = Batch {
                mutations: vec![dated],
                once: None,
            };
            if after.apply(&batch, tick).is_ok() {
                good.push(mutation.clone());
            }
        }
        self.figures.bulk += good.len() as u64;
        let report = self
            .engine()
            .bulk_load(&mut good.iter().cloned().map(Ok), &mut |_| {})
            .map_err(|e| format!("bulk load of {good:?}: {e}"))?;
        if report.mutations != good.len() as u64 {
            return Err(format!("bulk load of {} mutations: {report:?}", good.len()));
        }
        (self.last, self.promised) = (tick, tick);
        self.model = after;
        self.persist()?;
        // What exists already is applied in batches, which take versions of the clock.
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
        if let Stage::Memory(store) = &self.stage {
            let kept = store.unsynced() * percent / 100;
            let image = store.crash_image(kept).map_err(|e| e.to_string())?;
            let store = FaultStore::new(image).map_err(|e| e.to_string())?;
            let at = self.saved.iter().rposition(|s| s.commits <= kept);
            let saved = self.saved.swap_remove(at.ok_or("nothing was saved")?);
            self.saved.clear();
            (self.model, self.promised) = (saved.model, saved.promised);
            self.stage = Stage::Memory(Arc::new(store));
        }
        self.reopen()?;
        compare::check(&self.engine(), &self.model)?;
        self.compare()
    }

    /// Learns what version the clock gives next: it must be later than all that were acknowledged.
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
        if commit.version <= self.promised {
            return Err(format!(
                "{:?} was given again: {:?} had been given",
                commit.version, self.promised
            ));
        }
        self.last = commit.version;
        let before = self.model.clone();
        self.model
            .apply(&batch, commit.version)
            .map_err(|e| format!("{e:?}"))?;
        if self.model != before {
            self.promised = commit.version;
        }
        self.persist()
    }

    /// The world it plays in.
    pub fn world(&self) -> &World {
        &self.world
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("figures", &self.figures)
            .finish_non_exhaustive()
    }
}

/// Reads seeds from a variable of the environment: `n` for the first n, `a..b` for a range, else the default.
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

/// Plays a history; if it fails, finds a short one that fails as well and tells all about it.
///
/// # Panics
/// If the engine and the model disagree.
pub fn play_or_explain(seed: u64, steps: usize, start: &dyn Fn() -> Run) -> Figures {
    let fails = |history: &History| {
        let mut run = start();
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.play(history)));
        match played {
            Ok(Ok(())) => Ok(run.figures),
            Ok(Err(e)) => Err(e),
            Err(panic) => Err(panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a panic".into())),
        }
    };
    let history = History::new(seed, steps);
    match fails(&history) {
        Ok(figures) => figures,
        Err(first) => {
            let short = history.minimise(&mut |h| fails(h).is_err());
            let e = fails(&short).err().unwrap_or(first);
            let world = World::new();
            let steps: Vec<String> = short
                .steps(&world)
                .map(|(s, step)| format!("  {s:#x}: {step:?}"))
                .collect();
            let story = format!("seed {seed}: {e}\nafter these steps:\n{}", steps.join("\n"));
            panic!("{}", world.readable(&story));
        }
    }
}
