//! The metadata graph over HTTP.

use crate::common::{Served, settings};
use crate::raw::encoded;

const GRAPH: &str = "urn:esker:meta";

#[test]
fn the_metadata_graph_is_asked_read_and_not_written() {
    let served = Served::start(settings());
    let any = format!("ASK {{ GRAPH <{GRAPH}> {{ ?s ?p ?o }} }}");
    assert!(!served.ask_query(&any), "of nothing there is nothing");
    let put = |lines: &str| {
        let (status, done) = served.json("POST", "/api/v1/apply", lines);
        assert_eq!(status, 200, "{done}");
    };
    put(r#"{"op":"put_vertex","id":"job:1"}
{"op":"put_vertex","id":"file:/a","attributes":{"size":7}}
{"op":"put_edge","src":"job:1","type":"write","dst":"file:/a"}"#);
    served.update("INSERT DATA { <urn:esker:file:/a> <http://ex/note> \"mine\" }");
    let joined = format!(
        "PREFIX prov: <http://www.w3.org/ns/prov#> \
         ASK {{ ?f <http://ex/note> \"mine\" GRAPH <{GRAPH}> {{ ?f prov:wasGeneratedBy <urn:esker:job:1> }} }}"
    );
    assert!(served.ask_query(&joined));
    put(r#"{"op":"set","id":"file:/a","set":{"quality":"good"}}"#);
    let good = "ASK { GRAPH ?g { ?f <urn:esker:attributes/quality> \"good\" } }";
    assert!(served.ask_query(good), "it follows");
    // The present graph, and a past one, over the Graph Store Protocol.
    let turtle = ("accept", "application/n-triples");
    let read = |iri: &str, more: &str| {
        let path = format!("/rdf-graphs/service?graph={}{more}", encoded(iri));
        served.send("GET", &path, &[turtle], "")
    };
    let got = read(GRAPH, "");
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(
        got.body
            .contains("<urn:esker:job:1> <urn:esker:edges/write> <urn:esker:file:/a> .")
    );
    assert_eq!(read(&format!("{GRAPH}?as_of=2000-01-01"), "").status, 404);
    assert_eq!(read(&format!("{GRAPH}?as_of=soon"), "").status, 400);
    let stats = served.send("GET", "/api/v1/rdf/stats", &[], "").body;
    assert!(stats.contains("\"quads\":1,"), "{stats}");
    assert!(stats.contains("\"meta_quads\":"), "{stats}");
    let dumped = format!("/api/v1/rdf/dump?graph={}", encoded(GRAPH));
    assert!(
        served
            .send("GET", &dumped, &[], "")
            .body
            .contains("prov#wasGeneratedBy")
    );
    let all = served.send("GET", "/api/v1/rdf/dump", &[], "").body;
    assert!(!all.contains(GRAPH) && all.contains("mine"), "{all}");
    // The metadata graph cannot be changed.
    let path = format!("/rdf-graphs/service?graph={}", encoded(GRAPH));
    let body = "<http://a/x> <http://a/p> 1 .";
    let kind = ("content-type", "text/turtle");
    for verb in ["PUT", "POST", "DELETE"] {
        let got = served.send(verb, &path, &[kind], body);
        assert_eq!(got.status, 400, "{verb}: {}", got.body);
        assert!(got.body.contains("is the metadata graph"), "{}", got.body);
    }
    let update = ("content-type", "application/sparql-update");
    for text in [
        format!("INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:a> <urn:b> 1 }} }}"),
        format!("CLEAR GRAPH <{GRAPH}>"),
        format!("COPY DEFAULT TO <{GRAPH}>"),
    ] {
        let got = served.send("POST", "/sparql", &[update], &text);
        assert_eq!(got.status, 400, "{text}: {}", got.body);
    }
    served.update(&format!("COPY <{GRAPH}> TO <http://ex/copy>"));
    served.update("DROP ALL");
    assert!(served.ask_query(&any));
}

#[test]
fn requests_on_behalf_of_users_see_what_these_may_read() {
    let served = Served::start(settings());
    let lines = r#"{"op":"create_object","name":"hidden","app":"vpic","owner":5,"step":1,"attributes":{"mode":384}}
{"op":"put_vertex","id":"job:1"}"#;
    let (status, done) = served.json("POST", "/api/v1/apply", lines);
    assert_eq!(status, 200, "{done}");
    let query = encoded(&format!(
        "SELECT ?s FROM <{GRAPH}> {{ ?s <urn:esker:attributes/app> ?o }}"
    ));
    let csv = ("accept", "text/csv");
    let rows = |who: &str| {
        let got = served.send("GET", &format!("/sparql?query={query}{who}"), &[csv], "");
        assert_eq!(got.status, 200, "{}", got.body);
        got.body.lines().count() - 1
    };
    assert_eq!(
        (rows(""), rows("&uid=5"), rows("&uid=6&gids=5,7")),
        (1, 1, 0)
    );
    let wrong = served.send("GET", &format!("/sparql?query={query}&gids=5"), &[csv], "");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
}
