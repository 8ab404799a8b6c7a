//! What an attached process and the owner say to each other over the socket.
//!
//! ```text
//!  frame     [length 4][kind 1][payload], length = 1 + payload bytes, at most FRAME_BYTES_MAX
//!
//!  client                           owner
//!  Hello  magic, protocol, version
//!                                   Welcome  protocol, version, process id      or Failed
//!  Request
//!                                   Items*, Progress*, then Done or Failed
//!  Cancel (any time)                the answer ends early, with what was found
//! ```
//!
//! An owner that goes closes the connection; what it did not answer is asked again of the next one.
//!
//! One request at a time on a connection; who wants more opens another. Integers are big-endian, lengths LEB128,
//! values as `model::value` encodes them. Both ends are of one machine and mostly of one build, so there is a
//! protocol number and no negotiation.

pub(crate) mod encoding;
pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod model;
pub(crate) mod namespace;
mod object;
pub(crate) mod request;
pub(crate) mod travel;

/// What both ends must speak.
pub(crate) const PROTOCOL: u16 = 5;
/// What a connection begins with.
pub(crate) const MAGIC: [u8; 8] = *b"esker/1\n";
