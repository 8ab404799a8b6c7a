//! `esker cluster restart`: the servers ended and started again, one after the other, while clients go on. What is started is the program
//! that is there by then: so a newer one comes into use.

use super::process::Process;
use super::read;
use crate::args::ClusterRestartArgs;
use crate::context::Context;
use crate::exit::Outcome;
use crate::units::counted;
use anyhow::Context as _;
use esker::rpc::{Address, Client};
use esker_server::ClusterConfig;
use esker_server::member::{Look, MemberStatus};
use std::path::Path;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(50);
/// How long a server may take to end beyond its drain time.
const STOP_MAX: Duration = Duration::from_secs(40);
/// How long all stores may take to be served again.
const SETTLE_MAX: Duration = Duration::from_mins(3);

pub(in super::super) fn run(
    args: &ClusterRestartArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(&args.file)?;
    let look = Look::at(&config)?;
    let file = std::path::absolute(&args.file)?;
    settle(&look, None, context)?;
    let (members, ..) = look.now()?;
    anyhow::ensure!(
        members.len() > 1,
        "cluster `{}` has {}: with one alone clients would have nobody to go to; use `esker cluster down` and `up`",
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
        one(&file, &config, &look, member, args.wait, context)?;
    }
    Ok(Outcome::partly_if(!whole))
}

fn one(
    file: &Path,
    config: &ClusterConfig,
    look: &Look,
    member: &MemberStatus,
    wait: Duration,
    context: &mut Context,
) -> anyhow::Result<()> {
    let name = &member.member;
    let mut address = Address::parse(&format!("esker://{name}"))?;
    // Whoever has moved since says where to; ask for one that it has.
    let (now, ..) = look.now()?;
    let has = now.iter().find(|m| m.member == *name);
    address.store = has.and_then(|m| m.stores.first().copied());
    Client::connect(&address)?
        .shutdown(true)
        .with_context(|| format!("asking {name} to stop"))?;
    let gone = |m: &MemberStatus| m.member == *name && m.pid == member.pid;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while look.now()?.0.iter().any(gone) {
        anyhow::ensure!(
            Instant::now() < until,
            "{name} (process {} on {}) was asked to stop and has not: see its log",
            member.pid,
            member.host
        );
        stopped(context)?;
        std::thread::sleep(LOOK);
    }
    // Whoever keeps it (`cluster up`, a service manager) starts it again. One that `cluster add` has started nobody keeps.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let added = !config.servers.contains(name) && member.host == host.trim();
    if added {
        let memory = config.memory_bytes.unwrap_or(context.globals.memory);
        Process::start(file, config, name, memory, false)?;
    }
    let until = Instant::now() + wait;
    let again = loop {
        let (now, ..) = look.now()?;
        if let Some(again) = now.iter().find(|m| m.member == *name) {
            break again.clone();
        }
        anyhow::ensure!(
            Instant::now() < until,
            "{name} has ended, and nobody has started it again within {} s: start it on {}, then repeat this for the others",
            wait.as_secs(),
            member.host
        );
        stopped(context)?;
        std::thread::sleep(LOOK);
    };
    settle(look, Some(name), context)?;
    writeln!(
        context.out,
        "server  esker://{name}  pid {}  was {}  version {}",
        again.pid, member.pid, again.version
    )?;
    context.out.flush()?;
    Ok(())
}

/// Waits until all stores are served, shared out evenly.
fn settle(look: &Look, new: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let until = Instant::now() + SETTLE_MAX;
    loop {
        let why = unsettled(look, new)?;
        let Some(why) = why else { return Ok(()) };
        anyhow::ensure!(
            Instant::now() < until,
            "the cluster does not serve as a whole: {why}; the other servers are left as they are"
        );
        stopped(context)?;
        std::thread::sleep(LOOK);
    }
}

fn unsettled(look: &Look, new: Option<&str>) -> anyhow::Result<Option<String>> {
    let (members, stores, moving) = look.now()?;
    if let Some(store) = stores.iter().find(|s| s.member.is_none()) {
        return Ok(Some(format!("store {} is with nobody", store.store)));
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
        .find_map(|m| match super::super::child::probe(&m.member) {
            Some((200, _)) => None,
            Some((_, why)) => Some(format!("{}: {why}", m.member)),
            None => Some(format!("{} does not answer", m.member)),
        });
    Ok(waits)
}

fn stopped(context: &Context) -> anyhow::Result<()> {
    anyhow::ensure!(
        context.interrupt.stopped().is_none(),
        "stopped: repeat it for the servers that were not restarted yet"
    );
    Ok(())
}
