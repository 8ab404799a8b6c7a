//! Files in RO-Crates: users with write access to the graph choose the paths, but no files are read or written
//! through them elsewhere.

use crate::access::is_root;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The attacking user.
const EVE: u32 = 7002;

struct Lab {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home/.ssh", "work"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let lab = Self { dir, root };
        lab.does(&["init", "lab.esker"]);
        lab
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn esker(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_esker"))
            .args(words)
            .current_dir(self.dir.path())
            .env("HOME", self.at("home"))
            .env_remove("ESKER_TARGET")
            .output()
            .unwrap()
    }

    fn does(&self, words: &[&str]) -> String {
        let out = self.esker(words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// Creates a run that has written a result and read a file with this key.
    fn reads(&self, key: &str) {
        let file = format!("file:{key}");
        let link = |words: &[&str]| {
            self.does(&[&["link", "lab.esker"], words, &["--create"]].concat());
        };
        link(&["execution:one", "read", &file]);
        link(&["execution:one", "write", "file:/none/result"]);
    }

    /// Exports to `work/crate`; returns the messages and the crate's path.
    fn export(&self, more: &[&str]) -> (String, PathBuf) {
        let folder = self.at("work/crate");
        let _ = fs::remove_dir_all(&folder);
        let words = [
            "export",
            "ro-crate",
            "lab.esker",
            "file:/none/result",
            "work/crate",
            "--files",
        ];
        let out = self.esker(&[&words, more].concat());
        (String::from_utf8(out.stderr).unwrap(), folder)
    }
}

fn inside(folder: &Path, path: &Path) -> PathBuf {
    folder.join("files").join(path.strip_prefix("/").unwrap())
}

/// The key leads from the crate up to the exporting user's home, and through a link to a file of the attacker.
#[test]
fn a_crate_is_written_nowhere_else() {
    let lab = Lab::new();
    let link = lab.at("e/L");
    // From `work/crate.unfinished/files/…/e/L` to the lab's folder.
    let ups = link.components().count() - 1 + 3;
    let deep: PathBuf = (0..ups).map(|n| n.to_string()).collect();
    fs::create_dir_all(lab.at("e/base").join(&deep)).unwrap();
    fs::create_dir_all(lab.at("e/base/home")).unwrap();
    fs::write(lab.at("e/base/home/.bashrc"), "evil").unwrap();
    symlink(lab.at("e/base").join(&deep), &link).unwrap();
    let key = format!("{}{}/home/.bashrc", link.display(), "/..".repeat(ups));
    assert_eq!(fs::read(&key).unwrap(), b"evil", "the source is there");
    lab.reads(&key);
    let more = ["--files-from-anywhere", "--files-without-size"];
    for more in [&[][..], &more] {
        let (said, folder) = lab.export(more);
        assert!(said.contains("leads above the root"), "{said}");
        assert!(!lab.at("home/.bashrc").exists());
        assert!(folder.join("ro-crate-metadata.json").exists());
        assert!(!folder.join("files").exists());
    }
}

#[test]
fn secrets_of_a_home_go_into_no_crate_by_themselves() {
    let lab = Lab::new();
    let secret = lab.at("home/.ssh/id_ed25519");
    fs::write(&secret, "key").unwrap();
    let path = secret.to_str().unwrap();
    lab.reads(path);
    let (said, folder) = lab.export(&[]);
    assert!(said.contains("a name that begins with a dot"), "{said}");
    assert!(!inside(&folder, &secret).exists());
    // The file stays out even if the attacker knows its size, and through a link elsewhere.
    let file = format!("file:{path}");
    lab.does(&["set", "lab.esker", &file, "size=3"]);
    let (said, folder) = lab.export(&["--files-without-size"]);
    assert!(said.contains("a name that begins with a dot"), "{said}");
    assert!(!inside(&folder, &secret).exists());
    symlink("../home/.ssh", lab.at("work/data")).unwrap();
    let by_link = lab.at("work/data/id_ed25519");
    lab.reads(by_link.to_str().unwrap());
    let (said, folder) = lab.export(&["--files-without-size"]);
    assert_eq!(
        said.matches("a name that begins with a dot").count(),
        2,
        "{said}"
    );
    assert!(!inside(&folder, &by_link).exists());
    // With the explicit option, files are included and listed.
    let (said, folder) = lab.export(&["--files-from-anywhere"]);
    assert!(said.contains(&format!("{path} (3 B")), "{said}");
    assert_eq!(fs::read(inside(&folder, &secret)).unwrap(), b"key");
}

#[test]
fn links_of_others_pipes_and_files_that_were_not_seen_are_left() {
    let lab = Lab::new();
    let at = |name: &str| lab.at(name).to_str().unwrap().to_owned();
    fs::create_dir_all(lab.at("work/real")).unwrap();
    fs::write(lab.at("work/real/seen"), "seen").unwrap();
    fs::write(lab.at("work/real/unseen"), "unseen").unwrap();
    symlink("real", lab.at("work/own")).unwrap();
    lab.reads(&at("work/own/seen"));
    lab.does(&[
        "set",
        "lab.esker",
        &format!("file:{}", at("work/own/seen")),
        "size=4",
    ]);
    lab.reads(&at("work/real/unseen"));
    let made = Command::new("mkfifo").arg(lab.at("work/pipe")).status();
    assert!(made.unwrap().success());
    lab.reads(&at("work/pipe"));
    if is_root() {
        symlink("real", lab.at("work/eves")).unwrap();
        let eve = Some(EVE);
        std::os::unix::fs::lchown(lab.at("work/eves"), eve, eve).unwrap();
        lab.reads(&at("work/eves/seen"));
    }
    let (said, folder) = lab.export(&[]);
    assert!(said.contains("its size was never recorded"), "{said}");
    assert!(said.contains("not a regular file"), "{said}");
    if is_root() {
        assert!(
            said.contains(&format!("is a symbolic link of user {EVE}")),
            "{said}"
        );
    }
    assert_eq!(
        fs::read(inside(&folder, &lab.at("work/own/seen"))).unwrap(),
        b"seen"
    );
    assert!(!inside(&folder, &lab.at("work/real/unseen")).exists());
    assert!(!inside(&folder, &lab.at("work/eves")).exists());
    // Sizes recorded by runs count, too.
    let (_, folder) = lab.export(&["--files-without-size"]);
    assert!(inside(&folder, &lab.at("work/real/unseen")).exists());
    let words = [
        "run",
        "--target",
        "lab.esker",
        "--wait",
        "--spool",
        "spool",
        "--out",
    ];
    let file = lab.at("work/real/made");
    let made = file.to_str().unwrap();
    lab.does(&[&words, &[made, "--", "touch", made][..]].concat());
    let vertex = format!("file:{made}");
    lab.does(&[
        "export",
        "ro-crate",
        "lab.esker",
        &vertex,
        "work/other",
        "--files",
    ]);
    assert!(inside(&lab.at("work/other"), &file).exists());
}

#[test]
fn a_folder_that_somebody_made_before_is_not_written_to() {
    let lab = Lab::new();
    lab.reads("/none/input");
    fs::create_dir(lab.at("elsewhere")).unwrap();
    symlink("../elsewhere", lab.at("work/crate.unfinished")).unwrap();
    let (said, folder) = lab.export(&[]);
    assert!(
        said.contains("crate.unfinished") && !folder.exists(),
        "{said}"
    );
    assert_eq!(fs::read_dir(lab.at("elsewhere")).unwrap().count(), 0);
}

#[test]
fn documents_name_files_by_their_plain_paths() {
    let lab = Lab::new();
    let refuses = |name: &str, text: &str, words: &[&str]| {
        fs::write(lab.at(name), text).unwrap();
        let out = lab.esker(words);
        let said = String::from_utf8_lossy(&out.stderr).into_owned()
            + &String::from_utf8_lossy(&out.stdout);
        assert!(
            said.contains("not the plain form of a path"),
            "{name}: {said}"
        );
    };
    let prov = "document\n prefix f <file:///a/../>\n entity(f:b)\nendDocument\n";
    refuses("x.provn", prov, &["import", "prov", "lab.esker", "x.provn"]);
    let event = r#"{"eventTime": "2026-03-01T12:00:00Z", "job": {"namespace": "n", "name": "j"},
        "outputs": [{"namespace": "file", "name": "/a/../b"}]}"#;
    let event = event.replace('\n', " ") + "\n";
    refuses(
        "x.ndjson",
        &event,
        &["import", "openlineage", "lab.esker", "x.ndjson"],
    );
    let words = [
        "export",
        "vertices",
        "lab.esker",
        "-",
        "--type",
        "File",
        "--output-format",
        "ndjson",
    ];
    assert_eq!(lab.does(&words), "");
}
