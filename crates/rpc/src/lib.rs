//! The wire between servers and their clients: protobuf messages, their conversions, the remote client.
//!
//! `proto/esker/v1` says what travels; [`proto`] is generated from it and committed. [`convert`] turns messages into
//! the model's types and back; what is malformed is refused with the name of the field, and nothing panics, whatever
//! the bytes. [`Client`] is blocking, implements [`esker_model::GraphRead`] and [`esker_model::GraphWrite`], and sends
//! the calls of all threads over one stream. `docs/internals/rpc.md` draws the protocol.
//!
//! Suggested reading order: `proto/esker/v1/esker.proto`, [`frame`], [`client`].

pub mod address;
pub mod client;
pub mod convert;
pub mod failure;
pub mod frame;
pub mod http;
pub mod limits;
pub mod map;
pub mod marker;
pub mod members;
pub mod resume;
pub mod text;
pub mod tunnel;

/// The messages and the service, as generated from `proto/esker/v1`.
#[rustfmt::skip]
#[path = "generated/esker.v1.rs"]
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
pub mod proto;

pub use address::Address;
pub use client::{Client, FileLink, Grants, PeerLink, Pending};
pub use esker_access::{environment, peer};

/// The wire protocol that this build speaks. A server refuses another one, and both releases are named.
pub const PROTOCOL: u32 = 2;
