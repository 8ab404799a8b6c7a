//! When answers may leave: while the lease holds, and nobody else has the store.
//!
//! The clock is the one that goes on while a machine sleeps. It is looked at after the work was done: what was committed before the
//! lease ended is in the folder that the next holder takes over, and what was not is never acknowledged.

use esker_cluster::ServerId;
use esker_cluster::member::MemberId;
use esker_cluster::node::{SERVERS_MAX, incarnation_at};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Milliseconds since this machine was started, those included in which it slept.
pub(crate) fn now_millis() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let millis = now.tv_sec.saturating_mul(1_000) + now.tv_nsec / 1_000_000;
    u64::try_from(millis).unwrap_or(0)
}

/// How long a lease holds, by this machine's clock.
#[derive(Debug, Default)]
pub(crate) struct LeaseGate(AtomicU64);

impl LeaseGate {
    pub(crate) fn extend(&self, until: u64) {
        self.0.fetch_max(until, Ordering::AcqRel);
    }

    /// For good: no later extension counts, because nobody extends a lease that has ended.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn holds(&self) -> bool {
        now_millis() < self.0.load(Ordering::Acquire)
    }
}

/// Whether answers of one store may leave.
#[derive(Debug)]
pub(crate) struct Gate {
    lease: Arc<LeaseGate>,
    shut: AtomicBool,
}

impl Gate {
    pub(crate) fn new(lease: Arc<LeaseGate>) -> Arc<Self> {
        Arc::new(Self {
            lease,
            shut: AtomicBool::new(false),
        })
    }

    /// From now on none may.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    pub(crate) fn open(&self) -> bool {
        !self.shut.load(Ordering::Acquire) && self.lease.holds()
    }
}

/// The newest epoch of each store that was claimed, as far as this member heeds it.
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

    /// Whether a store that asks, in that incarnation, is the one that has the store now.
    pub(crate) fn pass(&self, store: ServerId, incarnation: u64) -> bool {
        let fence = self.0.get(store.0 as usize);
        let epoch = fence.map_or(0, |f| f.load(Ordering::Acquire));
        incarnation >= incarnation_at(epoch)
    }
}

/// Where stores are, and which members there are, as etcd said last.
#[derive(Debug, Default)]
pub(crate) struct Places(RwLock<Known>);

#[derive(Debug, Default, Clone)]
struct Known {
    members: Vec<MemberId>,
    stores: Vec<Option<(MemberId, u64)>>,
}

impl Places {
    pub(crate) fn set(&self, members: Vec<MemberId>, stores: Vec<Option<(MemberId, u64)>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { members, stores };
    }

    pub(crate) fn members(&self) -> Vec<MemberId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.members.clone()
    }

    /// Who has a store, and at which epoch.
    pub(crate) fn of(&self, store: u32) -> Option<(MemberId, u64)> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.stores.get(store as usize).cloned().flatten()
    }

    /// The stores that a member has.
    pub(crate) fn with(&self, member: &str) -> Vec<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let all = (0..).zip(&known.stores);
        all.filter(|(_, place)| place.as_ref().is_some_and(|(m, _)| m == member))
            .map(|(store, _)| store)
            .collect()
    }

    /// Stores that nobody has.
    pub(crate) fn missing(&self) -> usize {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.stores.iter().filter(|s| s.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_as_long_as_its_lease_and_never_again() {
        let lease = Arc::new(LeaseGate::default());
        let gate = Gate::new(Arc::clone(&lease));
        assert!(!gate.open());
        lease.extend(now_millis() + 60_000);
        assert!(gate.open());
        lease.extend(now_millis() + 1);
        assert!(gate.open(), "a late answer does not shorten it");
        gate.shut();
        assert!(!gate.open());
        let other = Gate::new(Arc::clone(&lease));
        assert!(other.open());
        lease.end();
        assert!(!other.open());
    }

    #[test]
    fn who_asks_from_before_a_claim_is_refused() {
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
