//! Servers that move between processes, as an etcd says: the real [`Machine`] of membership over the real nodes.
//!
//! Here are the processes, their clocks and machines, what they do about what machines say, and etcd's model. [`super::cluster::seats`]
//! has the servers themselves. A process that stands still stands still with all its servers, wherever they are; when it goes on, it may
//! find that everything is somebody else's, and its servers still have stores to write into, which nobody is to read.
//!
//! What is checked is what any run checks ([`super::play`]): nothing acknowledged is lost or done twice, nothing deleted comes back,
//! sessions do not go back, and what was asked as of some time is answered alike later.

use super::cluster::seats::{Gates, SeatGate};
use super::cluster::{Cluster, Shape};
use super::copies::copy;
use super::exec::{Group, Shared, WORLD};
use crate::members::etcd::Etcd;
use crate::rng::Rng;
use esker_cluster::member::{Input, Machine, Output, Settings};
use esker_store::memory::MemoryStore;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// In milliseconds.
pub(super) const LEASE: u64 = 2_000;
/// In microseconds.
const TICK: u64 = 50_000;

/// A store as a process has it.
struct Held {
    epoch: u64,
    gate: Arc<SeatGate>,
    /// Once it is open.
    group: Option<Group>,
}

struct Process {
    machine: Machine,
    /// Its own doings; each of its servers has a group besides.
    group: Group,
    gates: Arc<Gates>,
    held: BTreeMap<u32, Held>,
    /// Servers whose closing is under way.
    closing: Vec<Group>,
    /// Until when it does not reach etcd.
    cut: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moves {
    /// Stores opened.
    pub opened: u64,
    /// Questions not taken and answers that did not leave.
    pub withheld: u64,
    /// Processes killed.
    pub killed: u64,
}

/// Who has which server.
pub struct Moving {
    cluster: Weak<Cluster>,
    shared: Arc<Shared>,
    shape: Shape,
    rng: RefCell<Rng>,
    etcd: RefCell<Etcd>,
    etcd_down: Cell<bool>,
    processes: RefCell<Vec<Option<Process>>>,
    /// By store and epoch.
    folders: RefCell<BTreeMap<u32, BTreeMap<u64, MemoryStore>>>,
    started: Cell<bool>,
    /// Whether things go wrong.
    storm: Cell<bool>,
    withheld: Arc<AtomicU64>,
    moves: Cell<Moves>,
}

fn name(process: usize) -> String {
    format!("10.0.0.{process}:7400")
}

impl Moving {
    pub(super) fn new(
        cluster: Weak<Cluster>,
        shared: &Arc<Shared>,
        seed: u64,
        shape: Shape,
    ) -> Self {
        Self {
            cluster,
            shared: Arc::clone(shared),
            shape,
            rng: RefCell::new(Rng::new(seed ^ 0x6d6f_7665)),
            etcd: RefCell::default(),
            etcd_down: Cell::new(false),
            processes: RefCell::new((0..shape.processes).map(|_| None).collect()),
            folders: RefCell::default(),
            started: Cell::new(false),
            storm: Cell::new(false),
            withheld: Arc::default(),
            moves: Cell::default(),
        }
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.shape.processes
    }

    /// What has happened so far.
    pub fn moves(&self) -> Moves {
        Moves {
            withheld: self.withheld.load(Ordering::Relaxed),
            ..self.moves.get()
        }
    }

    fn count(&self, change: impl FnOnce(&mut Moves)) {
        let mut moves = self.moves.get();
        change(&mut moves);
        self.moves.set(moves);
    }

    fn draw(&self, below: u64) -> u64 {
        self.rng.borrow_mut().below(below as usize) as u64
    }

    fn percent(&self, percent: usize) -> bool {
        self.rng.borrow_mut().percent(percent)
    }

    fn now_millis(&self) -> u64 {
        self.shared.now() / 1_000
    }

    /// Soon; sometimes later. Microseconds.
    fn delay(&self) -> u64 {
        let late = self.storm.get() && self.percent(4);
        let most = if late { 1_500_000 } else { 20_000 };
        1_000 + self.draw(most)
    }

