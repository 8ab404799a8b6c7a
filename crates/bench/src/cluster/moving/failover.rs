//! Servers that are killed under load: time until others serve their stores, and delays for clients.

use super::super::ClusterBench;
use super::super::args::FailoverArgs;
use super::super::report::Bound;
use super::load::run_under_load;
use super::members::{Layout, Members};
use super::{BEYOND_LEASE, TIMES, conclude, load, open, percentile, seconds, times};
use crate::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause after a server has returned.
const PAUSE: Duration = Duration::from_millis(500);
/// Rounds of each client before the next kill, so that a delay belongs to one kill.
const ROUNDS: u64 = 10;
/// Time limit of these rounds.
const ROUNDS_MAX: Duration = Duration::from_mins(2);

/// One kill and its effects.
struct Kill {
    server: String,
    stores: usize,
    /// Time until each of its stores was served.
    takeover_times: Vec<Duration>,
    /// The longest client call that ended before the cluster was stable again.
    waited: Duration,
}

pub(in super::super) fn run(
    bench: &mut ClusterBench<'_>,
    args: &FailoverArgs,
) -> anyhow::Result<bool> {
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
    let ran = run_under_load(&load, &writers, &readers, || {
        let mut random = Random::new(moving.seed);
        for round in 0..args.kills {
            load.wait_for_rounds(ROUNDS, ROUNDS_MAX)?;
            load.longest();
            let victim = random.next_below(members.count() as u64) as usize;
            let server = members.name(victim).to_owned();
            let (_, stores, _) = members.now()?;
            let lost: BTreeMap<u32, u64> = stores
                .iter()
                .filter(|s| s.member.as_deref() == Some(&server))
                .map(|s| (s.store, s.epoch))
                .collect();
            members.kill(victim);
            let takeover_times = members.wait_for_takeover(bench, &lost)?;
            std::thread::sleep(PAUSE);
            let waited = load.longest();
            bench.say(&format!(
                "kill {} of {}: {server} with {} stores; all answer again after {:.2} s, the longest call took {:.2} s",
                round + 1,
                args.kills,
                lost.len(),
                takeover_times.last().copied().unwrap_or_default().as_secs_f64(),
                waited.as_secs_f64()
            ));
            kills.push(Kill {
                server,
                stores: lost.len(),
                takeover_times,
                waited,
            });
            members.begin(victim)?;
            members.settle(bench)?;
        }
        Ok(())
    });
    let last: Vec<f64> = kills
        .iter()
        .filter_map(|k| Some(k.takeover_times.last()?.as_secs_f64()))
        .collect();
    let every: Vec<f64> = kills
        .iter()
        .flat_map(|k| seconds(&k.takeover_times))
        .collect();
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
            "again_s": seconds(&k.takeover_times),
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
