//! Servers whose stores move, started as `esker cluster up` starts them, with an etcd of their own; killed, paused and cut off as a
//! workload likes.

use super::super::Bench;
use super::super::servers::last_lines;
use super::relay::Relay;
use crate::commands::cluster::moving::etcd::Own;
use crate::commands::cluster::moving::process::Process;
use crate::commands::cluster::status::ask;
use anyhow::Context as _;
use esker::rpc::Address;
use esker_server::ClusterConfig;
use esker_server::member::{Look, MemberStatus, StoreStatus};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long all may take to serve after whatever was done to them.
pub(super) const SETTLE_MAX: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(20);

/// What a cluster is like.
pub(super) struct Layout {
    pub(super) servers: u32,
    /// Addresses that are held for servers to be added.
    pub(super) spare: u32,
    pub(super) stores: u32,
    pub(super) lease: Duration,
    /// Whether servers can be cut off from etcd.
    pub(super) relays: bool,
}

/// A server.
struct One {
    name: String,
    file: PathBuf,
    relay: Option<Relay>,
    process: Option<Process>,
    paused: bool,
}

/// All of them. Dropped, they are killed.
pub(super) struct Members {
    config: ClusterConfig,
    memory: u64,
    all: Vec<One>,
    spare: Vec<String>,
    look: Look,
    // Last: whoever lives still asks it.
    etcd: Own,
    etcd_paused: bool,
}

