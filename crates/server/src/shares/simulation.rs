//! Random histories of the fair queue in simulated time, with threads that run one job each.

use super::{FairQueue, Share, Started, Taker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Longest time of a job in the random histories.
const JOB_MAX: u64 = 1_000;

/// A random number generator with a seed (`SplitMix64`).
struct SimulationRandom(u64);

impl SimulationRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }
}

/// A job: its client, its number among the client's jobs, and the time that it takes.
#[derive(Debug, Clone, Copy)]
struct SimulatedJob {
    client: usize,
    number: u64,
    takes: u64,
}

/// History of one client.
#[derive(Debug, Default, Clone)]
struct ClientRecord {
    pushed: u64,
    started: u64,
    finished: u64,
    /// Thread time of the jobs that have ended.
    used: u64,
    /// Longest wait of a job, and the largest number of jobs of others that began during one wait.
    longest_wait: u64,
    overtaken: u64,
    /// Number of all jobs begun when a waiting job arrived, first come first.
    arrived: std::collections::VecDeque<(u64, u64)>,
}

/// Threads that take jobs from one queue, in simulated time.
struct Simulation {
    queue: FairQueue<SimulatedJob>,
    shares: Vec<Share>,
    records: Vec<ClientRecord>,
    /// Ends of the running jobs, the earliest first.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    running: Vec<(u64, bool, SimulatedJob, Started)>,
    free_common: usize,
    free_reserved: usize,
    now: u64,
    started: u64,
}

impl Simulation {
    fn new(weights: &[u32], common: usize, reserved: usize, by_count: bool) -> Self {
        let share = |(number, weight): (usize, &u32)| Share {
            client: format!("client {number}").into(),
            weight: *weight,
        };
        Self {
            queue: FairQueue::new(by_count),
            shares: weights.iter().enumerate().map(share).collect(),
            records: vec![ClientRecord::default(); weights.len()],
            ends: BinaryHeap::new(),
            running: Vec::new(),
            free_common: common,
            free_reserved: reserved,
            now: 0,
            started: 0,
        }
    }

    fn push(&mut self, client: usize, takes: u64) {
        let record = &mut self.records[client];
        let number = record.pushed;
        record.pushed += 1;
        record.arrived.push_back((self.now, self.started));
        let job = SimulatedJob {
            client,
            number,
            takes,
        };
        self.queue.push(&self.shares[client], self.now, job);
        self.start();
    }

    /// Lets all idle threads take jobs.
    fn start(&mut self) {
        loop {
            let spares = self.free_reserved > 0;
            let mut taken = None;
            if self.free_reserved > 0 {
                taken = self.queue.take(Taker::Reserved, self.now);
            }
            let reserved = taken.is_some();
            if taken.is_none() && self.free_common > 0 {
                taken = self.queue.take(Taker::Common { spares }, self.now);
            }
            let Some(taken) = taken else {
                return;
            };
            if reserved {
                self.free_reserved -= 1;
            } else {
                self.free_common -= 1;
            }
            let record = &mut self.records[taken.job.client];
            assert_eq!(taken.job.number, record.started, "first come, first served");
            record.started += 1;
            let (arrived, started) = record.arrived.pop_front().unwrap();
            assert_eq!(taken.waited, self.now - arrived);
            record.longest_wait = record.longest_wait.max(taken.waited);
            record.overtaken = record.overtaken.max(self.started - started);
            self.started += 1;
            let end = self.now + taken.job.takes;
            self.ends.push(Reverse((end, self.started)));
            self.running
                .push((self.started, reserved, taken.job, taken.started));
        }
    }

    /// Ends the running job that ends first; returns its client.
    fn step(&mut self) -> Option<usize> {
        let Reverse((end, number)) = self.ends.pop()?;
        self.now = end;
        let at = self.running.iter().position(|(n, ..)| *n == number)?;
        let (_, reserved, job, started) = self.running.swap_remove(at);
        self.queue.finish(&started, end);
        if reserved {
            self.free_reserved += 1;
        } else {
            self.free_common += 1;
        }
        let record = &mut self.records[job.client];
        record.finished += 1;
        record.used += job.takes;
        self.start();
        // No thread that may run a job is idle while one waits.
        assert!(
            self.queue.waiting() == 0
                || self.free_common == 0
                || self.free_reserved > 0
                || self.running.is_empty()
        );
        assert!(self.queue.waiting() == 0 || !self.running.is_empty());
        Some(job.client)
    }

    fn next_end(&self) -> Option<u64> {
        self.ends.peek().map(|Reverse((end, _))| *end)
    }
}

