//! Tests of the error messages for a folder that does not open.

use crate::child::Child;
use crate::graph::put_file;
use esker::{Database, OpenOptions, StoreEngine};
use expect_test::{Expect, expect};
use std::path::Path;

/// The error message, with the test's folder replaced.
fn message<T: std::fmt::Debug>(dir: &Path, result: esker::Result<T>) -> String {
    let e = result.expect_err("it must not open");
    format!("{:?}: {e}", e.kind()).replace(&format!("{}/", dir.display()), "")
}

fn refuses(setup: impl FnOnce(&Path), target: &str, options: &OpenOptions, expected: &Expect) {
    let dir = tempfile::tempdir().unwrap();
    setup(dir.path());
    let target = if target.contains("://") || target.is_empty() {
        target.to_owned()
    } else {
        dir.path().join(target).to_str().unwrap().to_owned()
    };
    expected.assert_eq(&message(dir.path(), options.open(&target)));
}

fn made(path: &Path) {
    let db = Database::init(path.to_str().unwrap(), &OpenOptions::new()).unwrap();
    put_file(&db, "/a", 1).unwrap();
    db.close().unwrap();
}

#[test]
fn no_folder() {
    refuses(
        |_| {},
        "lab.esker",
        &OpenOptions::new(),
        &expect![
            "Invalid: no database at `lab.esker`: there is no such folder; to make one: esker init lab.esker"
        ],
    );
}

#[test]
fn no_parent_folder() {
    let options = OpenOptions::new().create(true);
    refuses(
        |_| {},
        "a/b/lab.esker",
        &options,
        &expect![
            "Invalid: cannot make `a/b/lab.esker`: its parent folder does not exist; make that first (mkdir -p)"
        ],
    );
}

#[test]
fn an_empty_folder() {
    refuses(
        |dir| std::fs::create_dir(dir.join("lab.esker")).unwrap(),
        "lab.esker",
        &OpenOptions::new(),
        &expect![
            "Invalid: no database at `lab.esker`: the folder is empty; to make one: esker init lab.esker"
        ],
    );
}

#[test]
fn some_other_folder() {
    let setup = |dir: &Path| {
        for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
            std::fs::write(dir.join(name), "x").unwrap();
        }
    };
    let expected = expect![
        "Invalid: `./` is not an Esker database: it holds `a.txt`, `b.txt`, `c.txt` and 1 more, but no file `FORMAT`; to make one, name a folder that is empty or absent: esker init NEW.esker"
    ];
    refuses(
        setup,
        "",
        &OpenOptions::new(),
        &expect![
            "Invalid: the target is empty; expected the folder of a database, as in lab.esker, or a server, as in esker://127.0.0.1:7400"
        ],
    );
    refuses(setup, "./", &OpenOptions::new().create(true), &expected);
}

/// Closing once waited forever for a thread that could no longer be woken.
#[test]
fn a_folder_that_is_removed_while_open_can_be_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let db = Database::init(path.to_str().unwrap(), &OpenOptions::new()).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    // The store decides whether to report that something is missing; the close must end.
    let _ = db.close();
}

#[test]
fn a_file() {
    let setup = |dir: &Path| std::fs::write(dir.join("lab.esker"), "x").unwrap();
    let expected = expect!["Invalid: `lab.esker` is a file; an Esker database is a folder"];
    refuses(setup, "lab.esker", &OpenOptions::new(), &expected);
    refuses(
        setup,
        "lab.esker",
        &OpenOptions::new().create(true),
        &expected,
    );
    let below = expect!["Storage: opening `lab.esker/deeper`: Not a directory (os error 20)"];
    refuses(
        setup,
        "lab.esker/deeper",
        &OpenOptions::new().create(true),
        &below,
    );
}

#[test]
fn a_server() {
    let malformed = expect![
        "Invalid: `esker://login1:port` is not an address of a server: a port is a number from 1 to 65535; expected esker://HOST:PORT, as in esker://127.0.0.1:7400, with ?tls=FILE for a server with certificates, ?key=FILE for the SSH key to use, ?user=NAME for the user of a certificate, ?auth=munge, ?trust-new-host, ?ssh=on, ?plain=on, ?timeout=30s for a longer wait and ?cache=off for a client without a cache"
    ];
    refuses(
        |_| {},
        "esker://login1:port",
        &OpenOptions::new(),
        &malformed,
    );
    let nobody = expect![
        "Unavailable: nothing listens at 127.0.0.1:1: start a server there (`esker serve FOLDER --listen 127.0.0.1:1`), or correct the address"
    ];
    refuses(|_| {}, "esker://127.0.0.1:1", &OpenOptions::new(), &nobody);
}

