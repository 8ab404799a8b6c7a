//! Processes of a cluster on this machine: servers ([`ServerProcess`]), members ([`MemberProcess`]) and an etcd of the cluster's own
//! ([`OwnedEtcd`]), started and stopped by their parent.

mod certificates;
mod etcd;
mod member;
mod query;
mod server;

pub use etcd::OwnedEtcd;
pub use member::{MemberProcess, member_log, stop};
pub use query::query_server;
pub use server::{Ready, ServerProcess, ServerStart, probe};

/// Creates an I/O error with the failed operation.
fn io_failure(doing: impl std::fmt::Display, cause: impl Into<std::io::Error>) -> anyhow::Error {
    esker_model::Error::io(doing.to_string(), cause.into()).into()
}
