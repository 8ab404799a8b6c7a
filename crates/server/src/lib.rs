//! The server: a database's owner process that also answers on the network, gRPC and HTTP on one port.
//!
//! [`Server::start`] takes an open [`esker::Database`] and [`Settings`]; bytes move on a few asynchronous threads, and
//! everything that touches the database runs on a bounded pool of others ([`work`]). Writes of all clients go through
//! one thread, which applies what has gathered as one group commit. What would not fit is refused before anything is
//! done, with the time to come back ([`service`]).
//!
//! Suggested reading order: [`settings`], `service`, `answer`, `exchange`, `listen`, `access`. `docs/book/server.md` is for users.

mod access;
mod admin;
mod answer;
mod asked;
mod call;
pub mod cluster;
mod config;
mod exchange;
#[doc(hidden)]
pub mod hostile;
mod http;
pub mod limits;
mod listen;
pub mod member;
mod metrics;
mod names;
mod objects;
mod outbox;
mod routes;
pub mod sandbox;
mod server;
mod service;
pub mod settings;
mod spool;
mod text;
mod tls;
mod unary;
mod watch;
mod work;
mod writer;

pub use asked::Asked;
pub use cluster::Switch;
pub use cluster::backup::Backup;
pub use cluster::config::{ClusterConfig, EtcdConfig};
pub use cluster::derived::derived;
pub use config::LEASE_MAX;
pub use member::Member;
pub use routes::{Route, routes};
pub use server::Server;
pub use settings::Settings;
