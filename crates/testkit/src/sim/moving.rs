//! Servers that move between processes, as etcd assigns them: the real [`Machine`] of membership over the real nodes.
//!
//! This module has the processes, their clocks and machines, the execution of the machines' outputs, and the model of
//! etcd. [`super::cluster::assignments`] has the servers themselves. A paused process pauses with all its servers;
//! when it continues, all its servers may belong to others, and its instances still have stores to write into, which
//! must never be read.
//!
//! The checks are those of any run ([`super::scenario`]): no acknowledged change is lost or applied twice, no deleted
//! item comes back, sessions do not go back in time, and repeated reads as of a version agree.

use super::cluster::assignments::{Gates, StoreGate};
use super::cluster::{Cluster, Shape};
use super::copies::copy;
use super::exec::{Group, OUTSIDE, Shared};
use crate::members::etcd::Etcd;
use crate::rng::Rng;
use esker_cluster::member::{Input, Machine, MemberSettings, Output};
use esker_store::memory::MemoryStore;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Duration of leases in milliseconds.
pub(super) const LEASE: u64 = 2_000;
/// Interval of ticks in microseconds.
const TICK: u64 = 50_000;

/// A store of a process.
struct OwnedStore {
    epoch: u64,
    gate: Arc<StoreGate>,
    /// Task group, once the store is open.
    group: Option<Group>,
}

struct SimProcess {
    machine: Machine,
    /// Task group of the process itself; each of its servers has another one.
    group: Group,
    gates: Arc<Gates>,
    owned: BTreeMap<u32, OwnedStore>,
    /// Groups of servers that are closing.
    closing: Vec<Group>,
    /// Time until which the process does not reach etcd.
    cut: u64,
}

/// Statistics of moving servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveStats {
    /// Number of times that a store was opened.
    pub opened: u64,
    /// Number of requests refused and responses withheld.
    pub withheld: u64,
    /// Number of processes killed.
    pub killed: u64,
}

