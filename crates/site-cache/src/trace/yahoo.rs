//! Generator of traces like the paper's Yahoo! audit logs, from a seed.
//!
//! Those logs are not freely available. The paper describes them: most directories are listed once or rarely; siblings under
//! hot parents are listed in random order, once or a few times; noisy neighbours are interleaved; names are encrypted to
//! 28 bytes; the logs span several days. Here, *jobs* each list the children of one directory in an order of their own, many jobs
//! at once, among listings of directories that are never requested again, and repetitions of recent listings.
//! Most jobs return the next day with the same order, which is what AMP can learn. The shares are such that an LRU cache
//! has the paper's 14 % of hits: any gain of a predictor is then its own, within this description.

use super::{Event, Op, Traces};
use crate::error::{Error, Result};
use crate::path::PathId;

/// Settings of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratorSettings {
    /// Seed that determines the trace.
    pub seed: u64,
    /// Day, from 0: jobs return on later days.
    pub day: u32,
    /// Number of read requests.
    pub operations: u64,
    /// Number of clients that run jobs.
    pub clients: u32,
    /// Number of concurrent jobs.
    pub jobs: u32,
    /// Minimum and maximum number of directories under a hot parent; few have many.
    pub siblings: (u32, u32),
    /// Share of requests for directories that are never requested again.
    pub cold: f64,
    /// Share of requests that repeat one of the last 2,000.
    pub repeated: f64,
    /// Share of requests that open a file under a hot parent.
    pub opened: f64,
    /// Share of jobs that return every day with the same order.
    pub daily: f64,
    /// Share of directories under a hot parent that are never listed.
    pub unread: f64,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            day: 0,
            operations: 1_000_000,
            clients: 200,
            jobs: 40,
            siblings: (120, 5_000),
            cold: 0.09,
            repeated: 0.14,
            opened: 0.02,
            daily: 0.9,
            unread: 0.1,
        }
    }
}

impl GeneratorSettings {
    /// Returns the settings for a day of `operations` requests: below a million, fewer jobs run at once and directories are smaller,
    /// so that the working set remains the same share of all directories.
    pub fn of(operations: u64) -> Self {
        let all = Self::default();
        let scale = (operations as f64 / all.operations as f64).min(1.0);
        let (least, most) = all.siblings;
        // Half of the reduction is in the number of jobs, half in their size.
        let root = scale.sqrt();
        Self {
            operations,
            jobs: ((f64::from(all.jobs) * root).round() as u32).max(2),
            siblings: (
                ((f64::from(least) * root) as u32).max(4),
                ((f64::from(most) * root) as u32).max(16),
            ),
            ..all
        }
    }
}

/// Microseconds of a day.
const DAY: f64 = 86_400e6;
const RECENT: usize = 2_000;

/// `SplitMix64`: small, and the same everywhere.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn new(parts: &[u64]) -> Self {
        let mut random = Self(0x1234_5678);
        for part in parts {
            random.0 ^= *part;
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next_below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound.max(1) as u128) >> 64) as usize
    }
}

/// Returns a name of 28 bytes, like the encrypted ones.
fn name(parts: &[u64]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut random = Random::new(parts);
    let mut name = String::with_capacity(28);
    for _ in 0..28 {
        name.push(char::from(LETTERS[random.next_below(64)]));
    }
    name
}

struct Job {
    client: u32,
    parent: PathId,
    identity: u64,
    order: Vec<u32>,
    next: usize,
    opened: u32,
}

struct Maker<'a> {
    traces: &'a mut Traces,
    settings: GeneratorSettings,
    random: Random,
    events: Vec<Event>,
    t: f64,
    begun: u64,
    clients: Vec<u32>,
}

/// Generates the trace of one day.
pub fn make(traces: &mut Traces, settings: GeneratorSettings) -> Result<Vec<Event>> {
    let shares = [
        settings.cold,
        settings.repeated,
        settings.opened,
        settings.daily,
        settings.unread,
    ];
    if shares.iter().any(|s| !(0.0..=1.0).contains(s))
        || settings.cold + settings.repeated + settings.opened > 1.0
    {
        return Err(Error::Setting(
            "shares are between 0 and 1, and so is the sum of those of requests".into(),
        ));
    }
    let (least, most) = settings.siblings;
    if least == 0 || most < least || settings.jobs == 0 || settings.clients == 0 {
        return Err(Error::Setting(
            "expected at least one client, one job and one sibling".into(),
        ));
    }
    let clients = (0..settings.clients)
        .map(|n| traces.client(&format!("client{n:04}")))
        .collect();
    let maker = Maker {
        traces,
        settings,
        random: Random::new(&[settings.seed, u64::from(settings.day), 1]),
        events: Vec::new(),
        t: f64::from(settings.day) * DAY,
        begun: 0,
        clients,
    };
    maker.make()
}

