//! Servers that are killed and stay down: the preceding server takes over their vnodes, the map is updated, and clients continue
//! (SoMeta, section II-H).

use crate::cluster::{Cluster, describe_servers, wait_for_count};
use crate::serve::{patient, run, text};
use esker::{Database, Role};
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity, ObjectKey, ObjectRead as _};
use esker_model::{Batch, GraphWrite as _, NeverCancel, Op, Properties};
use esker_testkit::signal::signal;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
pub(crate) fn identity(client: usize, step: i64) -> Identity {
    Identity {
        name: format!("run{client}"),
        app: "vpic".into(),
        owner: 1001,
        step,
    }
}

pub(crate) fn batch(client: usize, steps: Range<i64>) -> Batch {
    let mut batch = Batch::new();
    for step in steps {
        batch.push(Op::CreateObject {
            identity: identity(client, step),
            attributes: Properties::new(),
            tags: Properties::new().with("client", client as i64),
        });
    }
    batch
}

pub(crate) fn found(database: &Database) -> BTreeSet<Identity> {
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

pub(crate) fn kill(database: &Database) -> u32 {
    kill_losing(database, || {})
}

/// Kills a server together with what `lose` removes. The server stands still meanwhile: it neither writes there, nor is it restarted before
/// `lose` is done.
pub(crate) fn kill_losing(database: &Database, lose: impl FnOnce()) -> u32 {
    let Role::Client { pid } = database.role() else {
        panic!("it is a server")
    };
    signal(pid, "STOP");
    lose();
    signal(pid, "KILL");
    pid
}

/// Waits until each client has created `more` objects, and at least four batches.
fn wait_for(clients: &[AtomicU64], more: u64, batch_size: i64) {
    let before: Vec<u64> = clients.iter().map(|c| c.load(Ordering::Relaxed)).collect();
    let more = more.max(4 * batch_size as u64);
    for (client, before) in clients.iter().zip(before) {
        wait_for_count(client, before + more);
    }
}

/// Clients create objects through all servers in batches of this size; server 2 is killed, then server 1, which has
/// taken over its
/// vnodes. `at` is the minimum number of objects per client before each death and at the end. `more` is added to the cluster's
/// file; `lose` is called for each server whose process dies.
pub(crate) fn create_through_deaths(
    more: &str,
    batch_size: i64,
    at: [u64; 3],
    lose: &dyn Fn(&Path, usize),
) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let failover = "[failover]\nproxy_after = \"300ms\"\n";
    describe_servers(folder, SERVERS as u32, &format!("{more}{failover}"));
    let cluster = Cluster::up(folder);
    let open = |server: usize| patient(cluster.target(server));
    let databases: Vec<Database> = (0..SERVERS).map(open).collect();
    let stop = AtomicBool::new(false);
    let clients: Vec<AtomicU64> = (0..SERVERS).map(|_| AtomicU64::new(0)).collect();
    let began = Instant::now();
    let waits = std::thread::scope(|scope| {
        let write = |client: usize| {
            let (database, stop, done) = (&databases[client], &stop, &clients[client]);
            move || {
                let (mut longest, mut all) = (Duration::ZERO, 0);
                while !stop.load(Ordering::Relaxed) {
                    let first = done.load(Ordering::Relaxed) as i64;
                    let began = Instant::now();
                    // The client retries until it gets an answer, from the server that has taken over.
                    let commit = database.apply(batch(client, first..first + batch_size));
                    assert!(commit.unwrap().applied, "each batch is told as applied");
                    longest = longest.max(began.elapsed());
                    all += 1;
                    done.fetch_add(batch_size as u64, Ordering::Relaxed);
                }
                (longest, all)
            }
        };
        let writers: Vec<_> = (0..SERVERS).map(|c| scope.spawn(write(c))).collect();
        wait_for(&clients, at[0], batch_size);
        let first = kill_losing(&databases[2], || lose(folder, 2));
        wait_for(&clients, at[1], batch_size);
        // Server 1 has taken over for server 2; now both are down.
        let second = kill_losing(&databases[1], || {
            lose(folder, 1);
            lose(folder, 2);
        });
        assert_ne!(first, second);
        wait_for(&clients, at[2], batch_size);
        stop.store(true, Ordering::Relaxed);
        let waits = writers.into_iter().map(|w| w.join().unwrap());
        waits.collect::<Vec<(Duration, u32)>>()
    });
    let created: u64 = clients.iter().map(|c| c.load(Ordering::Relaxed)).sum();
    #[expect(clippy::print_stdout, reason = "how long clients waited is for people")]
    {
        println!(
            "{created} objects in {:?}, {SERVERS} clients, 2 of {SERVERS} servers killed; by client its longest wait for a batch of \
             {batch_size} and how many it had: {waits:?}",
            began.elapsed()
        );
    }
    let mut expected = BTreeSet::new();
    for (client, done) in clients.iter().enumerate() {
        let steps = 0..done.load(Ordering::Relaxed) as i64;
        expected.extend(steps.map(|step| identity(client, step)));
    }
    for database in &databases {
        let found = found(database);
        let missing: Vec<_> = expected.difference(&found).take(20).collect();
        let lost = expected.difference(&found).count();
        let more = found.difference(&expected).count();
        assert!(
            found == expected,
            "acknowledged is not what is found: {lost} are missing, {more} nobody knows of; the first: {missing:?}"
        );
    }
    let keys: Vec<ObjectKey> = expected
        .iter()
        .take(20_000)
        .cloned()
        .map(ObjectKey::from)
        .collect();
    let read = databases[0].read_objects(&keys, None).unwrap();
    assert!(read.iter().all(Option::is_some));
    let map = std::fs::read_to_string(folder.join("lab.cluster/map")).unwrap();
    let elsewhere = |server: u32| map.contains(&format!("\nserver {server} 127.0.0.1:"));
    assert!(elsewhere(1) && elsewhere(2), "{map}");
    let status = run(folder, &["cluster", "status", cluster.target(3)]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    drop(databases);
    let said = cluster.down(folder);
    assert!(
        said.contains("server 1 has taken over from server 2"),
        "{said}"
    );
    assert!(
        said.contains("server 0 has taken over from server 1"),
        "{said}"
    );

    // After a restart of all servers, each has its own vnodes again.
    let cluster = Cluster::up(folder);
    for server in 0..SERVERS {
        let database = patient(cluster.target(server));
        assert!(found(&database) == expected, "through server {server}");
    }
    let map = std::fs::read_to_string(folder.join("lab.cluster/map")).unwrap();
    assert!(!map.contains("server "), "{map}");
    cluster.down(folder);
}

#[test]
fn killed_servers_are_taken_over() {
    create_through_deaths("", 25, [100, 100, 100], &|_, _| {});
}

/// A million creations through two deaths; run with `--release`.
#[test]
#[ignore = "takes a minute, and more without --release"]
fn a_million_creations_lose_nothing() {
    create_through_deaths("", 500, [80_000, 80_000, 90_000], &|_, _| {});
}
