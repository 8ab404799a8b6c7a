//! What a member of a cluster does about membership, without etcd, clock or sockets: `step(now, Input) -> Vec<Output>`.
//!
//! A **store** is a server of [`crate::node`] with its folder: the unit that moves. Their number is fixed. A **member** is a
//! process; each has some of the stores. etcd says who lives (leases), who has what (claims), and how often each store was claimed
//! (epochs).
//!
//! ```text
//!  free ──claim──► claimed ──all heed it──► opening ──► open ──no longer planned here──► closing ──► released: free
//!                     │                        │          │
//!                     └──── the lease ends ────┴──────────┴──► closing, for good ──► free here, somebody else's there
//! ```
//!
//! Why no write that was acknowledged is lost, and none comes back:
//!
//! - A member answers nothing after [`Output::Serve`]'s time: that is before its lease ends in etcd, since it counts from before
//!   it asked for the lease, and leaves a margin. Its host looks at the clock after the work was done and before the answer leaves.
//! - A claim is possible only when the last one's lease has ended, or its holder has closed the store.
//! - Before a claimed store's folder is taken over, all members *heed* the claim ([`Output::Fence`], [`Output::Confirm`]): they take no
//!   question any more that the store's last holder sent. So what such a holder decides after its folder was taken over reaches nobody.
//! - The folder is taken over by copying ([`Output::Open`]'s host does): what the last holder writes later, nobody reads.
//!
//! Suggested reading order: [`view`], [`plan`], [`Machine::step`]. `testkit` runs thousands of random histories of it.

pub mod plan;
pub mod view;

mod machine;
#[cfg(test)]
mod tests;
mod words;

pub use machine::Machine;
pub use view::{MemberId, View};
pub use words::{Input, Output, Settings};
