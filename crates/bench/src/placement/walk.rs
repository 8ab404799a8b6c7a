//! The paper's two operations from many vertices: a scan, and a traversal of three steps.
//!
//! A traversal is level-synchronous. Each step expands every vertex of its frontier, the set of distinct destinations of the step
//! before; vertices that an earlier step expanded are expanded again. Frontiers do not depend on the placement, so
//! they are computed
//! once for all placements.

use super::costs::Costs;
use super::graph::{PlacementGraph, Start};
use crate::machine;
use esker_terminal::interrupt::Interrupt;
use esker_terminal::progress::Progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of steps of the traversal.
pub(super) const STEPS: usize = 3;

/// The two metrics of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Number of edges on another server than their destination, plus, for each expanded vertex, the number of
    /// servers besides its home
    /// that hold some of its edges.
    pub(super) comm: u64,
    /// Number of edges that the busiest server read, summed over the steps.
    pub(super) reads: u64,
}

/// One start vertex under one placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) scan: Stats,
    pub(super) travel: Stats,
}

/// Returns the samples of all start vertices, each with one element per placement; `None` after an interruption.
pub(super) fn samples(
    graph: &PlacementGraph,
    all: &[Costs],
    servers: u32,
    starts: &[Start],
    interrupt: &Interrupt,
    progress: &Progress,
) -> Vec<Option<Vec<Sample>>> {
    // Vertices of high degree first: they take longest, so that no thread is left with a long one at the end.
    let next = AtomicUsize::new(starts.len());
    let work = || {
        let mut walker = Walker::new(graph, all, servers);
        let mut done = Vec::new();
        while interrupt.stopped().is_none() {
            let Some(i) = next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .ok()
                .map(|n| n - 1)
            else {
                break;
            };
            done.push((i, walker.sample(starts[i].vertex)));
            progress.advance(1);
        }
        done
    };
    let mut samples = vec![None; starts.len()];
    thread::scope(|scope| {
        let workers: Vec<_> = (0..machine::cores()).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done.into_iter().for_each(|(i, s)| samples[i] = Some(s)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    samples
}

/// The state of one thread.
struct Walker<'a> {
    graph: &'a PlacementGraph,
    all: &'a [Costs],
    frontier: Vertices,
    next: Vertices,
    /// Edges read in this step, by server.
    reads: Vec<u64>,
}

impl<'a> Walker<'a> {
    fn new(graph: &'a PlacementGraph, all: &'a [Costs], servers: u32) -> Self {
        Self {
            graph,
            all,
            frontier: Vertices::new(graph.vertices()),
            next: Vertices::new(graph.vertices()),
            reads: vec![0; servers as usize],
        }
    }

    fn sample(&mut self, start: u32) -> Vec<Sample> {
        self.frontier.clear();
        self.frontier.insert(start);
        let first = self.step();
        let mut travel = first.clone();
        for _ in 1..STEPS {
            self.advance();
            for (sum, step) in travel.iter_mut().zip(self.step()) {
                sum.comm += step.comm;
                sum.reads += step.reads;
            }
        }
        first
            .into_iter()
            .zip(travel)
            .map(|(scan, travel)| Sample { scan, travel })
            .collect()
    }

    /// Returns the cost of expanding the frontier, by placement.
    fn step(&mut self) -> Vec<Stats> {
        let mut stats = Vec::with_capacity(self.all.len());
        for costs in self.all {
            self.reads.fill(0);
            let mut comm = 0;
            self.frontier.for_each(|vertex| {
                comm += costs.comm(vertex);
                for (server, edges) in costs.reads(vertex) {
                    self.reads[*server as usize] += u64::from(*edges);
                }
            });
            stats.push(Stats {
                comm,
                reads: self.reads.iter().copied().max().unwrap_or(0),
            });
        }
        stats
    }

    /// Replaces the frontier by its distinct destinations.
    fn advance(&mut self) {
        self.next.clear();
        let (graph, next) = (self.graph, &mut self.next);
        self.frontier.for_each(|vertex| {
            for destination in graph.destinations(vertex as usize) {
                next.insert(*destination);
            }
        });
        std::mem::swap(&mut self.frontier, &mut self.next);
    }
}

/// A set of vertices, with a bit for each vertex of the graph.
struct Vertices(Vec<u64>);

impl Vertices {
    fn new(vertices: usize) -> Self {
        Self(vec![0; vertices.div_ceil(64)])
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    fn insert(&mut self, vertex: u32) {
        self.0[vertex as usize / 64] |= 1 << (vertex % 64);
    }

    fn for_each(&self, mut each: impl FnMut(u32)) {
        for (i, word) in (0_u32..).zip(&self.0) {
            let mut rest = *word;
            while rest != 0 {
                each(i * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }
}
