//! Clients of a cluster with correct and outdated routes to files.

use crate::cluster::{config, start, until};
use esker_model::filter::Expr;
use esker_model::namespace::{
    AppliedChange, Change, Errno, Kind, NamePath, Namespace as _, NewFile,
};
use esker_model::object::{Find, Identity, ObjectRead as _};
use esker_model::{
    Batch, Error, ErrorKind, Flow, GraphWrite as _, NeverCancel, Op, Properties, Result,
};
use esker_rpc::{Address, Client};
use esker_server::Server;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

pub(crate) fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

pub(crate) fn make(at: &str, kind: Kind) -> Change {
    Change::Create(path(at), NewFile::new(kind.bits() | 0o755, 0, 0))
}

fn file(at: &str) -> Change {
    make(at, Kind::File)
}

pub(crate) fn change(client: &Client, change: Change) -> Result<AppliedChange> {
    client.change(None, &[change])?.remove(0)
}

fn connect(server: &Server, options: &str) -> Client {
    let address = format!("esker://{}{options}", server.address());
    Client::connect(&Address::parse(&address).unwrap()).unwrap()
}

fn listed(client: &Client, at: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    client
        .list(None, &path(at), None, &mut |_, entry| {
            assert!(names.insert(entry.name.to_string()), "listed twice");
            ControlFlow::Continue(())
        })
        .unwrap();
    names
}

pub(crate) fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    match result {
        Err(Error::File(e)) => e.errno,
        other => panic!("expected an error of a file system: {other:?}"),
    }
}

#[test]
fn calls_go_to_the_server_that_has_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "directory_threshold = 8\n");
    let servers = [0, 1].map(|id| start(&config, id));
    for server in &servers {
        until(server.address(), "ready");
    }
    let client = connect(&servers[0], "");
    let doubter = connect(&servers[0], "?cache=off");
    change(&client, make("/d", Kind::Directory)).unwrap();
    for n in 0..200 {
        change(&client, file(&format!("/d/{n}"))).unwrap();
    }
    let (direct, corrected) = client.routed();
    // Half of the entries are on the other server. The client is notified of each of the first splits at most once.
    assert!(direct > 50, "{direct} calls went to the other server");
    assert!((1..50).contains(&corrected), "corrected {corrected} times");
    let before = client.routed();
    for n in 0..200 {
        let at = path(&format!("/d/{n}"));
        let seen = client.stat(None, &at, false).unwrap();
        assert_eq!(seen, doubter.stat(None, &at, false).unwrap());
    }
    let after = client.routed();
    assert!(after.0 > before.0 + 50);
    assert_eq!(after.1, before.1, "nothing has moved");
    assert_eq!(doubter.routed(), (0, 0));
    assert_eq!(listed(&client, "/d").len(), 200);

    // The name of a directory that is another directory now.
    let rename = Change::Rename {
        from: path("/d"),
        to: path("/e"),
        no_replace: true,
    };
    change(&doubter, rename).unwrap();
    assert_eq!(
        errno(client.stat(None, &path("/d/7"), false)),
        Errno::NotFound
    );
    assert_eq!(errno(change(&client, file("/d/7"))), Errno::NotFound);
    change(&doubter, make("/d", Kind::Directory)).unwrap();
    for n in 0..20 {
        let made = change(&client, file(&format!("/d/{n}"))).unwrap();
        let old = client.stat(None, &path(&format!("/e/{n}")), false).unwrap();
        assert_ne!(made.id, old.id);
    }
    assert_eq!(listed(&doubter, "/d").len(), 20);
    drop((client, doubter, servers));
}

