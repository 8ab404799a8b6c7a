//! `esker cluster drain`: moves all servers of a member to the others.

use super::read;
use crate::args::ClusterDrainArgs;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::units::counted;
use std::time::{Duration, Instant};

/// Time without a move after which the command gives up.
const PROGRESS_TIMEOUT: Duration = Duration::from_mins(1);

pub(in super::super) fn run(
    args: &ClusterDrainArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(&args.file)?;
    let client = MembershipClient::connect(&config)?;
    let member = &args.member;
    client.drain(member, !args.undo)?;
    if args.undo {
        context.note(&format!("{member} may run servers again"));
        return Ok(Outcome::Done);
    }
    let mut left = (usize::MAX, Instant::now());
    loop {
        let (members, stores, _) = client.status()?;
        let has = members
            .iter()
            .find(|m| m.member == *member)
            .map_or(0, |m| m.stores.len());
        let away = stores.iter().filter(|s| s.member.is_none()).count();
        if has == 0 && away == 0 {
            break;
        }
        if context.interrupt.stopped().is_some() {
            context.warn(&format!(
                "{} are still at {member}; they continue to move",
                counted(has as u64, "server", "servers")
            ));
            return Ok(Outcome::partly_if(true));
        }
        if has + away != left.0 {
            left = (has + away, Instant::now());
        }
        anyhow::ensure!(
            left.1.elapsed() < PROGRESS_TIMEOUT,
            "{} at {member} and {away} that no member runs do not move: see `esker cluster status {}` and the logs of the members",
            counted(has as u64, "server", "servers"),
            args.file.display()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    context.note(&format!(
        "{member} no longer runs servers: stop it, or let it run servers again with --undo"
    ));
    Ok(Outcome::Done)
}
