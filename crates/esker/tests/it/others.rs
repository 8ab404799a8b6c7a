//! What users of the machine may do to a process that has a database open, and by a folder of theirs.

use crate::child::{Child, OTHER_USER};
use crate::processes::{database, open};
use esker::{OpenOptions, SAFE_FOLDERS};
use esker_testkit::wait::{HANG, wait_until};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A folder that everybody reaches, and a child that is somebody else; `None` where that is not possible.
fn with_other() -> Option<(tempfile::TempDir, Child)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only user 0 can start processes of others");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    mode(dir.path(), 0o755);
    let child = Child::as_other_user(dir.path());
    if child.is_none() {
        eprintln!(
            "not run: another user cannot reach {}",
            dir.path().display()
        );
    }
    Some((dir, child?))
}

fn give_to_other(at: &Path) {
    chown(at, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            give_to_other(&path);
        } else {
            chown(&path, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
    }
}

/// Somebody makes a database that everybody may write in, and waits for another user to open it first.
#[test]
fn a_folder_of_somebody_else_s_is_not_opened_for_them() {
    let Some((dir, mut other)) = with_other() else {
        return;
    };
    let at = database(dir.path());
    give_to_other(&at);
    mode(&at, 0o777);
    let options = OpenOptions::new().memory_bytes(32 << 20);
    let target = at.to_str().unwrap();
    let refused = options.clone().open(target).unwrap_err().to_string();
    for part in [
        "belongs to user 60001",
        "others may write in it",
        SAFE_FOLDERS,
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    // Who owns it may, and then others may attach.
    assert_eq!(other.open(&at), "owner");
    let attached = options.clone().open(target);
    assert!(attached.is_ok(), "{attached:?}");
    drop(attached);
    assert_eq!(other.tell("close"), "closed");
    // One that others cannot write in is whose it is.
    mode(&at, 0o755);
    options.clone().open(target).unwrap().close().unwrap();
    mode(&at, 0o777);

    // Trusted: the folder's owner has the data, and not the rights of this process.
    let owner = options.trust_foreign_folder(true).open(target).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    mode(elsewhere.path(), 0o700);
    give_to_other(&at.join("owner"));
    assert!(other.open(&at).starts_with("attached"));
    assert_eq!(other.tell("put /theirs"), "applied true");
    assert_eq!(other.tell("persist-all"), "told");
    let copy = elsewhere.path().join("copy");
    let told = other.tell(&format!("backup {}", copy.display()));
    // The attached process writes the copy itself, where its own user may.
    assert!(told.contains("Permission denied"), "{told}");
    assert!(!copy.exists());
    let own = dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    give_to_other(&own);
    let told = other.tell(&format!("backup {}", own.join("copy").display()));
    assert!(
        told.contains("owns this database's folder, but user 0 has it open"),
        "{told}"
    );
    owner.close().unwrap();
}

/// The socket of whoever has the database in a folder open.
fn socket(at: &Path) -> PathBuf {
    let names = std::fs::read_dir(at.join("owner")).unwrap();
    let mut paths = names.map(|e| e.unwrap().path());
    paths
        .find(|p| p.extension().is_some_and(|e| e == "sock"))
        .unwrap()
}

/// Waits until the other side has closed.
fn closed(mut stream: &UnixStream) {
    stream.set_read_timeout(Some(HANG)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("it is not closed")
        }
        _ => {}
    }
}

/// Who does not say who they are in time, or sends a lot before, is not waited for.
#[test]
fn a_greeting_is_short_and_comes_soon() {
    let dir = tempfile::tempdir().unwrap();
    let at = database(dir.path());
    let _owner = open(&at);
    let socket = socket(&at);
    let silent = UnixStream::connect(&socket).unwrap();
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(&[0, 0]).unwrap();
    // 200 MiB of a greeting: refused by its head, before the time is over in which the rest would have to come. (On a slow machine once
    // at least.)
    wait_until("it was waited for", || {
        let began = Instant::now();
        let mut large = UnixStream::connect(&socket).unwrap();
        large.write_all(&[0x0c, 0x80, 0, 0, 1]).unwrap();
        closed(&large);
        began.elapsed() < esker::limits::GREETING_MAX
    });
    for stream in [&silent, &slow] {
        closed(stream);
    }
}

/// One user takes all the connections that there are, and the owner's own processes are served still.
#[test]
fn connections_are_kept_for_the_owner() {
    let Some((dir, mut other)) = with_other() else {
        return;
    };
    let at = database(dir.path());
    mode(&at, 0o711);
    mode(&at.join("owner"), 0o755);
    let owner = open(&at);
    let told = other.tell(&format!("connect {}", socket(&at).display()));
    assert_eq!(told, "connected");
    // Connections are taken in the order in which they come: all of those were looked at before this one.
    let mut own = Child::start();
    assert!(own.open(&at).starts_with("attached"));
    assert_eq!(own.tell("put /mine"), "applied true");
    owner.close().unwrap();
}
