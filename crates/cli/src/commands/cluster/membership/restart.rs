//! `esker cluster restart`: restarts the members one after the other while clients continue. Each starts the program that is installed by
//! then, so a new version comes into use.

use super::read;
use crate::args::ClusterRestartArgs;
use anyhow::Context as _;
use esker::rpc::{Address, Client};
use esker_launch::MemberProcess;
use esker_server::ClusterConfig;
use esker_server::member::{MemberStatus, MembershipClient};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::program::own_path;
use esker_terminal::units::counted;
use std::path::Path;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a member to end beyond its drain time.
const STOP_MAX: Duration = Duration::from_secs(40);
/// Time until all servers answer again.
const SETTLE_MAX: Duration = Duration::from_mins(3);

pub(in super::super) fn run(
    args: &ClusterRestartArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(&args.file)?;
    let client = MembershipClient::connect(&config)?;
    let file = std::path::absolute(&args.file)?;
    wait_until_settled(&client, None, context)?;
    let (members, ..) = client.status()?;
    anyhow::ensure!(
        members.len() > 1,
        "cluster `{}` has {}: a single server cannot be restarted while clients use it; use `esker cluster down` and `up`",
        config.name,
        counted(members.len() as u64, "server", "servers")
    );
    let mut whole = true;
    for member in &members {
        if member.stores.is_empty() {
            context.warn(&format!(
                "{} has no stores, and is not restarted: stop it and start it again where it runs",
                member.member
            ));
            whole = false;
            continue;
        }
        restart_member(&file, &config, &client, member, args.wait, context)?;
    }
    Ok(Outcome::partly_if(!whole))
}

fn restart_member(
    file: &Path,
    config: &ClusterConfig,
    client: &MembershipClient,
    member: &MemberStatus,
    wait: Duration,
    context: &mut Context,
) -> anyhow::Result<()> {
    let name = &member.member;
    let mut address = Address::parse(&format!("esker://{name}"))?;
    // The address must name a server that the member runs now; a member redirects requests for others.
    let (now, ..) = client.status()?;
    let has = now.iter().find(|m| m.member == *name);
    address.store = has.and_then(|m| m.stores.first().copied());
    Client::connect(&address)?
        .shutdown(true)
        .with_context(|| format!("asking {name} to stop"))?;
    let gone = |m: &MemberStatus| m.member == *name && m.pid == member.pid;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while client.status()?.0.iter().any(gone) {
        anyhow::ensure!(
            Instant::now() < until,
            "{name} (process {} on {}) was asked to stop and has not: see its log",
            member.pid,
            member.host
        );
        check_interrupt(context)?;
        std::thread::sleep(POLL_INTERVAL);
    }
    // The supervisor (`cluster up`, a service manager) starts the member again. A member of `cluster add` has none.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let added = !config.servers.contains(name) && member.host == host.trim();
    if added {
        let memory = config.memory_bytes.unwrap_or(context.globals.memory);
        MemberProcess::start(&own_path()?, file, config, name, memory, false)?;
    }
    let until = Instant::now() + wait;
    let again = loop {
        let (now, ..) = client.status()?;
        if let Some(again) = now.iter().find(|m| m.member == *name) {
            break again.clone();
        }
        anyhow::ensure!(
            Instant::now() < until,
            "{name} has ended, and was not started again within {} s: start it on {}, then repeat this for the others",
            wait.as_secs(),
            member.host
        );
        check_interrupt(context)?;
        std::thread::sleep(POLL_INTERVAL);
    };
    wait_until_settled(client, Some(name), context)?;
    writeln!(
        context.out,
        "server  esker://{name}  pid {}  was {}  version {}",
        again.pid, member.pid, again.version
    )?;
    context.out.flush()?;
    Ok(())
}

/// Waits until all servers answer and are distributed evenly.
fn wait_until_settled(
    client: &MembershipClient,
    new: Option<&str>,
    context: &Context,
) -> anyhow::Result<()> {
    let until = Instant::now() + SETTLE_MAX;
    loop {
        let why = unsettled(client, new)?;
        let Some(why) = why else { return Ok(()) };
        anyhow::ensure!(
            Instant::now() < until,
            "the cluster is not serving completely: {why}; the other servers were not restarted"
        );
        check_interrupt(context)?;
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn unsettled(client: &MembershipClient, new: Option<&str>) -> anyhow::Result<Option<String>> {
    let (members, stores, moving) = client.status()?;
    if let Some(store) = stores.iter().find(|s| s.member.is_none()) {
        return Ok(Some(format!("no server has store {}", store.store)));
    }
    if moving > 0 {
        return Ok(Some(format!("{moving} stores are to move")));
    }
    if let Some(new) = new
        && !members.iter().any(|m| m.member == new)
    {
        return Ok(Some(format!("{new} is not there")));
    }
    let waits = members
        .iter()
        .find_map(|m| match esker_launch::probe(&m.member) {
            Some((200, _)) => None,
            Some((_, why)) => Some(format!("{}: {why}", m.member)),
            None => Some(format!("{} does not answer", m.member)),
        });
    Ok(waits)
}

fn check_interrupt(context: &Context) -> anyhow::Result<()> {
    anyhow::ensure!(
        context.interrupt.stopped().is_none(),
        "stopped: repeat it for the servers that were not restarted yet"
    );
    Ok(())
}
