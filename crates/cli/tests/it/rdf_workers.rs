//! RDF data in parts, with a worker process for each: the answers equal those of one process, and a missing worker is reported.

use crate::serve::{address_in, esker, run, text};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

/// A university in LUBM's schema: departments, people, courses; literals, and blank nodes.
fn university() -> String {
    let mut out = String::from(
        "@prefix u: <http://u/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n",
    );
    for d in 0..6 {
        let _ = writeln!(
            out,
            "u:d{d} a u:Department ; u:subOrganizationOf u:univ{} .",
            d % 2
        );
        for f in 0..5 {
            let _ = writeln!(
                out,
                "u:f{d}x{f} a u:Faculty ; u:worksFor u:d{d} ; u:teacherOf u:c{d}x{f} ; u:degreeFrom u:univ{} ; u:office [ u:room {f} ; u:phone \"+{d}-{f}\" ] .\n\
                 u:c{d}x{f} a u:Course ; u:title \"Course {f}\"@en .",
                f % 2
            );
        }
        for s in 0..60 {
            let _ = writeln!(
                out,
                "u:s{d}x{s} a u:Student ; u:memberOf u:d{d} ; u:advisor u:f{d}x{} ; u:takesCourse u:c{d}x{}, u:c{d}x{} ; u:degreeFrom u:univ{} ; u:age {} .",
                s % 5,
                s % 5,
                (s * 7) % 5,
                s % 3,
                20 + s % 9
            );
        }
    }
    out
}

const QUERIES: [&str; 9] = [
    // LUBM's Q2: a triangle of student, university, department.
    "SELECT ?x ?y ?z { ?x a u:Student . ?y u:subOrganizationOf ?z . ?x u:memberOf ?y . ?x u:degreeFrom ?z }",
    // Q9: student, faculty, course.
    "SELECT ?x ?y ?z { ?x u:advisor ?y . ?y u:teacherOf ?z . ?x u:takesCourse ?z }",
    // Q14 and Q6.
    "SELECT ?x { ?x a u:Student }",
    // Q8: members of departments, with a literal.
    "SELECT ?x ?a { ?x u:memberOf ?d . ?d u:subOrganizationOf u:univ1 . ?x u:age ?a FILTER(?a > 26) }",
    "SELECT ?d (COUNT(*) AS ?n) (COUNT(DISTINCT ?c) AS ?m) { ?x u:memberOf ?d ; u:takesCourse ?c } GROUP BY ?d",
    "SELECT ?x ?p { ?x u:worksFor ?d . ?d u:subOrganizationOf u:univ0 . ?x u:office ?o . ?o u:phone ?p }",
    "SELECT DISTINCT ?f { ?x u:age 20 ; u:advisor ?f MINUS { ?f u:degreeFrom u:univ0 } }",
    "SELECT * { u:s1x1 (u:memberOf/u:subOrganizationOf)|u:advisor ?to }",
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
];

/// A worker on a folder, killed when the test ends.
struct Worker {
    child: Child,
    address: String,
}

impl Worker {
    fn start(folder: &Path, part: usize, args: &[&str]) -> Self {
        let port_file = folder.join(format!("port{part}"));
        let mut child = esker(folder)
            .args(["rdf", "worker", &format!("p{part}.esker"), "--quiet"])
            .args(["--listen", "127.0.0.1:0", "--port-file"])
            .arg(&port_file)
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_in(&port_file, &mut child);
        Self { child, address }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn done(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    assert!(!output.status.success(), "{args:?} was done");
    text(&output.stderr)
}

fn target(workers: &[Worker]) -> String {
    let addresses: Vec<&str> = workers.iter().map(|w| w.address.as_str()).collect();
    format!("workers://{}", addresses.join(","))
}

/// Returns sorted rows: their order depends on the workers.
fn rows(folder: &Path, target: &str, query: &str, args: &[&str]) -> Vec<String> {
    let query = format!("PREFIX u: <http://u/> {query}");
    let all = [&["sparql", target, &query, "--format", "tsv"], args].concat();
    let mut rows: Vec<String> = done(folder, &all).lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

#[test]
fn workers_answer_as_one_process_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("u.ttl"), university()).unwrap();
    std::fs::write(path.join("secret"), "a secret of the workers'\n").unwrap();
    done(path, &["rdf", "load", "all.esker", "u.ttl"]);
    let secret = ["--secret-file", "secret"];
    // A secret that others can read is refused.
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path.join("secret"), mode).unwrap();
    };
    mode(0o644);
    let said = refused(
        path,
        &[&["sparql", "workers://127.0.0.1:1", "ASK {}"], &secret[..]].concat(),
    );
    assert!(said.contains("chmod 600"), "{said}");
    mode(0o600);
    let mut workers: Vec<Worker> = (1..=3)
        .map(|part| {
            let (folder, of) = (format!("p{part}.esker"), format!("{part}/3"));
            done(path, &["rdf", "load", &folder, "u.ttl", "--part", &of]);
            Worker::start(path, part, &secret)
        })
        .collect();
    let all = target(&workers);
    for query in QUERIES {
        let expected = rows(path, "all.esker", query, &[]);
        assert!(expected.len() > 1, "{query} finds nothing");
        assert_eq!(rows(path, &all, query, &secret), expected, "{query}");
    }
    let said = done(
        path,
        &[
            &[
                "sparql",
                &all,
                "SELECT * { ?a <http://u/advisor> ?b . ?b <http://u/teacherOf> ?c }",
                "--explain",
            ],
            &secret[..],
        ]
        .concat(),
    );
    assert!(
        said.contains("2 stars joined") && said.contains("NetworkShuffleExec"),
        "{said}"
    );

    let said = refused(path, &["sparql", &all, "ASK {}"]);
    assert!(
        said.contains("the secret is missing or another one"),
        "{said}"
    );
    let two = target(&workers[..2]);
    let said = refused(path, &[&["sparql", &two, "ASK {}"], &secret[..]].concat());
    assert!(said.contains("no worker holds part 3 of 3"), "{said}");
    // A killed worker is reported immediately.
    workers[1].child.kill().unwrap();
    workers[1].child.wait().unwrap();
    let said = refused(path, &[&["sparql", &all, "ASK {}"], &secret[..]].concat());
    assert!(said.contains("nothing listens there"), "{said}");
}

