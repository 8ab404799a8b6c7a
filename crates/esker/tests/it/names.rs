//! Tests of files by path through other processes: the kernel reports the principal.

use crate::child::{Child, OTHER_USER};
use crate::processes::open;
use esker::Database;
use esker::model::namespace::{Change, Errno, Kind, NamePath, Namespace as _, NewFile};
use esker::model::object::Principal;
use esker::model::{Error, Result};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn one(db: &Database, principal: Option<&Principal>, change: Change) -> Result<()> {
    db.change(principal, &[change])?.remove(0).map(drop)
}

pub(crate) fn mkdir(
    db: &Database,
    principal: Option<&Principal>,
    at: &str,
    mode: u32,
) -> Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let make = NewFile::new(Kind::Directory.bits() | mode, uid.as_raw(), gid.as_raw());
    one(db, principal, Change::Create(path(at), make))
}

/// Two changes that fail if they are applied twice.
pub(crate) fn make_and_move(db: &Database, name: &str) -> Result<()> {
    mkdir(db, None, &format!("/{name}"), 0o755)?;
    let rename = Change::Rename {
        from: path(&format!("/{name}")),
        to: path(&format!("/{name}.moved")),
        no_replace: true,
    };
    one(db, None, rename)
}

pub(crate) fn list(db: &Database, at: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    db.list(None, &path(at), None, &mut |_, entry| {
        names.push(entry.name.to_string());
        ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names)
}

/// Another user may attach where the owner permits it, and has the rights of the permission bits, whatever principal it
/// names.
#[test]
fn the_kernel_reports_other_users() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only user 0 can start processes of others");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let readable = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable()).unwrap();
    let at = crate::processes::database(dir.path());
    let Some(mut other) = Child::as_other_user(dir.path()) else {
        eprintln!(
            "not run: another user cannot reach {}",
            dir.path().display()
        );
        return;
    };
    let owner = open(&at);
    mkdir(&owner, None, "/open", 0o777).unwrap();
    mkdir(&owner, None, "/closed", 0o700).unwrap();
    mkdir(&owner, None, "/closed/in", 0o700).unwrap();
    let refused = other.open(&at);
    assert!(refused.starts_with("error"), "{refused}");
    owner.close().unwrap();

    std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::set_permissions(at.join("owner"), readable()).unwrap();
    let owner = open(&at);
    let attached = other.open(&at);
    assert!(attached.starts_with("attached"), "{attached}");
    assert_eq!(other.tell("ls /"), "closed open");
    for (command, said) in [
        ("ls /closed", "/closed: permission denied (EACCES)"),
        ("mkdir /closed/x", "permission denied (EACCES)"),
        ("persist-all", "for user 0, who owns"),
    ] {
        let told = other.tell(command);
        assert!(told.contains(said), "{command}: {told}");
    }
    assert_eq!(other.tell("graph"), "counted");
    assert_eq!(other.tell("mkdir /open/mine"), "made");
    let made = owner.stat(None, &path("/open/mine"), false).unwrap();
    assert_eq!((made.uid, made.gid), (OTHER_USER, OTHER_USER));
    let told = other.tell("ls-as-root /closed");
    assert!(told.contains("may not ask on behalf of user 0"), "{told}");
    // The owner may name another principal.
    let principal = Principal {
        uid: OTHER_USER.into(),
        gids: vec![OTHER_USER.into()],
    };
    let refused = mkdir(&owner, Some(&principal), "/closed/x", 0o755).unwrap_err();
    assert!(matches!(refused, Error::File(e) if e.errno == Errno::Access));
}
