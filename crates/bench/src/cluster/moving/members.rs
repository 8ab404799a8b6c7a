//! Servers whose stores move, started as by `esker cluster up`, with their own etcd; a workload can kill, pause and
//! disconnect them.

use super::super::ClusterBench;
use super::super::pause::pause_process;
use super::relay::Relay;
use anyhow::Context as _;
use esker::rpc::Address;
use esker_launch::{MemberProcess, OwnedEtcd, query_server};
use esker_server::ClusterConfig;
use esker_server::member::{MemberStatus, MembershipClient, StoreStatus};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit for all servers to serve after any fault.
pub(super) const SETTLE_MAX: Duration = Duration::from_mins(3);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The configuration of a cluster.
pub(super) struct Layout {
    pub(super) servers: u32,
    /// Number of addresses reserved for servers to be added.
    pub(super) spare: u32,
    pub(super) stores: u32,
    pub(super) lease: Duration,
    /// Whether servers can be disconnected from etcd.
    pub(super) relays: bool,
}

/// One server of the cluster.
struct Member {
    name: String,
    file: PathBuf,
    relay: Option<Relay>,
    process: Option<MemberProcess>,
    paused: bool,
}

/// All servers of the cluster, killed on drop.
pub(super) struct Members {
    /// Path of the command `esker`.
    program: PathBuf,
    config: ClusterConfig,
    memory: u64,
    all: Vec<Member>,
    spare: Vec<String>,
    client: MembershipClient,
    // Dropped last: running servers still use it.
    etcd: OwnedEtcd,
    etcd_paused: bool,
}

impl Members {
    /// Creates a new cluster and waits until it serves.
    pub(super) fn start(bench: &ClusterBench<'_>, layout: &Layout) -> anyhow::Result<Self> {
        let folder = bench.scratch.cleared_path("cluster")?;
        std::fs::create_dir(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let folder = std::path::absolute(folder).context("finding the scratch folder")?;
        let mut names = addresses(layout.servers + layout.spare)?;
        let spare = names.split_off(layout.servers as usize);
        let file = folder.join("cluster.toml");
        let write = |file: &Path, endpoints: &str| {
            let text = described(bench, layout, &names, endpoints)?;
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
        };
        write(&file, "")?;
        let config = ClusterConfig::from_file(&file)?;
        std::fs::create_dir_all(&config.storage)
            .with_context(|| format!("making {}", config.storage.display()))?;
        let etcd = OwnedEtcd::start(&config)?;
        let endpoint = config.etcd_endpoints()?.join(" ");
        let address = endpoint.trim_start_matches("https://").parse();
        let address = address.with_context(|| format!("reading etcd's address {endpoint}"))?;
        let mut all = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let (mut at, mut relay) = (file.clone(), None);
            if layout.relays {
                let way = Relay::to(address).context("listening for a server's way to etcd")?;
                at = folder.join(format!("server-{n}.toml"));
                // The etcd behind the relay is reached with its own certificates.
                let own = config.etcd_folder();
                let own = own.display();
                let endpoints = format!(
                    "endpoints = [\"https://127.0.0.1:{}\"]\nca = \"{own}/ca.pem\"\ncertificate = \"{own}/client.pem\"\nkey = \"{own}/client.key\"",
                    way.port()
                );
                write(&at, &endpoints)?;
                relay = Some(way);
            }
            all.push(Member {
                name: name.clone(),
                file: at,
                relay,
                process: None,
                paused: false,
            });
        }
        let client = MembershipClient::connect(&config)?;
        let memory = bench.shared.server_memory.unwrap_or(super::super::MEMORY);
        let mut members = Self {
            program: esker_terminal::program::installed("esker")?,
            config,
            memory,
            all,
            spare,
            client,
            etcd,
            etcd_paused: false,
        };
        for n in 0..members.all.len() {
            members.begin(n)?;
        }
        members.settle(bench)?;
        Ok(members)
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn name(&self, n: usize) -> &str {
        self.all.get(n).map_or("", |one| &one.name)
    }

    /// Returns the target of each server, with timeouts longer than any fault.
    pub(super) fn targets(&self) -> Vec<String> {
        let names = self.all.iter().map(|one| &one.name);
        names
            .map(|name| format!("esker://{name}?timeout=180s"))
            .collect()
    }

    /// Returns the cluster's state from etcd.
    pub(super) fn now(&self) -> esker_model::Result<(Vec<MemberStatus>, Vec<StoreStatus>, usize)> {
        self.client.status()
    }

    /// Starts a server that does not run.
    pub(super) fn begin(&mut self, n: usize) -> anyhow::Result<()> {
        let Some(one) = self.all.get_mut(n) else {
            return Ok(());
        };
        let process = MemberProcess::start(
            &self.program,
            &one.file,
            &self.config,
            &one.name,
            self.memory,
            true,
        )?;
        one.process = Some(process);
        one.paused = false;
        Ok(())
    }

    /// Adds a server at a reserved address and returns its index.
    pub(super) fn add(&mut self) -> anyhow::Result<usize> {
        let name = self.spare.pop().context("no address is left")?;
        let file = self.all.first().context("there is no server")?.file.clone();
        self.all.push(Member {
            name,
            file,
            relay: None,
            process: None,
            paused: false,
        });
        let n = self.all.len() - 1;
        self.begin(n)?;
        Ok(n)
    }

    /// Kills a server with SIGKILL.
    pub(super) fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.all.get_mut(n).and_then(|one| one.process.take()) {
            process.kill();
        }
    }

