//! Clusters of ephemeral stores whose number of servers changes: everything in their checkpoints is kept.

use crate::cluster::{Cluster, describe_servers};
use crate::cluster_objects::{OBJECTS, fill};
use crate::resize::{folders, graph, one_more, open, picture, resize};
use crate::serve::{esker, run, text, written};
use crate::window::window;
use esker::{OpenOptions, Role};
use esker_model::object::ObjectWrite as _;
use esker_model::{GraphWrite as _, NeverCancel};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Writes a file with another number of servers, another port, and checkpoints in this folder.
fn rewrite(folder: &Path, servers: u32, to: &str) {
    let more = format!(
        "threshold = 8\n{}to = [\"{to}\"]\nreplay = \"100ms\"\n",
        window(1_000, "20ms")
    );
    describe_servers(folder, servers, &more);
}

/// All machines are lost at once, with their live stores.
fn kill_all(folder: &Path, cluster: Cluster, servers: u32) {
    let pids = (0..servers).map(|n| match open(&cluster, n as usize).role() {
        Role::Client { pid } => pid,
        role => panic!("{role:?}"),
    });
    // The supervisor first, which would restart the others.
    let all: Vec<String> = std::iter::once(cluster.pid())
        .chain(pids)
        .map(|pid| pid.to_string())
        .collect();
    let killed = Command::new("kill").arg("-KILL").args(all).status();
    assert!(killed.unwrap().success());
    drop(cluster);
    lose_all(folder);
}

fn lose_all(folder: &Path) {
    match std::fs::remove_dir_all(folder.join("live")) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("{e}"),
        _ => {}
    }
}

/// The checkpoint files below a folder.
fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(checkpoints(&path));
        } else if path.extension().is_some_and(|e| e == "seg" || e == "base") {
            found.push(path);
        }
    }
    found
}

/// The store of a checkpoint file.
fn store_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    name.split('-').next().unwrap().to_owned()
}