impl Maker<'_> {
    fn make(mut self) -> Result<Vec<Event>> {
        let settings = self.settings;
        let mut jobs = Vec::new();
        for _ in 0..settings.jobs {
            jobs.push(self.job()?);
        }
        // At the start of a day, jobs are at random positions, so that they do not all end together.
        for job in &mut jobs {
            job.next = self.random.next_below(job.order.len());
        }
        let mut recent: Vec<PathId> = Vec::with_capacity(RECENT);
        let mut reads = 0;
        let pace = DAY / settings.operations.max(1) as f64;
        while reads < settings.operations {
            self.t -= pace * (1.0 - self.random.unit()).ln();
            let turn = self.random.next_below(jobs.len());
            let client = jobs[turn].client;
            let draw = self.random.unit();
            let (op, path) = if draw < settings.repeated {
                if recent.is_empty() {
                    continue;
                }
                (Op::List, recent[self.random.next_below(recent.len())])
            } else if draw < settings.repeated + settings.cold {
                (Op::List, self.cold()?)
            } else if draw < settings.repeated + settings.cold + settings.opened {
                let job = &mut jobs[turn];
                job.opened += 1;
                let file = name(&[job.identity, 3, u64::from(job.opened)]);
                let path = self.traces.paths.child(job.parent, file.as_bytes())?;
                (Op::Open, path)
            } else {
                if jobs[turn].next >= jobs[turn].order.len() {
                    jobs[turn] = self.job()?;
                }
                let job = &mut jobs[turn];
                let sibling = job.order[job.next];
                job.next += 1;
                let (parent, identity) = (job.parent, job.identity);
                (Op::List, self.sibling(parent, identity, sibling)?)
            };
            if op == Op::List {
                if recent.len() < RECENT {
                    recent.push(path);
                } else {
                    recent[reads as usize % RECENT] = path;
                }
            }
            self.event(client, op, path, op == Op::List);
            reads += 1;
        }
        Ok(self.events)
    }

    fn event(&mut self, client: u32, op: Op, path: PathId, directory: bool) {
        self.events.push(Event {
            t: self.t as u64,
            client,
            op,
            path,
            to: None,
            found: None,
            directory,
        });
    }

    /// Starts the next job of the day and creates the directories that will not be listed.
    fn job(&mut self) -> Result<Job> {
        let settings = self.settings;
        let number = self.begun;
        self.begun += 1;
        let mut random = Random::new(&[settings.seed, 2, number]);
        let daily = random.unit() < settings.daily;
        let identity = if daily {
            number
        } else {
            number | ((u64::from(settings.day) + 1) << 40)
        };
        let mut random = Random::new(&[settings.seed, 4, identity]);
        let (least, most) = settings.siblings;
        let size = f64::from(least) * (1.0 - random.unit()).powf(-1.0 / 1.3);
        let size = size.min(f64::from(most)) as u32;
        let mut order: Vec<u32> = (0..size).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.next_below(at + 1));
        }
        let group = name(&[settings.seed, 5, identity % 97]);
        let root = self.traces.root;
        let group = self.traces.paths.child(root, group.as_bytes())?;
        let parent = name(&[settings.seed, 6, identity]);
        let parent = self.traces.paths.child(group, parent.as_bytes())?;
        let client = self.clients[(number % self.clients.len() as u64) as usize];
        for extra in 0..(f64::from(size) * settings.unread) as u32 {
            let path = self.sibling(parent, identity, size + extra)?;
            self.event(client, Op::Create, path, true);
        }
        Ok(Job {
            client,
            parent,
            identity,
            order,
            next: 0,
            opened: 0,
        })
    }

    fn sibling(&mut self, parent: PathId, identity: u64, sibling: u32) -> Result<PathId> {
        let name = name(&[self.settings.seed, 7, identity, u64::from(sibling)]);
        self.traces.paths.child(parent, name.as_bytes())
    }

    /// Returns a directory that is never requested again, alone in its parent.
    fn cold(&mut self) -> Result<PathId> {
        let mut at = self.traces.root;
        for depth in 0..3 {
            let part = match depth {
                0 => self.random.next_below(500) as u64,
                _ => self.random.next(),
            };
            let name = name(&[self.settings.seed, 8 + depth, part]);
            at = self.traces.paths.child(at, name.as_bytes())?;
        }
        Ok(at)
    }
}
