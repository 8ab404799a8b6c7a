//! Simulated servers: each with a store that outlives it and an inaccurate clock; started, killed and restarted, or
//! moved between processes ([`assignments`]).

pub mod assignments;

use super::exec::{Exec, Group, Shared, oneshot, within};
use super::faulty_engine::{EngineFault, FaultyEngine};
use super::files::{FileFaults, Share, SimFiles};
use super::moving::Moving;
use super::net::{Faults, Net, Peer, Times};
use super::request::{ClientRequest, ClientResponse, Service};
use crate::archive::MemoryArchive;
use crate::history::START_MILLIS;
use crate::rng::Rng;
use assignments::StoreGate;
use esker_cluster::node::{Node, Settings, Window, deliver_decisions};
use esker_cluster::{Kind, Loading, Plan, Resize, ServerId, VnodeMap, Vnodes};
use esker_engine::{Clock, Engine};
use esker_model::{Error, GraphRead as _, Result, Version};
use esker_store::Store;
use esker_store::fault::{FaultStore, Operation};
use esker_store::memory::MemoryStore;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A server's clock, with an offset and a drift.
pub struct ServerClock {
    shared: Arc<Shared>,
    /// Offset in milliseconds.
    offset: i64,
    /// Drift in microseconds per second.
    drift: i64,
}

impl Clock for ServerClock {
    fn now_millis(&self) -> u64 {
        let now = self.shared.now();
        let drifted = now.saturating_add_signed(now as i64 / 1_000_000 * self.drift);
        (START_MILLIS + 10 + drifted / 1000).saturating_add_signed(self.offset)
    }

    fn monotonic_micros(&self) -> u64 {
        self.shared.now()
    }
}

/// The implementation that answers clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Nodes, each over its own engine.
    Nodes,
    /// One engine behind all servers, to test the simulation itself.
    OneEngine,
}

/// Parameters of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Implementation that answers clients.
    pub subject: Subject,
    /// Fault of the engine, to test the checks.
    pub fault: EngineFault,
    /// Number of servers at first.
    pub servers: u32,
    /// Number of virtual nodes.
    pub vnodes: u32,
    /// Placement rule of edges.
    pub placement: Kind,
    /// Split threshold of partitions.
    pub threshold: u64,
    /// Largest number of rows in a page between servers.
    pub page_rows: u32,
    /// Largest offset of clocks in milliseconds.
    pub skew: u64,
    /// Delays and timeouts of messages.
    pub times: Times,
    /// Timeout of clients in microseconds.
    pub timeout: u64,
    /// Upper bound of pauses between calls of a client, in microseconds.
    pub pause_max: usize,
    /// Settings of each engine.
    pub engine: esker_engine::Settings,
    /// Whether stores are ephemeral: lost with their server except for what was persisted.
    pub windows: bool,
    /// Storage that servers share, if there is any.
    pub share: Option<Share>,
    /// Number of processes among which servers move, assigned by etcd; 0 if each server is a process and stays where it is.
    pub processes: usize,
    /// Whether such processes ignore leases and epochs, to test the checks.
    pub unfenced: bool,
}

struct Server {
    id: ServerId,
    store: MemoryStore,
    archive: Arc<MemoryArchive>,
    clock: Arc<ServerClock>,
    running: Option<Running>,
    /// Former instances of a moving server, which may not know yet that they have lost it.
    former: Vec<Running>,
    /// The store as the server sees it, if it is ephemeral.
    ephemeral_store: Option<Arc<FaultStore<MemoryStore>>>,
}

/// The commits that an ephemeral store would lose with its server.
struct SimWindow(Arc<FaultStore<MemoryStore>>);

impl Window for SimWindow {
    fn written(&self) -> u64 {
        self.0.count(Operation::Commit)
    }

    fn persisted(&self) -> u64 {
        self.written() - self.0.unsynced() as u64
    }

    fn harden(&self) -> Result<()> {
        self.0.persist()
    }

    fn try_harden(&self) -> Result<()> {
        self.harden()
    }

    fn may_have_lost(&self) -> bool {
        false
    }
}

impl Server {
    fn new(id: u32, skew: u64, rng: &mut Rng, shared: &Arc<Shared>) -> Self {
        let mut around = |most: u64| {
            let drawn = rng.number_below(2 * most as usize + 1);
            drawn as i64 - most as i64
        };
        Self {
            id: ServerId(id),
            store: MemoryStore::new(),
            archive: Arc::default(),
            clock: Arc::new(ServerClock {
                shared: Arc::clone(shared),
                offset: around(skew),
                drift: around(skew.min(100)),
            }),
            running: None,
            former: Vec::new(),
            ephemeral_store: None,
        }
    }

