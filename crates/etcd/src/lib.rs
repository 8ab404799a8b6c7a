//! A client of etcd (API version 3) for the calls that Esker makes: keys, transactions, leases and watches.
//!
//! The messages are generated from `proto/etcd.proto` and committed, so that a build needs no `protoc`.
//! [`Etcd::connect`] reads the
//! certificates and the account that the settings name. Each call ends within [`Times::answer`]; errors name the endpoints.
//!
//! Suggested reading order: `proto/etcd.proto`, [`Etcd`], [`Txn`].

mod client;
mod connect;
mod txn;

/// Messages and services, generated from `proto/etcd.proto`.
#[rustfmt::skip]
#[path = "generated/etcdserverpb.rs"]
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::enum_variant_names,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod proto;

pub use client::{Etcd, Listing, Pair, Watch};
pub use connect::Times;
pub use txn::Txn;
