//! Simulation of objects in a cluster under faults: each client creates, tags, moves and deletes objects of its own,
//! under ID attributes that all clients want, and knows what each read must return.
//!
//! No client changes another's objects, so a client that got a response knows its objects exactly, and every later
//! search through any server must return them. Clients compete for names: while one of them has ID attributes, no
//! other may get them; and a client to which they were refused must have met one that had them.

mod object_client;
pub mod pages;
pub mod visibility;

use super::blocking_client::BlockingClient;
use super::check::Findings;
use super::client::Clients;
use super::cluster::{Cluster, Subject};
use super::exec::OUTSIDE;
use super::fault_schedule::run_clients;
use super::request::{ClientRequest, ClientResponse};
use super::scenario::{FaultLevel, RunReport, Scenario, started};
use super::workload::WorkloadGraph;
use crate::rng::Rng;
use esker_model::filter::{Comparison, Expr, Term, Test};
use esker_model::object::{Find, Found, Identity, ObjectId, ObjectKey};
use esker_model::{Properties, Schema, Value, Version};
use object_client::ObjectClient;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// One minute in microseconds.
const MINUTE: u64 = 60_000_000;
/// Name of the tag with the client's number.
const CLIENT: &str = "client";
/// Name of the tag that several objects get at once.
const PAIR: &str = "pair";
/// Number of names that all clients want, and of time steps of each.
const NAMES: usize = 2;
const STEPS: usize = 4;

/// An object as its client knows it.
#[derive(Debug, Clone, PartialEq)]
struct OwnObject {
    identity: Identity,
    tags: Properties,
}

/// A period in which ID attributes were, or may have been, a client's.
#[derive(Debug, Clone)]
struct NameOwnership {
    identity: Identity,
    client: usize,
    /// Time at which the client began to try for them.
    from: u64,
    /// Time of the response that they are no longer the client's.
    until: Option<u64>,
    /// Whether the client certainly has them: it got a response, and has not begun to give them up.
    certain: bool,
}

/// State shared by all clients.
struct ObjectsState {
    clients: Rc<Clients>,
    schema: std::sync::Arc<Schema>,
    ownerships: RefCell<Vec<NameOwnership>>,
    mine: RefCell<Vec<BTreeMap<ObjectId, OwnObject>>>,
    /// ID attributes that were refused, all or some of them, with begin and end of the call.
    refusals: RefCell<Vec<(Vec<Identity>, u64, u64)>>,
    findings: RefCell<Findings>,
    /// Whether no faults are injected.
    faultless: bool,
    applied: Cell<usize>,
    records: Cell<usize>,
}

/// Runs the simulation of a seed with all checks. With `tracing` the last events are kept.
pub fn run(seed: u64, level: FaultLevel, tracing: bool) -> RunReport {
    run_scenario(Scenario::of(seed, level, Subject::Nodes), tracing)
}

/// Runs the simulation with ephemeral stores.
pub fn run_ephemeral(seed: u64, level: FaultLevel, tracing: bool) -> RunReport {
    let mut scenario = Scenario::of(seed, level, Subject::Nodes);
    scenario.shape.windows = true;
    run_scenario(scenario, tracing)
}

fn run_scenario(mut scenario: Scenario, tracing: bool) -> RunReport {
    let seed = scenario.seed;
    scenario.clients = 1 + (seed % 4) as usize;
    let cluster = Cluster::new(seed ^ 0x6f62_6a65, scenario.shape, tracing);
    let mut report = RunReport::default();
    if let Err(why) = run_on(&scenario, &cluster, &mut report) {
        report.findings.push(why);
    }
    report.collect(&cluster);
    report
}