    /// Opens the engine of a starting server; with `window`, over an ephemeral store.
    fn start(&mut self, settings: esker_engine::Settings, window: bool) -> Result<Arc<Engine>> {
        if !window {
            return self.open(settings);
        }
        let live = Arc::new(FaultStore::new(self.store.clone())?);
        self.ephemeral_store = Some(Arc::clone(&live));
        self.open_over(live, settings)
    }

    fn open(&self, settings: esker_engine::Settings) -> Result<Arc<Engine>> {
        self.open_over(Arc::new(self.store.clone()), settings)
    }

    fn open_over(
        &self,
        store: Arc<dyn Store>,
        settings: esker_engine::Settings,
    ) -> Result<Arc<Engine>> {
        Ok(Arc::new(Engine::open(
            store,
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.archive) as Arc<dyn esker_engine::Archive>,
            settings,
        )?))
    }
}

#[derive(Clone)]
struct Running {
    group: Group,
    joined: Rc<Cell<bool>>,
    service: Rc<dyn Service>,
    engine: Weak<Engine>,
    node: Option<Weak<Node>>,
    /// Whether responses may leave, where servers move.
    gate: Option<Arc<StoreGate>>,
}

impl Running {
    /// Whether the server serves, or says that it does.
    fn answers(&self, exec: &Exec) -> bool {
        self.joined.get() && !exec.is_dead(self.group)
    }
}

/// A simulated cluster of servers.
pub struct Cluster {
    /// Executor of the simulation.
    pub exec: Rc<Exec>,
    /// Network between the servers.
    pub net: Net,
    /// Parameters of the cluster.
    pub shape: Shape,
    /// Storage that the servers share.
    pub files: Arc<SimFiles>,
    /// Assignment of servers to processes, where they move.
    pub moving: Option<Rc<Moving>>,
    servers: RefCell<Vec<Server>>,
    rng: RefCell<Rng>,
    faults: Cell<Faults>,
    resizes: Cell<u32>,
    /// Unexpected observations.
    complaints: RefCell<Vec<String>>,
}

impl Cluster {
    /// Creates a cluster whose servers are not started.
    pub fn new(seed: u64, shape: Shape, tracing: bool) -> Rc<Self> {
        let exec = Exec::new(seed, tracing);
        let net = Net::new(&exec, seed ^ 0x006e_6574, shape.times);
        let mut rng = Rng::new(seed ^ 0x736b_6577);
        let server = |i| Server::new(i, shape.skew, &mut rng, exec.shared());
        let servers = (0..shape.servers).map(server).collect();
        let faults = shape.share.map_or_else(FileFaults::default, |s| s.faults);
        let files = SimFiles::new(exec.shared(), seed, faults);
        Rc::new_cyclic(|me| Self {
            moving: (shape.processes > 0)
                .then(|| Rc::new(Moving::new(me.clone(), exec.shared(), seed, shape))),
            net,
            shape,
            files,
            servers: RefCell::new(servers),
            rng: RefCell::new(rng),
            faults: Cell::default(),
            resizes: Cell::default(),
            complaints: RefCell::default(),
            exec,
        })
    }

    /// Returns the number of servers.
    pub fn len(&self) -> usize {
        self.servers.borrow().len()
    }

    /// Always false: a cluster has servers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how often the number of servers has changed.
    pub fn resizes(&self) -> u32 {
        self.resizes.get()
    }

    /// Returns the simulated time and the trace.
    pub fn shared(&self) -> &Arc<Shared> {
        self.exec.shared()
    }

    /// Sets the faults of messages between servers, and between servers and clients.
    pub fn set_faults(&self, faults: Faults) {
        self.faults.set(faults);
        self.net.set_faults(faults);
    }

    /// Records an unexpected observation.
    pub fn complain(&self, what: String) {
        self.shared().note(|| what.clone());
        self.complaints.borrow_mut().push(what);
    }

    /// Returns the unexpected observations.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }

    /// Sets the stores of servers that have not been started, in their order.
    pub fn fill(&self, stores: impl Iterator<Item = MemoryStore>) {
        for (server, store) in self.servers.borrow_mut().iter_mut().zip(stores) {
            server.store = store;
        }
    }

