//! Clients: each is a session that carries the newest version it has seen, calls a random server each time, and
//! repeats a batch at the same server until the outcome is known.

use super::cluster::Cluster;
use super::request::{ClientRequest, ClientResponse, newest_seen};
use super::workload::{WorkloadGraph, WorkloadParams, WrittenItems};
use crate::rng::Rng;
use esker_model::{ErrorKind, Version};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A call and its outcome.
#[derive(Debug, Clone)]
pub struct Record {
    /// Index of the client.
    pub client: usize,
    /// Index of the server.
    pub server: usize,
    /// Time of the first attempt, in microseconds.
    pub begin: u64,
    /// Time of the response, in microseconds.
    pub end: u64,
    /// Newest version that the client had seen.
    pub seen: Version,
    /// Number of attempts to send.
    pub attempts: u32,
    /// Request that was sent.
    pub request: ClientRequest,
    /// Response of the server, or its error.
    pub response: Result<ClientResponse, Refused>,
}

/// An error response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Kind of the error, which says what the caller can do.
    pub kind: ErrorKind,
    /// Message of the error.
    pub message: String,
}

/// State shared by all clients.
pub struct Clients {
    /// Cluster that the clients call.
    pub cluster: Rc<Cluster>,
    /// Test graph of the workload.
    pub graph: WorkloadGraph,
    /// Parameters of the workload.
    pub params: WorkloadParams,
    /// All calls, in the order of their responses.
    pub records: RefCell<Vec<Record>>,
    /// Versions that some client has seen.
    times: RefCell<Vec<Version>>,
    /// Number of batches so far.
    batches: Cell<u64>,
    /// Number of clients that have not finished.
    pub busy: Cell<usize>,
}

impl Clients {
    /// Creates clients that have not begun.
    pub fn new(cluster: &Rc<Cluster>, graph: WorkloadGraph, params: WorkloadParams) -> Rc<Self> {
        Rc::new(Self {
            cluster: Rc::clone(cluster),
            graph,
            params,
            records: RefCell::default(),
            times: RefCell::default(),
            batches: Cell::new(0),
            busy: Cell::new(0),
        })
    }

    /// Returns the number of the next batch.
    pub fn number(&self) -> u64 {
        let number = self.batches.get();
        self.batches.set(number + 1);
        number
    }

    /// Repeats a request until there is a response. Reads may be repeated on another server.
    pub async fn call_until_answered(
        &self,
        client: usize,
        rng: &mut Rng,
        request: ClientRequest,
        seen: Version,
    ) -> Record {
        let (shared, timeout) = (self.cluster.shared(), self.cluster.shape.timeout);
        let begin = shared.now();
        let mut server = rng.number_below(self.cluster.len());
        let writes = matches!(request, ClientRequest::Apply(_));
        let mut attempts = 0;
        loop {
            attempts += 1;
            // A client that is too impatient increases its timeout.
            let wait = timeout.max((timeout * u64::from(attempts)).min(20_000_000));
            shared.note(|| {
                format!("client {client} asks server {server} (seen {seen:?}): {request:?}")
            });
            let response = self.cluster.call(server, request.clone(), seen, wait).await;
            shared.note(|| format!("client {client} hears from server {server}: {response:?}"));
            let response = response.map_err(|e| Refused {
                kind: e.kind(),
                message: e.to_string(),
            });
            let again = matches!(&response, Err(e) if e.kind == ErrorKind::Unavailable);
            if !again {
                return Record {
                    client,
                    server,
                    begin,
                    end: shared.now(),
                    seen,
                    attempts,
                    request,
                    response,
                };
            }
            shared.sleep(1000 + rng.number_below(100_000) as u64).await;
            if !writes {
                server = rng.number_below(self.cluster.len());
            } else if server >= self.cluster.len() {
                // There are fewer servers now.
                server %= self.cluster.len();
            }
        }
    }

    /// Inserts every vertex, before the clients begin.
    pub async fn begin(&self, mut rng: Rng) {
        let number = self.number();
        let batch = self.graph.insert_all(&mut rng, number);
        let record = self
            .call_until_answered(
                usize::MAX,
                &mut rng,
                ClientRequest::Apply(batch),
                Version::ZERO,
            )
            .await;
        if let Ok(response) = &record.response {
            self.times.borrow_mut().push(response.newest());
        }
        self.records.borrow_mut().push(record);
    }

    /// Runs one client for a number of calls.
    pub async fn run_client(
        self: Rc<Self>,
        (client, clients): (usize, usize),
        mut rng: Rng,
        calls: usize,
    ) {
        // All clients have seen the initial batch.
        let begun = self.times.borrow().first().copied();
        let mut seen = begun.unwrap_or(Version::ZERO);
        let mut known = WrittenItems::new(client, clients);
        for _ in 0..calls {
            let request = if rng.percent(self.params.reads_percent) {
                let times = self.times.borrow().clone();
                self.graph
                    .read_request(&mut rng, &self.params, &times, &known)
            } else {
                let number = self.number();
                ClientRequest::Apply(self.graph.batch(&mut rng, &self.params, number, &known))
            };
            let record = self
                .call_until_answered(client, &mut rng, request, seen)
                .await;
            if let Ok(response) = &record.response {
                // Versions in the future that came with changes were seen, too, by clients that read them.
                let shown = newest_seen(&record.request, response);
                seen = seen.max(shown);
                if let (ClientResponse::Commit(_), ClientRequest::Apply(batch)) =
                    (response, &record.request)
                {
                    known.learn(batch);
                }
                if shown > Version::ZERO {
                    self.times.borrow_mut().push(shown);
                }
            }
            self.records.borrow_mut().push(record);
            if rng.percent(50) {
                let pause = rng.number_below(self.cluster.shape.pause_max) as u64;
                self.cluster.shared().sleep(pause).await;
            }
        }
        self.busy.set(self.busy.get() - 1);
    }
}
