//! The event loop of a replay.

use super::{Pace, ReplaySettings, Report, SimulatedOrigin, Tiers};
use crate::entry::{Change, Request, Time};
use crate::path::Paths;
use crate::predict::{Access, Outcome};
use crate::queue::{Class, Run, Sent};
use crate::tier::{Fetched, Output, Reply, Requester, Tier, TierRequest};
use crate::trace::{Event, Op, Traces};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of the cloud, the first tier.
const CLOUD: u32 = 0;
/// Steps between two calls of `stop`.
const STEPS: u64 = 1 << 14;

/// A simulated event.
enum Step {
    /// A request of a downstream tier arrives.
    Arrives { tier: u32, ask: TierRequest },
    /// A service receives the origin's answer.
    Served { run: Run },
    /// An answer arrives.
    Answered {
        tier: u32,
        run: Run,
        fetched: Fetched,
    },
    /// A notification of a change arrives.
    Notified { tier: u32, change: Change },
    /// A client's change arrives at the cloud, which notifies the tiers that fetched the path.
    Written { change: Change },
    /// A client sends its next request.
    Next { client: u32 },
}

/// A tier, with its upstream tier and half the round trip to it.
struct SimulatedTier {
    tier: Tier,
    upstream: Option<(u32, Time)>,
}

/// Pending steps by time, stored in a slab so that the heap moves little data.
#[derive(Default)]
struct Agenda {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    steps: Vec<Option<Step>>,
    free: Vec<u32>,
    next: u64,
}

impl Agenda {
    fn add(&mut self, at: Time, step: Step) {
        let slot = if let Some(slot) = self.free.pop() {
            self.steps[slot as usize] = Some(step);
            slot
        } else {
            self.steps.push(Some(step));
            (self.steps.len() - 1) as u32
        };
        self.heap.push(Reverse((at, self.next, slot)));
        self.next += 1;
    }

    fn first(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop(&mut self) -> Option<(Time, Step)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        let step = self.steps[slot as usize].take()?;
        Some((at, step))
    }
}

struct Simulation<'a> {
    settings: &'a ReplaySettings,
    events: &'a [Event],
    paths: &'a mut Paths,
    origin: SimulatedOrigin,
    tiers: Vec<SimulatedTier>,
    first_edge: u32,
    agenda: Agenda,
    /// Time of each read, in closed loops.
    request_times: Vec<Time>,
    /// Events of each client and the index of the next one, in closed loops.
    turns: Vec<(Vec<u32>, usize)>,
    latency: u128,
    answered: u64,
    last: Time,
    report: Report,
    out: Vec<Output>,
    changes: Vec<Change>,
}

/// Replays a trace. Predictors first learn from `training`, whose answers are not cached. `stop` is called from time to time.
pub fn run(
    settings: &ReplaySettings,
    events: &[Event],
    training: &[Event],
    traces: &mut Traces,
    origin: &SimulatedOrigin,
    stop: &dyn Fn() -> bool,
) -> Report {
    let mut tiers = Vec::new();
    let cloud = crate::tier::TierSettings::cloud(settings.services);
    tiers.push(SimulatedTier {
        tier: Tier::new(cloud),
        upstream: None,
    });
    let half = |rtt: Time| rtt / 2;
    let mut upstream = (CLOUD, half(settings.rtt.cloud));
    if settings.tiers == Tiers::EdgeFogCloud {
        tiers.push(SimulatedTier {
            tier: tier(settings, settings.fog_bytes),
            upstream: Some(upstream),
        });
        upstream = (1, half(settings.rtt.fog));
    }
    let first_edge = tiers.len() as u32;
    for _ in 0..settings.edges.max(1) {
        tiers.push(SimulatedTier {
            tier: tier(settings, settings.edge_bytes),
            upstream: Some(upstream),
        });
    }
    let closed = settings.pace == Pace::Closed;
    let mut simulation = Simulation {
        settings,
        events,
        origin: origin.clone(),
        tiers,
        first_edge,
        agenda: Agenda::default(),
        request_times: if closed {
            vec![0; events.len()]
        } else {
            Vec::new()
        },
        turns: if closed {
            turns(events, traces.clients())
        } else {
            Vec::new()
        },
        paths: &mut traces.paths,
        latency: 0,
        answered: 0,
        last: events.first().map_or(0, |e| e.t),
        report: Report::default(),
        out: Vec::new(),
        changes: Vec::new(),
    };
    simulation.train(training);
    simulation.run_events(stop);
    simulation.report()
}

fn tier(settings: &ReplaySettings, capacity: u64) -> Tier {
    Tier::new(crate::tier::TierSettings {
        capacity,
        policy: settings.policy,
        predictor: settings.predictor.make(settings.threshold),
        ..crate::tier::TierSettings::default()
    })
}

