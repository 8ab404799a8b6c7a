//! Operation of a cluster whose stores move: backups, restarts, checks, stopping, while clients continue.

use crate::failover::identity;
use crate::moving::{Moving, found, through, wait_for};
use crate::serve::{run, text};
use esker::Database;
use esker_model::object::Identity;
use esker_model::{
    Batch, GraphRead as _, GraphWrite as _, Op, Properties, Version, VertexId, VertexRef,
    VertexSelect,
};
use esker_testkit::port::free_port;
use esker_testkit::wait::eventually;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names of all users as of a version.
fn users(database: &Database, as_of: Version) -> BTreeSet<String> {
    let schema = database.schema().unwrap();
    let mut all = BTreeSet::new();
    let select = VertexSelect {
        as_of,
        ..VertexSelect::of(schema.vertex_type_id("User").unwrap())
    };
    let mut sink = |vertex: esker_model::Vertex| {
        assert!(all.insert(vertex.key.clone()), "{} twice", vertex.key);
        ControlFlow::Continue(())
    };
    database.scan_vertices(&select, &mut sink).unwrap();
    all
}

/// Creates pairs of users, each pair in one batch, mostly on two stores.
fn pairs(database: &Database, stop: &AtomicBool) {
    let schema = database.schema().unwrap();
    let type_id = schema.vertex_type_id("User").unwrap();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut batch = Batch::new();
        for side in ["a", "b"] {
            let key = format!("{side}{n}");
            let vertex = VertexRef {
                id: VertexId::of("User", &key),
                type_id,
            };
            batch.push(Op::PutVertex {
                vertex,
                key,
                attributes: Properties::new(),
            });
        }
        database.apply(batch).unwrap();
        n += 1;
    }
}

/// A backup is made while clients write; its restored copy equals the cluster as of the version that the backup names.
#[test]
fn a_backup_is_of_one_moment() {
    let backups = tempfile::tempdir().unwrap();
    let below = backups.path().canonicalize().unwrap();
    let cluster = Moving::up(2, 5, &format!("backups = \"{}\"\n", below.display()));
    cluster.settled(2);
    let target = below.join("monday");
    let address = format!("esker://{}", cluster.members[1]);
    let stop = AtomicBool::new(false);
    let (mut versions, mut acknowledged) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let writer = Moving::open(&cluster.members[0]);
        let stop = &stop;
        scope.spawn(move || pairs(&writer, stop));
        through(&cluster, |work| {
            wait_for(work, 3);
            let before: Vec<u64> = work
                .done
                .iter()
                .map(|n| n.load(Ordering::Relaxed))
                .collect();
            let database = Moving::open(&cluster.members[1]);
            let done = database.backup(&target).unwrap();
            assert!(done.bytes > 0);
            let after = work.done.iter().map(|n| n.load(Ordering::Relaxed) + 1);
            acknowledged = before.into_iter().zip(after).collect();
            versions.push(done.newest.unwrap());
            wait_for(work, 5);
        });
        stop.store(true, Ordering::Relaxed);
    });
    let elsewhere = run(cluster.path(), &["backup", &address, "/tmp/nowhere"]);
    let said = text(&elsewhere.stderr);
    assert!(said.contains("are on its own machine below"), "{said}");
    let again = run(
        cluster.path(),
        &["backup", &address, target.to_str().unwrap()],
    );
    assert!(text(&again.stderr).contains("is not empty"));
    // As of that version, the cluster and the backup are equal.
    let then = users(&Moving::open(&cluster.members[0]), versions[0]);
    let other = tempfile::tempdir().unwrap();
    let from = target.to_str().unwrap();
    let restored = run(other.path(), &["restore", from, "lab.cluster"]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let file = std::fs::read_to_string(cluster.path().join("lab.toml")).unwrap();
    let stores = cluster.stores;
    drop(cluster);
    std::fs::write(other.path().join("lab.toml"), file).unwrap();
    let (up, members) = Moving::start(other.path());
    let cluster = Moving {
        up,
        folder: other,
        members,
        stores,
    };
    cluster.settled(2);
    let database = Moving::open(&cluster.members[1]);
    let now = users(&database, Version::MAX);
    assert!(now == then, "{} and {}", now.len(), then.len());
    assert!(now.len() >= 2, "{now:?}");
    for key in now.iter().filter_map(|key| key.strip_prefix('a')) {
        assert!(now.contains(&format!("b{key}")), "half of a batch: {key}");
    }
    // For each client, complete batches in order: all that were acknowledged before, and none that began after.
    let objects = found(&database);
    for (client, (before, after)) in acknowledged.into_iter().enumerate() {
        let mine: Vec<&Identity> = objects
            .iter()
            .filter(|i| i.name == format!("run{client}"))
            .collect();
        assert_eq!(mine.len() % 8, 0, "client {client}");
        let batches = mine.len() as u64 / 8;
        assert!(
            (before..=after).contains(&batches),
            "client {client}: {batches} of {before} to {after}"
        );
        assert!(mine.into_iter().cloned().eq({
            let all: BTreeSet<Identity> = (0..batches as i64 * 8)
                .map(|step| identity(client, step))
                .collect();
            all
        }));
    }
    let checked = cluster.command(&["check", "lab.toml"]);
    let said = text(&checked.stderr);
    assert!(checked.status.success() && said.contains("agree"), "{said}");
}

