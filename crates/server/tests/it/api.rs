//! The JSON API as a plain HTTP client uses it.

use crate::common::{Served, filled, settings, vertex};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Properties};
use esker_testkit::wait::eventually;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

#[test]
fn health_readiness_metrics() {
    let served = Served::start(settings());
    assert_eq!(served.http("GET", "/healthz", "").0, 200);
    assert_eq!(served.http("GET", "/readyz", "").2, "ready\n");
    filled(&served);
    let lines = [
        "esker_request_seconds_count{call=\"apply\"} 1",
        "esker_batch_mutations_sum 7",
        "esker_vertices 4",
        "esker_edges 6",
        "esker_in_flight 0",
    ];
    // A call is counted shortly after its answer.
    let (head, body) = eventually(|| {
        let (status, head, body) = served.http("GET", "/metrics", "");
        assert_eq!(status, 200);
        let misses = |line: &&&str| !body.contains(&format!("{line}\n"));
        match lines.iter().find(misses) {
            Some(line) => Err(format!("no {line} in {body}")),
            None => Ok((head, body)),
        }
    });
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    // Each metric has its type exactly once.
    let mut named = BTreeSet::new();
    for line in body.lines().filter(|l| l.starts_with("# TYPE ")) {
        assert!(named.insert(line.to_owned()), "{line} twice");
    }
    for line in body.lines().filter(|l| !l.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|s| name.strip_suffix(s));
        let typed = |name: &str| {
            named
                .iter()
                .any(|l| l.starts_with(&format!("# TYPE {name} ")))
        };
        assert!(typed(name) || base.is_some_and(typed), "{line}");
        assert!(
            line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
            "{line}"
        );
    }
}

