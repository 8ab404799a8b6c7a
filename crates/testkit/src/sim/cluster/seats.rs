//! Servers that move: each is where some process has it, at an epoch, and may for a while be with an earlier one, too, which stands
//! still or does not know better.
//!
//! What `esker-server` does about it is done here in the same order: a process heeds claims before it says so, looks at its lease after
//! the work and before the answer leaves, and takes no question from a store's former holder.

use super::super::exec::{Group, LocalFuture, Shared};
use super::super::net::Peer;
use super::{Cluster, Running, ServerClock};
use esker_cluster::node::{Node, incarnation_at};
use esker_cluster::peer::{Answer, Question};
use esker_engine::Clock;
use esker_model::{Error, Result};
use esker_store::memory::MemoryStore;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all stores of a process have in common.
pub struct Gates {
    shared: Arc<Shared>,
    /// Which process.
    pub process: usize,
    /// The clock that leases are measured by: where it began, and how fast it goes, in thousandths.
    offset: u64,
    rate: u64,
    /// The clock that versions are taken from.
    clock: Arc<ServerClock>,
    /// Until when answers may leave, by lease.
    leases: Mutex<BTreeMap<u64, u64>>,
    /// The newest epoch of each store, as far as it is heeded here.
    fences: Mutex<BTreeMap<u32, u64>>,
    /// Answers that did not leave, or questions that were not taken.
    withheld: Arc<AtomicU64>,
    /// Whether nobody looks at leases and epochs: to try the checks.
    heedless: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gates {
    /// Of a process that starts. `skew`: its wall clock is off by that, in milliseconds.
    pub fn new(
        shared: &Arc<Shared>,
        process: usize,
        (offset, rate): (u64, u64),
        skew: i64,
        withheld: &Arc<AtomicU64>,
        heedless: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            process,
            offset,
            rate,
            clock: Arc::new(ServerClock {
                shared: Arc::clone(shared),
                offset: skew,
                drift: skew.clamp(-100, 100),
            }),
            leases: Mutex::default(),
            fences: Mutex::default(),
            withheld: Arc::clone(withheld),
            heedless,
        })
    }

    /// Milliseconds, by the clock of leases.
    pub fn now(&self) -> u64 {
        self.offset + self.shared.now() * self.rate / 1_000_000
    }

    /// Answers may leave until then.
    pub fn serve(&self, lease: u64, until: u64) {
        let mut leases = locked(&self.leases);
        let holds = leases.entry(lease).or_default();
        *holds = until.max(*holds);
    }

    /// None may any more.
    pub fn end(&self, lease: u64) {
        locked(&self.leases).insert(lease, 0);
    }

    /// From now on these epochs count.
    pub fn fence(&self, epochs: &BTreeMap<u32, u64>) {
        let mut fences = locked(&self.fences);
        for (store, epoch) in epochs {
            let fence = fences.entry(*store).or_default();
            *fence = (*fence).max(*epoch);
        }
    }
}

/// Whether answers of a store may leave a process.
pub struct SeatGate {
    gates: Arc<Gates>,
    epoch: u64,
    lease: u64,
    shut: AtomicBool,
}

impl SeatGate {
    /// Of a store that was claimed at that epoch under that lease.
    pub fn new(gates: &Arc<Gates>, epoch: u64, lease: u64) -> Arc<Self> {
        Arc::new(Self {
            gates: Arc::clone(gates),
            epoch,
            lease,
            shut: AtomicBool::new(false),
        })
    }

