//! `esker harvest` on trees of other users: a header is visible only to users who can read its file, and the file
//! that was found is the
//! one that is read.

use crate::access::{has, is_root};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

const ADA: u32 = 7001;
const EVE: u32 = 7002;
const LAB: u32 = 7050;

/// A reader that replaces Python with its libraries: the tag `CONTENT` is the file's content. It first runs a
/// program, which can change
/// files at that time.
const READER: &str = r#"#!/usr/bin/env python3
import json, os, subprocess, sys
print(json.dumps({"ready": "3"}), flush=True)
for line in sys.stdin:
    path = json.loads(line)["path"]
    print(json.dumps({"begin": True}), flush=True)
    if os.path.exists(os.environ["MEANWHILE"]):
        subprocess.run([os.environ["MEANWHILE"]], check=True)
    if os.path.isdir(path):
        path = os.path.join(path, ".zattrs")
    text = open(path).read()[-20:]
    print(json.dumps({"format": "fits", "tags": [["CONTENT", text.strip()]]}), flush=True)
"#;

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// Returns `None` without a second user or Python.
    fn new() -> Option<Self> {
        if !is_root() || !has("setpriv") || !has("python3") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let lab = Self { dir };
        mode(lab.dir.path(), 0o755);
        fs::write(lab.at("reader"), READER).unwrap();
        mode(&lab.at("reader"), 0o755);
        Some(lab)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self, name: &str, (uid, gid): (u32, u32), bits: u32) {
        fs::create_dir(self.at(name)).unwrap();
        mode(&self.at(name), bits);
        chown(self.at(name), Some(uid), Some(gid)).unwrap();
    }

    fn file(&self, name: &str, (uid, gid): (u32, u32), bits: u32) {
        let text = format!("{:<80}BITPIX  ={name:>20}", "SIMPLE  =");
        fs::write(self.at(name), text).unwrap();
        mode(&self.at(name), bits);
        chown(self.at(name), Some(uid), Some(gid)).unwrap();
    }

    fn said(&self, words: &[&str]) -> String {
        let out = Command::new(env!("CARGO_BIN_EXE_esker"))
            .args(words)
            .current_dir(self.dir.path())
            .env("MEANWHILE", self.at("meanwhile"))
            .output()
            .unwrap();
        let told = [out.stdout, out.stderr].concat();
        String::from_utf8(told).unwrap()
    }

    fn harvest(&self, folder: &str) -> String {
        self.said(&[
            "harvest",
            "lab.esker",
            folder,
            "--python",
            "./reader",
            "--jobs",
            "1",
        ])
    }

    /// Returns the contents visible to a principal, in order.
    fn found(&self, principal: &[&str]) -> Vec<String> {
        let words = [
            "find",
            "lab.esker",
            "CONTENT EXISTS",
            "--select",
            "CONTENT",
            "--format",
            "csv",
        ];
        let told = self.said(&[&words, principal].concat());
        let lines = told.lines().filter_map(|l| l.rsplit(',').next());
        let mut all: Vec<String> = lines
            .filter(|cell| cell.contains('/'))
            .map(str::to_owned)
            .collect();
        all.sort();
        all
    }
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

/// Whether the kernel lets a user read a file.
fn reads(path: &Path, uid: u32, groups: &[u32]) -> bool {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
    if groups.is_empty() {
        command.arg("--clear-groups");
    } else {
        let list: Vec<String> = groups.iter().map(u32::to_string).collect();
        command.arg(format!("--groups={}", list.join(",")));
    }
    let out = command.arg("cat").arg(path).output().unwrap();
    out.status.success()
}

