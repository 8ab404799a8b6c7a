//! Inputs and outputs of a member's state machine.

use super::view::{MemberId, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fixed settings of a member.
#[derive(Debug, Clone)]
pub struct MemberSettings {
    /// Address of this member.
    pub me: MemberId,
    /// Number of stores of the cluster.
    pub stores: u32,
    /// Margin before its end, by this machine's clock, at which a lease counts as expired, in milliseconds.
    pub margin: u64,
    /// Interval at which a lease is prolonged, in milliseconds.
    pub prolong: u64,
    /// Time after its start in which a member claims nothing, so that members started together can join; in milliseconds.
    pub gather: u64,
    /// Whether stores move for balance automatically, and not only on request.
    pub even: bool,
}

/// Events for a member. All times are of one clock that never stops.
#[derive(Debug, Clone)]
pub enum Input {
    /// Time has passed; must come often, every tenth of a second.
    Tick,
    /// A lease requested at `sent` was granted, and this member is listed under it.
    Granted {
        /// Id of the lease.
        lease: u64,
        /// Time of the request.
        sent: u64,
        /// Duration of the lease in milliseconds.
        lasts: u64,
        /// Revision of etcd after the grant.
        revision: u64,
    },
    /// A lease could not be granted.
    NotGranted,
    /// A lease was prolonged.
    Kept {
        /// Id of the lease.
        lease: u64,
        /// Time of the request.
        sent: u64,
        /// Duration from then on, in milliseconds.
        lasts: u64,
    },
    /// A lease has expired in etcd.
    Gone {
        /// Id of the lease.
        lease: u64,
    },
    /// New state of etcd.
    See(Arc<View>),
    /// A store was claimed.
    Claimed {
        /// Number of the store.
        store: u32,
        /// Lease of the claim.
        lease: u64,
        /// New epoch of the store.
        epoch: u64,
        /// Revision of etcd after the claim.
        revision: u64,
    },
    /// A store could not be claimed, or the outcome is unknown.
    NotClaimed {
        /// Number of the store.
        store: u32,
        /// Lease of the claim.
        lease: u64,
    },
    /// A store was opened and is served.
    Opened {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
    },
    /// An open store no longer accepts writes, and may do so once it is opened again.
    Failed {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
    },
    /// A store could not be opened.
    NotOpened {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
    },
    /// A store was closed; no work on it is in progress here.
    Closed {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
    },
    /// A claim was released, or the release failed.
    Released {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
        /// Whether etcd has confirmed the release.
        done: bool,
    },
    /// This member is to end, after handing its stores to others.
    Leave,
}

/// Actions for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Request a lease, and list this member under it.
    Grant,
    /// Prolong the lease.
    Keep {
        /// Id of the lease.
        lease: u64,
    },
    /// Announce that this member takes no more stores.
    Withdraw {
        /// Lease of the member.
        lease: u64,
    },
    /// Revoke the lease.
    Revoke {
        /// Id of the lease.
        lease: u64,
    },
    /// Responses for stores opened under this lease may leave until then, and no later.
    Serve {
        /// Id of the lease.
        lease: u64,
        /// Time by the clock of `now`.
        until: u64,
    },
    /// No more responses may leave for stores opened under this lease.
    End {
        /// Id of the lease.
        lease: u64,
    },
    /// From now on only these epochs and later ones count: messages of earlier epochs are refused, and stores served
    /// here at earlier ones respond to nothing. Must be done before any later output.
    Fence(BTreeMap<u32, u64>),
    /// Announce in etcd that claims up to a revision are acknowledged.
    Confirm {
        /// Lease of this member.
        lease: u64,
        /// Revision to acknowledge.
        revision: u64,
    },
    /// Claim a free store.
    Claim {
        /// Number of the store.
        store: u32,
        /// Lease of the claim.
        lease: u64,
    },
    /// Take over the folder of a store and serve it.
    Open {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
        /// Lease of the claim.
        lease: u64,
    },
    /// Stop serving a store; at once if `lost`, because another member has it already.
    Close {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
        /// Whether the claim is lost, so that there is no orderly handover.
        lost: bool,
    },
    /// Release the claim of a store.
    Release {
        /// Number of the store.
        store: u32,
        /// Epoch of the store.
        epoch: u64,
        /// Lease of the claim.
        lease: u64,
    },
    /// All stores are released; the process may end.
    Left,
}

impl MemberSettings {
    /// Returns settings for a lease of `lease` milliseconds.
    pub fn for_lease(me: MemberId, stores: u32, lease: u64) -> Self {
        Self {
            me,
            stores,
            margin: (lease / 10).max(100),
            prolong: (lease / 5).max(50),
            gather: 400,
            even: true,
        }
    }
}
