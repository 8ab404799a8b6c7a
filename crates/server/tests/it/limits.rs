//! Requests beyond the limits are refused with a clear error, before any work is done.

use crate::common::{Served, filled, settings, vertex};
use esker::OpenOptions;
use esker_model::limits::TRAVERSAL_CALLS_MAX;
use esker_model::traversal::{Budget, Start};
use esker_model::{
    Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Traversal, Version,
    VertexId, VertexName, VertexRef, VertexTypeId,
};
use esker_server::Settings;
use esker_server::settings::Limits;
use esker_testkit::wait::{HANG, eventually};
use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

fn vertex_id(n: u32) -> VertexRef {
    VertexRef {
        id: VertexId::of("User", &n.to_string()),
        type_id: VertexTypeId(0),
    }
}

fn limited(limits: Limits) -> Served {
    Served::start(Settings {
        limits,
        ..settings()
    })
}

#[test]
fn a_request_has_a_size() {
    let served = limited(Limits {
        request_bytes: 4_096,
        ..Limits::default()
    });
    let database = filled(&served);
    let mut batch = Batch::new();
    batch.push(Op::SetAttributes {
        vertex: vertex(&database, "user:1"),
        set: Properties::new().with("x", "y".repeat(5_000)),
        remove: vec![],
    });
    let e = database.apply(batch).unwrap_err();
    assert!(
        e.to_string()
            .starts_with("the size in bytes of one call to a server is 5"),
        "{e}"
    );
    // The connection is still usable.
    assert!(database.counts().is_ok());
    let (status, _, body) = served.http("POST", "/api/v1/apply", &" ".repeat(5_000));
    assert_eq!(status, 413, "{body}");
}

/// Small calls are sent together, but in messages that the server accepts: after a stream is cut off, batches would have to be sent again
/// that were already applied, and their answers would have no counts.
#[test]
fn many_small_calls_stay_below_a_small_limit() {
    let served = limited(Limits {
        request_bytes: 1_000,
        ..Limits::default()
    });
    let database = filled(&served);
    // Vertex `user:1` exists.
    let submitted: Vec<_> = (2..3_000)
        .map(|n| {
            let mut batch = Batch::new();
            batch.push(Op::EnsureVertex {
                vertex: vertex_id(n),
                key: n.to_string(),
            });
            database.submit(batch).unwrap()
        })
        .collect();
    for pending in submitted {
        let commit = pending.wait().unwrap();
        assert_eq!((commit.applied, commit.vertices_created), (true, 1));
    }
}

