//! Network protocol between servers and clients: protobuf messages, their conversions, and the remote client.
//!
//! `proto/esker/v1` defines the messages; [`proto`] is generated from it and committed. [`convert`] turns messages into the
//! model's types and back; malformed messages are refused with the name of the field, and no input causes a panic.
//! [`Client`] is
//! blocking, implements [`esker_model::GraphRead`] and [`esker_model::GraphWrite`], and sends the calls of all threads
//! over one
//! stream. `docs/internals/rpc.md` describes the protocol.
//!
//! Suggested reading order: `proto/esker/v1/esker.proto`, [`frame`], [`client`].

pub mod address;
pub mod client;
pub mod convert;
pub mod failure;
pub mod frame;
pub mod http;
pub mod limits;
pub mod logins;
pub mod map;
pub mod members;
pub mod oidc;
pub mod trace;
pub mod tunnel;

/// Messages and services, generated from `proto/esker/v1`.
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
use esker_process::producer;

mod versions;

pub use versions::{OLDEST_PROTOCOL, PROTOCOL, agreed_protocol};
