//! Behaviour of several processes: a closed output pipe, Ctrl-C, two concurrent commands.

use esker_testkit::wait::{eventually, wait_until};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

pub(crate) fn esker(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    esker(folder).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Creates a database whose job 1 wrote this many files.
fn wide(folder: &Path, files: usize) {
    let mut csv = String::from("source,type,destination\n");
    for i in 0..files {
        writeln!(csv, "job:1,write,file:/scratch/{i}").unwrap();
    }
    std::fs::write(folder.join("edges.csv"), csv).unwrap();
    let output = run(folder, &["import", "edges", "lab.esker", "edges.csv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    wide(dir.path(), 20_000);
    for args in [
        &["edges", "lab.esker", "job:1", "--format", "ndjson"][..],
        &["edges", "lab.esker", "job:1"],
        &[
            "export",
            "edges",
            "lab.esker",
            "-",
            "--output-format",
            "csv",
        ],
        &[
            "travel",
            "lab.esker",
            "v(\"job:1\").e(write).v()",
            "--format",
            "json",
        ],
        &["find", "lab.esker", "--type", "File", "--format", "ndjson"],
    ] {
        let mut child = esker(dir.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(reader);
        let output = child.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(
            output.status.success(),
            "{args:?}: {:?} {stderr}",
            output.status
        );
        assert!(!stderr.contains("error"), "{args:?}: {stderr}");
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    eventually(|| child.try_wait().unwrap().ok_or("it does not end"))
}

/// The second command is served by the first: the shell has the database open.
#[test]
fn a_second_command_works_while_a_shell_is_open() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run(dir.path(), &["init", "lab.esker"]).status.success());
    let mut shell = esker(dir.path())
        .args(["shell", "lab.esker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    writeln!(stdin, "put user:1 name=ada").unwrap();
    let mut stdout = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("inserted user:1"), "{line}");

    let output = run(
        dir.path(),
        &["get", "lab.esker", "user:1", "--format", "ndjson"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("ada"));
    let output = run(dir.path(), &["put", "lab.esker", "user:2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    writeln!(stdin, "get user:2 --format ndjson").unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"user:2\""), "{rest}");
    assert!(wait(&mut shell).success());
}

/// Ctrl-C once: the import stops between or inside logs and says so; the repeated command continues.
#[test]
fn an_interrupted_import_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut csv = String::from("source,type,destination\n");
    for i in 0..60_000 {
        writeln!(csv, "job:1,write,file:/scratch/{i}").unwrap();
    }
    std::fs::write(dir.path().join("edges.csv"), &csv).unwrap();
    let mut child = esker(dir.path())
        .args(["import", "edges", "lab.esker", "-", "--input-format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The import gets rows as long as it reads them, so that it cannot finish.
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let (head, rows) = csv.split_once('\n').unwrap();
        let _ = writeln!(stdin, "{head}");
        while stdin.write_all(rows.as_bytes()).is_ok() {}
    });
    // Some rows are imported.
    wait_until("the import does not begin", || {
        let args = ["top", "lab.esker", "--type", "write", "--format", "csv"];
        text(&run(dir.path(), &args).stdout).contains("job:1")
    });
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let status = wait(&mut child);
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("stopped before the end (interrupted)"),
        "{stderr}"
    );

    let output = run(dir.path(), &["import", "edges", "lab.esker", "edges.csv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let top = run(
        dir.path(),
        &["top", "lab.esker", "--type", "write", "--format", "csv"],
    );
    assert_eq!(text(&top.stdout), "id,type,degree\njob:1,write,60000\n");
}

#[test]
fn every_command_has_help_with_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let help = text(&run(dir.path(), &["--help"]).stdout);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|l| !l.starts_with("Usage:"))
        .take_while(|l| *l != "Options:")
        .filter_map(|l| l.strip_prefix("  ")?.split_whitespace().next())
        .filter(|c| *c != "help")
        .collect();
    assert!(commands.len() >= 50, "{commands:?}");
    for command in commands {
        let output = run(dir.path(), &[command, "--help"]);
        assert!(output.status.success());
        let help = text(&output.stdout);
        let nested = help.contains("\nCommands:") && !help.contains("[COMMAND]");
        assert!(
            nested || help.contains("Example"),
            "`esker {command} --help` has no example"
        );
    }
}

#[test]
fn man_pages_and_completions_cover_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["man", "--dir", "man"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for page in [
        "esker.1",
        "esker-get.1",
        "esker-import-darshan.1",
        "esker-schema-add-edge-type.1",
    ] {
        let text = std::fs::read_to_string(dir.path().join("man").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = run(dir.path(), &["completions", shell]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("lineage"), "{shell}");
    }
}
