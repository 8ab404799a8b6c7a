//! Access control lists of an imported tree: each user sees what `access(2)` permits a process of that user.
//!
//! Needs user 0, to make files of other users and processes that run as them; without, the tests print so and do nothing.

use crate::names::{done, esker, everywhere, json, sound};
use crate::processes::text;
use esker_model::namespace::Acl;
use esker_testkit::rng::Rng;
use rustix::fs::{Access, Gid, Uid, XattrFlags, setxattr};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USER: &str = "ESKER_ACL_USER";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// Users with their groups, one of them several times.
const USERS: [&str; 4] = [
    "1001:1001,2000,2000",
    "1002:1002",
    "1003:2000,2001",
    "1004:2001",
];

/// A tree that other users can reach, removed in the end.
struct Tree(PathBuf);

impl Tree {
    /// Creates a tree in a file system with access lists; `None` without user 0.
    fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only user 0 can make processes of others");
            return None;
        }
        let base = ["/dev/shm", "/tmp"]
            .into_iter()
            .find(|d| Path::new(d).is_dir());
        let at = format!("{}/esker-{name}-{}", base.unwrap(), std::process::id());
        // In a cluster and on a server the same tree is grown again.
        let _ = std::fs::remove_dir_all(&at);
        std::fs::create_dir(&at).unwrap();
        let tree = Self(at.into());
        tree.mode("", 0o755);
        if setxattr(&tree.0, "user.mark", b"1", XattrFlags::empty()).is_err() {
            eprintln!("skipped: the file system has no extended attributes of users");
            return None;
        }
        Some(tree)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
    }

    fn owner(&self, name: &str, uid: u32, gid: u32) {
        chown(self.at(name), Some(uid), Some(gid)).unwrap();
    }

    fn list(&self, name: &str, which: &str, acl: &Acl) {
        setxattr(self.at(name), which, &acl.encode(), XattrFlags::empty()).unwrap();
    }

    /// Sets the attribute by which the test sees whether a file may be read.
    fn mark(&self, name: &str) {
        setxattr(self.at(name), "user.mark", b"1", XattrFlags::empty()).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Answers, as that user, whether each path on stdin can be reached, and whether it may be read.
#[test]
fn users_answer() {
    let Ok(user) = std::env::var(USER) else {
        return;
    };
    let (uid, gids) = user.split_once(':').unwrap();
    let gids: Vec<Gid> = gids
        .split(',')
        .map(|g| Gid::from_raw(g.parse().unwrap()))
        .collect();
    let (uid, gid) = (Uid::from_raw(uid.parse().unwrap()), gids[0]);
    rustix::thread::set_thread_groups(&gids).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lines() {
        let path = line.unwrap();
        let reached = std::fs::symlink_metadata(&path).is_ok();
        let may = rustix::fs::access(&path, Access::READ_OK).is_ok();
        writeln!(out, "answered {}{}", u8::from(reached), u8::from(may)).unwrap();
    }
}

/// Returns the paths that a user can reach, and those that the user may read, by a process of that user.
fn by_the_kernel(user: &str, tree: &Tree, names: &[String]) -> [BTreeSet<String>; 2] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "names_acls::users_answer", "--nocapture"])
        .env(USER, user)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let paths = names.iter().fold(String::new(), |mut paths, name| {
        let _ = writeln!(paths, "{}", tree.at(name).display());
        paths
    });
    let writer = std::thread::spawn(move || stdin.write_all(paths.as_bytes()).unwrap());
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(out.status.success(), "{}", text(&out.stdout));
    let said = text(&out.stdout);
    let answers: Vec<&str> = said
        .split("answered ")
        .skip(1)
        .map(|rest| &rest[..2])
        .collect();
    assert_eq!(answers.len(), names.len(), "{said}");
    let of = |i: usize| {
        let yes = names.iter().zip(&answers).filter(|(_, a)| &a[i..=i] == "1");
        yes.map(|(name, _)| name.clone()).collect()
    };
    [of(0), of(1)]
}

