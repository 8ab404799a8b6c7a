//! The Graph Store Protocol, following the W3C test suite, and the requests of `esker rdf`.

use crate::common::{Served, settings};
use crate::raw::{encoded, send};
use esker_server::Settings;
use esker_server::settings::Sparql;

const TURTLE: (&str, &str) = ("content-type", "text/turtle; charset=utf-8");
const ONE: &str = "@prefix f: <http://f/> . <> a f:Person ; f:card [ f:fn \"John Doe\" ] .";

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Puts, reads, replaces and drops a graph, with both ways of naming it.
#[test]
fn a_graph_comes_and_goes() {
    let served = Served::start(settings());
    let iri = "http://localhost/rdf-graphs/person/1.ttl";
    let direct = "/rdf-graphs/person/1.ttl".to_owned();
    let indirect = format!("/rdf-graphs?graph={}", encoded(iri));
    let plain = format!("/rdf-graphs?graph={iri}");
    let other = format!("/rdf-graphs/service?graph={}", encoded("http://ex/other"));
    for (path, same) in [(&direct, &indirect), (&plain, &direct), (&other, &other)] {
        assert_eq!(served.send("GET", path, &[], "").status, 404, "{path}");
        assert_eq!(served.send("HEAD", path, &[], "").status, 404);
        assert_eq!(served.send("DELETE", path, &[], "").status, 404);
        let got = served.send("PUT", path, &[TURTLE], ONE);
        assert_eq!(
            (got.status, got.body.as_str()),
            (201, "{\"read\":3,\"new\":3}")
        );
        let got = served.send("GET", same, &[("accept", "text/turtle")], "");
        assert_eq!(got.status, 200);
        assert_eq!(got.content_type(), "text/turtle; charset=utf-8");
        assert!(got.body.contains("\"John Doe\""), "{}", got.body);
        let jane = ONE.replace("John", "Jane");
        assert_eq!(served.send("PUT", path, &[TURTLE], &jane).status, 204);
        let lines = [("accept", "application/n-triples")];
        let got = served.send("GET", same, &lines, "");
        assert_eq!(got.body.lines().count(), 3, "{}", got.body);
        assert!(got.body.contains("\"Jane Doe\""), "{}", got.body);
        let got = served.send("POST", path, &[TURTLE], "<> <http://f/name> \"Jane\" .");
        assert_eq!(
            (got.status, got.body.as_str()),
            (200, "{\"read\":1,\"new\":1}")
        );
        let got = served.send("GET", same, &lines, "");
        assert_eq!(got.body.lines().count(), 4);
        let got = served.send("HEAD", path, &[("accept", "text/turtle")], "");
        assert_eq!(got.status, 200);
        assert_eq!(got.content_type(), "text/turtle; charset=utf-8");
        assert_eq!(served.send("DELETE", same, &[], "").status, 204);
        assert_eq!(served.send("GET", path, &[], "").status, 404);
    }
    assert!(!served.ask_query("ASK { GRAPH ?g { ?s ?p ?o } }"));
}

#[test]
fn the_default_graph_is_there_always() {
    let served = Served::start(settings());
    let got = served.send("GET", "/rdf-graphs?default", &[], "");
    assert_eq!((got.status, got.body.as_str()), (200, ""));
    served.update("INSERT DATA { GRAPH <http://ex/g> { <http://ex/a> <http://ex/p> 1 } }");
    let person = "[] a <http://f/Person> .";
    assert_eq!(
        served
            .send("PUT", "/rdf-graphs?default", &[TURTLE], person)
            .status,
        201
    );
    assert_eq!(
        served
            .send("PUT", "/rdf-graphs?default=", &[TURTLE], person)
            .status,
        204
    );
    let got = served.send("GET", "/rdf-graphs?default", &[], "");
    assert!(got.body.contains("http://f/Person"), "{}", got.body);
    assert_eq!(
        served.send("DELETE", "/rdf-graphs?default", &[], "").status,
        204
    );
    assert_eq!(served.send("GET", "/rdf-graphs?default", &[], "").body, "");
    assert!(served.ask_query("ASK { GRAPH ?g { ?s ?p ?o } }"));
}

#[test]
fn a_graph_without_a_name_gets_one() {
    let served = Served::start(settings());
    let got = served.send("POST", "/rdf-graphs", &[TURTLE], ONE);
    assert_eq!(got.status, 201);
    let name = got.header("location").unwrap().to_owned();
    let path = name.strip_prefix("http://localhost").unwrap();
    let got = served.send("GET", path, &[], "");
    assert!(got.body.contains("John Doe"), "{}", got.body);
    let indirect = format!("/rdf-graphs?graph={}", encoded(&name));
    assert_eq!(served.send("GET", &indirect, &[], "").body, got.body);
}

