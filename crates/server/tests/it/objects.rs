//! Objects over plain HTTP and with a generated gRPC client.

use crate::common::{Served, settings};
use crate::plain::{connect, runtime, typed};
use esker::OpenOptions;
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity, ObjectId, ObjectKey, ObjectRead as _, object_ref};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties};
use esker_rpc::proto;
use esker_rpc::proto::value::Kind;
use esker_server::settings::Limits;
use esker_server::{Server, Settings};
use esker_testkit::wait::wait_until;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::time::Duration;
use tonic::Code;

/// Creates `count` objects named `energy` with the tag `Conf` and a text; every third is private to its owner.
fn fill(served: &Served, count: u32) {
    let mut lines = String::new();
    for step in 0..count {
        let mode = if step % 3 == 0 { 0o600 } else { 0o644 };
        let line = json!({
            "op": "create_object", "name": "energy", "app": "vpic", "owner": 1001, "step": step,
            "attributes": {"location": format!("/scratch/{step}.h5"), "mode": mode},
            "tags": {"Conf": step % 2, "note": format!("run {step}"), "seen": null},
        });
        writeln!(lines, "{line}").unwrap();
    }
    let (status, done) = served.json("POST", "/api/v1/apply", &lines);
    assert_eq!(status, 200, "{done}");
    assert_eq!(done["vertices_created"], count);
}

/// Encodes a query string for a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(byte.into());
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
    }
    out
}

/// Objects of one batch are returned in the order of their numbers.
fn steps(objects: &Json) -> Vec<i64> {
    let objects = objects.as_array().unwrap().iter();
    objects
        .map(|o| o["attributes"]["step"].as_i64().unwrap())
        .collect()
}

fn sorted(objects: &Json) -> Vec<i64> {
    let mut steps = steps(objects);
    steps.sort_unstable();
    steps
}

#[test]
fn an_object_from_its_creation_to_its_end() {
    let served = Served::start(settings());
    let new = r#"{"name": "energy", "app": "vpic", "owner": 1001, "step": 7,
                  "attributes": {"location": "/scratch/7.h5", "mtime": "2026-03-01T00:00:00Z"}, "tags": {"Conf": 0, "seen": null}}"#;
    let (status, created) = served.json("POST", "/api/v1/objects?once=first&sync=true", new);
    assert_eq!(status, 200, "{created}");
    let id = created["id"].as_str().unwrap().to_owned();
    // A repeated call returns the same object; another object of that name is refused.
    let (_, again) = served.json("POST", "/api/v1/objects?once=first", new);
    assert_eq!(again["id"], created["id"], "{again}");
    let (status, refused) = served.json("POST", "/api/v1/objects", new);
    assert_eq!(status, 400, "{refused}");
    let said = refused["error"].as_str().unwrap();
    assert!(
        said.contains("exists already") && said.contains(&id),
        "{said}"
    );

    let path = format!("/api/v1/objects/{id}");
    let (status, object) = served.json("GET", &path, "");
    assert_eq!(status, 200, "{object}");
    assert_eq!(object["id"], created["id"]);
    assert_eq!(object["created"], created["version"]);
    assert_eq!(object["attributes"]["mtime"], "2026-03-01T00:00:00Z");
    assert_eq!(object["attributes"]["mode"], 0o644);
    assert_eq!(object["tags"], json!({"Conf": 0, "seen": null}));
    let by_name = "/api/v1/objects?name=energy&app=vpic&owner=1001&step=7";
    assert_eq!(served.json("GET", by_name, "").1, object);
    assert_eq!(
        served
            .json("GET", &format!("/api/v1/objects/object%3A{id}"), "")
            .1,
        object
    );
    // An object is a vertex like others.
    let (_, vertex) = served.json("GET", &format!("/api/v1/vertex?id=object:{id}"), "");
    assert_eq!(vertex["type"], "Object");

    let changes = r#"{"set": {"location": "/tape/7", "Conf": 1, "step": 8}, "remove": ["seen"]}"#;
    let (status, done) = served.json("PATCH", &path, changes);
    assert_eq!(status, 200, "{done}");
    let (_, object) = served.json("GET", &path, "");
    assert_eq!(object["tags"], json!({"Conf": 1}));
    assert_eq!(object["attributes"]["location"], "/tape/7");
    assert_eq!(object["attributes"]["step"], 8);
    assert_eq!(object["modified"], done["version"]);
    assert_eq!(served.json("GET", by_name, "").0, 404);
    assert_eq!(
        served.json("GET", &by_name.replace("=7", "=8"), "").1,
        object
    );

    assert_eq!(
        served.json("PATCH", &path, r#"{"set": {"mode": 384}}"#).0,
        200
    );
    let (status, hidden) = served.json("GET", &format!("{path}?uid=7&gids=1,2"), "");
    assert_eq!(status, 404);
    let (_, absent) = served.json("GET", "/api/v1/objects/5?uid=7", "");
    let without = |json: &Json, id: &str| json["error"].as_str().unwrap().replace(id, "ID");
    assert_eq!(
        without(&hidden, &id),
        without(&absent, "5"),
        "nothing leaks"
    );
    assert_eq!(served.json("GET", &format!("{path}?uid=1001"), "").0, 200);

    let (status, gone) = served.json("DELETE", &path, "");
    assert_eq!(status, 200, "{gone}");
    assert_eq!(served.json("GET", &path, "").0, 404);
    assert_eq!(served.json("DELETE", &path, "").0, 404);
}

