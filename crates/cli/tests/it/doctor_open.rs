//! `esker doctor` on installations with excessive permissions: it reports the problem, the risk, and the command that fixes it.

use crate::access::is_root;
use crate::runs::Lab;
use serde_json::Value as Json;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the rows and the exit code.
fn doctor(lab: &Lab, words: &[&str]) -> (Vec<Json>, Option<i32>) {
    let mut command = lab.esker(&[&["doctor"], words, &["--format", "json"]].concat());
    let out = command.env("HOME", lab.at("home")).output().unwrap();
    let rows = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    (rows, out.status.code())
}

/// Returns the findings of a part as `state: found`; each must have a reason and a remedy.
fn findings(rows: &[Json], part: &str) -> Vec<String> {
    let rows = rows.iter().filter(|r| r["part"] == part);
    let finding = |row: &Json| {
        let state = row["state"].as_str().unwrap();
        if ["note", "warning", "wrong"].contains(&state) {
            assert!(row["why"].is_string() && row["remedy"].is_string(), "{row}");
        }
        format!("{state}: {}", row["found"].as_str().unwrap())
    };
    rows.map(finding).collect()
}

/// Runs the remedy of the part's first finding.
fn close(lab: &Lab, rows: &[Json], part: &str) {
    let row = rows.iter().find(|r| r["part"] == part).unwrap();
    let remedy = row["remedy"].as_str().unwrap();
    let command = remedy.split([';', ',']).next().unwrap();
    assert!(command.starts_with("chmod "), "{remedy}");
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(lab.at("."))
        .status();
    assert!(done.unwrap().success(), "{command}");
}

fn made() -> Lab {
    let lab = Lab::new();
    assert!(
        lab.said(&["init", lab.at("lab.esker").to_str().unwrap()])
            .status
            .success()
    );
    lab
}

/// A folder as created by earlier releases with umask 022, accessible to all users.
#[test]
fn a_database_that_all_read() {
    let lab = made();
    let folder = lab.at("lab.esker");
    mode(&lab.at("."), 0o755);
    let (rows, code) = doctor(&lab, &[]);
    assert_eq!(
        (findings(&rows, "store"), code),
        (vec![], Some(0)),
        "{rows:#?}"
    );
    mode(&folder, 0o755);
    let (rows, _) = doctor(&lab, &[]);
    assert_eq!(findings(&rows, "store"), Vec::<String>::new());
    mode(&folder.join("store"), 0o755);
    let (rows, code) = doctor(&lab, &[]);
    let found = findings(&rows, "store");
    assert!(
        found[0].starts_with("wrong: ") && found[0].ends_with("others may read store"),
        "{found:?}"
    );
    assert_eq!(code, Some(1));
    // If nobody can reach it, nobody can read it.
    mode(&lab.at("."), 0o700);
    let (rows, _) = doctor(&lab, &[]);
    assert!(
        findings(&rows, "store")[0].starts_with("warning: "),
        "its group may, if somebody moves it"
    );
    mode(&lab.at("."), 0o755);
    let (rows, _) = doctor(&lab, &[]);
    close(&lab, &rows, "store");
    let (rows, code) = doctor(&lab, &[]);
    assert_eq!(
        (findings(&rows, "store"), code),
        (vec![], Some(0)),
        "{rows:#?}"
    );
}

/// A user with write permission in or above a database can replace it.
#[test]
fn folders_that_others_write() {
    let lab = made();
    for (path, part, given, state) in [
        (lab.at("lab.esker"), "folder", 0o757, "wrong"),
        (lab.at("lab.esker"), "folder", 0o770, "warning"),
        (lab.at("."), "parents", 0o757, "wrong"),
        (lab.at("."), "parents", 0o775, "warning"),
    ] {
        mode(&path, given);
        let (rows, code) = doctor(&lab, &[]);
        let found = findings(&rows, part);
        assert!(
            found[0].starts_with(state) && found[0].contains(&format!("mode {given:o}")),
            "{found:?}"
        );
        assert_eq!(code, Some(i32::from(state == "wrong")));
        close(&lab, &rows, part);
        let (rows, code) = doctor(&lab, &[]);
        assert!(
            findings(&rows, part).iter().all(|f| f.starts_with("ok: ")),
            "{rows:#?}"
        );
        assert_eq!(code, Some(0));
        mode(&path, 0o700);
    }
    mode(&lab.at("."), 0o1777);
    let (rows, code) = doctor(&lab, &[]);
    assert_eq!((findings(&rows, "parents"), code), (vec![], Some(0)));
    if is_root() {
        chown(lab.at("."), Some(4_711), None).unwrap();
        let (rows, _) = doctor(&lab, &[]);
        assert!(
            findings(&rows, "parents")[0].ends_with("belongs to user 4711"),
            "{rows:#?}"
        );
    }
}

