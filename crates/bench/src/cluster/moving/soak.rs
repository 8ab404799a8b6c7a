//! Random faults of all kinds, reproducible from a seed, for a chosen time, while clients check every answer.

use super::super::ClusterBench;
use super::super::args::{Fault, SoakArgs};
use super::super::report::Bound;
use super::load::{ClientLoad, run_under_load};
use super::members::{Layout, Members};
use super::{TIMES, conclude, load, open, seconds, times};
use crate::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Shortest and longest pause between faults, in milliseconds.
const PAUSE: (u64, u64) = (500, 4_000);
/// One in this number of faults starts while another lasts.
const OVERLAPPING: u64 = 4;

/// Effects of the faults of one kind.
#[derive(Default)]
struct FaultEffects {
    /// Times from the end of a fault until the cluster is stable.
    recovery_times: Vec<Duration>,
    /// The longest client call that ended in that time, for each fault.
    waited: Vec<Duration>,
}

pub(in super::super) fn run(bench: &mut ClusterBench<'_>, args: &SoakArgs) -> anyhow::Result<bool> {
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
    let mut seen: BTreeMap<&'static str, FaultEffects> = BTreeMap::new();
    let ran = run_under_load(&load, &writers, &readers, || {
        inject_faults(bench, args, &mut members, &load, &mut seen)
    });
    let faults: usize = seen.values().map(|s| s.recovery_times.len()).sum();
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
            &seconds(&seen.recovery_times),
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

fn inject_faults(
    bench: &ClusterBench<'_>,
    args: &SoakArgs,
    members: &mut Members,
    load: &ClientLoad,
    seen: &mut BTreeMap<&'static str, FaultEffects>,
) -> anyhow::Result<()> {
    let mut random = Random::new(args.moving.seed);
    let until = Instant::now() + Duration::from_secs(args.minutes * 60 + args.seconds);
    let mut n = 0;
    while Instant::now() < until {
        bench.check_interrupt()?;
        std::thread::sleep(Duration::from_millis(
            PAUSE.0 + random.next_below(PAUSE.1 - PAUSE.0),
        ));
        load.longest();
        let mut kinds = vec![pick(args, &mut random)];
        let victim = random.next_below(members.count() as u64) as usize;
        let mut victims = vec![victim];
        if random.next_below(OVERLAPPING) == 0 && members.count() > 2 {
            kinds.push(pick(args, &mut random));
            victims.push((victim + 1) % members.count());
        }
        // From 200 ms to well beyond the lease.
        let lease = args.moving.lease.as_millis() as u64;
        let lasts = Duration::from_millis(200 + random.next_below(lease * 2));
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
        let recovery_times = members.settle(bench)?;
        std::thread::sleep(Duration::from_millis(PAUSE.0));
        let waited = load.longest();
        n += 1;
        let (errors, violations) = (load.errors().count, load.violations().count);
        bench.say(&format!(
            "{:>5.0} s  fault {n}: {} for {:.1} s; whole again after {:.1} s, the longest call {:.1} s; {} writes, {errors} errors, \
             {violations} violations",
            load.now().as_secs_f64(),
            named.join(" and "),
            lasts.as_secs_f64(),
            recovery_times.as_secs_f64(),
            waited.as_secs_f64(),
            load.writes(),
        ));
        let kind = if kinds.len() > 1 {
            "two at once"
        } else {
            kinds[0].name()
        };
        let seen = seen.entry(kind).or_default();
        seen.recovery_times.push(recovery_times);
        seen.waited.push(waited);
    }
    Ok(())
}

fn pick(args: &SoakArgs, random: &mut Random) -> Fault {
    let n = random.next_below(args.faults.len() as u64) as usize;
    args.faults.get(n).copied().unwrap_or(Fault::Kill)
}

fn begin(kind: Fault, victim: usize, members: &mut Members, lasts: Duration) -> anyhow::Result<()> {
    match kind {
        Fault::Kill => members.kill(victim),
        Fault::Pause => members.pause(victim, true)?,
        Fault::Cut => members.cut(victim, true),
        // Half of the time etcd is killed, else paused.
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
