//! Ordinary programs, unmodified, on a mount.

use crate::scratch::{Scratch, mounting};
use std::fs;
use std::path::Path;
use std::process::Command;

fn run(at: &Path, program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {said}{errors}");
    said
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let found = found.is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

const C_FILE: &str = r#"
#include <stdio.h>
#include "sum.h"
int main(void) { printf("%d\n", sum(40, 2)); return 0; }
"#;
const MAKEFILE: &str =
    "app: main.o sum.o\n\tcc -o app main.o sum.o\n%.o: %.c sum.h\n\tcc -c -o $@ $<\n";

#[test]
fn a_c_program_is_built_and_runs() {
    mounting(|| {
        if !has("make") || !has("cc") {
            return;
        }
        let scratch = Scratch::new();
        let at = scratch.at();
        fs::write(at.join("main.c"), C_FILE).unwrap();
        fs::write(at.join("sum.h"), "int sum(int a, int b);\n").unwrap();
        fs::write(
            at.join("sum.c"),
            "int sum(int a, int b) { return a + b; }\n",
        )
        .unwrap();
        fs::write(at.join("Makefile"), MAKEFILE).unwrap();
        run(&at, "make", &["-j2"]);
        assert_eq!(run(&at, "./app", &[]), "42\n");
        assert!(run(&at, "make", &[]).contains("up to date"));
        fs::write(
            at.join("sum.c"),
            "int sum(int a, int b) { return a - b; }\n",
        )
        .unwrap();
        run(&at, "make", &[]);
        assert_eq!(run(&at, "./app", &[]), "38\n");
    });
}

#[test]
fn git_keeps_a_repository() {
    mounting(|| {
        if !has("git") {
            return;
        }
        let scratch = Scratch::new();
        let origin = scratch.folder().join("origin");
        fs::create_dir(&origin).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        run(&origin, "git", &["init", "-q", "-b", "main"]);
        for n in 0..30 {
            let lines: Vec<String> = (0..n * 40).map(|i| format!("line {i} of {n}")).collect();
            let text = lines.join("\n");
            fs::create_dir_all(origin.join(format!("d{}", n % 4))).unwrap();
            fs::write(origin.join(format!("d{}/f{n}", n % 4)), text).unwrap();
        }
        run(&origin, "git", &["add", "."]);
        run(
            &origin,
            "git",
            &[&who[..], &["commit", "-qm", "first"]].concat(),
        );
        let at = scratch.at();
        let from = origin.to_str().unwrap();
        run(&at, "git", &["clone", "-q", "--no-local", from, "clone"]);
        let clone = at.join("clone");
        assert_eq!(run(&clone, "git", &["status", "--porcelain"]), "");
        fs::write(clone.join("d1/f1"), "changed\n").unwrap();
        fs::remove_file(clone.join("d2/f2")).unwrap();
        assert_eq!(
            run(&clone, "git", &["status", "--porcelain"]),
            " M d1/f1\n D d2/f2\n"
        );
        run(
            &clone,
            "git",
            &[&who[..], &["commit", "-qam", "second"]].concat(),
        );
        run(&clone, "git", &["gc", "-q"]);
        run(&clone, "git", &["fsck", "--full", "--strict"]);
        run(&clone, "git", &["checkout", "-q", "HEAD~1"]);
        assert!(clone.join("d2/f2").exists());
        scratch.demand_sound();
    });
}

#[test]
fn tar_packs_and_unpacks() {
    mounting(|| {
        if !has("tar") {
            return;
        }
        let scratch = Scratch::new();
        let source = scratch.folder().join("source");
        fs::create_dir_all(source.join("a/b/c")).unwrap();
        for n in 0..200_usize {
            let content: Vec<u8> = (0..n * 100).map(|i| (i * n % 253) as u8).collect();
            fs::write(source.join(format!("a/b/c/{n}")), content).unwrap();
        }
        std::os::unix::fs::symlink("b/c/1", source.join("a/link")).unwrap();
        fs::hard_link(source.join("a/b/c/2"), source.join("a/hard")).unwrap();
        run(scratch.folder(), "tar", &["cf", "mnt/packed.tar", "source"]);
        run(&scratch.at(), "tar", &["xpf", "packed.tar"]);
        let at = scratch.path("source");
        run(
            &scratch.at(),
            "diff",
            &["-r", source.to_str().unwrap(), at.to_str().unwrap()],
        );
        run(&scratch.at(), "tar", &["df", "packed.tar"]);
        run(&scratch.at(), "rm", &["-r", "source"]);
        scratch.demand_sound();
    });
}

const SQLITE: &str = r#"
import sqlite3, sys
for mode in ("delete", "wal", "truncate"):
    c = sqlite3.connect("data-" + mode + ".db", timeout=10)
    assert c.execute("pragma journal_mode=" + mode).fetchone()[0] == mode
    c.execute("create table t(a integer primary key, b text)")
    for i in range(20):
        with c:
            c.executemany("insert into t(b) values (?)", [("x" * (i * 50),)] * 50)
    try:
        with c:
            c.execute("delete from t")
            raise RuntimeError
    except RuntimeError:
        pass
    d = sqlite3.connect("data-" + mode + ".db", timeout=10)
    assert d.execute("select count(*) from t").fetchone()[0] == 1000
    with c:
        c.execute("update t set b = 'y' where a % 2 = 0")
    assert d.execute("select count(*) from t where b = 'y'").fetchone()[0] == 500
    c.execute("vacuum")
    assert d.execute("pragma integrity_check").fetchone()[0] == "ok"
    c.close()
    d.close()
print("well")
"#;

#[test]
fn sqlite_keeps_a_database() {
    mounting(|| {
        if !has("python3") {
            return;
        }
        for passthrough in [true, false] {
            let scratch = Scratch::with(|o| o.passthrough = passthrough);
            let said = run(&scratch.at(), "python3", &["-c", SQLITE]);
            assert_eq!(said, "well\n", "passthrough: {passthrough}");
            scratch.demand_sound();
        }
    });
}
