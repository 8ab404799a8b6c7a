//! Files on a cluster of real servers: some are killed while clients rename, then their number is reduced.

use crate::cluster::{Cluster, describe, wait_for_more};
use crate::failover::kill;
use crate::resize::open;
use crate::serve::{run, text};
use esker::Database;
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile, SpaceBy, XattrMode};
use esker_model::{GraphRead as _, Result, Value, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Files per client.
const FILES: usize = 12;
const CLIENTS: usize = 2;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn change(database: &Database, change: Change) -> Result<()> {
    database.change(None, &[change])?.remove(0).map(drop)
}

fn make(at: &str, mode: u32) -> Change {
    Change::Create(path(at), NewFile::new(mode, 0, 0))
}

fn listed(database: &Database, at: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    database
        .list(None, &path(at), None, &mut |_, entry| {
            assert!(names.insert(entry.name.to_string()), "listed twice");
            ControlFlow::Continue(())
        })
        .unwrap();
    names
}

/// A client that renames its files between directories; returns their paths, or both candidates after a lost answer.
fn moves(
    database: &Database,
    client: usize,
    (stop, done): (&AtomicBool, &AtomicU64),
) -> BTreeMap<usize, Vec<String>> {
    let mut places = BTreeMap::new();
    for n in 0..FILES {
        let at = format!("/a/{client}-{n}");
        change(database, make(&at, 0o10_0644)).unwrap();
        places.insert(n, vec![at]);
    }
    for round in 0.. {
        for n in 0..FILES {
            if stop.load(Ordering::Relaxed) {
                return places;
            }
            let known = places.get_mut(&n).unwrap();
            // After a lost answer, only a lookup shows the result.
            known.retain(|at| database.stat(None, &path(at), false).is_ok());
            assert_eq!(
                known.len(),
                1,
                "file {n} of client {client} is at {known:?}"
            );
            let to = format!("/{}/{client}-{n}-{round}", ["b", "a"][round % 2]);
            let renamed = change(
                database,
                Change::Rename {
                    from: path(&known[0]),
                    to: path(&to),
                    no_replace: true,
                },
            );
            match renamed {
                Ok(()) => *known = vec![to],
                // If a rename was retried, the second attempt finds no source.
                Err(_) => known.push(to),
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    places
}

#[test]
fn renamed_files_have_one_name_across_kills_and_resizes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(folder, "directory_threshold = 4\n");
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 0);
    for at in ["/a", "/b"] {
        change(&database, make(at, 0o4_0755)).unwrap();
    }
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let known = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (stop, done, cluster) = (&stop, &done, &cluster);
                scope.spawn(move || moves(&open(cluster, client), client, (stop, done)))
            })
            .collect();
        for server in [2, 0, 1] {
            wait_for_more(&done, 10);
            kill(&open(&cluster, server));
        }
        wait_for_more(&done, 10);
        stop.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|c| c.join().unwrap());
        joined.collect::<Vec<_>>()
    });
    let look = |cluster: &Cluster, server: usize| {
        let database = open(cluster, server);
        let mut all = BTreeSet::new();
        for at in ["a", "b"] {
            all.extend(
                listed(&database, &format!("/{at}"))
                    .iter()
                    .map(|n| format!("/{at}/{n}")),
            );
        }
        let kinds = database.space(SpaceBy::Kind).unwrap();
        (all, kinds)
    };
    let all = look(&cluster, 0);
    for server in [1, 2] {
        assert_eq!(look(&cluster, server), all, "through server {server}");
    }
    assert_eq!(all.0.len(), CLIENTS * FILES, "{:?}", all.0);
    let files = all.1.iter().find(|s| s.key == "file").unwrap();
    assert_eq!(files.usage.files as usize, CLIENTS * FILES);
    for (client, places) in known.iter().enumerate() {
        for (n, at) in places {
            let there = at.iter().filter(|at| all.0.contains(*at)).count();
            assert_eq!(there, 1, "file {n} of client {client} is at {at:?}");
        }
    }
    // The directories have split, and each entry is in one partition.
    let parts = ["/a", "/b"].map(|at| database.partitions(&path(at)).unwrap());
    let all_parts = || parts.iter().flatten();
    assert!(all_parts().count() > 4, "{parts:?}");
    assert!(all_parts().map(|p| p.server).collect::<BTreeSet<_>>().len() > 1);
    assert_eq!(
        all_parts().map(|p| p.entries).sum::<u64>(),
        all.0.len() as u64
    );
    drop(database);
    cluster.down(folder);
    let resized = run(folder, &["cluster", "resize", "lab.toml", "--servers", "2"]);
    assert!(resized.status.success(), "{}", text(&resized.stderr));
    let file = folder.join("lab.toml");
    let description = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, description.replace("servers = 3", "servers = 2")).unwrap();
    let cluster = Cluster::up(folder);
    for server in [0, 1] {
        assert_eq!(
            look(&cluster, server),
            all,
            "through server {server} of two"
        );
    }
    // The cluster works, and old entries do not interfere.
    let database = open(&cluster, 1);
    for at in &all.0 {
        change(&database, Change::Unlink(path(at))).unwrap();
        change(&database, make(at, 0o10_0600)).unwrap();
    }
    assert_eq!(look(&cluster, 0), all);
    cluster.down(folder);
}

