//! The machine itself.

use super::plan::plan;
use super::view::{MemberId, View};
use super::words::{Input, Output, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;

/// After so long what failed is tried again, in milliseconds.
const AGAIN: u64 = 500;
/// A store that could not be opened is left to others for so long.
const REST: u64 = 2_000;
/// So many stores are handed over at a time: what moves is away for a moment.
const MOVING_MAX: usize = 2;

/// How far this member is with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// etcd was asked.
    Claiming { lease: u64, since: u64 },
    /// Not all members heed it yet.
    Claimed { epoch: u64, revision: u64 },
    /// It is being opened.
    Opening {
        epoch: u64,
        revision: u64,
        lost: bool,
    },
    /// It is served.
    Open { epoch: u64, revision: u64 },
    /// Its service ends.
    Closing { epoch: u64, lost: bool },
    /// The claim is to be given up.
    Releasing {
        epoch: u64,
        asked: Option<u64>,
        rest: u64,
    },
    /// It could not be opened lately.
    Resting { until: u64 },
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: u64,
    until: u64,
    prolonged: u64,
    since: u64,
    /// etcd's, when this member was listed under it.
    revision: u64,
}

/// A member's mind.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    lease: Option<Lease>,
    /// When one was asked for that has not been answered.
    asking: Option<u64>,
    /// Not before then.
    next_try: u64,
    view: Option<Arc<View>>,
    /// Who is to have what, by that view.
    plan: BTreeMap<u32, MemberId>,
    slots: BTreeMap<u32, Slot>,
    heeded: BTreeMap<u32, u64>,
    /// What is to be confirmed under this lease, and when that was asked last.
    confirm: Option<(u64, u64)>,
    withdrawn: Option<u64>,
    leaving: bool,
    left: bool,
}