/// Returns the same from the database.
fn by_the_database(at: &Path, user: &str, names: &[String]) -> [BTreeSet<String>; 2] {
    let paths: Vec<String> = names.iter().map(|n| format!("/t/{n}")).collect();
    let mut args = vec!["stat", "lab.esker", "--as", user, "--format", "json"];
    args.extend(paths.iter().map(String::as_str));
    let out = esker(at, &args);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&out.stdout), text(&out.stderr)));
    let of = |row: &serde_json::Value| row["path"].as_str().unwrap()[3..].to_owned();
    let marked = |row: &&serde_json::Value| {
        row["xattrs"]
            .as_str()
            .is_some_and(|x| x.contains("user.mark"))
    };
    [
        rows.iter().map(of).collect(),
        rows.iter().filter(marked).map(of).collect(),
    ]
}

fn import(at: &Path, tree: &Tree) -> serde_json::Value {
    let tree = tree.0.to_str().unwrap();
    json(
        at,
        &[
            "import",
            "tree",
            "lab.esker",
            tree,
            "--as-path",
            "/t",
            "--xattrs",
            "user.m*",
        ],
    )[0]
    .clone()
}

fn agree(at: &Path, tree: &Tree, names: &[String]) {
    for user in USERS {
        let [reached, may] = by_the_kernel(user, tree, names);
        let [shown, marked] = by_the_database(at, user, names);
        assert_eq!(shown, reached, "{user} reaches");
        assert_eq!(marked, may, "{user} reads");
    }
}

fn acl(users: &[(u32, u8)], group: u8, groups: &[(u32, u8)], mask: u8) -> Acl {
    Acl {
        owner: 6,
        users: users.to_vec(),
        group,
        groups: groups.to_vec(),
        mask: Some(mask),
        other: 0,
    }
}

