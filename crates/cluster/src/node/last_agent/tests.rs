//! Two nodes and a network between them that loses chosen messages.

use super::super::codec::DECIDED;
use super::super::{BoxFuture, Host, PAGE_ROWS, Settings};
use super::*;
use crate::peer::{PeerRequest, PeerResponse};
use crate::{Clock, Engine, Kind};
use esker_engine::NoArchive;
use esker_model::{
    Batch, Flow, GraphRead as _, Op, Properties, Schema, Value, Version, VertexName, VertexRef,
};
use esker_store::memory::MemoryStore;
use esker_store::{KeyRange, Read as _, Store, Table};
use futures_util::FutureExt as _;
use std::sync::{Mutex, Weak};

const IDS: [ServerId; 2] = [ServerId(0), ServerId(1)];

/// Fate of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    IsLost,
    /// It arrives, and its answer does not.
    IsNotAnswered,
}

type FateOf = fn(&Request) -> Fate;

/// Both nodes, the requests so far, and the tasks that wait to be run.
struct Network {
    nodes: Mutex<[Weak<Node>; 2]>,
    fate: Mutex<FateOf>,
    requests: Mutex<Vec<PeerRequest>>,
    tasks: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl Network {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            nodes: Mutex::default(),
            fate: Mutex::new(|_| Fate::Arrives),
            requests: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    fn set_fate(&self, fate: FateOf) {
        *self.fate.lock().unwrap() = fate;
    }

    /// Runs the tasks that were started so far; one that still waits is dropped.
    fn run_tasks(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        for task in tasks {
            let _ = task.now_or_never();
        }
    }

    /// Takes the requests so far that belong to a transaction.
    fn take_requests(&self) -> Vec<PeerRequest> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let of_transactions = |r: &PeerRequest| {
            matches!(
                r.request,
                Request::Prepare { .. }
                    | Request::Commit(_)
                    | Request::Abort { .. }
                    | Request::Decide(_)
                    | Request::Outcome { .. }
            )
        };
        requests.into_iter().filter(of_transactions).collect()
    }
}

struct Link(Arc<Network>);

impl Host for Link {
    fn call(
        &self,
        to: ServerId,
        question: PeerRequest,
    ) -> BoxFuture<'static, Result<PeerResponse>> {
        let network = Arc::clone(&self.0);
        Box::pin(async move {
            network.requests.lock().unwrap().push(question.clone());
            let fate = network.fate.lock().unwrap()(&question.request);
            let node = network.nodes.lock().unwrap()[to.0 as usize].upgrade();
            let lost = || Error::Unavailable(format!("{to} does not answer"));
            let node = node.filter(|_| fate != Fate::IsLost).ok_or_else(lost)?;
            let answer = node.handle(question).await;
            (fate == Fate::Arrives).then_some(answer).ok_or_else(lost)
        })
    }

    fn sleep(&self, _millis: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.tasks.lock().unwrap().push(task);
    }
}

struct StoppedClock;

impl Clock for StoppedClock {
    fn now_millis(&self) -> u64 {
        1_000_000
    }

    fn monotonic_micros(&self) -> u64 {
        0
    }
}

fn open(network: &Arc<Network>, store: &Arc<MemoryStore>, id: ServerId) -> Arc<Node> {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let clock = Arc::new(StoppedClock) as Arc<dyn Clock>;
    let settings = esker_engine::Settings::default();
    let engine = Engine::open(store, Arc::clone(&clock), Arc::new(NoArchive), settings).unwrap();
    let settings = Settings {
        id,
        servers: IDS.to_vec(),
        vnodes: 16,
        placement: Kind::Dido,
        threshold: 128,
        directory_threshold: 128,
        page_rows: PAGE_ROWS,
        table_min_rows: 0,
        replay_millis: 0,
        epoch: 0,
    };
    let host = Arc::new(Link(Arc::clone(network))) as Arc<dyn Host>;
    let node = Node::open(Arc::new(engine), clock, host, settings).unwrap();
    network.nodes.lock().unwrap()[id.0 as usize] = Arc::downgrade(&node);
    node
}

/// The first node coordinates; the second one is the agent.
struct TwoServers {
    network: Arc<Network>,
    stores: [Arc<MemoryStore>; 2],
    nodes: [Arc<Node>; 2],
    schema: Arc<Schema>,
    sequence: u64,
}

