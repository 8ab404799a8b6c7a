//! Events of `OpenLineage` at the port, and the answers of Marquez's paths.

use crate::common::{Served, http, settings};
use serde_json::{Value as Json, json};

const RUN: &str = "01912a4b-0000-7000-8000-000000000001";
const LAKE: &str = "s3%3A%2F%2Flake";

fn event(state: &str, time: &str) -> Json {
    json!({
        "eventTime": time,
        "eventType": state,
        "producer": "https://example.org/job",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": RUN, "facets": {"nobodyKnowsThis": {"deep": [1, {"a": null}]}}},
        "job": {"namespace": "ns", "name": "etl.daily", "facets": {"documentation": {"description": "each day"}}},
        "inputs": [{"namespace": "file", "name": "/data/in.csv"}],
        "outputs": [{"namespace": "s3://lake", "name": "a/b.parquet",
                     "facets": {"schema": {"fields": [{"name": "id", "type": "int"}]}},
                     "outputFacets": {"outputStatistics": {"rowCount": 7, "size": 70}}}],
    })
}

fn get(served: &Served, path: &str) -> Json {
    let (status, json) = served.json("GET", path, "");
    assert_eq!(status, 200, "{path}: {json}");
    json
}

#[test]
fn a_run_is_told_of_and_asked_for() {
    let served = Served::start(settings());
    assert_eq!(get(&served, "/api/v1/namespaces")["totalCount"], 0);
    let post = |event: &Json| served.json("POST", "/api/v1/lineage", &event.to_string());
    let (status, done) = post(&event("START", "2026-01-01T00:00:00Z"));
    assert_eq!(status, 201, "{done}");
    assert_eq!(done["applied"], true);
    let run = get(&served, &format!("/api/v1/jobs/runs/{RUN}"));
    assert_eq!(run["state"], "RUNNING");
    assert_eq!(run["endedAt"], Json::Null);
    assert_eq!(post(&event("COMPLETE", "2026-01-01T00:01:00+00:00")).0, 201);
    let run = get(&served, &format!("/api/v1/jobs/runs/{RUN}"));
    assert_eq!(run["state"], "COMPLETED");
    assert_eq!(run["durationMs"], 60_000);
    assert_eq!(
        run["facets"],
        json!({"nobodyKnowsThis": {"deep": [1, {"a": null}]}})
    );
    let output = &run["outputDatasetVersions"][0];
    assert_eq!(output["datasetVersionId"]["name"], "a/b.parquet");
    assert_eq!(output["outputFacets"]["outputStatistics"]["size"], 70);

    let job = get(&served, "/api/v1/namespaces/ns/jobs/etl.daily");
    assert_eq!(job["description"], "each day");
    assert_eq!(
        job["inputs"],
        json!([{"namespace": "file", "name": "/data/in.csv"}])
    );
    assert_eq!(job["latestRun"]["id"], RUN);
    let runs = get(&served, "/api/v1/namespaces/ns/jobs/etl.daily/runs");
    assert_eq!(runs["totalCount"], 1);
    let data = get(
        &served,
        &format!("/api/v1/namespaces/{LAKE}/datasets/a%2Fb.parquet"),
    );
    assert_eq!(data["fields"][0]["type"], "int");
    let versions = get(
        &served,
        &format!("/api/v1/namespaces/{LAKE}/datasets/a%2Fb.parquet/versions"),
    );
    assert_eq!(versions["versions"][0]["createdByRun"], RUN);
    let facets = get(&served, &format!("/api/v1/jobs/runs/{RUN}/facets?type=job"));
    assert_eq!(facets["facets"]["documentation"]["description"], "each day");
    let names: Vec<Json> = get(&served, "/api/v1/namespaces")["namespaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["name"].clone())
        .collect();
    assert_eq!(names, ["file", "ns", "s3://lake"]);
    assert_eq!(get(&served, "/api/v1/jobs")["jobs"][0]["name"], "etl.daily");

    // The graph in Marquez's format, from either side and from the run.
    for node in [
        "job:ns:etl.daily".to_owned(),
        "dataset:file:/data/in.csv".to_owned(),
        "dataset:s3://lake:a/b.parquet".to_owned(),
        format!("run:{RUN}"),
    ] {
        let graph = get(&served, &format!("/api/v1/lineage?nodeId={node}"));
        let graph = graph["graph"].as_array().unwrap();
        assert_eq!(graph.len(), 3, "{node}");
        let job = graph.iter().find(|n| n["type"] == "JOB").unwrap();
        assert_eq!(job["inEdges"][0]["origin"], "dataset:file:/data/in.csv");
        assert_eq!(
            job["outEdges"][0]["destination"],
            "dataset:s3://lake:a/b.parquet"
        );
    }
    // Esker's own format, over the same path.
    let lineage = get(&served, "/api/v1/lineage?id=dataset:s3://lake/a/b.parquet");
    let edges = lineage["edges"].as_array().unwrap();
    assert!(
        edges
            .iter()
            .all(|e| e["properties"]["evidence"] == "declared")
    );
    assert!(
        edges
            .iter()
            .any(|e| e["type"] == "read" && e["dst"] == "file:/data/in.csv")
    );
}

#[test]
fn many_at_once_are_taken_as_far_as_they_can_be() {
    let served = Served::start(settings());
    let good = event("COMPLETE", "2026-01-01T00:01:00Z");
    let list = json!([good, {"eventTime": "yesterday", "job": {}}, good]);
    let (status, said) = served.json("POST", "/api/v1/lineage/batch", &list.to_string());
    assert_eq!(status, 207, "{said}");
    assert_eq!(said["status"], "partial_success");
    assert_eq!(said["summary"]["successful"], 2);
    assert_eq!(said["failed_events"][0]["index"], 1);
    let reason = said["failed_events"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("eventTime") && reason.contains("yesterday"),
        "{reason}"
    );
    let before = get(&served, "/api/v1/stats");
    let (status, said) = served.json("POST", "/api/v1/lineage", &json!([good]).to_string());
    assert_eq!((status, &said["status"]), (200, &json!("success")));
    let after = get(&served, "/api/v1/stats");
    assert_eq!(after["edges"], before["edges"]);
    assert_eq!(after["vertices"], before["vertices"]);
}

#[test]
fn what_is_wrong_is_said() {
    let served = Served::start(settings());
    let whole = event("START", "2026-01-01T00:00:00Z");
    let changed = |at: &str, value: Json| {
        let mut event = whole.clone();
        *event.pointer_mut(at).unwrap() = value;
        event.to_string()
    };
    for (body, expected) in [
        ("{".to_owned(), "it is not JSON"),
        ("7".to_owned(), "expected an object"),
        ("{}".to_owned(), "`eventTime`: it is missing"),
        (
            changed("/run/runId", json!("7")),
            "`run.runId`: expected a UUID",
        ),
        (
            changed("/eventType", json!("BEGIN")),
            "expected one of START",
        ),
        (changed("/job", Json::Null), "`job`: it is missing"),
        (
            changed("/job/namespace", json!("")),
            "`job.namespace`: it is empty",
        ),
        (
            changed("/inputs/0", json!(1)),
            "`inputs[0]`: expected a dataset",
        ),
        (
            changed("/inputs/0/name", json!("x".repeat(3_000))),
            "`inputs[0].name`: it has 3000 bytes",
        ),
        (
            changed("/run/facets/nobodyKnowsThis", json!(3)),
            "`run.facets.nobodyKnowsThis`: a facet is an object",
        ),
    ] {
        let (status, said) = served.json("POST", "/api/v1/lineage", &body);
        let text = said["error"].as_str().unwrap();
        assert_eq!(status, 400, "{text}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(get(&served, "/api/v1/namespaces")["totalCount"], 0);
    for path in [
        "/api/v1/namespaces/none",
        "/api/v1/namespaces/none/jobs/x",
        "/api/v1/jobs/runs/01912a4b-0000-7000-8000-000000000009",
        "/api/v1/lineage?nodeId=job:ns:none",
    ] {
        assert_eq!(served.json("GET", path, "").0, 404, "{path}");
    }
    for path in [
        "/api/v1/lineage",
        "/api/v1/lineage?nodeId=nothing",
        "/api/v1/lineage?nodeId=job:x:y&id=file:/a",
        "/api/v1/jobs/runs/7",
    ] {
        assert_eq!(served.json("GET", path, "").0, 400, "{path}");
    }
}

#[test]
fn codings_that_are_not_known_are_refused() {
    let served = Served::start(settings());
    // A line break in the path would add a header.
    let path = "/api/v1/lineage HTTP/1.1\r\ncontent-encoding: br\r\nx: ";
    let (status, _, body) = http(served.server.address(), "POST", path, "{}");
    assert_eq!(status, 415, "{body}");
    let path = "/api/v1/lineage HTTP/1.1\r\ncontent-encoding: gzip\r\nx: ";
    let (status, _, body) = http(served.server.address(), "POST", path, "{}");
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("not gzip"), "{body}");
}
