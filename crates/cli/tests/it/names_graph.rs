//! Files by path in graph commands: they follow renames and show only what the principal may read.

use crate::names::{esker as run, everywhere, is_folder, sound};
use crate::processes::{esker, text};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

fn done(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    assert!(!out.status.success(), "{args:?}: {}", text(&out.stdout));
    text(&out.stderr)
}

/// A lab: `/lab/raw` was read by job 1, which wrote `/lab/plot`.
fn lab(folder: &Path) {
    for args in [
        &["mkdir", "lab.esker", "/lab", "/secret"][..],
        &["touch", "lab.esker", "/lab/raw", "/lab/plot"],
        &[
            "link",
            "lab.esker",
            "--create",
            "job:1",
            "read",
            "file:/lab/raw",
        ],
        &[
            "link",
            "lab.esker",
            "--create",
            "file:/lab/plot",
            "wasWrittenBy",
            "job:1",
        ],
        &["set", "lab.esker", "file:/lab/raw", "site=north", "run=7"],
    ] {
        done(folder, args);
    }
}

#[test]
fn commands_follow_renames() {
    everywhere(follow_renames);
}

fn follow_renames(at: &Path) {
    lab(at);
    done(at, &["mv", "lab.esker", "/lab", "/archive"]);
    done(at, &["mv", "lab.esker", "/archive/raw", "/archive/first"]);
    let got = done(at, &["get", "lab.esker", "file:/archive/first"]);
    assert!(
        got.starts_with("file:/archive/first\n") && got.contains("north"),
        "{got}"
    );
    let story = done(at, &["lineage", "lab.esker", "file:/archive/plot"]);
    assert!(
        story.contains("file:/archive/first") && !story.contains("/lab"),
        "{story}"
    );
    let walked = done(
        at,
        &[
            "travel",
            "lab.esker",
            "v(\"file:/archive/plot\").e(wasWrittenBy).v().e(read).v()",
        ],
    );
    assert!(walked.contains("file:/archive/first"), "{walked}");
    let events = done(at, &["history", "lab.esker", "file:/archive/first"]);
    assert!(
        events.contains("site") && events.contains("north"),
        "{events}"
    );
    let found = done(
        at,
        &[
            "find",
            "lab.esker",
            "key = '/archive/first'",
            "--type",
            "File",
        ],
    );
    assert!(found.contains("/archive/first"), "{found}");
    // A table refers to the file that has the path now, whatever its earlier path.
    std::fs::write(
        at.join("edges.csv"),
        "source,type,destination\njob:2,read,file:/archive/first\njob:3,read,file:/elsewhere\n",
    )
    .unwrap();
    done(at, &["import", "edges", "lab.esker", "edges.csv"]);
    let readers = done(
        at,
        &[
            "edges",
            "lab.esker",
            "file:/archive/first",
            "read",
            "--inverse",
        ],
    );
    assert!(
        readers.contains("job:1") && readers.contains("job:2"),
        "{readers}"
    );
    if is_folder() {
        // A bulk-loaded table does, too.
        std::fs::write(
            at.join("bulk.csv"),
            "source,type,destination\njob:4,read,file:/archive/first\n",
        )
        .unwrap();
        done(at, &["import", "edges", "lab.esker", "bulk.csv", "--bulk"]);
        let readers = done(
            at,
            &[
                "edges",
                "lab.esker",
                "file:/archive/first",
                "read",
                "--inverse",
            ],
        );
        assert!(readers.contains("job:4"), "{readers}");
    }
    // Another file takes the old path.
    done(at, &["mkdir", "lab.esker", "/lab"]);
    done(at, &["touch", "lab.esker", "/lab/raw"]);
    let none = refused(at, &["get", "lab.esker", "file:/lab/raw"]);
    assert!(none.contains("file:/lab/raw"), "{none}");
    sound(at);
}

/// A removed file is marked in the graph, and a new file of that name is another vertex.
#[test]
fn removed_files_are_marked() {
    everywhere(marks_removed);
}

