//! Tests of attacks by other users on a process that has a database open, directly and through a folder of theirs.

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

/// A folder that all users can reach, and a child of another user; `None` if that is not possible.
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

/// A user creates a database in a folder that all may write to, and waits for another user to open it first.
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
    // The folder's owner may open it, and then others may attach.
    assert_eq!(other.open(&at), "owner");
    let attached = options.clone().open(target);
    assert!(attached.is_ok(), "{attached:?}");
    drop(attached);
    assert_eq!(other.tell("close"), "closed");
    // A folder that others cannot write to may be opened.
    mode(&at, 0o755);
    options.clone().open(target).unwrap().close().unwrap();
    mode(&at, 0o777);

    // Trusted: the folder's owner has access to the data, and not the rights of this process.
    let owner = options.trust_foreign_folder(true).open(target).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    mode(elsewhere.path(), 0o700);
    give_to_other(&at.join("owner"));
    assert!(other.open(&at).starts_with("attached"));
    assert_eq!(other.tell("put /theirs"), "applied true");
    assert_eq!(other.tell("persist-all"), "told");
    let copy = elsewhere.path().join("copy");
    let told = other.tell(&format!("backup {}", copy.display()));
    // The attached process writes the copy itself, with the rights of its own user.
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

/// The socket of the process that has the database in a folder open.
fn socket(at: &Path) -> PathBuf {
    let names = std::fs::read_dir(at.join("owner")).unwrap();
    let mut paths = names.map(|e| e.unwrap().path());
    paths
        .find(|p| p.extension().is_some_and(|e| e == "sock"))
        .unwrap()
}

/// Waits until the peer has closed the connection.
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

/// A peer that does not identify itself in time, or sends much before, is disconnected.
#[test]
fn a_greeting_is_short_and_comes_soon() {
    let dir = tempfile::tempdir().unwrap();
    let at = database(dir.path());
    let _owner = open(&at);
    let socket = socket(&at);
    let silent = UnixStream::connect(&socket).unwrap();
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(&[0, 0]).unwrap();
    // A greeting of 200 MiB: refused by its head, before the time limit for the rest is over. (On a slow machine at
    // least once.)
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

/// One user takes all available connections, and the owner's own processes are still served.
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
    // Connections are accepted in order: all of those were accepted before this one.
    let mut own = Child::start();
    assert!(own.open(&at).starts_with("attached"));
    assert_eq!(own.tell("put /mine"), "applied true");
    owner.close().unwrap();
}
