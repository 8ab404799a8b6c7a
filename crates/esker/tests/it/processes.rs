//! Tests of several processes at once that are not killed.

use crate::child::Child;
use crate::graph::{files, put_file};
use esker::model::VertexSelect;
use esker::{Database, OpenOptions, Role};
use esker_testkit::wait::wait_until;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new().memory_bytes(32 << 20)
}

pub(crate) fn open(path: &Path) -> Database {
    options().open(path.to_str().unwrap()).unwrap()
}

pub(crate) fn database(dir: &Path) -> PathBuf {
    let path = dir.join("lab.esker");
    Database::init(path.to_str().unwrap(), &options())
        .unwrap()
        .close()
        .unwrap();
    path
}

#[test]
fn a_second_process_just_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    assert_eq!(db.role(), Role::Owner);
    let mut child = Child::start();
    assert_eq!(
        child.open(&path),
        format!("attached {}", std::process::id())
    );
    assert_eq!(child.tell("put /child"), "applied true");
    put_file(&db, "/parent", 1).unwrap();
    assert_eq!(files(&db), ["/child", "/parent"]);
    assert_eq!(child.tell("count"), "2");
    // In the opposite order.
    db.close().unwrap();
    assert_eq!(child.tell("put /later"), "applied true");
    assert_eq!(child.tell("role"), "owner");
    let db = open(&path);
    assert_eq!(db.role(), Role::Attached { pid: child.pid() });
    assert_eq!(files(&db).len(), 3);
}

#[test]
fn the_socket_is_for_this_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let _db = open(&path);
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path.join("owner")), 0o700);
    let names = std::fs::read_dir(path.join("owner"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let sockets: Vec<_> = names
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .collect();
    assert_eq!(sockets.len(), 1);
    assert_eq!(mode(&sockets[0]), 0o600);
}

/// A socket's address has at most 108 bytes, a path 4,096.
#[test]
fn long_paths_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut deep = dir.path().to_path_buf();
    for _ in 0..12 {
        deep.push("a-folder-with-a-rather-long-name-as-scratch-file-systems-have-them");
    }
    std::fs::create_dir_all(&deep).unwrap();
    let path = database(&deep);
    assert!(path.as_os_str().len() > 800);
    let db = open(&path);
    let mut child = Child::start();
    assert_eq!(
        child.open(&path),
        format!("attached {}", std::process::id())
    );
    assert_eq!(child.tell("put /a"), "applied true");
    assert_eq!(files(&db), ["/a"]);
}

/// Many processes create one database at once: one of them creates it, all use it.
#[test]
fn many_processes_create_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let mut children: Vec<_> = (0..6).map(|_| Child::start()).collect();
    for child in &mut children {
        child.send(&format!("create {}", path.display()));
    }
    let roles: Vec<_> = children.iter_mut().map(|c| c.answer().unwrap()).collect();
    assert_eq!(
        roles.iter().filter(|r| *r == "owner").count(),
        1,
        "{roles:?}"
    );
    assert!(
        roles
            .iter()
            .all(|r| r == "owner" || r.starts_with("attached ")),
        "{roles:?}"
    );
    for (n, child) in children.iter_mut().enumerate() {
        assert_eq!(child.tell(&format!("put /{n}")), "applied true");
    }
    assert_eq!(children[3].tell("count"), "6");
}

/// Short-lived processes, as shell scripts start them: each opens, writes and closes, all at once. The ownership changes
/// between them, and no write is lost or refused.
#[test]
fn eight_processes_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut children: Vec<_> = (0..8).map(|_| Child::start()).collect();
    for (n, child) in children.iter_mut().enumerate() {
        child.send(&format!("rounds {} c{n} 12", path.display()));
    }
    let mut owned = 0;
    for child in &mut children {
        let answer = child.answer().unwrap();
        let n = answer
            .strip_prefix("owned ")
            .unwrap_or_else(|| panic!("{answer}"));
        owned += n.parse::<u32>().unwrap();
    }
    assert!(owned >= 1);
    assert_eq!(files(&open(&path)).len(), 8 * 12);
}

/// The owner closes while others write through it: no write fails, is lost, or is applied twice.
#[test]
fn an_owner_that_closes_under_load_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut owner = open(&path);
    let stop = dir.path().join("stop");
    let mut children: Vec<_> = (0..3).map(|_| Child::start()).collect();
    for (n, child) in children.iter_mut().enumerate() {
        assert!(child.open(&path).starts_with("attached"));
        child.send(&format!("write c{n} {}", stop.display()));
    }
    let mut acked = Vec::new();
    let key_of = |answer: &str| {
        let line = answer.strip_prefix("acked ")?;
        Some(line.strip_suffix(" true").expect("applied once").to_owned())
    };
    for _ in 0..4 {
        // The owner closes while it serves: each writer has had writes acknowledged since the last close.
        for child in &mut children {
            for _ in 0..20 {
                acked.push(key_of(&child.answer().unwrap()).expect("the writers write"));
            }
        }
        owner.close().unwrap();
        owner = open(&path);
    }
    std::fs::write(&stop, "").unwrap();
    for child in &mut children {
        loop {
            let answer = child.answer().unwrap();
            match key_of(&answer) {
                Some(key) => acked.push(key),
                None => break assert_eq!(answer, "wrote"),
            }
        }
    }
    acked.sort();
    assert!(acked.len() > 100, "{}", acked.len());
    assert_eq!(files(&owner), acked);
}