    /// Pauses or resumes a server.
    pub(super) fn pause(&mut self, n: usize, paused: bool) -> anyhow::Result<()> {
        let Some(one) = self.all.get_mut(n) else {
            return Ok(());
        };
        one.paused = paused;
        match &one.process {
            Some(process) => pause_process(process.pid(), paused),
            None => Ok(()),
        }
    }

    /// Disconnects a server from etcd, or reconnects it.
    pub(super) fn cut(&self, n: usize, cut: bool) {
        if let Some(relay) = self.all.get(n).and_then(|one| one.relay.as_ref()) {
            relay.cut(cut);
        }
    }

    /// Pauses or resumes etcd.
    pub(super) fn pause_etcd(&mut self, paused: bool) -> anyhow::Result<()> {
        self.etcd_paused = paused;
        pause_process(self.etcd.pid(), paused)
    }

    /// Kills and restarts etcd.
    pub(super) fn restart_etcd(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.etcd.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::KILL).context("killing etcd")?;
        }
        let until = Instant::now() + SETTLE_MAX;
        while !self.etcd.restart_ended()? {
            anyhow::ensure!(Instant::now() < until, "etcd does not start again");
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns an error if a server has ended without being killed.
    pub(super) fn all_alive(&mut self) -> anyhow::Result<()> {
        for one in &mut self.all {
            let Some(process) = &mut one.process else {
                continue;
            };
            if let Some(status) = process.ended() {
                anyhow::bail!(
                    "member {} ended by itself ({status}); the end of its log:\n{}",
                    one.name,
                    process.log_tail()
                );
            }
        }
        Ok(())
    }

    /// Waits until the `lost` stores are served by another process, each at a later epoch. Returns the time for each.
    pub(super) fn wait_for_takeover(
        &mut self,
        bench: &ClusterBench<'_>,
        lost: &BTreeMap<u32, u64>,
    ) -> anyhow::Result<Vec<Duration>> {
        let began = Instant::now();
        let mut waiting = lost.clone();
        let mut took = Vec::new();
        while !waiting.is_empty() {
            bench.check_interrupt()?;
            self.all_alive()?;
            anyhow::ensure!(
                began.elapsed() < SETTLE_MAX,
                "stores {:?} are not served after {} s",
                waiting.keys(),
                SETTLE_MAX.as_secs()
            );
            let (_, stores, _) = self.client.status()?;
            for store in stores {
                let newer = waiting.get(&store.store).is_some_and(|e| store.epoch > *e);
                let Some(member) = store.member.filter(|_| newer) else {
                    continue;
                };
                let like = Address::parse(&format!("esker://{member}"))?;
                if query_server(&member, store.store, &like).is_ok_and(|reply| reply.serving) {
                    waiting.remove(&store.store);
                    took.push(began.elapsed());
                }
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(took)
    }

    /// Waits until all running servers serve, each store is assigned to one of them and no move is pending; returns the time.
    pub(super) fn settle(&mut self, bench: &ClusterBench<'_>) -> anyhow::Result<Duration> {
        let began = Instant::now();
        loop {
            bench.check_interrupt()?;
            self.all_alive()?;
            let Some(why) = self.unsettled() else {
                return Ok(began.elapsed());
            };
            anyhow::ensure!(
                began.elapsed() < SETTLE_MAX,
                "the cluster does not serve as a whole after {} s: {why}",
                SETTLE_MAX.as_secs()
            );
            std::thread::sleep(POLL_INTERVAL * 2);
        }
    }

    fn unsettled(&self) -> Option<String> {
        let (members, stores, moving) = match self.client.status() {
            Ok(now) => now,
            Err(e) => return Some(e.to_string()),
        };
        for one in self.all.iter().filter(|one| one.process.is_some()) {
            if !members.iter().any(|m| m.member == one.name && !m.leaving) {
                return Some(format!("{} is not a member", one.name));
            }
        }
        if let Some(store) = stores.iter().find(|s| s.member.is_none()) {
            return Some(format!("no server has store {}", store.store));
        }
        if moving > 0 {
            return Some(format!("{moving} stores are to move"));
        }
        let processes = self.all.iter().filter_map(|one| one.process.as_ref());
        processes
            .into_iter()
            .find_map(MemberProcess::not_ready_reason)
    }

    /// Returns the number of vertices on each server.
    pub(super) fn vertices(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let (_, stores, _) = self.client.status()?;
        let mut sums = BTreeMap::new();
        for store in stores {
            let member = store.member.context("a store is with nobody")?;
            let like = Address::parse(&format!("esker://{member}"))?;
            let counts = query_server(&member, store.store, &like)?
                .counts
                .unwrap_or_default();
            let here: u64 = counts.vertices.iter().map(|c| c.count).sum();
            *sums.entry(member).or_default() += here;
        }
        Ok(sums)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for one in &mut self.all {
            if let Some(process) = &mut one.process {
                process.kill();
            }
        }
        if self.etcd_paused {
            // A paused process cannot handle the request to stop.
            let _ = pause_process(self.etcd.pid(), false);
        }
    }
}

/// Returns free addresses, one loopback address for each server.
fn addresses(count: u32) -> anyhow::Result<Vec<String>> {
    // All are bound until the last one is found, so that none is returned twice.
    let mut held = Vec::new();
    for n in 1..=count {
        let host = format!("127.0.0.{n}:0");
        let listener = TcpListener::bind(&host)
            .with_context(|| format!("looking for a free port at {host}"))?;
        held.push(listener);
    }
    let names = held.iter().map(|l| Ok(l.local_addr()?.to_string()));
    names.collect()
}

/// Returns the text of the cluster's configuration file.
fn described(
    bench: &ClusterBench<'_>,
    layout: &Layout,
    names: &[String],
    endpoints: &str,
) -> anyhow::Result<String> {
    let durability = bench.context.globals.durability.name();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let mut text = String::new();
    writeln!(text, "name = \"bench\"")?;
    writeln!(text, "storage = \"storage\"")?;
    writeln!(text, "vnodes = {}", bench.shared.vnodes)?;
    writeln!(text, "durability = \"{durability}\"")?;
    writeln!(text, "stores = {}", layout.stores)?;
    writeln!(text, "servers = [{}]", quoted.join(", "))?;
    writeln!(text, "[etcd]")?;
    writeln!(text, "lease = \"{}ms\"", layout.lease.as_millis())?;
    writeln!(text, "{endpoints}")?;
    Ok(text)
}