/// Many changes are sent to all their servers at once, and answered in order.
#[test]
fn many_changes_go_to_all_servers_that_they_are_for() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "directory_threshold = 8\n");
    let servers = [0, 1].map(|id| start(&config, id));
    for server in &servers {
        until(server.address(), "ready");
    }
    let client = connect(&servers[1], "");
    change(&client, make("/d", Kind::Directory)).unwrap();
    let batch = |from: usize, to: usize| -> Vec<Change> {
        (from..to).map(|n| file(&format!("/d/{n}"))).collect()
    };
    for round in 0..20 {
        let done = client
            .change(None, &batch(round * 50, (round + 1) * 50))
            .unwrap();
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
    let divided = client.routed().0;
    assert!(divided > 10, "{divided} went to the other server");
    // Every second name is new.
    let mut mixed = Vec::new();
    for n in 0..40 {
        mixed.push(file(&format!("/d/{n}")));
        mixed.push(file(&format!("/d/new-{n}")));
    }
    let done = client.change(None, &mixed).unwrap();
    for (i, (change, done)) in mixed.iter().zip(done).enumerate() {
        if i.is_multiple_of(2) {
            assert_eq!(errno(done), Errno::Exists);
        } else {
            let there = client.stat(None, change.path(), false).unwrap();
            assert_eq!(done.unwrap().id, there.id);
        }
    }
    // The second change of the same name sees the first.
    let mut twice = batch(2_000, 2_030);
    twice.push(file("/d/2000"));
    let mut done = client.change(None, &twice).unwrap();
    assert_eq!(errno(done.pop().unwrap()), Errno::Exists);
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let gone: Vec<Change> = (0..1_000)
        .map(|n| Change::Unlink(path(&format!("/d/{n}"))))
        .collect();
    let done = client.change(None, &gone).unwrap();
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(listed(&client, "/d").len(), 70);
    drop((client, servers));
}

fn object(name: String) -> Batch {
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: Identity {
            name,
            app: String::new(),
            owner: 1,
            step: 0,
        },
        attributes: Properties::new(),
        tags: Properties::new(),
    });
    batch
}

fn objects(client: &Client) -> usize {
    let mut found = 0;
    let all = Find::all(Expr::All);
    client
        .find(&all, &NeverCancel, &mut |_| {
            found += 1;
            Flow::Continue(())
        })
        .unwrap();
    found
}

/// A small batch is sent to the server that coordinates it, and the client's own server answers with it afterwards.
#[test]
fn small_batches_go_to_the_server_that_coordinates_them() {
    const BATCHES: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), "drain = \"0s\"\n");
    let [first, second] = [0, 1].map(|id| start(&config, id));
    let addresses = [first.address(), second.address()];
    addresses.iter().for_each(|at| until(*at, "ready"));
    let client = connect(&first, "?timeout=1s");
    let without_routes = connect(&first, "?cache=off");
    let passed_on = || without_routes.cluster().unwrap().calls[1];
    let before = passed_on();
    for n in 0..BATCHES {
        without_routes
            .apply(object(format!("passed-on-{n}")))
            .unwrap();
    }
    let between = passed_on();
    for n in 0..BATCHES {
        client.apply(object(format!("direct-{n}"))).unwrap();
        assert_eq!(objects(&client), BATCHES + n + 1);
    }
    let direct = client.routed().0;
    assert!(direct > 10, "{direct} batches went to the other server");
    assert_eq!(without_routes.routed(), (0, 0));
    // Searches ask the other server, too.
    let (by_one, by_other) = (between - before, passed_on() - between);
    assert!(by_one > 10, "{by_one} were passed on");
    assert!(by_other < by_one + BATCHES as u64, "{by_other} requests");

    // A batch for a server that is away is refused, whether it is sent there or passed on; the others are not affected.
    second.stop().unwrap();
    let late = connect(&first, "?timeout=300ms");
    let mut refused = [0, 0];
    for n in 0..20 {
        for (refused, client) in refused.iter_mut().zip([&client, &late]) {
            let done = client.apply(object(format!("late-{}-{n}", client.routed().0)));
            if let Err(e) = done {
                assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
                *refused += 1;
            }
        }
    }
    assert!(refused.iter().all(|n| (1..20).contains(n)), "{refused:?}");
    let second = start(&config, 1);
    addresses.iter().for_each(|at| until(*at, "ready"));
    for n in 0..20 {
        client.apply(object(format!("again-{n}"))).unwrap();
    }
    drop((client, late, without_routes, first, second));
}
