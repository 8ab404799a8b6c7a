//! The servers of a cluster as separate processes, started as by `esker cluster up`.

use super::ClusterBench;
use crate::machine;
use anyhow::Context as _;
use esker_cluster::Kind;
use esker_launch::{Ready, ServerProcess, ServerStart};
use esker_server::ClusterConfig;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit for starting and for stopping all servers.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time limit for a readiness probe.
const PROBE_MAX: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The configuration of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub(super) servers: u32,
    pub(super) placement: Kind,
    pub(super) threshold: u64,
    /// Maximum number of entries of a directory partition.
    pub(super) directory_threshold: u64,
    /// Whether servers share a folder through which directory partitions are passed.
    pub(super) shared: bool,
    /// Memory of each server in bytes, unless the command line sets it.
    pub(super) memory: u64,
}

/// A running cluster over new databases in the scratch folder, killed on drop.
pub(super) struct Servers {
    config: ClusterConfig,
    start: ServerStart,
    processes: Vec<ServerProcess>,
}

impl Servers {
    /// Creates the databases and starts all servers.
    pub(super) fn start(bench: &ClusterBench<'_>, spec: &Spec) -> anyhow::Result<Self> {
        let folder = bench.scratch.cleared_path("cluster")?;
        std::fs::create_dir(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let file = folder.join("cluster.toml");
        std::fs::write(&file, described(bench, spec)?)
            .with_context(|| format!("writing {}", file.display()))?;
        let config = ClusterConfig::from_file(&file)?;
        config.claim_storage()?;
        let mut servers = Self {
            start: ServerStart {
                program: esker_terminal::program::installed("esker")?,
                file: std::path::absolute(file).context("finding the scratch folder")?,
                memory: config.memory_bytes.unwrap_or(spec.memory),
                launchers: Vec::new(),
            },
            config,
            processes: Vec::new(),
        };
        servers.begin(bench)?;
        Ok(servers)
    }

    /// Starts all processes and waits until they accept calls.
    fn begin(&mut self, bench: &ClusterBench<'_>) -> anyhow::Result<()> {
        for id in self.config.ids() {
            let process = ServerProcess::start(&self.config, id, &self.start)?;
            self.processes.push(process);
        }
        let until = Instant::now() + PATIENCE;
        while let Some(server) = self.processes.iter().find(|p| p.ready() != Ready::Yes) {
            anyhow::ensure!(
                Instant::now() < until,
                "{} does not take calls after {} s; its log is {}",
                server.id,
                PATIENCE.as_secs(),
                server.log().display()
            );
            bench.check_interrupt()?;
            self.all_alive()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns an error if a server has ended on its own, which invalidates the measurement.
    pub(super) fn all_alive(&mut self) -> anyhow::Result<()> {
        for server in &mut self.processes {
            if let Some(status) = server.ended() {
                anyhow::bail!(
                    "{} ended by itself ({status}); the end of its log:\n{}",
                    server.id,
                    server.log_tail()
                );
            }
        }
        Ok(())
    }

    /// Returns the target of each server.
    pub(super) fn targets(&self) -> Vec<String> {
        self.config
            .servers
            .iter()
            .map(|address| format!("esker://{address}"))
            .collect()
    }

    /// Returns the process ids of the servers.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(ServerProcess::pid).collect()
    }

    /// Total processor time of all servers since their start, in seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.processes
            .iter()
            .map(|server| machine::seconds_of(&server.pid().to_string()))
            .sum()
    }

    /// Returns a figure of `/metrics`, summed over all servers.
    pub(super) fn figure(&self, name: &str) -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for address in &self.config.servers {
            let metrics = http_get(address, "/metrics")
                .with_context(|| format!("asking {address} for its metrics"))?;
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            let line = line.with_context(|| format!("{address} has no figure {name}"))?;
            sum += line
                .trim()
                .parse::<f64>()
                .with_context(|| format!("{address} says that {name} is `{line}`"))?;
        }
        Ok(sum)
    }