impl TwoServers {
    fn start() -> Self {
        let network = Network::new();
        let stores = [(); 2].map(|()| Arc::new(MemoryStore::new()));
        let nodes = [0, 1].map(|n| open(&network, &stores[n], IDS[n]));
        for node in &nodes {
            node.join(&|_| ()).now_or_never().unwrap().unwrap();
        }
        let schema = nodes[0].engine().schema().unwrap();
        network.take_requests();
        Self {
            network,
            stores,
            nodes,
            schema,
            sequence: 0,
        }
    }

    /// A job at home on a server.
    fn job(&self, home: ServerId) -> (VertexRef, String) {
        let jobs = (0..).map(|n| VertexName::parse(&format!("job:{n}")).unwrap());
        let mut jobs = jobs.map(|name| (name.resolve(&self.schema).unwrap(), name.key));
        jobs.find(|(job, _)| self.nodes[0].home(job.id) == home)
            .unwrap()
    }

    /// A batch that concerns both servers and that the first one coordinates.
    fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        for (vertex, key) in IDS.map(|id| self.job(id)) {
            batch.push(Op::EnsureVertex { vertex, key });
        }
        let attributes = Properties::new().with("step", self.sequence as i64);
        for (vertex, _) in IDS.map(|id| self.job(id)) {
            batch.push(Op::SetAttributes {
                vertex,
                set: attributes.clone(),
                remove: Vec::new(),
            });
        }
        let key = ProducerKey {
            producer: [7; 16],
            sequence: self.sequence,
            settled_below: self.sequence,
            created_millis: 1_000_000,
        };
        self.sequence += 1;
        batch.idempotency_key = Some(key.encode());
        batch
    }

    fn apply(&self, batch: &Batch) -> Result<Commit> {
        let done = self.nodes[0].apply(batch.clone(), Version::ZERO);
        done.now_or_never().expect("it waits for no event")
    }

    /// The present step of each job, as its server stores it.
    fn steps(&self) -> [Option<i64>; 2] {
        [0, 1].map(|n| {
            let (job, _) = self.job(IDS[n]);
            let found = self.nodes[n]
                .engine()
                .read_vertices(&[job.id], Version::MAX);
            let vertex = found.unwrap().pop().flatten()?;
            let step = vertex
                .user
                .iter()
                .find(|attribute| attribute.name == "step")?;
            match step.value {
                Value::I64(step) => Some(step),
                _ => None,
            }
        })
    }

    /// Number of decisions that a server keeps.
    fn decisions(&self, n: usize) -> usize {
        let mut count = 0;
        let range = KeyRange::prefix(DECIDED);
        self.stores[n]
            .scan(Table::Meta, &range, &mut |_, _| {
                count += 1;
                Flow::Continue(())
            })
            .unwrap();
        count
    }
}

fn kinds(requests: &[PeerRequest]) -> Vec<&'static str> {
    let kind = |r: &PeerRequest| match r.request {
        Request::Decide(_) => "decide",
        Request::Outcome { .. } => "outcome",
        _ => "other",
    };
    requests.iter().map(kind).collect()
}

#[test]
fn one_message_commits_a_batch_on_two_servers() {
    let mut servers = TwoServers::start();
    for step in 0..3 {
        let batch = servers.batch();
        let commit = servers.apply(&batch).unwrap();
        assert!(commit.applied);
        assert_eq!(commit.vertices_created, if step == 0 { 2 } else { 0 });
        assert_eq!(kinds(&servers.network.take_requests()), ["decide"]);
        assert_eq!(servers.steps(), [Some(step); 2]);
        // The agent forgets what the coordinator has applied by then.
        assert_eq!((servers.decisions(0), servers.decisions(1)), (0, 1));
        let again = servers.apply(&batch).unwrap();
        assert!(!again.applied);
        assert_eq!(kinds(&servers.network.take_requests()), [""; 0]);
    }
}

#[test]
fn the_outcome_of_an_unanswered_request_is_asked_for() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(_) => Fate::IsNotAnswered,
        _ => Fate::Arrives,
    });
    let batch = servers.batch();
    assert!(servers.apply(&batch).unwrap().applied);
    let requests = servers.network.take_requests();
    assert_eq!(kinds(&requests), ["decide", "outcome"]);
    assert_eq!(servers.steps(), [Some(0); 2]);
}

#[test]
fn a_lost_request_that_arrives_after_the_question_is_refused() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(delegated) if delegated.tx.number == 1 => Fate::IsLost,
        _ => Fate::Arrives,
    });
    let batch = servers.batch();
    assert!(servers.apply(&batch).unwrap().applied);
    let requests = servers.network.take_requests();
    assert_eq!(kinds(&requests), ["decide", "outcome", "decide"]);
    let next = servers.batch();
    assert!(servers.apply(&next).unwrap().applied);
    let late = servers.nodes[1].handle(requests[0].clone()).now_or_never();
    assert_eq!(late.unwrap().outcome.unwrap(), Response::Over);
    assert_eq!(servers.steps(), [Some(1); 2]);
}

