//! Fault injection while clients work: servers crash in the middle of an operation, pause, or are cut off from each
//! other. Where servers move, faults hit processes, and etcd stops occasionally, too.

use super::cluster::Cluster;
use super::moving::{LEASE, Moving};
use crate::rng::Rng;
use esker_cluster::ServerId;
use std::cell::Cell;
use std::rc::Rc;

/// Kinds of faults to inject.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each may be there or not")]
pub struct FaultKinds {
    /// Servers crash and restart.
    pub crashes: bool,
    /// Servers pause for a while.
    pub pauses: bool,
    /// Servers are cut off from each other for a while.
    pub partitions: bool,
    /// All servers crash, and their data is redistributed over another number of servers.
    pub resizes: bool,
}

/// Injects faults until `stop` is set, then repairs everything.
pub async fn inject_faults(
    cluster: Rc<Cluster>,
    mut rng: Rng,
    kinds: FaultKinds,
    stop: Rc<Cell<bool>>,
) {
    let shared = std::sync::Arc::clone(cluster.shared());
    if let Some(moving) = &cluster.moving {
        return inject_process_faults(&cluster, moving, rng, kinds, &stop).await;
    }
    while !stop.get() {
        shared.sleep(1000 + rng.number_below(200_000) as u64).await;
        if stop.get() {
            break;
        }
        if kinds.resizes && rng.percent(20) {
            resize(&cluster, &mut rng).await;
            continue;
        }
        let at = rng.number_below(cluster.len());
        match rng.number_below(3) {
            0 if kinds.crashes => crash_server(&cluster, &mut rng, at).await,
            1 if kinds.pauses => {
                if let Some(group) = cluster.group(at) {
                    let micros = 1000 + rng.number_below(3_000_000) as u64;
                    shared.note(|| format!("server {at} stands still for {micros} us"));
                    cluster.exec.pause(group, micros);
                }
            }
            2 if kinds.partitions => cut(&cluster, &mut rng).await,
            _ => {}
        }
    }
}

/// Injects faults into processes, where servers move between them.
async fn inject_process_faults(
    cluster: &Rc<Cluster>,
    moving: &Rc<Moving>,
    mut rng: Rng,
    kinds: FaultKinds,
    stop: &Cell<bool>,
) {
    let shared = cluster.shared();
    moving.set_faults_on(true);
    while !stop.get() {
        let rest = 1000 + rng.number_below(1_500_000) as u64;
        shared.sleep(rest).await;
        if stop.get() {
            break;
        }
        let process = rng.number_below(moving.processes());
        let long = 1000 + rng.number_below(3_000 * LEASE as usize) as u64;
        match rng.number_below(10) {
            0 | 1 if kinds.crashes => {
                crash_process(cluster, moving, &mut rng, process).await;
                let after = rng.number_below(long as usize) as u64;
                let (moving, shared_) = (Rc::clone(moving), std::sync::Arc::clone(shared));
                let revive = async move {
                    shared_.sleep(after).await;
                    moving.revive(process);
                };
                cluster.exec.spawn(super::exec::OUTSIDE, Box::pin(revive));
            }
            2..=4 if kinds.pauses => {
                // Some threads of a process may pause while others continue.
                let groups = moving.groups(process);
                let still = match rng.number_below(3) {
                    0 => groups.first().copied().into_iter().collect(),
                    1 => groups.into_iter().filter(|_| rng.percent(50)).collect(),
                    _ => groups,
                };
                shared.note(|| format!("of process {process} {still:?} stand still for {long} us"));
                for group in still {
                    cluster.exec.pause(group, long);
                }
            }
            5 if kinds.partitions => {
                shared.note(|| format!("process {process} does not reach etcd for {long} us"));
                moving.cut_from_etcd(process, long);
            }
            6 if kinds.partitions => {
                let both_ways = rng.percent(70);
                for other in (0..moving.processes()).filter(|other| *other != process) {
                    cluster.net.cut_processes(process, other);
                    if both_ways {
                        cluster.net.cut_processes(other, process);
                    }
                }
                shared.note(|| format!("cut around process {process}, both ways: {both_ways}"));
                shared.sleep(long).await;
                cluster.net.join_all();
            }
            7 if rng.percent(30) => {
                shared.note(|| format!("etcd stops for {long} us"));
                moving.set_etcd(false);
                shared.sleep(long).await;
                moving.set_etcd(true);
            }
            8 => moving.leave(process),
            _ => {
                let drained = rng.percent(50);
                shared.note(|| format!("process {process} drained: {drained}"));
                moving.drain(process, drained);
            }
        }
    }
}