    /// Starts a server on its store. It joins the others by itself.
    pub fn start(self: &Rc<Self>, at: usize) -> Result<()> {
        let group = self.exec.group();
        let joined = Rc::new(Cell::new(false));
        let running = match self.shape.subject {
            Subject::OneEngine => self.start_engine(at, group, &joined)?,
            Subject::Nodes => self.start_node(at, group, &joined)?,
        };
        if let Some(server) = self.servers.borrow_mut().get_mut(at) {
            server.running = Some(running);
        }
        self.shared()
            .note(|| format!("server {at} starts as {group:?}"));
        Ok(())
    }

    fn start_engine(&self, at: usize, group: Group, joined: &Rc<Cell<bool>>) -> Result<Running> {
        joined.set(true);
        // All servers share the engine of the first one.
        let known = self
            .servers
            .borrow()
            .iter()
            .find_map(|s| s.running.as_ref().map(|r| Rc::clone(&r.service)));
        let service: Rc<dyn Service> = match known {
            Some(service) => service,
            None => Rc::new(FaultyEngine::new(self.engine(at)?, self.shape.fault)),
        };
        Ok(Running {
            group,
            joined: Rc::clone(joined),
            service,
            engine: Weak::new(),
            node: None,
            gate: None,
        })
    }

    fn engine(&self, at: usize) -> Result<Arc<Engine>> {
        let mut servers = self.servers.borrow_mut();
        let server = servers.get_mut(at).ok_or_else(|| no_server(at))?;
        server.start(self.shape.engine, self.shape.windows)
    }

    fn ids(&self) -> Vec<ServerId> {
        (0..self.len() as u32).map(ServerId).collect()
    }

    fn settings(&self, id: ServerId, epoch: u64) -> Settings {
        Settings {
            id,
            servers: self.ids(),
            vnodes: self.shape.vnodes,
            placement: self.shape.placement,
            threshold: self.shape.threshold,
            directory_threshold: self.shape.threshold,
            page_rows: self.shape.page_rows,
            table_min_rows: self.shape.share.map_or(0, |share| share.least),
            replay_millis: 0,
            epoch,
        }
    }

    /// Kills all servers and redistributes their data over another number of servers, which must then be started.
    pub fn resize(&self, servers: u32) -> Result<()> {
        (0..self.len()).for_each(|at| self.kill(at));
        self.net.forget_messages();
        let old = (0..self.len()).map(|at| self.engine(at));
        let old: Vec<_> = old.collect::<Result<_>>()?;
        // Time must not go back: one new clock is not behind the old ones.
        let clock = {
            let servers = self.servers.borrow();
            let clocks = servers.iter().map(|server| &server.clock);
            let latest = clocks.max_by_key(|clock| clock.now_millis());
            Arc::clone(latest.ok_or_else(|| no_server(0))?)
        };
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let delivered = deliver_decisions(&old, &time, &self.settings(ServerId(0), 0))?;
        let plan = Plan {
            placement: self.shape.placement,
            vnodes: self.shape.vnodes,
            servers,
            now: Version::end_of_millis(clock.now_millis()),
        };
        let mut resize = Resize::read(&old, plan)?;
        let mut new: Vec<Server> = {
            let mut rng = self.rng.borrow_mut();
            let server = |id| Server::new(id, self.shape.skew, &mut rng, self.shared());
            (0..servers).map(server).collect()
        };
        if let Some(server) = new.first_mut() {
            server.clock = clock;
        }
        for (k, server) in new.iter().enumerate() {
            resize.begin(k, &*server.open(self.shape.engine)?)?;
        }
        let open = || new.iter().map(|server| server.open(self.shape.engine));
        let opened: Vec<_> = open().collect::<Result<_>>()?;
        let loading = [Loading::Sorted, Loading::Commits];
        let loading = *self.rng.borrow_mut().pick(&loading);
        resize.rows(&opened, loading, &mut |_| Ok(()))?;
        for (k, target) in opened.iter().enumerate() {
            resize.archive(k, target, &mut |_| Ok(()))?;
            resize.objects(k, target, &mut |_| Ok(()))?;
            target.close()?;
        }
        drop(opened);
        let mut counts = Vec::new();
        for (k, target) in open().enumerate() {
            let target = target?;
            resize.check(k, &target, &mut |_| Ok(()))?;
            counts.push(target.counts()?);
        }
        if let Some((old, new)) = resize.finish(&counts)? {
            self.complain(format!(
                "counters said {old} before the number of servers changed, and say {new}"
            ));
        }
        drop(old);
        self.shared().note(|| {
            format!(
                "{} servers become {servers}; {delivered} parts were undelivered",
                self.len()
            )
        });
        *self.servers.borrow_mut() = new;
        self.resizes.set(self.resizes.get() + 1);
        Ok(())
    }