fn with_format(text: &'static str) -> impl Fn(&Path) {
    move |dir| {
        made(&dir.join("lab.esker"));
        std::fs::write(dir.join("lab.esker/FORMAT"), text).unwrap();
    }
}

#[test]
fn a_newer_format() {
    refuses(
        with_format("Esker database\nformat 2\nengine fjall\nshards 7\n"),
        "lab.esker",
        &OpenOptions::new(),
        &expect![
            "Invalid: `lab.esker` was written by a newer Esker (format 2; this build reads up to 1): upgrade Esker"
        ],
    );
}

#[test]
fn a_format_file_that_is_something_else() {
    let options = OpenOptions::new();
    let expected = expect![
        "Invalid: `lab.esker` is not an Esker database: its file `FORMAT` does not begin with `Esker database`"
    ];
    refuses(with_format("MPEG-4\n"), "lab.esker", &options, &expected);
    let expected = expect![
        "Invalid: file `FORMAT` of `lab.esker` is damaged: expected a line `format NUMBER`; restore it from a backup"
    ];
    refuses(
        with_format("Esker database\nformat x\n"),
        "lab.esker",
        &options,
        &expected,
    );
    let expected = expect![
        "Invalid: `lab.esker` uses the store engine `leveldb`, which this build does not know; it knows fjall and rocksdb"
    ];
    refuses(
        with_format("Esker database\nformat 1\nengine leveldb\n"),
        "lab.esker",
        &options,
        &expected,
    );
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_store_engine_that_this_build_lacks() {
    let text = "Esker database\nformat 1\nengine rocksdb\n";
    let expected = expect![
        "Invalid: `lab.esker` uses the store engine rocksdb, which this build lacks: build Esker with --features rocksdb"
    ];
    refuses(
        with_format(text),
        "lab.esker",
        &OpenOptions::new(),
        &expected,
    );
    let options = OpenOptions::new().create(true).engine(StoreEngine::RocksDb);
    let expected = expect![
        "Invalid: this build lacks the store engine rocksdb: build Esker with --features rocksdb, or use fjall"
    ];
    refuses(|_| {}, "lab.esker", &options, &expected);
}

#[test]
fn init_of_what_exists() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    made(&path);
    let init = || {
        message(
            dir.path(),
            Database::init(path.to_str().unwrap(), &OpenOptions::new()),
        )
    };
    let expected = expect![
        "Invalid: `lab.esker` is a database already; to use it, leave out `init`; to start over, remove the folder first"
    ];
    expected.assert_eq(&init());
    // While the database is open as well.
    let open = OpenOptions::new().open(path.to_str().unwrap()).unwrap();
    expected.assert_eq(&init());
    drop(open);
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/thesis.tex"), "x").unwrap();
    let target = dir.path().join("full");
    let expected = expect![
        "Invalid: `full` is not an Esker database: it holds `thesis.tex`, but no file `FORMAT`; to make one, name a folder that is empty or absent: esker init NEW.esker"
    ];
    expected.assert_eq(&message(
        dir.path(),
        Database::init(target.to_str().unwrap(), &OpenOptions::new()),
    ));
}

/// The creator is killed at any point before `FORMAT`: the folder does not open, and `init` completes it.
#[test]
fn a_half_made_database() {
    for keep_store in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.esker");
        made(&path);
        std::fs::remove_file(path.join("FORMAT")).unwrap();
        if keep_store {
            std::fs::write(path.join("FORMAT.new"), "Esk").unwrap();
        } else {
            std::fs::remove_dir_all(path.join("store")).unwrap();
        }
        let target = path.to_str().unwrap();
        expect!["Invalid: `lab.esker` is half made: its creation was cut short before anything was stored; to finish it: esker init lab.esker"]
            .assert_eq(&message(dir.path(), OpenOptions::new().open(target)));
        let db = Database::init(target, &OpenOptions::new()).unwrap();
        assert!(crate::graph::files(&db).is_empty());
        db.close().unwrap();
        OpenOptions::new().open(target).unwrap();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// Root can write to all folders, so a child switches to another user.
#[test]
fn a_folder_without_permission() {
    if !is_root() {
        eprintln!("skipped: needs root, to become another user");
        return;
    }
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = dir.path().join("lab.esker");
    made(&path);
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable).unwrap();
    let Some(mut child) = Child::as_other_user(dir.path()) else {
        eprintln!(
            "not run: another user cannot reach {}",
            dir.path().display()
        );
        return;
    };
    let shown = |text: String| text.replace(&format!("{}/", dir.path().display()), "");
    expect!["error Invalid: cannot open `lab.esker`: no permission to write in it, and even readers write there (who has it open, and recovery); change its owner or mode, or copy the folder elsewhere"]
        .assert_eq(&shown(child.open(&path)));
    expect!["error Invalid: cannot open `mine.esker`: no permission to write in it, and even readers write there (who has it open, and recovery); change its owner or mode, or copy the folder elsewhere"]
        .assert_eq(&shown(child.tell(&format!("create {}", dir.path().join("mine.esker").display()))));
}

