//! Routing of calls directly to the server that would get them from the client's own server: small batches to the server that coordinates
//! them, and calls on single files to the server with the entry (GIGA+, Patil & Gibson, FAST 2011; IndexFS,
//! Ren et
//! al., SC 2014).
//!
//! **Batches.** The client's own server tells which server has each virtual node. These assignments change only when a cluster is resized.
//!
//! **Files.** A client first asks the only server that it knows. If another server has the entry, that server is asked by the
//! first, which
//! then tells the client how the directory is partitioned; from then on the client hashes names itself. Its knowledge
//! may be
//! outdated and is never requested: a server without the entry does what it would have done anyway, and returns the present
//! partitioning. A wrong guess therefore costs no more than none.

use super::{CallError, Client, MEMBER_CONNECT_MAX, Wait};
use crate::convert;
use crate::producer::BatchNumber;
use crate::proto;
use crate::proto::request::Call;
use esker_model::namespace::{AppliedChange, Change, Changes, Kind, NamePath, Route, hash_of};
use esker_model::object::Principal;
use esker_model::{Batch, Error, Result, Version, VertexId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum of cached directories.
const KEPT_MAX: usize = 4_096;
/// Time for which only the client's own server is asked after another one could not be reached.
const AVOIDED: Duration = Duration::from_secs(5);
/// Number of small batches that a client sends to its own server first. A client that sends only a few does without the connections to the
/// other servers.
const BATCHES_BEFORE_ROUTES: u64 = 8;
/// Number of changes from which they are divided among servers.
const DIVIDED_MIN: usize = 16;

/// Cached locations of files.
#[derive(Debug, Default)]
pub(super) struct Routes {
    directories: Mutex<HashMap<Box<[u8]>, Arc<Route>>>,
    servers: Mutex<Servers>,
    direct: AtomicU64,
    corrected: AtomicU64,
    /// Number of small batches so far.
    batches: AtomicU64,
}

/// The servers of the cluster.
#[derive(Debug, Default)]
struct Servers {
    /// Number of the server that this client is connected to.
    own: u32,
    addresses: Vec<String>,
    /// Server of each virtual node, by number; empty until it is asked for.
    vnode_owners: Vec<u32>,
    clients: HashMap<u32, Client>,
    /// Until then no other server is tried, because one could not be reached.
    avoided_until: Option<Instant>,
}

impl Servers {
    fn learn(&mut self, cluster: proto::ClusterReply) {
        (self.own, self.addresses) = (cluster.server, cluster.servers);
        self.vnode_owners = cluster.vnode_owners;
    }

    /// Asks only the client's own server for a while.
    fn avoid(&mut self) {
        self.avoided_until = Instant::now().checked_add(AVOIDED);
    }

    fn is_avoided(&self) -> bool {
        self.avoided_until
            .is_some_and(|until| Instant::now() < until)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Routes {
    fn learn(&self, routes: Vec<Route>) {
        if routes.is_empty() {
            return;
        }
        self.corrected.fetch_add(1, Ordering::Relaxed);
        let mut known = lock(&self.directories);
        for route in routes {
            if known.len() >= KEPT_MAX {
                known.clear();
            }
            known.insert(route.directory().as_bytes().into(), Arc::new(route));
        }
    }

    fn of(&self, directory: &[u8]) -> Option<Arc<Route>> {
        lock(&self.directories).get(directory).cloned()
    }

    fn forget(&self) {
        lock(&self.directories).clear();
    }
}

/// Destination of a call.
pub(super) enum Destination {
    /// The server of this client.
    Own,
    /// Another server, through its client.
    To(Client),
}

impl Client {
    /// Whether this client caches locations of entries.
    pub(super) fn wants_routes(&self) -> bool {
        self.shared.routes.is_some()
    }

    /// Number of calls sent directly to a known server, and of responses that corrected a location.
    pub fn routed(&self) -> (u64, u64) {
        self.shared.routes.as_ref().map_or((0, 0), |routes| {
            (
                routes.direct.load(Ordering::Relaxed),
                routes.corrected.load(Ordering::Relaxed),
            )
        })
    }

    /// Caches the locations in a response.
    pub(super) fn learn(&self, routes: Vec<proto::FileRoute>) -> Result<()> {
        if let Some(known) = &self.shared.routes {
            let routes = routes.into_iter().map(convert::route_in);
            known.learn(routes.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    fn server_for(&self, path: &NamePath) -> Option<u32> {
        let (parent, name) = path.split()?;
        let route = self.shared.routes.as_ref()?.of(parent)?;
        Some(route.server(hash_of(&name)))
    }

    /// Destination of calls on a path.
    pub(super) fn destination_of_path(&self, path: &NamePath) -> Destination {
        match self.server_for(path) {
            Some(server) => self.destination(server),
            None => Destination::Own,
        }
    }

    /// Destination of a batch: the server that coordinates it, so that the client's own server need not pass it on.
    pub(super) fn destination_of_batch(&self, batch: &Batch) -> Destination {
        let server = batch
            .coordinating_vertex()
            .filter(|_| self.sends_many_batches() && self.is_in_cluster())
            .and_then(|vertex| self.home_server(vertex));
        server.map_or(Destination::Own, |server| self.destination(server))
    }

    /// Counts a small batch; returns whether connections to other servers pay.
    fn sends_many_batches(&self) -> bool {
        let routes = self.shared.routes.as_ref();
        routes.is_some_and(|routes| {
            routes.batches.fetch_add(1, Ordering::Relaxed) >= BATCHES_BEFORE_ROUTES
        })
    }

    /// Whether other servers may have parts of the data.
    fn is_in_cluster(&self) -> bool {
        let connection = lock(&self.shared.connection);
        connection.as_ref().is_some_and(|c| c.welcome.servers > 1)
    }

    /// The server that has a vertex, if it is known or the client's own server tells it.
    fn home_server(&self, vertex: VertexId) -> Option<u32> {
        let routes = self.shared.routes.as_ref()?;
        let mut servers = lock(&routes.servers);
        if servers.is_avoided() {
            return None;
        }
        if servers.vnode_owners.is_empty() {
            drop(servers);
            let cluster = self.cluster();
            servers = lock(&routes.servers);
            match cluster {
                Ok(cluster) if !cluster.vnode_owners.is_empty() => servers.learn(cluster),
                _ => servers.avoid(),
            }
        }
        let vnode = usize::from(vertex.home_bits()) % servers.vnode_owners.len().max(1);
        servers.vnode_owners.get(vnode).copied()
    }

    fn destination(&self, server: u32) -> Destination {
        let Some(routes) = &self.shared.routes else {
            return Destination::Own;
        };
        match self.client_for(server) {
            Ok(None) => Destination::Own,
            Ok(Some(client)) => {
                routes.direct.fetch_add(1, Ordering::Relaxed);
                client.record_version(Version(self.newest()));
                Destination::To(client)
            }
            // The client's own server knows which servers are available.
            Err(_) => {
                lock(&routes.servers).avoid();
                routes.forget();
                Destination::Own
            }
        }
    }

    /// A client of another server; `None` if it is the client's own server.
    fn client_for(&self, server: u32) -> Result<Option<Self>> {
        let Some(routes) = &self.shared.routes else {
            return Ok(None);
        };
        let mut servers = lock(&routes.servers);
        if let Some(client) = servers.clients.get(&server) {
            return Ok(Some(client.clone()));
        }
        if servers.is_avoided() {
            return Ok(None);
        }
        if servers.addresses.is_empty() {
            drop(servers);
            let cluster = self.cluster()?;
            servers = lock(&routes.servers);
            servers.learn(cluster);
        }
        if server == servers.own {
            return Ok(None);
        }
        let address = usize::try_from(server).ok();
        let address = address.and_then(|at| servers.addresses.get(at));
        let address = address.and_then(|at| self.shared.address.with_authority(at));
        let mut address = address.ok_or_else(|| self.wrong_reply())?;
        if !self.shared.members.all().is_empty() {
            address.store = Some(server);
        }
        address.connect = Some(MEMBER_CONNECT_MAX);
        match Self::connect_to(&address, None) {
            Ok(client) => {
                servers.clients.insert(server, client.clone());
                Ok(Some(client))
            }
            Err(e) => {
                // The server may have moved.
                servers.addresses.clear();
                Err(e)
            }
        }
    }

    /// Divides changes by server, if they are independent and can be made by several servers in parallel. `None` if
    /// they are better
    /// sent to one server, that of the first change.
    pub(super) fn divide(&self, changes: &[Change]) -> Option<BTreeMap<u32, Vec<usize>>> {
        if changes.len() < DIVIDED_MIN || !self.wants_routes() {
            return None;
        }
        let mut parts = BTreeMap::<u32, Vec<usize>>::new();
        let (mut about, mut above) = (HashSet::new(), HashSet::new());
        for (i, change) in changes.iter().enumerate() {
            let path = independent_path(change)?;
            let (parent, _) = path.split()?;
            above.insert(parent);
            if !about.insert(path.as_bytes()) {
                return None;
            }
            parts.entry(self.server_for(path)?).or_default().push(i);
        }
        let apart = above.iter().all(|parent| !about.contains(parent));
        (apart && parts.len() > 1).then_some(parts)
    }

    /// Makes divided changes, on all servers in parallel.
    pub(super) fn change_divided(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
        parts: BTreeMap<u32, Vec<usize>>,
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        struct Share {
            client: Client,
            which: Vec<usize>,
            changes: Changes,
            number: BatchNumber,
            sent: Option<super::connection::SentCall>,
        }
        let mut all = Vec::with_capacity(parts.len());
        for (server, which) in parts {
            let client = match self.destination(server) {
                Destination::To(client) => client,
                Destination::Own => self.clone(),
            };
            let number = client.shared.producer.next(client.server_millis())?;
            let theirs = which.iter().filter_map(|i| changes.get(*i).cloned());
            let changes = Changes {
                principal: principal.cloned(),
                changes: theirs.collect(),
                idempotency_key: Some(number.idempotency_key()),
                is_retry: false,
            };
            let request = proto::Request {
                call: Some(Call::ChangeFiles(self.changes_request(&changes, sync))),
            };
            let connection = client.connection();
            let sent = connection.and_then(|c| c.send(&request, client.newest(), 0));
            all.push(Share {
                sent: sent.ok(),
                client,
                which,
                changes,
                number,
            });
        }
        super::pending::nudge();
        let mut answers: Vec<Option<Result<AppliedChange>>> =
            changes.iter().map(|_| None).collect();
        let mut failed = None;
        for part in all {
            let Share {
                client,
                which,
                mut changes,
                number,
                sent,
            } = part;
            let first = sent.map(|sent| self.changed(&client, &sent, changes.changes.len()));
            let done = match first {
                Some(Ok(done)) => Ok(done),
                Some(Err(CallError::Failed(e))) => Err(e),
                // Sent again with its idempotency key.
                Some(Err(
                    CallError::Lost(_) | CallError::Busy { .. } | CallError::Moved { .. },
                ))
                | None => {
                    changes.is_retry = true;
                    self.change_marked_through(&client, &changes, sync)
                }
            };
            number.settle();
            self.record_version(Version(client.newest()));
            match done {
                Ok(done) => {
                    for (i, done) in which.iter().zip(done) {
                        if let Some(place) = answers.get_mut(*i) {
                            *place = Some(done);
                        }
                    }
                }
                Err(e) => failed = Some(e),
            }
        }
        if let Some(e) = failed {
            if answers.iter().all(Option::is_none) {
                return Err(e);
            }
            // Changes on other servers have been made.
            let why = e.to_string();
            for place in answers.iter_mut().filter(|a| a.is_none()) {
                *place = Some(Err(Error::Unavailable(why.clone())));
            }
        }
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        self.check_count(answers, changes.len())
    }

    /// Reads the response to changes that were sent through another client.
    fn changed(
        &self,
        client: &Self,
        sent: &super::connection::SentCall,
        count: usize,
    ) -> Result<Vec<Result<AppliedChange>>, CallError> {
        let mut outcomes = Vec::with_capacity(count);
        client.receive(sent, Wait::default(), &mut |reply| {
            if self.take_changed(&mut outcomes, reply)? {
                Ok(std::ops::ControlFlow::Continue(()))
            } else {
                Err(self.wrong_reply())
            }
        })?;
        let newest = outcomes
            .iter()
            .flatten()
            .map(|done: &AppliedChange| done.version);
        client.record_version(newest.max().unwrap_or(Version::ZERO));
        Ok(self.check_count(outcomes, count)?)
    }
}

/// Path of a change of a single entry that has no entries below it and no other path leading to it.
fn independent_path(change: &Change) -> Option<&NamePath> {
    match change {
        Change::Create(path, make) => match Kind::of_mode(make.mode) {
            Some(Kind::Directory | Kind::Symlink) | None => None,
            Some(_) => Some(path),
        },
        Change::Unlink(path) => Some(path),
        _ => None,
    }
}
