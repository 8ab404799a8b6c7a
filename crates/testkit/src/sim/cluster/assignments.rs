//! Assignments of servers that move: each runs in some process at an epoch, and for a while may also run in an
//! earlier one that is paused or has not noticed the change.
//!
//! The order of steps is that of `esker-server`: a process fences claims before it acknowledges them, checks its
//! lease after the work and before a response leaves, and accepts no request from a store's former holder.

use super::super::exec::{Group, LocalFuture, Shared};
use super::super::net::Peer;
use super::{Cluster, Running, ServerClock};
use esker_cluster::node::{Node, incarnation_at};
use esker_cluster::peer::{PeerRequest, PeerResponse};
use esker_engine::Clock;
use esker_model::{Error, Result};
use esker_store::memory::MemoryStore;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared by all stores of a process.
pub struct Gates {
    shared: Arc<Shared>,
    /// Index of the process.
    pub process: usize,
    /// Clock by which leases are measured: offset, and rate in thousandths.
    offset: u64,
    rate: u64,
    /// Clock from which versions are taken.
    clock: Arc<ServerClock>,
    /// By lease: time until which responses may leave.
    leases: Mutex<BTreeMap<u64, u64>>,
    /// By store: newest epoch that is fenced here.
    fences: Mutex<BTreeMap<u32, u64>>,
    /// Number of responses withheld, and of requests refused.
    withheld: Arc<AtomicU64>,
    /// Whether leases and epochs are ignored, to test the checks.
    unfenced: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gates {
    /// Creates the state of a process that starts; `skew` is the offset of its wall clock in milliseconds.
    pub fn new(
        shared: &Arc<Shared>,
        process: usize,
        (offset, rate): (u64, u64),
        skew: i64,
        withheld: &Arc<AtomicU64>,
        unfenced: bool,
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
            unfenced,
        })
    }

    /// Returns the time in milliseconds, by the clock of leases.
    pub fn now(&self) -> u64 {
        self.offset + self.shared.now() * self.rate / 1_000_000
    }

    /// Lets responses under a lease leave until a time.
    pub fn serve(&self, lease: u64, until: u64) {
        let mut leases = locked(&self.leases);
        let holds = leases.entry(lease).or_default();
        *holds = until.max(*holds);
    }

    /// Stops responses under a lease.
    pub fn end(&self, lease: u64) {
        locked(&self.leases).insert(lease, 0);
    }

    /// Raises the lowest accepted epochs of stores.
    pub fn fence(&self, epochs: &BTreeMap<u32, u64>) {
        let mut fences = locked(&self.fences);
        for (store, epoch) in epochs {
            let fence = fences.entry(*store).or_default();
            *fence = (*fence).max(*epoch);
        }
    }
}

/// Decides whether responses of a store may leave a process.
pub struct StoreGate {
    gates: Arc<Gates>,
    epoch: u64,
    lease: u64,
    shut: AtomicBool,
}

impl StoreGate {
    /// Creates the gate of a store that was claimed at an epoch under a lease.
    pub fn new(gates: &Arc<Gates>, epoch: u64, lease: u64) -> Arc<Self> {
        Arc::new(Self {
            gates: Arc::clone(gates),
            epoch,
            lease,
            shut: AtomicBool::new(false),
        })
    }

    /// Returns the epoch of the claim.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Closes the gate for ever.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
    }

    /// Whether responses may leave now.
    pub fn open(&self) -> bool {
        let until = locked(&self.gates.leases).get(&self.lease).copied();
        if self.gates.unfenced {
            return until.is_some();
        }
        !self.shut.load(Ordering::Relaxed) && until.is_some_and(|until| self.gates.now() < until)
    }

    /// Whether the sender of a request still has its store.
    fn accepts(&self, question: &PeerRequest) -> bool {
        let fences = locked(&self.gates.fences);
        let epoch = fences.get(&question.from.0).copied().unwrap_or(0);
        self.open() && (self.gates.unfenced || question.incarnation >= incarnation_at(epoch))
    }

    fn refused(&self, why: &str) -> Error {
        self.gates.withheld.fetch_add(1, Ordering::Relaxed);
        Error::Unavailable(format!("a store at epoch {}: {why}", self.epoch))
    }
}

/// A node that answers other servers as long as its gate is open.
struct GatedNode {
    node: Arc<Node>,
    gate: Arc<StoreGate>,
}

impl Peer for GatedNode {
    fn handle(
        self: Arc<Self>,
        question: PeerRequest,
    ) -> LocalFuture<'static, Result<PeerResponse>> {
        Box::pin(async move {
            if !self.gate.accepts(&question) {
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
    /// Serves a store in a process, in a task group of its own. The former holder continues until it notices.
    pub(in super::super) fn assign(
        self: &Rc<Self>,
        at: usize,
        store: &MemoryStore,
        gate: &Arc<StoreGate>,
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
        let seated = GatedNode {
            node: Arc::clone(&node),
            gate: Arc::clone(gate),
        };
        self.net
            .assign(id, group, gate.gates.process, Arc::new(seated));
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

    /// Ends what is served in a task group.
    pub(in super::super) fn unassign(&self, group: Group) {
        if !self.exec.is_dead(group) {
            self.exec.kill(group);
        }
        self.net.unassign(group);
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

    /// Returns the instance that a client calls for a server: the present one, or a former one.
    pub(super) fn contacted_instance(&self, at: usize) -> Option<Running> {
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
