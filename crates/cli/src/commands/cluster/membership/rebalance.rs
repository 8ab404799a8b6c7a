//! `esker cluster rebalance`: distributes the servers evenly over the members.

use super::read;
use crate::args::ClusterRebalanceArgs;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::units::counted;
use std::time::{Duration, Instant};

/// Timeout of the command.
const DONE_MAX: Duration = Duration::from_mins(5);

pub(in super::super) fn run(
    args: &ClusterRebalanceArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let config = read(&args.file)?;
    let client = MembershipClient::connect(&config)?;
    let (_, _, first) = client.status()?;
    client.rebalance(true)?;
    let until = Instant::now() + DONE_MAX;
    let even = loop {
        let (_, stores, moving) = client.status()?;
        if moving == 0 && stores.iter().all(|s| s.member.is_some()) {
            break true;
        }
        if Instant::now() >= until || context.interrupt.stopped().is_some() {
            break false;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    client.rebalance(false)?;
    if even {
        context.note(&format!(
            "{} moved; the servers are distributed evenly",
            counted(first as u64, "server", "servers")
        ));
    } else {
        context.warn("the servers are not distributed evenly yet: see `esker cluster status` with the cluster's file");
    }
    Ok(Outcome::partly_if(!even))
}
