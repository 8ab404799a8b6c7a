//! Tests of open files in several processes: they stay open when the owner is killed, and leave no state when their
//! opener is killed.

use crate::child::{Child, OTHER_USER};
use crate::processes::{database, open, options};
use esker::model::namespace::{
    Change, Errno, Handle, Inode, Name, NamePath, Namespace as _, NewFile, Open, SEAL_BYTES,
};
use esker::model::object::Principal;
use esker::model::{Error, NeverCancel, Result, VertexId};
use esker::{CheckOptions, Database, File, Role};
use std::os::unix::fs::PermissionsExt as _;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn one(db: &Database, change: Change) {
    db.change(None, &[change]).unwrap().remove(0).unwrap();
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    match result {
        Err(Error::File(e)) => e.errno,
        other => panic!("{other:?}"),
    }
}

/// Creates a file and opens it.
fn made(db: &Database, at: &str) -> Result<File> {
    let how = Open {
        create: true,
        exclusive: true,
        ..Open::BOTH
    };
    let make = NewFile::new(0o10_0644, 0, 0);
    db.open_file(None, &path(at), how, Some(&make))
}

/// The operations of a child on a file: `WHAT [REST]`.
pub(crate) fn tell(db: &Database, held: &mut Option<File>, told: &str) -> Result<String> {
    let (what, rest) = told.split_once(' ').unwrap_or((told, ""));
    match (what, &held) {
        ("make", _) => *held = Some(made(db, rest)?),
        ("open", _) => *held = Some(db.open_file(None, &path(rest), Open::BOTH, None)?),
        ("unlink", _) => {
            let done = db.change(None, &[Change::Unlink(path(rest))])?;
            done.into_iter().try_for_each(|d| d.map(drop))?;
        }
        ("append", Some(file)) => drop(file.append(rest.as_bytes())?),
        ("read", Some(file)) => {
            return Ok(String::from_utf8(file.read_at(0, 4_096)?).unwrap());
        }
        // A file by its id alone, as its opener knows it.
        ("forge", _) => {
            let (above, name) = rest.rsplit_once('/').unwrap();
            let handle = Handle {
                id: VertexId::of("File", rest),
                directory: VertexId::of("Directory", above),
                name: Name::new(name.as_bytes())?,
                born: 0,
                read: true,
                write: true,
                seal: [7; SEAL_BYTES],
            };
            let inode: Inode = db.stat(None, &handle.path(), false)?;
            return Ok(format!("{inode:?}"));
        }
        _ => unreachable!("{told}"),
    }
    Ok("done".into())
}

fn sound(db: &Database) {
    let report = db
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    assert!(
        report.complete && report.problems.is_empty(),
        "{:#?}",
        report.problems
    );
}

#[test]
fn files_stay_open_when_the_owner_dies() {
    let dir = tempfile::tempdir().unwrap();
    let at = database(dir.path());
    let mut child = Child::start();
    assert_eq!(child.open(&at), "owner");
    let db = open(&at);
    let named = made(&db, "/named").unwrap();
    let gone = made(&db, "/gone").unwrap();
    assert_eq!(child.tell("file unlink /gone"), "done");
    named.append(b"one").unwrap();
    gone.append(b"two").unwrap();
    child.kill();
    named.append(b", more").unwrap();
    gone.append(b", more").unwrap();
    assert_eq!(db.role(), Role::Owner);
    assert_eq!(named.read_at(0, 99).unwrap(), b"one, more");
    assert_eq!(gone.read_at(0, 99).unwrap(), b"two, more");
    assert_eq!(
        (named.stat().unwrap().links, gone.stat().unwrap().links),
        (1, 0)
    );
    named.sync().unwrap();
    sound(&db);
}

#[test]
fn a_process_that_dies_leaves_nothing_of_what_it_had_open() {
    let dir = tempfile::tempdir().unwrap();
    let at = database(dir.path());
    let mut id = None;
    for round in 0..3 {
        let mut child = Child::start();
        assert_eq!(child.open(&at), "owner");
        assert_eq!(child.tell("file make /x"), "done");
        assert_eq!(child.tell("file unlink /x"), "done");
        assert_eq!(child.tell("file append lost"), "done");
        assert_eq!(child.tell("file read"), "lost");
        child.kill();
        let db = open(&at);
        sound(&db);
        let usage = db.usage(None, &NamePath::root(), true).unwrap();
        assert_eq!((usage.files, usage.bytes), (0, 0), "round {round}");
        assert_eq!(errno(db.stat(None, &path("/x"), false)), Errno::NotFound);
        let next = made(&db, "/x").unwrap();
        let inode = next.stat().unwrap();
        assert_eq!(inode.size, 0);
        assert_ne!(id.replace(inode.id), Some(inode.id));
        one(&db, Change::Unlink(path("/x")));
        db.close().unwrap();
    }
}

#[test]
fn only_so_many_files_are_open_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let at = database(dir.path());
    let db = options().open_files(2).open(at.to_str().unwrap()).unwrap();
    let first = made(&db, "/a").unwrap();
    let second = made(&db, "/b").unwrap();
    let refused = db.open_file(None, &path("/a"), Open::READ, None);
    assert!(
        refused
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("2 files are open")
    );
    assert_eq!(errno(refused), Errno::TooManyOpen);
    drop(first);
    // An open that fails for another reason leaves no open file.
    for _ in 0..3 {
        assert_eq!(
            errno(db.open_file(None, &path("/none"), Open::READ, None)),
            Errno::NotFound
        );
    }
    let third = db.open_file(None, &path("/a"), Open::READ, None).unwrap();
    assert_eq!(errno(third.append(b"x")), Errno::BadHandle);
    drop((second, third));
}

/// A handle that was issued to one user is refused for others.
#[test]
fn others_open_what_they_may() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only user 0 can start processes of others");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let readable = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable()).unwrap();
    let at = database(dir.path());
    let Some(mut other) = Child::as_other_user(dir.path()) else {
        eprintln!(
            "not run: another user cannot reach {}",
            dir.path().display()
        );
        return;
    };
    let owner = open(&at);
    let make = |at: &str, mode, uid| Change::Create(path(at), NewFile::new(mode, uid, 0));
    one(&owner, make("/closed", 0o4_0700, 0));
    one(&owner, make("/closed/x", 0o10_0666, 0));
    one(&owner, make("/theirs", 0o10_0600, OTHER_USER));
    one(&owner, make("/private", 0o10_0600, 0));
    owner.close().unwrap();
    std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::set_permissions(at.join("owner"), readable()).unwrap();
    let owner = open(&at);
    assert!(other.open(&at).starts_with("attached"));
    assert_eq!(other.tell("file open /theirs"), "done");
    assert_eq!(other.tell("file append mine"), "done");
    assert_eq!(other.tell("file read"), "mine");
    for (command, said) in [
        ("file open /private", "EACCES"),
        ("file open /closed/x", "EACCES"),
        ("file forge /closed/x", "ESTALE"),
        ("file forge /private", "ESTALE"),
    ] {
        let told = other.tell(command);
        assert!(told.contains(said), "{command}: {told}");
    }
    let theirs = Principal {
        uid: OTHER_USER.into(),
        gids: vec![OTHER_USER.into()],
    };
    let inode = owner.stat(Some(&theirs), &path("/theirs"), false).unwrap();
    assert_eq!(inode.size, 4);
}
