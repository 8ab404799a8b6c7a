//! What somebody may not see is not there: a database answers them, whichever way they ask, as one answers that never had it.
//!
//! A random history of files, vertices, edges, objects and graphs of RDF is played twice at the same moments: whole, and without what
//! a person may not see in the end. Then the person asks both servers the same. `ESKER_VISIBILITY_SEEDS=1000` plays more of them,
//! `ESKER_VISIBILITY_SEEDS=17..18` replays one.
mod commands;
mod history;
mod questions;
mod world;

use crate::common::{Served, http, http_by_token, settings};
use commands::commands;
use esker_model::namespace::{Change, Make, Namespace as _};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Version, VertexName};
use esker_testkit::run::seeds;
use history::{BEGIN, History};
use questions::{questions, told};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use world::{World, encoded, path_of};

/// Differences that a failure tells.
const TOLD: usize = 30;

/// What differs between any two servers, and says nothing of what is in them: times that answers took, their own addresses and
/// processes, places of the change feed (opaque, and other ones each time).
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

/// A line without the seed that labels of new blank nodes begin with, which is each query's own.
fn without_seeds(line: &str) -> String {
    let mut parts = line.split("_:q");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("_:q");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

/// A line of an answer to SPARQL without the names that DESCRIBE draws by lot for its variables, and, of a profile, without how long
/// its step took.
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

/// An answer without what differs between any two servers.
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

/// Where two texts begin to differ, with some of what stands around.
fn difference(a: &str, b: &str) -> String {
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(120).min(text.len())..];
        shortened(&String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))
    };
    format!("  whole: …{}\n  less:  …{}", around(a), around(b))
}

/// A question without a word of who asks it.
fn unsaid(url: &str, body: &str) -> (String, String) {
    const WHO: &str = "uid=1001&gids=1001,100";
    let url = url
        .replace(&format!("?{WHO}&"), "?")
        .replace(&format!("&{WHO}"), "")
        .replace(&format!("?{WHO}"), "");
    let body = body.replace(r#","uid":1001,"gids":[1001,100]"#, "");
    (url, body)
}

/// What a seed's two servers tell the person otherwise, and what the whole one tells whoever shows a token that is bound to the person, and says
/// nothing of who asks.
fn compare(seed: u64) -> Vec<String> {
    let history = History::random(seed);
    let (whole, less) = (World::new(&history, true), World::new(&history, false));
    let token = whole.token_of_person();
    let (mut differences, mut asked) = (Vec::new(), Vec::new());
    for (verb, url, body) in questions(&history) {
        let ask = |world: &World| {
            let (status, _, answer) = http(world.at(), verb, &url, &body);
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
    // Afterwards, because the servers tell of the latest traversals.
    for (verb, url, body, a) in asked {
        // What is bound to a user changes nothing; a schema is everybody's.
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
    let (a, b) = (told(&whole.open(), &history), told(&less.open(), &history));
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

/// Every way of asking, on behalf of a person, over many random databases.
#[test]
fn what_is_not_seen_is_not_there() {
    let mut differences = Vec::new();
    let mut kinds = BTreeSet::new();
    for seed in seeds("ESKER_VISIBILITY_SEEDS", 20) {
        for difference in compare(seed) {
            // One of each kind tells what is wrong.
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

/// Reads lines of an event stream until one has the text.
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

/// The lines that are sent while something hidden changes, and then something that everybody sees.
fn events(hidden: bool) -> String {
    let served = Served::start(settings());
    let database = served.open();
    let schema = database.schema().unwrap();
    let make = |at: &str, mode| {
        let change = Change::Make(path_of(at), Make::new(mode, 0, 0));
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

/// Streams of events, and what is asked of the change feed.
#[test]
fn what_is_not_seen_is_no_news() {
    assert_eq!(events(true), events(false));
}