#[test]
fn a_request_that_arrives_twice_is_decided_once() {
    let mut servers = TwoServers::start();
    let batch = servers.batch();
    assert!(servers.apply(&batch).unwrap().applied);
    let requests = servers.network.take_requests();
    let before = servers.nodes[1].engine().newest_commit();
    let again = servers.nodes[1].handle(requests[0].clone()).now_or_never();
    assert!(matches!(
        again.unwrap().outcome,
        Ok(Response::Decided { .. })
    ));
    assert_eq!(servers.nodes[1].engine().newest_commit(), before);
}

/// The batch stays in doubt until the agent answers; then it is applied without its client.
#[test]
fn a_batch_in_doubt_is_settled_later() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(_) => Fate::IsNotAnswered,
        Request::Outcome { .. } => Fate::IsLost,
        _ => Fate::Arrives,
    });
    let batch = servers.batch();
    let failure = servers.apply(&batch).unwrap_err();
    assert!(matches!(failure, Error::Undecided(_)), "{failure}");
    assert_eq!(servers.steps(), [None, Some(0)]);
    // A repetition has to wait.
    let failure = servers.apply(&batch).unwrap_err();
    assert!(matches!(failure, Error::Undecided(_)), "{failure}");
    servers.network.set_fate(|_| Fate::Arrives);
    servers.network.run_tasks();
    assert_eq!(servers.steps(), [Some(0); 2]);
    assert!(!servers.apply(&batch).unwrap().applied);
}

#[test]
fn a_restarted_coordinator_receives_its_part() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(_) => Fate::IsNotAnswered,
        Request::Outcome { .. } => Fate::IsLost,
        _ => Fate::Arrives,
    });
    let batch = servers.batch();
    assert!(servers.apply(&batch).is_err());
    servers.network.tasks.lock().unwrap().clear();
    servers.network.set_fate(|_| Fate::Arrives);
    servers.nodes[0] = open(&servers.network, &servers.stores[0], IDS[0]);
    let joined = servers.nodes[0].join(&|_| ()).now_or_never();
    joined.unwrap().unwrap();
    assert_eq!(servers.steps(), [Some(0); 2]);
    assert!(!servers.apply(&batch).unwrap().applied);
}

/// The coordinator's later messages, which would say that the transaction has ended, do not arrive.
#[test]
fn a_question_alone_ends_what_is_not_decided() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(_) => Fate::IsLost,
        _ => Fate::Arrives,
    });
    let batch = servers.batch();
    let applied = servers.apply(&batch);
    assert!(applied.is_err(), "every attempt is lost: {applied:?}");
    let requests = servers.network.take_requests();
    let late = servers.nodes[1].handle(requests[0].clone()).now_or_never();
    assert_eq!(late.unwrap().outcome.unwrap(), Response::Over);
    assert_eq!(servers.steps(), [None, None]);
}

/// The first batch is in doubt, so that the agent cannot learn that later ones have ended. After its restart only the
/// addressed incarnation says that it had refused the second one.
#[test]
fn a_restarted_agent_decides_nothing_that_its_predecessor_was_asked() {
    let mut servers = TwoServers::start();
    servers.network.set_fate(|request| match request {
        Request::Decide(delegated) if delegated.tx.number == 1 => Fate::IsNotAnswered,
        Request::Decide(_) => Fate::IsLost,
        Request::Outcome { tx } if tx.number == 1 => Fate::IsLost,
        _ => Fate::Arrives,
    });
    let first = servers.batch();
    assert!(servers.apply(&first).is_err());
    servers.network.take_requests();
    let second = servers.batch();
    let applied = servers.apply(&second);
    assert!(applied.is_err(), "every attempt is lost: {applied:?}");
    let requests = servers.network.take_requests();
    servers.nodes[1] = open(&servers.network, &servers.stores[1], IDS[1]);
    let joined = servers.nodes[1].join(&|_| ()).now_or_never();
    joined.unwrap().unwrap();
    let late = servers.nodes[1].handle(requests[0].clone()).now_or_never();
    assert_eq!(late.unwrap().outcome.unwrap(), Response::Over);
    assert_eq!(servers.steps(), [Some(0); 2]);
    servers.network.set_fate(|_| Fate::Arrives);
    servers.network.run_tasks();
    assert!(servers.apply(&second).unwrap().applied);
    assert_eq!(servers.steps(), [Some(1); 2]);
}