fn marks_removed(at: &Path) {
    lab(at);
    done(at, &["rm", "lab.esker", "/lab/raw"]);
    let none = refused(at, &["get", "lab.esker", "file:/lab/raw"]);
    assert!(none.contains("deleted"), "{none}");
    let story = done(at, &["lineage", "lab.esker", "file:/lab/plot"]);
    assert!(
        story.contains("/lab/raw") && story.contains("deleted"),
        "{story}"
    );
    done(at, &["touch", "lab.esker", "/lab/raw"]);
    let link = ["link", "lab.esker", "--create", "job:9", "read"];
    done(at, &[&link[..], &["file:/lab/raw"]].concat());
    let got = done(at, &["get", "lab.esker", "file:/lab/raw"]);
    assert!(!got.contains("site"), "{got}");
    let readers = done(
        at,
        &["edges", "lab.esker", "file:/lab/raw", "read", "--inverse"],
    );
    assert!(
        readers.contains("job:9") && !readers.contains("job:1"),
        "{readers}"
    );
    sound(at);
}

#[test]
fn tags_are_shown_with_the_file() {
    everywhere(show_tags);
}

fn show_tags(at: &Path) {
    lab(at);
    let shown = done(at, &["stat", "lab.esker", "/lab/raw"]);
    assert!(
        shown.contains("user.esker.run=7") && shown.contains("user.esker.site=north"),
        "{shown}"
    );
}

/// The view of a principal, in a separate process and through the process that has the database open.
#[test]
fn answers_show_what_their_principal_may_read() {
    everywhere(show_what_one_may_read);
}

fn show_what_one_may_read(at: &Path) {
    lab(at);
    done(at, &["mv", "lab.esker", "/lab/raw", "/secret/raw"]);
    done(at, &["chmod", "lab.esker", "0700", "/secret"]);
    done(at, &["chown", "lab.esker", "7:8", "/secret"]);
    let sees = |who: &'static str| -> bool {
        let story = done(at, &["lineage", "lab.esker", "file:/lab/plot", "--as", who]);
        let json = done(
            at,
            &[
                "lineage",
                "lab.esker",
                "file:/lab/plot",
                "--as",
                who,
                "--format",
                "json",
            ],
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let walked = done(
            at,
            &[
                "travel",
                "lab.esker",
                "v(\"job:1\").e(read).v()",
                "--as",
                who,
                "--format",
                "csv",
            ],
        );
        let scanned = done(at, &["edges", "lab.esker", "job:1", "read", "--as", who]);
        let found = done(
            at,
            &[
                "find",
                "lab.esker",
                "size >= 0 OR NOT EXISTS size",
                "--type",
                "File",
                "--as",
                who,
                "--count",
            ],
        );
        let got = run(at, &["get", "lab.esker", "file:/secret/raw", "--as", who]);
        let past = run(
            at,
            &["history", "lab.esker", "file:/secret/raw", "--as", who],
        );
        let all = [&story, &json.to_string(), &walked, &scanned];
        let sees = story.contains("/secret/raw");
        for answer in all {
            assert_eq!(answer.contains("raw"), sees, "{who}: {answer}");
        }
        // Hidden items are absent: they are not counted, either.
        assert!(!story.contains("left out"), "{story}");
        assert!(json.get("left_out").is_none(), "{json}");
        assert_eq!(got.status.success(), sees);
        assert_eq!(past.status.success(), sees);
        assert_eq!(found.trim(), if sees { "2" } else { "1" }, "{found}");
        sees
    };
    let all = || ["7", "9", "9:8", "0"].map(sees);
    assert_eq!(all(), [true, false, false, true]);
    if !is_folder() {
        return;
    }
    // The view is equal through another process.
    let mut shell = esker(at)
        .args(["shell", "lab.esker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    writeln!(stdin, "put user:1 name=ada").unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(shell.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("inserted"), "{line}");
    assert_eq!(all(), [true, false, false, true]);
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    let told = refused(at, &["top", "lab.esker", "--by", "user", "--as", "7"]);
    assert!(told.contains("--by dir"), "{told}");
}
