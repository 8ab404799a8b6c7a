//! Clients of a cluster with correct and outdated routes to files.

use crate::cluster::{config, start, until};
use esker_model::namespace::{
    AppliedChange, Change, Errno, Kind, NamePath, Namespace as _, NewFile,
};
use esker_model::{Error, Result};
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