#[test]
fn a_search_page_by_page_and_line_by_line() {
    let served = Served::start(settings());
    fill(&served, 50);
    let text = "Name = 'energy' AND Conf = 1 AND step BETWEEN 10 AND 20";
    let find = |rest: &str| {
        let path = format!("/api/v1/find?filter={}{rest}", encoded(text));
        let (status, found) = served.json("GET", &path, "");
        assert_eq!(status, 200, "{found}");
        found
    };
    let whole = find("");
    let order = steps(&whole["objects"]);
    assert_eq!(sorted(&whole["objects"]), [11, 13, 15, 17, 19]);
    assert_eq!(
        (&whole["matches"], &whole["complete"]),
        (&json!(5), &json!(true))
    );
    assert_eq!(whole["next"], Json::Null);
    let first = find("&limit=3");
    assert_eq!(steps(&first["objects"]), order[..3]);
    assert_eq!(first["next"], first["objects"][2]["id"]);
    let rest = find(&format!(
        "&limit=3&after={}",
        first["next"].as_str().unwrap()
    ));
    assert_eq!(steps(&rest["objects"]), order[3..]);
    assert_eq!(rest["next"], Json::Null);
    assert_eq!(find("&count=true")["matches"], 5);
    assert_eq!(find("&count=true")["objects"], json!([]));
    let plan = find("&explain=true");
    assert!(!plan["plan"].as_array().unwrap().is_empty(), "{plan}");
    assert_eq!(sorted(&find("&uid=7")["objects"]), [11, 13, 17, 19]);
    let selected = find("&select=step,note&limit=1");
    let selected = &selected["objects"][0];
    assert_eq!(selected["attributes"], json!({"step": order[0]}));
    assert_eq!(
        selected["tags"],
        json!({"note": format!("run {}", order[0])})
    );
    let mut together = BTreeSet::new();
    for rank in 0..3 {
        for step in steps(&find(&format!("&rank={rank}&of=3"))["objects"]) {
            assert!(together.insert(step), "{step} twice");
        }
    }
    assert_eq!(together.len(), 5);

    let body = json!({"filter": text, "limit": 3, "uid": 0, "gids": []}).to_string();
    let (_, posted) = served.json("POST", "/api/v1/find", &body);
    assert_eq!(steps(&posted["objects"]), order[..3], "{posted}");

    let body = json!({"filter": "", "format": "ndjson"}).to_string();
    let (status, head, lines) = served.http("POST", "/api/v1/find", &body);
    assert_eq!(status, 200);
    assert!(head.contains("application/x-ndjson"), "{head}");
    // Chunk sizes are interleaved with the content.
    let lines: Vec<Json> = lines
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 51);
    assert_eq!(lines[50]["report"]["matches"], 50);
    let seventh = lines[7]["attributes"]["step"].as_i64().unwrap();
    assert_eq!(lines[7]["tags"]["note"], format!("run {seventh}"));

    let (_, unknown) = served.json("GET", "/api/v1/find?filter=Conff", "");
    assert_eq!(
        unknown["unknown"],
        json!([{"name": "Conff", "nearest": "Conf", "objects": 50}])
    );
}