    /// At which epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// None may leave any more.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
    }

    /// Whether they may.
    pub fn open(&self) -> bool {
        let until = locked(&self.gates.leases).get(&self.lease).copied();
        if self.gates.heedless {
            return until.is_some();
        }
        !self.shut.load(Ordering::Relaxed) && until.is_some_and(|until| self.gates.now() < until)
    }

    /// Whether whoever asks is the one that has its store.
    fn heeds(&self, question: &Question) -> bool {
        let fences = locked(&self.gates.fences);
        let epoch = fences.get(&question.from.0).copied().unwrap_or(0);
        self.open() && (self.gates.heedless || question.incarnation >= incarnation_at(epoch))
    }

    fn refused(&self, why: &str) -> Error {
        self.gates.withheld.fetch_add(1, Ordering::Relaxed);
        Error::Unavailable(format!("a store at epoch {}: {why}", self.epoch))
    }
}

/// A node that answers other servers as long as it may.
struct Seated {
    node: Arc<Node>,
    gate: Arc<SeatGate>,
}

impl Peer for Seated {
    fn handle(self: Arc<Self>, question: Question) -> LocalFuture<'static, Result<Answer>> {
        Box::pin(async move {
            if !self.gate.heeds(&question) {
                return Err(self.gate.refused("the question is not heeded"));
            }
            let answer = Node::handle(&self.node, question).await;
            if !self.gate.open() {
                return Err(self.gate.refused("the answer is too late"));
            }
            Ok(answer)
        })
    }
}

impl Cluster {
    /// Serves a store in a process, in a group of its own. Whoever had it before has it, too, until it learns better.
    pub(in super::super) fn seat(
        self: &Rc<Self>,
        at: usize,
        store: &MemoryStore,
        gate: &Arc<SeatGate>,
    ) -> Result<Group> {
        let clock = Arc::clone(&gate.gates.clock);
        let (id, engine) = {
            let mut servers = self.servers.borrow_mut();
            let server = servers.get_mut(at).ok_or_else(|| super::no_server(at))?;
            server.store = store.clone();
            server.clock = Arc::clone(&clock);
            (server.id, server.open(self.shape.engine)?)
        };
        let group = self.exec.group();
        let joined = Rc::new(Cell::new(false));
        let host = self.net.host(id, group, None, None, Some(store));
        let weak = Arc::downgrade(&engine);
        let settings = self.settings(id, gate.epoch);
        let node = Node::open(engine, clock as Arc<dyn Clock>, host, settings)?;
        let seated = Seated {
            node: Arc::clone(&node),
            gate: Arc::clone(gate),
        };
        self.net
            .seat(id, group, gate.gates.process, Arc::new(seated));
        self.join(&node, id, group, &joined);
        let running = Running {
            group,
            joined,
            engine: weak,
            node: Some(Arc::downgrade(&node)),
            service: Rc::new(node),
            gate: Some(Arc::clone(gate)),
        };
        if let Some(server) = self.servers.borrow_mut().get_mut(at) {
            let before = server.running.replace(running);
            server.former.extend(before);
        }
        Ok(group)
    }

    /// Ends what is served in a group.
    pub(in super::super) fn unseat(&self, group: Group) {
        if !self.exec.is_dead(group) {
            self.exec.kill(group);
        }
        self.net.unseat(group);
        let mut gone = Vec::new();
        for server in &mut *self.servers.borrow_mut() {
            let of = |running: &mut Running| running.group == group;
            let ended = server.former.extract_if(.., of);
            gone.extend(ended.map(|running| (server.id, running)));
            let last = server.running.take_if(of);
            gone.extend(last.map(|running| (server.id, running)));
        }
        for (id, running) in gone {
            let (node, engine) = (running.node.clone(), running.engine.clone());
            drop(running);
            self.expect_gone(id, node.as_ref(), &engine);
        }
    }

    /// Whom a client asks that wants that server: where it is, or was.
    pub(super) fn whom_to_ask(&self, at: usize) -> Option<Running> {
        let servers = self.servers.borrow();
        let server = servers.get(at)?;
        if !server.former.is_empty() {
            let mut rng = self.rng.borrow_mut();
            if rng.percent(40) {
                return Some(rng.pick(&server.former).clone());
            }
        }
        server.running.clone()
    }
}