    fn start_node(&self, at: usize, group: Group, joined: &Rc<Cell<bool>>) -> Result<Running> {
        let engine = self.engine(at)?;
        let (id, clock) = {
            let servers = self.servers.borrow();
            let server = servers.get(at).ok_or_else(|| no_server(at))?;
            (server.id, Arc::clone(&server.clock))
        };
        let settings = self.settings(id, 0);
        let window = self
            .servers
            .borrow()
            .get(at)
            .and_then(|s| s.ephemeral_store.clone());
        let window = window.map(|live| Arc::new(SimWindow(live)) as Arc<dyn Window>);
        let files = self.shape.share.filter(|share| share.sees(at));
        let files = files.map(|_| Arc::clone(&self.files));
        let host = self.net.host(id, group, window, files, None);
        let weak = Arc::downgrade(&engine);
        let node = Node::open(engine, clock, host, settings)?;
        self.net.add(id, group, Arc::clone(&node) as Arc<dyn Peer>);
        self.join(&node, id, group, joined);
        Ok(Running {
            group,
            joined: Rc::clone(joined),
            engine: weak,
            node: Some(Arc::downgrade(&node)),
            service: Rc::new(node),
            gate: None,
        })
    }

    /// Lets a node join the others.
    fn join(&self, node: &Arc<Node>, id: ServerId, group: Group, joined: &Rc<Cell<bool>>) {
        let (joining, done) = (Arc::clone(node), Rc::clone(joined));
        let shared = Arc::clone(self.shared());
        let again = self.shape.processes > 0;
        self.exec.spawn(
            group,
            Box::pin(async move {
                let waiting = |_| {};
                loop {
                    match joining.join(&waiting).await {
                        Ok(()) => return done.set(true),
                        Err(e) => shared.note(|| format!("{id} cannot join: {e}")),
                    }
                    if !again {
                        return;
                    }
                    shared.sleep(200_000).await;
                }
            }),
        );
    }

    /// Returns the task group of a running server.
    pub fn group(&self, at: usize) -> Option<Group> {
        let servers = self.servers.borrow();
        let group = servers.get(at)?.running.as_ref()?.group;
        Some(group).filter(|group| !self.exec.is_dead(*group))
    }

    /// Kills a server, unless it has crashed already, and cleans up.
    pub fn kill(&self, at: usize) {
        let running = self
            .servers
            .borrow_mut()
            .get_mut(at)
            .and_then(|server| Some((server.id, server.running.take()?)));
        let Some((id, running)) = running else { return };
        if !self.exec.is_dead(running.group) {
            self.exec.kill(running.group);
        }
        self.net.remove(id);
        self.lose_window(at);
        if self.shape.subject == Subject::OneEngine {
            // The shared engine must not be lost with the server.
            if let Some(server) = self.servers.borrow_mut().get_mut(at) {
                server.running = Some(running);
            }
            return;
        }
        let (node, engine) = (running.node.clone(), running.engine.clone());
        drop(running);
        self.expect_gone(id, node.as_ref(), &engine);
    }

    /// Checks that nothing keeps a dead node or engine alive.
    fn expect_gone(&self, id: ServerId, node: Option<&Weak<Node>>, engine: &Weak<Engine>) {
        let kept = (node.map_or(0, Weak::strong_count), engine.strong_count());
        if kept != (0, 0) {
            self.complain(format!(
                "{id} was killed, but something keeps its node and engine: {kept:?}"
            ));
        }
    }

    /// Drops a server's unpersisted commits, except for some of the first ones.
    fn lose_window(&self, at: usize) {
        let mut servers = self.servers.borrow_mut();
        let Some(server) = servers.get_mut(at) else {
            return;
        };
        let Some(live) = server.ephemeral_store.take() else {
            return;
        };
        let kept = self.rng.borrow_mut().number_below(live.unsynced() + 1);
        match live.crash_image(kept) {
            Ok(image) => server.store = image,
            Err(e) => self.complain(format!("a store cannot be copied: {e}")),
        }
    }