/// The owner closes while another process runs a long scan: the scan continues with the next owner, and returns each vertex
/// once.
#[test]
fn a_scan_survives_the_end_of_its_owner() {
    use esker::model::{EdgeSelect, GraphRead, Versions};
    use std::ops::ControlFlow;
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut child = Child::start();
    assert_eq!(child.open(&path), "owner");
    let attached = open(&path);
    let key = |n: usize| format!("/{n:06}-{}", "long".repeat(100));
    let mut batch = esker::model::Batch::new();
    let job = crate::graph::vertex(&attached, "job:1");
    batch.push(esker::model::Op::EnsureVertex {
        vertex: job,
        key: "1".into(),
    });
    for n in 0..5_000 {
        let vertex = crate::graph::vertex(&attached, &format!("file:{}", key(n)));
        batch.push(esker::model::Op::EnsureVertex {
            vertex,
            key: key(n),
        });
        batch.push(esker::model::Op::PutEdge {
            source: job,
            edge_type: crate::graph::edge_type(&attached, "write"),
            destination: vertex,
            properties: esker::model::Properties::new().with("note", "n".repeat(400)),
        });
    }
    esker::model::GraphWrite::apply(&attached, batch).unwrap();
    let file = attached.schema().unwrap().vertex_type_id("File").unwrap();
    for kill in [true, false] {
        let mut keys = Vec::new();
        attached
            .scan_vertices(&VertexSelect::of(file), &mut |v| {
                keys.push(v.key);
                if keys.len() == 100 {
                    if kill {
                        child.kill();
                    } else {
                        child.send("close");
                    }
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        keys.sort();
        assert_eq!(keys, (0..5_000).map(key).collect::<Vec<_>>());
        // On a slow machine it may close only when the scan has ended.
        wait_until("nobody takes over", || {
            attached.counts().unwrap();
            attached.role() == Role::Owner
        });
        // The next round needs another owner; the clone of the handle follows.
        if kill {
            attached.clone().close().unwrap();
            child = Child::start();
            assert_eq!(child.open(&path), "owner");
            let attached = open(&path);
            let select = EdgeSelect {
                types: vec![],
                versions: Versions::NOW,
                properties: true,
                after: None,
            };
            let mut seen = Vec::new();
            attached
                .scan_edges(&[job.id, job.id], &select, &mut |i, e| {
                    seen.push((i, e.key));
                    if seen.len() == 7_000 {
                        child.kill();
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(seen.len(), 10_000);
            assert!(seen.is_sorted_by(|a, b| a < b));
            return;
        }
    }
}

/// A closed handle returns an error, and so do its clones.
#[test]
fn a_closed_database_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    let clone = db.clone();
    db.close().unwrap();
    let e = put_file(&clone, "/a", 1);
    let e = esker::model::GraphRead::counts(&clone)
        .err()
        .or(e.err())
        .unwrap();
    assert_eq!(e.to_string(), "the database was closed");
}

/// A bulk load needs exclusive use of the store.
#[test]
fn a_bulk_load_through_another_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let _owner = open(&path);
    let attached = open(&path);
    let e = attached
        .bulk_load(&mut std::iter::empty(), &mut |_| {})
        .unwrap_err();
    let expected = format!(
        "a bulk load needs `{}` to itself, but process {} has it open: end that process and repeat, or import in batches",
        path.display(),
        std::process::id()
    );
    assert_eq!(e.to_string(), expected);
}

/// A connection that sends invalid bytes is closed, and other clients are served.
#[test]
fn strangers_at_the_socket_do_no_harm() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    let socket = path.join("owner/0000000000000002.sock");
    let talk = |bytes: &[u8]| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    assert!(talk(b"").is_empty());
    assert!(talk(b"GET / HTTP/1.1\r\n\r\n").is_empty());
    assert!(talk(&[0xff; 64]).is_empty());
    assert!(talk(&[0, 0, 0, 1, 3]).is_empty());
    // A valid greeting of a later release.
    let newer = [&[0, 0, 0, 15, 1][..], b"esker/1\n", &[99, 4], b"9.9.", &[]].concat();
    let answer = talk(&newer);
    let text = String::from_utf8_lossy(&answer);
    let expected = format!(
        "process {} has the database open with Esker",
        std::process::id()
    );
    assert!(
        text.contains(&expected)
            && text.contains("(protocol 99): end that process, or use the same release"),
        "{text}"
    );
    put_file(&db, "/a", 1).unwrap();
    put_file(&open(&path), "/b", 1).unwrap();
    assert_eq!(files(&db).len(), 2);
}