    /// Whether etcd may be slow and answers lost.
    pub(super) fn set_storm(&self, storm: bool) {
        self.storm.set(storm);
    }

    /// Nothing is wrong any more: all processes live, and etcd, and everybody may have stores.
    pub(super) fn mend(self: &Rc<Self>) {
        self.storm.set(false);
        if !self.started.replace(true) {
            self.expire();
        }
        self.set_etcd(true);
        for process in 0..self.processes() {
            if let Some(it) = self
                .processes
                .borrow_mut()
                .get_mut(process)
                .and_then(Option::as_mut)
            {
                it.cut = 0;
            }
            self.drain(process, false);
            self.revive(process);
        }
    }

    /// Leases end some time after they might.
    fn expire(self: &Rc<Self>) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        let me = Rc::downgrade(self);
        let shared = Arc::clone(&self.shared);
        cluster.exec.spawn(
            WORLD,
            Box::pin(async move {
                loop {
                    shared.sleep(100_000).await;
                    let Some(me) = me.upgrade() else { return };
                    let now = me.now_millis();
                    if !me.etcd_down.get() && me.etcd.borrow_mut().expire(now) {
                        me.changed();
                    }
                }
            }),
        );
    }

    /// Stops etcd, or starts it again.
    pub(super) fn set_etcd(self: &Rc<Self>, up: bool) {
        if self.etcd_down.replace(!up) && up {
            self.shared.note(|| "etcd is back".into());
            self.etcd.borrow_mut().restart(self.now_millis());
            self.changed();
        }
    }

    /// Says whether a process is to have no stores.
    pub(super) fn drain(self: &Rc<Self>, process: usize, drained: bool) {
        let before = self.etcd.borrow().revision();
        self.etcd.borrow_mut().drain(&name(process), drained);
        if self.etcd.borrow().revision() != before {
            self.changed();
        }
    }

    /// Starts a process, if it does not run.
    pub(super) fn revive(self: &Rc<Self>, process: usize) {
        let runs = self
            .processes
            .borrow()
            .get(process)
            .is_none_or(Option::is_some);
        let Some(cluster) = self.cluster.upgrade().filter(|_| !runs) else {
            return;
        };
        let skew = self.shape.skew as i64;
        let off = self.draw(2 * skew.unsigned_abs() + 1) as i64 - skew;
        let clock = (self.draw(1_000_000), 990 + self.draw(21));
        let gates = Gates::new(
            &self.shared,
            process,
            clock,
            off,
            &self.withheld,
            self.shape.heedless,
        );
        let group = cluster.exec.group();
        let mut settings = Settings::for_lease(name(process), self.shape.servers, LEASE);
        settings.even = true;
        let started = Process {
            machine: Machine::new(settings),
            group,
            gates,
            held: BTreeMap::new(),
            closing: Vec::new(),
            cut: 0,
        };
        self.shared
            .note(|| format!("process {process} starts as {group:?}"));
        if let Some(place) = self.processes.borrow_mut().get_mut(process) {
            *place = Some(started);
        }
        let (me, shared) = (Rc::downgrade(self), Arc::clone(&self.shared));
        cluster.exec.spawn(
            group,
            Box::pin(async move {
                loop {
                    let Some(it) = me.upgrade() else { return };
                    it.step(process, group, Input::Tick);
                    // A watch that was broken off is taken up again.
                    if it.percent(10) {
                        it.look(process, group);
                    }
                    drop(it);
                    shared.sleep(TICK).await;
                }
            }),
        );
    }

    /// Kills a process with all its servers.
    pub(super) fn kill(&self, process: usize) {
        let gone = self
            .processes
            .borrow_mut()
            .get_mut(process)
            .and_then(Option::take);
        let (Some(gone), Some(cluster)) = (gone, self.cluster.upgrade()) else {
            return;
        };
        self.shared.note(|| format!("process {process} is killed"));
        self.count(|moves| moves.killed += 1);
        if !cluster.exec.is_dead(gone.group) {
            cluster.exec.kill(gone.group);
        }
        let held = gone.held.values().filter_map(|held| held.group);
        for group in held.chain(gone.closing) {
            cluster.unseat(group);
        }
    }

