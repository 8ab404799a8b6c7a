//! Rights of RDF graphs: visibility, changes, and the absence of hidden graphs from answers.

use crate::common::{Served, settings};
use crate::sparql::{QUERY, UPDATE};

#[test]
fn graphs_have_owners() {
    let served = Served::start(settings());
    served.update(
        "PREFIX t: <urn:esker:terms/> INSERT DATA { <http://ex/open> <http://ex/p> 0 \
         GRAPH <http://ex/g1> { <http://ex/a> <http://ex/p> 1 } GRAPH <http://ex/g2> { <http://ex/a> <http://ex/p> 2 } \
         GRAPH <http://ex/g3> { <http://ex/a> <http://ex/p> 3 } GRAPH <http://ex/g4> { <http://ex/a> <http://ex/p> 4 } \
         GRAPH <urn:esker:rights> { <http://ex/g1> t:owner 1001 ; t:mode \"0600\" . \
         <http://ex/g2> t:owner 1002 ; t:group 100 ; t:mode \"0640\" . <http://ex/g3> t:mode \"oops\" . } }",
    );
    let csv = ("accept", "text/csv");
    let sees = |who: &str| {
        let query = "SELECT ?o { GRAPH ?g { ?s <http://ex/p> ?o } } ORDER BY ?o";
        let got = served.send("POST", &format!("/sparql?{who}"), &[QUERY, csv], query);
        assert_eq!(got.status, 200, "{}", got.body);
        got.body
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(sees(""), "1 2 3 4");
    assert_eq!(sees("uid=0"), "1 2 3 4");
    assert_eq!(sees("uid=1001"), "1 4");
    assert_eq!(sees("uid=1003&gids=7,100"), "2 4");
    // A hidden graph does not exist in queries by name, queries over all graphs, and dumps.
    for path in [
        "/rdf-graphs?graph=http://ex/g2&",
        "/api/v1/rdf/dump?graph=http://ex/g2&",
    ] {
        assert_eq!(
            served
                .send("GET", &format!("{path}uid=1001"), &[], "")
                .status,
            404,
            "{path}"
        );
        assert_eq!(
            served
                .send("GET", &format!("{path}uid=1002"), &[], "")
                .status,
            200,
            "{path}"
        );
    }
    let got = served.send("GET", "/api/v1/rdf/dump?uid=1001", &[], "");
    assert!(
        got.body.contains("g1") && !got.body.contains("<http://ex/p> \"2\""),
        "{}",
        got.body
    );
    let from = "SELECT ?o FROM <http://ex/g2> FROM <http://ex/g4> { ?s ?p ?o }";
    let got = served.send("POST", "/sparql?uid=1001", &[QUERY, csv], from);
    assert_eq!(got.body, "o\r\n4\r\n");
    // An update changes only permitted graphs, atomically, and reads no more than a query.
    let change = |who: &str, text: &str| {
        let got = served.send("POST", &format!("/sparql?{who}"), &[UPDATE], text);
        (got.status, got.body)
    };
    let insert = |g: u32| {
        format!("INSERT DATA {{ GRAPH <http://ex/g{g}> {{ <http://ex/new> <http://ex/q> {g} }} }}")
    };
    assert_eq!(change("uid=1001", &insert(1)).0, 200);
    assert_eq!(change("uid=1001", &insert(4)).0, 200);
    assert_eq!(change("uid=1001", &insert(9)).0, 200);
    let (status, said) = change("uid=1001", &insert(2));
    assert_eq!(status, 403);
    assert!(
        said.contains("graph <http://ex/g2>: permission denied (EACCES)"),
        "{said}"
    );
    assert_eq!(
        change("uid=1003&gids=100", &insert(2)).0,
        403,
        "the group only reads"
    );
    assert_eq!(change("uid=1002", &insert(2)).0, 200);
    let both = format!("{} ; {}", insert(4).replace("new", "newer"), insert(3));
    assert_eq!(change("uid=1001", &both).0, 403);
    assert!(
        !served.ask_query("ASK { GRAPH ?g { <http://ex/newer> ?p ?o } }"),
        "all or nothing"
    );
    assert_eq!(change("uid=1001", "DROP ALL").0, 403);
    assert_eq!(
        change("uid=1001", "COPY <http://ex/g2> TO <http://ex/copy>").0,
        200
    );
    assert!(
        !served.ask_query("ASK { GRAPH <http://ex/copy> { ?s ?p ?o } }"),
        "nothing is seen there"
    );
    // Only `admin` may change rights.
    let mine =
        "INSERT DATA { GRAPH <urn:esker:rights> { <http://ex/g2> <urn:esker:terms/owner> 1001 } }";
    assert_eq!(change("uid=1001", mine).0, 403);
    for (verb, body) in [
        ("PUT", "<http://a> <http://b> 1 ."),
        ("POST", "<http://a> <http://b> 2 ."),
        ("DELETE", ""),
    ] {
        let turtle = [("content-type", "text/turtle")];
        let path = "/rdf-graphs?graph=http://ex/g2&uid=";
        let got = served.send(verb, &format!("{path}1001"), &turtle, body);
        assert_eq!(got.status, 403, "{verb}: {}", got.body);
        let got = served.send(verb, &format!("{path}1002"), &turtle, body);
        assert!(got.status < 300, "{verb}: {}", got.body);
    }
    assert_eq!(
        served
            .send("POST", "/api/v1/rdf/drop?uid=1001", &[], "")
            .status,
        403
    );
    assert!(served.ask_query("ASK { <http://ex/open> ?p ?o }"));
    // The default graph has a name of its own.
    served.update("INSERT DATA { GRAPH <urn:esker:rights> { <urn:esker:default> <urn:esker:terms/mode> \"0600\" } }");
    let ask = |who: &str| {
        served
            .send(
                "POST",
                &format!("/sparql{who}"),
                &[QUERY],
                "ASK { ?s ?p ?o }",
            )
            .body
    };
    assert!(ask("?uid=1001").contains("false"));
    assert!(ask("").contains("true"));
}

/// Updates of a graph without the right to write fail in the same way, whatever it contains.
#[test]
fn updates_tell_nothing_of_graphs_that_are_not_seen() {
    let served = Served::start(settings());
    served.update(
        "PREFIX t: <urn:esker:terms/> INSERT DATA { GRAPH <http://ex/theirs> { <http://ex/a> <http://ex/p> 'secret' } \
         GRAPH <http://ex/inbox> { <http://ex/a> <http://ex/p> 'secret' } GRAPH <http://ex/mine> { <http://ex/a> <http://ex/p> 1 } \
         GRAPH <urn:esker:rights> { <http://ex/theirs> t:owner 1002 ; t:mode '0600' . <http://ex/inbox> t:owner 1002 ; t:mode '0622' . \
         <http://ex/mine> t:owner 1001 ; t:mode '0600' } }",
    );
    let change = |text: &str| {
        let got = served.send("POST", "/sparql?uid=1001", &[UPDATE], text);
        (got.status, got.body)
    };
    let denied = |graph: &str| {
        let said = format!("graph <http://ex/{graph}>: permission denied (EACCES)\n");
        (403, said)
    };
    // A graph with the right to write and without the right to read cannot be changed: the result would reveal its content.
    for graph in ["theirs", "inbox"] {
        for value in ["secret", "wrong", "no such term"] {
            let quad =
                format!("GRAPH <http://ex/{graph}> {{ <http://ex/a> <http://ex/p> '{value}' }}");
            let bound = format!("GRAPH ?g {{ <http://ex/a> <http://ex/p> '{value}' }}");
            for update in [
                format!("INSERT DATA {{ {quad} }}"),
                format!("DELETE DATA {{ {quad} }}"),
                format!("DELETE {{ {quad} }} WHERE {{}}"),
                format!("INSERT {{ {bound} }} WHERE {{ BIND(<http://ex/{graph}> AS ?g) }}"),
                format!(
                    "INSERT {{ {bound} }} WHERE {{ BIND(IRI(CONCAT('http://ex/', '{graph}')) AS ?g) }}"
                ),
                format!("INSERT {{ {quad} }} WHERE {{ <http://ex/none> ?p ?o }}"),
            ] {
                assert_eq!(change(&update), denied(graph), "{update}");
            }
        }
        for update in ["CLEAR GRAPH", "DROP GRAPH", "DROP SILENT GRAPH"] {
            assert_eq!(
                change(&format!("{update} <http://ex/{graph}>")),
                denied(graph)
            );
        }
    }
    // Creating a graph changes nothing, and reveals only visible graphs.
    assert_eq!(change("CREATE GRAPH <http://ex/theirs>").0, 200);
    assert_eq!(change("CREATE GRAPH <http://ex/none>").0, 200);
    assert_eq!(change("CREATE GRAPH <http://ex/mine>").0, 400);
    // Rights may not name hidden graphs either.
    let copy = "INSERT { GRAPH <http://ex/mine> { ?s ?p ?o } } WHERE { GRAPH <urn:esker:rights> { ?s ?p ?o } }";
    assert_eq!(change(copy).0, 200);
    assert!(!served.ask_query("ASK { GRAPH <http://ex/mine> { <http://ex/theirs> ?p ?o } }"));
    assert!(served.ask_query("ASK { GRAPH <http://ex/mine> { <http://ex/mine> ?p ?o } }"));
    assert!(served.ask_query("ASK { GRAPH <http://ex/theirs> { ?s ?p 'secret' } }"));
}

/// The right to change a schema gives no other user rights, and reveals nothing that follows from a hidden schema.
#[test]
fn nothing_follows_for_rights_or_from_hidden_schemas() {
    const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
    let served = Served::start(settings());
    served.update(&format!(
        "PREFIX t: <urn:esker:terms/> INSERT DATA {{ t:group <{RDFS}subPropertyOf> t:owner . <http://ex/C> <{RDFS}subClassOf> <http://ex/D> \
         GRAPH <http://ex/theirs> {{ <http://ex/a> <http://ex/p> 'secret' }} GRAPH <http://ex/open> {{ <http://ex/a> a <http://ex/C> }} \
         GRAPH <urn:esker:rights> {{ <http://ex/theirs> t:owner 1002 ; t:group 100 ; t:mode '0600' }} }}"
    ));
    let all =
        "{\"name\":\"x\",\"format\":\"nt\",\"bytes\":35}\n<http://a> <http://b> <http://c> .\n";
    let got = served.send("POST", "/api/v1/rdf/load?infer=rdfs", &[], all);
    assert_eq!(got.status, 200, "{}", got.body);
    let asks = |who: &str, query: &str| {
        let got = served.send("POST", &format!("/sparql?{who}"), &[QUERY], query);
        assert_eq!(got.status, 200, "{}", got.body);
        got.body.contains("true")
    };
    // By the schema, the group is an owner, but user 100 is not.
    let secret = "ASK { GRAPH <http://ex/theirs> { ?s ?p 'secret' } }";
    assert!(asks(
        "",
        "ASK { GRAPH <urn:esker:rights> { <http://ex/theirs> <urn:esker:terms/owner> 100 } }"
    ));
    assert!(asks("uid=1002", secret));
    assert!(!asks("uid=100&gids=5", secret));
    // Triples inferred from the default graph's schema are visible as long as that graph is.
    let follows = "ASK { GRAPH <http://ex/open> { ?s a <http://ex/D> } }";
    assert!(asks("uid=1001", follows));
    served.update("INSERT DATA { GRAPH <urn:esker:rights> { <urn:esker:default> <urn:esker:terms/mode> '0600' } }");
    assert!(asks("", follows));
    assert!(!asks("uid=1001", follows));
    assert!(asks(
        "uid=1001",
        "ASK { GRAPH <http://ex/open> { ?s a <http://ex/C> } }"
    ));
    // An update cannot read them either.
    let copy = "INSERT { GRAPH <http://ex/copy> { ?s a ?c } } WHERE { GRAPH <http://ex/open> { ?s a ?c } }";
    let got = served.send("POST", "/sparql?uid=1001", &[UPDATE], copy);
    assert_eq!(got.status, 200, "{}", got.body);
    let copied = "ASK { GRAPH <http://ex/copy> { ?s a <http://ex/D> } }";
    assert!(!asks("uid=1001", copied));
}

/// Totals are for principals that see all data; the number of inferred triples counts those that the sender sees.
#[test]
fn totals_tell_nothing_of_graphs_that_are_not_seen() {
    const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
    let loads = |theirs: bool| {
        let served = Served::start(settings());
        if theirs {
            served.update(&format!(
                "PREFIX t: <urn:esker:terms/> INSERT DATA {{ GRAPH <http://ex/theirs> {{ \
                 <http://ex/C> <{RDFS}subClassOf> <http://ex/D> . <http://ex/a> a <http://ex/C> }} \
                 GRAPH <urn:esker:rights> {{ <http://ex/theirs> t:owner 1002 ; t:mode '0600' }} }}"
            ));
        }
        let triple = "<http://a> <http://b> <http://c> .";
        let length = triple.len();
        let body = format!("{{\"name\":\"x\",\"format\":\"nt\",\"bytes\":{length}}}\n{triple}");
        let load = |who: &str| {
            let url = format!("/api/v1/rdf/load?infer=rdfs{who}");
            let got = served.send("POST", &url, &[], &body);
            assert_eq!(got.status, 200, "{}", got.body);
            got.body
        };
        let checkpoint = |who: &str| {
            let url = format!("/api/v1/rdf/checkpoint{who}");
            served.send("POST", &url, &[], "").status
        };
        let said = (load("&uid=1001"), checkpoint("?uid=1001"));
        assert_eq!(checkpoint(""), 200);
        assert_eq!(load("").contains("\"inferred\":1"), theirs);
        said
    };
    let said = loads(true);
    assert_eq!(said, loads(false));
    assert_eq!(said.1, 403);
}