/// Crashes a process between two steps of an operation of the process or of one of its servers.
async fn crash_process(cluster: &Rc<Cluster>, moving: &Moving, rng: &mut Rng, process: usize) {
    let groups = moving.groups(process);
    if groups.is_empty() {
        return;
    }
    let group = *rng.pick(&groups);
    cluster.exec.kill_after(group, rng.number_below(40) as u64);
    for _ in 0..100 {
        cluster.shared().sleep(1000).await;
        if cluster.exec.is_dead(group) {
            break;
        }
    }
    moving.kill(process);
}

async fn crash_server(cluster: &Rc<Cluster>, rng: &mut Rng, at: usize) {
    let shared = cluster.shared();
    let Some(group) = cluster.group(at) else {
        return;
    };
    // Between two steps of an operation, rather than while the server is idle.
    cluster.exec.kill_after(group, rng.number_below(40) as u64);
    for _ in 0..100 {
        shared.sleep(1000).await;
        if cluster.exec.is_dead(group) {
            break;
        }
    }
    cluster.kill(at);
    // A second server may crash while this one is down.
    if rng.percent(20) && cluster.len() > 1 {
        let other = (at + 1) % cluster.len();
        cluster.kill(other);
        shared.sleep(rng.number_below(300_000) as u64).await;
        revive(cluster, other);
    }
    let away = if rng.percent(70) {
        rng.number_below(200_000)
    } else {
        rng.number_below(4_000_000)
    };
    shared.sleep(away as u64).await;
    revive(cluster, at);
}

async fn resize(cluster: &Rc<Cluster>, rng: &mut Rng) {
    for at in 0..cluster.len() {
        if let Some(group) = cluster.group(at) {
            cluster.exec.kill_after(group, rng.number_below(40) as u64);
        }
    }
    cluster
        .shared()
        .sleep(rng.number_below(20_000) as u64)
        .await;
    let servers = 1 + rng.number_below(8) as u32;
    if let Err(e) = cluster.resize(servers.min(cluster.shape.vnodes)) {
        cluster.complain(format!("the number of servers cannot be changed: {e}"));
    }
    if let Err(e) = cluster.start_all() {
        cluster.complain(format!("a server cannot be opened: {e}"));
    }
}

fn revive(cluster: &Rc<Cluster>, at: usize) {
    if cluster.group(at).is_none() {
        cluster.kill(at);
        if let Err(e) = cluster.start(at) {
            cluster.complain(format!("server {at} cannot be opened again: {e}"));
        }
    }
}

async fn cut(cluster: &Rc<Cluster>, rng: &mut Rng) {
    let count = cluster.len() as u32;
    let sides: Vec<bool> = (0..count).map(|_| rng.percent(50)).collect();
    let both_ways = rng.percent(70);
    for (a, side_a) in (0..).zip(&sides) {
        for (b, side_b) in (0..).zip(&sides) {
            if *side_a && !*side_b {
                cluster.net.cut(ServerId(a), ServerId(b));
                if both_ways {
                    cluster.net.cut(ServerId(b), ServerId(a));
                }
            }
        }
    }
    cluster
        .shared()
        .note(|| format!("cut between {sides:?}, both ways: {both_ways}"));
    cluster
        .shared()
        .sleep(1000 + rng.number_below(5_000_000) as u64)
        .await;
    cluster.net.join_all();
    cluster.shared().note(|| "the cut is mended".into());
}
