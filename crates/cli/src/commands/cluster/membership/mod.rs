//! Clusters whose servers move between members, as etcd assigns them.

pub(super) mod add;
pub(super) mod down;
pub(super) mod drain;
pub(super) mod rebalance;
pub(super) mod restart;
pub(super) mod server;
pub(super) mod status;
pub(super) mod up;

use esker_server::ClusterConfig;
use std::path::Path;

/// Reads the file of a cluster whose servers move.
fn read(file: &Path) -> anyhow::Result<ClusterConfig> {
    let config = ClusterConfig::from_file(file)?;
    if config.etcd.is_none() {
        return Err(esker_terminal::exit::usage(format!(
            "data does not move between the servers of cluster `{}`: add `stores = 16` to `{}`, \
             and the cluster distributes its stores over the servers that there are",
            config.name,
            file.display()
        )));
    }
    Ok(config)
}
