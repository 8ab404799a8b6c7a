//! Simulation of membership under faults: members that crash, pause for longer than their leases, and are cut off; an
//! etcd that stops and restarts; lost responses; drifting clocks. Each run follows from one seed.
//!
//! Each member runs the real [`Machine`]; etcd, folders and the work of servers are models. A write is a step at
//! which it reaches its folder, and a later one at which its response leaves; a decision over two stores is a row in
//! one folder, a message, and a row in the other. A pause may come between any two steps. Checks:
//!
//! - acknowledged writes are in the folder that is served at the end, and in every folder from which a later read was answered;
//! - no member responds for a store after another did at a later epoch;
//! - no part of a decision exists in the end without the decision;
//! - after the faults, each store is served by one member, and the stores are balanced.

pub(crate) mod etcd;
mod process;

pub use process::MembershipStats;

use crate::rng::Rng;
use esker_cluster::member::{Input, Machine, MemberSettings, Output};
use etcd::Etcd;
use process::{Folder, MemberEvent, Process, Row, Served, Work};
use std::collections::BTreeMap;

const STORES: u32 = 6;
const MEMBERS: usize = 4;
const LEASE: u64 = 2_000;
/// Duration of the phase with faults, in milliseconds.
const FAULTS_MILLIS: u64 = 25_000;
/// Duration of the following phase without faults, in milliseconds.
const RECOVERY_MILLIS: u64 = 12_000;

/// State of a simulation.
#[derive(Debug)]
pub struct Members {
    rng: Rng,
    now: u64,
    number: u64,
    queue: BTreeMap<(u64, u64), MemberEvent>,
    etcd: Etcd,
    etcd_down: bool,
    processes: Vec<Process>,
    folders: BTreeMap<u32, BTreeMap<u64, Folder>>,
    /// Acknowledged writes by store, in order.
    acknowledged: BTreeMap<u32, Vec<Row>>,
    /// Latest epoch of any response, by store.
    answered: BTreeMap<u32, u64>,
    /// Statistics of the run.
    pub stats: MembershipStats,
    log: Option<Vec<String>>,
}

fn name(process: usize) -> String {
    format!("10.0.0.{process}:7400")
}

impl Members {
    /// Runs one history and checks it; returns statistics, or a description of the error.
    pub fn run(seed: u64) -> Result<MembershipStats, String> {
        Self::new(seed, None).simulate()
    }

    /// Runs one history as [`Self::run`], and returns the log of events, too.
    pub fn run_with_log(seed: u64) -> (Result<MembershipStats, String>, Vec<String>) {
        let mut members = Self::new(seed, Some(Vec::new()));
        let outcome = members.simulate();
        (outcome, members.log.unwrap_or_default())
    }

    fn new(seed: u64, log: Option<Vec<String>>) -> Self {
        let mut members = Self {
            rng: Rng::new(seed),
            now: 0,
            number: 0,
            queue: BTreeMap::new(),
            etcd: Etcd::default(),
            etcd_down: false,
            processes: Vec::new(),
            folders: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            answered: BTreeMap::new(),
            stats: MembershipStats::default(),
            log,
        };
        for process in 0..MEMBERS {
            let started = members.process(process, 0);
            members.processes.push(started);
            members.schedule_event(10, MemberEvent::In(process, 0, Work::Tick));
        }
        members.schedule_event(20, MemberEvent::Expire);
        members.schedule_event(500, MemberEvent::Chaos);
        members.schedule_event(500, MemberEvent::Client);
        members
    }

    fn process(&mut self, process: usize, life: u32) -> Process {
        let mut settings = MemberSettings::for_lease(name(process), STORES, LEASE);
        settings.even = true;
        Process {
            machine: Machine::new(settings),
            life,
            alive: true,
            paused: 0,
            cut: 0,
            offset: self.rng.next() % 1_000_000,
            rate: 990 + self.rng.next() % 21,
            gates: BTreeMap::new(),
            served: BTreeMap::new(),
            fences: BTreeMap::new(),
        }
    }

