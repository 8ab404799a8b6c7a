//! The event loop of a replay.

use super::{Pace, Report, Settings, Tiers, World};
use crate::entry::{Change, Request, Time};
use crate::path::Paths;
use crate::predict::{Access, Outcome};
use crate::queue::{Class, Run, Sent};
use crate::tier::{Ask, Fetched, Output, Reply, Tier, Who};
use crate::trace::{Event, Op, Traces};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cloud is the first tier.
const CLOUD: u32 = 0;
/// How often the host is asked whether it wants to go on.
const STEPS: u64 = 1 << 14;

/// What happens at a time.
enum Step {
    /// A request of a tier below arrives.
    Arrives { tier: u32, ask: Ask },
    /// A service has the origin's answer.
    Served { run: Run },
    /// An answer arrives.
    Answered {
        tier: u32,
        run: Run,
        fetched: Fetched,
    },
    /// A change arrives.
    Told { tier: u32, change: Change },
    /// A change of a client arrives at the cloud, which tells whoever fetched the path.
    Written { change: Change },
    /// A client goes on.
    Next { client: u32 },
}

/// A tier, and the one above it with half its round trip.
struct Place {
    tier: Tier,
    above: Option<(u32, Time)>,
}

/// What waits for its time. Steps stand in a slab, so that the heap moves little.
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
    settings: &'a Settings,
    events: &'a [Event],
    paths: &'a mut Paths,
    world: World,
    places: Vec<Place>,
    first_edge: u32,
    agenda: Agenda,
    /// When each read was asked, in closed loops.
    asked: Vec<Time>,
    /// Of each client, which of its events comes next, in closed loops.
    turns: Vec<(Vec<u32>, usize)>,
    latency: u128,
    answered: u64,
    last: Time,
    report: Report,
    out: Vec<Output>,
    changes: Vec<Change>,
}

