//! `esker cluster add`: starts one more member on this machine.

use super::read;
use crate::args::ClusterAddArgs;
use esker_launch::MemberProcess;
use esker_launch::member_log;
use esker_server::ClusterConfig;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::program::own_path;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Time until the member has its share of the servers.
const READY_MAX: Duration = Duration::from_mins(2);
/// Number of addresses after those of the file that are tried.
const ADDRESSES_TRIED: usize = 64;

pub(in super::super) fn run(
    args: &ClusterAddArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(&args.file)?;
    let client = MembershipClient::connect(&config)?;
    let (members, ..) = client.status()?;
    let taken = |address: &String| {
        members.iter().any(|m| m.member == *address) || config.servers.contains(address)
    };
    let member = match &args.listen {
        Some(listen) if members.iter().any(|m| m.member == *listen) => {
            anyhow::bail!(
                "cluster `{}` already has a member at {listen}: give another address with --listen",
                config.name
            )
        }
        Some(listen) => listen.clone(),
        None => next(&config).find(|address| !taken(address) && TcpListener::bind(address).is_ok()).ok_or_else(|| {
            anyhow::anyhow!("there is no free address after those that the file names: give one with --listen HOST:PORT")
        })?,
    };
    let file = std::path::absolute(&args.file)?;
    let memory = config.memory_bytes.unwrap_or(context.globals.memory);
    let mut process = MemberProcess::start(&own_path()?, &file, &config, &member, memory, false)?;
    let until = Instant::now() + READY_MAX;
    let added = loop {
        if let Some(status) = process.ended() {
            anyhow::bail!(
                "member {member} ended before it was ready ({status}); the end of its log, `{}`:\n{}",
                member_log(&config, &member).display(),
                process.log_tail()
            );
        }
        let (members, stores, moving) = client.status()?;
        let listed = members.into_iter().find(|m| m.member == member);
        // `moving` does not count a store that its server has released and the new one has not claimed yet.
        let settled = moving == 0 && stores.iter().all(|s| s.member.is_some());
        if let Some(listed) = listed.filter(|_| settled && process.not_ready_reason().is_none()) {
            break listed;
        }
        anyhow::ensure!(
            Instant::now() < until && context.interrupt.stopped().is_none(),
            "member {member} is running (pid {}), but does not have its share of the servers yet: see `esker cluster status`",
            process.pid()
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    writeln!(
        context.out,
        "server  esker://{member}  pid {}  log {}  stores {}",
        process.pid(),
        process.log.display(),
        added.stores.len()
    )?;
    Ok(Outcome::Done)
}

/// Returns addresses after the last one of the file.
fn next(config: &ClusterConfig) -> impl Iterator<Item = String> {
    let last = config.servers.last().and_then(|a| a.parse().ok());
    (1..ADDRESSES_TRIED as u32).filter_map(move |n| {
        let mut address: std::net::SocketAddr = last?;
        match address.ip() {
            std::net::IpAddr::V4(ip) if ip.is_loopback() => {
                address.set_ip(std::net::Ipv4Addr::from_bits(ip.to_bits().checked_add(n)?).into());
            }
            _ => address.set_port(u16::try_from(u32::from(address.port()) + n).ok()?),
        }
        Some(address.to_string())
    })
}
