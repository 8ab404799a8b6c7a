//! Stores that die with their machines: what was acknowledged is in checkpoints, or with the client that wrote it (SoMeta, section
//! II-H).

use crate::failover::create_through_deaths;
use std::path::Path;

/// The machine of a server is gone: its live store with it.
fn lose(folder: &Path, server: usize) {
    let live = folder.join("live/lab").join(format!("server-{server}"));
    std::fs::remove_dir_all(live).unwrap();
}

/// `[checkpoint]` with windows of so many writes and so long.
fn window(writes: u64, every: &str) -> String {
    format!(
        "durability = \"window\"\n[checkpoint]\nlive = \"live\"\nreserve = \"1MiB\"\nwrites = {writes}\nevery = \"{every}\"\n"
    )
}

/// Nothing of what is created one by one is in a checkpoint when its server dies.
#[test]
fn what_no_checkpoint_holds_comes_back_from_the_clients() {
    create_through_deaths(&window(1_000_000, "1h"), 1, [100, 100, 100], &lose);
}

/// Batches over several servers are persisted before they are acknowledged.
#[test]
fn what_servers_have_told_each_other_survives() {
    create_through_deaths(&window(50, "50ms"), 25, [100, 100, 100], &lose);
}

/// A million creations through two deaths; `--release` is worth it.
#[test]
#[ignore = "takes a minute, and more without --release"]
fn a_million_creations_in_windows_lose_nothing() {
    create_through_deaths(&window(100_000, "1s"), 500, [80_000, 80_000, 90_000], &lose);
}
