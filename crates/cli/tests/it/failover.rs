//! Servers that are killed and do not come back: the server before takes over what they had, the map says so, and clients go
//! on (SoMeta, section II-H).

use crate::cluster::{Cluster, describe_servers};
use crate::serve::{run, text};
use esker::{Database, OpenOptions, Role};
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity, ObjectKey, ObjectRead as _};
use esker_model::{Batch, GraphWrite as _, NeverCancel, Op, Properties};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
/// Objects of a batch.
const BATCH: i64 = 25;

fn identity(client: usize, step: i64) -> Identity {
    Identity {
        name: format!("run{client}"),
        app: "vpic".into(),
        owner: 1001,
        step,
    }
}

fn batch(client: usize, first: i64) -> Batch {
    let mut batch = Batch::new();
    for step in first..first + BATCH {
        batch.push(Op::CreateObject {
            identity: identity(client, step),
            attributes: Properties::new(),
            tags: Properties::new().with("client", client as i64),
        });
    }
    batch
}

fn found(database: &Database) -> BTreeSet<Identity> {
    let mut all = BTreeSet::new();
    let mut sink = |object: esker_model::object::Found| {
        assert!(all.insert(object.identity().unwrap()), "{object:?} twice");
        ControlFlow::Continue(())
    };
    let find = Find::all(Expr::All);
    let report = database.find(&find, &NeverCancel, &mut sink).unwrap();
    assert!(report.complete && report.missing.is_empty(), "{report:?}");
    all
}

fn kill(database: &Database) -> u32 {
    let Role::Client { pid } = database.role() else {
        panic!("it is a server")
    };
    let done = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    assert!(done.unwrap().success());
    pid
}

/// Waits until each client has gone on.
fn wait_for_more(clients: &[AtomicU64]) {
    let before: Vec<u64> = clients.iter().map(|c| c.load(Ordering::Relaxed)).collect();
    let until = Instant::now() + Duration::from_mins(1);
    for (client, before) in clients.iter().zip(before) {
        while client.load(Ordering::Relaxed) < before + 4 {
            assert!(Instant::now() < until, "a client does not go on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn killed_servers_are_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe_servers(
        folder,
        SERVERS as u32,
        "[failover]\nproxy_after = \"300ms\"\n",
    );
    let cluster = Cluster::up(folder);
    let open = |server: usize| OpenOptions::new().open(cluster.target(server)).unwrap();
    let databases: Vec<Database> = (0..SERVERS).map(open).collect();
    let stop = AtomicBool::new(false);
    let clients: Vec<AtomicU64> = (0..SERVERS).map(|_| AtomicU64::new(0)).collect();
    let waits = std::thread::scope(|scope| {
        let write = |client: usize| {
            let (database, stop, done) = (&databases[client], &stop, &clients[client]);
            move || {
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let first = done.load(Ordering::Relaxed) as i64 * BATCH;
                    let began = Instant::now();
                    // The client sends it again until it is answered, to whoever has taken over.
                    let commit = database.apply(batch(client, first)).unwrap();
                    assert!(commit.applied, "each batch is told as applied");
                    longest = longest.max(began.elapsed());
                    done.fetch_add(1, Ordering::Relaxed);
                }
                longest
            }
        };
        let writers: Vec<_> = (0..SERVERS).map(|c| scope.spawn(write(c))).collect();
        wait_for_more(&clients);
        let first = kill(&databases[2]);
        wait_for_more(&clients);
        // Server 1 has taken over for server 2; now that is gone, too, with both.
        let second = kill(&databases[1]);
        assert_ne!(first, second);
        wait_for_more(&clients);
        stop.store(true, Ordering::Relaxed);
        let waits = writers.into_iter().map(|w| w.join().unwrap());
        waits.collect::<Vec<Duration>>()
    });
    #[expect(clippy::print_stdout, reason = "how long clients waited is for people")]
    {
        println!("two of {SERVERS} servers killed; longest waits of clients: {waits:?}");
    }
    let mut expected = BTreeSet::new();
    for (client, done) in clients.iter().enumerate() {
        let steps = 0..done.load(Ordering::Relaxed) as i64 * BATCH;
        expected.extend(steps.map(|step| identity(client, step)));
    }
    for database in &databases {
        assert!(
            found(database) == expected,
            "acknowledged is not what is found"
        );
    }
    let keys: Vec<ObjectKey> = expected.iter().cloned().map(ObjectKey::from).collect();
    let read = databases[0].read_objects(&keys, None).unwrap();
    assert!(read.iter().all(Option::is_some));
    let map = std::fs::read_to_string(folder.join("lab.cluster/map")).unwrap();
    assert!(
        map.contains("\nserver 1 127.0.0.1:") && map.contains("\nserver 2 127.0.0.1:"),
        "{map}"
    );
    let status = run(folder, &["cluster", "status", cluster.target(3)]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    drop(databases);
    let said = cluster.down(folder);
    assert!(
        said.contains("server 1 takes over what server 2 had"),
        "{said}"
    );
    assert!(
        said.contains("server 0 takes over what server 1 had"),
        "{said}"
    );

    // When all are started again, each has its own.
    let cluster = Cluster::up(folder);
    for server in 0..SERVERS {
        let database = OpenOptions::new().open(cluster.target(server)).unwrap();
        assert!(found(&database) == expected, "through server {server}");
    }
    let map = std::fs::read_to_string(folder.join("lab.cluster/map")).unwrap();
    assert!(!map.contains("server "), "{map}");
    cluster.down(folder);
}