fn turns(events: &[Event], clients: usize) -> Vec<(Vec<u32>, usize)> {
    let mut turns = vec![(Vec::new(), 0); clients];
    for (at, event) in events.iter().enumerate() {
        turns[event.client as usize].0.push(at as u32);
    }
    turns
}

fn request(event: &Event) -> Request {
    match event.op {
        Op::List => Request::list(event.path),
        _ => Request::stat(event.path),
    }
}

impl Simulation<'_> {
    fn edge(&self, client: u32) -> u32 {
        self.first_edge + client % self.settings.edges.max(1)
    }

    fn train(&mut self, training: &[Event]) {
        for event in training.iter().filter(|e| e.op.reads()) {
            let edge = self.edge(event.client);
            let access = Access {
                client: event.client,
                request: request(event),
                outcome: Outcome::Miss,
            };
            self.tiers[edge as usize].tier.train(access, self.paths);
        }
        for node in &mut self.tiers {
            node.tier.end_training();
        }
    }

    fn run_events(&mut self, stop: &dyn Fn() -> bool) {
        let mut next = 0;
        if self.settings.pace == Pace::Closed {
            for client in 0..self.turns.len() as u32 {
                self.schedule_next(client, None);
            }
            next = self.events.len();
        }
        let mut steps: u64 = 0;
        loop {
            steps += 1;
            if steps.is_multiple_of(STEPS) && stop() {
                self.report.stopped = true;
                return;
            }
            let event = self.events.get(next);
            let due = match (event, self.agenda.first()) {
                (Some(event), Some(first)) => event.t <= first,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return,
            };
            if due && let Some(event) = event {
                self.event(event.t, next);
                next += 1;
                continue;
            }
            if let Some((at, step)) = self.agenda.pop() {
                self.step(at, step);
            }
        }
    }

    /// Schedules the client's next event in a closed loop: at `now`, or at its trace time for the first one.
    fn schedule_next(&mut self, client: u32, now: Option<Time>) {
        let (order, turn) = &self.turns[client as usize];
        if let Some(next) = order.get(*turn) {
            let at = now.unwrap_or(self.events[*next as usize].t);
            self.agenda.add(at, Step::Next { client });
        }
    }

    fn event(&mut self, now: Time, number: usize) {
        let event = &self.events[number];
        let edge = self.edge(event.client);
        let mut changes = std::mem::take(&mut self.changes);
        self.origin.apply(event, self.paths, &mut changes);
        let writes = !event.op.reads();
        let up: Time = self.upstream_delay(edge);
        for change in changes.drain(..) {
            // A write through an edge is visible there at once; the cloud learns of it later and notifies the others. Changes that the
            // trace does not show (a path that suddenly exists) happen elsewhere, without delay.
            let mut out = std::mem::take(&mut self.out);
            let node = &mut self.tiers[edge as usize];
            node.tier.write_through(now, &change, self.paths, &mut out);
            self.execute(now, edge, out);
            let at = if writes { now + up } else { now };
            self.agenda.add(at, Step::Written { change });
        }
        self.changes = changes;
        if writes {
            if self.settings.pace == Pace::Closed {
                let whole = 2 * up + self.settings.rtt.client + self.settings.rtt.origin;
                self.schedule_next(event.client, Some(now + whole));
            }
            return;
        }
        self.report.reads += 1;
        if let Some(asked) = self.request_times.get_mut(number) {
            *asked = now;
        }
        let ask = TierRequest {
            requester: Requester::Client(event.client),
            ticket: number as u64,
            request: request(event),
            class: Class::Fetch,
            max_age: None,
            stale_if_error: false,
        };
        self.deliver_request(now, edge, ask);
    }

    fn upstream_delay(&self, tier: u32) -> Time {
        let mut sum = 0;
        let mut at = tier;
        while let Some((upstream, half)) = self.tiers[at as usize].upstream {
            sum += half;
            at = upstream;
        }
        sum
    }

    fn deliver_request(&mut self, now: Time, tier: u32, ask: TierRequest) {
        let mut out = std::mem::take(&mut self.out);
        let node = &mut self.tiers[tier as usize];
        let result = match node.tier.request(now, ask, self.paths, &mut out) {
            Reply::Answer(answer) => Some(Ok(answer)),
            Reply::Wait => None,
            Reply::Refused(failure) => Some(Err(failure)),
        };
        if let Some(result) = result {
            let ticket = ask.ticket;
            let requester = ask.requester;
            out.push(Output::Done {
                requester,
                ticket,
                result,
            });
        }
        self.execute(now, tier, out);
    }

    fn notify(&mut self, now: Time, tier: u32, change: &Change) {
        let mut out = std::mem::take(&mut self.out);
        let node = &mut self.tiers[tier as usize];
        node.tier.publish(now, change, self.paths, &mut out);
        self.execute(now, tier, out);
    }

    /// Executes the outputs of a tier.
    fn execute(&mut self, now: Time, tier: u32, mut out: Vec<Output>) {
        for output in out.drain(..) {
            match output {
                Output::Send { sent, .. } => self.send(now, tier, sent),
                // The answer will be ignored.
                Output::Cancel(_) => {}
                Output::Done {
                    requester: Requester::Tier(below),
                    ticket,
                    result,
                } => {
                    let fetched = match result {
                        Ok(answer) => Fetched::Answer(answer),
                        Err(failure) => Fetched::Failed(failure),
                    };
                    let half = self.tiers[below as usize].upstream.map_or(0, |a| a.1);
                    let step = Step::Answered {
                        tier: below,
                        run: Run(ticket),
                        fetched,
                    };
                    self.agenda.add(now + half, step);
                }
                Output::Done {
                    requester: Requester::Client(client),
                    ticket,
                    result,
                } => self.done(now, client, ticket as usize, result.is_ok()),
                Output::Notify { to, change } => {
                    let half = self.tiers[to as usize].upstream.map_or(0, |a| a.1);
                    self.agenda
                        .add(now + half, Step::Notified { tier: to, change });
                }
            }
        }
        self.out = out;
    }

    fn send(&mut self, now: Time, tier: u32, sent: Sent<Request>) {
        let Some((upstream, half)) = self.tiers[tier as usize].upstream else {
            self.report.at_origin += 1;
            let at = now + self.settings.rtt.origin;
            self.agenda.add(at, Step::Served { run: sent.run });
            return;
        };
        let ask = TierRequest {
            requester: Requester::Tier(tier),
            ticket: sent.run.0,
            request: sent.key,
            class: sent.class,
            max_age: None,
            stale_if_error: false,
        };
        let step = Step::Arrives {
            tier: upstream,
            ask,
        };
        self.agenda.add(now + half, step);
    }

    fn done(&mut self, now: Time, client: u32, number: usize, answered: bool) {
        let asked = match self.settings.pace {
            Pace::Open => self.events[number].t,
            Pace::Closed => self.request_times[number],
        };
        let rtt = self.settings.rtt.client;
        if answered {
            self.latency += u128::from(now - asked + rtt);
            self.answered += 1;
        } else {
            self.report.failed += 1;
        }
        self.last = self.last.max(now + rtt);
        if self.settings.pace == Pace::Closed {
            self.schedule_next(client, Some(now + rtt));
        }
    }

    fn step(&mut self, now: Time, step: Step) {
        match step {
            Step::Arrives { tier, ask } => self.deliver_request(now, tier, ask),
            Step::Served { run } => {
                let node = &mut self.tiers[CLOUD as usize];
                let Some(request) = node.tier.running(run) else {
                    return;
                };
                let answer = self.origin.answer(request, now, self.paths);
                self.answer(now, CLOUD, run, Fetched::Answer(answer));
            }
            Step::Answered { tier, run, fetched } => self.answer(now, tier, run, fetched),
            Step::Notified { tier, change } => self.notify(now, tier, &change),
            Step::Written { change } => self.notify(now, CLOUD, &change),
            Step::Next { client } => {
                let (order, turn) = &mut self.turns[client as usize];
                if let Some(number) = order.get(*turn).copied() {
                    *turn += 1;
                    self.event(now, number as usize);
                }
            }
        }
    }

    fn answer(&mut self, now: Time, tier: u32, run: Run, fetched: Fetched) {
        let mut out = std::mem::take(&mut self.out);
        let node = &mut self.tiers[tier as usize];
        node.tier
            .handle_response(now, run, fetched, self.paths, &mut out);
        let used = node.tier.used();
        if tier >= self.first_edge {
            self.report.edge_bytes_most = self.report.edge_bytes_most.max(used);
        }
        self.execute(now, tier, out);
    }

    fn report(self) -> Report {
        let mut report = self.report;
        for (at, node) in self.tiers.iter().enumerate() {
            let stats = node.tier.stats();
            if at as u32 == CLOUD {
                continue;
            }
            report.prefetched += stats.prefetched;
            report.prefetched_used += stats.prefetched_used;
            report.refused += stats.refused;
            if at as u32 >= self.first_edge {
                report.hits += stats.hits;
                report.by_listing += stats.by_listing;
                report.absent += stats.absent;
                report.late += stats.joined_prefetch;
                report.fetched += stats.fetched;
            }
        }
        if self.answered > 0 {
            report.mean_latency_ms = self.latency as f64 / self.answered as f64 / 1000.0;
        }
        let first = self.events.first().map_or(0, |e| e.t);
        report.seconds = self.last.saturating_sub(first) as f64 / 1e6;
        report
    }
}