/// The URL is decoded only once.
#[test]
fn percents_are_decoded_once() {
    let served = Served::start(settings());
    for path in [
        "/rdf-graphs?graph=http://ex/%31.ttl",
        "/rdf-graphs?graph=http://ex/%2531.ttl",
    ] {
        let text = format!("<http://ex/a> <http://ex/path> \"{path}\" .");
        assert_eq!(served.send("PUT", path, &[TURTLE], &text).status, 201);
    }
    assert!(served.ask_query(
        "ASK { GRAPH <http://ex/1.ttl> { ?s ?p ?o } GRAPH <http://ex/%31.ttl> { ?a ?b ?c } }"
    ));
}

#[test]
fn graphs_come_in_any_format_and_in_forms() {
    let served = Served::start(settings());
    let expected = "<http://ex/a> <http://ex/p> \"x\" .";
    let xml = "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://ex/\">\
               <rdf:Description rdf:about=\"http://ex/a\"><e:p>x</e:p></rdf:Description></rdf:RDF>";
    for (content_type, text) in [
        ("text/turtle", expected),
        ("application/n-triples", expected),
        ("application/rdf+xml", xml),
        (
            "application/ld+json",
            "{\"@id\": \"http://ex/a\", \"http://ex/p\": \"x\"}",
        ),
    ] {
        let headers = [("content-type", content_type)];
        let got = served.send("PUT", "/rdf-graphs?graph=http://ex/g", &headers, text);
        assert!(matches!(got.status, 201 | 204), "{}", got.body);
        for accept in ["application/rdf+xml", "application/ld+json", "text/turtle"] {
            let got = served.send(
                "GET",
                "/rdf-graphs?graph=http://ex/g",
                &[("accept", accept)],
                "",
            );
            assert!(got.content_type().starts_with(accept), "{}", got.head);
            let headers = [("content-type", accept)];
            let got = served.send("PUT", "/rdf-graphs?graph=http://ex/h", &headers, &got.body);
            assert!(matches!(got.status, 201 | 204), "{}", got.body);
            let lines = [("accept", "application/n-triples")];
            let got = served.send("GET", "/rdf-graphs?graph=http://ex/h", &lines, "");
            assert_eq!(got.body.trim(), expected);
        }
    }
    let form = "--b6\r\ncontent-disposition: form-data; name=\"a\"; filename=\"a.ttl\"\r\ncontent-type: text/turtle\r\n\r\n\
                <http://ex/a> <http://ex/q> 1 .\r\n--b6\r\ncontent-type: application/n-triples\r\n\r\n\
                <http://ex/a> <http://ex/q> <http://ex/b> .\r\n--b6--\r\n";
    let multipart = [("content-type", "multipart/form-data; boundary=b6")];
    let got = served.send("POST", "/rdf-graphs?graph=http://ex/g", &multipart, form);
    assert_eq!(
        (got.status, got.body.as_str()),
        (200, "{\"read\":2,\"new\":2}")
    );
    // Compressed content.
    let packed = include_bytes!("sparql_graph.nt.gz");
    let headers = [
        ("content-type", "application/n-triples"),
        ("content-encoding", "gzip"),
    ];
    let got = send(
        served.server.address(),
        "PUT",
        "/rdf-graphs?graph=http://ex/z",
        &headers,
        packed,
    );
    assert_eq!(got.body, "{\"read\":2,\"new\":2}");
}

#[test]
fn what_is_no_graph_is_refused_and_changes_nothing() {
    let served = Served::start(Settings {
        sparql: Sparql {
            upload_bytes: 10_000,
            ..Sparql::default()
        },
        ..settings()
    });
    served.send("PUT", "/rdf-graphs?default", &[TURTLE], ONE);
    let csv = ("content-type", "text/csv");
    let lz4 = ("content-encoding", "lz4");
    let broken = "<http://ex/a> <http://ex/p> 1 .\n<http://ex/a> <http://ex/p> oops .\n";
    let long = format!("{} .", "<http://ex/a> <http://ex/p> 1 .\n".repeat(1_000));
    for (status, verb, path, headers, body) in [
        (400, "GET", "/rdf-graphs", vec![], ""),
        (400, "PUT", "/rdf-graphs", vec![TURTLE], ONE),
        (
            400,
            "GET",
            "/rdf-graphs?graph=http://ex/g&default",
            vec![],
            "",
        ),
        (400, "GET", "/rdf-graphs?graph=relative", vec![], ""),
        (415, "PUT", "/rdf-graphs?default", vec![csv], ONE),
        (415, "PUT", "/rdf-graphs?default", vec![], ONE),
        (415, "PUT", "/rdf-graphs?default", vec![TURTLE, lz4], ONE),
        (400, "PUT", "/rdf-graphs?default", vec![TURTLE], broken),
        (413, "PUT", "/rdf-graphs?default", vec![TURTLE], &*long),
        (
            406,
            "GET",
            "/rdf-graphs?default",
            vec![("accept", "text/html")],
            "",
        ),
        (405, "PATCH", "/rdf-graphs?default", vec![TURTLE], ONE),
    ] {
        let got = served.send(verb, path, &headers, body);
        assert_eq!(got.status, status, "{verb} {path}: {}", got.body);
    }
    let got = served.send("PUT", "/rdf-graphs?default", &[TURTLE], broken);
    assert!(got.body.contains("body:2:29"), "{}", got.body);
    assert!(served.ask_query("ASK { ?s <http://f/fn> \"John Doe\" }"));
}

