//! RDF data of servers: the answers are equal by address, through the folder and without a server; acknowledged updates survive a
//! kill.

use crate::cluster::wait_for_count;
use crate::serve::{Served, run, text};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const TURTLE: &str = "@prefix e: <http://e/> .\ne:ada a e:Person ; e:name \"Ada\" ; e:age 36 .\ne:bob e:name \"Bob\"@en .\n";

/// Returns the exit code and the output of a command.
fn said(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, args);
    let all = [text(&output.stdout), text(&output.stderr)].concat();
    // Durations and blank node labels differ between runs.
    let all = all
        .lines()
        .map(|l| l.split(", in ").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    (output.status.code(), all)
}

#[test]
fn commands_say_the_same_wherever_the_data_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("people.ttl"), TURTLE).unwrap();
    std::fs::write(
        path.join("bad.nt"),
        "<http://e/x> <http://e/p> \"1\" .\noops\n",
    )
    .unwrap();
    let commands: Vec<Vec<&str>> = vec![
        vec!["rdf", "load", "T", "people.ttl"],
        vec!["rdf", "load", "T", "people.ttl", "--graph", "http://e/g"],
        vec!["rdf", "load", "T", "bad.nt"],
        vec!["rdf", "load", "T", "bad.nt", "--lenient"],
        vec![
            "sparql",
            "T",
            "SELECT ?s ?n ?a { ?s <http://e/name> ?n OPTIONAL { ?s <http://e/age> ?a } } ORDER BY ?n",
        ],
        vec![
            "sparql",
            "T",
            "SELECT ?n { ?s <http://e/name> ?n } ORDER BY ?n",
            "--format",
            "json",
        ],
        vec![
            "sparql",
            "T",
            "SELECT ?n { ?s <http://e/name> ?n } ORDER BY ?n",
            "--format",
            "csv",
        ],
        vec![
            "sparql",
            "T",
            "SELECT ?n { ?s <http://e/name> ?n } ORDER BY ?n",
            "--format",
            "tsv",
            "--default-graph",
            "http://e/g",
        ],
        vec!["sparql", "T", "CONSTRUCT WHERE { ?s <http://e/age> ?o }"],
        vec![
            "sparql",
            "T",
            "CONSTRUCT WHERE { ?s <http://e/age> ?o }",
            "--format",
            "nt",
        ],
        vec!["sparql", "T", "ASK { ?s <http://e/age> 36 }"],
        vec!["sparql", "T", "ASK { ?s e:age 36 }"],
        vec!["sparql", "T", "CLEAR ALL"],
        vec![
            "sparql",
            "T",
            "--update",
            "INSERT DATA { <http://e/x> <http://e/p> 7 }",
        ],
        vec!["sparql", "T", "--update", "INSERT DATA { <http://e/x> "],
        vec![
            "rdf",
            "dump",
            "T",
            "--graph",
            "http://e/g",
            "--format",
            "nt",
        ],
        vec!["rdf", "dump", "T", "--graph", "http://e/no"],
        vec!["rdf", "dump", "T", "--format", "ttl"],
        vec!["rdf", "drop", "T"],
        vec!["rdf", "stats", "T"],
    ];
    let all = |target: &str| {
        let mut all = Vec::new();
        for command in &commands {
            let args: Vec<&str> = command
                .iter()
                .map(|a| if *a == "T" { target } else { a })
                .collect();
            all.push(said(path, &args));
        }
        all
    };
    let alone = all("alone.esker");
    assert!(alone[0].1.contains("4 new"), "{}", alone[0].1);
    let served = Served::start(path, &[]);
    let (by_address, by_folder) = (all(&served.target()), all("lab.esker"));
    for (i, command) in commands.iter().enumerate() {
        assert_eq!(by_address[i], alone[i], "{command:?}");
        assert_eq!(by_folder[i], alone[i], "{command:?}");
    }
}

/// Sends updates over one connection, counting acknowledgements.
fn insert_until_it_ends(address: &str, acknowledged: &AtomicU64) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut buffer = [0; 4096];
    for n in 0.. {
        let body = format!("INSERT DATA {{ <http://e/{n}> <http://e/p> {n} }}");
        let request = format!(
            "POST /sparql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/sparql-update\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answered = stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read(&mut buffer));
        match answered {
            Ok(length) if buffer[..length].starts_with(b"HTTP/1.1 200") => {
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut least = 0;
    for round in 0..3 {
        let served = Served::start(path, &[]);
        let address = served.target().trim_start_matches("esker://").to_owned();
        // Images are written meanwhile.
        let checkpoints = std::thread::spawn({
            let (path, target) = (path.to_path_buf(), served.target());
            move || {
                while run(&path, &["rdf", "checkpoint", &target]).status.success() {}
            }
        });
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| insert_until_it_ends(&address, &acknowledged));
            wait_for_count(&acknowledged, 50 + 25 * round);
            drop(served);
        });
        let acknowledged = acknowledged.into_inner();
        checkpoints.join().unwrap();
        least = least.max(acknowledged);
        let query = "SELECT (COUNT(*) AS ?n) { ?s <http://e/p> ?o }";
        let output = run(path, &["sparql", "lab.esker", query, "--format", "csv"]);
        let count: u64 = text(&output.stdout)
            .lines()
            .nth(1)
            .unwrap_or_else(|| panic!("{}", text(&output.stderr)))
            .parse()
            .unwrap();
        // One more update that was in flight may be present.
        assert!(acknowledged > 0 && count >= least, "{count} of {least}");
    }
}
