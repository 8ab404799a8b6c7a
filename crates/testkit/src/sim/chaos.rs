//! What goes wrong while clients work: servers die in the middle of something, stand still, cannot hear each other.

use super::cluster::Cluster;
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