/// A tag set as an extended attribute is the vertex's tag, and a tag set in the graph is an extended attribute,
/// through any server.
#[test]
fn tags_are_attributes_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    describe(folder, "directory_threshold = 4\n");
    let cluster = Cluster::up(folder);
    let (first, second) = (open(&cluster, 0), open(&cluster, 1));
    change(&first, make("/a", 0o4_0755)).unwrap();
    let set = |name: &str, value: Option<&str>, mode| Change::Xattr {
        path: path("/a/moved"),
        name: name.into(),
        value: value.map(Into::into),
        mode,
    };
    for n in 0..12 {
        // The entry and the vertex may be on different servers, and the id may or may not be computed from the path.
        change(&first, make("/a/file", 0o10_0644)).unwrap();
        let rename = Change::Rename {
            from: path("/a/file"),
            to: path("/a/moved"),
            no_replace: true,
        };
        change(&second, rename).unwrap();
        change(&first, set("user.esker.n", Some("7"), XattrMode::Create)).unwrap();
        let again = change(&second, set("user.esker.n", Some("8"), XattrMode::Create));
        assert!(again.unwrap_err().to_string().contains("EEXIST"), "{n}");
        let missing = change(&second, set("user.esker.m", Some("8"), XattrMode::Replace));
        assert!(missing.unwrap_err().to_string().contains("ENODATA"), "{n}");
        let inode = second.stat(None, &path("/a/moved"), false).unwrap();
        let tags = [(b"user.esker.n".to_vec(), b"7".to_vec())];
        assert_eq!(inode.xattrs, tags, "{n}");
        let read = |database: &Database| {
            let found = database.read_vertices(&[inode.id], Version::MAX).unwrap();
            let vertex = found.into_iter().next().flatten().unwrap();
            let tags: Vec<_> = vertex.user.into_iter().map(|t| (t.name, t.value)).collect();
            (vertex.key, vertex.deleted, tags)
        };
        // A client sees its own change through any server; others see it by the next millisecond.
        assert_eq!(
            read(&first),
            ("/a/moved".into(), false, vec![("n".into(), Value::I64(7))])
        );
        change(&first, set("user.esker.n", None, XattrMode::Any)).unwrap();
        assert_eq!(read(&first).2, [], "{n}");
        change(&second, Change::Unlink(path("/a/moved"))).unwrap();
        assert!(read(&second).1, "{n}: its vertex is there still");
    }
    cluster.down(folder);
}
