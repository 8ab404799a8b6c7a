//! What goes wrong while clients work: servers die in the middle of something, stand still, cannot hear each other. Where servers move,
//! it is processes to which that happens, and etcd stops now and then, too.

use super::cluster::Cluster;
use super::moving::{LEASE, Moving};
use crate::rng::Rng;
use esker_cluster::ServerId;
use std::cell::Cell;
use std::rc::Rc;

/// What may go wrong.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each may be there or not")]
pub struct Dangers {
    /// Servers die and come back.
    pub deaths: bool,
    /// Servers stand still for a while.
    pub pauses: bool,
    /// Servers do not hear each other for a while.
    pub cuts: bool,
    /// All servers die, and what they have is dealt out among another number of them.
    pub resizes: bool,
}

/// Makes trouble until it is told to stop, then leaves everything in order.
pub async fn trouble(cluster: Rc<Cluster>, mut rng: Rng, dangers: Dangers, stop: Rc<Cell<bool>>) {
    let shared = std::sync::Arc::clone(cluster.shared());
    if let Some(moving) = &cluster.moving {
        return trouble_moving(&cluster, moving, rng, dangers, &stop).await;
    }
    while !stop.get() {
        shared.sleep(1000 + rng.below(200_000) as u64).await;
        if stop.get() {
            break;
        }
        if dangers.resizes && rng.percent(20) {
            resize(&cluster, &mut rng).await;
            continue;
        }
        let at = rng.below(cluster.len());
        match rng.below(3) {
            0 if dangers.deaths => death(&cluster, &mut rng, at).await,
            1 if dangers.pauses => {
                if let Some(group) = cluster.group(at) {
                    let micros = 1000 + rng.below(3_000_000) as u64;
                    shared.note(|| format!("server {at} stands still for {micros} us"));
                    cluster.exec.pause(group, micros);
                }
            }
            2 if dangers.cuts => cut(&cluster, &mut rng).await,
            _ => {}
        }
    }
}

/// The same, where servers move between processes.
async fn trouble_moving(
    cluster: &Rc<Cluster>,
    moving: &Rc<Moving>,
    mut rng: Rng,
    dangers: Dangers,
    stop: &Cell<bool>,
) {
    let shared = cluster.shared();
    moving.set_storm(true);
    while !stop.get() {
        let rest = 1000 + rng.below(1_500_000) as u64;
        shared.sleep(rest).await;
        if stop.get() {
            break;
        }
        let process = rng.below(moving.processes());
        let long = 1000 + rng.below(3_000 * LEASE as usize) as u64;
        match rng.below(10) {
            0 | 1 if dangers.deaths => {
                fall(cluster, moving, &mut rng, process).await;
                let after = rng.below(long as usize) as u64;
                let (moving, shared_) = (Rc::clone(moving), std::sync::Arc::clone(shared));
                let revive = async move {
                    shared_.sleep(after).await;
                    moving.revive(process);
                };
                cluster.exec.spawn(super::exec::WORLD, Box::pin(revive));
            }
            2..=4 if dangers.pauses => {
                // Of its threads one may stand still and another go on.
                let groups = moving.groups(process);
                let still = match rng.below(3) {
                    0 => groups.first().copied().into_iter().collect(),
                    1 => groups.into_iter().filter(|_| rng.percent(50)).collect(),
                    _ => groups,
                };
                shared.note(|| format!("of process {process} {still:?} stand still for {long} us"));
                for group in still {
                    cluster.exec.pause(group, long);
                }
            }
            5 if dangers.cuts => {
                shared.note(|| format!("process {process} does not reach etcd for {long} us"));
                moving.cut_from_etcd(process, long);
            }
            6 if dangers.cuts => {
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

/// A process dies between two steps of something that it, or one of its servers, does.
async fn fall(cluster: &Rc<Cluster>, moving: &Moving, rng: &mut Rng, process: usize) {
    let groups = moving.groups(process);
    if groups.is_empty() {
        return;
    }
    let group = *rng.pick(&groups);
    cluster.exec.kill_after(group, rng.below(40) as u64);
    for _ in 0..100 {
        cluster.shared().sleep(1000).await;
        if cluster.exec.is_dead(group) {
            break;
        }
    }
    moving.kill(process);
}

async fn death(cluster: &Rc<Cluster>, rng: &mut Rng, at: usize) {
    let shared = cluster.shared();
    let Some(group) = cluster.group(at) else {
        return;
    };
    // Between two steps of something that it does, rather than at a time when it does nothing.
    cluster.exec.kill_after(group, rng.below(40) as u64);
    for _ in 0..100 {
        shared.sleep(1000).await;
        if cluster.exec.is_dead(group) {
            break;
        }
    }
    cluster.kill(at);
    // Another may die while this one is away.
    if rng.percent(20) && cluster.len() > 1 {
        let other = (at + 1) % cluster.len();
        cluster.kill(other);
        shared.sleep(rng.below(300_000) as u64).await;
        revive(cluster, other);
    }
    let away = if rng.percent(70) {
        rng.below(200_000)
    } else {
        rng.below(4_000_000)
    };
    shared.sleep(away as u64).await;
    revive(cluster, at);
}

async fn resize(cluster: &Rc<Cluster>, rng: &mut Rng) {
    for at in 0..cluster.len() {
        if let Some(group) = cluster.group(at) {
            cluster.exec.kill_after(group, rng.below(40) as u64);
        }
    }
    cluster.shared().sleep(rng.below(20_000) as u64).await;
    let servers = 1 + rng.below(8) as u32;
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
        .sleep(1000 + rng.below(5_000_000) as u64)
        .await;
    cluster.net.join_all();
    cluster.shared().note(|| "the cut is mended".into());
}
