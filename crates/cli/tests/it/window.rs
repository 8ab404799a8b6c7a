//! Ephemeral stores: acknowledged writes are in checkpoints, or with the client that wrote them (SoMeta, section II-H).

use crate::cluster::{Cluster, describe_servers};
use crate::failover::{batch, create_through_deaths, kill_losing};
use crate::serve::{run, text};
use esker::OpenOptions;
use esker_model::GraphWrite as _;
use esker_testkit::wait::eventually;
use std::path::Path;
use std::time::{Duration, Instant};

/// The machine of a server is lost with its live store.
fn lose(folder: &Path, server: usize) {
    let live = folder.join("live/lab").join(format!("server-{server}"));
    std::fs::remove_dir_all(live).unwrap();
}

/// A `[checkpoint]` section with windows of this many writes and this time.
pub(crate) fn window(writes: u64, every: &str) -> String {
    format!(
        "durability = \"window\"\n[checkpoint]\nlive = \"live\"\nreserve = \"1MiB\"\nwrites = {writes}\nevery = \"{every}\"\n"
    )
}

/// Objects created one by one are in no checkpoint when their server dies.
#[test]
fn what_no_checkpoint_holds_comes_back_from_the_clients() {
    create_through_deaths(&window(1_000_000, "1h"), 1, [100, 100, 100], &lose);
}

/// Batches over several servers are persisted before they are acknowledged.
#[test]
fn what_servers_have_told_each_other_survives() {
    create_through_deaths(&window(50, "50ms"), 25, [100, 100, 100], &lose);
}

/// A million creations through two deaths; run with `--release`.
#[test]
#[ignore = "takes a minute, and more without --release"]
fn a_million_creations_in_windows_lose_nothing() {
    create_through_deaths(&window(100_000, "1s"), 500, [80_000, 80_000, 90_000], &lose);
}

fn objects(folder: &Path, target: &str, first: usize, count: usize) {
    for step in first..first + count {
        let step = step.to_string();
        let id = [
            "--name", "energy", "--app", "vpic", "--owner", "7", "--step", &step,
        ];
        let made = run(folder, &[&["object", "create", target], &id[..]].concat());
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
}

fn count(folder: &Path, target: &str) -> String {
    let found = run(folder, &["find", target, "App = 'vpic'", "--count"]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    text(&found.stdout).trim().to_owned()
}

/// A writing command ends when its writes are in a checkpoint, on any usable storage: no client is left to send them again.
#[test]
fn a_command_ends_when_its_writes_are_persisted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    // The first of the storages is not writable, not even by root.
    std::fs::create_dir_all(folder.join("bb")).unwrap();
    std::fs::create_dir_all(folder.join("pfs")).unwrap();
    std::fs::write(folder.join("bb/lab"), "no folder").unwrap();
    let more = format!(
        "{}to = [\"bb\", \"pfs\"]\nreplay = \"200ms\"\n[failover]\nproxy_after = \"200ms\"\n",
        window(1_000_000, "1h")
    );
    describe_servers(folder, 2, &more);
    let cluster = Cluster::up(folder);
    objects(folder, cluster.target(0), 0, 10);
    assert_eq!(count(folder, cluster.target(1)), "10");
    let status = run(folder, &["cluster", "status", cluster.target(0)]);
    let status = text(&status.stdout);
    assert!(status.contains("pfs/lab/server-0"), "{status}");
    let second = OpenOptions::new().open(cluster.target(1)).unwrap();
    kill_losing(&second, || lose(folder, 1));
    let through = eventually(|| {
        let found = run(
            folder,
            &["find", cluster.target(0), "App = 'vpic'", "--count"],
        );
        if found.status.success() {
            return Ok(text(&found.stdout).trim().to_owned());
        }
        Err(text(&found.stderr))
    });
    assert_eq!(through, "10");
    cluster.down(folder);

    // All live stores are lost.
    for server in 0..2 {
        lose(folder, server);
    }
    let cluster = Cluster::up(folder);
    assert_eq!(count(folder, cluster.target(1)), "10");
    objects(folder, cluster.target(1), 10, 3);
    cluster.down(folder);
    let name = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().path();
    let mut files: Vec<_> = std::fs::read_dir(folder.join("pfs/lab/server-1"))
        .unwrap()
        .map(name)
        .filter(|path| path.extension().is_some_and(|e| e == "seg"))
        .collect();
    files.sort();
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&files[0], bytes).unwrap();
    let up = run(folder, &["cluster", "up", "lab.toml"]);
    let said = text(&up.stderr);
    let file = files[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(!up.status.success());
    assert!(
        said.contains(&file) && said.contains("is damaged at byte"),
        "{said}"
    );
}

/// A cluster created with durability `window` keeps it.
#[test]
fn a_cluster_with_windows_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe_servers(folder, 2, &window(10, "1s"));
    Cluster::up(folder).down(folder);
    describe_servers(folder, 2, "");
    let up = run(folder, &["cluster", "up", "lab.toml"]);
    let said = text(&up.stderr);
    assert!(
        said.contains("was made with durability \"window\""),
        "{said}"
    );
}

/// Objects per second that eight clients create one after the other, in batches of this size, until they are durable.
fn rate(folder: &Path, servers: usize, durability: &str, batch_size: i64) -> f64 {
    let more = match durability {
        "window" => window(100_000, "1s"),
        other => format!("durability = \"{other}\"\n"),
    };
    describe_servers(folder, servers as u32, &more);
    let cluster = Cluster::up(folder);
    let began = Instant::now();
    let created: i64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let target = cluster.target(client % servers);
                scope.spawn(move || {
                    let database = OpenOptions::new().open(target).unwrap();
                    let mut next = 0;
                    while began.elapsed() < Duration::from_secs(4) {
                        let batch = batch(client, next..next + batch_size);
                        database.apply(batch).unwrap();
                        next += batch_size;
                    }
                    database.close().unwrap();
                    next
                })
            })
            .collect();
        clients.into_iter().map(|c| c.join().unwrap()).sum()
    });
    let rate = created as f64 / began.elapsed().as_secs_f64();
    cluster.down(folder);
    rate
}

/// The cost of the three durabilities, for display; requires `--release`.
#[test]
#[ignore = "figures, not a check"]
fn rates_of_creating() {
    for servers in [2, 4] {
        for batch_size in [1, 16, 500] {
            for durability in ["relaxed", "window", "sync"] {
                let dir = tempfile::tempdir().unwrap();
                let rate = rate(dir.path(), servers, durability, batch_size);
                #[expect(clippy::print_stdout, reason = "figures are for people")]
                {
                    println!(
                        "{servers} servers, batches of {batch_size}, {durability}: {rate:.0} objects/s"
                    );
                }
            }
        }
    }
}
