//! Files by path, through the command line.

use crate::cluster::{Cluster, describe};
use crate::processes::text;
use crate::serve::Served;
use esker_testkit::wait::eventually;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) fn esker(folder: &Path, args: &[&str]) -> Output {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    esker_bytes(folder, &args)
}

thread_local! {
    /// The target that `lab.esker` stands for in this test.
    static TARGET: RefCell<String> = RefCell::new("lab.esker".into());
    /// Whether the target is a cluster, which `check` does not support yet.
    static IN_CLUSTER: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test on a folder, and on a server with that folder.
pub(crate) fn embedded_and_served(test: fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(dir.path());
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[]);
    TARGET.set(served.target());
    test(dir.path());
}

/// Runs a test on a folder, on a server, and on three servers with directories that split early.
pub(crate) fn everywhere(test: fn(&Path)) {
    embedded_and_served(test);
    let dir = tempfile::tempdir().unwrap();
    describe(dir.path(), "directory_threshold = 4\n");
    let cluster = Cluster::up(dir.path());
    TARGET.set(cluster.target(1).to_owned());
    IN_CLUSTER.set(true);
    test(dir.path());
    IN_CLUSTER.set(false);
    TARGET.set("lab.esker".into());
}

/// Whether `lab.esker` is currently a folder.
pub(crate) fn is_folder() -> bool {
    TARGET.with_borrow(|t| t == "lab.esker")
}

fn esker_bytes(folder: &Path, args: &[&OsStr]) -> Output {
    let target = TARGET.with_borrow(|t| OsString::from(t));
    let of = |arg: &&OsStr| {
        if *arg == "lab.esker" {
            target.clone()
        } else {
            (*arg).to_owned()
        }
    };
    Command::new(env!("CARGO_BIN_EXE_esker"))
        .current_dir(folder)
        .args(args.iter().map(of))
        .output()
        .unwrap()
}

