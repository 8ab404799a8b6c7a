//! What a member's machine is told, and what it says is to be done.

use super::view::{MemberId, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What does not change.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This member.
    pub me: MemberId,
    /// How many stores there are.
    pub stores: u32,
    /// So long before its end by this machine's clock a lease counts as over, in milliseconds.
    pub margin: u64,
    /// How often a lease is prolonged.
    pub prolong: u64,
    /// So long after it came a member claims nothing: others that are started with it come, too.
    pub gather: u64,
    /// Whether stores move for balance by themselves, and not only when somebody asks for it.
    pub even: bool,
}

/// What happens. All times are of one clock that never stands still.
#[derive(Debug, Clone)]
pub enum Input {
    /// Time goes on. To come often: every tenth of a second.
    Tick,
    /// There is a lease, asked for at `sent`, and this member is listed under it.
    Granted {
        /// Its number.
        lease: u64,
        /// When it was asked for.
        sent: u64,
        /// How long it lasts.
        lasts: u64,
        /// etcd's revision with it.
        revision: u64,
    },
    /// There is none.
    NotGranted,
    /// A lease was prolonged.
    Kept {
        /// Which.
        lease: u64,
        /// When that was asked for.
        sent: u64,
        /// How long it lasts from then on.
        lasts: u64,
    },
    /// etcd knows a lease no more.
    Gone {
        /// Which.
        lease: u64,
    },
    /// What etcd holds.
    See(Arc<View>),
    /// A claim was made.
    Claimed {
        /// Of which store.
        store: u32,
        /// Under which lease.
        lease: u64,
        /// The epoch that it has by it.
        epoch: u64,
        /// etcd's revision with it.
        revision: u64,
    },
    /// A claim could not be made, or nobody knows whether it was.
    NotClaimed {
        /// Of which store.
        store: u32,
        /// Under which lease.
        lease: u64,
    },
    /// A store is served.
    Opened {
        /// Which.
        store: u32,
        /// At which epoch.
        epoch: u64,
    },
    /// It takes no writes any more, and may do so once it is opened anew.
    Failed {
        /// Which.
        store: u32,
        /// At which epoch.
        epoch: u64,
    },
    /// It cannot be.
    NotOpened {
        /// Which.
        store: u32,
        /// At which epoch.
        epoch: u64,
    },
    /// A store is served no more; nothing of it is under way here.
    Closed {
        /// Which.
        store: u32,
        /// At which epoch.
        epoch: u64,
    },
    /// A claim was given up, or it was not to be reached.
    Released {
        /// Of which store.
        store: u32,
        /// At which epoch.
        epoch: u64,
        /// Whether etcd knows.
        done: bool,
    },
    /// This member is to end: what it has goes to others first.
    Leave,
}

/// What the host is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask for a lease, and list this member under it.
    Grant,
    /// Prolong it.
    Keep {
        /// Which.
        lease: u64,
    },
    /// Say that this member takes no more stores.
    Withdraw {
        /// Its lease.
        lease: u64,
    },
    /// End it.
    Revoke {
        /// Which.
        lease: u64,
    },
    /// Answers may leave until then, and no later, for stores opened under that lease.
    Serve {
        /// Which.
        lease: u64,
        /// By the clock of `now`.
        until: u64,
    },
    /// No answer may leave any more of stores opened under that lease.
    End {
        /// Which.
        lease: u64,
    },
    /// From now on only these epochs count, and later ones: what comes from an earlier one is refused, and what is served here at
    /// an earlier one answers nothing any more. To be done before anything that follows.
    Fence(BTreeMap<u32, u64>),
    /// Say in etcd that claims up to that revision are heeded.
    Confirm {
        /// This member's lease.
        lease: u64,
        /// The revision.
        revision: u64,
    },
    /// Claim a store that nobody has.
    Claim {
        /// Which.
        store: u32,
        /// Under that lease.
        lease: u64,
    },
    /// Take over its folder and serve it.
    Open {
        /// Which.
        store: u32,
        /// The epoch.
        epoch: u64,
        /// The lease that it is under.
        lease: u64,
    },
    /// Stop serving it; `lost` if it is somebody else's already: then at once.
    Close {
        /// Which.
        store: u32,
        /// At which epoch.
        epoch: u64,
        /// Whether there is nobody to say goodbye to.
        lost: bool,
    },
    /// Give up the claim.
    Release {
        /// Of which store.
        store: u32,
        /// At which epoch.
        epoch: u64,
        /// Under which lease.
        lease: u64,
    },
    /// All is given back; the process may end.
    Left,
}

impl Settings {
    /// What suits a lease of so many milliseconds.
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
