//! `esker cluster up --slurm`: a cluster on the nodes of a Slurm job, as in SoMeta (section II): *shared*, a server beside the
//! application's processes on each node, or *dedicated*, servers on nodes of their own.
//!
//! The nodes need nothing but this program. Each server is a job step of one task (`srun --overlap`), so Slurm ends it with the job; this
//! process, in the batch script, supervises the steps like child processes on one machine. The file of the cluster is written for the
//! job, in the storage, which all nodes can access.

use super::io_failure;
use super::resize;
use crate::args::{ClusterResizeArgs, ClusterUpArgs, FormatArgs, RowFormat};
use esker_server::{ClusterConfig, derived_config};
use esker_terminal::context::Context;
use esker_terminal::exit::usage;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File with the address of a running cluster, for other jobs and steps.
const ADDRESS_FILE: &str = "address";

/// A node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobNode {
    name: String,
    /// The network address of the node.
    address: String,
}

/// The cluster of a job.
pub(super) struct Job {
    /// The generated file of the cluster.
    pub(super) file: PathBuf,
    storage: PathBuf,
    /// The nodes with servers, by server.
    servers: Vec<JobNode>,
    /// The nodes of the application.
    application: Vec<JobNode>,
}

/// Returns the job's cluster if `--slurm` is given: writes its file, and redistributes the data in the storage over its servers.
pub(super) fn job(args: &ClusterUpArgs, context: &mut Context) -> anyhow::Result<Option<Job>> {
    let Some(storage) = args.storage.as_deref().filter(|_| args.slurm) else {
        return Ok(None);
    };
    let missing = |name: &str| {
        usage(format!(
            "--slurm starts servers within a Slurm job, and ${name} is not set: run it in a batch script (sbatch) or an allocation (salloc)"
        ))
    };
    let job = std::env::var("SLURM_JOB_ID").map_err(|_| missing("SLURM_JOB_ID"))?;
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| missing("SLURM_JOB_NODELIST"))?;
    let nodes = job_nodes(&list)?;
    let (servers, application) = divide(nodes, args.dedicated)?;
    esker::modes::create_private_all(storage)
        .map_err(|e| io_failure(format!("making `{}`", storage.display()), e))?;
    let storage = std::path::absolute(storage)
        .map_err(|e| io_failure(format!("finding `{}`", storage.display()), e))?;
    let file = storage.join(format!("slurm-{job}.toml"));
    let name = storage.file_stem().map(|s| s.to_string_lossy());
    let addresses: Vec<String> = servers
        .iter()
        .map(|place| format!("{}:{}", place.address, args.port))
        .collect();
    let text = derived_config(
        args.file.as_deref(),
        name.as_deref().unwrap_or("slurm"),
        &storage,
        &addresses,
    )?;
    std::fs::write(&file, text)
        .map_err(|e| io_failure(format!("writing `{}`", file.display()), e))?;
    redistribute(&file, context)?;
    Ok(Some(Job {
        file,
        storage,
        servers,
        application,
    }))
}

/// Returns the nodes of a Slurm node list with their addresses.
fn job_nodes(list: &str) -> anyhow::Result<Vec<JobNode>> {
    let names = scontrol(&["show", "hostnames", list])?;
    let names: Vec<&str> = names.lines().filter(|l| !l.is_empty()).collect();
    if names.is_empty() {
        anyhow::bail!("`scontrol show hostnames {list}` names no node");
    }
    let told = scontrol(&["--oneliner", "show", "node", &names.join(",")])?;
    let job_nodes = names.iter().map(|name| JobNode {
        name: (*name).to_owned(),
        address: address(&told, name).unwrap_or(name).to_owned(),
    });
    Ok(job_nodes.collect())
}

fn scontrol(words: &[&str]) -> anyhow::Result<String> {
    let out = Command::new("scontrol").args(words).output().map_err(|e| {
        anyhow::anyhow!(
            "Slurm's `scontrol` cannot be run ({e}): expected it on the PATH of the job"
        )
    })?;
    if !out.status.success() {
        anyhow::bail!(
            "`scontrol {}` failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Finds a node's address in the output of `scontrol --oneliner show node`.
fn address<'t>(told: &'t str, name: &str) -> Option<&'t str> {
    let line = told.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.next().and_then(|w| w.strip_prefix("NodeName=")) == Some(name)
    })?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix("NodeAddr="))
        .filter(|address| !address.is_empty())
}