pub(crate) fn done(folder: &Path, args: &[&str]) -> String {
    let out = esker(folder, args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

pub(crate) fn sound(folder: &Path) {
    if IN_CLUSTER.get() {
        return;
    }
    let out = esker(folder, &["check", "lab.esker"]);
    assert!(
        out.status.success() && text(&out.stderr).contains("all is well"),
        "{}",
        text(&out.stdout)
    );
}

pub(crate) fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let args = [args, &["--format", "json"]].concat();
    serde_json::from_str(&done(folder, &args)).unwrap()
}

fn tool(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    text(&out.stdout)
}

#[test]
fn files_are_made_renamed_and_removed() {
    everywhere(|at| {
        done(
            at,
            &[
                "mkdir",
                "lab.esker",
                "-p",
                "/project/run7",
                "--mode",
                "2750",
            ],
        );
        done(
            at,
            &[
                "touch",
                "lab.esker",
                "/project/run7/a.h5",
                "/project/run7/b.h5",
                "--mode",
                "640",
            ],
        );
        let id = json(at, &["stat", "lab.esker", "/project/run7/a.h5"])[0]["vertex"].clone();
        done(at, &["mv", "lab.esker", "/project/run7/a.h5", "/project"]);
        let moved = json(at, &["stat", "lab.esker", "/project/a.h5"]);
        assert_eq!(
            (&moved[0]["vertex"], &moved[0]["mode"]),
            (&id, &"0640".into())
        );
        done(
            at,
            &["ln", "lab.esker", "/project/a.h5", "/project/again.h5"],
        );
        done(at, &["ln", "lab.esker", "-s", "run7", "/project/latest"]);
        let listed = done(
            at,
            &["ls", "lab.esker", "/project", "-l", "--format", "csv"],
        );
        let names: Vec<_> = listed
            .lines()
            .skip(1)
            .map(|l| l.split(',').take(3).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            names,
            [
                "a.h5 -rw-r----- 2",
                "again.h5 -rw-r----- 2",
                "latest lrwxrwxrwx 1",
                "run7 drwxr-s--- 2"
            ]
        );
        assert_eq!(
            done(at, &["ls", "lab.esker", "/project/latest"]).trim(),
            "NAME\nb.h5"
        );
        // Other users see only what the permissions allow.
        let refused = esker(at, &["ls", "lab.esker", "/project/run7", "--as", "1001:7"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains("/project/run7: permission denied (EACCES)"),
            "{}",
            text(&refused.stderr)
        );
        assert_eq!(
            json(
                at,
                &[
                    "find",
                    "lab.esker",
                    "/",
                    "type = 'file'",
                    "--as",
                    "1001:7",
                    "--count"
                ]
            )[0]["files"],
            2
        );
        assert_eq!(
            json(at, &["find", "lab.esker", "/", "type = 'file'", "--count"])[0]["files"],
            3
        );
        let refused = esker(at, &["rm", "lab.esker", "/project"]);
        assert!(
            text(&refused.stderr).contains("-r deletes it"),
            "{}",
            text(&refused.stderr)
        );
        done(at, &["rm", "lab.esker", "-r", "/project"]);
        assert_eq!(json(at, &["du", "lab.esker", "/"])[0]["files"], 0);
        sound(at);
    });
}

#[test]
fn bad_input_is_told_where_and_why() {
    everywhere(|at| {
        done(at, &["mkdir", "lab.esker", "/a"]);
        let long = format!("/{}", "x".repeat(256));
        let deep = "/x".repeat(2_049);
        for (args, expected) in [
            (
                vec!["stat", "lab.esker", "/b"],
                "/b: no such file or directory (ENOENT)",
            ),
            (vec!["touch", "lab.esker", &long], "ENAMETOOLONG"),
            (vec!["touch", "lab.esker", &deep], "ENAMETOOLONG"),
            (vec!["touch", "lab.esker", "a"], "not an absolute path"),
            (vec!["mkdir", "lab.esker", "/a"], "EEXIST"),
            (vec!["touch", "lab.esker", "/.."], "above the root"),
            (vec!["mv", "lab.esker", "/a", "/a/b"], "EINVAL"),
            (vec!["chmod", "lab.esker", "9", "/a"], "octal"),
            (
                vec!["import", "tree", "lab.esker", "/nowhere"],
                "No such file",
            ),
            (
                vec!["find", "lab.esker", "/a", "siez > 3"],
                "did you mean `size`",
            ),
            (
                vec!["top", "lab.esker", "--by", "user", "--under", "/a"],
                "--by dir",
            ),
        ] {
            let out = esker(at, &args);
            // A missing file is not a usage error.
            let code = if expected.contains("ENOENT") { 1 } else { 2 };
            assert_eq!(out.status.code(), Some(code), "{args:?}");
            assert!(
                text(&out.stderr).contains(expected),
                "{args:?}: {}",
                text(&out.stderr)
            );
        }
        // Bytes that are not UTF-8 are printed unchanged.
        for name in [b"/new\nline".as_slice(), b"/\xff\xfe"] {
            let out = esker_bytes(
                at,
                &[
                    OsStr::new("touch"),
                    OsStr::new("lab.esker"),
                    OsStr::from_bytes(name),
                ],
            );
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
        let listed = done(at, &["ls", "lab.esker", "/"]);
        assert_eq!(listed.trim(), "NAME\n\\xff\\xfe\na\nnew\\x0aline");
    });
}

/// Esker reports the same attributes for this machine's files as the system's tools.
#[test]
fn a_scan_of_usr_equals_the_system_tools() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let first = json(at, &["import", "tree", "lab.esker", "/usr"]);
    let number = |text: String| {
        text.split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let of_type = |kind: &str| tool("find", &["/usr", "-type", kind]).lines().count() as u64;
    let held = json(at, &["du", "lab.esker", "/usr"]);
    assert_eq!(held[0]["directories"], of_type("d"));
    assert_eq!(
        held[0]["allocated"],
        number(tool("du", &["-s", "-B512", "/usr"])) * 512
    );
    assert_eq!(held[0]["size"], number(tool("du", &["-sb", "/usr"])));
    for kind in [("file", "f"), ("symlink", "l"), ("directory", "d")] {
        let filter = format!("type = '{}'", kind.0);
        let found = json(at, &["find", "lab.esker", "/usr", &filter, "--count"]);
        assert_eq!(found[0]["files"], of_type(kind.1), "{kind:?}");
    }
    let large = tool("find", &["/usr", "-type", "f", "-size", "+1000k"]);
    let mut expected: Vec<&str> = large.lines().collect();
    let found = done(
        at,
        &[
            "find",
            "lab.esker",
            "/usr",
            "type = 'file' AND size > 1000KiB",
            "--format",
            "csv",
            "--select",
            "path",
        ],
    );
    let mut found: Vec<&str> = found.lines().skip(1).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    // Without changes, the second scan writes nothing.
    let again = json(at, &["import", "tree", "lab.esker", "/usr"]);
    assert_eq!(again[0]["entries"], first[0]["entries"]);
    assert_eq!(
        [&again[0]["new"], &again[0]["changed"], &again[0]["removed"]],
        [0, 0, 0]
    );
    sound(at);
}

#[test]
fn what_changed_in_a_tree_is_all_that_the_next_scan_writes() {
    everywhere(|at| {
        let tree = at.join("tree");
        let file = |name: &str, content: &str| std::fs::write(tree.join(name), content).unwrap();
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::create_dir(tree.join("gone")).unwrap();
        file("a/x", "1");
        file("a/b/y", "22");
        file("gone/z", "333");
        std::fs::hard_link(tree.join("a/x"), tree.join("a/b/x2")).unwrap();
        file("program", "1");
        let runs_as_owner = || {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
            std::fs::set_permissions(tree.join("program"), permissions).unwrap();
        };
        runs_as_owner();
        symlink("../x", tree.join("a/b/s")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        std::fs::File::create(tree.join("sparse"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        let scan = || {
            json(
                at,
                &[
                    "import",
                    "tree",
                    "lab.esker",
                    &tree.to_string_lossy(),
                    "--as-path",
                    "/t",
                ],
            )[0]
            .clone()
        };
        assert_eq!(scan()["unreadable"], 0);
        let held = json(at, &["du", "lab.esker", "/t"]);
        assert_eq!(
            (&held[0]["files"], &held[0]["directories"]),
            (&8.into(), &5.into())
        );
        let stat = json(
            at,
            &["stat", "lab.esker", "/t/a/b/x2", "/t/sparse", "/t/a/b"],
        );
        assert_eq!(
            (&stat[0]["links"], &stat[1]["size"]),
            (&2.into(), &(1_u64 << 40).into())
        );
        let metadata = std::fs::metadata(tree.join("a/b")).unwrap();
        let time = jiff::Timestamp::new(metadata.mtime(), metadata.mtime_nsec() as i32).unwrap();
        assert_eq!(
            stat[2]["mtime"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap(),
            time
        );

        std::fs::remove_dir_all(tree.join("gone")).unwrap();
        std::fs::remove_file(tree.join("a/b/y")).unwrap();
        std::fs::create_dir(tree.join("a/b/y")).unwrap();
        file("program", "22");
        runs_as_owner();
        file("a/x", "longer");
        file("a/new", "");
        let second = scan();
        assert_eq!((&second["new"], &second["removed"]), (&2.into(), &3.into()));
        let names = |path: &str| done(at, &["ls", "lab.esker", path, "--format", "csv"]);
        assert_eq!(names("/t"), "name\na\npipe\nprogram\nsparse\n");
        assert_eq!(names("/t/a/b"), "name\nc\ns\nx2\ny\n");
        assert_eq!(
            json(at, &["stat", "lab.esker", "/t/program"])[0]["mode"],
            "4755"
        );
        assert_eq!(json(at, &["stat", "lab.esker", "/t/a/b/x2"])[0]["size"], 6);
        let third = scan();
        assert_eq!(
            [&third["new"], &third["changed"], &third["removed"]],
            [0, 0, 0]
        );
        sound(at);
    });
}

/// A directory is sent in parts, and its subdirectories come in the batches of other directories.
#[test]
fn a_directory_with_more_entries_than_a_part_is_compared_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let tree = at.join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    let flat = |n: u32| tree.join(format!("f{n}"));
    let fill = |numbers: std::ops::Range<u32>| {
        for n in numbers {
            if n % 500 == 0 {
                std::fs::create_dir(flat(n)).unwrap();
                std::fs::write(flat(n).join("below"), "").unwrap();
            } else {
                std::fs::write(flat(n), "").unwrap();
            }
        }
    };
    let counts = || {
        let tree = tree.to_string_lossy();
        let scan = json(
            at,
            &["import", "tree", "lab.esker", &tree, "--as-path", "/t"],
        )[0]
        .clone();
        ["entries", "new", "changed", "removed", "unreadable"]
            .map(|name| scan[name].as_u64().unwrap())
    };
    fill(0..9_001);
    assert_eq!(counts(), [9_020, 9_020, 0, 0, 0]);
    assert_eq!(counts(), [9_020, 0, 0, 0, 0]);
    fill(9_001..14_001);
    std::fs::remove_file(flat(1)).unwrap();
    std::fs::remove_dir_all(flat(500)).unwrap();
    std::fs::write(flat(8_999), "longer").unwrap();
    // The file and its directory are changed.
    assert_eq!(counts(), [14_027, 5_010, 2, 3, 0]);
    assert_eq!(counts(), [14_027, 0, 0, 0, 0]);
    sound(at);
}

#[test]
fn a_scan_that_is_killed_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let tree = at.join("tree");
    for directory in 0..40 {
        let directory = tree.join(format!("d{directory}"));
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..100 {
            std::fs::write(directory.join(format!("f{file}")), "").unwrap();
        }
    }
    let tree = tree.to_string_lossy().into_owned();
    for n in 0..20 {
        let (from, to) = (
            format!("{tree}/d{n}/f0"),
            format!("{tree}/d{}/again{n}", n + 7),
        );
        std::fs::hard_link(from, to).unwrap();
    }
    let kills = std::env::var("ESKER_KILLS").map_or(3, |n| n.parse().unwrap());
    let mut there = 0;
    for _ in 0..kills {
        let mut child = Command::new(env!("CARGO_BIN_EXE_esker"))
            .current_dir(at)
            .args([
                "import",
                "tree",
                "lab.esker",
                &tree,
                "--as-path",
                "/t",
                "--rate",
                "3k/s",
                "--resume",
            ])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = eventually(|| {
            let now = json_if(at).filter(|now| *now > there);
            now.ok_or("the scan does not go on")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        sound(at);
        there = json_if(at).unwrap_or(0);
        assert!(there >= told, "{told} files were there, and {there} are");
        if there >= 4_000 {
            break;
        }
    }
    done(
        at,
        &[
            "import",
            "tree",
            "lab.esker",
            &tree,
            "--as-path",
            "/t",
            "--resume",
        ],
    );
    let once = &json(at, &["du", "lab.esker", "/t"])[0];
    assert_eq!(
        (&once["files"], &once["directories"]),
        (&4_020.into(), &41.into())
    );
    let links = json(at, &["stat", "lab.esker", "/t/d3/f0", "/t/d10/again3"]);
    assert_eq!(
        (&links[0]["links"], &links[0]["vertex"]),
        (&2.into(), &links[1]["vertex"])
    );
    sound(at);
}

/// Returns the current number of files, once there is a database.
fn json_if(at: &Path) -> Option<u64> {
    let out = esker(at, &["du", "lab.esker", "/t", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
    rows[0]["files"].as_u64()
}

#[test]
fn what_cannot_be_read_is_told_and_stays() {
    if rustix::process::geteuid().is_root() {
        // Root can read everything; a directory loop stops the scan instead.
        return leads_into_itself();
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("closed/x")).unwrap();
    let tree_text = tree.to_string_lossy().into_owned();
    done(
        dir.path(),
        &["import", "tree", "lab.esker", &tree_text, "--as-path", "/t"],
    );
    let closed = |mode| {
        std::fs::set_permissions(
            tree.join("closed"),
            std::os::unix::fs::PermissionsExt::from_mode(mode),
        )
        .unwrap();
    };
    closed(0);
    let out = esker(
        dir.path(),
        &["import", "tree", "lab.esker", &tree_text, "--as-path", "/t"],
    );
    closed(0o700);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("closed: Permission denied"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(
        done(
            dir.path(),
            &["ls", "lab.esker", "/t/closed", "--format", "csv"]
        ),
        "name\nx\n"
    );
}

fn leads_into_itself() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("a/again")).unwrap();
    std::fs::write(tree.join("a/x"), "").unwrap();
    let (from, to) = (
        tree.display().to_string(),
        tree.join("a/again").display().to_string(),
    );
    let mounted = Command::new("mount")
        .args(["--bind", &from, &to])
        .output()
        .unwrap();
    if !mounted.status.success() {
        // Mounting is not permitted here.
        return;
    }
    let out = esker(
        dir.path(),
        &["import", "tree", "lab.esker", &from, "--as-path", "/t"],
    );
    let unmounted = Command::new("umount").arg(&to).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(
        text(&out.stderr).contains("leads back to a directory above it"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(
        json(dir.path(), &["du", "lab.esker", "/t"])[0]["directories"],
        3
    );
}

#[test]
fn projects_and_the_whole_are_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    done(
        at,
        &[
            "mkdir",
            "lab.esker",
            "-p",
            "/project/a/deep",
            "/project/b",
            "/project/c",
        ],
    );
    done(
        at,
        &[
            "touch",
            "lab.esker",
            "/project/a/x",
            "/project/a/deep/y",
            "/project/b/z",
            "/top",
        ],
    );
    done(at, &["ln", "lab.esker", "/project/b/z", "/project/b/zz"]);
    done(at, &["ln", "lab.esker", "/top", "/link", "-s"]);
    let whole = json(at, &["df", "lab.esker"]);
    let below = json(at, &["du", "lab.esker", "/"]);
    for sum in ["size", "allocated", "directories"] {
        assert_eq!(whole[0][sum], below[0][sum], "{sum}");
    }
    // A file with two names counts once in the total.
    assert_eq!(
        (&whole[0]["files"], &below[0]["files"]),
        (&5.into(), &6.into())
    );
    let projects = json(
        at,
        &["top", "lab.esker", "--by", "project", "--under", "/project"],
    );
    let named: Vec<(&str, u64)> = projects
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["project"].as_str().unwrap(), p["files"].as_u64().unwrap()))
        .collect();
    assert_eq!(named.len(), 3);
    for one in [("/project/a", 2), ("/project/b", 2), ("/project/c", 0)] {
        assert!(named.contains(&one), "{named:?}");
    }
}
