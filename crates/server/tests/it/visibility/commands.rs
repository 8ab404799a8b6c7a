//! Requests of the limited user by the command line and by the Model Context Protocol. Skipped if the command is not built.

use super::history::History;
use serde_json::{Value as Json, json};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PERSON: &str = "1001:1001,100";

fn program() -> Option<PathBuf> {
    let program = esker_testkit::program::esker();
    if program.is_none() {
        eprintln!(
            "skipped: the command line, because there is no command: build all, or name one by ESKER_BIN"
        );
    }
    program
}

/// The command lines, without the target and the principal.
fn lines(history: &History) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<&str>> = vec![
        vec!["ls", "/"],
        vec!["du", "/"],
        vec!["top"],
        vec!["find", "owner = 1002 OR energy > 1"],
        vec!["find", "secrte = 2"],
        vec!["find", "/"],
        vec!["travel", r#"v(type="Job").e("read", "write").v()"#],
        vec![
            "sparql",
            "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
        ],
        vec!["rdf", "dump"],
    ];
    // These are run on other databases.
    let step = history.steps.len() % 5;
    for path in history.paths.iter().skip(step).step_by(5).take(2) {
        all.extend([vec!["stat", path], vec!["ls", path]]);
    }
    for vertex in history.vertices.iter().skip(step).step_by(5).take(3) {
        all.extend([
            vec!["get", vertex],
            vec!["edges", vertex],
            vec!["history", vertex],
            vec!["lineage", vertex],
            vec!["impact", vertex],
        ]);
    }
    let owned = |line: Vec<&str>| line.into_iter().map(str::to_owned).collect();
    all.into_iter().map(owned).collect()
}

fn command(program: &PathBuf) -> Command {
    let mut command = Command::new(program);
    command.arg("--quiet");
    command
}

/// Removes the server's address from output.
fn text(output: &Output, at: SocketAddr) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    format!("{:?}\n{out}{err}", output.status.code()).replace(&at.to_string(), "SERVER")
}

/// Answers of the tools of `esker mcp`, with their requests.
fn by_protocol(program: &PathBuf, at: SocketAddr, history: &History) -> Vec<(String, String)> {
    let call = |name: &str, arguments: Json| json!({"name": name, "arguments": arguments});
    let mut calls = vec![
        call("schema", json!({})),
        call("find", json!({"filter": "owner = 1002 OR energy > 1"})),
        call("find", json!({"filter": "secrte = 2"})),
        call(
            "sparql",
            json!({"query": "SELECT * { GRAPH ?g { ?s ?p ?o } } ORDER BY ?g ?s ?p ?o"}),
        ),
        call("diff", json!({"before": "job:1", "after": "job:2"})),
    ];
    for vertex in history.vertices.iter().step_by(7) {
        calls.push(call("lineage", json!({"vertex": vertex})));
        calls.push(call("impact", json!({"vertex": vertex})));
    }
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}});
    let mut sent = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    for (n, call) in calls.iter().enumerate() {
        sent.push(json!({"jsonrpc": "2.0", "id": n + 1, "method": "tools/call", "params": call}));
    }
    let mut child = command(program)
        .args(["mcp", &format!("esker://{at}"), "--as", PERSON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for message in &sent {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = text(&output, at);
    let answers: Vec<Json> = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect();
    assert_eq!(answers.len(), calls.len() + 1, "{text}");
    let answer = |n: usize| {
        let found = answers.iter().find(|a| a["id"] == n + 1).unwrap();
        // The text content repeats the structured content, for clients that do not know that.
        match &found["result"]["structuredContent"] {
            structured @ Json::Object(_) => structured.to_string(),
            _ => found.to_string(),
        }
    };
    let said = |(n, call): (usize, &Json)| (format!("mcp {call}"), answer(n));
    calls.iter().enumerate().map(said).collect()
}

/// Answers that the limited user gets from a server at that address, with their requests.
pub(super) fn commands(at: SocketAddr, history: &History) -> Vec<(String, String)> {
    let Some(program) = program() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for line in lines(history) {
        let words = if line[0] == "rdf" { 2 } else { 1 };
        let output = command(&program)
            .args(&line[..words])
            .arg(format!("esker://{at}"))
            .args(&line[words..])
            .args(["--as", PERSON])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        all.push((line.join(" "), text(&output, at)));
    }
    all.extend(by_protocol(&program, at, history));
    all
}
