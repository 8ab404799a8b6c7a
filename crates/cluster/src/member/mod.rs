//! Membership of a cluster, without etcd, clock or sockets: `step(now, Input) -> Vec<Output>`.
//!
//! A **store** is a server of [`crate::node`] with its folder: the unit that moves. The number of stores is fixed. A
//! **member** is a process that runs some of the stores. etcd knows which members are alive (leases), which member
//! has a store (claims), and how often each store was claimed (epochs).
//!
//! ```text
//!  free ──claim──► claimed ──all acknowledge──► opening ──► open ──assigned to another──► closing ──► released: free
//!                     │                            │          │
//!                     └────── the lease ends ──────┴──────────┴──► closing, permanently ──► free here, on another member
//! ```
//!
//! No acknowledged write is lost, and no discarded one comes back, because:
//!
//! - A member responds to nothing after the time of [`Output::Serve`], which is before its lease ends in etcd: it
//!   counts from before the request for the lease, less a margin. The host checks the clock after the work is done and
//!   before a response leaves.
//! - A claim is possible only after the previous one's lease has ended, or its holder has closed the store.
//! - Before the folder of a claimed store is taken over, all members *acknowledge* the claim ([`Output::Fence`],
//!   [`Output::Confirm`]): they accept no more requests of the previous holder. So a decision that such a holder makes
//!   after its folder was taken over reaches no member.
//! - The folder is taken over by copying (done by the host of [`Output::Open`]): later writes of the previous holder
//!   are never read.
//!
//! Suggested reading order: [`view`], [`plan`], [`Machine::step`]. `testkit` runs thousands of random histories of it.

pub mod plan;
pub mod view;

mod machine;
mod messages;
#[cfg(test)]
mod tests;

pub use machine::Machine;
pub use messages::{Input, MemberSettings, Output};
pub use view::{MemberId, View};