impl Members {
    /// Makes a new cluster and waits until it serves.
    pub(super) fn start(bench: &Bench<'_>, layout: &Layout) -> anyhow::Result<Self> {
        let folder = bench.scratch.fresh("cluster")?;
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
        let etcd = Own::start(&config)?;
        let endpoint = config.etcd_endpoints()?.join(" ");
        let address = endpoint.trim_start_matches("https://").parse();
        let address = address.with_context(|| format!("reading etcd's address {endpoint}"))?;
        let mut all = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let (mut at, mut relay) = (file.clone(), None);
            if layout.relays {
                let way = Relay::to(address).context("listening for a server's way to etcd")?;
                at = folder.join(format!("server-{n}.toml"));
                // By the certificates of the etcd behind the relay.
                let own = config.etcd_folder();
                let own = own.display();
                let endpoints = format!(
                    "endpoints = [\"https://127.0.0.1:{}\"]\nca = \"{own}/ca.pem\"\ncertificate = \"{own}/client.pem\"\nkey = \"{own}/client.key\"",
                    way.port()
                );
                write(&at, &endpoints)?;
                relay = Some(way);
            }
            all.push(One {
                name: name.clone(),
                file: at,
                relay,
                process: None,
                paused: false,
            });
        }
        let look = Look::at(&config)?;
        let memory = bench.shared.server_memory.unwrap_or(super::super::MEMORY);
        let mut members = Self {
            config,
            memory,
            all,
            spare,
            look,
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

    /// How clients reach each, waiting for as long as any fault may take.
    pub(super) fn targets(&self) -> Vec<String> {
        let names = self.all.iter().map(|one| &one.name);
        names
            .map(|name| format!("esker://{name}?timeout=180s"))
            .collect()
    }

    /// What etcd says now.
    pub(super) fn now(&self) -> esker_model::Result<(Vec<MemberStatus>, Vec<StoreStatus>, usize)> {
        self.look.now()
    }

    /// Starts one that does not run.
    pub(super) fn begin(&mut self, n: usize) -> anyhow::Result<()> {
        let Some(one) = self.all.get_mut(n) else {
            return Ok(());
        };
        let process = Process::start(&one.file, &self.config, &one.name, self.memory, true)?;
        one.process = Some(process);
        one.paused = false;
        Ok(())
    }

    /// One more, at an address that was held for it; which it is.
    pub(super) fn add(&mut self) -> anyhow::Result<usize> {
        let name = self.spare.pop().context("no address is left")?;
        let file = self.all.first().context("there is no server")?.file.clone();
        self.all.push(One {
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

    /// `kill -9`.
    pub(super) fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.all.get_mut(n).and_then(|one| one.process.take()) {
            process.kill();
        }
    }

    /// Stops it where it stands, or lets it go on.
    pub(super) fn pause(&mut self, n: usize, paused: bool) -> anyhow::Result<()> {
        let Some(one) = self.all.get_mut(n) else {
            return Ok(());
        };
        one.paused = paused;
        match &one.process {
            Some(process) => signal(process.pid(), paused),
            None => Ok(()),
        }
    }

    /// Cuts it off from etcd, or no longer.
    pub(super) fn cut(&self, n: usize, cut: bool) {
        if let Some(relay) = self.all.get(n).and_then(|one| one.relay.as_ref()) {
            relay.cut(cut);
        }
    }

    /// Stops etcd where it stands, or lets it go on.
    pub(super) fn pause_etcd(&mut self, paused: bool) -> anyhow::Result<()> {
        self.etcd_paused = paused;
        signal(self.etcd.pid(), paused)
    }

    /// Kills etcd and starts it again.
    pub(super) fn restart_etcd(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.etcd.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::KILL).context("killing etcd")?;
        }
        let until = Instant::now() + SETTLE_MAX;
        while !self.etcd.look_after()? {
            anyhow::ensure!(Instant::now() < until, "etcd does not start again");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// An error if one has ended that was not killed.
    pub(super) fn all_alive(&mut self) -> anyhow::Result<()> {
        for one in &mut self.all {
            let Some(process) = &mut one.process else {
                continue;
            };
            if let Some(status) = process.ended() {
                anyhow::bail!(
                    "the server at {} ended by itself ({status}); the end of its log:\n{}",
                    one.name,
                    last_lines(&process.log)
                );
            }
        }
        Ok(())
    }

    /// Waits until these stores are served by somebody else than the process that had them, each at a later epoch than it had. How long
    /// that took for each.
    pub(super) fn served_again(
        &mut self,
        bench: &Bench<'_>,
        lost: &BTreeMap<u32, u64>,
    ) -> anyhow::Result<Vec<Duration>> {
        let began = Instant::now();
        let mut waiting = lost.clone();
        let mut took = Vec::new();
        while !waiting.is_empty() {
            bench.go_on()?;
            self.all_alive()?;
            anyhow::ensure!(
                began.elapsed() < SETTLE_MAX,
                "stores {:?} are not served after {} s",
                waiting.keys(),
                SETTLE_MAX.as_secs()
            );
            let (_, stores, _) = self.look.now()?;
            for store in stores {
                let newer = waiting.get(&store.store).is_some_and(|e| store.epoch > *e);
                let Some(member) = store.member.filter(|_| newer) else {
                    continue;
                };
                let like = Address::parse(&format!("esker://{member}"))?;
                if ask(&member, store.store, &like).is_ok_and(|reply| reply.serving) {
                    waiting.remove(&store.store);
                    took.push(began.elapsed());
                }
            }
            std::thread::sleep(LOOK);
        }
        Ok(took)
    }

    /// Waits until all that run serve, each store is with one of them and none is to move; how long that took.
    pub(super) fn settle(&mut self, bench: &Bench<'_>) -> anyhow::Result<Duration> {
        let began = Instant::now();
        loop {
            bench.go_on()?;
            self.all_alive()?;
            let Some(why) = self.unsettled() else {
                return Ok(began.elapsed());
            };
            anyhow::ensure!(
                began.elapsed() < SETTLE_MAX,
                "the cluster does not serve as a whole after {} s: {why}",
                SETTLE_MAX.as_secs()
            );
            std::thread::sleep(LOOK * 2);
        }
    }

    fn unsettled(&self) -> Option<String> {
        let (members, stores, moving) = match self.look.now() {
            Ok(now) => now,
            Err(e) => return Some(e.to_string()),
        };
        for one in self.all.iter().filter(|one| one.process.is_some()) {
            if !members.iter().any(|m| m.member == one.name && !m.leaving) {
                return Some(format!("{} is not a member", one.name));
            }
        }
        if let Some(store) = stores.iter().find(|s| s.member.is_none()) {
            return Some(format!("store {} is with nobody", store.store));
        }
        if moving > 0 {
            return Some(format!("{moving} stores are to move"));
        }
        let processes = self.all.iter().filter_map(|one| one.process.as_ref());
        processes.into_iter().find_map(Process::not_yet)
    }

    /// Vertices that lie with each server.
    pub(super) fn vertices(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let (_, stores, _) = self.look.now()?;
        let mut sums = BTreeMap::new();
        for store in stores {
            let member = store.member.context("a store is with nobody")?;
            let like = Address::parse(&format!("esker://{member}"))?;
            let counts = ask(&member, store.store, &like)?.counts.unwrap_or_default();
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
            // One that is paused cannot be told to end.
            let _ = signal(self.etcd.pid(), false);
        }
    }
}

fn signal(pid: u32, paused: bool) -> anyhow::Result<()> {
    let signal = if paused { Signal::STOP } else { Signal::CONT };
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.with_context(|| format!("there is no process {pid}"))?;
    kill_process(raw, signal).with_context(|| format!("pausing process {pid}"))
}

/// Free ones, each server on an address of the loopback network of its own.
fn addresses(count: u32) -> anyhow::Result<Vec<String>> {
    // All are held until the last one is found, so that none is found twice.
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

/// The cluster's file.
fn described(
    bench: &Bench<'_>,
    layout: &Layout,
    names: &[String],
    endpoints: &str,
) -> anyhow::Result<String> {
    let durability = match bench.context.globals.durability {
        crate::args::DurabilityArg::Sync => "sync",
        crate::args::DurabilityArg::Relaxed => "relaxed",
    };
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
