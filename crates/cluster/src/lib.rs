//! What makes many engines one, without sockets: which server keeps which edges, and how that changes.
//!
//! The host brings messages, time and storage; everything here is arithmetic on what it was given, so that a run can be
//! repeated from its seed. `docs/internals/placement.md` explains the whole with pictures.
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
pub use resize::{Dealt, Loading, Plan, Resize, Watch};
pub use vnode::{ServerId, VnodeMap, Vnodes};