fn run_on(
    scenario: &Scenario,
    cluster: &Rc<Cluster>,
    report: &mut RunReport,
) -> Result<(), String> {
    let client_view = started(cluster, scenario.seed)?;
    let node = cluster.node(0).ok_or("server 0 is not there")?;
    let schema = node.schema().map_err(|e| e.to_string())?;
    drop(node);
    let all = Rc::new(ObjectsState {
        clients: Clients::new(cluster, WorkloadGraph::new(1), scenario.params),
        schema,
        ownerships: RefCell::default(),
        mine: RefCell::new(vec![BTreeMap::new(); scenario.clients]),
        refusals: RefCell::default(),
        findings: RefCell::default(),
        faultless: scenario.level == FaultLevel::Faultless,
        applied: Cell::new(0),
        records: Cell::new(0),
    });
    let mut rng = Rng::new(scenario.seed ^ 0x6f62_6a73);
    let busy = &all.clients.busy;
    busy.set(scenario.clients);
    run_clients(
        scenario,
        (cluster, &client_view),
        &mut rng,
        &|| busy.get(),
        &mut |rng| {
            for client in 0..scenario.clients {
                let client_run =
                    Rc::clone(&all).run_client(client, Rng::new(rng.next()), scenario.calls);
                cluster.exec.spawn(OUTSIDE, Box::pin(client_run));
            }
        },
    )?;
    report.records = all.records.get();
    report.applied = all.applied.get();
    all.check_refusals();
    report.findings.append(&mut all.findings.borrow_mut());
    all.check_final_state(cluster, &client_view, report)
}

impl ObjectsState {
    fn finding(&self, what: String) {
        self.clients.cluster.shared().note(|| what.clone());
        self.findings.borrow_mut().push(what);
    }

    fn now(&self) -> u64 {
        self.clients.cluster.shared().now()
    }

    /// Runs one client.
    async fn run_client(self: Rc<Self>, client: usize, mut rng: Rng, calls: usize) {
        let mut client_run = ObjectClient {
            all: &self,
            client,
            seen: Version::ZERO,
            steps: 0,
            number: 0,
        };
        for _ in 0..calls {
            client_run.step(&mut rng).await;
            if rng.percent(50) {
                let pause = rng.number_below(self.clients.cluster.shape.pause_max) as u64;
                self.clients.cluster.shared().sleep(pause).await;
            }
        }
        self.clients.busy.set(self.clients.busy.get() - 1);
    }

    /// Records that a client has ID attributes: no other may certainly have them.
    fn record_acquired(&self, client: usize, identity: &Identity, from: u64) {
        let mut ownerships = self.ownerships.borrow_mut();
        let other = ownerships
            .iter()
            .find(|h| h.certain && h.identity == *identity);
        let other = other.map(|h| h.client);
        ownerships.push(NameOwnership {
            identity: identity.clone(),
            client,
            from,
            until: None,
            certain: true,
        });
        drop(ownerships);
        if let Some(other) = other {
            self.finding(format!(
                "client {client} got {identity}, which client {other} has"
            ));
        }
    }

    /// Records that a client begins to give ID attributes up, or has failed to.
    fn set_certain(&self, client: usize, identity: &Identity, certain: bool) {
        let mut ownerships = self.ownerships.borrow_mut();
        let mut own = ownerships.iter_mut().rev();
        let own = own.find(|h| h.client == client && h.identity == *identity && h.until.is_none());
        if let Some(ownership) = own {
            ownership.certain = certain;
        }
    }

    fn record_released(&self, client: usize, identity: &Identity) {
        let now = self.now();
        let mut ownerships = self.ownerships.borrow_mut();
        let mut own = ownerships.iter_mut().rev();
        let own = own.find(|h| h.client == client && h.identity == *identity && h.until.is_none());
        if let Some(ownership) = own {
            ownership.until = Some(now);
            ownership.certain = false;
        }
    }

    /// Checks that each client to which ID attributes were refused met one that had them; done at the end, when all is known.
    fn check_refusals(&self) {
        for (identities, begin, end) in &*self.refusals.borrow() {
            let ownerships = self.ownerships.borrow();
            let met = ownerships.iter().any(|h| {
                identities.contains(&h.identity)
                    && h.from <= *end
                    && h.until.is_none_or(|until| until >= *begin)
            });
            drop(ownerships);
            if !met {
                self.finding(format!(
                    "{identities:?} were refused from {begin} to {end} us, and nobody had any of them"
                ));
            }
        }
    }

