//! The server: a database's owner process that also answers on the network, gRPC and HTTP on one port.
//!
//! [`Server::start`] takes an open [`esker::Database`] and [`Settings`]. A few asynchronous threads do network I/O; everything that
//! touches the database runs on bounded thread pools ([`work`]). One thread applies the writes of all clients as group commits. A request
//! beyond the limits is refused before any work is done, with the time after which to retry ([`service`]).
//!
//! Suggested reading order: [`settings`], `service`, `answer`, `exchange`, `listen`, `access`. `docs/book/server.md` is for users.

mod access;
mod admin;
mod answer;
mod audit;
mod call;
mod calls;
mod client;
pub mod cluster;
mod config;
mod config_oidc;
mod connection;
mod dispatch;
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
mod oidc;
mod outbox;
mod pieces;
mod quota_config;
mod read_graph;
mod routes;
pub mod sandbox;
mod security_headers;
mod server;
mod service;
pub mod settings;
mod settings_oidc;
mod shares;
mod sharing;
mod spans;
mod spool;
mod stop_request;
mod storage_quota;
mod text;
mod tls;
mod unary;
mod watch;
mod work;
mod writer;

pub use cluster::Switch;
pub use cluster::backup::Backup;
pub use cluster::config::{ClusterConfig, EtcdConfig};
pub use cluster::derived_config::derived_config;
pub use config::LEASE_MAX;
pub use member::Member;
pub use routes::{Route, routes};
pub use server::Server;
pub use settings::Settings;
pub use settings_oidc::{OidcSettings, UserClaim};
pub use spans::ClientCalls;
pub use stop_request::StopRequest;
