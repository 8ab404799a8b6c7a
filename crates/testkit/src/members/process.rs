//! A process of the simulation: its clock, what it serves, what goes on in it.

use esker_cluster::member::{Input, Machine, Output};
use std::collections::{BTreeMap, BTreeSet};

/// A write, or a decision, by number.
pub(super) type Row = u64;

/// What a folder holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) rows: BTreeSet<Row>,
    /// Parts of decisions, with the store that decided.
    pub(super) parts: BTreeSet<(u32, Row)>,
}

/// What a member serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) epoch: u64,
    pub(super) lease: u64,
    /// No answer may leave.
    pub(super) shut: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) machine: Machine,
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) paused: u64,
    pub(super) cut: u64,
    /// Its clock: where it began, and how fast it goes, in thousandths.
    pub(super) offset: u64,
    pub(super) rate: u64,
    /// Until when answers may leave, by lease.
    pub(super) gates: BTreeMap<u64, u64>,
    pub(super) served: BTreeMap<u32, Served>,
    pub(super) fences: BTreeMap<u32, u64>,
}

impl Process {
    pub(super) fn clock(&self, now: u64) -> u64 {
        self.offset + now * self.rate / 1_000
    }

    /// Whether an answer of that store, at that epoch, may leave.
    pub(super) fn answers(&self, now: u64, store: u32, epoch: u64) -> bool {
        let open = |served: &Served| {
            let until = self.gates.get(&served.lease).copied().unwrap_or(0);
            served.epoch == epoch && !served.shut && self.clock(now) < until
        };
        self.served.get(&store).is_some_and(open)
    }
}

/// What goes on inside a process, or comes to it.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Tick,
    Input(Input),
    /// The latest view.
    Look,
    /// A folder is copied: what it held.
    Copied(u32, u64, u64, Folder),
    Stopped(u32, u64),
    /// A write, or a decision that another store has a part of.
    Arrives(u32, Row, Option<u32>),
    Stored(u32, u64, Row, Option<u32>),
    Answers(u32, u64, Row),
    /// A read, with what had been acknowledged when it was asked.
    Asked(u32, usize),
    /// What it found; and what it should have found and did not.
    Read(u32, u64, Option<Row>),
    /// A part of a decision: to that store, from that one at that epoch.
    Part(u32, u32, u64, Row),
    PartTaken(u32, u64, u32, Row),
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// In that life of that process.
    In(usize, u32, Work),
    /// What it asked of etcd.
    Ask(usize, u32, Output, u64),
    Expire,
    Chaos,
    Client,
    Start(usize),
    EtcdUp,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Answers that did not leave, because it was too late for them.
    pub withheld: u64,
    /// Messages refused because their sender had lost its store.
    pub fenced: u64,
    /// Stores opened.
    pub opened: u64,
}
