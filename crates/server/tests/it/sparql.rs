//! The SPARQL 1.1 Protocol, following the W3C test suite: all forms of queries and updates, formats, and errors.

use crate::common::{Served, settings};
use crate::raw::{Got, encoded, send};
use esker_server::Settings;
use esker_server::settings::{Limits, Sparql};
use esker_testkit::wait::wait_until;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
pub(crate) const QUERY: (&str, &str) = ("content-type", "application/sparql-query");
pub(crate) const UPDATE: (&str, &str) = ("content-type", "application/sparql-update");

impl Served {
    pub(crate) fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        send(self.server.address(), verb, path, headers, body.as_bytes())
    }

    pub(crate) fn ask_query(&self, query: &str) -> bool {
        let got = self.send("POST", "/sparql", &[QUERY], query);
        assert_eq!(got.status, 200, "{query}: {}", got.body);
        got.body.contains("true")
    }

    pub(crate) fn update(&self, update: &str) {
        let got = self.send("POST", "/sparql", &[UPDATE], update);
        assert_eq!(got.status, 200, "{update}: {}", got.body);
    }
}

/// Three graphs, each with its name as content.
fn three() -> Served {
    let served = Served::start(settings());
    for n in 1..=3 {
        served.update(&format!(
            "INSERT DATA {{ GRAPH <http://ex/g{n}> {{ <http://ex/g{n}> a <http://ex/T> }} }}"
        ));
    }
    served
}

