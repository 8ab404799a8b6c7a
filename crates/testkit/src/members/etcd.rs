//! A single-threaded model of etcd: keys with revisions, leases and transactions, as far as members use them.

use esker_cluster::member::view::{Claim, Member, Pair, View};
use esker_cluster::member::{Input, Output};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stored value with its lease and creation revision.
#[derive(Debug, Clone)]
struct StoredValue {
    value: String,
    lease: u64,
    created: u64,
}

/// State of the simulated etcd.
#[derive(Debug, Default)]
pub(crate) struct Etcd {
    revision: u64,
    keys: BTreeMap<String, StoredValue>,
    /// Leases by id: time of expiry, and duration.
    leases: BTreeMap<u64, (u64, u64)>,
    granted: u64,
    last: Option<Arc<View>>,
}

impl Etcd {
    fn put(&mut self, key: &str, value: String, lease: u64) {
        self.revision += 1;
        let created = self
            .keys
            .get(key)
            .map_or(self.revision, |stored| stored.created);
        let stored = StoredValue {
            value,
            lease,
            created,
        };
        self.keys.insert(key.to_owned(), stored);
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the present state, as watchers see it.
    pub(crate) fn view(&mut self) -> Arc<View> {
        if let Some(view) = self.last.as_ref().filter(|v| v.revision == self.revision) {
            return Arc::clone(view);
        }
        let view = Arc::new(self.read());
        self.last = Some(Arc::clone(&view));
        view
    }

    fn read(&self) -> View {
        let pairs = self.keys.iter().map(|(key, stored)| Pair {
            key,
            value: &stored.value,
            lease: stored.lease,
            created: stored.created,
        });
        View::read(self.revision, pairs)
    }

    /// Handles a member's request, if it arrives (`reached`). `sent` is the time of the request by the member's clock.
    pub(crate) fn answer(
        &mut self,
        now: u64,
        (me, lasts): (&str, u64),
        request: &Output,
        sent: u64,
        reached: bool,
    ) -> Option<Input> {
        match *request {
            Output::Grant => Some(match reached.then(|| self.grant(now, lasts, me)) {
                Some(Some((lease, revision))) => Input::Granted {
                    lease,
                    sent,
                    lasts,
                    revision,
                },
                _ => Input::NotGranted,
            }),
            Output::Keep { lease } if reached => Some(if self.keep(now, lease) {
                Input::Kept { lease, sent, lasts }
            } else {
                Input::Gone { lease }
            }),
            Output::Claim { store, lease } => {
                Some(match reached.then(|| self.claim(store, lease, me)) {
                    Some(Some((epoch, revision))) => Input::Claimed {
                        store,
                        lease,
                        epoch,
                        revision,
                    },
                    _ => Input::NotClaimed { store, lease },
                })
            }
            Output::Release {
                store,
                epoch,
                lease,
            } => {
                if reached {
                    self.release(store, lease);
                }
                Some(Input::Released {
                    store,
                    epoch,
                    done: reached,
                })
            }
            Output::Withdraw { lease } if reached => {
                self.withdraw(lease, me);
                None
            }
            Output::Confirm { lease, revision } if reached => {
                self.confirm(lease, me, revision);
                None
            }
            Output::Revoke { lease } if reached => {
                self.revoke(lease);
                None
            }
            _ => None,
        }
    }

    /// The input for a member whose response was lost; `None` where the member repeats the request by itself.
    pub(crate) fn lost(answer: Input) -> Option<Input> {
        match answer {
            Input::Granted { .. } => Some(Input::NotGranted),
            Input::Claimed { store, lease, .. } => Some(Input::NotClaimed { store, lease }),
            Input::Released { store, epoch, .. } => Some(Input::Released {
                store,
                epoch,
                done: false,
            }),
            Input::Kept { .. } => None,
            answer => Some(answer),
        }
    }

    /// Ends expired leases; returns whether there were any.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        let over: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, (ends, _))| *ends <= now)
            .map(|(lease, _)| *lease)
            .collect();
        for lease in &over {
            self.revoke(*lease);
        }
        !over.is_empty()
    }

    /// Restarts etcd: all leases last again for their full duration.
    pub(crate) fn restart(&mut self, now: u64) {
        for (ends, lasts) in self.leases.values_mut() {
            *ends = (*ends).max(now + *lasts);
        }
    }

    /// Grants a lease with a member listed under it, unless a member of that name exists. Returns the lease and the revision.
    pub(crate) fn grant(&mut self, now: u64, lasts: u64, member: &str) -> Option<(u64, u64)> {
        let key = format!("members/{member}");
        if self.keys.contains_key(&key) {
            return None;
        }
        self.granted += 1;
        // Ids of leases are not in order of time.
        let lease = self.granted.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        self.leases.insert(lease, (now + lasts, lasts));
        self.put(&key, Member::default().text(), lease);
        Some((lease, self.revision))
    }

    pub(crate) fn keep(&mut self, now: u64, lease: u64) -> bool {
        match self.leases.get_mut(&lease) {
            Some((ends, lasts)) => {
                *ends = now + *lasts;
                true
            }
            None => false,
        }
    }

    pub(crate) fn revoke(&mut self, lease: u64) {
        self.leases.remove(&lease);
        self.keys.retain(|_, stored| stored.lease != lease);
        self.revision += 1;
    }

    pub(crate) fn withdraw(&mut self, lease: u64, member: &str) {
        if self.leases.contains_key(&lease) {
            let leaving = Member {
                leaving: true,
                ..Member::default()
            };
            self.put(&format!("members/{member}"), leaving.text(), lease);
        }
    }

    pub(crate) fn confirm(&mut self, lease: u64, member: &str, revision: u64) {
        if self.leases.contains_key(&lease) {
            self.put(&format!("seen/{member}"), revision.to_string(), lease);
        }
    }

    /// Claims a free store; returns the epoch and the revision of the claim.
    pub(crate) fn claim(&mut self, store: u32, lease: u64, member: &str) -> Option<(u64, u64)> {
        let key = format!("stores/{store}");
        if self.keys.contains_key(&key) || !self.leases.contains_key(&lease) {
            return None;
        }
        let last = self.keys.get(&format!("epochs/{store}"));
        let epoch = 1 + last.map_or(0, |stored| stored.value.parse().unwrap_or(0));
        self.put(&format!("epochs/{store}"), epoch.to_string(), 0);
        // One transaction, one revision.
        self.revision -= 1;
        let claim = Claim {
            member: member.to_owned(),
            lease,
            epoch,
        };
        self.put(&key, claim.text(), lease);
        Some((epoch, self.revision))
    }

    pub(crate) fn release(&mut self, store: u32, lease: u64) {
        let key = format!("stores/{store}");
        if self
            .keys
            .get(&key)
            .is_some_and(|stored| stored.lease == lease)
        {
            self.keys.remove(&key);
            self.revision += 1;
        }
    }

    /// An operator drains a member, or ends that.
    pub(crate) fn drain(&mut self, member: &str, drained: bool) {
        let key = format!("drained/{member}");
        if drained {
            self.put(&key, String::new(), 0);
        } else {
            self.keys.remove(&key);
            self.revision += 1;
        }
    }
}
