//! State machine of a cluster member.

use super::messages::{Input, MemberSettings, Output};
use super::plan::plan;
use super::view::{MemberId, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Interval after which a failed or unanswered action is repeated, in milliseconds.
const RETRY: u64 = 500;
/// Time for which a store that could not be opened is left to other members, in milliseconds.
const COOL_DOWN: u64 = 2_000;
/// Largest number of stores handed over at a time, since a moving store is briefly unavailable.
const MOVING_MAX: usize = 2;

/// State of a store on this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreState {
    /// The claim was sent to etcd.
    Claiming { lease: u64, since: u64 },
    /// The claim was made; not all members have acknowledged it yet.
    Claimed { epoch: u64, revision: u64 },
    /// The store is being opened.
    Opening {
        epoch: u64,
        revision: u64,
        lost: bool,
    },
    /// The store is being served.
    Open { epoch: u64, revision: u64 },
    /// The store is being closed.
    Closing { epoch: u64, lost: bool },
    /// The claim is being released.
    Releasing {
        epoch: u64,
        requested: Option<u64>,
        rest: u64,
    },
    /// The store could not be opened recently, or waits for etcd's state.
    CoolingDown { until: u64 },
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: u64,
    until: u64,
    prolonged: u64,
    since: u64,
    /// Revision of etcd at which this member was listed under the lease.
    revision: u64,
}

/// State machine of a member.
#[derive(Debug)]
pub struct Machine {
    settings: MemberSettings,
    lease: Option<Lease>,
    /// Time of an unanswered request for a lease.
    lease_requested: Option<u64>,
    /// Earliest time of the next request for a lease.
    next_try: u64,
    view: Option<Arc<View>>,
    /// Assignment of stores to members, computed from the view.
    plan: BTreeMap<u32, MemberId>,
    slots: BTreeMap<u32, StoreState>,
    acknowledged: BTreeMap<u32, u64>,
    /// Revision to be confirmed under this lease, and time of the last attempt.
    confirm: Option<(u64, u64)>,
    withdrawn: Option<u64>,
    leaving: bool,
    left: bool,
}

impl Machine {
    /// Creates a member that has no lease and no stores.
    pub fn new(settings: MemberSettings) -> Self {
        Self {
            settings,
            lease: None,
            lease_requested: None,
            next_try: 0,
            view: None,
            plan: BTreeMap::new(),
            slots: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            confirm: None,
            withdrawn: None,
            leaving: false,
            left: false,
        }
    }

    /// Handles one input and returns the actions for the host.
    pub fn step(&mut self, now: u64, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        // An input that arrives late must not be taken for one that arrived in time.
        self.check_lease(now, &mut out);
        self.handle(now, input, &mut out);
        self.check_lease(now, &mut out);
        self.ask_for_lease(now, &mut out);
        self.repeat_requests(now, &mut out);
        self.advance_stores(now, &mut out);
        self.finish_leaving(&mut out);
        out
    }