    /// Starts all servers that do not run.
    pub fn start_all(self: &Rc<Self>) -> Result<()> {
        if let Some(moving) = &self.moving {
            moving.repair();
            return Ok(());
        }
        for at in 0..self.len() {
            if self.group(at).is_none() {
                self.kill(at);
                self.start(at)?;
            }
        }
        Ok(())
    }

    /// Whether all servers serve.
    pub fn all_joined(&self) -> bool {
        self.servers.borrow().iter().all(|server| {
            let running = server.running.as_ref();
            running.is_some_and(|r| {
                r.answers(&self.exec) && r.gate.as_ref().is_none_or(|gate| gate.open())
            })
        })
    }

    /// Completes once all servers serve.
    pub async fn joined(&self) {
        while !self.all_joined() {
            self.shared().sleep(1000).await;
        }
    }

    fn delay(&self) -> u64 {
        let Times {
            delay_min,
            delay_max,
            ..
        } = self.shape.times;
        let spread = (delay_max - delay_min) as usize;
        delay_min + self.rng.borrow_mut().number_below(spread + 1) as u64
    }

    fn permille(&self, permille: usize) -> bool {
        permille > 0 && self.rng.borrow_mut().number_below(1000) < permille
    }

    /// Sends a request to a server as a client does: over a network, with a timeout.
    pub async fn call(
        self: &Rc<Self>,
        at: usize,
        request: ClientRequest,
        seen: Version,
        timeout: u64,
    ) -> Result<ClientResponse> {
        let unavailable = |why: &str| Err(Error::Unavailable(format!("server {at} {why}")));
        let faults = self.faults.get();
        self.shared().sleep(self.delay()).await;
        let running = self.contacted_instance(at);
        let Some(running) = running.filter(|r| r.answers(&self.exec)) else {
            self.shared().sleep(self.delay()).await;
            return unavailable("is not there");
        };
        if self.permille(faults.lost_requests) {
            drop(running);
            self.shared().sleep(timeout).await;
            return unavailable("did not hear");
        }
        let answering = running.service.call(request, seen);
        let (sender, receiver) = oneshot();
        let (back, lost) = (self.delay(), self.permille(faults.lost_responses));
        let shared = Arc::clone(self.shared());
        let group = running.group;
        let gate = running.gate.clone();
        drop(running);
        self.exec.spawn(
            group,
            Box::pin(async move {
                let mut response = answering.await;
                if gate.is_some_and(|gate| !gate.open()) {
                    let moved = "this store is being moved to another server: try again";
                    response = Err(Error::Unavailable(moved.into()));
                }
                let wait = if lost { 2 * timeout } else { back };
                shared.sleep(wait).await;
                sender.send(response);
            }),
        );
        match within(self.shared(), timeout, receiver).await {
            Some(Some(response)) => response,
            Some(None) => unavailable("hung up"),
            None => unavailable("does not answer"),
        }
    }

    /// Returns the newest version that a server knows.
    pub fn newest(&self, at: usize) -> Option<Version> {
        let servers = self.servers.borrow();
        let node = servers
            .get(at)?
            .running
            .as_ref()?
            .node
            .as_ref()?
            .upgrade()?;
        Some(node.newest())
    }

    /// Returns a server's node, if it runs.
    pub fn node(&self, at: usize) -> Option<Arc<Node>> {
        let servers = self.servers.borrow();
        servers.get(at)?.running.as_ref()?.node.as_ref()?.upgrade()
    }

    /// Returns a server's engine, if it runs.
    pub fn engine_of(&self, at: usize) -> Option<Arc<Engine>> {
        let servers = self.servers.borrow();
        servers.get(at)?.running.as_ref()?.engine.upgrade()
    }

    /// Returns the clock of a server.
    pub fn clock(&self, at: usize) -> Option<Arc<dyn Clock>> {
        let servers = self.servers.borrow();
        Some(Arc::clone(&servers.get(at)?.clock) as Arc<dyn Clock>)
    }

    /// Returns a server's store.
    pub fn store(&self, at: usize) -> Option<Arc<dyn Store>> {
        let servers = self.servers.borrow();
        let store = servers.get(at)?.store.clone();
        Some(Arc::new(store))
    }

    /// Returns the vnode map of the cluster.
    pub fn map(&self) -> Option<VnodeMap> {
        VnodeMap::first(Vnodes::new(self.shape.vnodes).ok()?, &self.ids()).ok()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nodes and the network refer to each other.
        self.net.clear();
        self.exec.clear();
    }
}

fn no_server(at: usize) -> Error {
    Error::Invalid(format!("there is no server {at}"))
}