/// All processes are replaced, and no client has seen an error.
#[test]
fn servers_are_restarted_one_after_the_other() {
    let cluster = Moving::up(2, 4, "");
    cluster.settled(2);
    let added = cluster.done(&["add", "lab.toml"]);
    assert!(
        added.contains("stores 1") || added.contains("stores 2"),
        "{added}"
    );
    cluster.settled(3);
    let pids = || -> BTreeSet<u64> {
        let all = cluster.rows(&["--members"]);
        all.iter().map(|m| m["pid"].as_u64().unwrap()).collect()
    };
    let before = pids();
    through(&cluster, |work| {
        let said = cluster.done(&["restart", "lab.toml"]);
        assert_eq!(said.lines().count(), 3, "{said}");
        wait_for(work, 5);
    });
    let after = pids();
    assert_eq!(after.len(), 3);
    assert!(before.is_disjoint(&after), "{before:?} {after:?}");
    cluster.settled(3);
}

/// A store that was reset to an older state is detected; a consistent cluster passes, running or stopped.
#[test]
fn a_check_compares_all_stores() {
    let mut cluster = Moving::up(2, 3, "");
    cluster.settled(2);
    let target = format!("esker://{}", cluster.members[0]);
    let folder = cluster.path().to_owned();
    let link = |from: u32, target: &str| {
        let mut csv = String::from("source,type,destination\n");
        for n in from..from + 40 {
            writeln!(csv, "job:{n},write,file:/scratch/{}", n % 7).unwrap();
        }
        std::fs::write(folder.join("edges.csv"), csv).unwrap();
        let done = run(&folder, &["import", "edges", target, "edges.csv"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
    };
    link(0, &target);
    let check = |of: &str| {
        let output = run(&folder, &["cluster", "check", of, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        (output.status.code(), report)
    };
    for of in ["lab.toml", target.as_str()] {
        let (code, report) = check(of);
        assert_eq!(code, Some(0), "{report}");
        assert_eq!(report["stores"].as_array().unwrap().len(), 3);
        assert_eq!(report["inverse_edges"], "agree");
        assert_eq!(report["problems_total"], 0, "{report}");
        assert!(report["rows"].as_u64().unwrap() > 80);
    }
    let status = cluster.rows(&[]);
    let sum = |what: &str| {
        status
            .iter()
            .map(|s| s[what].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(sum("vnodes"), 64);
    for what in ["bytes", "split", "calls_per_s", "writes_per_s"] {
        assert!(status.iter().all(|s| s[what].is_number()), "{status:?}");
    }
    // The rate is that of the last seconds, which may have passed since the check.
    eventually(|| {
        let (code, _) = check(&target);
        assert_eq!(code, Some(0));
        let status = cluster.rows(&[]);
        let answers = status.iter().any(|s| s["calls_per_s"] != 0.0);
        answers.then_some(()).ok_or_else(|| format!("{status:?}"))
    });
    cluster.done(&["down", &target]);
    assert!(cluster.up.wait().unwrap().success());
    let (code, report) = check("lab.toml");
    assert_eq!((code, &report["inverse_edges"]), (Some(0), &"agree".into()));
    let storage = cluster.path().join("lab.cluster");
    let store = || {
        let all = std::fs::read_dir(&storage).unwrap().flatten();
        let all = all.map(|e| e.path());
        // A member may not have removed the folder of an earlier epoch yet.
        let epoch = |p: &std::path::PathBuf| {
            let name = p.file_name()?.to_str()?;
            name.strip_prefix("server-1.e")?.parse::<u64>().ok()
        };
        all.max_by_key(epoch).unwrap()
    };
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let done = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(done.unwrap().success());
    };
    let older = cluster.path().join("older");
    copy(&store(), &older);
    let (up, members) = Moving::start(cluster.path());
    (cluster.up, cluster.members) = (up, members);
    cluster.settled(2);
    link(100, &target);
    cluster.done(&["down", "lab.toml"]);
    cluster.up.wait().unwrap();
    let now = store();
    std::fs::remove_dir_all(&now).unwrap();
    copy(&older, &now);
    let output = cluster.command(&["check", "lab.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("edges and their inverses on all stores: differ"),
        "{said}"
    );
}

/// `cluster up FILE -- COMMAND`: the cluster runs as long as the command and ends with its exit code.
#[test]
fn a_cluster_is_up_for_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let file = format!("servers = 2\nstores = 2\nlisten = \"127.0.0.1:{port}\"\nvnodes = 64\n");
    std::fs::write(folder.path().join("lab.toml"), file).unwrap();
    let program = format!(
        "{} put $ESKER_TARGET user:1 && exit 7",
        env!("CARGO_BIN_EXE_esker")
    );
    let words = ["cluster", "up", "lab.toml", "--", "sh", "-c", &program];
    let output = crate::serve::esker(folder.path())
        .args(words)
        .env("ESKER_ETCD", crate::etcd_program::program())
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(7),
        "{said} {}",
        text(&output.stderr)
    );
    assert!(said.contains("inserted user:1"), "{said}");
    assert!(!folder.path().join("lab.cluster/up.pid").exists());
}