#[test]
fn checkpoints_start_another_number_of_servers() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::fs::create_dir(folder.join("bb")).unwrap();
    rewrite(folder, 4, "bb");
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 1);
    fill(&database);
    let then = graph(&database);
    let mut marked = written(&database, "2", "/marked");
    marked.idempotency_key = Some(b"source/1".to_vec());
    assert!(database.apply(marked.clone()).unwrap().applied);
    assert!(database.set_index("note", false).unwrap());
    let mut before = picture(&database, then);
    database.persist().unwrap();
    drop(database);
    kill_all(folder, cluster, 4);
    let old = checkpoints(&folder.join("bb/lab"));
    assert!(old.len() >= 4, "{old:?}");

    // A missing checkpoint cannot be redistributed and is named; nothing is changed.
    rewrite(folder, 2, "bb");
    std::fs::rename(folder.join("bb"), folder.join("away")).unwrap();
    std::fs::create_dir(folder.join("bb")).unwrap();
    let refused = run(folder, &["cluster", "resize", "lab.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("is that storage mounted here?"), "{said}");
    std::fs::remove_dir_all(folder.join("bb")).unwrap();
    std::fs::rename(folder.join("away"), folder.join("bb")).unwrap();
    assert_eq!(checkpoints(&folder.join("bb/lab")).len(), old.len());

    let mut old = old;
    for (turn, servers) in [(0, 2_u32), (1, 4), (2, 1)] {
        rewrite(folder, servers, "bb");
        let (_, said) = resize(folder, &[]);
        assert!(said.contains(&format!("has {servers} server")), "{said}");
        // The first time the servers were killed, then stopped.
        assert_eq!(said.contains("did not shut down cleanly"), turn == 0);
        let expected: Vec<_> = (0..servers).map(|n| format!("server-{n}")).collect();
        assert_eq!(folders(folder), expected);
        // All old checkpoints are removed.
        assert!(old.iter().all(|path| !path.exists()), "{old:?}");
        let cluster = Cluster::up(folder);
        for server in BTreeSet::from([0, servers as usize - 1]) {
            let database = open(&cluster, server);
            assert!(picture(&database, then) == before, "{servers}, {server}");
            assert!(!database.apply(marked.clone()).unwrap().applied);
        }
        let database = open(&cluster, servers as usize - 1);
        one_more(&database, OBJECTS + turn, &before);
        database
            .apply(written(&database, "1", &format!("/turn/{turn}")))
            .unwrap();
        before = picture(&database, then);
        database.close().unwrap();
        if turn == 1 {
            kill_all(folder, cluster, servers);
            // New writes are in `to`, numbered after those of the resize.
            let cluster = Cluster::up(folder);
            assert!(picture(&open(&cluster, 0), then) == before);
            cluster.down(folder);
        } else {
            cluster.down(folder);
        }
        lose_all(folder);
        old = checkpoints(&folder.join("bb/lab"));
        assert!(old.len() >= servers as usize);
    }
}

/// Killed at any time and repeated, the resize completes, with checkpoints next to the databases or elsewhere.
#[test]
fn a_resize_of_checkpoints_may_be_killed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::fs::create_dir(folder.join("bb")).unwrap();
    rewrite(folder, 2, "bb");
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 0);
    fill(&database);
    let then = graph(&database);
    let before = picture(&database, then);
    database.close().unwrap();
    cluster.down(folder);
    let (mut killed, mut servers, mut whole) = (0, 2, Duration::ZERO);
    for turn in 0..6 {
        servers = 5 - servers;
        let to = if turn < 3 { "bb" } else { "lab.cluster" };
        rewrite(folder, servers, to);
        lose_all(folder);
        let mut child = esker(folder)
            .args(["cluster", "resize", "lab.toml"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Killed immediately, then later and later within the duration of a resize.
        std::thread::sleep(whole * turn / 6);
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let began = Instant::now();
        let (_, said) = resize(folder, &[]);
        whole = began.elapsed();
        assert!(said.contains(&format!("has {servers} servers")), "{said}");
        let expected: Vec<_> = (0..servers).map(|n| format!("server-{n}")).collect();
        assert_eq!(folders(folder), expected);
        let stores: BTreeSet<_> = checkpoints(folder).iter().map(|p| store_of(p)).collect();
        assert_eq!(
            stores.len(),
            servers as usize,
            "old or half made ones are left"
        );
        assert_eq!(checkpoints(&folder.join("bb")).is_empty(), turn >= 3);
    }
    assert!(killed > 1, "it was over before it was killed: {killed}");
    rewrite(folder, servers, "bb");
    let cluster = Cluster::up(folder);
    assert!(picture(&open(&cluster, servers as usize - 1), then) == before);
    cluster.down(folder);
    assert!(!checkpoints(&folder.join("bb")).is_empty());

    // Interrupted while new databases replace the old ones: the first one is done.
    rewrite(folder, 5 - servers, "bb");
    copy(folder, &["lab.cluster", "bb"], ".before");
    resize(folder, &[]);
    let (storage, made) = (folder.join("lab.cluster"), folder.join("made"));
    std::fs::rename(&storage, &made).unwrap();
    let both = Command::new("cp")
        .arg("-a")
        .args([folder.join("bb.before/."), folder.join("bb")])
        .status();
    assert!(both.unwrap().success());
    std::fs::rename(folder.join("lab.cluster.before"), &storage).unwrap();
    std::fs::rename(storage.join("server-0"), storage.join("server-0.old")).unwrap();
    for n in 0..5 - servers {
        let new = if n == 0 { "" } else { ".new" };
        let new = storage.join(format!("server-{n}{new}"));
        std::fs::rename(made.join(format!("server-{n}")), new).unwrap();
    }
    let begun = format!(
        "esker cluster resize 1\nfrom {servers}\nto {}\n",
        5 - servers
    );
    std::fs::write(storage.join("RESIZE"), begun).unwrap();
    let up = run(folder, &["cluster", "up", "lab.toml"]);
    assert!(!up.status.success());
    std::fs::remove_dir_all(&made).unwrap();
    let old = checkpoints(&folder.join("bb.before"));
    let old = old
        .iter()
        .map(|p| p.strip_prefix(folder.join("bb.before")).unwrap());
    let old: Vec<PathBuf> = old.map(|p| folder.join("bb").join(p)).collect();
    assert!(!old.is_empty() && old.iter().all(|path| path.exists()));
    resize(folder, &[]);
    assert!(old.iter().all(|path| !path.exists()));
    let cluster = Cluster::up(folder);
    assert!(picture(&open(&cluster, 0), then) == before);
    cluster.down(folder);
}

/// Copies folders to names with this suffix.
fn copy(folder: &Path, names: &[&str], end: &str) {
    for name in names {
        let copied = Command::new("cp")
            .arg("-a")
            .args([folder.join(name), folder.join(format!("{name}{end}"))])
            .status();
        assert!(copied.unwrap().success());
    }
}

/// A single database becomes a cluster of ephemeral stores, with its archive.
#[test]
fn a_database_becomes_a_cluster_with_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let alone = folder.join("lab.esker");
    let database = OpenOptions::new()
        .create(true)
        .open(alone.to_str().unwrap())
        .unwrap();
    fill(&database);
    let then = graph(&database);
    database.compact(Some(then), &NeverCancel).unwrap();
    let before = picture(&database, then);
    database.close().unwrap();
    describe_servers(folder, 3, &format!("threshold = 8\n{}", window(10, "1s")));
    resize(folder, &["--from", "lab.esker"]);
    for _ in 0..2 {
        let cluster = Cluster::up(folder);
        assert!(picture(&open(&cluster, 2), then) == before);
        cluster.down(folder);
        lose_all(folder);
    }
}