#[test]
fn what_a_person_asks_for() {
    let served = Served::start(settings());
    let database = filled(&served);
    let get = |path: &str| {
        let (status, json) = served.json("GET", path, "");
        assert_eq!(status, 200, "{path}: {json}");
        json
    };
    let vertex = get("/api/v1/vertex?id=user:1");
    assert_eq!(vertex["id"], "user:1");
    assert_eq!(vertex["attributes"], json!({"name": "ada"}));
    let version = vertex["version"].as_str().unwrap();
    assert_eq!(
        get(&format!("/api/v1/vertex?id=user:1&as_of={version}")),
        vertex
    );

    let files = get("/api/v1/vertices?type=File&limit=1");
    assert_eq!(files["vertices"].as_array().unwrap().len(), 1);
    let next = files["next"].as_str().unwrap();
    let rest = get(&format!("/api/v1/vertices?type=DataObject&after={next}"));
    assert_eq!(rest["next"], Json::Null);
    assert_eq!(rest["vertices"].as_array().unwrap().len(), 1);
    assert_ne!(rest["vertices"][0]["id"], files["vertices"][0]["id"]);

    let edges = get("/api/v1/edges?id=job:1&type=read,write");
    let ends: BTreeSet<_> = edges["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["dst"].as_str().unwrap())
        .collect();
    assert_eq!(ends, BTreeSet::from(["file:/in", "file:/out"]));
    assert_eq!(edges["edges"][0]["properties"], json!({"bytes": 7}));
    // Pages of one edge each are the whole list.
    let whole = get("/api/v1/edges?id=job:1");
    assert_eq!(
        (&whole["more"], &whole["next"]),
        (&json!(false), &Json::Null)
    );
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&format!("/api/v1/edges?id=job:1&limit=1{after}"));
        pages.extend(page["edges"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["more"], false);
            break;
        };
        assert_eq!(page["more"], true);
        after = format!("&after={next}");
    }
    assert_eq!(Json::from(pages), whole["edges"]);

    let history = get("/api/v1/history?id=file:/in");
    assert_eq!(history["events"][0]["change"], "put");
    let history = get("/api/v1/history?id=job:1&type=write&dst=file:/out");
    assert_eq!(history["events"][0]["properties"], json!({"bytes": 7}));

    let lineage = get("/api/v1/lineage?id=file:/out");
    let found: BTreeSet<_> = lineage["vertices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        found,
        BTreeSet::from(["file:/in", "file:/out", "job:1", "user:1"])
    );
    let impact = get("/api/v1/impact?id=file:/in&depth=1");
    assert_eq!(impact["target"], "file:/in");

    let begun = get("/api/v1/news");
    served.json(
        "POST",
        "/api/v1/apply",
        r#"{"op":"set","id":"job:1","set":{"note":"x"}}"#,
    );
    let news = get(&format!(
        "/api/v1/news?place={}",
        begun["place"].as_str().unwrap()
    ));
    assert_eq!(
        (&news["missed"], &news["vertices"]),
        (&false.into(), &json!(["job:1"])),
        "{news}"
    );
    let later = get(&format!(
        "/api/v1/news?place={}",
        news["place"].as_str().unwrap()
    ));
    assert_eq!(
        (&later["vertices"], &later["place"]),
        (&json!([]), &news["place"])
    );
    assert_eq!(get("/api/v1/news?place=another.process-1")["missed"], true);

    let picture = get("/api/v1/view/lineage?id=file:/out&open=file:/in&split=group:0");
    let boxes = picture["boxes"].as_array().unwrap();
    let mut columns: Vec<_> = boxes
        .iter()
        .map(|b| (b["layer"].as_u64().unwrap(), b["id"].as_str().unwrap()))
        .collect();
    columns.sort_unstable();
    assert_eq!(columns, [(0, "file:/in"), (1, "job:1"), (2, "file:/out")]);
    assert_eq!(picture["lines"][0]["points"].as_array().unwrap().len(), 2);

    let chain = r#"{"chain": "v(\"user:1\").e(run).v().e(write).v()", "profile": true}"#;
    let (status, found) = served.json("POST", "/api/v1/travel", chain);
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["sets"][0]["vertices"][0]["id"], "file:/out");
    assert_eq!(found["profile"].as_array().unwrap().len(), 2);
    let chain = r#"{"chain": "v(\"file:/out\").e(wasWrittenBy).v().e(read).v().return_fp()"}"#;
    let (_, found) = served.json("POST", "/api/v1/travel", chain);
    assert_eq!(found["edges"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["edges"][0]["properties"], json!({"bytes": 7}));

    assert_eq!(get("/api/v1/stats")["vertices"]["File"], 2);
    assert!(
        get("/api/v1/schema")["edge_types"]
            .as_array()
            .unwrap()
            .len()
            > 10
    );
    drop(database);
}

#[test]
fn lines_apply_whole_or_not_at_all() {
    let served = Served::start(settings());
    let lines = r#"{"op":"put_vertex","id":"file:/a","attributes":{"size":7,"mtime":"2026-03-01T00:00:00Z"}}
{"op":"ensure_vertex","id":"job:1"}

{"op":"set","id":"file:/a","set":{"campaign":"spring"}}
{"op":"put_edge","src":"job:1","type":"write","dst":"file:/a","properties":{"bytes":7}}
"#;
    let (status, done) = served.json("POST", "/api/v1/apply?once=x&sync=true", lines);
    assert_eq!(status, 200, "{done}");
    assert_eq!(done["vertices_created"], 2);
    assert_eq!(done["applied"], true);
    let (_, again) = served.json("POST", "/api/v1/apply?once=x", lines);
    assert_eq!(again["applied"], false);
    let (_, vertex) = served.json("GET", "/api/v1/vertex?id=file:/a", "");
    assert_eq!(vertex["attributes"]["campaign"], "spring", "{vertex}");

    let bad =
        "{\"op\":\"put_vertex\",\"id\":\"file:/b\"}\n{\"op\":\"put_vertex\",\"id\":\"fille:/c\"}\n";
    let (status, error) = served.json("POST", "/api/v1/apply", bad);
    assert_eq!(status, 400);
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .starts_with("line 2: unknown vertex type `fille`"),
        "{error}"
    );
    assert_eq!(served.json("GET", "/api/v1/vertex?id=file:/b", "").0, 404);
}