/// Plays a trace. Before it, predictors learn from `training`, whose answers are not cached. `stop` is asked now and then.
pub fn run(
    settings: &Settings,
    events: &[Event],
    training: &[Event],
    traces: &mut Traces,
    world: &World,
    stop: &dyn Fn() -> bool,
) -> Report {
    let mut places = Vec::new();
    let cloud = crate::tier::Settings::cloud(settings.services);
    places.push(Place {
        tier: Tier::new(cloud),
        above: None,
    });
    let half = |rtt: Time| rtt / 2;
    let mut above = (CLOUD, half(settings.rtt.cloud));
    if settings.tiers == Tiers::EdgeFogCloud {
        places.push(Place {
            tier: tier(settings, settings.fog_bytes),
            above: Some(above),
        });
        above = (1, half(settings.rtt.fog));
    }
    let first_edge = places.len() as u32;
    for _ in 0..settings.edges.max(1) {
        places.push(Place {
            tier: tier(settings, settings.edge_bytes),
            above: Some(above),
        });
    }
    let closed = settings.pace == Pace::Closed;
    let mut simulation = Simulation {
        settings,
        events,
        world: world.clone(),
        places,
        first_edge,
        agenda: Agenda::default(),
        asked: if closed {
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
    simulation.play(stop);
    simulation.report()
}

fn tier(settings: &Settings, capacity: u64) -> Tier {
    Tier::new(crate::tier::Settings {
        capacity,
        policy: settings.policy,
        predictor: settings.predictor.make(settings.threshold),
        ..crate::tier::Settings::default()
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
            self.places[edge as usize].tier.train(access, self.paths);
        }
        for place in &mut self.places {
            place.tier.trained();
        }
    }

    fn play(&mut self, stop: &dyn Fn() -> bool) {
        let mut next = 0;
        if self.settings.pace == Pace::Closed {
            for client in 0..self.turns.len() as u32 {
                self.go_on(client, None);
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

    /// In a closed loop: the client's next event, now or when it first appears.
    fn go_on(&mut self, client: u32, now: Option<Time>) {
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
        self.world.apply(event, self.paths, &mut changes);
        let writes = !event.op.reads();
        let up: Time = self.way_up(edge);
        for change in changes.drain(..) {
            // Who writes through an edge is seen there at once; the cloud hears of it later and tells the others. What a
            // trace does not show (a path that is suddenly there) comes from elsewhere, in no time.
            let mut out = std::mem::take(&mut self.out);
            let place = &mut self.places[edge as usize];
            place.tier.written(now, &change, self.paths, &mut out);
            self.carry(now, edge, out);
            let at = if writes { now + up } else { now };
            self.agenda.add(at, Step::Written { change });
        }
        self.changes = changes;
        if writes {
            if self.settings.pace == Pace::Closed {
                let whole = 2 * up + self.settings.rtt.client + self.settings.rtt.origin;
                self.go_on(event.client, Some(now + whole));
            }
            return;
        }
        self.report.reads += 1;
        if let Some(asked) = self.asked.get_mut(number) {
            *asked = now;
        }
        let ask = Ask {
            who: Who::Client(event.client),
            ticket: number as u64,
            request: request(event),
            class: Class::Fetch,
            max_age: None,
            stale_if_error: false,
        };
        self.ask(now, edge, ask);
    }

    fn way_up(&self, tier: u32) -> Time {
        let mut sum = 0;
        let mut at = tier;
        while let Some((above, half)) = self.places[at as usize].above {
            sum += half;
            at = above;
        }
        sum
    }

    fn ask(&mut self, now: Time, tier: u32, ask: Ask) {
        let mut out = std::mem::take(&mut self.out);
        let place = &mut self.places[tier as usize];
        let result = match place.tier.ask(now, ask, self.paths, &mut out) {
            Reply::Answer(answer) => Some(Ok(answer)),
            Reply::Wait => None,
            Reply::Refused(failure) => Some(Err(failure)),
        };
        if let Some(result) = result {
            let ticket = ask.ticket;
            let who = ask.who;
            out.push(Output::Done {
                who,
                ticket,
                result,
            });
        }
        self.carry(now, tier, out);
    }

    fn tell(&mut self, now: Time, tier: u32, change: &Change) {
        let mut out = std::mem::take(&mut self.out);
        let place = &mut self.places[tier as usize];
        place.tier.publish(now, change, self.paths, &mut out);
        self.carry(now, tier, out);
    }

    /// Does what a tier says.
    fn carry(&mut self, now: Time, tier: u32, mut out: Vec<Output>) {
        for output in out.drain(..) {
            match output {
                Output::Send { sent, .. } => self.send(now, tier, sent),
                // Its answer will be nobody's.
                Output::Cancel(_) => {}
                Output::Done {
                    who: Who::Tier(below),
                    ticket,
                    result,
                } => {
                    let fetched = match result {
                        Ok(answer) => Fetched::Answer(answer),
                        Err(failure) => Fetched::Failed(failure),
                    };
                    let half = self.places[below as usize].above.map_or(0, |a| a.1);
                    let step = Step::Answered {
                        tier: below,
                        run: Run(ticket),
                        fetched,
                    };
                    self.agenda.add(now + half, step);
                }
                Output::Done {
                    who: Who::Client(client),
                    ticket,
                    result,
                } => self.done(now, client, ticket as usize, result.is_ok()),
                Output::Tell { to, change } => {
                    let half = self.places[to as usize].above.map_or(0, |a| a.1);
                    self.agenda.add(now + half, Step::Told { tier: to, change });
                }
            }
        }
        self.out = out;
    }

    fn send(&mut self, now: Time, tier: u32, sent: Sent<Request>) {
        let Some((above, half)) = self.places[tier as usize].above else {
            self.report.at_origin += 1;
            let at = now + self.settings.rtt.origin;
            self.agenda.add(at, Step::Served { run: sent.run });
            return;
        };
        let ask = Ask {
            who: Who::Tier(tier),
            ticket: sent.run.0,
            request: sent.key,
            class: sent.class,
            max_age: None,
            stale_if_error: false,
        };
        let step = Step::Arrives { tier: above, ask };
        self.agenda.add(now + half, step);
    }

    fn done(&mut self, now: Time, client: u32, number: usize, answered: bool) {
        let asked = match self.settings.pace {
            Pace::Open => self.events[number].t,
            Pace::Closed => self.asked[number],
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
            self.go_on(client, Some(now + rtt));
        }
    }

    fn step(&mut self, now: Time, step: Step) {
        match step {
            Step::Arrives { tier, ask } => self.ask(now, tier, ask),
            Step::Served { run } => {
                let place = &mut self.places[CLOUD as usize];
                let Some(request) = place.tier.running(run) else {
                    return;
                };
                let answer = self.world.answer(request, now, self.paths);
                self.answer(now, CLOUD, run, Fetched::Answer(answer));
            }
            Step::Answered { tier, run, fetched } => self.answer(now, tier, run, fetched),
            Step::Told { tier, change } => self.tell(now, tier, &change),
            Step::Written { change } => self.tell(now, CLOUD, &change),
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
        let place = &mut self.places[tier as usize];
        place.tier.answered(now, run, fetched, self.paths, &mut out);
        let used = place.tier.used();
        if tier >= self.first_edge {
            self.report.edge_bytes_most = self.report.edge_bytes_most.max(used);
        }
        self.carry(now, tier, out);
    }

    fn report(self) -> Report {
        let mut report = self.report;
        for (at, place) in self.places.iter().enumerate() {
            let stats = place.tier.stats();
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
                report.late += stats.late;
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