/// Without a secret a worker answers only its own user; so nobody else sees data that `urn:esker:rights` would hide.
#[test]
fn another_user_of_this_machine_is_not_answered() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("u.ttl"), university()).unwrap();
    let workers: Vec<Worker> = (1..=2)
        .map(|part| {
            let (folder, of) = (format!("p{part}.esker"), format!("{part}/2"));
            done(path, &["rdf", "load", &folder, "u.ttl", "--part", &of]);
            Worker::start(path, part, &[])
        })
        .collect();
    let all = target(&workers);
    let query = "SELECT * { ?s ?p ?o } LIMIT 3";
    let args = ["sparql", &all, query, "--format", "tsv"];
    assert_eq!(done(path, &args).lines().count(), 4);
    // The program may be in a folder of root's.
    let as_other = |program: &str, args: &[&str]| {
        std::process::Command::new("setpriv")
            .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
            .args([
                "--inh-caps",
                "+dac_read_search",
                "--ambient-caps",
                "+dac_read_search",
            ])
            .arg(program)
            .args(args)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let output = as_other(env!("CARGO_BIN_EXE_esker"), &args);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    assert!(said.contains("--secret-file"), "{said}");
    // A client that does not check the worker's user.
    let port = all.rsplit(':').next().unwrap();
    let url = format!("http://127.0.0.1:{port}/worker.WorkerService/GetWorkerInfo");
    let get = [
        "-s",
        "-i",
        "--http2-prior-knowledge",
        "-X",
        "POST",
        "-H",
        "content-type: application/grpc",
    ];
    let asked = [
        &get[..],
        &["-H", "te: trailers", "--data-binary", "x", &url],
    ]
    .concat();
    let heard = text(&as_other("curl", &asked).stdout);
    assert!(heard.is_empty(), "{heard}");
    let heard = std::process::Command::new("curl").args(&asked).output();
    assert!(text(&heard.unwrap().stdout).contains("grpc-status"));
}

#[test]
fn a_part_stays_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("u.ttl"), university()).unwrap();
    let load = |target: &str, more: &[&str]| -> Vec<String> {
        [&["rdf", "load", target, "u.ttl"], more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    };
    let strings = |args: &[String]| args.to_vec();
    let call = |args: Vec<String>| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(path, &args)
    };
    // A failed load leaves no part behind.
    std::fs::write(path.join("bad.nt"), "<http://e/x> <http://e/p> \n").unwrap();
    refused(path, &["rdf", "load", "p.esker", "bad.nt", "--part", "2/2"]);
    assert!(call(load("p.esker", &["--part", "1/2"])).status.success());
    let count = [
        "sparql",
        "p.esker",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "--format",
        "csv",
    ];
    let part = done(path, &count);
    // Loading the files again without naming the part adds nothing.
    assert!(call(load("p.esker", &[])).status.success());
    assert_eq!(done(path, &count), part);
    for (args, expected) in [
        (
            load("p.esker", &["--part", "2/2"]),
            "needs a folder of its own",
        ),
        (load("p.esker", &["--infer", "rdfs"]), "dump --inferred"),
        (load("p.esker", &["--part", "3/2"]), "expected K/N"),
        (
            strings(&["sparql", "p.esker", "-u", "CLEAR ALL"].map(str::to_owned)),
            "holds part 1/2",
        ),
    ] {
        let output = call(strings(&args));
        assert!(!output.status.success());
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    // A copy is still a part.
    done(path, &["backup", "p.esker", "copy.esker"]);
    let said = refused(path, &["sparql", "copy.esker", "-u", "CLEAR ALL"]);
    assert!(said.contains("holds part 1/2"), "{said}");
    done(path, &["rdf", "drop", "p.esker"]);
    assert!(call(load("p.esker", &["--part", "2/2"])).status.success());
    let said = refused(path, &["rdf", "worker", "none.esker"]);
    assert!(said.contains("none.esker"), "{said}");
    done(path, &["rdf", "load", "all.esker", "u.ttl"]);
    let said = refused(path, &["rdf", "worker", "all.esker"]);
    assert!(said.contains("holds no part"), "{said}");
    let said = refused(path, &["rdf", "worker", "p.esker", "--listen", "0.0.0.0:0"]);
    assert!(said.contains("--secret-file"), "{said}");
}