#[test]
fn the_ends_of_an_edge_keep_their_names() {
    let served = Served::start(settings());
    let line = r#"{"op":"put_edge","src":"job:77","type":"write","dst":"file:/never/inserted"}"#;
    let (status, done) = served.json("POST", "/api/v1/apply", line);
    assert_eq!(
        (status, &done["vertices_created"]),
        (200, &json!(2)),
        "{done}"
    );
    let (_, edges) = served.json("GET", "/api/v1/edges?id=job:77", "");
    assert_eq!(edges["edges"][0]["dst"], "file:/never/inserted", "{edges}");

    // A program may name the ends by their ids alone.
    let database = served.open();
    let mut batch = Batch::new();
    for file in ["file:/a", "file:/b"] {
        batch.push(Op::PutEdge {
            source: vertex(&database, "job:78"),
            edge_type: database.schema().unwrap().edge_type_id("write").unwrap(),
            destination: vertex(&database, file),
            properties: Properties::new(),
        });
    }
    database.apply(batch).unwrap();
    let (status, page) = served.json("GET", "/api/v1/edges?id=job:78&limit=1", "");
    assert_eq!((status, &page["more"]), (200, &json!(true)), "{page}");
    let next = page["next"].as_str().unwrap();
    let path = format!("/api/v1/edges?id=job:78&limit=1&after={next}");
    let (status, page) = served.json("GET", &path, "");
    assert_eq!((status, &page["more"]), (200, &json!(false)), "{page}");
    assert_eq!(page["edges"].as_array().unwrap().len(), 1);
    let past_the_end = format!("/api/v1/edges?id=job:78&after=write/{}", "f".repeat(32));
    assert_eq!(served.json("GET", &past_the_end, "").1["edges"], json!([]));
    assert_eq!(served.json("GET", "/api/v1/edges?id=job:79", "").0, 404);
}

#[test]
fn files_of_a_kind_that_does_not_exist_are_a_mistake() {
    let served = Served::start(settings());
    let (status, error) = served.json(
        "GET",
        "/api/v1/files/find?path=/&filter=type%20=%20%27File%27",
        "",
    );
    let error = error["error"].as_str().unwrap();
    assert_eq!(status, 400, "{error}");
    assert!(error.contains("did you mean 'file'?"), "{error}");
}

#[test]
fn mistakes_are_told() {
    let served = Served::start(settings());
    filled(&served);
    for (verb, path, body, status, said) in [
        (
            "GET",
            "/api/v1/vertex",
            "",
            400,
            "parameter `id` is missing",
        ),
        (
            "GET",
            "/api/v1/vertex?id=user",
            "",
            400,
            "`user` names no vertex",
        ),
        (
            "GET",
            "/api/v1/vertex?id=user:2",
            "",
            404,
            "no vertex `user:2`",
        ),
        (
            "GET",
            "/api/v1/vertex?idd=user:1",
            "",
            400,
            "unknown parameter `idd`; did you mean `id`? (expected one of: id, as_of, uid, gids)",
        ),
        (
            "POST",
            "/api/v1/travel",
            r#"{"chain": "v(\"job:1\").e(\"wasWrittenBy\")"}"#,
            400,
            "no such edge leaves Job: e(\"wasWrittenBy\").v(); did you mean `write`?",
        ),
        (
            "GET",
            "/api/v1/vertex?id=user:1&as_of=yesterday",
            "",
            400,
            "yesterday",
        ),
        (
            "GET",
            "/api/v1/vertices?type=Fil",
            "",
            400,
            "did you mean `File`",
        ),
        (
            "GET",
            "/api/v1/edges?id=job:1&type=wrote",
            "",
            400,
            "unknown edge type `wrote`",
        ),
        (
            "GET",
            "/api/v1/edges?id=job:1&after=write/12",
            "",
            400,
            "after: `write/12` is not a cursor",
        ),
        (
            "GET",
            "/api/v1/edges?id=job:9",
            "",
            404,
            "no vertex `job:9`",
        ),
        (
            "GET",
            "/api/v1/lineage?id=file:/none",
            "",
            404,
            "no vertex `file:/none`",
        ),
        (
            "GET",
            "/api/v1/view/lineage?id=file:/none",
            "",
            404,
            "no vertex `file:/none`",
        ),
        (
            "GET",
            "/api/v1/view/lineage?id=file:/out&open=out",
            "",
            400,
            "there is no colon",
        ),
        (
            "GET",
            "/api/v1/news?place=7",
            "",
            400,
            "`place` of the previous answer",
        ),
        ("GET", "/api/v1/nothing", "", 404, "/api/v1/openapi.json"),
        (
            "POST",
            "/api/v1/vertex?id=user:1",
            "",
            405,
            "does not accept POST",
        ),
        ("POST", "/api/v1/travel", "{", 400, "the body is not JSON"),
        (
            "POST",
            "/api/v1/travel",
            r#"{"chain": "v(\"user:1\").x()"}"#,
            400,
            "unknown call `x`",
        ),
        (
            "POST",
            "/api/v1/travel",
            r#"{"chains": ""}"#,
            400,
            "unknown key `chains`",
        ),
    ] {
        let (got, json) = served.json(verb, path, body);
        assert_eq!(got, status, "{path}: {json}");
        let error = json["error"].as_str().unwrap();
        assert!(error.contains(said), "{path}: {error}");
    }
}

