//! `esker cluster down`: stops a cluster, from another terminal or machine.

use super::{io_failure, up_process};
use crate::args::ClusterDownArgs;
use esker::rpc::{Address, Client};
use esker_server::ClusterConfig;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::units::counted;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Timeout of a connection.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Time for a stop beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ClusterDownArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if let Some(address) = args.file.to_str().filter(|t| Address::is_address(t)) {
        return stop_members(&Address::parse(address)?, context);
    }
    let config = ClusterConfig::from_file(&args.file)?;
    if config.etcd.is_some() {
        return super::membership::down::run(&config, context);
    }
    let Some(number) = up_process(&config) else {
        context.note(&format!(
            "cluster `{}` is down already, or was not started by `esker cluster up` on this machine",
            config.name
        ));
        return Ok(Outcome::Done);
    };
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow::anyhow!("there is no process {number}"))?;
    kill_process(pid, Signal::TERM)
        .map_err(|e| io_failure(format!("asking process {number} to stop"), e))?;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while up_process(&config) == Some(number) {
        if Instant::now() >= until {
            anyhow::bail!(
                "process {number} was asked to stop and is still running: its servers may have much to finish"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    context.note(&format!("cluster `{}` is down", config.name));
    Ok(Outcome::Done)
}

/// Asks all members of a cluster to stop, on any machine; or the one server that is not part of a cluster.
fn stop_members(first: &Address, context: &mut Context) -> anyhow::Result<Outcome> {
    let cluster = Client::connect(first)?.cluster()?;
    let mut members: BTreeMap<String, Address> = BTreeMap::new();
    for (store, place) in (0..).zip(&cluster.servers) {
        // A server that no member runs has no process to stop.
        if let Some(mut address) = first.with_authority(place).filter(|_| !place.is_empty()) {
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
            // A caller without the right to stop one member has it for none.
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

/// Whether a process listens at an address.
fn listens(place: &str) -> bool {
    let addresses = place.to_socket_addrs();
    addresses
        .is_ok_and(|mut all| all.any(|at| TcpStream::connect_timeout(&at, CONNECT_MAX).is_ok()))
}