impl Machine {
    /// A member that has nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            lease: None,
            asking: None,
            next_try: 0,
            view: None,
            plan: BTreeMap::new(),
            slots: BTreeMap::new(),
            heeded: BTreeMap::new(),
            confirm: None,
            withdrawn: None,
            leaving: false,
            left: false,
        }
    }

    /// What to do about it.
    pub fn step(&mut self, now: u64, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        // What comes late must not be taken for what came in time.
        self.check_lease(now, &mut out);
        self.take(now, input, &mut out);
        self.check_lease(now, &mut out);
        self.ask_for_lease(now, &mut out);
        self.insist(now, &mut out);
        self.work(now, &mut out);
        self.end(&mut out);
        out
    }

    /// Stores that are served.
    pub fn open(&self) -> impl Iterator<Item = u32> + '_ {
        let open = |slot: &Slot| matches!(slot, Slot::Open { .. });
        self.slots
            .iter()
            .filter(move |(_, s)| open(s))
            .map(|(n, _)| *n)
    }

    /// What was seen last.
    pub fn view(&self) -> Option<&View> {
        self.view.as_deref()
    }

    /// The lease, while there is one.
    pub fn lease(&self) -> Option<u64> {
        self.lease.map(|l| l.id)
    }

    fn take(&mut self, now: u64, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => {}
            Input::Granted {
                lease,
                sent,
                lasts,
                revision,
            } => {
                self.asking = None;
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
                self.asking = None;
                self.next_try = now + AGAIN;
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
                    self.lose(now, out);
                }
            }
            Input::See(view) => self.see(now, view, out),
            Input::Leave => {
                self.leaving = true;
            }
            other => self.take_slot(now, &other, out),
        }
    }

    /// What happened to one store.
    fn take_slot(&mut self, now: u64, input: &Input, out: &mut Vec<Output>) {
        match *input {
            Input::Claimed {
                store,
                lease,
                epoch,
                revision,
            } => {
                let asked =
                    |slot: &Slot| matches!(slot, Slot::Claiming { lease: l, .. } if *l == lease);
                // One that was given up meanwhile is released when it is seen.
                if self.lease() == Some(lease) && self.slots.get(&store).is_some_and(asked) {
                    self.slots.insert(store, Slot::Claimed { epoch, revision });
                }
            }
            Input::NotClaimed { store, lease } => {
                let asked =
                    |slot: &Slot| matches!(slot, Slot::Claiming { lease: l, .. } if *l == lease);
                if self.slots.get(&store).is_some_and(asked) {
                    self.slots.remove(&store);
                }
            }
            Input::Opened { store, epoch } => match self.slots.get(&store).copied() {
                Some(Slot::Opening {
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
                        Slot::Closing { epoch, lost: true }
                    } else {
                        Slot::Open { epoch, revision }
                    };
                    self.slots.insert(store, next);
                }
                _ => {}
            },
            // Closed and given up; whoever is to have it, most likely this member, claims it anew.
            Input::Failed { store, epoch } => match self.slots.get(&store).copied() {
                Some(Slot::Open { epoch: e, .. }) if e == epoch => {
                    let lost = false;
                    self.slots.insert(store, Slot::Closing { epoch, lost });
                    out.push(Output::Close { store, epoch, lost });
                }
                _ => {}
            },
            Input::NotOpened { store, epoch } => match self.slots.get(&store).copied() {
                Some(Slot::Opening { epoch: e, lost, .. }) if e == epoch => {
                    let next = if lost {
                        Slot::Resting { until: now + AGAIN }
                    } else {
                        Slot::Releasing {
                            epoch,
                            asked: None,
                            rest: REST,
                        }
                    };
                    self.slots.insert(store, next);
                }
                _ => {}
            },
            Input::Closed { store, epoch } => match self.slots.get(&store).copied() {
                Some(Slot::Closing { epoch: e, lost }) if e == epoch => {
                    if lost {
                        self.slots.remove(&store);
                    } else {
                        self.slots.insert(
                            store,
                            Slot::Releasing {
                                epoch,
                                asked: None,
                                rest: AGAIN,
                            },
                        );
                    }
                }
                _ => {}
            },
            Input::Released { store, epoch, done } => match self.slots.get(&store).copied() {
                Some(Slot::Releasing { epoch: e, rest, .. }) if e == epoch && done => {
                    self.slots
                        .insert(store, Slot::Resting { until: now + rest });
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn see(&mut self, now: u64, view: Arc<View>, out: &mut Vec<Output>) {
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
            .filter(|(store, epoch)| self.heeded.get(store).copied().unwrap_or(0) < **epoch);
        let newer: BTreeMap<u32, u64> = newer.map(|(store, epoch)| (*store, *epoch)).collect();
        if !newer.is_empty() {
            self.heeded.extend(&newer);
            self.confirm = None;
            out.push(Output::Fence(self.heeded.clone()));
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
            // What was seen before it was listed says nothing.
            if revision >= lease.revision {
                self.lose(now, out);
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

    /// Stores whose claims are no longer this member's: somebody has taken them away by hand.
    fn check_claims(&mut self, out: &mut Vec<Output>) {
        let (Some(view), Some(lease)) = (&self.view, self.lease()) else {
            return;
        };
        for (store, slot) in &mut self.slots {
            let (Slot::Open { epoch, revision }
            | Slot::Opening {
                epoch, revision, ..
            }
            | Slot::Claimed { epoch, revision }) = *slot
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
                Slot::Open { .. } => {
                    *slot = Slot::Closing { epoch, lost: true };
                    out.push(Output::Close {
                        store,
                        epoch,
                        lost: true,
                    });
                }
                Slot::Opening { lost, .. } => *lost = true,
                slot => *slot = Slot::Resting { until: 0 },
            }
        }
    }

    fn check_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        if self.lease.is_some_and(|l| now >= l.until) {
            self.lose(now, out);
        }
    }

    /// The lease is over.
    fn lose(&mut self, now: u64, out: &mut Vec<Output>) {
        let Some(Lease { id: lease, .. }) = self.lease.take() else {
            return;
        };
        out.push(Output::End { lease });
        self.next_try = now;
        for (store, slot) in &mut self.slots {
            let store = *store;
            match slot {
                Slot::Open { epoch, .. } => {
                    let epoch = *epoch;
                    *slot = Slot::Closing { epoch, lost: true };
                    out.push(Output::Close {
                        store,
                        epoch,
                        lost: true,
                    });
                }
                Slot::Opening { lost, .. } | Slot::Closing { lost, .. } => *lost = true,
                Slot::Claiming { .. } | Slot::Claimed { .. } | Slot::Releasing { .. } => {
                    *slot = Slot::Resting { until: 0 };
                }
                Slot::Resting { .. } => {}
            }
        }
    }

    fn ask_for_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        if let Some(lease) = &mut self.lease {
            if now >= lease.prolonged + self.settings.prolong {
                lease.prolonged = now;
                out.push(Output::Keep { lease: lease.id });
            }
        } else if !self.leaving && self.asking.is_none() && now >= self.next_try {
            self.asking = Some(now);
            out.push(Output::Grant);
        }
    }

    /// Says again what etcd does not say yet: questions and answers may be lost.
    fn insist(&mut self, now: u64, out: &mut Vec<Output>) {
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
        if let Some((revision, asked)) = &mut self.confirm
            && me.seen < *revision
            && now >= *asked + AGAIN
        {
            *asked = now;
            let revision = *revision;
            out.push(Output::Confirm { lease, revision });
        }
        if self.leaving && !me.leaving && self.withdrawn.is_none_or(|at| now >= at + AGAIN) {
            self.withdrawn = Some(now);
            out.push(Output::Withdraw { lease });
        }
    }

    /// What this member does about stores.
    fn work(&mut self, now: u64, out: &mut Vec<Output>) {
        let Some(Lease {
            id: lease, since, ..
        }) = self.lease
        else {
            return;
        };
        self.slots
            .retain(|_, slot| !matches!(slot, Slot::Resting { until } if now >= *until));
        let Some(view) = &self.view else { return };
        let listed = view.members.get(&self.settings.me);
        if listed.is_none_or(|me| me.lease != lease) {
            return;
        }
        let plan = &self.plan;
        let mine = |store: &u32| !self.leaving && plan.get(store) == Some(&self.settings.me);
        // Somebody is there to take it.
        let wanted = |store: &u32| plan.get(store).is_some_and(|m| *m != self.settings.me);
        let away = |slot: &&Slot| matches!(slot, Slot::Closing { .. } | Slot::Releasing { .. });
        let mut moving = self.slots.values().filter(away).count();
        for (store, slot) in &mut self.slots {
            let store = *store;
            match slot {
                Slot::Claiming { lease: l, since } => {
                    // Nobody knows what became of it: the next look at etcd tells.
                    if *l != lease || now >= *since + 10 * AGAIN {
                        *slot = Slot::Resting { until: now };
                    }
                }
                Slot::Claimed { epoch, revision } => {
                    let (epoch, revision) = (*epoch, *revision);
                    let others = view.behind(revision).any(|m| *m != self.settings.me);
                    if self.leaving {
                        *slot = Slot::Releasing {
                            epoch,
                            asked: None,
                            rest: AGAIN,
                        };
                    } else if view.revision >= revision && !others {
                        *slot = Slot::Opening {
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
                Slot::Open { epoch, .. } => {
                    let epoch = *epoch;
                    let goes = wanted(&store) && (moving < MOVING_MAX || self.leaving);
                    if goes || self.leaving {
                        moving += 1;
                        *slot = Slot::Closing { epoch, lost: false };
                        out.push(Output::Close {
                            store,
                            epoch,
                            lost: false,
                        });
                    }
                }
                Slot::Releasing { epoch, asked, .. } => {
                    if asked.is_none_or(|at| now >= at + AGAIN) {
                        *asked = Some(now);
                        out.push(Output::Release {
                            store,
                            epoch: *epoch,
                            lease,
                        });
                    }
                }
                Slot::Opening { .. } | Slot::Closing { .. } | Slot::Resting { .. } => {}
            }
        }
        for store in 0..self.settings.stores {
            if now >= since + self.settings.gather
                && mine(&store)
                && !view.claims.contains_key(&store)
                && !self.slots.contains_key(&store)
            {
                self.slots
                    .insert(store, Slot::Claiming { lease, since: now });
                out.push(Output::Claim { store, lease });
            } else if let Some(claim) = view.claims.get(&store)
                && claim.lease == lease
                && !self.slots.contains_key(&store)
            {
                // A claim whose answer was lost: it is given up, and made anew if it is wanted.
                let epoch = claim.epoch;
                self.slots.insert(
                    store,
                    Slot::Releasing {
                        epoch,
                        asked: Some(now),
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

    /// Whether all is given back.
    fn end(&mut self, out: &mut Vec<Output>) {
        let busy = |slot: &Slot| !matches!(slot, Slot::Resting { .. });
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
    /// Stores that are not open, and how far they are; for people.
    pub fn under_way(&self) -> Vec<(u32, &'static str)> {
        let word = |slot: &Slot| match slot {
            Slot::Claiming { .. } => Some("claiming"),
            Slot::Claimed { .. } => Some("claimed"),
            Slot::Opening { .. } => Some("opening"),
            Slot::Open { .. } => None,
            Slot::Closing { .. } => Some("closing"),
            Slot::Releasing { .. } => Some("releasing"),
            Slot::Resting { .. } => Some("resting"),
        };
        let all = self.slots.iter();
        all.filter_map(|(store, slot)| Some((*store, word(slot)?)))
            .collect()
    }
}