    /// Checks the final state of all servers and engines.
    fn check_final_state(
        &self,
        cluster: &Rc<Cluster>,
        client_view: &BlockingClient,
        report: &mut RunReport,
    ) -> Result<(), String> {
        let newest = (0..cluster.len()).filter_map(|at| cluster.newest(at)).max();
        client_view.seen.set(newest.unwrap_or(Version::ZERO));
        let mut known = BTreeMap::new();
        for mine in self.mine.borrow().iter() {
            known.extend(mine.clone());
        }
        let findings = &mut report.findings;
        for at in 0..cluster.len() {
            let response = client_view.call_at(at, &ClientRequest::Find(Find::all(Expr::All)));
            let ClientResponse::Found(found, report) =
                response.map_err(|e| format!("at rest: {e}"))?
            else {
                return Err("a response of another kind than the request's".into());
            };
            if !report.complete || !report.missing.is_empty() {
                findings.push(format!("server {at} finds some at rest: {report:?}"));
            }
            differences(&known, &found, &format!("server {at} at rest"), findings);
            for client in 0..self.mine.borrow().len() {
                let response =
                    client_view.call_at(at, &ClientRequest::Find(Find::all(of_client(client))));
                let ClientResponse::Found(found, _) =
                    response.map_err(|e| format!("at rest: {e}"))?
                else {
                    return Err("a response of another kind than the request's".into());
                };
                let mine = &self.mine.borrow()[client];
                differences(mine, &found, &format!("client {client} at rest"), findings);
            }
        }
        let keys: Vec<ObjectKey> = known.values().map(|m| m.identity.clone().into()).collect();
        let response = client_view
            .call(&ClientRequest::Objects(keys))
            .map_err(|e| format!("at rest: {e}"))?;
        let ClientResponse::Objects(found) = response else {
            return Err("a response of another kind than the request's".into());
        };
        let ids: Vec<Option<ObjectId>> = found.iter().map(|f| f.as_ref().map(|f| f.id)).collect();
        let expected: Vec<Option<ObjectId>> = known.keys().map(|id| Some(*id)).collect();
        if ids != expected {
            findings.push(format!(
                "by ID attributes at rest: {ids:?}, not {expected:?}"
            ));
        }
        let Some(map) = cluster.map() else {
            return Err("the cluster has no map".into());
        };
        for at in 0..cluster.len() {
            let Some(engine) = cluster.engine_of(at) else {
                continue;
            };
            let response =
                super::request::call_engine(&engine, ClientRequest::Find(Find::all(Expr::All)));
            let Ok(ClientResponse::Found(found, _)) = response else {
                findings.push(format!("engine {at} at rest: {response:?}"));
                continue;
            };
            for object in found {
                if map
                    .home(object.id.vertex())
                    .is_some_and(|home| home.0 as usize != at)
                {
                    findings.push(format!("object {} is on server {at}", object.id));
                }
            }
        }
        Ok(())
    }
}

/// Filter for all objects of a client.
fn of_client(client: usize) -> Expr {
    Expr::Term(Term {
        name: CLIENT.into(),
        test: Test::Compare(Comparison::Eq, Value::I64(client as i64)),
    })
}

/// Records the differences between known and found objects.
fn differences(
    known: &BTreeMap<ObjectId, OwnObject>,
    found: &[Found],
    whose: &str,
    findings: &mut Findings,
) {
    let mut ids = BTreeSet::new();
    for object in found {
        if !ids.insert(object.id) {
            findings.push(format!("{whose}: object {} twice", object.id));
        }
        match known.get(&object.id) {
            None => findings.push(format!("{whose}: {object:?}, which should not be there")),
            Some(mine) => {
                if object.identity().as_ref() != Some(&mine.identity) || object.tags != mine.tags {
                    findings.push(format!("{whose}: {object:?}, not {mine:?}"));
                }
            }
        }
    }
    for (id, mine) in known {
        if !ids.contains(id) {
            findings.push(format!("{whose}: no object {id}: {mine:?}"));
        }
    }
}