/// A small body that decompresses beyond the limit is refused, and nothing of it is stored.
#[test]
fn a_body_that_unpacks_to_too_much_is_refused() {
    let small = Settings {
        sparql: Sparql {
            upload_bytes: 10_000,
            ..Sparql::default()
        },
        ..settings()
    };
    let zeros = "0".repeat(4_000);
    let line = format!("<http://ex/bomb> <http://ex/p> \"{zeros}\" .\n");
    // 64 kB for a server with a limit of 10 kB; 64 MB for one that accepts any size.
    for (settings, lines) in [(small, 1 << 4), (settings(), 1 << 14)] {
        let served = Served::start(settings);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..lines {
            std::io::Write::write_all(&mut packed, line.as_bytes()).unwrap();
        }
        let packed = packed.finish().unwrap();
        let headers = [
            ("content-type", "application/n-triples"),
            ("content-encoding", "gzip"),
        ];
        let at = served.server.address();
        let got = send(at, "PUT", "/rdf-graphs?default", &headers, &packed);
        assert_eq!(got.status, 413, "{}", got.body);
        assert!(got.body.contains("unpack"), "{}", got.body);
        assert!(!served.ask_query("ASK { <http://ex/bomb> ?p ?o }"));
    }
}

/// A file of a load.
fn file(name: &str, format: &str, content: &str) -> String {
    format!(
        "{{\"name\":\"{name}\",\"format\":\"{format}\",\"bytes\":{}}}\n{content}",
        content.len()
    )
}

#[test]
fn a_load_of_many_files_is_all_or_nothing() {
    let served = Served::start(settings());
    let load = |query: &str, body: &str| {
        served.send("POST", &format!("/api/v1/rdf/load{query}"), &[], body)
    };
    let one = file(
        "a.nt",
        "nt",
        "<http://ex/a> <http://ex/p> _:b .\n_:b <http://ex/p> \"1\" .\n",
    );
    let two = file(
        "b.nq",
        "nq",
        "<http://ex/a> <http://ex/p> _:b <http://ex/g> .\n",
    );
    let bad = file("c.nt", "nt", "<http://ex/a> <http://ex/p> \"2\" .\noops\n");
    let got = load("", &[&*one, &*two, &*bad].concat());
    assert_eq!(got.status, 400);
    assert!(got.body.contains("c.nt:2:1"), "{}", got.body);
    for cut in [1, one.len() / 2, one.len() - 1] {
        let got = load("", &one[..cut]);
        assert_eq!(got.status, 400, "{}", got.body);
    }
    assert!(!served.ask_query("ASK { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"));
    let got = load("?lenient=true", &[&*one, &*two, &*bad].concat());
    let json: serde_json::Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(
        (&json["files"], &json["read"], &json["new"]),
        (&3.into(), &4.into(), &4.into())
    );
    assert_eq!(
        json["skipped_lines"][0]
            .as_str()
            .unwrap()
            .split(": ")
            .next(),
        Some("c.nt:2:1")
    );
    let got = load(&format!("?graph={}", encoded("http://ex/h")), &one);
    assert_eq!(got.status, 200, "{}", got.body);
    let got = served.send("GET", "/api/v1/rdf/stats", &[], "");
    let json: serde_json::Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(
        (&json["quads"], &json["named_graphs"]),
        (&6.into(), &2.into())
    );
    let got = served.send("GET", "/api/v1/rdf/dump?graph=default&format=nt", &[], "");
    assert_eq!(got.body.lines().count(), 3);
    let all = served.send("GET", "/api/v1/rdf/dump", &[], "");
    assert_eq!(all.content_type(), "application/n-quads");
    assert_eq!(
        served
            .send("GET", "/api/v1/rdf/dump?format=nt", &[], "")
            .status,
        400
    );
    assert_eq!(
        served
            .send("GET", "/api/v1/rdf/dump?graph=http://no", &[], "")
            .status,
        404
    );
    assert_eq!(
        served
            .send("POST", "/api/v1/rdf/checkpoint", &[], "")
            .status,
        200
    );
    let got = served.send("POST", "/api/v1/rdf/drop", &[], "");
    assert_eq!(got.body, "{\"dropped\":6}");
    assert_eq!(load("", &file("all.nq", "nq", &all.body)).status, 200);
    assert_eq!(
        served
            .send("GET", "/api/v1/rdf/dump", &[], "")
            .body
            .lines()
            .count(),
        sorted(&all.body).len()
    );
    assert_eq!(served.send("GET", "/api/v1/rdf/x", &[], "").status, 404);
}