#[test]
fn tagging_and_what_tags_there_are() {
    let served = Served::start(settings());
    fill(&served, 30);
    let change = r#"{"filter": "step < 4", "set": {"Conf_0": null, "energy": 2.5}, "remove": ["note"], "dry_run": true}"#;
    let (status, dry) = served.json("POST", "/api/v1/tag", change);
    assert_eq!(status, 200, "{dry}");
    assert_eq!((&dry["matches"], &dry["changed"]), (&json!(4), &json!(4)));
    assert_eq!(
        served.json("GET", "/api/v1/find?filter=Conf_0", "").1["matches"],
        0
    );
    let change = change.replace("true", "false");
    for _ in 0..2 {
        let (_, done) = served.json("POST", "/api/v1/tag?once=x&sync=true", &change);
        assert!(done["version"].is_string(), "{done}");
    }
    let (_, found) = served.json("GET", "/api/v1/find?filter=Conf_0", "");
    assert_eq!(sorted(&found["objects"]), [0, 1, 2, 3]);
    assert_eq!(found["objects"][0]["tags"]["energy"], 2.5);
    let kept = r#"{"filter": "", "set": {"energy": 1}, "keep": true}"#;
    let (_, done) = served.json("POST", "/api/v1/tag", kept);
    assert_eq!(
        (&done["matches"], &done["changed"]),
        (&json!(30), &json!(26))
    );
    let strange = r#"{"filter": "", "set": {"mine": 1}, "uid": 7, "gids": [8]}"#;
    let (_, done) = served.json("POST", "/api/v1/tag", strange);
    assert_eq!(
        (&done["matches"], &done["refused"]),
        (&json!(20), &json!(20))
    );

    let tags = |path: &str| {
        let (_, tags) = served.json("GET", path, "");
        let tags = tags["tags"].as_array().unwrap().clone();
        move |name: &str| tags.iter().find(|t| t["name"] == name).cloned()
    };
    let all = tags("/api/v1/tags");
    assert_eq!(all("Conf_0").unwrap()["objects"], 4);
    assert_eq!(all("step").unwrap()["predefined"], true);
    assert_eq!(all("mine"), None);
    // One of the four is private to its owner.
    let some = tags("/api/v1/tags?uid=7");
    assert_eq!(some("Conf_0").unwrap()["objects"], 2);
    let (_, done) = served.json("POST", "/api/v1/index", r#"{"name": "Conf", "on": false}"#);
    assert_eq!(done["changed"], true);
    assert_eq!(tags("/api/v1/tags")("Conf").unwrap()["indexed"], false);
}

#[test]
fn mistakes_are_told() {
    let served = Served::start(settings());
    fill(&served, 3);
    for (verb, path, body, status, said) in [
        (
            "GET",
            "/api/v1/objects/-1",
            "",
            400,
            "`-1` is not an object's number",
        ),
        ("GET", "/api/v1/objects/99", "", 404, "no object 99"),
        (
            "GET",
            "/api/v1/objects?name=x",
            "",
            400,
            "parameter `owner` is missing",
        ),
        (
            "GET",
            "/api/v1/objects?name=x&owner=a",
            "",
            400,
            "expected a whole number; got `a`",
        ),
        (
            "GET",
            "/api/v1/objects?name=x&owner=1",
            "",
            404,
            "no object of name `x`",
        ),
        (
            "GET",
            "/api/v1/find?filtr=x",
            "",
            400,
            "did you mean `filter`?",
        ),
        ("GET", "/api/v1/find?gids=1", "", 400, "`gids` needs `uid`"),
        (
            "GET",
            "/api/v1/find?rank=1&of=1",
            "",
            400,
            "`rank` is below `of`",
        ),
        (
            "GET",
            "/api/v1/find?format=xml",
            "",
            400,
            "expected json, ndjson",
        ),
        (
            "GET",
            "/api/v1/find?filter=step%20=%20%27first%27",
            "",
            400,
            "`step` holds numbers; 'first' matches none",
        ),
        (
            "GET",
            "/api/v1/tags/values?name=step&filter=step%20=%20%27first%27",
            "",
            400,
            "`step` holds numbers; 'first' matches none",
        ),
        (
            "GET",
            "/api/v1/search?q=step%20=%20%27first%27",
            "",
            400,
            "`step` holds numbers; 'first' matches none",
        ),
        (
            "POST",
            "/api/v1/tag",
            r#"{"filter": "step = 'first'", "set": {"a": 1}}"#,
            400,
            "`step` holds numbers; 'first' matches none",
        ),
        (
            "GET",
            "/api/v1/find?limit=0",
            "",
            400,
            "expected 1 to 100000",
        ),
        (
            "GET",
            "/api/v1/find?after=x",
            "",
            400,
            "`x` is not an object's number",
        ),
        ("POST", "/api/v1/find", "[]", 400, "expected a JSON object"),
        (
            "POST",
            "/api/v1/find",
            r#"{"limt": 1}"#,
            400,
            "did you mean `limit`?",
        ),
        (
            "POST",
            "/api/v1/find",
            r#"{"uid": "me"}"#,
            400,
            "`uid`: expected a whole number",
        ),
        (
            "POST",
            "/api/v1/tag",
            r#"{"set": {"x": 1}}"#,
            400,
            "`filter` is missing",
        ),
        (
            "POST",
            "/api/v1/objects",
            r#"{"owner": 1}"#,
            400,
            "`name` is missing",
        ),
        (
            "POST",
            "/api/v1/objects",
            r#"{"name": "", "owner": 1}"#,
            400,
            "name",
        ),
        (
            "POST",
            "/api/v1/objects",
            r#"{"name": "x", "owner": 1, "attributes": {"sise": 1}}"#,
            400,
            "sise",
        ),
        (
            "PATCH",
            "/api/v1/objects/99",
            r#"{"set": {"x": 1}}"#,
            404,
            "",
        ),
        (
            "PATCH",
            "/api/v1/objects/99",
            r#"{"set": {"step": 1}}"#,
            404,
            "no object 99",
        ),
        (
            "PATCH",
            "/api/v1/objects/99",
            r#"{"remove": ["owner"]}"#,
            400,
            "always has its `owner`",
        ),
        (
            "POST",
            "/api/v1/index",
            r#"{"name": "x"}"#,
            400,
            "`on` is missing",
        ),
        ("PUT", "/api/v1/objects/99", "", 405, "does not accept PUT"),
    ] {
        let (got, json) = served.json(verb, path, body);
        assert_eq!(got, status, "{verb} {path} {body}: {json}");
        let error = json["error"].as_str().unwrap();
        assert!(error.contains(said), "{verb} {path} {body}: {error}");
    }
}

/// The error of a filter that does not parse shows the position, and has it as numbers.
#[test]
fn a_filter_is_corrected() {
    let served = Served::start(settings());
    let text = "Conf = 1 AND\n note LIK 'run%'";
    let body = json!({"filter": text}).to_string();
    for (verb, path, body) in [
        ("GET", format!("/api/v1/find?filter={}", encoded(text)), ""),
        ("POST", "/api/v1/find".into(), &*body),
        ("POST", "/api/v1/tag".into(), &*body),
    ] {
        let (status, json) = served.json(verb, &path, body);
        assert_eq!(status, 400, "{path}: {json}");
        assert_eq!(json["at"]["line"], 2, "{json}");
        assert_eq!(json["at"]["column"], 7, "{json}");
        assert_eq!(json["at"]["byte"], 19, "{json}");
        let shown = json["error"].as_str().unwrap();
        assert!(shown.contains(" note LIK 'run%'\n"), "{shown}");
        assert!(shown.contains('^'), "{shown}");
    }
}

/// A client that goes away during a stream of lines does not occupy a thread.
#[test]
fn a_search_stops_when_its_client_is_gone() {
    let served = Served::start(Settings {
        scanners: 1,
        ..settings()
    });
    fill(&served, 20_000);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(served.server.address()).unwrap();
        let request = "GET /api/v1/find?format=ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut some = [0; 1_000];
        stream.read_exact(&mut some).unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200 OK"));
    }
    // The only thread is free again.
    let (status, found) = served.json("GET", "/api/v1/find?count=true", "");
    assert_eq!((status, &found["matches"]), (200, &json!(20_000)));
    wait_until("calls of clients that are gone", || {
        let (_, _, metrics) = served.http("GET", "/metrics", "");
        metrics.contains("esker_in_flight 0\n")
            && metrics.contains("esker_request_seconds_count{call=\"find\"} 4\n")
    });
}

