//! `LOAD` of documents of other servers.

use crate::common::{Served, settings};
use crate::raw::encoded;
use crate::sparql::UPDATE;
use esker_server::Settings;
use esker_server::settings::Sparql;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

/// Answers each request for a path with the head and body of `answers`; returns the server's address.
fn documents(answers: Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            let path = first.split(' ').nth(1).unwrap();
            while !lines.next().unwrap().unwrap().is_empty() {}
            let answer = answers.iter().find(|(known, _)| *known == path);
            let answer = answer.map_or("404 Not Found\r\n\r\n", |(_, answer)| answer);
            write!(stream, "HTTP/1.1 {answer}").unwrap();
        }
    });
    address
}

fn answer(content_type: &str, body: &str) -> String {
    format!(
        "200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn allowing(prefixes: Vec<String>) -> Served {
    Served::start(Settings {
        sparql: Sparql {
            load: esker::rdf::Services::new(prefixes).unwrap(),
            ..Sparql::default()
        },
        ..settings()
    })
}

#[test]
fn a_server_loads_the_documents_that_it_may() {
    let other = Served::start(settings());
    other.update("INSERT DATA { GRAPH <http://ex/g> { <http://ex/a> <http://ex/p> _:b . _:b <http://ex/q> 1 } }");
    let graph = format!(
        "http://{}/rdf-graphs?graph={}",
        other.server.address(),
        encoded("http://ex/g")
    );
    let refuse = Served::start(settings());
    let elsewhere = documents(vec![("/d", answer("text/turtle", "<a> <b> <c> ."))]);
    let moved = |to: &str| format!("302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let site = documents(vec![
        ("/data/a", moved("/data/b.ttl")),
        ("/data/b.ttl", answer("text/turtle", "<#x> <p> <../c> .")),
        ("/data/out", moved(&format!("http://{elsewhere}/d"))),
        ("/data/up", moved("/private")),
        ("/data/loop", moved("loop")),
        (
            "/data/bad",
            answer("text/turtle", "<a> <b> <c> .\n<a> <b>\n<c> <d> .\n"),
        ),
        ("/data/html", answer("text/html", "<p>")),
        (
            "/data/quads",
            answer("application/n-quads", "<a:a> <a:b> <a:c> <a:g> .\n"),
        ),
        (
            "/data/large",
            "200 OK\r\ncontent-type: text/turtle\r\ncontent-length: 1073741825\r\n\r\n".into(),
        ),
        ("/private", answer("text/turtle", "<a> <b> <c> .")),
    ]);
    let served = allowing(vec![
        format!("http://{}", other.server.address()),
        format!("http://{site}/data/"),
    ]);
    let load = |served: &Served, text: &str| {
        let got = served.send("POST", "/sparql", &[UPDATE], text);
        (got.status, got.body)
    };
    let added = |n: usize| (200, format!("{{\"added\":{n},\"removed\":0}}"));
    assert_eq!(load(&served, &format!("LOAD <{graph}>")), added(2));
    // Each LOAD reads its document, so blank nodes are new ones.
    let both = format!("LOAD <{graph}> INTO GRAPH <a:g1> ; LOAD <{graph}> INTO GRAPH <a:g2>");
    assert_eq!(load(&served, &both), added(4));
    assert!(!served.ask_query(
        "ASK { GRAPH <a:g1> { ?s ?p ?b } GRAPH <a:g2> { ?t ?q ?b FILTER(ISBLANK(?b)) } }"
    ));
    // The data that precede LOAD are no reason to parse the text where nobody may wait.
    let after =
        format!("INSERT DATA {{ <a:x> <a:p> 1 }} ; LOAD <http://{site}/data/a> INTO GRAPH <a:g3>");
    assert_eq!(load(&served, &after), added(2));
    // The base IRI is that of the last document (RFC 3986, section 5.1.3).
    assert!(served.ask_query(&format!(
        "ASK {{ GRAPH <a:g3> {{ <http://{site}/data/b.ttl#x> <http://{site}/data/p> <http://{site}/c> }} }}"
    )));
    assert_eq!(
        load(&served, &format!("LOAD <http://{site}/data/quads>")),
        added(1)
    );
    assert!(served.ask_query("ASK { GRAPH <a:g> { <a:a> <a:b> <a:c> } }"));
    for (path, expected) in [
        (
            "data/out",
            "/d> is not one of the documents allowed: http://",
        ),
        ("data/up", "/private> is not one of the documents allowed"),
        ("private", "/private> is not one of the documents allowed"),
        ("data/../private", "is not one of the documents allowed"),
        ("data/loop", "there are more than 5 redirections"),
        ("data/none", "it answered with status 404"),
        (
            "data/html",
            "its content type `text/html` names no format of RDF",
        ),
        ("data/large", "its answer has more than 1073741824 bytes"),
        ("data/bad", "/data/bad:3:"),
    ] {
        let text = format!("<http://{site}/{path}>");
        let insert = "INSERT DATA { <a:y> <a:p> 1 }";
        let (status, body) = load(&served, &format!("{insert} ; LOAD {text}"));
        assert_eq!(status, 400, "{body}");
        assert!(
            body.starts_with(&format!("LOAD {text}: ")) && body.contains(expected),
            "{body}"
        );
        assert!(!served.ask_query("ASK { <a:y> ?p ?o }"));
        let silent = load(&served, &format!("LOAD SILENT {text}"));
        assert_eq!(silent, added(0));
    }
    let (status, body) = load(&served, "LOAD <file:///etc/passwd>");
    assert_eq!(status, 400);
    assert!(
        body.contains("<file:///etc/passwd> is not one of the documents allowed"),
        "{body}"
    );
    let (status, body) = load(&refuse, &format!("LOAD <{graph}>"));
    assert_eq!(status, 400);
    assert!(body.contains("--allow-load"), "{body}");
}

#[test]
fn an_update_in_a_folder_loads_the_documents_that_it_may() {
    let site = documents(vec![("/x", answer("text/turtle", "<a> <b> <c> ."))]);
    let folder = tempfile::tempdir().unwrap();
    let database = esker::OpenOptions::new()
        .create(true)
        .open(folder.path().join("lab.esker").to_str().unwrap())
        .unwrap();
    let mut rdf = database.rdf_to_change().unwrap();
    let (now, seed) = esker::rdf::now_and_seed();
    let options = esker::rdf::engine::Options::new(now, seed);
    let text = format!("LOAD <http://{site}/x>");
    let mut load = |sources: Option<Vec<String>>| {
        if let Some(prefixes) = sources {
            rdf.allow_loads(esker::rdf::Services::new(prefixes).unwrap());
        }
        let done = rdf.update(&text, None, &options, false);
        done.map(|done| done.added).map_err(|e| e.to_string())
    };
    assert!(load(None).unwrap_err().contains("--allow-load"));
    let other = load(Some(vec!["http://lab.example/".into()])).unwrap_err();
    assert!(
        other.contains("is not one of the documents allowed: http://lab.example/"),
        "{other}"
    );
    assert_eq!(load(Some(vec![format!("http://{site}")])), Ok(1));
}