    /// All groups of a process: of its own doings, and of its servers.
    pub(super) fn groups(&self, process: usize) -> Vec<Group> {
        let processes = self.processes.borrow();
        let Some(Some(it)) = processes.get(process) else {
            return Vec::new();
        };
        let held = it.held.values().filter_map(|held| held.group);
        let closing = it.closing.iter().copied();
        std::iter::once(it.group)
            .chain(held)
            .chain(closing)
            .collect()
    }

    /// A process does not reach etcd for so many microseconds.
    pub(super) fn cut_from_etcd(&self, process: usize, micros: u64) {
        if let Some(Some(it)) = self.processes.borrow_mut().get_mut(process) {
            it.cut = self.shared.now() + micros;
        }
    }

    /// A process gives back what it has and ends.
    pub(super) fn leave(self: &Rc<Self>, process: usize) {
        let group = self.groups(process).first().copied();
        if let Some(group) = group {
            self.inside(process, group, Input::Leave);
        }
    }

    /// Everybody who watches hears of it some time.
    fn changed(self: &Rc<Self>) {
        let groups: Vec<(usize, Group)> = self
            .processes
            .borrow()
            .iter()
            .enumerate()
            .filter_map(|(process, it)| Some((process, it.as_ref()?.group)))
            .collect();
        for (process, group) in groups {
            self.look(process, group);
        }
    }

    fn look(self: &Rc<Self>, process: usize, group: Group) {
        self.later(group, move |me| {
            if me.reaches_etcd(process) {
                let view = me.etcd.borrow_mut().view();
                me.step(process, group, Input::See(view));
            }
        });
    }

    fn reaches_etcd(&self, process: usize) -> bool {
        let processes = self.processes.borrow();
        let it = processes.get(process).and_then(Option::as_ref);
        !self.etcd_down.get() && it.is_some_and(|it| it.cut <= self.shared.now())
    }

    /// Does something some time, in a group.
    fn later(self: &Rc<Self>, group: Group, what: impl FnOnce(&Rc<Self>) + 'static) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        let (me, sleep) = (Rc::downgrade(self), self.shared.sleep(self.delay()));
        cluster.exec.spawn(
            group,
            Box::pin(async move {
                sleep.await;
                if let Some(me) = me.upgrade() {
                    what(&me);
                }
            }),
        );
    }

    fn inside(self: &Rc<Self>, process: usize, group: Group, input: Input) {
        self.later(group, move |me| me.step(process, group, input));
    }

    fn step(self: &Rc<Self>, process: usize, group: Group, input: Input) {
        let stepped = {
            let mut processes = self.processes.borrow_mut();
            let it = processes.get_mut(process).and_then(Option::as_mut);
            it.filter(|it| it.group == group).map(|it| {
                let clock = it.gates.now();
                (clock, it.machine.step(clock, input))
            })
        };
        let Some((clock, outputs)) = stepped else {
            return;
        };
        for output in outputs {
            self.shared
                .note(|| format!("process {process}: {output:?}"));
            self.follow((process, group), clock, output);
        }
    }

    /// Does what a machine wants.
    fn follow(self: &Rc<Self>, (process, group): (usize, Group), clock: u64, output: Output) {
        let mut processes = self.processes.borrow_mut();
        let Some(it) = processes.get_mut(process).and_then(Option::as_mut) else {
            return;
        };
        match output {
            Output::Serve { lease, until } => it.gates.serve(lease, until),
            Output::End { lease } => it.gates.end(lease),
            Output::Fence(fences) => {
                it.gates.fence(&fences);
                for (store, held) in &it.held {
                    if fences.get(store).is_some_and(|fence| *fence > held.epoch) {
                        held.gate.shut();
                    }
                }
            }
            Output::Open {
                store,
                epoch,
                lease,
            } => {
                let gate = SeatGate::new(&it.gates, epoch, lease);
                let held = Held {
                    epoch,
                    gate,
                    group: None,
                };
                it.held.insert(store, held);
                drop(processes);
                self.later(group, move |me| me.open((process, group), store, epoch));
            }
            Output::Close { store, epoch, lost } => {
                let held = it.held.remove(&store);
                if let Some(held) = &held {
                    it.closing.extend(held.group);
                    if lost {
                        held.gate.shut();
                    }
                }
                drop(processes);
                self.later(group, move |me| {
                    me.close((process, group), (store, epoch), held);
                });
            }
            Output::Left => {
                drop(processes);
                let me = Rc::clone(self);
                self.later(WORLD, move |_| {
                    me.kill(process);
                    me.later(WORLD, move |me| me.revive(process));
                });
            }
            ask => {
                drop(processes);
                self.later(WORLD, move |me| me.ask((process, group), &ask, clock));
            }
        }
    }

