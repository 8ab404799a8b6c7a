//! Attacks of another user on a file whose content is in a data folder, through the mount and through the owner's
//! socket.
#![allow(
    clippy::print_stdout,
    reason = "the other user's process speaks to the test over standard output"
)]

use crate::people::{NOBODY, by};
use crate::scratch::{Scratch, mounting};
use esker::{Database, OpenOptions};
use esker_model::NeverCancel;
use esker_model::namespace::{
    Change, Content, Errno, Kind, NamePath, Namespace as _, NewFile, SetAttributes,
};
use esker_model::{Error, Result, VertexId};
use esker_mount::data::Folders;
use esker_mount::orphans::{Search, check};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Environment variable with the database that the attacking process uses.
const VARIABLE: &str = "ESKER_TEST_ATTACKS";
const SECRET: &str = "what only its owner reads";

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn change(db: &Database, change: Change) -> Result<()> {
    db.change(None, &[change])?.remove(0).map(drop)
}

fn leads_to(at: &str, object: &Path) -> Change {
    Change::Set {
        path: path(at),
        follow: false,
        set: SetAttributes {
            content: Some(Content::Object(object.as_os_str().as_bytes().to_vec())),
            size: Some(4_096),
            ..SetAttributes::default()
        },
    }
}

fn object_name(id: VertexId) -> String {
    format!("{:02x}/{:032x}", id.0[15], u128::from_be_bytes(id.0))
}

/// Creates a file of mode 0600 of root with large content, and another user's file; returns the object of the former.
fn with_two_files(scratch: &Scratch) -> PathBuf {
    let secret = scratch.path("secret");
    fs::write(&secret, SECRET.repeat(400)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["theirs", "over"] {
        let own = scratch.path(name);
        fs::write(&own, "small").unwrap();
        chown(&own, Some(NOBODY.uid), Some(NOBODY.gid)).unwrap();
    }
    let id = scratch
        .database
        .stat(None, &path("/secret"), false)
        .unwrap()
        .id;
    let object = scratch.data().canonicalize().unwrap().join(object_name(id));
    assert!(object.is_file());
    object
}

/// An inode that refers to another file's object (created by the superuser, or before such changes were refused) gives
/// nobody that content.
#[test]
fn an_inode_that_leads_to_another_files_object_opens_nothing() {
    mounting(|| {
        let mut scratch = Scratch::with(|_| {});
        let object = with_two_files(&scratch);
        let content = fs::read(&object).unwrap();
        scratch.unmount();
        for name in ["/theirs", "/over"] {
            change(&scratch.database, leads_to(name, &object)).unwrap();
        }
        scratch.mount(|_| {});
        let (theirs, over, at) = (scratch.path("theirs"), scratch.path("over"), scratch.at());
        by(NOBODY, || {
            let failed = |e: std::io::Error| e.raw_os_error();
            let unsupported = Some(rustix::io::Errno::OPNOTSUPP.raw_os_error());
            let read = fs::read(&theirs).map(|content| content.len());
            assert_eq!(read.map_err(failed), Err(unsupported));
            let opened = fs::OpenOptions::new().write(true).open(&theirs);
            assert_eq!(opened.map(drop).map_err(failed), Err(unsupported));
            assert_eq!(fs::write(&theirs, "mine").map_err(failed), Err(unsupported));
        });
        let folders = Folders::open(&[scratch.data()]).unwrap();
        let search = Search {
            repair: true,
            older: Duration::ZERO,
        };
        let found = check(&scratch.database, &folders, search, &NeverCancel).unwrap();
        let told: Vec<String> = found
            .mismatched
            .iter()
            .map(|(p, _)| p.to_string())
            .collect();
        assert_eq!(
            (told, found.removed),
            (vec!["/over".to_owned(), "/theirs".to_owned()], 0)
        );
        // The last name is removed, by unlinking and by a file that replaces it.
        fs::write(at.join("new"), "small").unwrap();
        fs::rename(at.join("new"), &over).unwrap();
        fs::remove_file(&theirs).unwrap();
        assert!(fs::read(&object).unwrap() == content);
        assert!(fs::read(at.join("secret")).unwrap() == content);
        scratch.demand_sound();
    });
}

/// Another user attaches to the process that has the database open, and tries to set locations of contents.
#[test]
fn another_user_does_not_say_where_contents_lie() {
    mounting(|| {
        let scratch = Scratch::open_to_others();
        let object = with_two_files(&scratch);
        let content = fs::read(&object).unwrap();
        fs::set_permissions(scratch.at(), fs::Permissions::from_mode(0o1777)).unwrap();
        // The directory of the test's build may be inaccessible to others.
        let copy = scratch.folder().join("attacker");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let out = Command::new(&copy)
            .args(["--exact", "other_users::attacks", "--nocapture"])
            .env(VARIABLE, scratch.folder())
            .current_dir("/")
            .uid(NOBODY.uid)
            .gid(NOBODY.gid)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let told: Vec<&str> = said
            .lines()
            .filter_map(|l| l.split_once("#told "))
            .map(|(_, t)| t)
            .collect();
        assert_eq!(
            told,
            [
                "set EPERM",
                "make EPERM",
                "xattr EPERM",
                "read small",
                "removed"
            ]
        );
        assert!(fs::read(&object).unwrap() == content);
        assert!(fs::read(scratch.path("secret")).unwrap() == content);
        scratch.demand_sound();
    });
}

/// Body of the other user's process.
#[test]
fn attacks() {
    let Some(folder) = std::env::var_os(VARIABLE) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let target = folder.join("db");
    let db = OpenOptions::new().open(target.to_str().unwrap()).unwrap();
    let told = |what: &str, done: Result<()>| match done {
        Err(Error::File(e)) if e.errno == Errno::NotPermitted => println!("\n#told {what} EPERM"),
        other => println!("\n#told {what} {other:?}"),
    };
    // Search permission is enough to learn a file's id, and the folder's path is in everybody's list of processes.
    let id = db.stat(None, &path("/secret"), false).unwrap().id;
    let object = folder.join("data").join(object_name(id));
    told("set", change(&db, leads_to("/theirs", &object)));
    let make = NewFile {
        content: Content::Object(object.as_os_str().as_bytes().to_vec()),
        size: 4_096,
        ..NewFile::new(Kind::File.bits() | 0o600, NOBODY.uid, NOBODY.gid)
    };
    told("make", change(&db, Change::Create(path("/made"), make)));
    let make = NewFile {
        xattrs: vec![(b"security.capability".to_vec(), vec![1; 20])],
        ..NewFile::new(Kind::File.bits() | 0o755, NOBODY.uid, NOBODY.gid)
    };
    told("xattr", change(&db, Change::Create(path("/program"), make)));
    let mount = folder.join("mnt");
    match fs::read_to_string(mount.join("theirs")) {
        Ok(text) => println!("\n#told read {}", text.get(..20).unwrap_or(&text)),
        Err(e) => println!("\n#told read {e}"),
    }
    match fs::remove_file(mount.join("theirs")) {
        Ok(()) => println!("\n#told removed"),
        Err(e) => println!("\n#told remove {e}"),
    }
    for name in ["made", "program"] {
        let removed = fs::remove_file(mount.join(name));
        assert!(removed.is_ok() || !mount.join(name).exists(), "{name}");
    }
    assert_eq!(
        fs::read(mount.join("secret")).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
}