/// Event of `OpenLineage` with the job and the dataset that requests for Marquez's paths name.
const EVENT: &str = r#"{"eventTime": "2026-01-01T00:00:00Z", "eventType": "START",
    "run": {"runId": "01912a4b-0000-7000-8000-000000000001"}, "job": {"namespace": "ns", "name": "j"},
    "outputs": [{"namespace": "ns", "name": "d"}]}"#;

/// Every path of the document exists, answers to its method, and knows its parameters.
#[test]
fn the_document_describes_the_routes() {
    let served = Served::start(settings());
    filled(&served);
    let (status, document) = served.json("GET", "/api/v1/openapi.json", "");
    assert_eq!(status, 200);
    assert_eq!(document["openapi"], "3.1.0");
    // The pages' TypeScript types are generated from a copy of the document.
    let copy = std::path::absolute("../../web/openapi.json").unwrap();
    let copy: Json = serde_json::from_str(&std::fs::read_to_string(copy).unwrap()).unwrap();
    assert!(
        copy == document,
        "web/openapi.json is another document: write GET /api/v1/openapi.json there (python3 -m json.tool --indent 1), and run `npm run types` in web/"
    );
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 17);
    // `sparql.rs` tests the RDF paths.
    let ours = |p: &str| p.starts_with("/api/v1/") && !p.starts_with("/api/v1/rdf/");
    for (path, item) in paths.iter().filter(|(p, _)| ours(p)) {
        for (verb, operation) in item.as_object().unwrap() {
            // Object to read, change or delete.
            let name = format!("{verb} {path}").replace(['/', '{', '}', ' '], "_");
            let object = json!({"name": name, "app": "vpic", "owner": 1001, "step": 7}).to_string();
            let (_, object) = served.json("POST", "/api/v1/objects", &object);
            let mut query = Vec::new();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "path" {
                    continue;
                }
                let parameter = parameter["name"].as_str().unwrap();
                // Alternatives to `id`.
                if (path.as_str(), parameter) == ("/api/v1/lineage", "nodeId") {
                    continue;
                }
                let value = match (path.as_str(), parameter) {
                    ("/api/v1/vertices" | "/api/v1/search", "type") => "File",
                    ("/api/v1/find", "after") => object["id"].as_str().unwrap(),
                    ("/api/v1/files/find", "filter") => "size%20%3E%3D%200",
                    ("/api/v1/files/list", "after") => "0000000000000000-0",
                    ("/api/v1/runs", "after") => "0%20job:1",
                    ("/api/v1/edges", "after") => "write/00000000000000000000000000000000",
                    ("/api/v1/export/lineage", "format") => "ro-crate",
                    ("/api/v1/search", "user") | (_, "q" | "text" | "ending") => "out",
                    (_, "state") => "unknown",
                    (_, "what") => "travel",
                    (_, "path") => "/",
                    (_, "follow") => "true",
                    (_, "by") => "dir",
                    (_, "filter") => "step%20%3D%207",
                    (_, "select" | "name" | "once") => &*name,
                    (_, "count" | "explain" | "sync" | "all") => "false",
                    (_, "rank" | "skip" | "at" | "offset") => "0",
                    ("/api/v1/jobs/runs/{id}/facets", "type") => "run",
                    ("/api/v1/runs", "user") | (_, "of") => "1",
                    (_, "format") => "json",
                    (_, "uid" | "owner") => "1001",
                    (_, "gids") => "1,2",
                    (_, "app") => "vpic",
                    (_, "step") => "7",
                    (_, "type") => "write",
                    ("/api/v1/lineage" | "/api/v1/impact" | "/api/v1/export/lineage", "id")
                    | (_, "after" | "dst") => "file:/out",
                    (_, "id" | "open" | "a" | "b") => "job:1",
                    (_, "split") => "group:1",
                    ("/api/v1/news", "place") => "1.1-x00000000000000000000000000000000",
                    (_, "place") => "1.1-1",
                    (_, "limit" | "depth" | "up" | "down") => "3",
                    (_, "as_of") => "now",
                    (_, "from" | "since") => "2020-01-01",
                    (_, "until") => "2100-01-01",
                    other => panic!("what is {other:?}?"),
                };
                query.push(format!("{parameter}={value}"));
            }
            let new = format!(
                r#"{{"name": "new {name}", "owner": 1, "attributes": {{}}, "tags": {{"x": 1}}}}"#
            );
            let body = match (path.as_str(), verb.as_str()) {
                ("/api/v1/travel", _) => r#"{"chain": "v(\"user:1\")"}"#,
                ("/api/v1/apply", _) => r#"{"op":"ensure_vertex","id":"job:2"}"#,
                ("/api/v1/find", "post") => {
                    r#"{"filter": "step = 7", "select": ["step"], "limit": 3}"#
                }
                ("/api/v1/lineage" | "/api/v1/lineage/batch", "post") => EVENT,
                ("/api/v1/objects", "post") => &*new,
                ("/api/v1/objects/{id}", "patch") => r#"{"set": {"x": 1}, "remove": ["y"]}"#,
                ("/api/v1/tag", _) => r#"{"filter": "step = 7", "set": {"z": 1}}"#,
                ("/api/v1/index", _) => r#"{"name": "z", "on": true}"#,
                _ => "",
            };
            assert_eq!(
                operation.get("requestBody").is_some(),
                !body.is_empty(),
                "{path}"
            );
            let id = if path.starts_with("/api/v1/jobs/runs/") {
                "01912a4b-0000-7000-8000-000000000001"
            } else {
                object["id"].as_str().unwrap()
            };
            let path = path
                .replace("{id}", id)
                .replace("{namespace}", "ns")
                .replace("{job}", "j")
                .replace("{dataset}", "d");
            let asked = format!("{path}?{}", query.join("&"));
            let (status, answer) = served.json(&verb.to_uppercase(), &asked, body);
            // Write one event.
            let expected = if body == EVENT { 201 } else { 200 };
            assert_eq!(status, expected, "{asked}: {answer}");
            let schema =
                operation["responses"][expected.to_string()]["content"]["application/json"]["schema"]["$ref"]
                    .as_str()
                    .unwrap();
            let schema = document.pointer(schema.strip_prefix('#').unwrap()).unwrap();
            for required in schema["required"].as_array().into_iter().flatten() {
                let required = required.as_str().unwrap();
                assert!(
                    answer.get(required).is_some(),
                    "{asked}: no {required} in {answer}"
                );
            }
        }
    }
}
