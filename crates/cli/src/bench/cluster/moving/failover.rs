//! Servers that are killed under load: how long until others answer for what they had, and what clients notice.

use super::super::Bench;
use super::super::args::FailoverArgs;
use super::super::report::Bound;
use super::load::under;
use super::members::{Layout, Members};
use super::{BEYOND_LEASE, TIMES, conclude, load, open, percentile, seconds, times};
use crate::bench::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// After a server has come back, so that all is as it was.
const CALM: Duration = Duration::from_millis(500);
/// Rounds of each client before the next kill: what one waits for is to be of one kill.
const ROUNDS: u64 = 10;
/// How long they may take.
const ROUNDS_MAX: Duration = Duration::from_mins(2);

/// A kill, and what came of it.
struct Kill {
    server: String,
    stores: usize,
    /// Until each of its stores answered again.
    again: Vec<Duration>,
    /// The longest call of a client that ended until all was calm again.
    waited: Duration,
}

pub(in super::super) fn run(bench: &mut Bench<'_>, args: &FailoverArgs) -> anyhow::Result<bool> {
    let moving = &args.moving;
    bench.report.columns = TIMES;
    let layout = Layout {
        servers: moving.servers,
        spare: 0,
        stores: moving.stores,
        lease: moving.lease,
        relays: false,
    };
    let mut members = Members::start(bench, &layout)?;
    let targets = members.targets();
    let writers = open(bench, &targets, moving.writers)?;
    let readers = open(bench, &targets, moving.readers)?;
    let Some(first) = writers.first() else {
        anyhow::bail!("there is no client");
    };
    let load = load(first, moving, true)?;
    let mut kills = Vec::new();
    let ran = under(&load, &writers, &readers, || {
        let mut random = Random::new(moving.seed);
        for round in 0..args.kills {
            load.wait_for_rounds(ROUNDS, ROUNDS_MAX)?;
            load.longest();
            let victim = random.below(members.count() as u64) as usize;
            let server = members.name(victim).to_owned();
            let (_, stores, _) = members.now()?;
            let lost: BTreeMap<u32, u64> = stores
                .iter()
                .filter(|s| s.member.as_deref() == Some(&server))
                .map(|s| (s.store, s.epoch))
                .collect();
            members.kill(victim);
            let again = members.served_again(bench, &lost)?;
            std::thread::sleep(CALM);
            let waited = load.longest();
            bench.say(&format!(
                "kill {} of {}: {server} with {} stores; all answer again after {:.2} s, the longest call took {:.2} s",
                round + 1,
                args.kills,
                lost.len(),
                again.last().copied().unwrap_or_default().as_secs_f64(),
                waited.as_secs_f64()
            ));
            kills.push(Kill {
                server,
                stores: lost.len(),
                again,
                waited,
            });
            members.begin(victim)?;
            members.settle(bench)?;
        }
        Ok(())
    });
    let last: Vec<f64> = kills
        .iter()
        .filter_map(|k| Some(k.again.last()?.as_secs_f64()))
        .collect();
    let every: Vec<f64> = kills.iter().flat_map(|k| seconds(&k.again)).collect();
    let waits: Vec<f64> = kills.iter().map(|k| k.waited.as_secs_f64()).collect();
    bench.report.settings = json!({
        "servers": moving.servers,
        "stores": moving.stores,
        "lease_s": moving.lease.as_secs_f64(),
        "writers": moving.writers,
        "readers": moving.readers,
        "seed": moving.seed,
        "kills": kills.iter().map(|k| json!({
            "server": k.server,
            "stores": k.stores,
            "again_s": seconds(&k.again),
            "longest_call_s": k.waited.as_secs_f64(),
        })).collect::<Vec<_>>(),
    });
    bench.report.rows = vec![
        times("all stores of a killed server answer again", &last),
        times("a store answers again", &every),
        times("a client's longest call", &waits),
    ];
    ran?;
    bench.report.wish(
        "seconds until all stores answer again, at most (lease + 2)",
        percentile(&last, 1.0),
        Bound::AtMost(moving.lease.as_secs_f64() + BEYOND_LEASE),
    );
    let whole = conclude(bench.report, &load, first)?;
    Ok(whole)
}