/// After the server is restarted during a search, the client continues and gets each object once.
#[test]
fn a_search_goes_on_when_its_server_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
    let start = |listen: String| {
        let database = options.open(path.to_str().unwrap()).unwrap();
        let settings = Settings {
            listen,
            drain: Duration::from_millis(50),
            ..settings()
        };
        Server::start(database, settings).unwrap()
    };
    let mut server = Some(start("127.0.0.1:0".into()));
    let address = server.as_ref().unwrap().address().to_string();
    let client = OpenOptions::new()
        .open(&format!("esker://{address}"))
        .unwrap();
    let mut batch = Batch::new();
    for step in 0..5_000 {
        batch.push(Op::CreateObject {
            identity: Identity {
                name: "long".repeat(100),
                app: String::new(),
                owner: 1,
                step,
            },
            attributes: Properties::new(),
            tags: Properties::new().with("note", "n".repeat(400)),
        });
    }
    client.apply(batch).unwrap();
    let find = Find {
        limit: Some(4_900),
        ..Find::all(Expr::All)
    };
    let mut found = Vec::new();
    let report = client
        .find(&find, &NeverCancel, &mut |f| {
            found.push(f.id);
            if found.len() == 100 {
                // The search in progress is cut off.
                assert!(!server.take().unwrap().stop().unwrap());
                server = Some(start(address.clone()));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let each: BTreeSet<_> = found.iter().collect();
    assert_eq!((found.len(), each.len()), (4_900, 4_900));
    assert_eq!((report.matches, report.complete), (4_900, false));
}

fn properties(pairs: &[(&str, Kind)]) -> proto::Properties {
    let fields = pairs.iter().map(|(name, kind)| {
        let kind = Some(kind.clone());
        ((*name).to_owned(), proto::Value { kind })
    });
    proto::Properties {
        fields: fields.collect(),
        ..Default::default()
    }
}

#[test]
fn a_generated_client_asks_the_same() {
    let served = Served::start(Settings {
        limits: Limits {
            frontier: 10,
            ..Limits::default()
        },
        ..settings()
    });
    fill(&served, 500);
    let identity = |step| proto::Identity {
        name: "energy".into(),
        app: "vpic".into(),
        owner: 1001,
        step,
    };
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let keys = |steps: std::ops::Range<i64>| proto::ReadObjectsRequest {
            keys: steps
                .map(|step| proto::ObjectKey {
                    key: Some(proto::object_key::Key::Identity(identity(step))),
                })
                .collect(),
            principal: None,
        };
        let read = client.read_objects(typed(keys(498..502))).await.unwrap();
        let items = read.into_inner().items;
        let there: Vec<_> = items.iter().map(|i| i.object.is_some()).collect();
        assert_eq!(there, [true, true, false, false]);
        let object = items[0].object.as_ref().unwrap();
        let tags = &object.tags.as_ref().unwrap().fields;
        assert_eq!(tags["note"].kind, Some(Kind::String("run 498".into())));
        let status = client.read_objects(keys(0..11)).await.unwrap_err();
        assert!(
            status
                .message()
                .contains("the number of objects in one request"),
            "{status}"
        );

        let find = proto::FindRequest {
            filter: "Conf = 0 AND step >= 100".into(),
            ..Default::default()
        };
        let mut stream = client.find(typed(find)).await.unwrap().into_inner();
        let (mut ids, mut report) = (Vec::new(), None);
        while let Some(piece) = stream.message().await.unwrap() {
            assert!(report.is_none(), "the report is last");
            ids.extend(piece.objects.iter().map(|o| o.id));
            report = piece.report;
        }
        let report = report.unwrap();
        assert_eq!(
            (ids.len(), report.matches, report.complete),
            (200, 200, true)
        );
        let find = proto::FindRequest {
            filter: "Conf = 0 AND step >= 100".into(),
            limit: Some(2),
            after: Some(ids[9]),
            ..Default::default()
        };
        let mut stream = client.find(find).await.unwrap().into_inner();
        let piece = stream.message().await.unwrap().unwrap();
        let next: Vec<_> = piece.objects.iter().map(|o| o.id).collect();
        assert_eq!(next, ids[10..12]);

        let change = proto::TagWhereRequest {
            filter: "step < 3 AND modified > 1d ago".into(),
            set: Some(properties(&[("Conf_0", Kind::Null(0))])),
            idempotency_key: b"x".to_vec(),
            sync: true,
            ..Default::default()
        };
        let done = client.tag_where(change).await.unwrap().into_inner();
        assert_eq!((done.matches, done.changed, done.refused), (3, 3, 0));
        let tags = client.tags(proto::TagsRequest::default()).await.unwrap();
        let tags = tags.into_inner().tags;
        let tag = tags.iter().find(|t| t.name == "Conf_0").unwrap();
        assert_eq!((tag.objects, tag.predefined), (3, false));
        let index = |on| proto::SetIndexRequest {
            name: "Conf".into(),
            on,
        };
        let changed = client.set_index(index(false)).await.unwrap().into_inner();
        assert!(changed.changed);
        let changed = client.set_index(index(false)).await.unwrap().into_inner();
        assert!(!changed.changed);

        let broken = proto::FindRequest {
            filter: "Conf = ".into(),
            ..Default::default()
        };
        let mut stream = client.find(broken).await.unwrap().into_inner();
        let status = stream.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let twice = proto::ApplyRequest {
            mutations: vec![proto::Mutation {
                version: None,
                op: Some(proto::mutation::Op::CreateObject(proto::CreateObject {
                    identity: Some(identity(1)),
                    ..Default::default()
                })),
            }],
            ..Default::default()
        };
        let status = client.apply(twice).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("exists already"), "{status}");
    });
}

