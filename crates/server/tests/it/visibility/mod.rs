//! Hidden data must not affect answers: a limited user gets the same answers as from a database that never had the data, for all kinds of
//! requests.
//!
//! A random history of files, vertices, edges, objects and RDF graphs is applied twice at the same times: completely, and without the
//! data that the limited user may not see at the end. Then both servers get the same requests. `ESKER_VISIBILITY_SEEDS=1000` runs more
//! seeds, `ESKER_VISIBILITY_SEEDS=17..18` replays one.
mod commands;
mod history;
mod questions;
mod servers;

use crate::common::{Served, http, http_by_token, settings};
use commands::commands;
use esker_model::namespace::{Change, Namespace as _, NewFile};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Version, VertexName};
use esker_testkit::run::seeds;
use history::{BEGIN, History};
use questions::{answers, questions};
use serde_json::Value as Json;
use servers::{HistoryServer, encoded, path_of};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

/// Largest number of differences in a failure message.
const TOLD: usize = 30;

/// JSON fields that differ between any two servers and reveal nothing: durations, addresses and process ids, positions of the change feed
/// (opaque, and different each time).
const OWN: [&str; 8] = [
    "micros",
    "layout_micros",
    "place",
    "at",
    "from",
    "owner_pid",
    "address",
    "datePublished",
];

fn normal(json: &mut Json) {
    match json {
        Json::Object(all) => {
            for (name, value) in all.iter_mut() {
                if OWN.contains(&name.as_str()) {
                    *value = Json::Null;
                } else {
                    normal(value);
                }
            }
        }
        Json::Array(all) => all.iter_mut().for_each(normal),
        _ => {}
    }
}

/// Removes the random prefix of new blank nodes' labels, which differs between queries.
fn without_seeds(line: &str) -> String {
    let mut parts = line.split("_:q");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("_:q");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

/// Removes the random names of variables in DESCRIBE, and from a profile the durations of steps.
fn without_chance(line: &str, timed: bool) -> String {
    let drawn = |w: &str| w.len() > 24 && w.starts_with('?') && !w.contains('_');
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        if timed && ["ms", "us", "µs", "s"].contains(&word) {
            words.pop();
            break;
        }
        words.push(if drawn(word) { "?drawn" } else { word });
    }
    words.join(" ")
}

/// Removes the parts of an answer that differ between any two servers.
fn normalised(url: &str, body: &str) -> String {
    if let Ok(mut json) = serde_json::from_str::<Json>(body) {
        normal(&mut json);
        return json.to_string();
    }
    let mut lines: Vec<String> = body.lines().map(str::to_owned).collect();
    if url.starts_with("/sparql") || url.contains("rdf") {
        for line in &mut lines {
            *line = without_chance(&without_seeds(line), url.contains("profile"));
        }
    }
    lines.join("\n")
}

fn shortened(text: &str) -> String {
    text.chars().take(700).collect()
}

/// The first difference of two texts, with context.
fn difference(a: &str, b: &str) -> String {
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(120).min(text.len())..];
        shortened(&String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))
    };
    format!("  whole: …{}\n  less:  …{}", around(a), around(b))
}

