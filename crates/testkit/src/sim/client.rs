//! Clients: each a session that carries the newest version it has seen, asks a random server each time, and repeats a batch
//! at the same server until it knows what became of it.

use super::ask::{Ask, Told, seen_by};
use super::cluster::Cluster;
use super::workload::{Ground, Known, Taste};
use crate::rng::Rng;
use esker_model::{ErrorKind, Version};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A call, and what became of it.
#[derive(Debug, Clone)]
pub struct Record {
    /// Whose.
    pub client: usize,
    /// Whom it asked.
    pub server: usize,
    /// When it asked first, in microseconds.
    pub begin: u64,
    /// When it was answered.
    pub end: u64,
    /// The newest version that it had seen.
    pub seen: Version,
    /// How often it had to ask.
    pub attempts: u32,
    /// What.
    pub ask: Ask,
    /// The answer.
    pub told: Result<Told, Refused>,
}

/// An answer that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// In words.
    pub said: String,
}

/// What all clients share.
pub struct Clients {
    /// Whom they ask.
    pub cluster: Rc<Cluster>,
    /// What about.
    pub ground: Ground,
    /// How.
    pub taste: Taste,
    /// All that happened, in the order of the answers.
    pub records: RefCell<Vec<Record>>,
    /// Versions that somebody has seen.
    times: RefCell<Vec<Version>>,
    /// Batches so far.
    batches: Cell<u64>,
    /// Clients that have not finished.
    pub busy: Cell<usize>,
}

impl Clients {
    /// Clients that have not begun.
    pub fn new(cluster: &Rc<Cluster>, ground: Ground, taste: Taste) -> Rc<Self> {
        Rc::new(Self {
            cluster: Rc::clone(cluster),
            ground,
            taste,
            records: RefCell::default(),
            times: RefCell::default(),
            batches: Cell::new(0),
            busy: Cell::new(0),
        })
    }

    /// The next batch's number.
    pub fn number(&self) -> u64 {
        let number = self.batches.get();
        self.batches.set(number + 1);
        number
    }

    /// Asks until there is an answer. Questions may be repeated elsewhere.
    pub async fn insist(&self, client: usize, rng: &mut Rng, ask: Ask, seen: Version) -> Record {
        let (shared, patience) = (self.cluster.shared(), self.cluster.shape.patience);
        let begin = shared.now();
        let mut server = rng.below(self.cluster.len());
        let writes = matches!(ask, Ask::Apply(_));
        let mut attempts = 0;
        loop {
            attempts += 1;
            // Who was too impatient learns it.
            let wait = patience.max((patience * u64::from(attempts)).min(20_000_000));
            shared
                .note(|| format!("client {client} asks server {server} (seen {seen:?}): {ask:?}"));
            let told = self.cluster.ask(server, ask.clone(), seen, wait).await;
            shared.note(|| format!("client {client} hears from server {server}: {told:?}"));
            let told = told.map_err(|e| Refused {
                kind: e.kind(),
                said: e.to_string(),
            });
            let again = matches!(&told, Err(e) if e.kind == ErrorKind::Unavailable);
            if !again {
                return Record {
                    client,
                    server,
                    begin,
                    end: shared.now(),
                    seen,
                    attempts,
                    ask,
                    told,
                };
            }
            shared.sleep(1000 + rng.below(100_000) as u64).await;
            if !writes {
                server = rng.below(self.cluster.len());
            } else if server >= self.cluster.len() {
                // There are fewer now.
                server %= self.cluster.len();
            }
        }
    }

    /// Inserts every vertex, before anybody lives.
    pub async fn begin(&self, mut rng: Rng) {
        let number = self.number();
        let batch = self.ground.everything(&mut rng, number);
        let record = self
            .insist(usize::MAX, &mut rng, Ask::Apply(batch), Version::ZERO)
            .await;
        if let Ok(told) = &record.told {
            self.times.borrow_mut().push(told.newest());
        }
        self.records.borrow_mut().push(record);
    }

    /// One client's life: so many calls.
    pub async fn live(
        self: Rc<Self>,
        (client, clients): (usize, usize),
        mut rng: Rng,
        calls: usize,
    ) {
        // All know of the beginning.
        let begun = self.times.borrow().first().copied();
        let mut seen = begun.unwrap_or(Version::ZERO);
        let mut known = Known::new(client, clients);
        for _ in 0..calls {
            let ask = if rng.percent(self.taste.questions) {
                let times = self.times.borrow().clone();
                self.ground.question(&mut rng, &self.taste, &times, &known)
            } else {
                let number = self.number();
                Ask::Apply(self.ground.batch(&mut rng, &self.taste, number, &known))
            };
            let record = self.insist(client, &mut rng, ask, seen).await;
            if let Ok(told) = &record.told {
                // Versions in the future that changes brought along were seen too, by whoever read them.
                let shown = seen_by(&record.ask, told);
                seen = seen.max(shown);
                if let (Told::Commit(_), Ask::Apply(batch)) = (told, &record.ask) {
                    known.learn(batch);
                }
                if shown > Version::ZERO {
                    self.times.borrow_mut().push(shown);
                }
            }
            self.records.borrow_mut().push(record);
            if rng.percent(50) {
                let pause = rng.below(self.cluster.shape.leisure) as u64;
                self.cluster.shared().sleep(pause).await;
            }
        }
        self.busy.set(self.busy.get() - 1);
    }
}
