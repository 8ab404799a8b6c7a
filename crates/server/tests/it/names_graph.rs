//! Files in the graph, by their paths and on behalf of principals: over HTTP, over gRPC with text names, and with this client; on one
//! server and on a cluster.

use crate::cluster::two;
use crate::common::{Served, http, settings};
use crate::plain::{connect_to, runtime};
use esker::{Database, OpenOptions};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile, SetAttributes, resolve};
use esker_model::object::Principal;
use esker_model::{EdgeSelect, Flow, GraphRead as _, Version, Versions, VertexId, VertexName};
use esker_rpc::proto;
use esker_rpc::proto::mutation::Op;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call;
use std::net::SocketAddr;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn change(database: &Database, change: Change) {
    database.change(None, &[change]).unwrap().remove(0).unwrap();
}

fn rename(database: &Database, from: &str, to: &str) {
    let (from, to) = (path(from), path(to));
    change(
        database,
        Change::Rename {
            from,
            to,
            no_replace: true,
        },
    );
}

fn id_of(database: &Database, name: &str) -> VertexId {
    let name = VertexName::parse(name).unwrap();
    let schema = database.schema().unwrap();
    resolve(database, None, &schema, &[name]).unwrap()[0].id
}

/// `/lab/raw`, which job 1 read, is `/archive/first` now; requests go to another server than the one that created it.
fn follows(first: SocketAddr, second: SocketAddr) {
    let open = |at: SocketAddr| OpenOptions::new().open(&format!("esker://{at}")).unwrap();
    let database = open(first);
    for (at, mode) in [("/lab", 0o4_0755), ("/lab/raw", 0o10_0644)] {
        change(
            &database,
            Change::Create(path(at), NewFile::new(mode, 0, 0)),
        );
    }
    let say = |lines: &str| {
        let (status, _, body) = http(first, "POST", "/api/v1/apply", lines);
        assert_eq!(status, 200, "{body}");
    };
    say(r#"{"op":"ensure_vertex","id":"file:/lab/raw"}
{"op":"ensure_vertex","id":"job:1"}
{"op":"put_edge","src":"job:1","type":"read","dst":"file:/lab/raw"}"#);
    let before = id_of(&database, "file:/lab/raw");
    rename(&database, "/lab", "/archive");
    rename(&database, "/archive/raw", "/archive/first");
    assert_eq!(id_of(&database, "file:/archive/first"), before);
    say(
        r#"{"op":"set","id":"file:/archive/first","set":{"by":"http"}}
{"op":"ensure_vertex","id":"job:2"}
{"op":"put_edge","src":"job:2","type":"read","dst":"file:/archive/first"}"#,
    );
    let ask = |what: &str| {
        let (status, _, body) = http(second, "GET", what, "");
        (status, body)
    };
    let (status, body) = ask("/api/v1/vertex?id=file:/archive/first");
    assert!(
        status == 200 && body.contains("file:/archive/first") && body.contains("http"),
        "{body}"
    );
    let (_, body) = ask("/api/v1/history?id=file:/archive/first");
    assert!(body.contains("\"by\""), "{body}");
    let (_, body) = ask("/api/v1/edges?id=job:2");
    assert!(body.contains("file:/archive/first"), "{body}");
    let named = |name: &str| {
        Some(proto::VertexRef {
            name: name.into(),
            ..proto::VertexRef::default()
        })
    };
    let read = || proto::ReadVerticesRequest {
        names: vec!["file:/archive/first".into()],
        ..proto::ReadVerticesRequest::default()
    };
    runtime().block_on(async {
        let mut client = connect_to(second).await;
        let mutation = |op| proto::Mutation {
            version: None,
            op: Some(op),
        };
        let batch = proto::ApplyRequest {
            mutations: vec![
                mutation(Op::EnsureVertex(proto::EnsureVertex {
                    vertex: named("job:3"),
                    ..proto::EnsureVertex::default()
                })),
                mutation(Op::PutEdge(proto::PutEdge {
                    source: named("job:3"),
                    type_name: "read".into(),
                    destination: named("file:/archive/first"),
                    ..proto::PutEdge::default()
                })),
            ],
            ..proto::ApplyRequest::default()
        };
        client.apply(batch).await.unwrap();
        let found = client.read_vertices(read()).await.unwrap().into_inner();
        let key = found.items[0].vertex.as_ref().unwrap().key.clone();
        assert_eq!(key, "/archive/first");
        let history = proto::VertexHistoryRequest {
            vertex: named("file:/archive/first"),
            range: None,
        };
        let events = client.vertex_history(history).await.unwrap().into_inner();
        assert!(events.events.len() >= 2, "{events:?}");
    });
    // All three kinds of clients.
    let database = open(second);
    let readers = |database: &Database| {
        let schema = database.schema().unwrap();
        let read = schema.edge_type_id("read").unwrap();
        let select = EdgeSelect {
            types: vec![schema.inverse(read)],
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        let mut n = 0;
        database
            .scan_edges(&[before], &select, &mut |_, _| {
                n += 1;
                Flow::Continue(())
            })
            .unwrap();
        n
    };
    assert_eq!(readers(&database), 3);
    // A principal without access to the directory does not see the file.
    change(
        &database,
        Change::Set {
            path: path("/archive"),
            follow: true,
            set: SetAttributes {
                mode: Some(0o700),
                uid: Some(7),
                ..SetAttributes::default()
            },
        },
    );
    for (uid, sees) in [(7, true), (8, false), (0, true)] {
        let principal = Principal { uid, gids: vec![] };
        let theirs = database.on_behalf_of(Some(&principal));
        let found = theirs.read_vertices(&[before], Version::MAX).unwrap();
        assert_eq!(found[0].is_some(), sees, "{uid}");
        assert_eq!(readers(&theirs), if sees { 3 } else { 0 }, "{uid}");
        let what = format!("/api/v1/vertex?id=file:/archive/first&uid={uid}");
        assert_eq!(ask(&what).0, if sees { 200 } else { 404 }, "{uid}");
        let (_, body) = ask(&format!("/api/v1/edges?id=job:1&uid={uid}"));
        assert_eq!(body.contains("first"), sees, "{body}");
        let on_behalf = proto::AsRequest {
            principal: Some(proto::Principal { uid, gids: vec![] }),
            request: Some(Box::new(proto::Request {
                call: Some(Call::ReadVertices(read())),
            })),
        };
        let told = runtime().block_on(async {
            let mut client = connect_to(second).await;
            let mut pieces = client.r#as(on_behalf).await.unwrap().into_inner();
            pieces.message().await.unwrap().unwrap().reply
        });
        match told {
            Some(Reply::ReadVertices(found)) => {
                assert_eq!(found.items[0].vertex.is_some(), sees, "{uid}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_server_follows_renames_and_shows_what_one_may_read() {
    let served = Served::start(settings());
    follows(served.server.address(), served.server.address());
}

#[test]
fn a_cluster_follows_renames_and_shows_what_one_may_read() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = two(dir.path());
    follows(first.address(), second.address());
    assert!(first.stop().unwrap());
    assert!(second.stop().unwrap());
}

/// Calls with a principal of their own, and nested calls, are refused inside `As`.
#[test]
fn what_cannot_be_asked_on_somebodys_behalf_is_refused() {
    let served = Served::start(settings());
    let ping = || proto::Request {
        call: Some(Call::Ping(proto::PingRequest {})),
    };
    let principal = Some(proto::Principal {
        uid: 7,
        gids: vec![],
    });
    let counts = proto::Request {
        call: Some(Call::Counts(proto::CountsRequest {})),
    };
    for (principal, request, expected) in [
        (principal.clone(), Some(ping()), "reads the graph"),
        (principal.clone(), None, "reads the graph"),
        (None, Some(counts), "expected a principal"),
    ] {
        let request = request.map(Box::new);
        let refused = runtime().block_on(async {
            let mut client = connect_to(served.server.address()).await;
            let asked = client.r#as(proto::AsRequest { principal, request }).await;
            let mut pieces = asked.unwrap().into_inner();
            pieces.message().await.unwrap_err()
        });
        assert!(refused.message().contains(expected), "{refused}");
    }
}
