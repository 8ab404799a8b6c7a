//! `esker cluster up --slurm`: a cluster on the nodes of a Slurm job, as SoMeta's (section II): *shared*, a server beside the
//! application's processes on each node, or *dedicated*, servers on nodes of their own.
//!
//! Nothing has to be installed on the nodes but this program. Each server is a job step of one task (`srun --overlap`), so Slurm
//! ends it with the job; this process, in the batch script, looks after them as it does after children on one machine. The file
//! of the cluster is made for the job, in the storage, where all nodes see it.

use super::failed;
use super::resize;
use crate::args::{ClusterResizeArgs, ClusterUpArgs, FormatArgs, RowFormat};
use crate::context::Context;
use crate::exit::usage;
use esker_server::{ClusterConfig, derived};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says to other jobs and steps where the cluster is while it is up.
const ADDRESS_FILE: &str = "address";

/// A node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: String,
    /// Where others reach it.
    address: String,
}

/// The cluster of a job.
pub(super) struct Job {
    /// The cluster's file.
    pub(super) file: PathBuf,
    storage: PathBuf,
    /// The nodes with servers, by server.
    servers: Vec<Place>,
    /// The nodes that the application has.
    application: Vec<Place>,
}

/// The job's cluster, if one is asked for: its file written, and what the storage holds dealt out among as many servers.
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
    let nodes = places(&list)?;
    let (servers, application) = divide(nodes, args.dedicated)?;
    esker::modes::create_private_all(storage)
        .map_err(|e| failed(format!("making `{}`", storage.display()), e))?;
    let storage = std::path::absolute(storage)
        .map_err(|e| failed(format!("finding `{}`", storage.display()), e))?;
    let file = storage.join(format!("slurm-{job}.toml"));
    let name = storage.file_stem().map(|s| s.to_string_lossy());
    let addresses: Vec<String> = servers
        .iter()
        .map(|place| format!("{}:{}", place.address, args.port))
        .collect();
    let text = derived(
        args.file.as_deref(),
        name.as_deref().unwrap_or("slurm"),
        &storage,
        &addresses,
    )?;
    std::fs::write(&file, text).map_err(|e| failed(format!("writing `{}`", file.display()), e))?;
    deal_out(&file, context)?;
    Ok(Some(Job {
        file,
        storage,
        servers,
        application,
    }))
}

/// The nodes of a list as Slurm writes it, each with its address.
fn places(list: &str) -> anyhow::Result<Vec<Place>> {
    let names = ask(&["show", "hostnames", list])?;
    let names: Vec<&str> = names.lines().filter(|l| !l.is_empty()).collect();
    if names.is_empty() {
        anyhow::bail!("`scontrol show hostnames {list}` names no node");
    }
    let told = ask(&["--oneliner", "show", "node", &names.join(",")])?;
    let places = names.iter().map(|name| Place {
        name: (*name).to_owned(),
        address: address(&told, name).unwrap_or(name).to_owned(),
    });
    Ok(places.collect())
}

fn ask(words: &[&str]) -> anyhow::Result<String> {
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

/// A node's address among what `scontrol --oneliner show node` says.
fn address<'t>(told: &'t str, name: &str) -> Option<&'t str> {
    let line = told.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.next().and_then(|w| w.strip_prefix("NodeName=")) == Some(name)
    })?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix("NodeAddr="))
        .filter(|address| !address.is_empty())
}

/// Whose each node is: the servers', the application's.
fn divide(nodes: Vec<Place>, dedicated: Option<u32>) -> anyhow::Result<(Vec<Place>, Vec<Place>)> {
    let Some(count) = dedicated else {
        return Ok((nodes.clone(), nodes));
    };
    let own = nodes.len().checked_sub(count as usize);
    let Some(own) = own.filter(|own| *own > 0 && count > 0) else {
        return Err(usage(format!(
            "--dedicated {count} does not go with the {} nodes of this job: expected one node at least for the servers and one for \
             the application; ask for more nodes (sbatch -N), or leave --dedicated out for servers beside the application",
            nodes.len()
        )));
    };
    let mut application = nodes;
    let servers = application.split_off(own);
    Ok((servers, application))
}

/// What an earlier job had on another number of nodes.
fn deal_out(file: &Path, context: &mut Context) -> anyhow::Result<()> {
    let config = ClusterConfig::from_file(file)?;
    let stored = config.stored_servers()?;
    let count = config.servers.len() as u32;
    if config.switching()?.is_none() && stored.is_none_or(|stored| stored == count) {
        return Ok(());
    }
    context.note(&format!(
        "the storage was made for {} servers, and this job has {count}: dealing out what it holds",
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
    /// By server, what runs a program on its node.
    pub(super) fn through(&self) -> Vec<Vec<String>> {
        let words = |place: &Place| {
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

    /// What the program finds besides `ESKER_TARGET`.
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

    /// Lets others that see the storage know where the cluster is.
    pub(super) fn tell(&self, target: &str) -> anyhow::Result<()> {
        let file = self.address_file();
        std::fs::write(&file, format!("{target}\n"))
            .map_err(|e| failed(format!("writing `{}`", file.display()), e))
    }

    /// It is not there any more.
    pub(super) fn forget(&self) {
        // Who reads it and finds nobody there is told so.
        let _ = std::fs::remove_file(self.address_file());
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<Place> {
        (1..=count)
            .map(|n| Place {
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