    /// Iterates over the stores that are served.
    pub fn open(&self) -> impl Iterator<Item = u32> + '_ {
        let open = |slot: &StoreState| matches!(slot, StoreState::Open { .. });
        self.slots
            .iter()
            .filter(move |(_, s)| open(s))
            .map(|(n, _)| *n)
    }

    /// Returns the last view of etcd.
    pub fn view(&self) -> Option<&View> {
        self.view.as_deref()
    }

    /// Returns the lease, if there is one.
    pub fn lease(&self) -> Option<u64> {
        self.lease.map(|l| l.id)
    }

    fn handle(&mut self, now: u64, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => {}
            Input::Granted {
                lease,
                sent,
                lasts,
                revision,
            } => {
                self.lease_requested = None;
                self.confirm = None;
                self.withdrawn = None;
                let until = (sent + lasts).saturating_sub(self.settings.margin);
                self.lease = Some(Lease {
                    id: lease,
                    until,
                    prolonged: now,
                    since: now,
                    revision,
                });
                out.push(Output::Serve { lease, until });
            }
            Input::NotGranted => {
                self.lease_requested = None;
                self.next_try = now + RETRY;
            }
            Input::Kept { lease, sent, lasts } => {
                if let Some(held) = self.lease.as_mut().filter(|l| l.id == lease) {
                    let until = (sent + lasts).saturating_sub(self.settings.margin);
                    if until > held.until {
                        held.until = until;
                        out.push(Output::Serve { lease, until });
                    }
                }
            }
            Input::Gone { lease } => {
                if self.lease().is_some_and(|held| held == lease) {
                    self.lose_lease(now, out);
                }
            }
            Input::See(view) => self.update_view(now, view, out),
            Input::Leave => {
                self.leaving = true;
            }
            other => self.handle_store(now, &other, out),
        }
    }

    /// Handles an event of one store.
    fn handle_store(&mut self, now: u64, input: &Input, out: &mut Vec<Output>) {
        match *input {
            Input::Claimed {
                store,
                lease,
                epoch,
                revision,
            } => {
                let requested = |slot: &StoreState| matches!(slot, StoreState::Claiming { lease: l, .. } if *l == lease);
                // A claim that was given up meanwhile is released when the view shows it.
                if self.lease() == Some(lease) && self.slots.get(&store).is_some_and(requested) {
                    self.slots
                        .insert(store, StoreState::Claimed { epoch, revision });
                }
            }
            Input::NotClaimed { store, lease } => {
                let requested = |slot: &StoreState| matches!(slot, StoreState::Claiming { lease: l, .. } if *l == lease);
                if self.slots.get(&store).is_some_and(requested) {
                    self.slots.remove(&store);
                }
            }
            Input::Opened { store, epoch } => match self.slots.get(&store).copied() {
                Some(StoreState::Opening {
                    epoch: e,
                    revision,
                    lost,
                }) if e == epoch => {
                    let next = if lost {
                        out.push(Output::Close {
                            store,
                            epoch,
                            lost: true,
                        });
                        StoreState::Closing { epoch, lost: true }
                    } else {
                        StoreState::Open { epoch, revision }
                    };
                    self.slots.insert(store, next);
                }
                _ => {}
            },
            // The store is closed and released; the member that it is assigned to, most likely this one, claims it again.
            Input::Failed { store, epoch } => match self.slots.get(&store).copied() {
                Some(StoreState::Open { epoch: e, .. }) if e == epoch => {
                    let lost = false;
                    self.slots
                        .insert(store, StoreState::Closing { epoch, lost });
                    out.push(Output::Close { store, epoch, lost });
                }
                _ => {}
            },
            Input::NotOpened { store, epoch } => match self.slots.get(&store).copied() {
                Some(StoreState::Opening { epoch: e, lost, .. }) if e == epoch => {
                    let next = if lost {
                        StoreState::CoolingDown { until: now + RETRY }
                    } else {
                        StoreState::Releasing {
                            epoch,
                            requested: None,
                            rest: COOL_DOWN,
                        }
                    };
                    self.slots.insert(store, next);
                }
                _ => {}
            },
            Input::Closed { store, epoch } => match self.slots.get(&store).copied() {
                Some(StoreState::Closing { epoch: e, lost }) if e == epoch => {
                    if lost {
                        self.slots.remove(&store);
                    } else {
                        self.slots.insert(
                            store,
                            StoreState::Releasing {
                                epoch,
                                requested: None,
                                rest: RETRY,
                            },
                        );
                    }
                }
                _ => {}
            },
            Input::Released { store, epoch, done } => match self.slots.get(&store).copied() {
                Some(StoreState::Releasing { epoch: e, rest, .. }) if e == epoch && done => {
                    self.slots
                        .insert(store, StoreState::CoolingDown { until: now + rest });
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn update_view(&mut self, now: u64, view: Arc<View>, out: &mut Vec<Output>) {
        if self
            .view
            .as_ref()
            .is_some_and(|v| v.revision > view.revision)
        {
            return;
        }
        let newer = view
            .epochs
            .iter()
            .filter(|(store, epoch)| self.acknowledged.get(store).copied().unwrap_or(0) < **epoch);
        let newer: BTreeMap<u32, u64> = newer.map(|(store, epoch)| (*store, *epoch)).collect();
        if !newer.is_empty() {
            self.acknowledged.extend(&newer);
            self.confirm = None;
            out.push(Output::Fence(self.acknowledged.clone()));
        }
        let revision = view.revision;
        let listed = view.members.get(&self.settings.me).map(|me| me.lease);
        let even = self.settings.even || view.rebalance;
        self.plan = plan(&view, self.settings.stores, even);
        self.view = Some(view);
        let Some(lease) = self.lease else {
            return;
        };
        if listed != Some(lease.id) {
            // A view from before this member was listed says nothing.
            if revision >= lease.revision {
                self.lose_lease(now, out);
            }
            return;
        }
        self.check_claims(out);
        if self.confirm.is_none() {
            self.confirm = Some((revision, now));
            let lease = lease.id;
            out.push(Output::Confirm { lease, revision });
        }
    }

    /// Closes stores whose claims no longer belong to this member because an operator has removed them.
    fn check_claims(&mut self, out: &mut Vec<Output>) {
        let (Some(view), Some(lease)) = (&self.view, self.lease()) else {
            return;
        };
        for (store, slot) in &mut self.slots {
            let (StoreState::Open { epoch, revision }
            | StoreState::Opening {
                epoch, revision, ..
            }
            | StoreState::Claimed { epoch, revision }) = *slot
            else {
                continue;
            };
            let mine = view
                .claims
                .get(store)
                .is_some_and(|c| c.lease == lease && c.epoch == epoch);
            if mine || view.revision < revision {
                continue;
            }
            let store = *store;
            match slot {
                StoreState::Open { .. } => {
                    *slot = StoreState::Closing { epoch, lost: true };
                    out.push(Output::Close {
                        store,
                        epoch,
                        lost: true,
                    });
                }
                StoreState::Opening { lost, .. } => *lost = true,
                slot => *slot = StoreState::CoolingDown { until: 0 },
            }
        }
    }

    fn check_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        if self.lease.is_some_and(|l| now >= l.until) {
            self.lose_lease(now, out);
        }
    }

    /// Handles the end of the lease.
    fn lose_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        let Some(Lease { id: lease, .. }) = self.lease.take() else {
            return;
        };
        out.push(Output::End { lease });
        self.next_try = now;
        for (store, slot) in &mut self.slots {
            let store = *store;
            match slot {
                StoreState::Open { epoch, .. } => {
                    let epoch = *epoch;
                    *slot = StoreState::Closing { epoch, lost: true };
                    out.push(Output::Close {
                        store,
                        epoch,
                        lost: true,
                    });
                }
                StoreState::Opening { lost, .. } | StoreState::Closing { lost, .. } => *lost = true,
                StoreState::Claiming { .. }
                | StoreState::Claimed { .. }
                | StoreState::Releasing { .. } => {
                    *slot = StoreState::CoolingDown { until: 0 };
                }
                StoreState::CoolingDown { .. } => {}
            }
        }
    }

    fn ask_for_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        if let Some(lease) = &mut self.lease {
            if now >= lease.prolonged + self.settings.prolong {
                lease.prolonged = now;
                out.push(Output::Keep { lease: lease.id });
            }
        } else if !self.leaving && self.lease_requested.is_none() && now >= self.next_try {
            self.lease_requested = Some(now);
            out.push(Output::Grant);
        }
    }

    /// Repeats requests that etcd does not reflect yet, since requests and responses may be lost.
    fn repeat_requests(&mut self, now: u64, out: &mut Vec<Output>) {
        let (Some(lease), Some(view)) = (self.lease(), &self.view) else {
            return;
        };
        let Some(me) = view
            .members
            .get(&self.settings.me)
            .filter(|m| m.lease == lease)
        else {
            return;
        };
        if let Some((revision, requested)) = &mut self.confirm
            && me.seen < *revision
            && now >= *requested + RETRY
        {
            *requested = now;
            let revision = *revision;
            out.push(Output::Confirm { lease, revision });
        }
        if self.leaving && !me.leaving && self.withdrawn.is_none_or(|at| now >= at + RETRY) {
            self.withdrawn = Some(now);
            out.push(Output::Withdraw { lease });
        }
    }

    /// Advances this member's stores.
    fn advance_stores(&mut self, now: u64, out: &mut Vec<Output>) {
        let Some(Lease {
            id: lease, since, ..
        }) = self.lease
        else {
            return;
        };
        self.slots
            .retain(|_, slot| !matches!(slot, StoreState::CoolingDown { until } if now >= *until));
        let Some(view) = &self.view else { return };
        let listed = view.members.get(&self.settings.me);
        if listed.is_none_or(|me| me.lease != lease) {
            return;
        }
        let plan = &self.plan;
        let mine = |store: &u32| !self.leaving && plan.get(store) == Some(&self.settings.me);
        // Another member is there to take the store.
        let wanted = |store: &u32| plan.get(store).is_some_and(|m| *m != self.settings.me);
        let away = |slot: &&StoreState| {
            matches!(
                slot,
                StoreState::Closing { .. } | StoreState::Releasing { .. }
            )
        };
        let mut moving = self.slots.values().filter(away).count();
        for (store, slot) in &mut self.slots {
            let store = *store;
            match slot {
                StoreState::Claiming { lease: l, since } => {
                    // The outcome of the claim is unknown: the next view of etcd will show it.
                    if *l != lease || now >= *since + 10 * RETRY {
                        *slot = StoreState::CoolingDown { until: now };
                    }
                }
                StoreState::Claimed { epoch, revision } => {
                    let (epoch, revision) = (*epoch, *revision);
                    let others = view.behind(revision).any(|m| *m != self.settings.me);
                    if self.leaving {
                        *slot = StoreState::Releasing {
                            epoch,
                            requested: None,
                            rest: RETRY,
                        };
                    } else if view.revision >= revision && !others {
                        *slot = StoreState::Opening {
                            epoch,
                            revision,
                            lost: false,
                        };
                        out.push(Output::Open {
                            store,
                            epoch,
                            lease,
                        });
                    }
                }
                StoreState::Open { epoch, .. } => {
                    let epoch = *epoch;
                    let goes = wanted(&store) && (moving < MOVING_MAX || self.leaving);
                    if goes || self.leaving {
                        moving += 1;
                        *slot = StoreState::Closing { epoch, lost: false };
                        out.push(Output::Close {
                            store,
                            epoch,
                            lost: false,
                        });
                    }
                }
                StoreState::Releasing {
                    epoch, requested, ..
                } => {
                    if requested.is_none_or(|at| now >= at + RETRY) {
                        *requested = Some(now);
                        out.push(Output::Release {
                            store,
                            epoch: *epoch,
                            lease,
                        });
                    }
                }
                StoreState::Opening { .. }
                | StoreState::Closing { .. }
                | StoreState::CoolingDown { .. } => {}
            }
        }
        for store in 0..self.settings.stores {
            if now >= since + self.settings.gather
                && mine(&store)
                && !view.claims.contains_key(&store)
                && !self.slots.contains_key(&store)
            {
                self.slots
                    .insert(store, StoreState::Claiming { lease, since: now });
                out.push(Output::Claim { store, lease });
            } else if let Some(claim) = view.claims.get(&store)
                && claim.lease == lease
                && !self.slots.contains_key(&store)
            {
                // A claim whose response was lost is released, and made again if the store is assigned to this member.
                let epoch = claim.epoch;
                self.slots.insert(
                    store,
                    StoreState::Releasing {
                        epoch,
                        requested: Some(now),
                        rest: 0,
                    },
                );
                out.push(Output::Release {
                    store,
                    epoch,
                    lease,
                });
            }
        }
    }

    /// Ends the member once all stores are released.
    fn finish_leaving(&mut self, out: &mut Vec<Output>) {
        let busy = |slot: &StoreState| !matches!(slot, StoreState::CoolingDown { .. });
        if !self.leaving || self.left || self.slots.values().any(busy) {
            return;
        }
        if let Some(Lease { id: lease, .. }) = self.lease.take() {
            out.push(Output::End { lease });
            out.push(Output::Revoke { lease });
        }
        self.left = true;
        out.push(Output::Left);
    }
}

impl Machine {
    /// Returns stores that are not open, with their state as a word for display.
    pub fn transitions(&self) -> Vec<(u32, &'static str)> {
        let word = |slot: &StoreState| match slot {
            StoreState::Claiming { .. } => Some("claiming"),
            StoreState::Claimed { .. } => Some("claimed"),
            StoreState::Opening { .. } => Some("opening"),
            StoreState::Open { .. } => None,
            StoreState::Closing { .. } => Some("closing"),
            StoreState::Releasing { .. } => Some("releasing"),
            StoreState::CoolingDown { .. } => Some("resting"),
        };
        let all = self.slots.iter();
        all.filter_map(|(store, slot)| Some((*store, word(slot)?)))
            .collect()
    }
}
