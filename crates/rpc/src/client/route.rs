//! Calls about one file straight to the server of a cluster that has it (GIGA+, Patil & Gibson, FAST 2011; IndexFS, Ren et al.,
//! SC 2014).
//!
//! A client begins by asking the one server that it knows. Where another has the entry, that one asks it, and tells the client
//! how the directory is spread; from then on the client hashes names itself. What it knows may be out of date, and is never
//! asked for: a server that is asked for what it does not have does what it would have done anyway, and tells how it is now.
//! So a wrong guess costs what no guess costs.

use super::{Broken, Client, Wait};
use crate::convert;
use crate::marker::Number;
use crate::proto;
use crate::proto::request::Call;
use esker_model::namespace::{Change, Changes, Done, Kind, NamePath, Route, hash_of};
use esker_model::object::Asker;
use esker_model::{Error, Result, Version};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many directories are remembered.
const KEPT_MAX: usize = 4_096;
/// Fewer changes than this are not worth several messages.
const DIVIDED_MIN: usize = 16;

/// What a client knows of where files are.
#[derive(Debug, Default)]
pub(super) struct Routes {
    directories: Mutex<HashMap<Box<[u8]>, Arc<Route>>>,
    servers: Mutex<Servers>,
    direct: AtomicU64,
    corrected: AtomicU64,
}

/// The servers of the cluster.
#[derive(Debug, Default)]
struct Servers {
    /// Which one this client talks to anyway.
    own: u32,
    addresses: Vec<String>,
    clients: HashMap<u32, Client>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Routes {
    fn learn(&self, routes: Vec<Route>) {
        if routes.is_empty() {
            return;
        }
        self.corrected.fetch_add(1, Ordering::Relaxed);
        let mut known = held(&self.directories);
        for route in routes {
            if known.len() >= KEPT_MAX {
                known.clear();
            }
            known.insert(route.directory().as_bytes().into(), Arc::new(route));
        }
    }

    fn of(&self, directory: &[u8]) -> Option<Arc<Route>> {
        held(&self.directories).get(directory).cloned()
    }

    fn forget(&self) {
        held(&self.directories).clear();
    }
}

/// Whose a call is.
pub(super) enum Way {
    /// This client's server's.
    Own,
    /// That one's.
    To(Client),
}

impl Client {
    /// Whether this client wants to know where entries are.
    pub(super) fn wants_routes(&self) -> bool {
        self.shared.routes.is_some()
    }

    /// Calls that went straight to the server that they were for, as far as was known; and answers that told of other places.
    pub fn routed(&self) -> (u64, u64) {
        self.shared.routes.as_ref().map_or((0, 0), |routes| {
            (
                routes.direct.load(Ordering::Relaxed),
                routes.corrected.load(Ordering::Relaxed),
            )
        })
    }

    /// Remembers what an answer told.
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

    /// Whom to ask about a path.
    pub(super) fn way_to(&self, path: &NamePath) -> Way {
        match self.server_for(path) {
            Some(server) => self.way(server),
            None => Way::Own,
        }
    }

    fn way(&self, server: u32) -> Way {
        let Some(routes) = &self.shared.routes else {
            return Way::Own;
        };
        match self.other(server) {
            Ok(None) => Way::Own,
            Ok(Some(client)) => {
                routes.direct.fetch_add(1, Ordering::Relaxed);
                client.saw(Version(self.newest()));
                Way::To(client)
            }
            // Its own server knows who is there and who is not.
            Err(_) => {
                routes.forget();
                Way::Own
            }
        }
    }

