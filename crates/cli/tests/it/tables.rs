//! A directory that splits over real servers while they are killed: its partitions move through a shared folder.

use crate::cluster::{Cluster, describe, wait_for_count};
use crate::failover::kill;
use crate::resize::open;
use esker::Database;
use esker_model::namespace::{Change, Errno, NamePath, Namespace as _, NewFile, SpaceBy};
use esker_model::{Error, Result};
use esker_testkit::wait::eventually;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const CLIENTS: usize = 4;
const FILES: usize = 24_000;
/// Files per call.
const FILES_PER_CALL: usize = 40;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn file(n: usize) -> Change {
    Change::Create(path(&format!("/big/{n}")), NewFile::new(0o10_0644, 0, 0))
}

/// Creates files until all of them exist: lost answers are unknown.
fn makes(database: &Database, client: usize, done: &AtomicU64) {
    let mine: Vec<usize> = (0..FILES).filter(|n| n % CLIENTS == client).collect();
    for some in mine.chunks(FILES_PER_CALL) {
        let mut left: Vec<usize> = some.to_vec();
        eventually(|| {
            let changes: Vec<Change> = left.iter().map(|n| file(*n)).collect();
            let outcomes = database.change(None, &changes).map_err(|e| e.to_string())?;
            let there = |outcome: &Result<_>| match outcome {
                Ok(_) => true,
                Err(Error::File(e)) => {
                    assert_eq!(e.errno, Errno::Exists);
                    true
                }
                Err(_) => false,
            };
            let mut outcomes = outcomes.iter().map(there);
            left.retain(|_| !outcomes.next().unwrap_or(false));
            left.is_empty()
                .then_some(())
                .ok_or_else(|| format!("files {left:?} are not made"))
        });
        done.fetch_add(some.len() as u64, Ordering::Relaxed);
    }
}

/// Returns the figure with this name, if the server answers.
fn figure(target: &str, name: &str) -> Option<f64> {
    let address = target.strip_prefix("esker://")?;
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let line = answer.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// Number of partitions that a server has given away since its start.
fn partitions_sent_by(cluster: &Cluster, server: usize, by: &str) -> f64 {
    let name = format!("esker_given_partitions_total{{by=\"{by}\"}}");
    figure(cluster.target(server), &name).unwrap_or(0.0)
}

fn partitions_sent(cluster: &Cluster, by: &str) -> f64 {
    (0..3)
        .map(|server| partitions_sent_by(cluster, server, by))
        .sum()
}

fn left(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("between")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names.collect()
}

fn exact(cluster: &Cluster, files: usize) {
    for server in 0..3 {
        let database = open(cluster, server);
        let mut names = BTreeSet::new();
        database
            .list(None, &path("/big"), None, &mut |_, entry| {
                assert!(names.insert(entry.name.to_string()), "listed twice");
                ControlFlow::Continue(())
            })
            .unwrap();
        let all: BTreeSet<String> = (0..files).map(|n| n.to_string()).collect();
        assert_eq!(names, all, "through server {server}");
        let parts = database.partitions(&path("/big")).unwrap();
        let entries: u64 = parts.iter().map(|p| p.entries).sum();
        assert_eq!(entries, files as u64, "{parts:?}");
        let kinds = database.space(SpaceBy::Kind).unwrap();
        let found = kinds.iter().find(|s| s.key == "file").unwrap();
        assert_eq!(found.usage.files, files as u64);
    }
}

#[test]
fn a_directory_splits_by_tables_across_kills() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let keys = "directory_threshold = 512\nshared = \"between\"\nshared_least = 100\n";
    describe(folder, keys);
    let cluster = Cluster::up(folder);
    let directory = Change::Create(path("/big"), NewFile::new(0o4_0755, 0, 0));
    let made = open(&cluster, 0).change(None, &[directory]).unwrap();
    made.into_iter().next().unwrap().unwrap();
    let done = AtomicU64::new(0);
    let mut tables = 0.0;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (cluster, done) = (&cluster, &done);
            scope.spawn(move || makes(&open(cluster, client % 3), client, done));
        }
        // Hashes are even: all partitions split at about 4,096, 8,192 and 16,384 entries. (The supervisor stops after
        // more than five deaths.)
        let deaths = [(8_500, 0), (8_900, 1), (9_300, 2), (16_800, 1), (17_300, 0)];
        for (files, server) in deaths {
            wait_for_count(&done, files as u64);
            tables += partitions_sent_by(&cluster, server, "table");
            kill(&open(&cluster, server));
        }
    });
    exact(&cluster, FILES);
    tables += partitions_sent(&cluster, "table");
    eprintln!(
        "{tables} partitions and more went as tables; {} in messages, by servers as they are now",
        partitions_sent(&cluster, "message")
    );
    assert!(tables >= 4.0, "{tables}");
    cluster.down(folder);
    // Files left by killed servers are removed at their next start.
    let cluster = Cluster::up(folder);
    exact(&cluster, FILES);
    assert_eq!(left(folder), Vec::<String>::new());
    cluster.down(folder);
}

/// If the folder is not accessible, entries are sent in messages; only the figures show it.
#[test]
fn without_the_folder_entries_go_in_messages() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(
        folder,
        "directory_threshold = 100\nshared = \"not/mounted\"\nshared_least = 0\n",
    );
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 0);
    let directory = Change::Create(path("/big"), NewFile::new(0o4_0755, 0, 0));
    database.change(None, &[directory]).unwrap();
    for some in (0..2_000).collect::<Vec<_>>().chunks(100) {
        let changes: Vec<Change> = some.iter().map(|n| file(*n)).collect();
        let made = database.change(None, &changes).unwrap();
        assert!(made.iter().all(Result::is_ok));
    }
    exact(&cluster, 2_000);
    assert_eq!(
        partitions_sent(&cluster, "table").to_bits(),
        0.0_f64.to_bits()
    );
    assert!(partitions_sent(&cluster, "message") >= 1.0);
    let unread = figure(cluster.target(0), "esker_given_tables_unread_total")
        .into_iter()
        .chain(figure(cluster.target(1), "esker_given_tables_unread_total"))
        .chain(figure(cluster.target(2), "esker_given_tables_unread_total"))
        .sum::<f64>();
    assert!(unread >= 1.0);
    cluster.down(folder);
}
