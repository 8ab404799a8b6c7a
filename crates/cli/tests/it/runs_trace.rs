//! `esker run --trace`: the files opened by a real build are in the graph, and the build is not affected.

use crate::runs::Lab;
use esker_testkit::wait::wait_until;
use serde_json::Value as Json;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

/// Returns the destinations of a run's edges of one type.
fn ends(lab: &Lab, run: &str, edge: &str) -> Vec<String> {
    let target = lab.at("lab.esker");
    let out = lab.said(&[
        "edges",
        target.to_str().unwrap(),
        run,
        edge,
        "--format",
        "json",
    ]);
    assert!(out.status.success(), "{out:?}");
    let rows: Vec<Json> = serde_json::from_slice(&out.stdout).unwrap();
    let mut ends: Vec<String> = rows
        .iter()
        .map(|r| {
            r["dst"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    ends.sort();
    ends
}

fn last(lab: &Lab) -> String {
    lab.log(&["--last"])[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_build_of_c_is_known_file_by_file() {
    let lab = Lab::new();
    fs::write(lab.at("main.c"), "#include <stdio.h>\n#include \"sum.h\"\nint main(void) { printf(\"%d\\n\", sum(40, 2)); return 0; }\n").unwrap();
    fs::write(lab.at("sum.h"), "int sum(int a, int b);\n").unwrap();
    fs::write(
        lab.at("sum.c"),
        "#include \"sum.h\"\nint sum(int a, int b) { return a + b; }\n",
    )
    .unwrap();
    fs::write(
        lab.at("Makefile"),
        "app: main.o libsum.a\n\tcc -o app main.o libsum.a\nlibsum.a: sum.o\n\tar rcs libsum.a sum.o\n%.o: %.c sum.h\n\tcc -c -o $@ $<\n",
    )
    .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let out = lab.said(&["run", "--trace", "--wait", "--", "make", "-j2"]);
    assert!(out.status.success(), "{out:?}");
    let built = Command::new(lab.at("app")).output().unwrap();
    assert_eq!(built.stdout, b"42\n");
    let run = last(&lab);
    assert_eq!(
        ends(&lab, &run, "read"),
        ["Makefile", "main.c", "sum.c", "sum.h"]
    );
    assert_eq!(
        ends(&lab, &run, "write"),
        ["app", "libsum.a", "main.o", "sum.o"]
    );
    let programs = ends(&lab, &run, "exe");
    for wanted in ["make", "cc1"] {
        assert!(programs.iter().any(|p| p == wanted), "{programs:?}");
    }
    // From an output back to its sources.
    let target = lab.at("lab.esker");
    let app = format!(
        "file:{}",
        fs::canonicalize(lab.at("app")).unwrap().display()
    );
    let out = lab.said(&["lineage", target.to_str().unwrap(), &app]);
    assert!(String::from_utf8(out.stdout).unwrap().contains("sum.h"));
}

#[test]
fn a_traced_program_ends_as_it_would() {
    let lab = Lab::new();
    let out = lab.said(&["run", "--trace", "--", "sh", "-c", "exit 9"]);
    assert_eq!(out.status.code(), Some(9));
    let out = lab.said(&["run", "--trace", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(out.status.signal(), Some(15), "{out:?}");
    let out = lab.said(&["run", "--trace", "--", "./nothing-there"]);
    assert_eq!(out.status.code(), Some(127), "{out:?}");
    // A signal to the recorder is passed to the program.
    let mut child = lab
        .esker(&[
            "run",
            "--trace",
            "--",
            "sh",
            "-c",
            "trap 'exit 5' TERM; : > ready; while :; do sleep 0.05; done",
        ])
        .spawn()
        .unwrap();
    wait_until("the program does not start", || lab.at("ready").exists());
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let mut states: Vec<String> = lab
        .log(&[])
        .iter()
        .map(|r| r["state"].as_str().unwrap().to_owned())
        .collect();
    states.sort();
    assert!(states[2].starts_with("not started"), "{states:?}");
    assert_eq!(
        (states[0].as_str(), states[3].as_str()),
        ("exit 5", "signal 15")
    );
}

/// A program that is traced already cannot be traced again, like in a container that forbids tracing.
#[test]
fn where_it_is_not_allowed_the_program_runs_and_a_warning_says_so() {
    let lab = Lab::new();
    let esker = env!("CARGO_BIN_EXE_esker");
    let out = lab.said(&[
        "run",
        "--trace",
        "--name",
        "outer",
        "--wait",
        "--",
        esker,
        "run",
        "--trace",
        "--name",
        "inner",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo well > out; exit 3",
    ]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("the files that this run opens are not recorded"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(lab.at("out")).unwrap(), "well\n");
    let log = lab.log(&[]);
    let outer = log.iter().find(|r| r["name"] == "outer").unwrap();
    assert_eq!(ends(&lab, outer["run"].as_str().unwrap(), "write"), ["out"]);
    assert!(
        log.iter()
            .any(|r| r["name"] == "inner" && r["state"] == "exit 3"),
        "{log:?}"
    );
}

#[test]
fn the_recorder_that_is_killed_takes_its_program_with_it() {
    let lab = Lab::new();
    let mut child = lab
        .esker(&[
            "run",
            "--trace",
            "--",
            "sh",
            "-c",
            "echo $$ > pid; exec sleep 600",
        ])
        .spawn()
        .unwrap();
    let pid = || fs::read_to_string(lab.at("pid")).unwrap_or_default();
    wait_until("the program does not start", || pid().ends_with('\n'));
    child.kill().unwrap();
    child.wait().unwrap();
    let stat = format!("/proc/{}/stat", pid().trim());
    wait_until("the program goes on without its tracer", || {
        fs::read_to_string(&stat).is_ok_and(|s| s.contains(") Z ")) || !fs::exists(&stat).unwrap()
    });
    assert!(
        lab.log(&["--last"])[0]["state"]
            .as_str()
            .unwrap()
            .starts_with("killed")
    );
}

#[test]
fn folders_of_no_interest_are_left_out_and_the_systems_own_can_be_had() {
    let lab = Lab::new();
    fs::create_dir(lab.at("cache")).unwrap();
    let script = "echo 1 > cache/x; cat /etc/hostname > y";
    let out = lab.said(&[
        "run",
        "--trace",
        "--trace-ignore",
        "cache",
        "--wait",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert!(out.status.success(), "{out:?}");
    let run = last(&lab);
    assert_eq!(ends(&lab, &run, "write"), ["y"]);
    assert!(ends(&lab, &run, "read").is_empty());
    lab.said(&[
        "run",
        "--trace",
        "--trace-system",
        "--wait",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let run = last(&lab);
    assert!(ends(&lab, &run, "read").contains(&"hostname".to_owned()));
    assert!(ends(&lab, &run, "write").contains(&"x".to_owned()));
}
