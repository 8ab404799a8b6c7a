//! Distribution of a database over several servers, without sockets: which server keeps which edges, and how that changes.
//!
//! The host provides messages, time and storage. Everything here is a function of its inputs, so that a run can be
//! repeated from its seed. `docs/internals/placement.md` explains placement with pictures.
//!
//! Suggested reading order: [`placement`], its [`tree`](placement::Tree), [`placement::Splits`],
//! [`placement::Growth`]; then [`vnode`].

mod hash;
pub mod member;
pub mod node;
pub mod peer;
pub mod placement;
mod resize;
pub mod vnode;

pub use esker_engine::{Clock, Engine};
pub use node::{Host, Node};
pub use placement::{Kind, Placement};
pub use resize::{Loading, Plan, Progress, Resize, ServerContents};
pub use vnode::{ServerId, VnodeMap, Vnodes};