    fn log(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{now:>6} {}", what()));
        }
    }

    fn schedule_event(&mut self, after: u64, event: MemberEvent) {
        self.number += 1;
        self.queue.insert((self.now + after, self.number), event);
    }

    /// A short delay, sometimes a longer one.
    fn delay(&mut self) -> u64 {
        let most = if self.faults_on() && self.rng.percent(4) {
            1_500
        } else {
            20
        };
        1 + self.rng.next() % most
    }

    fn schedule(&mut self, process: usize, work: Work) {
        let after = self.delay();
        let life = self.processes[process].life;
        self.schedule_event(after, MemberEvent::In(process, life, work));
    }

    fn faults_on(&self) -> bool {
        self.now < FAULTS_MILLIS
    }

    fn simulate(&mut self) -> Result<MembershipStats, String> {
        while let Some((&(time, number), _)) = self.queue.first_key_value() {
            let Some(event) = self.queue.remove(&(time, number)) else {
                break;
            };
            if time > FAULTS_MILLIS + RECOVERY_MILLIS {
                break;
            }
            self.now = time;
            self.handle_event(event)?;
        }
        self.check()?;
        Ok(self.stats)
    }

    fn handle_event(&mut self, event: MemberEvent) -> Result<(), String> {
        match event {
            MemberEvent::In(process, life, work) => {
                let it = &self.processes[process];
                if !it.alive || it.life != life {
                    return Ok(());
                }
                if it.paused > self.now {
                    // The event is handled once the process wakes, in the order of arrival.
                    let after = it.paused - self.now;
                    self.schedule_event(after, MemberEvent::In(process, life, work));
                    return Ok(());
                }
                self.work(process, work)
            }
            MemberEvent::ClientRequest(process, life, request, sent) => {
                self.request_etcd(process, life, &request, sent);
                Ok(())
            }
            MemberEvent::Expire => {
                if !self.etcd_down && self.etcd.expire(self.now) {
                    self.changed();
                }
                self.schedule_event(100, MemberEvent::Expire);
                Ok(())
            }
            MemberEvent::Chaos => {
                self.chaos();
                Ok(())
            }
            MemberEvent::Client => {
                self.client();
                self.schedule_event(25, MemberEvent::Client);
                Ok(())
            }
            MemberEvent::Start(process) => {
                let life = self.processes[process].life + 1;
                self.log(|| format!("{process} starts, life {life}"));
                self.processes[process] = self.process(process, life);
                self.schedule(process, Work::Tick);
                Ok(())
            }
            MemberEvent::EtcdUp => {
                self.log(|| "etcd is back".into());
                self.etcd_down = false;
                self.etcd.restart(self.now);
                Ok(())
            }
        }
    }

    /// Notifies all watchers after some time.
    fn changed(&mut self) {
        for process in 0..MEMBERS {
            self.schedule(process, Work::Look);
        }
    }

    fn reaches_etcd(&self, process: usize) -> bool {
        !self.etcd_down && self.processes[process].cut <= self.now
    }

    fn work(&mut self, process: usize, work: Work) -> Result<(), String> {
        match work {
            Work::Tick => {
                self.step(process, Input::Tick);
                let life = self.processes[process].life;
                self.schedule_event(50, MemberEvent::In(process, life, Work::Tick));
                // A broken watch is restarted.
                if self.rng.percent(10) {
                    self.schedule(process, Work::Look);
                }
            }
            Work::Look => {
                if self.reaches_etcd(process) {
                    let view = self.etcd.view();
                    self.step(process, Input::See(view));
                }
            }
            Work::Input(input) => self.step(process, input),
            Work::Copied(store, epoch, lease, folder) => {
                self.folders.entry(store).or_default().insert(epoch, folder);
                let it = &mut self.processes[process];
                let shut = it.fences.get(&store).is_some_and(|f| *f > epoch);
                let served = Served { epoch, lease, shut };
                it.served.insert(store, served);
                self.stats.opened += 1;
                self.step(process, Input::Opened { store, epoch });
            }
            Work::Stopped(store, epoch) => {
                let it = &mut self.processes[process];
                if it.served.get(&store).is_some_and(|s| s.epoch == epoch) {
                    it.served.remove(&store);
                }
                self.step(process, Input::Closed { store, epoch });
            }
            work => return self.serve(process, &work),
        }
        Ok(())
    }

    /// Handles work of servers for clients and for each other.
    fn serve(&mut self, process: usize, work: &Work) -> Result<(), String> {
        let now = self.now;
        match *work {
            Work::Arrives(store, row, other) => {
                if let Some(served) = self.processes[process].served.get(&store) {
                    let epoch = served.epoch;
                    self.schedule(process, Work::Stored(store, epoch, row, other));
                }
            }
            Work::Stored(store, epoch, row, other) => {
                // The write reaches the folder even if another process owns it by now.
                let folders = self.folders.entry(store).or_default();
                let Some(folder) = folders.get_mut(&epoch) else {
                    return Ok(());
                };
                folder.rows.insert(row);
                match other {
                    None => self.schedule(process, Work::Answers(store, epoch, row)),
                    Some(other) => {
                        // The message goes to every process that might have the other store; a copy may be delayed.
                        for receiver in 0..MEMBERS {
                            self.schedule(receiver, Work::Part(other, store, epoch, row));
                        }
                    }
                }
            }
            Work::Answers(store, epoch, row) => {
                if !self.processes[process].answers(now, store, epoch) {
                    self.stats.withheld += 1;
                    return Ok(());
                }
                self.answered_at(process, store, epoch)?;
                self.stats.acknowledged += 1;
                self.acknowledged.entry(store).or_default().push(row);
            }
            Work::Asked(store, before) => {
                if let Some(served) = self.processes[process].served.get(&store) {
                    let epoch = served.epoch;
                    let folder = self.folders.get(&store).and_then(|f| f.get(&epoch));
                    let known = self.acknowledged.get(&store);
                    let known = known.and_then(|k| k.get(..before)).unwrap_or_default();
                    // The latest writes are the ones that might be missing.
                    let mut latest = known.iter().rev().take(16);
                    let missing = latest.find(|row| folder.is_none_or(|f| !f.rows.contains(row)));
                    let missing = missing.copied();
                    self.schedule(process, Work::Read(store, epoch, missing));
                }
            }
            Work::Read(store, epoch, missing) => {
                if !self.processes[process].answers(now, store, epoch) {
                    self.stats.withheld += 1;
                    return Ok(());
                }
                self.answered_at(process, store, epoch)?;
                self.stats.reads += 1;
                if let Some(row) = missing {
                    return Err(format!(
                        "at {now}: a read of store {store} at epoch {epoch} lacks write {row}, which was acknowledged before"
                    ));
                }
            }
            Work::Part(store, from, epoch, row) => {
                let it = &self.processes[process];
                let Some(served) = it.served.get(&store) else {
                    return Ok(());
                };
                let mine = served.epoch;
                if !it.answers(now, store, mine) {
                    self.stats.withheld += 1;
                    return Ok(());
                }
                if it.fences.get(&from).is_some_and(|fence| *fence > epoch) {
                    self.stats.fenced += 1;
                    return Ok(());
                }
                self.schedule(process, Work::PartTaken(store, mine, from, row));
            }
            Work::PartTaken(store, epoch, from, row) => {
                let folders = self.folders.entry(store).or_default();
                if let Some(folder) = folders.get_mut(&epoch) {
                    folder.parts.insert((from, row));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn answered_at(&mut self, process: usize, store: u32, epoch: u64) -> Result<(), String> {
        let last = self.answered.entry(store).or_default();
        if epoch < *last {
            return Err(format!(
                "at {}: member {process} answers for store {store} at epoch {epoch}, and epoch {last} was answered before",
                self.now
            ));
        }
        *last = epoch;
        Ok(())
    }

    fn step(&mut self, process: usize, input: Input) {
        let clock = self.processes[process].clock(self.now);
        let outputs = self.processes[process].machine.step(clock, input);
        for output in outputs {
            self.log(|| format!("{process}: {output:?}"));
            self.follow(process, clock, output);
        }
    }

    /// Executes an output of a member's state machine.
    fn follow(&mut self, process: usize, clock: u64, output: Output) {
        let it = &mut self.processes[process];
        match output {
            Output::Serve { lease, until } => {
                it.gates.insert(lease, until);
            }
            Output::End { lease } => {
                it.gates.insert(lease, 0);
            }
            Output::Fence(fences) => {
                for (store, served) in &mut it.served {
                    let fenced = fences.get(store).is_some_and(|f| *f > served.epoch);
                    served.shut |= fenced;
                }
                it.fences = fences;
            }
            Output::Open {
                store,
                epoch,
                lease,
            } => {
                let folders = self.folders.entry(store).or_default();
                let last = folders.last_key_value().map(|(e, f)| (*e, f.clone()));
                let work = match last {
                    // An occasional full disk.
                    _ if self.faults_on() && self.rng.percent(5) => {
                        Work::Input(Input::NotOpened { store, epoch })
                    }
                    Some((newest, _)) if newest >= epoch => {
                        Work::Input(Input::NotOpened { store, epoch })
                    }
                    last => {
                        let folder = last.map(|(_, folder)| folder).unwrap_or_default();
                        Work::Copied(store, epoch, lease, folder)
                    }
                };
                self.schedule(process, work);
            }
            Output::Close { store, epoch, lost } => {
                if lost && let Some(served) = it.served.get_mut(&store) {
                    served.shut |= served.epoch == epoch;
                }
                // Work in progress arrives later and finds the store closed.
                self.schedule(process, Work::Stopped(store, epoch));
            }
            Output::Left => {
                it.alive = false;
                let after = 500 + self.delay();
                self.schedule_event(after, MemberEvent::Start(process));
            }
            request => {
                let after = self.delay();
                let life = self.processes[process].life;
                self.schedule_event(
                    after,
                    MemberEvent::ClientRequest(process, life, request, clock),
                );
            }
        }
    }

    /// A request arrives at etcd, and its response is sent back.
    fn request_etcd(&mut self, process: usize, life: u32, request: &Output, sent: u64) {
        let reached = self.reaches_etcd(process);
        let me = name(process);
        let now = self.now;
        let before = self.etcd.revision();
        let answer = self.etcd.answer(now, (&me, LEASE), request, sent, reached);
        if self.etcd.revision() != before {
            self.changed();
        }
        if let Some(answer) = answer {
            // A response may be lost; then the outcome is unknown to the member.
            let lost = self.faults_on() && self.rng.percent(5);
            let answer = if lost {
                Etcd::lost(answer)
            } else {
                Some(answer)
            };
            let Some(answer) = answer else { return };
            let after = self.delay();
            self.schedule_event(after, MemberEvent::In(process, life, Work::Input(answer)));
        }
    }

    /// Injects a fault.
    fn chaos(&mut self) {
        if !self.faults_on() {
            for process in 0..MEMBERS {
                self.etcd.drain(&name(process), false);
            }
            self.changed();
            return;
        }
        let process = self.rng.number_below(MEMBERS);
        let now = self.now;
        let long = 1 + self.rng.next() % (3 * LEASE);
        match self.rng.number_below(9) {
            0 | 1 => {
                self.log(|| format!("{process} is killed"));
                let it = &mut self.processes[process];
                if it.alive {
                    it.alive = false;
                    self.schedule_event(long, MemberEvent::Start(process));
                }
            }
            2..=4 => {
                self.log(|| format!("{process} pauses for {long}"));
                self.processes[process].paused = now + long;
            }
            5 | 6 => {
                self.log(|| format!("{process} is cut off for {long}"));
                self.processes[process].cut = now + long;
            }
            7 => {
                if self.rng.percent(30) && !self.etcd_down {
                    self.log(|| format!("etcd stops for {long}"));
                    self.etcd_down = true;
                    self.schedule_event(long, MemberEvent::EtcdUp);
                } else {
                    self.schedule(process, Work::Input(Input::Leave));
                }
            }
            _ => {
                let drained = self.rng.percent(50);
                self.log(|| format!("{process} drained: {drained}"));
                self.etcd.drain(&name(process), drained);
                self.changed();
            }
        }
        let after = 100 + self.rng.next() % 1_500;
        self.schedule_event(after, MemberEvent::Chaos);
    }

    /// A client sends a request to all processes that might have a store; this models a client that searches for it.
    fn client(&mut self) {
        let store = (self.rng.next() % u64::from(STORES)) as u32;
        let other = (self.rng.next() % u64::from(STORES)) as u32;
        self.number += 1;
        let row = self.number;
        let kind = self.rng.number_below(3);
        let before = self.acknowledged.get(&store).map_or(0, Vec::len);
        for process in 0..MEMBERS {
            let work = match kind {
                0 => Work::Arrives(store, row, None),
                1 if other != store => Work::Arrives(store, row, Some(other)),
                _ => Work::Asked(store, before),
            };
            self.schedule(process, work);
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut counts = vec![0; MEMBERS];
        for store in 0..STORES {
            let serving: Vec<(usize, u64)> = (0..MEMBERS)
                .filter_map(|p| {
                    let it = &self.processes[p];
                    let served = it.served.get(&store)?;
                    let answers = it.alive && it.answers(self.now, store, served.epoch);
                    answers.then_some((p, served.epoch))
                })
                .collect();
            let [(process, epoch)] = serving[..] else {
                let minds: Vec<_> = self
                    .processes
                    .iter()
                    .map(|p| p.machine.transitions())
                    .collect();
                return Err(format!(
                    "store {store} is served by {serving:?} in the end; under way {minds:?}; etcd holds {:?}",
                    self.etcd
                ));
            };
            counts[process] += 1;
            let empty = Folder::default();
            let folder = |store: u32| {
                let last = self.folders.get(&store).and_then(|f| f.last_key_value());
                last.map_or((0, &empty), |(e, f)| (*e, f))
            };
            let (newest, contents) = folder(store);
            if newest != epoch {
                return Err(format!(
                    "store {store} is served at epoch {epoch}, and there is {newest}"
                ));
            }
            let known = self.acknowledged.get(&store).map_or(&[][..], Vec::as_slice);
            if let Some(row) = known.iter().find(|row| !contents.rows.contains(row)) {
                return Err(format!("store {store} has lost write {row}"));
            }
            for (from, row) in &contents.parts {
                if !folder(*from).1.rows.contains(row) {
                    return Err(format!(
                        "store {store} has a part of decision {row}, which store {from} does not know"
                    ));
                }
            }
        }
        let (most, least) = (counts.iter().max(), counts.iter().min());
        if most.zip(least).is_none_or(|(m, l)| m - l > 1) {
            return Err(format!("servers are not distributed evenly: {counts:?}"));
        }
        Ok(())
    }
}