/// Small batches that arrive in one message are one group commit, and each is applied or refused on its own.
#[test]
fn small_batches_of_one_message_are_committed_together() {
    const BATCHES: u32 = 500;
    let served = Served::start(settings());
    let database = filled(&served);
    let figure = |name: &str| -> f64 {
        let (_, _, metrics) = served.http("GET", "/metrics", "");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    let mut first = 2;
    eventually(|| {
        let (groups, batches) = (
            figure("esker_group_batches_count"),
            figure("esker_group_batches_sum"),
        );
        let submitted: Vec<_> = (first..first + BATCHES)
            .map(|n| {
                let mut batch = Batch::new();
                batch.push(if n.is_multiple_of(10) {
                    Op::SetAttributes {
                        vertex: vertex_id(n),
                        set: Properties::new().with("x", 1),
                        remove: vec![],
                    }
                } else {
                    Op::EnsureVertex {
                        vertex: vertex_id(n),
                        key: n.to_string(),
                    }
                });
                (n, database.submit(batch).unwrap())
            })
            .collect();
        for (n, pending) in submitted {
            match pending.wait() {
                Ok(commit) => assert_eq!((commit.applied, commit.vertices_created), (true, 1)),
                Err(e) => assert!(n.is_multiple_of(10), "{e}"),
            }
        }
        first += BATCHES;
        let groups = figure("esker_group_batches_count") - groups;
        let batches = figure("esker_group_batches_sum") - batches;
        assert!((batches - f64::from(BATCHES)).abs() < 0.5, "{batches}");
        // Whether calls share a message depends on how fast they are sent.
        if groups < batches / 2.0 {
            Ok(())
        } else {
            Err(format!("{groups} groups of {batches} batches"))
        }
    });
}

#[test]
fn a_frontier_has_a_size() {
    let served = limited(Limits {
        frontier: 10,
        ..Limits::default()
    });
    let database = filled(&served);
    let ids = |n: usize| vec![VertexId([7; 16]); n];
    assert_eq!(
        database
            .read_vertices(&ids(10), Version::MAX)
            .unwrap()
            .len(),
        10
    );
    let e = database.read_vertices(&ids(11), Version::MAX).unwrap_err();
    assert_eq!(
        e.to_string(),
        "the number of vertices in one request to this server is 11; the limit is 10"
    );
}

/// A client sends a traversal as data, so a program can build one that no text says.
#[test]
fn a_traversal_has_a_length() {
    let served = limited(Limits::default());
    let database = served.open();
    let chain = Traversal::parse("v(\"user:1\").va(\"n\", EQ, 1)").unwrap();
    let travel = |traversal: &Traversal| {
        let travelled = database.travel(traversal, &Budget::default(), &NeverCancel);
        travelled.map(|result| result.complete)
    };
    assert!(travel(&chain).unwrap());
    let filter = chain.start_filters[0].clone();
    let many = Traversal {
        start_filters: vec![filter; TRAVERSAL_CALLS_MAX],
        ..chain.clone()
    };
    let e = travel(&many).unwrap_err();
    assert!(e.to_string().contains("number of calls"), "{e}");
    let names = vec![VertexName::parse(&format!("user:{}", "x".repeat(1_000))).unwrap(); 2_000];
    let wide = Traversal {
        start: Start::Vertices(names),
        ..chain
    };
    let e = travel(&wide).unwrap_err();
    assert!(
        e.to_string().contains("size in bytes of a traversal"),
        "{e}"
    );
}

#[test]
fn a_request_has_a_time() {
    let served = limited(Limits {
        time: Some(Duration::from_millis(200)),
        ..Limits::default()
    });
    let database = served.open();
    let mut batch = Batch::new();
    // On a slow machine the time limit may be too short for these calls, too.
    let schema = eventually(|| database.schema());
    let named = |kind: &str| -> Vec<_> {
        let name = |n: u32| VertexName::parse(&format!("{kind}:{n}"));
        let names = (0..300).map(|n| name(n).unwrap());
        names.map(|name| name.resolve(&schema).unwrap()).collect()
    };
    let (jobs, files) = (named("job"), named("file"));
    for n in 0..300 {
        for vertex in [jobs[n], files[n]] {
            batch.push(Op::EnsureVertex {
                vertex,
                key: n.to_string(),
            });
        }
    }
    eventually(|| database.apply(batch.clone()));
    let mut batch = Batch::new();
    for n in 0..300 {
        for m in 0..100 {
            for edge_type in ["read", "write"] {
                batch.push(Op::PutEdge {
                    source: jobs[n],
                    edge_type: schema.edge_type_id(edge_type).unwrap(),
                    destination: files[(n + m) % 300],
                    properties: Properties::new(),
                });
            }
        }
    }
    eventually(|| database.submit(batch.clone())?.wait());
    let hops = r#".e("write").v().e("wasReadBy").v()"#.repeat(250);
    let traversal = Traversal::parse(&format!(r#"v(type="Job"){hops}"#)).unwrap();
    let result = eventually(|| database.travel(&traversal, &Budget::default(), &NeverCancel));
    assert!(!result.complete);
    assert_eq!(result.stopped[0].reason.name(), "time-out");
}

#[test]
fn connections_have_a_number() {
    let served = limited(Limits {
        connections: 2,
        ..Limits::default()
    });
    // The owner has 16 more connections.
    let all: Vec<_> = (0..2 + 16).map(|_| served.open()).collect();
    let e = OpenOptions::new().open(&served.target()).unwrap_err();
    assert!(
        e.to_string()
            .contains("the server has 18 connections, the maximum"),
        "{e}"
    );
    let (status, head, body) = served.http("GET", "/healthz", "");
    assert_eq!(status, 429, "{body}");
    assert!(
        head.to_ascii_lowercase().contains("retry-after: 1"),
        "{head}"
    );
    drop(all);
    eventually(|| OpenOptions::new().open(&served.target()));
}

/// Memory of answers to slow clients is counted, and returned when they go.
#[test]
fn memory_is_given_back() {
    let served = Served::start(settings());
    let database = filled(&served);
    for _ in 0..100 {
        database.counts().unwrap();
    }
    drop(database);
    eventually(|| {
        let (_, _, metrics) = served.http("GET", "/metrics", "");
        let lines = ["\nesker_memory_bytes 0\n", "\nesker_in_flight 0\n"];
        if lines.iter().all(|line| metrics.contains(line)) {
            Ok(())
        } else {
            Err(metrics)
        }
    });
}

/// A client that sends an incomplete request is disconnected.
#[test]
fn half_a_head_is_not_waited_for_forever() {
    use std::io::Write as _;
    let served = Served::start(settings());
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    stream.write_all(b"GET /healthz HT").unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let mut rest = Vec::new();
    // The connection is closed, with or without a response.
    let ended = stream.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
}

/// Backups are made only in the folder that the settings name.
#[test]
fn backups_lie_where_the_server_says() {
    let allowed = tempfile::tempdir().unwrap();
    let served = Served::start(Settings {
        backups: Some(allowed.path().to_owned()),
        ..settings()
    });
    let database = filled(&served);
    for outside in ["/tmp/elsewhere", allowed.path().to_str().unwrap()] {
        let e = database.backup(std::path::Path::new(outside)).unwrap_err();
        assert!(
            e.to_string().contains("are on its own machine below"),
            "{e}"
        );
    }
    let sly = allowed.path().join("../sly");
    assert!(database.backup(&sly).is_err());
    let copy = allowed.path().join("monday");
    assert!(database.backup(&copy).unwrap().bytes > 0);
    let copy = OpenOptions::new().open(copy.to_str().unwrap()).unwrap();
    assert_eq!(copy.counts().unwrap(), database.counts().unwrap());
}