#[test]
fn a_header_is_visible_to_readers_of_its_file() {
    let Some(lab) = Lab::new() else { return };
    lab.folder("d", (0, 0), 0o755);
    let (ada, root) = ((ADA, ADA), (0, LAB));
    for (folder, owner, bits) in [
        ("d/open", ada, 0o755),
        ("d/own", ada, 0o700),
        ("d/own/below", ada, 0o755),
        ("d/passed", ada, 0o711),
        ("d/group", root, 0o750),
        ("d/shut", (0, 0), 0o700),
    ] {
        lab.folder(folder, owner, bits);
    }
    let files = [
        ("d/open/all", ada, 0o644),
        ("d/open/one", ada, 0o600),
        ("d/open/lab", (ADA, LAB), 0o640),
        ("d/own/all", ada, 0o644),
        ("d/own/below/all", ada, 0o644),
        ("d/passed/all", ada, 0o644),
        ("d/group/all", (EVE, LAB), 0o644),
        ("d/group/lab", root, 0o640),
        ("d/shut/all", ada, 0o644),
    ];
    for (name, owner, bits) in files {
        lab.file(name, owner, bits);
    }
    let told = lab.harvest("d");
    assert_eq!(lab.found(&[]).len(), files.len(), "{told}");
    let people: [(u32, &[u32]); 4] = [
        (ADA, &[ADA]),
        (EVE, &[EVE]),
        (EVE, &[EVE, LAB]),
        (7003, &[LAB]),
    ];
    let check = || {
        for (uid, groups) in people {
            let list: Vec<String> = groups.iter().map(u32::to_string).collect();
            let found = lab.found(&["--as", &format!("{uid}:{}", list.join(","))]);
            for name in &found {
                assert!(
                    reads(&lab.at(name), uid, groups),
                    "{name} shows to {uid} {groups:?}"
                );
            }
            // Only the owner may miss a readable file: a file's owner is known, but not the owner's groups.
            for (name, owner, _) in files {
                let shows = found.iter().any(|f| f == name);
                assert!(
                    shows || !reads(&lab.at(name), uid, groups) || owner.0 == uid,
                    "{name} does not show to {uid} {groups:?}"
                );
            }
        }
    };
    check();
    let eves = lab.found(&["--as", &format!("{EVE}:{EVE}")]);
    assert_eq!(eves, ["d/open/all", "d/passed/all"]);
    // The next harvest notices a folder whose permissions were restricted, though no file has changed.
    mode(&lab.at("d/open"), 0o700);
    lab.harvest("d");
    check();
    assert_eq!(
        lab.found(&["--as", &format!("{EVE}:{EVE}")]),
        ["d/passed/all"]
    );
}

/// Between the tree walk and the reader, a file is replaced by a link to another user's file.
#[test]
fn what_is_read_is_what_was_found() {
    let Some(lab) = Lab::new() else { return };
    lab.folder("d", (EVE, EVE), 0o755);
    lab.folder("private", (ADA, ADA), 0o700);
    lab.file("private/secret", (ADA, ADA), 0o600);
    lab.file("d/x", (EVE, EVE), 0o644);
    let swap = "#!/bin/sh\n[ -L d/x ] || { rm d/x; ln -s ../private/secret d/x; }\n";
    fs::write(lab.at("meanwhile"), swap).unwrap();
    mode(&lab.at("meanwhile"), 0o755);
    let told = lab.harvest("d");
    assert_eq!(lab.found(&[]), ["d/x"], "{told}");
    assert!(lab.at("d/x").is_symlink());
    // A link in place of a folder, and in a store.
    fs::remove_file(lab.at("meanwhile")).unwrap();
    fs::remove_file(lab.at("d/x")).unwrap();
    std::os::unix::fs::symlink("../private", lab.at("d/folder")).unwrap();
    lab.folder("d/store", (EVE, EVE), 0o755);
    fs::write(lab.at("d/store/.zgroup"), "{}").unwrap();
    std::os::unix::fs::symlink("../../private/secret", lab.at("d/store/.zattrs")).unwrap();
    let told = lab.harvest("d");
    assert!(
        told.contains(".zattrs") && told.contains("not a regular file"),
        "{told}"
    );
    assert!(!lab.found(&[]).iter().any(|f| f.contains("secret")));
    // A store is visible to users who can read all of its metadata.
    fs::remove_file(lab.at("d/store/.zattrs")).unwrap();
    fs::write(lab.at("d/store/.zattrs"), "d/store").unwrap();
    chown(lab.at("d/store/.zattrs"), Some(EVE), Some(EVE)).unwrap();
    mode(&lab.at("d/store/.zattrs"), 0o600);
    lab.harvest("d");
    let found = |user: u32| lab.found(&["--as", &format!("{user}:{user}")]);
    assert_eq!(found(EVE), ["d/store", "d/x"]);
    assert_eq!(found(ADA), ["d/x"]);
}
