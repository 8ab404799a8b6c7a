//! Files that clients cache under leases.

use crate::cluster;
use crate::common::{Served, settings};
use crate::routes::{change, errno, make, path};
use esker_model::namespace::{Change, Errno, Kind, Namespace as _, SetAttributes};
use esker_rpc::{Address, Client};
use esker_server::Settings;
use esker_testkit::wait::wait_until;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn connect(served: &Served, options: &str) -> Client {
    let address = format!("esker://{}{options}", served.server.address());
    Client::connect(&Address::parse(&address).unwrap()).unwrap()
}

fn chmod(at: &str, mode: u32) -> Change {
    Change::Set {
        path: path(at),
        follow: false,
        set: SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        },
    }
}

fn mode(client: &Client, at: &str) -> u32 {
    client.stat(None, &path(at), false).unwrap().mode & 0o777
}

#[test]
fn leased_files_are_answered_by_the_client() {
    let served = Served::start(settings());
    let client = connect(&served, "");
    let other = connect(&served, "?cache=off");
    change(&client, make("/d", Kind::Directory)).unwrap();
    change(&client, make("/d/f", Kind::File)).unwrap();
    for _ in 0..1_000 {
        assert_eq!(mode(&client, "/d/f"), 0o755);
        assert_eq!(mode(&other, "/d/f"), 0o755);
    }
    let (given, asked) = client.lease_cache_counts();
    assert!(given > asked, "{given} of {} were known", given + asked);
    assert_eq!(other.lease_cache_counts(), (0, 0));
    // After a change is acknowledged, no client may see the old state.
    for round in 0..3 {
        for _ in 0..100 {
            mode(&client, "/d/f");
        }
        change(&other, chmod("/d/f", 0o600 + round)).unwrap();
        assert_eq!(mode(&client, "/d/f"), 0o600 + round);
        for _ in 0..100 {
            mode(&client, "/d/f");
        }
        change(&client, chmod("/d/f", 0o640 + round)).unwrap();
        assert_eq!(mode(&client, "/d/f"), 0o640 + round);
    }
    for _ in 0..100 {
        mode(&client, "/d/f");
    }
    let rename = Change::Rename {
        from: path("/d"),
        to: path("/e"),
        no_replace: false,
    };
    change(&other, rename).unwrap();
    assert_eq!(
        errno(client.stat(None, &path("/d/f"), false)),
        Errno::NotFound
    );
    drop((client, other));
    assert!(served.server.stop().unwrap());
}

#[test]
fn leases_can_be_disabled() {
    let served = Served::start(Settings {
        lease: Duration::ZERO,
        ..settings()
    });
    let client = connect(&served, "");
    change(&client, make("/f", Kind::File)).unwrap();
    for _ in 0..100 {
        mode(&client, "/f");
    }
    assert_eq!(client.lease_cache_counts(), (0, 100));
    drop(client);
    assert!(served.server.stop().unwrap());
}

/// Several readers read a number that writers increment: no reader may see a smaller number than one that was acknowledged.
#[test]
fn nobody_sees_what_was_before_a_change_that_is_done() {
    const ROUNDS: u64 = 6;
    let served = Served::start(Settings {
        lease: Duration::from_millis(200),
        ..settings()
    });
    let writer = connect(&served, "");
    change(&writer, make("/n", Kind::File)).unwrap();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    // Number of reads that each reader answered from its cache.
    let known = [AtomicU64::new(0), AtomicU64::new(0)];
    let size = |size: u64| Change::Set {
        path: path("/n"),
        follow: false,
        set: SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        },
    };
    std::thread::scope(|scope| {
        for known in &known {
            let client = connect(&served, "");
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let least = done.load(Ordering::Acquire);
                    let seen = client.stat(None, &path("/n"), false).unwrap().size;
                    assert!(seen >= least, "{seen} after {least} was done");
                    known.store(client.lease_cache_counts().0, Ordering::Relaxed);
                }
            });
        }
        for n in 1..=ROUNDS {
            change(&writer, size(n)).unwrap();
            done.store(n, Ordering::Release);
            for known in &known {
                let before = known.load(Ordering::Relaxed);
                wait_until("a reader is not promised anything", || {
                    known.load(Ordering::Relaxed) > before
                });
            }
        }
        stop.store(true, Ordering::Release);
    });
}

/// Leases on a cluster, for any reader and any server of the file.
#[test]
fn leases_on_a_cluster_hold_on_all_its_servers() {
    let dir = tempfile::tempdir().unwrap();
    let config = cluster::config(dir.path(), "directory_threshold = 4\nlease = \"600ms\"\n");
    let servers = [0, 1].map(|id| cluster::start(&config, id));
    for server in &servers {
        cluster::until(server.address(), "ready");
    }
    let connect = |at: usize| {
        let address = format!("esker://{}", servers[at].address());
        Client::connect(&Address::parse(&address).unwrap()).unwrap()
    };
    let (client, other) = (connect(0), connect(1));
    change(&client, make("/d", Kind::Directory)).unwrap();
    let files: Vec<String> = (0..12).map(|n| format!("/d/{n}")).collect();
    for file in &files {
        change(&client, make(file, Kind::File)).unwrap();
    }
    for round in 0..3 {
        for file in &files {
            wait_until("nothing is promised of a file", || {
                let before = client.lease_cache_counts().0;
                assert_ne!(mode(&client, file), 0);
                client.lease_cache_counts().0 > before
            });
        }
        for file in files.iter().take(3) {
            change(&other, chmod(file, 0o600 + round)).unwrap();
            assert_eq!(mode(&client, file), 0o600 + round);
        }
    }
    let rename = Change::Rename {
        from: path("/d"),
        to: path("/e"),
        no_replace: false,
    };
    change(&other, rename).unwrap();
    for file in &files {
        assert_eq!(
            errno(client.stat(None, &path(file), false)),
            Errno::NotFound
        );
    }
    drop((client, other));
    for server in servers {
        assert!(server.stop().unwrap());
    }
}