/// Divides the nodes into those of the servers and those of the application.
fn divide(
    nodes: Vec<JobNode>,
    dedicated: Option<u32>,
) -> anyhow::Result<(Vec<JobNode>, Vec<JobNode>)> {
    let Some(count) = dedicated else {
        return Ok((nodes.clone(), nodes));
    };
    let own = nodes.len().checked_sub(count as usize);
    let Some(own) = own.filter(|own| *own > 0 && count > 0) else {
        return Err(usage(format!(
            "--dedicated {count} does not fit the {} nodes of this job: expected one node at least \
             for the servers and one for the application; ask for more nodes (sbatch -N), or leave \
             --dedicated out for servers beside the application",
            nodes.len()
        )));
    };
    let mut application = nodes;
    let servers = application.split_off(own);
    Ok((servers, application))
}

/// Redistributes the data of an earlier job that had another number of nodes.
fn redistribute(file: &Path, context: &mut Context) -> anyhow::Result<()> {
    let config = ClusterConfig::from_file(file)?;
    let stored = config.stored_servers()?;
    let count = config.servers.len() as u32;
    if config.switching()?.is_none() && stored.is_none_or(|stored| stored == count) {
        return Ok(());
    }
    context.note(&format!(
        "the storage was made for {} servers, and this job has {count}: redistributing its data",
        stored.unwrap_or(0)
    ));
    let args = ClusterResizeArgs {
        file: file.to_owned(),
        servers: Some(count),
        from: None,
        format: FormatArgs {
            format: RowFormat::Table,
        },
    };
    resize::run(&args, context)?;
    Ok(())
}

impl Job {
    /// Returns by server the command prefix that runs a program on its node.
    pub(super) fn launchers(&self) -> Vec<Vec<String>> {
        let words = |place: &JobNode| {
            let fixed = [
                "srun",
                "--overlap",
                "--nodes=1",
                "--ntasks=1",
                "--mem=0",
                "--cpu-bind=none",
                "--mpi=none",
                "--unbuffered",
                "--quiet",
            ];
            let mut words: Vec<String> = fixed.map(String::from).into();
            words.push(format!("--nodelist={}", place.name));
            words
        };
        self.servers.iter().map(words).collect()
    }

    /// Returns the environment variables of the program, besides `ESKER_TARGET`.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let names: Vec<&str> = self.application.iter().map(|p| p.name.as_str()).collect();
        vec![
            ("ESKER_APP_NODES", names.join(",")),
            ("ESKER_APP_NNODES", names.len().to_string()),
        ]
    }

    fn address_file(&self) -> PathBuf {
        self.storage.join(ADDRESS_FILE)
    }

    /// Writes the address file for other users of the storage.
    pub(super) fn publish_address(&self, target: &str) -> anyhow::Result<()> {
        let file = self.address_file();
        std::fs::write(&file, format!("{target}\n"))
            .map_err(|e| io_failure(format!("writing `{}`", file.display()), e))
    }

    /// Removes the address file and the cluster's file.
    pub(super) fn remove_files(&self) {
        // A reader of an old address gets a connection error, so failures are ignored.
        let _ = std::fs::remove_file(self.address_file());
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<JobNode> {
        (1..=count)
            .map(|n| JobNode {
                name: format!("n{n}"),
                address: format!("10.0.0.{n}"),
            })
            .collect()
    }

    #[test]
    fn addresses_are_found_by_name() {
        let told = "NodeName=n1 Arch=x86_64 NodeAddr=127.0.1.1 NodeHostName=vm\nNodeName=n10 NodeAddr=127.0.1.10\nNodeName=n2 NodeAddr=\n";
        assert_eq!(address(told, "n1"), Some("127.0.1.1"));
        assert_eq!(address(told, "n10"), Some("127.0.1.10"));
        assert_eq!(address(told, "n2"), None);
        assert_eq!(address(told, "n3"), None);
    }

    #[test]
    fn servers_share_nodes_or_have_their_own() {
        let (servers, application) = divide(nodes(3), None).unwrap();
        assert_eq!((servers.len(), application.len()), (3, 3));
        let (servers, application) = divide(nodes(5), Some(2)).unwrap();
        assert_eq!(application, nodes(3));
        assert_eq!(servers, nodes(5).split_off(3));
        for dedicated in [0, 3, 4] {
            let told = divide(nodes(3), Some(dedicated)).unwrap_err().to_string();
            assert!(told.contains("the 3 nodes of this job"), "{told}");
        }
    }
}
