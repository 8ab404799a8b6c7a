//! Tests of the access of other users of a machine to a database's files.

use crate::child::{Child, OTHER_USER};
use crate::processes::{open, options};
use esker::Database;
use esker::rdf::engine::Options;
use esker::rdf::now_and_seed;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// Inserts a triple into a database.
pub(crate) fn change_rdf(db: &Database) -> esker::Result<()> {
    let (now, seed) = now_and_seed();
    let options = Options::new(now, seed);
    let insert = "INSERT DATA { <urn:a> <urn:b> <urn:c> }";
    let done = db.rdf_to_change()?.update(insert, None, &options, false)?;
    assert_eq!(done.added, 1);
    Ok(())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Folders below a folder that users other than its owner may enter.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let all = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    all.filter(|path| path.is_dir())
        .map(|path| (path.clone(), mode(&path)))
        .filter(|(_, mode)| mode & 0o077 != 0)
        .collect()
}

/// With any umask: a database, all its files, its backup, and a restored copy.
#[test]
fn a_database_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (lab, copy, restored) = (at("lab.esker"), at("copy"), at("restored.esker"));
    let mut child = Child::start();
    assert_eq!(child.tell("umask 000"), "set");
    assert_eq!(child.tell(&format!("create {}", lab.display())), "owner");
    assert_eq!(child.tell("retain"), "archived");
    assert_eq!(child.tell("rdf"), "changed");
    let told = child.tell(&format!("backup {}", copy.display()));
    assert_eq!(told, "backed up");
    let told = child.tell(&format!(
        "restore {} {}",
        copy.display(),
        restored.display()
    ));
    assert_eq!(told, "restored");
    for (folder, inside) in [
        (&lab, &["archive", "owner", "rdf", "store"][..]),
        (&copy, &["archive", "rdf", "store"]),
        (&restored, &["archive", "rdf", "store"]),
    ] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
        for name in inside {
            assert!(folder.join(name).is_dir(), "{}/{name}", folder.display());
        }
        // Even if the folder itself is opened to others later.
        assert_eq!(open_to_others(folder), []);
    }
}

/// An existing folder keeps its mode; new files in it are accessible only to the owner, unless its group may write to it.
#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    for (given, inside) in [(0o755, 0o700), (0o770, 0o770)] {
        let path = dir.path().join(format!("{given:o}.esker"));
        std::fs::create_dir(&path).unwrap();
        set_mode(&path, given);
        let init = Database::init(path.to_str().unwrap(), &options());
        init.unwrap().close().unwrap();
        assert_eq!((mode(&path), mode(&path.join("store"))), (given, inside));
        let copy = dir.path().join(format!("{given:o}.copy"));
        open(&path).backup(&copy).unwrap();
        assert_eq!(
            (mode(&copy), mode(&copy.join("store"))),
            (given & 0o770, inside)
        );
    }
}

/// With `group`, members of the folder's group attach to the owner process, and cannot read the stored files.
#[test]
fn a_group_reaches_the_process_and_not_the_store() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only user 0 can start processes of others");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Files created here belong to that group.
    chown(dir.path(), None, Some(OTHER_USER)).unwrap();
    set_mode(dir.path(), 0o2755);
    let Some(mut other) = Child::as_other_user(dir.path()) else {
        eprintln!(
            "not run: another user cannot reach {}",
            dir.path().display()
        );
        return;
    };
    let (lab, closed) = (
        dir.path().join("lab.esker"),
        dir.path().join("closed.esker"),
    );
    let mut owner = Child::start();
    assert_eq!(owner.tell("umask 077"), "set");
    let told = owner.tell(&format!("create {}", closed.display()));
    assert_eq!(told, "owner");
    let told = other.open(&closed);
    assert!(told.contains("no permission"), "{told}");
    let told = owner.tell(&format!("create-for-group {}", lab.display()));
    assert_eq!(told, "owner");
    assert_eq!(owner.tell("mkdir /closed"), "made");
    let told = other.open(&lab);
    assert_eq!(told, format!("attached {}", owner.pid()));
    assert_eq!(other.tell("ls /"), "closed");
    assert!(other.tell("mkdir /closed/x").contains("EACCES"));
    assert!(other.tell("persist-all").contains("for user 0, who owns"));
    let found = ["", "owner", "store"].map(|name| mode(&lab.join(name)));
    assert_eq!(found, [0o750, 0o750, 0o700]);
    // The group's right is kept in a backup, and in a restored copy.
    let (copy, restored) = (dir.path().join("copy"), dir.path().join("restored.esker"));
    let told = owner.tell(&format!("backup {}", copy.display()));
    assert_eq!(told, "backed up");
    let told = owner.tell(&format!(
        "restore {} {}",
        copy.display(),
        restored.display()
    ));
    assert_eq!(told, "restored");
    let owner = open(&restored);
    let told = other.open(&restored);
    assert_eq!(told, format!("attached {}", std::process::id()));
    owner.close().unwrap();
    assert_eq!(mode(&restored.join("store")), 0o700);
}
