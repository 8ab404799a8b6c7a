//! `esker cluster down`: stops what `esker cluster up` started, from another terminal.

use super::{failed, keeper};
use crate::args::ClusterDownArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::units::counted;
use esker::rpc::{Address, Client};
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// How long somebody who is there takes to say so.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// What stopping may take beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ClusterDownArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(address) = args.file.to_str().filter(|t| Address::is_address(t)) {
        return far(&Address::parse(address)?, context);
    }
    let config = ClusterConfig::from_file(&args.file)?;
    if config.etcd.is_some() {
        return super::moving::down::run(&config, context);
    }
    let Some(number) = keeper(&config) else {
        context.note(&format!(
            "cluster `{}` is down already, or was not started by `esker cluster up` on this machine",
            config.name
        ));
        return Ok(Outcome::Done);
    };
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow::anyhow!("there is no process {number}"))?;
    kill_process(pid, Signal::TERM)
        .map_err(|e| failed(format!("telling process {number} to stop"), e))?;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while keeper(&config) == Some(number) {
        if Instant::now() >= until {
            anyhow::bail!(
                "process {number} was told to stop and runs still: its servers may have much to finish"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    context.note(&format!("cluster `{}` is down", config.name));
    Ok(Outcome::Done)
}

/// Asks the processes of all servers of a cluster to stop, wherever they run; or the one of a server that stands alone.
fn far(first: &Address, context: &mut Context) -> anyhow::Result<Outcome> {
    let cluster = Client::connect(first)?.cluster()?;
    let mut members: BTreeMap<String, Address> = BTreeMap::new();
    for (store, place) in (0..).zip(&cluster.servers) {
        // One that is with nobody has nobody to be told.
        if let Some(mut address) = first.moved(place).filter(|_| !place.is_empty()) {
            address.store = Some(store);
            members.entry(place.clone()).or_insert(address);
        }
    }
    if members.is_empty() {
        members.insert(first.authority(), first.clone());
    }
    let mut missed = Vec::new();
    for (name, address) in &members {
        if let Err(e) = Client::connect(address).and_then(|client| client.shutdown(false)) {
            // Whoever may not stop one may stop none.
            if matches!(e.kind(), esker_model::ErrorKind::Invalid) {
                return Err(e.into());
            }
            missed.push(format!("{name}: {e}"));
        }
    }
    let until = Instant::now() + STOP_MAX * 2;
    while members.keys().any(|name| listens(name)) {
        anyhow::ensure!(
            Instant::now() < until && context.interrupt.stopped().is_none(),
            "{} were asked to stop, and not all have ended yet: they may have much to finish",
            members.keys().cloned().collect::<Vec<_>>().join(", ")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    for why in &missed {
        context.warn(why);
    }
    context.note(&format!(
        "{} stopped: {}",
        counted(members.len() as u64, "server", "servers"),
        members.keys().cloned().collect::<Vec<_>>().join(", ")
    ));
    Ok(Outcome::partly_if(!missed.is_empty()))
}

/// Whether anybody is at an address.
fn listens(place: &str) -> bool {
    let addresses = place.to_socket_addrs();
    addresses
        .is_ok_and(|mut all| all.any(|at| TcpStream::connect_timeout(&at, CONNECT_MAX).is_ok()))
}