/// Assignment of servers to processes.
pub struct Moving {
    cluster: Weak<Cluster>,
    shared: Arc<Shared>,
    shape: Shape,
    rng: RefCell<Rng>,
    etcd: RefCell<Etcd>,
    etcd_down: Cell<bool>,
    processes: RefCell<Vec<Option<SimProcess>>>,
    /// Folders by store and epoch.
    folders: RefCell<BTreeMap<u32, BTreeMap<u64, MemoryStore>>>,
    started: Cell<bool>,
    /// Whether faults are injected.
    faults_on: Cell<bool>,
    withheld: Arc<AtomicU64>,
    moves: Cell<MoveStats>,
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
            faults_on: Cell::new(false),
            withheld: Arc::default(),
            moves: Cell::default(),
        }
    }

    /// Returns the number of processes.
    pub fn processes(&self) -> usize {
        self.shape.processes
    }

    /// Returns the statistics so far.
    pub fn moves(&self) -> MoveStats {
        MoveStats {
            withheld: self.withheld.load(Ordering::Relaxed),
            ..self.moves.get()
        }
    }

    fn count(&self, change: impl FnOnce(&mut MoveStats)) {
        let mut moves = self.moves.get();
        change(&mut moves);
        self.moves.set(moves);
    }

    fn draw(&self, below: u64) -> u64 {
        self.rng.borrow_mut().number_below(below as usize) as u64
    }

    fn percent(&self, percent: usize) -> bool {
        self.rng.borrow_mut().percent(percent)
    }

    fn now_millis(&self) -> u64 {
        self.shared.now() / 1_000
    }

    /// A short delay, sometimes a longer one, in microseconds.
    fn delay(&self) -> u64 {
        let late = self.faults_on.get() && self.percent(4);
        let most = if late { 1_500_000 } else { 20_000 };
        1_000 + self.draw(most)
    }

    /// Sets whether etcd may be slow and responses may be lost.
    pub(super) fn set_faults_on(&self, faults_on: bool) {
        self.faults_on.set(faults_on);
    }

    /// Ends all faults: all processes and etcd run, and no process is drained.
    pub(super) fn repair(self: &Rc<Self>) {
        self.faults_on.set(false);
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

    /// Ends expired leases periodically.
    fn expire(self: &Rc<Self>) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        let me = Rc::downgrade(self);
        let shared = Arc::clone(&self.shared);
        cluster.exec.spawn(
            OUTSIDE,
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

    /// Stops or restarts etcd.
    pub(super) fn set_etcd(self: &Rc<Self>, up: bool) {
        if self.etcd_down.replace(!up) && up {
            self.shared.note(|| "etcd is back".into());
            self.etcd.borrow_mut().restart(self.now_millis());
            self.changed();
        }
    }

    /// Drains a process, or ends that.
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
            self.shape.unfenced,
        );
        let group = cluster.exec.group();
        let mut settings = MemberSettings::for_lease(name(process), self.shape.servers, LEASE);
        settings.even = true;
        let started = SimProcess {
            machine: Machine::new(settings),
            group,
            gates,
            owned: BTreeMap::new(),
            closing: Vec::new(),
            cut: 0,
        };
        self.shared
            .note(|| format!("process {process} starts as {group:?}"));
        if let Some(slot) = self.processes.borrow_mut().get_mut(process) {
            *slot = Some(started);
        }
        let (me, shared) = (Rc::downgrade(self), Arc::clone(&self.shared));
        cluster.exec.spawn(
            group,
            Box::pin(async move {
                loop {
                    let Some(it) = me.upgrade() else { return };
                    it.step(process, group, Input::Tick);
                    // A broken watch is restarted.
                    if it.percent(10) {
                        it.send_view(process, group);
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
        let owned = gone.owned.values().filter_map(|owned| owned.group);
        for group in owned.chain(gone.closing) {
            cluster.unassign(group);
        }
    }

    /// Returns all task groups of a process: its own and those of its servers.
    pub(super) fn groups(&self, process: usize) -> Vec<Group> {
        let processes = self.processes.borrow();
        let Some(Some(it)) = processes.get(process) else {
            return Vec::new();
        };
        let owned = it.owned.values().filter_map(|owned| owned.group);
        let closing = it.closing.iter().copied();
        std::iter::once(it.group)
            .chain(owned)
            .chain(closing)
            .collect()
    }

    /// Cuts a process off from etcd for `micros` microseconds.
    pub(super) fn cut_from_etcd(&self, process: usize, micros: u64) {
        if let Some(Some(it)) = self.processes.borrow_mut().get_mut(process) {
            it.cut = self.shared.now() + micros;
        }
    }

    /// Lets a process leave: it hands over its stores and ends.
    pub(super) fn leave(self: &Rc<Self>, process: usize) {
        let group = self.groups(process).first().copied();
        if let Some(group) = group {
            self.schedule(process, group, Input::Leave);
        }
    }

    /// Notifies all watchers after some time.
    fn changed(self: &Rc<Self>) {
        let groups: Vec<(usize, Group)> = self
            .processes
            .borrow()
            .iter()
            .enumerate()
            .filter_map(|(process, it)| Some((process, it.as_ref()?.group)))
            .collect();
        for (process, group) in groups {
            self.send_view(process, group);
        }
    }

    fn send_view(self: &Rc<Self>, process: usize, group: Group) {
        self.run_later(group, move |me| {
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

    /// Runs a closure in a task group after some time.
    fn run_later(self: &Rc<Self>, group: Group, what: impl FnOnce(&Rc<Self>) + 'static) {
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

    fn schedule(self: &Rc<Self>, process: usize, group: Group, input: Input) {
        self.run_later(group, move |me| me.step(process, group, input));
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

    /// Executes an output of a machine.
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
                for (store, owned) in &it.owned {
                    if fences.get(store).is_some_and(|fence| *fence > owned.epoch) {
                        owned.gate.shut();
                    }
                }
            }
            Output::Open {
                store,
                epoch,
                lease,
            } => {
                let gate = StoreGate::new(&it.gates, epoch, lease);
                let owned = OwnedStore {
                    epoch,
                    gate,
                    group: None,
                };
                it.owned.insert(store, owned);
                drop(processes);
                self.run_later(group, move |me| me.open((process, group), store, epoch));
            }
            Output::Close { store, epoch, lost } => {
                let owned = it.owned.remove(&store);
                if let Some(owned) = &owned {
                    it.closing.extend(owned.group);
                    if lost {
                        owned.gate.shut();
                    }
                }
                drop(processes);
                self.run_later(group, move |me| {
                    me.close((process, group), (store, epoch), owned);
                });
            }
            Output::Left => {
                drop(processes);
                let me = Rc::clone(self);
                self.run_later(OUTSIDE, move |_| {
                    me.kill(process);
                    me.run_later(OUTSIDE, move |me| me.revive(process));
                });
            }
            request => {
                drop(processes);
                self.run_later(OUTSIDE, move |me| {
                    me.request_etcd((process, group), &request, clock);
                });
            }
        }
    }

    /// Takes over the present folder of a store and serves it.
    fn open(self: &Rc<Self>, (process, group): (usize, Group), store: u32, epoch: u64) {
        let gate = {
            let processes = self.processes.borrow();
            let it = processes.get(process).and_then(Option::as_ref);
            let owned = it.and_then(|it| it.owned.get(&store));
            owned
                .filter(|owned| owned.epoch == epoch)
                .map(|owned| Arc::clone(&owned.gate))
        };
        let (Some(gate), Some(cluster)) = (gate, self.cluster.upgrade()) else {
            return;
        };
        // An occasional full disk.
        let taken = if self.faults_on.get() && self.percent(5) {
            None
        } else {
            self.take(store, epoch)
        };
        let opened = taken.map(|folder| cluster.assign(store as usize, &folder, &gate));
        let input = match opened {
            Some(Ok(opened)) => {
                let mut processes = self.processes.borrow_mut();
                let it = processes.get_mut(process).and_then(Option::as_mut);
                if let Some(owned) = it.and_then(|it| it.owned.get_mut(&store)) {
                    owned.group = Some(opened);
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
        self.schedule(process, group, input);
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
        // The former folder is removed; an instance that has it open continues to write into it.
        folders.clear();
        folders.insert(epoch, taken.clone());
        Some(taken)
    }

    fn close(
        self: &Rc<Self>,
        (process, group): (usize, Group),
        (store, epoch): (u32, u64),
        owned: Option<OwnedStore>,
    ) {
        let Some(cluster) = self.cluster.upgrade() else {
            return;
        };
        if let Some(owned) = owned {
            owned.gate.shut();
            if let Some(served) = owned.group {
                cluster.unassign(served);
                if let Some(Some(it)) = self.processes.borrow_mut().get_mut(process) {
                    it.closing.retain(|closing| *closing != served);
                }
            }
        }
        self.schedule(process, group, Input::Closed { store, epoch });
    }

    /// A request arrives at etcd, and its response is sent back.
    fn request_etcd(
        self: &Rc<Self>,
        (process, group): (usize, Group),
        request: &Output,
        sent: u64,
    ) {
        let reached = self.reaches_etcd(process);
        let now = self.now_millis();
        let (answer, changed) = {
            let mut etcd = self.etcd.borrow_mut();
            let before = etcd.revision();
            let answer = etcd.answer(now, (&name(process), LEASE), request, sent, reached);
            (answer, etcd.revision() != before)
        };
        if changed {
            self.changed();
        }
        let lost = self.faults_on.get() && self.percent(5);
        let answer = answer.and_then(|answer| {
            if lost {
                Etcd::lost(answer)
            } else {
                Some(answer)
            }
        });
        if let Some(answer) = answer {
            self.schedule(process, group, answer);
        }
    }
}