    /// A client of another server; nothing if it is this one's.
    fn other(&self, server: u32) -> Result<Option<Self>> {
        let Some(routes) = &self.shared.routes else {
            return Ok(None);
        };
        let mut servers = held(&routes.servers);
        if let Some(client) = servers.clients.get(&server) {
            return Ok(Some(client.clone()));
        }
        if servers.addresses.is_empty() {
            drop(servers);
            let cluster = self.cluster()?;
            servers = held(&routes.servers);
            (servers.own, servers.addresses) = (cluster.server, cluster.servers);
        }
        if server == servers.own {
            return Ok(None);
        }
        let address = usize::try_from(server).ok();
        let address = address.and_then(|at| servers.addresses.get(at));
        let address = address.and_then(|at| self.shared.address.moved(at));
        let mut address = address.ok_or_else(|| self.stray())?;
        if !self.shared.members.all().is_empty() {
            address.store = Some(server);
        }
        match Self::connect_to(&address, None) {
            Ok(client) => {
                servers.clients.insert(server, client.clone());
                Ok(Some(client))
            }
            Err(e) => {
                // It may be somewhere else by now.
                servers.addresses.clear();
                Err(e)
            }
        }
    }

    /// Whose each of some changes is, if they can be made by several servers at once: none builds on another. Nothing if they are
    /// better sent to one, which is whose the first one is.
    pub(super) fn divide(&self, changes: &[Change]) -> Option<BTreeMap<u32, Vec<usize>>> {
        if changes.len() < DIVIDED_MIN || !self.wants_routes() {
            return None;
        }
        let mut parts = BTreeMap::<u32, Vec<usize>>::new();
        let (mut about, mut above) = (HashSet::new(), HashSet::new());
        for (i, change) in changes.iter().enumerate() {
            let path = plain(change)?;
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

    /// Changes that are several servers', at all of them at once.
    pub(super) fn change_divided(
        &self,
        asker: Option<&Asker>,
        changes: &[Change],
        parts: BTreeMap<u32, Vec<usize>>,
        sync: bool,
    ) -> Result<Vec<Result<Done>>> {
        struct Share {
            client: Client,
            which: Vec<usize>,
            changes: Changes,
            number: Number,
            sent: Option<super::connection::Sent>,
        }
        let mut all = Vec::with_capacity(parts.len());
        for (server, which) in parts {
            let client = match self.way(server) {
                Way::To(client) => client,
                Way::Own => self.clone(),
            };
            let number = client.shared.sender.next(client.server_millis())?;
            let theirs = which.iter().filter_map(|i| changes.get(*i).cloned());
            let changes = Changes {
                asker: asker.cloned(),
                changes: theirs.collect(),
                once: Some(number.marker()),
                again: false,
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
        let mut answers: Vec<Option<Result<Done>>> = changes.iter().map(|_| None).collect();
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
                Some(Err(Broken::Failed(e))) => Err(e),
                // It comes again with its marker.
                Some(Err(Broken::Lost(_) | Broken::Busy { .. } | Broken::Elsewhere { .. }))
                | None => {
                    changes.again = true;
                    self.change_marked_through(&client, &changes, sync)
                }
            };
            number.settle();
            self.saw(Version(client.newest()));
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
            // Others' are done.
            let why = e.to_string();
            for place in answers.iter_mut().filter(|a| a.is_none()) {
                *place = Some(Err(Error::Unavailable(why.clone())));
            }
        }
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        self.whole(answers, changes.len())
    }

    /// The answer to changes that were sent through another client.
    fn changed(
        &self,
        client: &Self,
        sent: &super::connection::Sent,
        count: usize,
    ) -> Result<Vec<Result<Done>>, Broken> {
        let mut outcomes = Vec::with_capacity(count);
        client.receive(sent, Wait::default(), &mut |reply| {
            if self.take_changed(&mut outcomes, reply)? {
                Ok(std::ops::ControlFlow::Continue(()))
            } else {
                Err(self.stray())
            }
        })?;
        let newest = outcomes.iter().flatten().map(|done: &Done| done.version);
        client.saw(newest.max().unwrap_or(Version::ZERO));
        Ok(self.whole(outcomes, count)?)
    }
}

/// The path of a change that concerns one entry, which nothing else lies below and which no other name leads to.
fn plain(change: &Change) -> Option<&NamePath> {
    match change {
        Change::Make(path, make) => match Kind::of_mode(make.mode) {
            Some(Kind::Directory | Kind::Symlink) | None => None,
            Some(_) => Some(path),
        },
        Change::Unlink(path) => Some(path),
        _ => None,
    }
}