    /// Returns the number of requests between servers so far.
    pub(super) fn peer_calls(&self) -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for address in &self.config.servers {
            let metrics = http_get(address, "/metrics")
                .with_context(|| format!("asking {address} for its metrics"))?;
            let lines = metrics.lines();
            let calls = lines
                .filter(|line| line.starts_with("esker_peer_calls_total{"))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            sum += calls.sum::<f64>();
        }
        Ok(sum)
    }

    /// Stops all servers cleanly.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.all_alive()?;
        self.processes.iter().for_each(ServerProcess::stop);
        let until = Instant::now() + PATIENCE;
        for server in &mut self.processes {
            let status = loop {
                if let Some(status) = server.ended() {
                    break status;
                }
                anyhow::ensure!(
                    Instant::now() < until,
                    "{} does not stop; its log is {}",
                    server.id,
                    server.log().display()
                );
                std::thread::sleep(POLL_INTERVAL);
            };
            anyhow::ensure!(
                status.success(),
                "{} ended with {status}; the end of its log:\n{}",
                server.id,
                server.log_tail()
            );
        }
        self.processes.clear();
        Ok(())
    }

    /// Stops all servers, drops their files from the page cache, and restarts them: nothing is in memory.
    pub(super) fn restart_cold(&mut self, bench: &ClusterBench<'_>) -> anyhow::Result<()> {
        self.stop()?;
        forget(&self.config.storage)
            .with_context(|| format!("reading {}", self.config.storage.display()))?;
        self.begin(bench)
    }

    /// Total size of the databases' files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let mut sum = 0;
        // The size is informative: files that appear or disappear meanwhile do not matter.
        let _ = each_file(&self.config.storage, &mut |file| {
            sum += file.metadata().map_or(0, |m| m.len());
        });
        sum
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Stopped servers are already gone.
        self.processes.iter_mut().for_each(ServerProcess::kill);
    }
}

/// Returns the text of the cluster's configuration file; each server gets its own loopback address with a free port.
fn described(bench: &ClusterBench<'_>, spec: &Spec) -> anyhow::Result<String> {
    let mut addresses = Vec::new();
    // All are bound until the last one is found, so that none is returned twice.
    let mut held = Vec::new();
    for n in 1..=spec.servers {
        let host = format!("127.0.0.{n}:0");
        let listener = TcpListener::bind(&host).with_context(|| {
            format!("looking for a free port at {host}: is it an address of this machine?")
        })?;
        addresses.push(format!("\"{}\"", listener.local_addr()?));
        held.push(listener);
    }
    let durability = bench.context.globals.durability.name();
    let memory = bench.shared.server_memory.unwrap_or(spec.memory);
    let mut text = String::new();
    writeln!(text, "name = \"bench\"")?;
    writeln!(text, "storage = \"storage\"")?;
    writeln!(text, "placement = \"{}\"", spec.placement.name())?;
    writeln!(text, "threshold = {}", spec.threshold)?;
    writeln!(text, "directory_threshold = {}", spec.directory_threshold)?;
    if spec.shared {
        writeln!(text, "shared = \"between\"")?;
        writeln!(text, "shared_least = 0")?;
    }
    writeln!(text, "vnodes = {}", bench.shared.vnodes)?;
    writeln!(text, "durability = \"{durability}\"")?;
    writeln!(text, "memory = \"{memory}\"")?;
    writeln!(text, "servers = [{}]", addresses.join(", "))?;
    Ok(text)
}

/// Returns a server's HTTP response, headers included.
fn http_get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address.parse()?, PROBE_MAX)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Drops these files from the page cache.
fn forget(folder: &Path) -> std::io::Result<()> {
    use rustix::fs::{Advice, fadvise};
    each_file(folder, &mut |path| {
        // Advice only: if the system ignores it, reads are faster than from disk, for all cases alike.
        let _ = File::open(path).map(|file| {
            let _ = file.sync_all();
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        });
    })
}

fn each_file(folder: &Path, found: &mut dyn FnMut(&Path)) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            each_file(&entry.path(), found)?;
        } else {
            found(&entry.path());
        }
    }
    Ok(())
}
