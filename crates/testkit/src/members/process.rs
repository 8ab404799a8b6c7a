//! A simulated process: its clock, the stores that it serves, and its work.

use esker_cluster::member::{Input, Machine, Output};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a write or a decision.
pub(super) type Row = u64;

/// Contents of a store's folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) rows: BTreeSet<Row>,
    /// Parts of decisions, with the store that decided.
    pub(super) parts: BTreeSet<(u32, Row)>,
}

/// A store that a member serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) epoch: u64,
    pub(super) lease: u64,
    /// Whether responses must not leave any more.
    pub(super) shut: bool,
}

/// A simulated member process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) machine: Machine,
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) paused: u64,
    pub(super) cut: u64,
    /// Clock: offset, and rate in thousandths.
    pub(super) offset: u64,
    pub(super) rate: u64,
    /// By lease: time until which responses may leave.
    pub(super) gates: BTreeMap<u64, u64>,
    pub(super) served: BTreeMap<u32, Served>,
    pub(super) fences: BTreeMap<u32, u64>,
}

impl Process {
    pub(super) fn clock(&self, now: u64) -> u64 {
        self.offset + now * self.rate / 1_000
    }

    /// Whether a response of a store at an epoch may leave.
    pub(super) fn answers(&self, now: u64, store: u32, epoch: u64) -> bool {
        let open = |served: &Served| {
            let until = self.gates.get(&served.lease).copied().unwrap_or(0);
            served.epoch == epoch && !served.shut && self.clock(now) < until
        };
        self.served.get(&store).is_some_and(open)
    }
}

/// Work inside a process, or messages to it.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Tick,
    Input(Input),
    /// A new view of etcd.
    Look,
    /// A folder was copied; the contents.
    Copied(u32, u64, u64, Folder),
    Stopped(u32, u64),
    /// A write, or a decision of which another store has a part.
    Arrives(u32, Row, Option<u32>),
    Stored(u32, u64, Row, Option<u32>),
    Answers(u32, u64, Row),
    /// A read, and the number of writes that were acknowledged when it was sent.
    Asked(u32, usize),
    /// The result of a read, with an acknowledged write that was missing.
    Read(u32, u64, Option<Row>),
    /// A part of a decision: to the first store, from the second one at that epoch.
    Part(u32, u32, u64, Row),
    PartTaken(u32, u64, u32, Row),
}

#[derive(Debug, Clone)]
pub(super) enum MemberEvent {
    /// Work of a process in one of its lives.
    In(usize, u32, Work),
    /// A request of a process to etcd.
    ClientRequest(usize, u32, Output, u64),
    Expire,
    Chaos,
    Client,
    Start(usize),
    EtcdUp,
}

/// Statistics of a membership simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MembershipStats {
    /// Number of acknowledged writes.
    pub acknowledged: u64,
    /// Number of answered reads.
    pub reads: u64,
    /// Number of responses withheld because they were too late.
    pub withheld: u64,
    /// Number of messages refused because their sender had lost its store.
    pub fenced: u64,
    /// Number of times that a store was opened.
    pub opened: u64,
}
