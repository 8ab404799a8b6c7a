//! Protocol between an attached process and the owner on the Unix socket.
//!
//! ```text
//!  frame   [length 4][kind 1][payload], length = 1 + payload bytes, at most FRAME_BYTES_MAX
//!
//!  client                           owner
//!  Hello  magic, protocol, version
//!                                   Welcome  protocol, version, process id    or Failed
//!  Request
//!                                   Items*, Progress*, then Done or Failed
//!  Cancel (any time)                the response ends early, with the results so far
//! ```
//!
//! An owner that ends closes the connection; requests without a complete response are sent to the next owner.
//!
//! A connection has one request at a time; a client opens more connections for more requests. Payloads are encoded as
//! [`esker_model::wire`] says. Both ends are on one machine and mostly of the same build, so
//! there is a protocol number and no negotiation.

pub(crate) mod frame;
pub(crate) mod request;

/// Protocol number, which must be equal at both ends.
pub(crate) const PROTOCOL: u16 = 9;
/// First bytes of a connection.
pub(crate) const MAGIC: [u8; 8] = *b"esker/1\n";