    /// Takes a store's folder over, as it is now, and serves it.
    fn open(self: &Rc<Self>, (process, group): (usize, Group), store: u32, epoch: u64) {
        let gate = {
            let processes = self.processes.borrow();
            let it = processes.get(process).and_then(Option::as_ref);
            let held = it.and_then(|it| it.held.get(&store));
            held.filter(|held| held.epoch == epoch)
                .map(|held| Arc::clone(&held.gate))
        };
        let (Some(gate), Some(cluster)) = (gate, self.cluster.upgrade()) else {
            return;
        };
        // A disk that is full, for once.
        let taken = if self.storm.get() && self.percent(5) {
            None
        } else {
            self.take(store, epoch)
        };
        let opened = taken.map(|folder| cluster.seat(store as usize, &folder, &gate));
        let input = match opened {
            Some(Ok(opened)) => {
                let mut processes = self.processes.borrow_mut();
                let it = processes.get_mut(process).and_then(Option::as_mut);
                if let Some(held) = it.and_then(|it| it.held.get_mut(&store)) {
                    held.group = Some(opened);
                }
                self.count(|moves| moves.opened += 1);
                Input::Opened { store, epoch }
            }
            Some(Err(e)) => {
                cluster.complain(format!("store {store} cannot be opened: {e}"));
                Input::NotOpened { store, epoch }
            }
            None => Input::NotOpened { store, epoch },
        };
        self.inside(process, group, input);
    }

    fn take(&self, store: u32, epoch: u64) -> Option<MemoryStore> {
        let mut folders = self.folders.borrow_mut();
        let folders = folders.entry(store).or_default();
        let last = folders.last_key_value();
        if last.is_some_and(|(newest, _)| *newest >= epoch) {
            return None;
        }
        let taken = last.map_or_else(|| Ok(MemoryStore::new()), |(_, folder)| copy(folder));
        let taken = match taken {
            Ok(taken) => taken,
            Err(e) => {
                let cluster = self.cluster.upgrade()?;
                cluster.complain(format!("store {store} cannot be copied: {e}"));
                return None;
            }
        };
        // What it was before is removed; whoever has it open goes on writing into it.
        folders.clear();
        folders.insert(epoch, taken.clone());
        Some(taken)
    }

    fn close(
        self: &Rc<Self>,
        (process, group): (usize, Group),
        (store, epoch): (u32, u64),
        held: Option<Held>,
    ) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        if let Some(held) = held {
            held.gate.shut();
            if let Some(served) = held.group {
                cluster.unseat(served);
                if let Some(Some(it)) = self.processes.borrow_mut().get_mut(process) {
                    it.closing.retain(|closing| *closing != served);
                }
            }
        }
        self.inside(process, group, Input::Closed { store, epoch });
    }

    /// A question arrives at etcd, and its answer is on its way back.
    fn ask(self: &Rc<Self>, (process, group): (usize, Group), ask: &Output, sent: u64) {
        let reached = self.reaches_etcd(process);
        let now = self.now_millis();
        let (answer, changed) = {
            let mut etcd = self.etcd.borrow_mut();
            let before = etcd.revision();
            let answer = etcd.answer(now, (&name(process), LEASE), ask, sent, reached);
            (answer, etcd.revision() != before)
        };
        if changed {
            self.changed();
        }
        let lost = self.storm.get() && self.percent(5);
        let answer = answer.and_then(|answer| {
            if lost {
                Etcd::lost(answer)
            } else {
                Some(answer)
            }
        });
        if let Some(answer) = answer {
            self.inside(process, group, answer);
        }
    }
}