/// In random histories, all jobs run, each client's in their order, and no thread is idle without need.
#[test]
fn every_job_runs_in_random_histories() {
    for seed in 0..1_000 {
        let mut random = SimulationRandom(seed);
        let clients = random.between(1, 12) as usize;
        let weights: Vec<u32> = (0..clients).map(|_| random.between(1, 9) as u32).collect();
        let (common, reserved) = (random.between(1, 8) as usize, random.between(0, 3) as usize);
        let mut simulation = Simulation::new(&weights, common, reserved, seed % 5 == 0);
        let mut arrivals: Vec<(u64, usize, u64)> = (0..random.between(1, 400))
            .map(|_| {
                let at = random.between(0, 20 * JOB_MAX);
                let client = random.between(0, clients as u64 - 1) as usize;
                (at, client, random.between(1, JOB_MAX))
            })
            .collect();
        arrivals.sort_unstable();
        for (at, client, takes) in arrivals {
            while simulation.next_end().is_some_and(|end| end <= at) {
                simulation.step();
            }
            simulation.now = at;
            simulation.push(client, takes);
        }
        while simulation.step().is_some() {}
        for record in &simulation.records {
            assert_eq!(record.finished, record.pushed, "seed {seed}");
        }
        assert_eq!(simulation.queue.waiting(), 0);
    }
}

/// Clients that always have waiting jobs use thread time by their weights. The difference is never more than a few jobs for each thread.
#[test]
fn busy_clients_share_by_weight() {
    for seed in 0..1_000 {
        let mut random = SimulationRandom(seed);
        let clients = random.between(2, 6) as usize;
        let weights: Vec<u32> = (0..clients).map(|_| random.between(1, 4) as u32).collect();
        let threads = random.between(1, 4) as usize;
        // Each client has jobs of its own length.
        let longest: Vec<u64> = (0..clients).map(|_| random.between(1, JOB_MAX)).collect();
        let mut simulation = Simulation::new(&weights, threads, 0, false);
        for _ in 0..=threads {
            for (client, longest) in longest.iter().enumerate() {
                simulation.push(client, random.between(1, *longest));
            }
        }
        while simulation.now < 200 * JOB_MAX {
            let client = simulation.step().unwrap();
            simulation.push(client, random.between(1, longest[client]));
            let per_weight = |client: usize| {
                let used = simulation.records[client].used as f64;
                used / f64::from(weights[client])
            };
            for a in 0..clients {
                for b in 0..clients {
                    let jobs = |client: usize| {
                        (threads as f64 + 1.0) * longest[client] as f64 / f64::from(weights[client])
                    };
                    let apart = per_weight(a) - per_weight(b);
                    assert!(
                        apart <= 2.0 * (jobs(a) + jobs(b)),
                        "seed {seed}: {a} is {apart} ahead of {b}"
                    );
                }
            }
        }
    }
}

/// One job at a time beside another client's many: it waits for at most one job to end, however many the other has sent.
#[test]
fn a_light_client_waits_for_one_job() {
    for seed in 0..1_000 {
        let mut random = SimulationRandom(seed);
        let threads = random.between(1, 4) as usize;
        let reserved = random.between(0, 1) as usize;
        let mut simulation = Simulation::new(&[1, 1], threads, reserved, false);
        for _ in 0..1_000 {
            simulation.push(0, random.between(JOB_MAX / 2, JOB_MAX));
        }
        for _ in 0..50 {
            for _ in 0..random.between(0, 3) {
                simulation.step();
            }
            simulation.push(1, random.between(1, JOB_MAX / 4));
            while simulation.step() != Some(1) {}
        }
        let light = &simulation.records[1];
        assert!(light.overtaken <= 1, "seed {seed}: {light:?}");
        assert!(light.longest_wait <= JOB_MAX, "seed {seed}: {light:?}");
        if reserved > 0 {
            assert_eq!(light.longest_wait, 0, "seed {seed}");
        }
    }
}

/// A client gets no credit for the time without jobs: after it, both have equal parts.
#[test]
fn idle_time_gives_no_credit() {
    let mut simulation = Simulation::new(&[1, 1], 1, 0, false);
    for _ in 0..1_000 {
        simulation.push(0, 10);
    }
    for _ in 0..500 {
        simulation.step();
    }
    for _ in 0..100 {
        simulation.push(1, 10);
    }
    let before = simulation.records[0].finished;
    for _ in 0..101 {
        simulation.step();
    }
    let (busy, idle) = (
        simulation.records[0].finished - before,
        simulation.records[1].finished,
    );
    assert!(busy.abs_diff(idle) <= 2, "{busy} and {idle}");
}

/// By count, a client with long jobs gets as many turns as one with short jobs, and so nearly all of the time.
#[test]
fn turns_by_count_ignore_the_time() {
    let used = |by_count: bool| {
        let mut simulation = Simulation::new(&[1, 1], 1, 0, by_count);
        for _ in 0..200 {
            simulation.push(0, 1_000);
            simulation.push(1, 10);
        }
        while simulation.now < 50_000 {
            simulation.step();
        }
        (simulation.records[0].used, simulation.records[1].used)
    };
    let (long, short) = used(true);
    assert!(long > 50 * short, "{long} and {short}");
    let (long, short) = used(false);
    // The short jobs are all done.
    assert_eq!(short, 2_000, "beside {long}");
}