/// Answers that the receiving thread sends itself, and those that it must not send: an answer that waits for the client's credit, which
/// only that thread can receive.
#[test]
fn single_calls_are_answered_whatever_their_size() {
    let served = Served::start(settings());
    let client = served.open();
    let identity = |step: i64| Identity {
        name: "large".into(),
        app: String::new(),
        owner: 1,
        step,
    };
    let mut ids = Vec::new();
    for step in 0..8 {
        let mut batch = Batch::new();
        batch.push(Op::CreateObject {
            identity: identity(step),
            attributes: Properties::new(),
            tags: Properties::new().with("text", "x".repeat(if step < 4 { 3 } else { 600_000 })),
        });
        client.apply(batch).unwrap();
        let found = client
            .read_objects(&[ObjectKey::Identity(identity(step))], None)
            .unwrap();
        ids.push(found[0].as_ref().unwrap().id);
    }
    let keys: Vec<_> = ids.iter().copied().map(ObjectKey::Id).collect();
    let list = |ids: &[ObjectId]| {
        let texts: Vec<_> = ids.iter().map(ToString::to_string).collect();
        Find::all(Expr::parse(&format!("id IN ({})", texts.join(", ")), None).unwrap())
    };
    for round in 0..6 {
        for some in [&ids[..1], &ids[..4], &ids[4..5], &ids[..]] {
            let read = client.read_objects(&keys[..some.len()], None).unwrap();
            assert_eq!(read.into_iter().flatten().count(), some.len());
            let mut found = Vec::new();
            let report = client
                .find(&list(some), &NeverCancel, &mut |object| {
                    found.push(object.id);
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(found, some);
            assert!(report.complete);
        }
        // The writer sees its write immediately.
        let schema = client.schema().unwrap();
        let vertex = object_ref(&schema, ids[0]).unwrap();
        let mut batch = Batch::new();
        batch.push(Op::SetAttributes {
            vertex,
            set: Properties::new().with("round", round),
            remove: Vec::new(),
        });
        client.apply(batch).unwrap();
        let read = client.read_objects(&keys[..1], None).unwrap();
        let value = read[0].as_ref().unwrap().get("round").cloned();
        assert_eq!(value, Some(esker_model::Value::I64(round)));
    }
}