#[test]
fn a_read_only_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    made(&path);
    let shown = path.display();
    let script = format!("mount --bind {shown} {shown} && mount -o remount,bind,ro {shown}");
    let Some(mut child) = Child::behind_mounts(&script) else {
        eprintln!("skipped: needs leave to mount (unshare -m)");
        return;
    };
    expect!["error Invalid: cannot open `lab.esker`: its file system is mounted read-only, and even readers write there (who has it open, and recovery); mount it writable or copy the folder elsewhere"]
        .assert_eq(&child.open(&path).replace(&format!("{}/", dir.path().display()), ""));
}

/// A full disk: the write that does not fit fails with a clear message, and acknowledged writes are kept.
#[test]
fn a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let shown = dir.path().display();
    let Some(mut child) =
        Child::behind_mounts(&format!("mount -t tmpfs -o size=100m tmpfs {shown}"))
    else {
        eprintln!("skipped: needs leave to mount (unshare -m)");
        return;
    };
    let path = dir.path().join("lab.esker");
    assert_eq!(child.tell(&format!("create {}", path.display())), "owner");
    let filled = child.tell("fill full");
    let (written, why) = filled.split_once(" then ").unwrap();
    assert!(
        why.starts_with("Storage: ") && why.to_lowercase().contains("full"),
        "{filled}"
    );
    let count: u64 = child.tell("count").parse().unwrap();
    assert!(count >= written.parse().unwrap(), "{count} of {filled}");
}

/// A disk without space for an empty database.
#[test]
fn no_space_for_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let shown = dir.path().display();
    let Some(mut child) = Child::behind_mounts(&format!("mount -t tmpfs -o size=4k tmpfs {shown}"))
    else {
        eprintln!("skipped: needs leave to mount (unshare -m)");
        return;
    };
    let answer = child.tell(&format!(
        "create {}",
        dir.path().join("lab.esker").display()
    ));
    let answer = answer.replace(&format!("{}/", dir.path().display()), "");
    expect!["error Storage: creating lab.esker/store (the disk is full: make room, close the database and open it again): No space left on device (os error 28)"].assert_eq(&answer);
}

#[test]
fn backups_and_restores_that_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    made(&at("lab.esker"));
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/thesis.tex"), "x").unwrap();
    let db = OpenOptions::new()
        .open(at("lab.esker").to_str().unwrap())
        .unwrap();
    let backup = |name: &str| message(dir.path(), db.backup(&at(name)));
    expect!["Invalid: cannot back up to `full`: the folder is not empty; name one that is empty or absent"].assert_eq(&backup("full"));
    expect!["Invalid: cannot back up to `full/thesis.tex`: it is a file; name a folder that is empty or absent"].assert_eq(&backup("full/thesis.tex"));
    expect!["Invalid: cannot back up to `a/b`: its parent folder does not exist; make that first (mkdir -p)"].assert_eq(&backup("a/b"));
    expect!["Invalid: cannot back up to `lab.esker/copy`: it is inside the database; name a folder elsewhere"].assert_eq(&backup("lab.esker/copy"));
    let restore = |from: &str, to: &str| message(dir.path(), Database::restore(&at(from), &at(to)));
    let pid = format!("process {} on host", std::process::id());
    let open = restore("lab.esker", "new");
    assert!(
        open.starts_with("Unavailable: the backup `lab.esker` is open in ") && open.contains(&pid),
        "{open}"
    );
    db.close().unwrap();
    expect!["Invalid: cannot restore to `full`: the folder is not empty; name one that is empty or absent"].assert_eq(&restore("lab.esker", "full"));
    expect!["Invalid: no backup at `nothing`: there is no such folder"]
        .assert_eq(&restore("nothing", "new"));
    expect!["Invalid: `full` is not an Esker database: it holds `thesis.tex`, but no file `FORMAT`; to make one, name a folder that is empty or absent: esker init NEW.esker"].assert_eq(&restore("full", "new"));
    assert!(!at("new").exists());
}