/// Removes the principal from a request.
fn unsaid(url: &str, body: &str) -> (String, String) {
    const WHO: &str = "uid=1001&gids=1001,100";
    let url = url
        .replace(&format!("?{WHO}&"), "?")
        .replace(&format!("&{WHO}"), "")
        .replace(&format!("?{WHO}"), "");
    let body = body.replace(r#","uid":1001,"gids":[1001,100]"#, "");
    (url, body)
}

/// Differences between the answers of a seed's two servers, and between those for a principal and for a token that is bound to it.
fn compare(seed: u64) -> Vec<String> {
    let history = History::random(seed);
    let (whole, less) = (
        HistoryServer::new(&history, true),
        HistoryServer::new(&history, false),
    );
    let token = whole.token_of_person();
    let (mut differences, mut asked) = (Vec::new(), Vec::new());
    for (verb, url, body) in questions(&history) {
        let ask = |server: &HistoryServer| {
            let (status, _, answer) = http(server.at(), verb, &url, &body);
            format!("{status} {}", normalised(&url, &answer))
        };
        let (a, b) = (ask(&whole), ask(&less));
        if a != b {
            differences.push(format!(
                "seed {seed}: {verb} {url} {body}\n{}",
                difference(&a, &b)
            ));
        }
        asked.push((verb, url, body, a));
    }
    // Sent afterwards, because the servers report the latest traversals.
    for (verb, url, body, a) in asked {
        // A bound client may not change data; a schema is visible to everybody.
        if ["/api/v1/tag", "/api/v1/schema?", "/api/v1/cluster?"]
            .iter()
            .any(|other| url.starts_with(other))
            && !url.starts_with("/api/v1/tags")
        {
            continue;
        }
        let (unsaid_url, unsaid_body) = unsaid(&url, &body);
        let request = (verb, unsaid_url.as_str(), unsaid_body.as_str());
        let (status, _, answer) = http_by_token(whole.at(), request, &token);
        let bound = format!("{status} {}", normalised(&url, &answer));
        if a != bound {
            differences.push(format!(
                "seed {seed}: bound {verb} {unsaid_url} {unsaid_body}\n{}",
                difference(&a, &bound)
            ));
        }
    }
    let (a, b) = (
        answers(&whole.open(), &history),
        answers(&less.open(), &history),
    );
    for ((what, a), (_, b)) in a.iter().zip(&b) {
        if a != b {
            differences.push(format!("seed {seed}: client: {what}\n{}", difference(a, b)));
        }
    }
    let (a, b) = (
        commands(whole.at(), &history),
        commands(less.at(), &history),
    );
    for ((what, a), (_, b)) in a.iter().zip(&b) {
        let lines = |text: &str| {
            let lines: Vec<String> = text.lines().map(|l| normalised("", l)).collect();
            lines.join("\n")
        };
        let (a, b) = (lines(a), lines(b));
        if a != b {
            differences.push(format!(
                "seed {seed}: command: {what}\n{}",
                difference(&a, &b)
            ));
        }
    }
    assert!(whole.server.stop().unwrap());
    assert!(less.server.stop().unwrap());
    differences
}

/// All kinds of requests on behalf of a limited user, over many random databases.
#[test]
fn what_is_not_seen_is_not_there() {
    let mut differences = Vec::new();
    let mut kinds = BTreeSet::new();
    for seed in seeds("ESKER_VISIBILITY_SEEDS", 20) {
        for difference in compare(seed) {
            // One difference per kind of request suffices.
            let kind: String = difference
                .split_once(": ")
                .map_or("", |(_, rest)| rest)
                .split(['=', '\n'])
                .next()
                .unwrap_or_default()
                .into();
            if kinds.insert(kind) && differences.len() < TOLD {
                differences.push(difference);
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} kinds of answers differ:\n{}",
        kinds.len(),
        differences.join("\n")
    );
}

/// Reads lines of an event stream until one contains the text.
fn until(stream: &mut BufReader<TcpStream>, text: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "{all}");
        let found = line.contains(text);
        all.push_str(&line);
        if found {
            return all;
        }
    }
}

/// The lines of a stream during a hidden change and then a visible one.
fn events(hidden: bool) -> String {
    let served = Served::start(settings());
    let database = served.open();
    let schema = database.schema().unwrap();
    let make = |at: &str, mode| {
        let change = Change::Create(path_of(at), NewFile::new(mode, 0, 0));
        database.change(None, &[change]).unwrap().remove(0).unwrap();
    };
    make("/closed", 0o4_0700);
    make("/closed/secret.dat", 0o10_0644);
    let say = |name: &str, at: u64| {
        let name = VertexName::parse(name).unwrap();
        let vertex = name.resolve(&schema).unwrap();
        let mut batch = Batch::new();
        let key = name.key;
        batch.push_at(
            Version::new(BEGIN + at, 0),
            Op::EnsureVertex { vertex, key },
        );
        database.apply(batch).unwrap();
    };
    let ask = |what: &str| {
        let address = served.server.address();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {what} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        stream
    };
    let mut stream = BufReader::new(ask("/api/v1/events?uid=1001&gids=100"));
    until(&mut stream, ": connected");
    if hidden {
        say("file:/closed/secret.dat", 1);
    }
    say("job:seen", 2);
    let told = until(&mut stream, "job:seen");
    let news = served.json("GET", "/api/v1/news?uid=1001&gids=100", "").1;
    let place = encoded(news["place"].as_str().unwrap());
    if hidden {
        say("file:/closed/secret.dat", 3);
    }
    say("job:seen2", 5);
    let url = format!("/api/v1/news?uid=1001&gids=100&place={place}");
    let mut news = served.json("GET", &url, "").1;
    normal(&mut news);
    let lines = told
        .lines()
        .filter(|line| line.contains(':') && !line.starts_with(": "));
    let lines: Vec<&str> = lines.collect();
    drop((stream, database));
    served.server.stop().unwrap();
    format!("{}\n{news}", lines.join("\n"))
}

/// Streams of events and requests to the change feed.
#[test]
fn what_is_not_seen_is_no_news() {
    assert_eq!(events(true), events(false));
}
