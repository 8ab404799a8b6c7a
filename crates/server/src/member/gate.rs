//! Conditions for sending answers: the lease is valid, and no other member has the store.
//!
//! The clock continues while a machine sleeps. It is read after the work is done: whatever was committed before the end of the lease is
//! in the folder that the next holder takes over, and anything else is never acknowledged.

use esker_cluster::ServerId;
use esker_cluster::member::MemberId;
use esker_cluster::node::{SERVERS_MAX, incarnation_at};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Milliseconds since this machine was started, including the time in which it slept.
pub(crate) fn now_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let millis = now.tv_sec.saturating_mul(1_000) + now.tv_nsec / 1_000_000;
    u64::try_from(millis).unwrap_or(0)
}

/// End of a lease, in milliseconds of this machine's clock.
#[derive(Debug, Default)]
pub(crate) struct LeaseGate(AtomicU64);

impl LeaseGate {
    pub(crate) fn extend(&self, until: u64) {
        self.0.fetch_max(until, Ordering::AcqRel);
    }

    /// Ends the lease permanently: an ended lease is not extended again.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_valid(&self) -> bool {
        now_millis() < self.0.load(Ordering::Acquire)
    }
}

/// Gate for the answers of one store.
#[derive(Debug)]
pub(crate) struct Gate {
    lease: Arc<LeaseGate>,
    closed: AtomicBool,
}

impl Gate {
    pub(crate) fn new(lease: Arc<LeaseGate>) -> Arc<Self> {
        Arc::new(Self {
            lease,
            closed: AtomicBool::new(false),
        })
    }

    /// Closes the gate permanently.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.lease.is_valid()
    }
}

/// Newest claimed epoch of each store, as far as this member enforces it.
#[derive(Debug)]
pub(crate) struct Fences(Vec<AtomicU64>);

impl Default for Fences {
    fn default() -> Self {
        Self((0..SERVERS_MAX).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Fences {
    pub(crate) fn raise(&self, epochs: &BTreeMap<u32, u64>) {
        for (store, epoch) in epochs {
            if let Some(fence) = self.0.get(*store as usize) {
                fence.fetch_max(*epoch, Ordering::AcqRel);
            }
        }
    }

    /// Whether a sender in that incarnation is the present holder of its store.
    pub(crate) fn pass(&self, store: ServerId, incarnation: u64) -> bool {
        let fence = self.0.get(store.0 as usize);
        let epoch = fence.map_or(0, |f| f.load(Ordering::Acquire));
        incarnation >= incarnation_at(epoch)
    }
}

/// The assignment of stores to members, as etcd had it last.
#[derive(Debug, Default)]
pub(crate) struct Assignments(RwLock<AssignmentState>);

#[derive(Debug, Default, Clone)]
struct AssignmentState {
    members: Vec<MemberId>,
    stores: Vec<Option<(MemberId, u64)>>,
}

impl Assignments {
    pub(crate) fn set(&self, members: Vec<MemberId>, stores: Vec<Option<(MemberId, u64)>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) =
            AssignmentState { members, stores };
    }

    pub(crate) fn members(&self) -> Vec<MemberId> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.members.clone()
    }

    /// Member that has a store, and the epoch of its claim.
    pub(crate) fn holder(&self, store: u32) -> Option<(MemberId, u64)> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.stores.get(store as usize).cloned().flatten()
    }

    /// The stores that a member has.
    pub(crate) fn stores_of(&self, member: &str) -> Vec<u32> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let all = (0..).zip(&state.stores);
        all.filter(|(_, place)| place.as_ref().is_some_and(|(m, _)| m == member))
            .map(|(store, _)| store)
            .collect()
    }

    /// Number of stores that no member has.
    pub(crate) fn missing(&self) -> usize {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.stores.iter().filter(|s| s.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_as_long_as_its_lease_and_never_again() {
        let lease = Arc::new(LeaseGate::default());
        let gate = Gate::new(Arc::clone(&lease));
        assert!(!gate.is_open());
        lease.extend(now_millis() + 60_000);
        assert!(gate.is_open());
        lease.extend(now_millis() + 1);
        assert!(gate.is_open(), "a late answer does not shorten it");
        gate.close();
        assert!(!gate.is_open());
        let other = Gate::new(Arc::clone(&lease));
        assert!(other.is_open());
        lease.end();
        assert!(!other.is_open());
    }

    #[test]
    fn requests_from_before_a_claim_are_refused() {
        let fences = Fences::default();
        let store = ServerId(3);
        assert!(fences.pass(store, 1));
        fences.raise(&[(3, 2), (900, 7)].into());
        assert!(!fences.pass(store, incarnation_at(1) + 5));
        assert!(fences.pass(store, incarnation_at(2)));
        fences.raise(&[(3, 1)].into());
        assert!(!fences.pass(store, incarnation_at(1)));
        assert!(fences.pass(ServerId(4), 1));
    }
}
