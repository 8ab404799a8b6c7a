//! Clusters as processes: started together, queried, killed, stopped.

use crate::serve::{esker, files_of, patient, run, text, vertex, written};
use esker::{Database, Role};
use esker_model::traversal::{Budget, Strategy};
use esker_model::{
    EdgeSelect, GraphRead as _, GraphWrite as _, NeverCancel, Traversal, Version, VersionRange,
    Versions,
};
use esker_testkit::port::free_port;
use esker_testkit::signal::signal;
use esker_testkit::wait::{eventually, wait_until};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A cluster of three servers, supervised by `esker cluster up lab.toml`.
pub(crate) struct Cluster {
    up: Child,
    /// Targets `esker://HOST:PORT`, by server.
    servers: Vec<String>,
}

pub(crate) fn describe(folder: &Path, more: &str) {
    describe_servers(folder, 3, more);
}

pub(crate) fn describe_servers(folder: &Path, servers: u32, more: &str) {
    let file = folder.join("lab.toml");
    let text = format!(
        "servers = {servers}\nlisten = \"127.0.0.1:{}\"\nmemory = \"32MiB\"\nvnodes = 64\n{more}",
        free_port()
    );
    std::fs::write(file, text).unwrap();
}

impl Cluster {
    pub(crate) fn up(folder: &Path) -> Self {
        let mut up = esker(folder)
            .args(["cluster", "up", "lab.toml"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut servers = Vec::new();
        let out = BufReader::new(up.stdout.take().unwrap());
        for line in out.lines() {
            let line = line.unwrap();
            if line.starts_with("ready: ") {
                let all = format!(" ({} server", servers.len());
                assert!(line.contains(&all), "{line}");
                return Self { up, servers };
            }
            let word = |n: usize| line.split_whitespace().nth(n).unwrap();
            servers.push(word(2).to_owned());
        }
        let output = up.wait_with_output().unwrap();
        panic!("it does not come up: {}", text(&output.stderr));
    }

    pub(crate) fn target(&self, server: usize) -> &str {
        &self.servers[server]
    }

    /// Id of the supervising process.
    pub(crate) fn pid(&self) -> u32 {
        self.up.id()
    }

    fn open(&self, server: usize) -> Database {
        patient(self.target(server))
    }

    /// Waits for the end; returns the exit code and the output.
    fn end(&mut self) -> (Option<i32>, String) {
        let status = eventually(|| self.up.try_wait().unwrap().ok_or("it does not end"));
        let mut said = String::new();
        let mut stderr = self.up.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    pub(crate) fn down(mut self, folder: &Path) -> String {
        let down = run(folder, &["cluster", "down", "lab.toml"]);
        assert!(down.status.success(), "{}", text(&down.stderr));
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The servers notice its end.
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

fn files(database: &Database, job: &str) -> BTreeSet<esker_model::VertexId> {
    files_of(database, job).into_iter().collect()
}

#[test]
fn several_servers_are_one_database() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(folder, "threshold = 8\n");
    let cluster = Cluster::up(folder);
    let databases: Vec<_> = (0..3).map(|n| cluster.open(n)).collect();
    for n in 0..60 {
        let writer = &databases[n % 3];
        let batch = written(writer, "1", &format!("/{n}"));
        assert!(writer.apply(batch).unwrap().applied);
    }
    // Every server shows all writes, wherever the rows are.
    let all = files(&databases[0], "1");
    assert_eq!(all.len(), 60);
    for database in &databases {
        assert_eq!(files(database, "1"), all);
        let counts = database.counts().unwrap();
        assert_eq!(counts.vertices.iter().map(|(_, n)| n).sum::<u64>(), 61);
        assert_eq!(counts.edges.iter().map(|(_, n)| n).sum::<u64>(), 120);
        let job = vertex(database, "job:1").id;
        let write = database.schema().unwrap().edge_type_id("write").unwrap();
        assert_eq!(database.degrees(&[(job, write)]).unwrap(), [60]);
        let top = database.top_degrees(None, 1).unwrap();
        assert_eq!((top[0].vertex, top[0].degree), (job, 60));
    }
    let chain = "v(\"file:/7\").e(\"wasWrittenBy\").v().e(\"write\").v()";
    let traversal = Traversal::parse(chain).unwrap();
    for (database, strategy) in databases.iter().zip(Strategy::ALL) {
        let budget = Budget {
            strategy,
            ..Budget::default()
        };
        let result = database.travel(&traversal, &budget, &NeverCancel).unwrap();
        let last: BTreeSet<_> = result.sets[0].vertices.iter().copied().collect();
        assert_eq!(last, all, "{}", strategy.name());
        assert!(!result.servers.is_empty(), "{}", strategy.name());
    }

    // Commands show the same.
    let status = run(folder, &["cluster", "status", cluster.target(1)]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    assert_eq!(text(&status.stdout).matches("serving").count(), 3);
    let args = ["travel", cluster.target(2), chain, "--engine", "async"];
    let drawn = run(
        folder,
        &[&args[..], &["--profile", "--profile-svg", "p.svg"]].concat(),
    );
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    assert!(text(&drawn.stderr).contains("WAIT MS"));
    let svg = std::fs::read_to_string(folder.join("p.svg")).unwrap();
    assert!(svg.contains("reading edges") && svg.contains("step 2"));
    let args = ["placement", "explain", cluster.target(0), "job:1"];
    let placed = run(folder, &args);
    let said = text(&placed.stdout);
    assert!(
        said.contains("dido over 3 servers with 64 virtual nodes; split threshold 8"),
        "{said}{}",
        text(&placed.stderr)
    );
    assert!(said.contains("stored as"), "it has split: {said}");
    for (args, expected) in [
        (
            &["check", cluster.target(0)][..],
            "not supported for the servers of a cluster yet",
        ),
        (
            &["backup", cluster.target(0), "b"],
            "this cluster makes no backups",
        ),
        (
            &["put", cluster.target(0), "user:1", "--durability", "sync"],
            "set durability = \"sync\"",
        ),
        (
            &["get", "lab.cluster/server-1", "job:1"],
            "is a part of cluster `lab`",
        ),
        (&["cluster", "up", "lab.toml"], "is up already"),
    ] {
        let refused = run(folder, args);
        let said = text(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(expected),
            "{args:?}: {said}"
        );
    }

    drop(databases);
    let said = cluster.down(folder);
    assert!(!said.contains("killed"), "{said}");
    let refused = run(folder, &["put", "lab.cluster/server-1", "user:1"]);
    let said = text(&refused.stderr);
    assert!(said.contains("is a part of the cluster in"), "{said}");
    // A changed port is accepted; a changed number of servers is not.
    describe(folder, "threshold = 8\n");
    let cluster = Cluster::up(folder);
    assert_eq!(files(&cluster.open(2), "1"), all);
    cluster.down(folder);
    std::fs::write(folder.join("lab.toml"), "servers = 2\nvnodes = 64\n").unwrap();
    let refused = run(folder, &["cluster", "up", "lab.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("was made with servers 3"), "{said}");
}

/// Waits until the counter reaches `target`, as long as it grows.
pub(crate) fn wait_for_count(counted: &AtomicU64, target: u64) {
    loop {
        let now = counted.load(Ordering::Relaxed);
        if now >= target {
            return;
        }
        wait_until("nothing goes on", || counted.load(Ordering::Relaxed) > now);
    }
}

/// Waits until the counter has grown by `more`.
pub(crate) fn wait_for_more(counted: &AtomicU64, more: u64) {
    wait_for_count(counted, counted.load(Ordering::Relaxed) + more);
}

/// Servers are killed in turn while clients write through all of them. `up` restarts them; acknowledged batches are
/// applied exactly
/// once.
#[test]
fn killed_servers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(folder, "threshold = 16\n");
    let cluster = Cluster::up(folder);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (stop, acknowledged, cluster) = (&stop, &acknowledged, &cluster);
            scope.spawn(move || {
                let database = cluster.open(thread);
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let batch = written(&database, &format!("{thread}"), &format!("/{thread}/{n}"));
                    // The client retries if the answer is lost or a server is down.
                    let commit = database.apply(batch).unwrap();
                    assert!(commit.applied, "each batch is told as applied");
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut killed = Vec::new();
        for server in [0, 1, 2, 0, 1] {
            wait_for_more(&acknowledged, 60);
            let Role::Client { pid } = cluster.open(server).role() else {
                panic!("it is a server")
            };
            assert!(!killed.contains(&pid));
            killed.push(pid);
            signal(pid, "KILL");
        }
        wait_for_more(&acknowledged, 60);
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    for server in 0..3 {
        let database = cluster.open(server);
        let found: usize = (0..3).map(|t| files(&database, &t.to_string()).len()).sum();
        assert_eq!(found as u64, acknowledged, "through server {server}");
        let write = database.schema().unwrap().edge_type_id("write").unwrap();
        let of: Vec<_> = (0..3)
            .map(|t| (vertex(&database, &format!("job:{t}")).id, write))
            .collect();
        let degrees = database.degrees(&of).unwrap();
        assert_eq!(degrees.iter().sum::<u64>(), acknowledged);
    }
    // Both directions of each edge exist, and each vertex was created once.
    let database = cluster.open(0);
    let schema = database.schema().unwrap();
    for thread in 0..3 {
        for file in files(&database, &thread.to_string()) {
            let select = EdgeSelect {
                types: vec![schema.edge_type_id("wasWrittenBy").unwrap()],
                versions: Versions::NOW,
                properties: false,
                after: None,
            };
            let mut back = 0;
            database
                .scan_edges(&[file], &select, &mut |_, _| {
                    back += 1;
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(back, 1);
        }
        let file = vertex(&database, &format!("file:/{thread}/0"));
        let history = database.vertex_history(file.id, VersionRange::ALL).unwrap();
        assert_eq!(history.len(), 1, "{history:?}");
        assert!(database.read_vertices(&[file.id], Version::MAX).unwrap()[0].is_some());
    }
    let said = cluster.down(folder);
    assert_eq!(said.matches("is started again").count(), 5, "{said}");
}

#[test]
fn mistakes_in_the_file_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (toml, expected) in [
        (
            "server = 3\n",
            "lab.toml:1:1: unknown key `server`; did you mean `servers`?",
        ),
        (
            "servers = 3\nvnodes = 5\n",
            "lab.toml:2:10: `vnodes` holds a power of two",
        ),
        ("", "`servers` is missing"),
    ] {
        std::fs::write(dir.path().join("lab.toml"), toml).unwrap();
        let refused = run(dir.path(), &["cluster", "up", "lab.toml"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    std::fs::write(dir.path().join("lab.toml"), "servers = 3\n").unwrap();
    let refused = run(dir.path(), &["cluster", "server", "lab.toml", "--id", "3"]);
    assert!(text(&refused.stderr).contains("numbered from 0"));
    let refused = run(dir.path(), &["cluster", "status", "lab.esker"]);
    assert!(text(&refused.stderr).contains("asks a server"));
}

/// A killed server loses its share of a traversal: the traversal restarts and finds the same.
#[test]
fn traversals_outlive_a_killed_server() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(folder, "threshold = 16\n");
    let cluster = Cluster::up(folder);
    let database = cluster.open(0);
    for job in 0..8 {
        for file in 0..12 {
            let batch = written(&database, &job.to_string(), &format!("/{}", job * 6 + file));
            assert!(database.apply(batch).unwrap().applied);
        }
    }
    let chain = r#"v("job:0").e("write").v().e("wasWrittenBy").v().repeat()"#;
    let traversal = Traversal::parse(chain).unwrap();
    let travel = |strategy| {
        let budget = Budget {
            strategy,
            ..Budget::default()
        };
        let result = database.travel(&traversal, &budget, &NeverCancel).unwrap();
        assert!(result.complete);
        let last = result.sets.last().unwrap();
        last.vertices.iter().copied().collect::<BTreeSet<_>>()
    };
    let expected = travel(Strategy::Sync);
    assert_eq!(expected.len(), 8, "all jobs share files with the next");
    for (server, strategy) in [
        (1, Strategy::Sync),
        (2, Strategy::Prefetch),
        (1, Strategy::Async),
    ] {
        let Role::Client { pid } = cluster.open(server).role() else {
            panic!("it is a server")
        };
        signal(pid, "KILL");
        // The server is down: requests are answered once it has restarted.
        for _ in 0..5 {
            assert_eq!(travel(strategy), expected, "with {strategy:?}");
        }
    }
    drop(database);
    cluster.down(folder);
}