#[test]
fn keys_and_tokens() {
    let lab = made();
    let folder = lab.at("lab.esker");
    let at = folder.to_str().unwrap();
    fs::create_dir(lab.at("home")).unwrap();
    let key =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFAjUEziGDlI4XRVoGt5SLFp/uyzqVWz+uiMnkL0wT9U bob@lab";
    for words in [
        &["grant", at, "--key", key][..],
        &["grant", at, "--token", "--role", "admin", "--for", "300d"],
        &["grant", at, "--token"],
    ] {
        let out = lab
            .esker(words)
            .env("HOME", lab.at("home"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    }
    let (rows, code) = doctor(&lab, &[]);
    let found = findings(&rows, "tokens");
    assert_eq!(found.len(), 1, "the one of 8 hours is fine: {found:?}");
    assert!(
        found[0].starts_with("warning: token:") && found[0].contains("(admin) ends in "),
        "{found:?}"
    );
    let found = findings(&rows, "keys");
    assert!(
        found[0].starts_with("note: SHA256:")
            && found[0].contains("bob@lab (read) has no end, and opens from everywhere"),
        "{found:?}"
    );
    assert_eq!(
        findings(&rows, "rights"),
        ["ok: 1 key has rights, 2 tokens open"]
    );
    assert_eq!(code, Some(0));
    // A file that a server ignores: its revocations have no effect.
    mode(&folder.join("authorized_keys"), 0o664);
    mode(&folder.join("access_tokens"), 0o644);
    let (rows, code) = doctor(&lab, &[]);
    assert!(
        findings(&rows, "keys")[0].contains("can be written by others (mode 664)"),
        "{rows:#?}"
    );
    assert!(
        findings(&rows, "secrets")[0].ends_with("access_tokens: mode 644"),
        "{rows:#?}"
    );
    assert_eq!(code, Some(1));
    mode(&folder.join("authorized_keys"), 0o600);
    close(&lab, &rows, "secrets");
    let (_, code) = doctor(&lab, &[]);
    assert_eq!(code, Some(0));
}

#[test]
fn spools_and_an_etcd_that_anybody_uses() {
    let lab = made();
    let spool = lab.at("spool");
    fs::create_dir(&spool).unwrap();
    for (given, state) in [(0o777, "wrong"), (0o770, "note"), (0o1777, "wrong")] {
        mode(&spool, given);
        let (rows, code) = doctor(&lab, &[]);
        assert!(
            findings(&rows, "spool-mode")[0].starts_with(state),
            "{rows:#?}"
        );
        assert_eq!(code, Some(i32::from(state == "wrong")));
    }
    fs::write(spool.join("note.txt"), "what anybody reads").unwrap();
    mode(&spool.join("note.txt"), 0o644);
    mode(&spool, 0o755);
    let (rows, _) = doctor(&lab, &[]);
    assert!(
        findings(&rows, "spool-mode")[0].starts_with("warning: 1 file may be read by all"),
        "{rows:#?}"
    );
    // A cluster's storage with an unprotected etcd.
    let storage = lab.at("storage");
    fs::create_dir_all(storage.join("etcd")).unwrap();
    mode(&storage, 0o700);
    fs::write(storage.join("CLUSTER"), "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    fs::write(storage.join("etcd/url"), format!("http://{address}\n")).unwrap();
    let answers = |status: &'static str| {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4_096];
            let n = stream.read(&mut asked).unwrap();
            assert!(asked[..n].starts_with(b"POST /v3/kv/range "));
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
        })
    };
    for (status, state) in [("200 OK", "wrong"), ("401 Unauthorized", "ok")] {
        let answering = answers(status);
        let (rows, code) = doctor(&lab, &[storage.to_str().unwrap()]);
        answering.join().unwrap();
        assert!(findings(&rows, "etcd")[0].starts_with(state), "{rows:#?}");
        assert_eq!(code, Some(i32::from(state == "wrong")), "{rows:#?}");
    }
    drop(listener);
    let (rows, code) = doctor(&lab, &[storage.to_str().unwrap()]);
    assert!(
        findings(&rows, "etcd")[0].starts_with("warning"),
        "{rows:#?}"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn a_server_that_other_machines_reach() {
    let lab = made();
    let server = crate::access::Lab::start(&lab.at("."), "0.0.0.0:0");
    let (rows, code) = doctor(&lab, &[]);
    let found = findings(&rows, "listener");
    assert!(
        found[0].starts_with("warning: process ") && found[0].contains(" 0.0.0.0:"),
        "{rows:#?}"
    );
    assert!(
        findings(&rows, "loopback")[0].starts_with("note: "),
        "{rows:#?}"
    );
    assert_eq!(findings(&rows, "sandbox").len(), 1);
    assert_eq!(code, Some(0), "{rows:#?}");
    drop(server);
}

/// Folders created by `init` and `serve --create` are private to their owner.
#[test]
fn what_is_made_is_closed() {
    let lab = Lab::new();
    for (name, words, expected) in [
        ("a.esker", &["init", "a.esker"][..], 0o700),
        ("g.esker", &["init", "g.esker", "--group"], 0o750),
    ] {
        let line = format!("umask 000; exec \"$0\" {}", words.join(" "));
        let out = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_esker")])
            .current_dir(lab.at("."))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        let found = fs::metadata(lab.at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, expected, "{name}");
        let store = fs::metadata(lab.at(name).join("store")).unwrap();
        assert_eq!(store.permissions().mode() & 0o777, 0o700, "{name}");
    }
}