#[test]
fn queries_come_by_get_by_form_and_as_they_are() {
    let served = Served::start(settings());
    let yes = |got: Got| {
        assert_eq!(got.status, 200, "{}", got.body);
        assert_eq!(got.content_type(), "application/sparql-results+json");
        assert_eq!(got.body, "{\"head\":{},\"boolean\":true}");
    };
    let query = encoded("ASK {}");
    for path in ["/sparql", "/sparql/"] {
        yes(served.send("GET", &format!("{path}?query={query}"), &[], ""));
        yes(served.send("POST", path, &[FORM], &format!("query={query}")));
        yes(served.send("POST", path, &[QUERY], "ASK {}"));
    }
    let utf8 = ("content-type", "application/sparql-query; charset=UTF-8");
    yes(served.send("POST", "/sparql", &[utf8], "ASK {}"));
    // Clients add parameters of their own.
    let own = format!("/sparql?query={query}&output=json&results=json&format=json");
    yes(served.send("GET", &own, &[], ""));
    let head = served.send("HEAD", &format!("/sparql?query={query}"), &[], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn graphs_that_the_request_names_are_asked() {
    let served = three();
    let (one, two) = (encoded("http://ex/g1"), encoded("http://ex/g2"));
    let default = format!("&default-graph-uri={one}&default-graph-uri={two}");
    let named = default.replace("default-", "named-");
    let both = "ASK { <http://ex/g1> a ?t . <http://ex/g2> a ?u }";
    let apart = "ASK { GRAPH ?g { <http://ex/g1> a ?t } GRAPH ?h { <http://ex/g2> a ?u } }";
    assert!(!served.ask_query(both));
    let yes = |path: &str, headers: &[(&str, &str)], body: &str| {
        let verb = if body.is_empty() { "GET" } else { "POST" };
        let got = served.send(verb, path, headers, body);
        assert!(got.body.contains("true"), "{path}: {}", got.body);
    };
    yes(
        &format!("/sparql?query={}{default}", encoded(both)),
        &[],
        "",
    );
    yes(&format!("/sparql?x=1{default}"), &[QUERY], both);
    yes(
        "/sparql",
        &[FORM],
        &format!("query={}{default}", encoded(both)),
    );
    yes(&format!("/sparql?query={}{named}", encoded(apart)), &[], "");
    yes(&format!("/sparql?x=1{named}"), &[QUERY], apart);
    // Both kinds of graphs; the request's parameters override the text.
    let full = "ASK FROM <http://ex/g1> { <http://ex/g3> a ?t GRAPH ?g { <http://ex/g1> a ?u } }";
    let third = encoded("http://ex/g3");
    yes(
        &format!("/sparql?default-graph-uri={third}{named}"),
        &[QUERY],
        full,
    );
    let no = served.send(
        "POST",
        &format!("/sparql?named-graph-uri={third}"),
        &[QUERY],
        apart,
    );
    assert!(no.body.contains("false"), "{}", no.body);
    let wrong = served.send("POST", "/sparql?default-graph-uri=x", &[QUERY], "ASK {}");
    assert_eq!(wrong.status, 400);
}

#[test]
fn answers_have_the_format_that_was_asked_for() {
    let served = three();
    let select = "SELECT ?g { GRAPH ?g { ?g a <http://ex/T> } } ORDER BY ?g";
    let construct = "CONSTRUCT { ?g a ?t } { GRAPH ?g { ?g a ?t } }";
    let get = |query: &str, accept: &str| {
        let headers = [QUERY, ("accept", accept)];
        served.send("POST", "/sparql", &headers, query)
    };
    let typed = |query: &str, accept: &str| get(query, accept).content_type().to_owned();
    let json = "application/sparql-results+json";
    let xml = "application/sparql-results+xml";
    assert_eq!(typed(select, "*/*"), json);
    assert_eq!(typed(select, xml), xml);
    assert_eq!(typed(select, "application/rdf+xml, application/xml"), xml);
    assert_eq!(typed(select, "text/csv"), "text/csv; charset=utf-8");
    assert_eq!(
        typed(select, "text/tab-separated-values"),
        "text/tab-separated-values; charset=utf-8"
    );
    assert_eq!(
        typed(
            select,
            "application/sparql-results+json;q=0.3, text/csv;q=0.9"
        ),
        "text/csv; charset=utf-8"
    );
    assert_eq!(typed("ASK {}", xml), xml);
    assert_eq!(typed(construct, "*/*"), "text/turtle; charset=utf-8");
    assert_eq!(
        typed("DESCRIBE <http://ex/g1>", "*/*"),
        "text/turtle; charset=utf-8"
    );
    for accept in [
        "application/rdf+xml",
        "application/n-triples",
        "application/ld+json",
    ] {
        assert_eq!(typed(construct, accept), accept);
    }
    assert_eq!(
        get(select, "text/csv").body,
        "g\r\nhttp://ex/g1\r\nhttp://ex/g2\r\nhttp://ex/g3\r\n"
    );
    let none = get(select, "text/turtle");
    assert_eq!(none.status, 406);
    assert!(none.body.contains("text/csv"), "{}", none.body);
    let by_parameter = format!("/sparql?query={}&format=csv", encoded(select));
    let got = served.send("GET", &by_parameter, &[("accept", "*/*")], "");
    assert_eq!(got.content_type(), "text/csv; charset=utf-8");
    assert_eq!(got.header("vary"), Some("origin, accept"));
}

#[test]
fn updates_come_by_form_and_as_they_are_and_name_graphs() {
    let served = three();
    let form = format!(
        "update={}",
        encoded("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
    );
    let got = served.send("POST", "/sparql", &[FORM], &form);
    assert_eq!(
        (got.status, got.body.as_str()),
        (200, "{\"added\":1,\"removed\":0}")
    );
    served.update("BASE <http://ex/> PREFIX : <http://ex/> INSERT DATA { <a> :p 2 }");
    assert!(served.ask_query("ASK { <http://ex/a> <http://ex/p> 1, 2 }"));
    let copy = "INSERT { GRAPH <http://ex/copy> { ?s a ?t } } WHERE { ?s a ?t }";
    let using = format!(
        "/sparql?using-graph-uri={}&using-graph-uri={}",
        encoded("http://ex/g1"),
        encoded("http://ex/g2")
    );
    let got = served.send("POST", &using, &[UPDATE], copy);
    assert_eq!(got.body, "{\"added\":2,\"removed\":0}");
    let named = format!("/sparql?using-named-graph-uri={}", encoded("http://ex/g3"));
    let copy = "INSERT { GRAPH <http://ex/copy> { ?s a ?t } } WHERE { GRAPH ?g { ?s a ?t } }";
    let got = served.send("POST", &named, &[UPDATE], copy);
    assert_eq!(got.body, "{\"added\":1,\"removed\":0}");
    // Graphs named both in parameters and in the text.
    for text in [
        "INSERT { ?s a ?t } USING <http://ex/g1> WHERE { ?s a ?t }",
        "WITH <http://ex/g1> DELETE { ?s a ?t } WHERE { ?s a ?t }",
    ] {
        let got = served.send("POST", &using, &[UPDATE], text);
        assert_eq!(got.status, 400, "{}", got.body);
    }
    let with = "WITH <http://ex/copy> DELETE { ?s a ?t } WHERE { ?s a ?t }";
    let got = served.send("POST", "/sparql?sync=true", &[UPDATE], with);
    assert_eq!(got.body, "{\"added\":0,\"removed\":3}");
}

#[test]
fn what_the_protocol_forbids_is_refused() {
    let served = Served::start(settings());
    let (ask, clear) = (encoded("ASK {}"), encoded("CLEAR ALL"));
    let text = ("content-type", "text/plain");
    let utf16 = ("content-type", "application/sparql-query; charset=UTF-16");
    for (status, verb, path, headers, body) in [
        (
            405,
            "PUT",
            format!("/sparql?query={ask}"),
            vec![],
            String::new(),
        ),
        (405, "DELETE", "/sparql".into(), vec![], String::new()),
        (
            400,
            "GET",
            format!("/sparql?query={ask}&query={ask}"),
            vec![],
            String::new(),
        ),
        (415, "POST", "/sparql".into(), vec![text], "ASK {}".into()),
        (
            415,
            "POST",
            "/sparql".into(),
            vec![],
            format!("query={ask}"),
        ),
        (415, "POST", "/sparql".into(), vec![], "ASK {}".into()),
        (
            415,
            "POST",
            "/sparql".into(),
            vec![utf16],
            "A\0S\0K\0".into(),
        ),
        (
            400,
            "GET",
            format!("/sparql?query={}", encoded("ASK {")),
            vec![],
            String::new(),
        ),
        (
            400,
            "GET",
            format!("/sparql?update={clear}"),
            vec![],
            String::new(),
        ),
        (
            400,
            "POST",
            "/sparql".into(),
            vec![FORM],
            format!("update={clear}&update={clear}"),
        ),
        (
            400,
            "POST",
            "/sparql".into(),
            vec![FORM],
            format!("update={clear}&query={ask}"),
        ),
        (400, "POST", "/sparql".into(), vec![FORM], "x=1".into()),
        (
            400,
            "POST",
            format!("/sparql?query={ask}"),
            vec![QUERY],
            "ASK {}".into(),
        ),
        (
            400,
            "POST",
            "/sparql".into(),
            vec![UPDATE],
            "CLEAR XYZ".into(),
        ),
        (
            400,
            "POST",
            "/sparql".into(),
            vec![UPDATE],
            "INSERT DATA { <x".into(),
        ),
        (400, "POST", "/sparql".into(), vec![UPDATE], "ASK {}".into()),
        (
            400,
            "POST",
            "/sparql".into(),
            vec![QUERY],
            "CLEAR ALL".into(),
        ),
        (
            400,
            "GET",
            "/sparql?query=%ff".into(),
            vec![],
            String::new(),
        ),
        (
            400,
            "GET",
            format!("/sparql?query={ask}&timeout=soon"),
            vec![],
            String::new(),
        ),
        (404, "GET", "/sparql/x".into(), vec![], String::new()),
    ] {
        let got = served.send(verb, &path, &headers, &body);
        assert_eq!(got.status, status, "{verb} {path} {body}: {}", got.body);
    }
    let bytes = send(
        served.server.address(),
        "POST",
        "/sparql",
        &[QUERY],
        b"ASK { ?s ?p \"\xff\" }",
    );
    assert_eq!(bytes.status, 400);
    let got = served.send(
        "POST",
        "/sparql",
        &[QUERY],
        "SELECT * WHERE {\n  ?s foaf:name ?n }",
    );
    assert_eq!(got.content_type(), "text/plain; charset=utf-8");
    assert!(
        got.body
            .starts_with("line 2, column 6: the prefix `foaf:` is not defined")
            && got.body.contains("\n       ^\n"),
        "{}",
        got.body
    );
    let load = served.send("POST", "/sparql", &[UPDATE], "LOAD <file:///etc/passwd>");
    assert_eq!(load.status, 400);
    assert!(
        load.body.contains("a server reads no files"),
        "{}",
        load.body
    );
    let silent = served.send(
        "POST",
        "/sparql",
        &[UPDATE],
        "LOAD SILENT <file:///etc/passwd>",
    );
    assert_eq!(silent.body, "{\"added\":0,\"removed\":0}");
}

#[test]
fn the_service_says_what_it_is() {
    let served = Served::start(settings());
    let got = served.send("GET", "/sparql", &[], "");
    assert_eq!(got.content_type(), "text/turtle; charset=utf-8");
    assert!(
        got.body.contains("sd:endpoint <http://localhost/sparql>"),
        "{}",
        got.body
    );
    let got = served.send("GET", "/sparql", &[("accept", "application/n-triples")], "");
    assert_eq!(got.content_type(), "application/n-triples");
    assert!(
        got.body
            .contains("sparql-service-description#supportedLanguage>"),
        "{}",
        got.body
    );
    assert_eq!(
        served
            .send("GET", "/sparql", &[("accept", "image/png")], "")
            .status,
        406
    );
}

#[test]
fn pages_of_other_origins_may_what_they_were_allowed() {
    let served = Served::start(Settings {
        sparql: Sparql {
            read_origins: vec!["https://read.example.org".into()],
            write_origins: vec!["https://lab.example.org".into()],
            ..Sparql::default()
        },
        ..settings()
    });
    let insert = "INSERT DATA { <http://ex/a> <http://ex/p> 1 }";
    for (origin, reads, writes) in [
        ("https://lab.example.org", true, true),
        ("https://read.example.org", true, false),
        // The server on this machine, or at the other end of an SSH tunnel.
        ("http://localhost:3000", false, false),
        ("http://127.0.0.1", false, false),
        ("http://lab.example.org", false, false),
        ("https://localhost.evil.org", false, false),
        ("https://evil.org", false, false),
        ("null", false, false),
    ] {
        let from = ("origin", origin);
        let status = |done: u16| match (reads, writes) {
            (_, true) => done,
            (true, false) => 403,
            // The process belongs to the owner, but the page does not.
            (false, false) => 401,
        };
        let got = served.send("POST", "/sparql", &[QUERY, from], "ASK {}");
        assert_eq!(got.status, if reads { 200 } else { 401 }, "{origin}");
        assert_eq!(
            got.header("access-control-allow-origin"),
            reads.then_some(origin),
            "{origin}"
        );
        let got = served.send("POST", "/sparql", &[UPDATE, from], insert);
        assert_eq!(got.status, status(200), "{origin}");
        let got = served.send("DELETE", "/rdf-graphs?default", &[from], "");
        assert_eq!(got.status, status(204), "{origin}");
        let got = served.send("POST", "/api/v1/rdf/drop", &[from], "");
        assert_eq!(got.status, status(200), "{origin}");
        let asked = [
            from,
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
        ];
        let got = served.send("OPTIONS", "/sparql", &asked, "");
        assert_eq!(got.status, 204);
        assert_eq!(
            got.header("access-control-allow-headers"),
            reads.then_some("content-type")
        );
    }
    // The server's own pages.
    let own = ("origin", "http://localhost");
    assert_eq!(
        served
            .send("POST", "/sparql", &[UPDATE, own], insert)
            .status,
        200
    );
}

/// With `*`, any page may read and none may change data.
#[test]
fn all_pages_may_read_where_all_are_named() {
    let served = Served::start(Settings {
        sparql: Sparql {
            read_origins: vec!["*".into()],
            ..Sparql::default()
        },
        ..settings()
    });
    let from = ("origin", "https://evil.org");
    let site = ("sec-fetch-site", "cross-site");
    let got = served.send("POST", "/sparql", &[QUERY, from, site], "ASK {}");
    assert_eq!(got.status, 200, "{}", got.body);
    let insert = "INSERT DATA { <http://ex/a> <http://ex/p> 1 }";
    let got = served.send("POST", "/sparql", &[UPDATE, from, site], insert);
    assert_eq!(got.status, 403, "{}", got.body);
    assert!(got.body.contains("sparql.write_origins"), "{}", got.body);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let got = served.send("POST", "/sparql", &[form, from, site], "update=DROP+ALL");
    assert_eq!(got.status, 403, "{}", got.body);
    // A name that was made to resolve to this machine is not the server's own.
    let rebound = [
        QUERY,
        ("host", "evil.org:7400"),
        ("origin", "http://evil.org:7400"),
    ];
    assert_eq!(
        served.send("POST", "/sparql", &rebound, "ASK {}").status,
        401
    );
}

/// `n` subjects with two numbers each.
fn numbers(served: &Served, n: usize) {
    let mut text = String::from("INSERT DATA {");
    for i in 0..n {
        let _ = write!(
            text,
            "<http://ex/{i}> <http://ex/p> {i} ; <http://ex/q> {i} ."
        );
    }
    text.push('}');
    served.update(&text);
}

const SLOW: &str = "SELECT (COUNT(*) AS ?n) { ?a <http://ex/p> ?x . ?b <http://ex/p> ?y . ?c <http://ex/p> ?z . \
                    ?d <http://ex/q> ?u . FILTER(?x + ?y + ?z + ?u = -1) }";

#[test]
fn a_query_ends_when_its_time_is_over() {
    let served = Served::start(Settings {
        limits: Limits {
            time: Some(Duration::from_secs(5)),
            ..Limits::default()
        },
        ..settings()
    });
    numbers(&served, 300);
    let got = served.send("POST", "/sparql?timeout=100ms", &[QUERY], SLOW);
    assert_eq!(got.status, 408, "{}", got.body);
    let got = served.send("POST", "/sparql", &[QUERY], SLOW);
    assert_eq!(got.status, 503, "{}", got.body);
    assert!(got.body.contains("limits.time"), "{}", got.body);
    let slow = SLOW.replace(
        "SELECT (COUNT(*) AS ?n)",
        "INSERT { ?a <http://ex/r> ?x } WHERE",
    );
    let got = served.send("POST", "/sparql?timeout=0.1", &[UPDATE], &slow);
    assert_eq!(got.status, 408, "{}", got.body);
    assert!(!served.ask_query("ASK { ?s <http://ex/r> ?o }"));
}

#[test]
fn long_answers_come_in_pieces_until_the_client_goes_away() {
    let served = Served::start(settings());
    numbers(&served, 3_000);
    let all = "SELECT * { ?a <http://ex/p> ?x . ?b <http://ex/q> ?y FILTER(?y < 40) }";
    let got = served.send("POST", "/sparql", &[QUERY, ("accept", "text/csv")], all);
    assert!(
        got.head.contains("transfer-encoding: chunked"),
        "{}",
        got.head
    );
    assert!(got.whole);
    assert_eq!(got.body.lines().count(), 120_001);
    // The server counts a request as ended shortly after its client has received the last byte.
    wait_until("the first query goes on", || served.in_flight() == 0);
    // A client that disconnects.
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    write!(
        stream,
        "POST /sparql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/sparql-query\r\ncontent-length: {}\r\n\r\n{SLOW}",
        SLOW.len()
    )
    .unwrap();
    wait_until("the query does not begin", || served.in_flight() == 1);
    drop(stream);
    wait_until("it goes on without its client", || served.in_flight() == 0);
}

#[test]
fn one_address_has_so_many_at_once() {
    let served = Served::start(Settings {
        sparql: Sparql {
            each: 1,
            ..Sparql::default()
        },
        ..settings()
    });
    numbers(&served, 2_000);
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    write!(
        stream,
        "POST /sparql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/sparql-query\r\ncontent-length: {}\r\n\r\n{SLOW}",
        SLOW.len()
    )
    .unwrap();
    wait_until("the query does not begin", || served.in_flight() == 1);
    let got = served.send("POST", "/sparql", &[QUERY], "ASK {}");
    assert_eq!(got.status, 429, "{}", got.body);
    assert_eq!(got.header("retry-after"), Some("1"));
    drop(stream);
    wait_until("others do not get their turn", || {
        served.send("POST", "/sparql", &[QUERY], "ASK {}").status == 200
    });
}

#[test]
fn an_intermediate_result_has_a_size() {
    let served = Served::start(Settings {
        sparql: Sparql {
            memory_bytes: 1 << 20,
            ..Sparql::default()
        },
        ..settings()
    });
    numbers(&served, 1_000);
    let all = "SELECT * { ?a <http://ex/p> ?x . ?b <http://ex/p> ?y . ?c <http://ex/p> ?z }";
    let got = served.send("POST", "/sparql", &[QUERY], all);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("needs more memory"), "{}", got.body);
}

impl Served {
    fn in_flight(&self) -> u64 {
        let metrics = self.http("GET", "/metrics", "").2;
        let line = metrics
            .lines()
            .find_map(|l| l.strip_prefix("esker_in_flight "));
        line.unwrap().parse().unwrap()
    }
}

#[test]
fn one_server_asks_another_if_it_may() {
    let other = Served::start(settings());
    other.update(
        "INSERT DATA { <http://ex/a> <http://ex/age> 36 . <http://ex/b> <http://ex/age> 7 }",
    );
    let endpoint = format!("http://{}/sparql", other.server.address());
    let served = Served::start(Settings {
        sparql: Sparql {
            services: esker::rdf::Services::new(vec![endpoint.clone()]).unwrap(),
            ..Sparql::default()
        },
        ..settings()
    });
    served.update("INSERT DATA { <http://ex/a> <http://ex/name> \"Ada\" }");
    let query = format!(
        "SELECT ?n ?a {{ ?x <http://ex/name> ?n SERVICE <{endpoint}> {{ ?x <http://ex/age> ?a }} }}"
    );
    let csv = ("accept", "text/csv");
    let got = served.send("POST", "/sparql", &[QUERY, csv], &query);
    assert_eq!(got.body, "n,a\r\nAda,36\r\n");
    // The error of the other server is passed on.
    let lost = query.replace("/sparql>", "/sparql/lost>");
    let got = served.send("POST", "/sparql", &[QUERY], &lost);
    assert_eq!(got.status, 400);
    assert!(
        got.body.contains("it answered with status 404: "),
        "{}",
        got.body
    );
    let elsewhere = query.replace(&endpoint, "http://127.0.0.1:1/sparql");
    let got = served.send("POST", "/sparql", &[QUERY], &elsewhere);
    assert_eq!(got.status, 400);
    assert!(
        got.body.contains("not one of those allowed"),
        "{}",
        got.body
    );
    let silent = elsewhere.replace("SERVICE", "SERVICE SILENT");
    let got = served.send("POST", "/sparql", &[QUERY, csv], &silent);
    assert_eq!(got.body, "n,a\r\nAda,\r\n");
    // This query is not allowed by the configuration of the other server.
    other.update("INSERT DATA { <http://ex/a> <http://ex/name> \"A\" }");
    let back = query.replace(
        &endpoint,
        &format!("http://{}/sparql", served.server.address()),
    );
    let got = other.send("POST", "/sparql", &[QUERY], &back);
    assert_eq!(got.status, 400, "{}", got.body);
    // Updates query other endpoints before their turn; the rest of their patterns sees the data of their turn.
    let insert = query.replace("SELECT ?n ?a", "INSERT { ?x <http://ex/age> ?a } WHERE");
    let lost = insert.replace("/sparql>", "/sparql/lost>");
    let got = served.send("POST", "/sparql", &[UPDATE], &lost);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("status 404"), "{}", got.body);
    let got = served.send("POST", "/sparql", &[UPDATE], &insert);
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(served.ask_query("ASK { <http://ex/a> <http://ex/age> 36 }"));
    let variable = insert.replace(&format!("SERVICE <{endpoint}>"), "SERVICE ?n");
    let got = served.send("POST", "/sparql", &[UPDATE], &variable);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("name the endpoint"), "{}", got.body);
    let silent = lost.replace("SERVICE", "SERVICE SILENT");
    let got = served.send("POST", "/sparql", &[UPDATE], &silent);
    assert_eq!(got.status, 200, "{}", got.body);
    // A plan queries no endpoint and so does not fail; a profile reports the queries made.
    let lost = query.replace("/sparql>", "/sparql/lost>");
    let got = served.send("POST", "/sparql?explain=true", &[QUERY], &lost);
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(got.body.contains("lost"), "{}", got.body);
    let got = served.send("POST", "/sparql?profile=true", &[QUERY], &query);
    assert!(
        got.body.contains("with 1 solutions, in 1 requests"),
        "{}",
        got.body
    );
    assert!(got.body.contains("1 out"), "{}", got.body);
    // Both have the same operators, as JSON too.
    let operators = |path: &str| {
        let accept = [QUERY, ("accept", "application/json")];
        let got = served.send("POST", path, &accept, &query);
        let plan: serde_json::Value = serde_json::from_str(&got.body).unwrap();
        let ran = plan["runs"].as_u64();
        (
            plan["operator"].clone(),
            plan["inputs"][0]["operator"].clone(),
            ran,
        )
    };
    let (explained, profiled) = (
        operators("/sparql?explain=true"),
        operators("/sparql?profile=true"),
    );
    assert_eq!((&explained.0, &explained.1), (&profiled.0, &profiled.1));
    assert_eq!((explained.2, profiled.2), (None, Some(1)));
}