/// A file of which one user is given read permission has mode 0640: the bits of the group are the mask. A filter by the mode
/// alone showed such a file to its group, to which `access(2)` denies it.
#[test]
fn the_mask_of_a_list_opens_nothing() {
    everywhere(|at| {
        let Some(tree) = Tree::new("acl-mask") else {
            return;
        };
        for name in ["mask", "empty", "many", "group"] {
            std::fs::write(tree.at(name), "x").unwrap();
            tree.owner(name, 0, 2000);
            tree.mark(name);
        }
        tree.list("mask", ACCESS, &acl(&[(1002, 4)], 0, &[], 4));
        tree.list("empty", ACCESS, &acl(&[(1002, 7)], 7, &[], 0));
        tree.list("group", ACCESS, &acl(&[], 0, &[(2001, 4)], 7));
        let many = acl(
            &(2_000..6_990).map(|id| (id, 4)).collect::<Vec<_>>(),
            0,
            &[(2001, 4)],
            4,
        );
        tree.list("many", ACCESS, &many);
        assert_eq!(
            std::fs::metadata(tree.at("mask"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o640
        );
        assert_eq!(import(at, &tree)["unreadable"], 0);
        let names: Vec<String> = ["mask", "empty", "many", "group"].map(str::to_owned).into();
        let [_, may] = by_the_database(at, "1003:2000,2001", &names);
        assert_eq!(may, BTreeSet::from(["many".to_owned(), "group".to_owned()]));
        let [_, may] = by_the_database(at, "1001:1001,2000,2000", &names);
        assert_eq!(may, BTreeSet::new());
        agree(at, &tree, &names);
        let listed = done(at, &["ls", "lab.esker", "/t", "-l"]);
        assert!(listed.contains("-rw-r-----+"), "{listed}");
        let entries = &json(at, &["stat", "lab.esker", "/t/mask"])[0]["acl"];
        let expected = [
            "user::rw-",
            "user:1002:r--",
            "group::---",
            "mask::r--",
            "other::---",
        ];
        assert_eq!(*entries, serde_json::json!(expected));
        // Without the list the same mode opens the file to its group, and to nobody else.
        let removed = rustix::fs::removexattr(tree.at("mask"), ACCESS);
        removed.unwrap();
        import(at, &tree);
        agree(at, &tree, &names);
        let entries = &json(at, &["stat", "lab.esker", "/t/mask"])[0]["acl"];
        assert_eq!(*entries, serde_json::Value::Null);
        assert_eq!(import(at, &tree)["changed"], 0);
        sound(at);
    });
}

fn random_acl(rng: &mut Rng) -> Acl {
    let mut some = || *rng.pick(&[0, 1, 4, 5, 5, 7, 7]);
    let mut list = acl(
        &[(1001, some()), (1002, some())],
        some(),
        &[(2000, some()), (2001, some())],
        some(),
    );
    (list.owner, list.other) = (some(), some());
    list
}

fn decide(rng: &mut Rng, tree: &Tree, name: &str) {
    let uid = *rng.pick(&[0, 1001, 1002, 1003]);
    tree.owner(name, uid, *rng.pick(&[0, 1001, 2000, 2001]));
    let open = if tree.at(name).is_dir() { 0o755 } else { 0o644 };
    let bits = if rng.percent(60) {
        open
    } else {
        rng.number_below(0o1000) as u32
    };
    // Set-group-id directories pass on their group, sticky ones nothing; an imported file has its own.
    tree.mode(name, bits | *rng.pick(&[0, 0, 0o1000, 0o2000]));
    for (which, percent) in [(ACCESS, 40), (DEFAULT, 20)] {
        let _ = rustix::fs::removexattr(tree.at(name), which);
        if rng.percent(percent) && (which == ACCESS || tree.at(name).is_dir()) {
            tree.list(name, which, &random_acl(rng));
        }
    }
}

#[test]
fn an_imported_tree_shows_what_access_permits() {
    everywhere(|at| {
        let Some(tree) = Tree::new("acl-random") else {
            return;
        };
        let mut rng = Rng::new(7);
        let (mut names, mut directories) = (Vec::new(), vec![String::new()]);
        let grow =
            |rng: &mut Rng, names: &mut Vec<String>, directories: &mut Vec<String>, i: u32| {
                let parent = rng.pick(directories).clone();
                let name = format!("{parent}{}n{i}", if parent.is_empty() { "" } else { "/" });
                if i < 10 || rng.percent(25) {
                    std::fs::create_dir(tree.at(&name)).unwrap();
                    directories.push(name.clone());
                } else {
                    std::fs::write(tree.at(&name), "").unwrap();
                }
                tree.mark(&name);
                decide(rng, &tree, &name);
                names.push(name);
            };
        for i in 0..50 {
            grow(&mut rng, &mut names, &mut directories, i);
        }
        assert_eq!(import(at, &tree)["unreadable"], 0);
        agree(at, &tree, &names);
        // Other permissions, and files in directories that are known.
        for i in 50..70 {
            let name = rng.pick(&names).clone();
            decide(&mut rng, &tree, &name);
            grow(&mut rng, &mut names, &mut directories, i);
        }
        assert_eq!(import(at, &tree)["unreadable"], 0);
        agree(at, &tree, &names);
        let again = import(at, &tree);
        assert_eq!((&again["new"], &again["changed"]), (&0.into(), &0.into()));
        sound(at);
    });
}

#[test]
fn attributes_are_stored_by_their_names_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let tree = at.join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b"] {
        std::fs::write(tree.join(name), "x").unwrap();
    }
    let set = |name: &str, value: &str| {
        setxattr(tree.join("a"), name, value.as_bytes(), XattrFlags::empty())
    };
    if set("user.level", "3").is_err() {
        eprintln!("skipped: the file system of temporary files has no extended attributes");
        return;
    }
    set("user.note", "red").unwrap();
    let tree_text = tree.to_str().unwrap();
    let import = |more: &[&str]| {
        let args = [
            "import",
            "tree",
            "lab.esker",
            tree_text,
            "--as-path",
            "/t",
            "--project-ids",
        ];
        json(at, &[&args[..], more].concat())[0].clone()
    };
    let found = |filter: &str| {
        let rows = json(at, &["find", "lab.esker", "/t", filter]);
        let rows = rows.as_array().unwrap().clone();
        rows.iter()
            .map(|r| r["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    import(&[]);
    assert_eq!(
        found("size >= 0 AND NOT EXISTS project AND NOT EXISTS flags AND name = 'a'"),
        ["/t/a"]
    );
    import(&["--xattrs", "user.l*"]);
    assert_eq!(found("user.level > 2"), ["/t/a"]);
    import(&["--xattrs", "user.*"]);
    assert_eq!(found("user.note = 'red' AND user.level = 3"), ["/t/a"]);
    rustix::fs::removexattr(tree.join("a"), "user.note").unwrap();
    import(&["--xattrs", "user.*"]);
    let stored = json(at, &["stat", "lab.esker", "/t/a"])[0]["xattrs"].clone();
    assert_eq!(stored, "user.level=3");
    // An import without the option leaves what is stored.
    assert_eq!(import(&[])["changed"], 0);
    assert_eq!(found("user.level = 3"), ["/t/a"]);
    sound(at);
}
