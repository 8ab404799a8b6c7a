//! Clusters whose stores move between their servers, as etcd says.

pub(super) mod add;
mod certificates;
pub(super) mod down;
pub(super) mod drain;
pub(crate) mod etcd;
pub(crate) mod process;
pub(super) mod rebalance;
pub(super) mod restart;
pub(super) mod server;
pub(super) mod status;
pub(super) mod up;

use esker_server::ClusterConfig;
use std::path::{Path, PathBuf};

/// The file with what a server says.
fn log_of(config: &ClusterConfig, member: &str) -> PathBuf {
    let name: String = member
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect();
    config.storage.join(format!("member-{name}.log"))
}

/// A cluster's file whose stores move.
fn read(file: &Path) -> anyhow::Result<ClusterConfig> {
    let config = ClusterConfig::from_file(file)?;
    if config.etcd.is_none() {
        return Err(crate::exit::usage(format!(
            "the servers of cluster `{}` have their data for ever: add `stores = 16` to `{}`, and the cluster moves its stores \
             between as many servers as there are",
            config.name,
            file.display()
        )));
    }
    Ok(config)
}