/// The `OpenAPI` document's part on SPARQL and graphs: each path answers each method, with a status and a media type in the document.
#[test]
fn the_document_describes_sparql_and_graphs() {
    let served = Served::start(settings());
    let (_, document) = served.json("GET", "/api/v1/openapi.json", "");
    let mut asked = 0;
    let paths = document["paths"].as_object().unwrap();
    let ours =
        |p: &str| p.starts_with("/sparql") || p.starts_with("/rdf-graphs") || p.contains("/rdf/");
    for (path, item) in paths.iter().filter(|(p, _)| ours(p)) {
        // Restore the data, which the paths before may have dropped.
        let put = served.send(
            "PUT",
            "/rdf-graphs?graph=http%3A%2F%2Fa%2Fg",
            &[("content-type", "text/turtle")],
            "<http://a> <http://b> 1 .",
        );
        assert!(put.status < 300);
        // Put the graph that the request deletes or reads.
        for verb in ["post", "put", "get", "head", "delete"] {
            let Some(operation) = item.get(verb) else {
                continue;
            };
            let kinds: Vec<&str> = match &operation["requestBody"]["content"] {
                serde_json::Value::Object(kinds) => kinds.keys().map(String::as_str).collect(),
                _ => vec![""],
            };
            for kind in kinds {
                let body = match kind {
                    "application/sparql-query" => "ASK {}",
                    "application/sparql-update" => "INSERT DATA { <http://a> <http://b> 1 }",
                    "application/x-www-form-urlencoded" => "query=ASK%20%7B%7D",
                    "text/turtle" | "application/n-triples" => "<http://a> <http://b> <http://c> .",
                    "application/rdf+xml" => {
                        "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"/>"
                    }
                    "application/ld+json" => "{\"@id\":\"http://a\",\"http://b\":1}",
                    "application/octet-stream" => {
                        "{\"name\":\"x\",\"format\":\"nt\",\"bytes\":35}\n<http://a> <http://b> <http://c> .\n"
                    }
                    _ => "",
                };
                let mut query = Vec::new();
                for p in operation["parameters"].as_array().into_iter().flatten() {
                    let name = p["name"].as_str().unwrap();
                    let value = match (name, path.as_str()) {
                        ("query", _) => encoded("SELECT * {}"),
                        (
                            "graph"
                            | "default-graph-uri"
                            | "using-graph-uri"
                            | "named-graph-uri"
                            | "using-named-graph-uri",
                            _,
                        ) => encoded("http://a/g"),
                        ("timeout", _) => "10s".into(),
                        ("explain" | "profile" | "sync" | "lenient" | "inferred", _) => {
                            "false".into()
                        }
                        ("uid", _) => "0".into(),
                        ("gids", _) => "1,2".into(),
                        ("infer", _) => "none".into(),
                        ("format", "/api/v1/rdf/dump") => "nq".into(),
                        // `default` or `graph` names the graph.
                        ("format" | "default", _) => continue,
                        other => panic!("what is {other:?}?"),
                    };
                    if kind == "application/sparql-update" && name.contains("named-graph") {
                        continue;
                    }
                    query.push(format!("{name}={value}"));
                }
                let url = format!("{}?{}", path.replace("{name}", "here"), query.join("&"));
                let headers = [("content-type", kind)];
                let headers = if kind.is_empty() {
                    &headers[..0]
                } else {
                    &headers[..]
                };
                let got = served.send(&verb.to_uppercase(), &url, headers, body);
                asked += 1;
                let said = &operation["responses"][got.status.to_string()];
                assert!(
                    got.status < 300 && said.is_object(),
                    "{verb} {url} {kind}: {} {}",
                    got.status,
                    got.body
                );
                if !got.body.is_empty() {
                    let of = got.content_type();
                    let of = of.split(';').next().unwrap().trim();
                    let types = said["content"].as_object();
                    assert!(
                        types.is_some_and(|t| t.contains_key(of)),
                        "{verb} {url}: {of} in {said}"
                    );
                }
            }
        }
    }
    assert!(asked > 25, "{asked}");
}
