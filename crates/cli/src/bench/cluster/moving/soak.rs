//! Faults of all kinds, at random from a seed, for as long as one likes, while clients check every answer.

use super::super::Bench;
use super::super::args::{Fault, SoakArgs};
use super::super::report::Bound;
use super::load::{Load, under};
use super::members::{Layout, Members};
use super::{TIMES, conclude, load, open, seconds, times};
use crate::bench::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Calm between faults, at least and at most.
const CALM: (u64, u64) = (500, 4_000);
/// Of so many faults, one comes while another lasts.
const TOGETHER: u64 = 4;

/// What faults of a kind have done.
#[derive(Default)]
struct Seen {
    /// From the end of a fault until the cluster is whole again.
    whole: Vec<Duration>,
    /// The longest call of a client that ended until then.
    waited: Vec<Duration>,
}

pub(in super::super) fn run(bench: &mut Bench<'_>, args: &SoakArgs) -> anyhow::Result<bool> {
    let moving = &args.moving;
    bench.report.columns = TIMES;
    let layout = Layout {
        servers: moving.servers,
        spare: 0,
        stores: moving.stores,
        lease: moving.lease,
        relays: args.faults.contains(&Fault::Cut),
    };
    let mut members = Members::start(bench, &layout)?;
    let targets = members.targets();
    let writers = open(bench, &targets, moving.writers)?;
    let readers = open(bench, &targets, moving.readers)?;
    let Some(first) = writers.first() else {
        anyhow::bail!("there is no client");
    };
    let load = load(first, moving, true)?;
    let mut seen: BTreeMap<&'static str, Seen> = BTreeMap::new();
    let ran = under(&load, &writers, &readers, || {
        storm(bench, args, &mut members, &load, &mut seen)
    });
    let faults: usize = seen.values().map(|s| s.whole.len()).sum();
    bench.report.settings = json!({
        "servers": moving.servers,
        "stores": moving.stores,
        "lease_s": moving.lease.as_secs_f64(),
        "writers": moving.writers,
        "readers": moving.readers,
        "seed": moving.seed,
        "minutes": args.minutes,
        "faults": faults,
    });
    for (kind, seen) in &seen {
        let rows = &mut bench.report.rows;
        rows.push(times(
            &format!("{kind}: until all serve again"),
            &seconds(&seen.whole),
        ));
        rows.push(times(
            &format!("{kind}: a client's longest call"),
            &seconds(&seen.waited),
        ));
    }
    ran?;
    bench
        .report
        .wish("faults", faults as f64, Bound::AtLeast(1.0));
    conclude(bench.report, &load, first)
}

fn storm(
    bench: &Bench<'_>,
    args: &SoakArgs,
    members: &mut Members,
    load: &Load,
    seen: &mut BTreeMap<&'static str, Seen>,
) -> anyhow::Result<()> {
    let mut random = Random::new(args.moving.seed);
    let until = Instant::now() + Duration::from_secs(args.minutes * 60 + args.seconds);
    let mut n = 0;
    while Instant::now() < until {
        bench.go_on()?;
        std::thread::sleep(Duration::from_millis(
            CALM.0 + random.below(CALM.1 - CALM.0),
        ));
        load.longest();
        let mut kinds = vec![pick(args, &mut random)];
        let victim = random.below(members.count() as u64) as usize;
        let mut victims = vec![victim];
        if random.below(TOGETHER) == 0 && members.count() > 2 {
            kinds.push(pick(args, &mut random));
            victims.push((victim + 1) % members.count());
        }
        // From a moment to well beyond the lease.
        let lease = args.moving.lease.as_millis() as u64;
        let lasts = Duration::from_millis(200 + random.below(lease * 2));
        let named: Vec<String> = kinds
            .iter()
            .zip(&victims)
            .map(|(kind, victim)| match kind {
                Fault::Etcd => kind.name().to_owned(),
                _ => format!("{} {}", kind.name(), members.name(*victim)),
            })
            .collect();
        for (kind, victim) in kinds.iter().zip(&victims) {
            begin(*kind, *victim, members, lasts)?;
        }
        std::thread::sleep(lasts);
        for (kind, victim) in kinds.iter().zip(&victims) {
            end(*kind, *victim, members)?;
        }
        let whole = members.settle(bench)?;
        std::thread::sleep(Duration::from_millis(CALM.0));
        let waited = load.longest();
        n += 1;
        let (errors, violations) = (load.errors().count, load.violations().count);
        bench.say(&format!(
            "{:>5.0} s  fault {n}: {} for {:.1} s; whole again after {:.1} s, the longest call {:.1} s; {} writes, {errors} errors, \
             {violations} violations",
            load.now().as_secs_f64(),
            named.join(" and "),
            lasts.as_secs_f64(),
            whole.as_secs_f64(),
            waited.as_secs_f64(),
            load.writes(),
        ));
        let kind = if kinds.len() > 1 {
            "two at once"
        } else {
            kinds[0].name()
        };
        let seen = seen.entry(kind).or_default();
        seen.whole.push(whole);
        seen.waited.push(waited);
    }
    Ok(())
}

fn pick(args: &SoakArgs, random: &mut Random) -> Fault {
    let n = random.below(args.faults.len() as u64) as usize;
    args.faults.get(n).copied().unwrap_or(Fault::Kill)
}

fn begin(kind: Fault, victim: usize, members: &mut Members, lasts: Duration) -> anyhow::Result<()> {
    match kind {
        Fault::Kill => members.kill(victim),
        Fault::Pause => members.pause(victim, true)?,
        Fault::Cut => members.cut(victim, true),
        // Half of the time it dies, else it stands still.
        Fault::Etcd if lasts.as_millis().is_multiple_of(2) => members.restart_etcd()?,
        Fault::Etcd => members.pause_etcd(true)?,
    }
    Ok(())
}

fn end(kind: Fault, victim: usize, members: &mut Members) -> anyhow::Result<()> {
    match kind {
        Fault::Kill => members.begin(victim),
        Fault::Pause => members.pause(victim, false),
        Fault::Cut => {
            members.cut(victim, false);
            Ok(())
        }
        Fault::Etcd => members.pause_etcd(false),
    }
}
