//! Runs in spools, through the public interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use esker_model::{Op, Schema, Value};
use esker_record::{Ended, Run, Spool, SpoolFile, SpoolSelection, Types, batch, git, new_id};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

fn run(number: u32) -> Run {
    let start = 1_772_366_400_000_000_000 + i64::from(number);
    Run {
        id: new_id(start, "n1", number, 0),
        target: "lab.esker".into(),
        name: "wrf".into(),
        command: vec!["./wrf.exe".into(), "namelist.input".into()],
        host: esker_record::host_name(),
        pid: std::process::id(),
        start,
        ..Run::default()
    }
}

fn ended(mut run: Run) -> Run {
    run.ended = Some(Ended {
        at: run.start + 5,
        exit: Some(0),
        ..Ended::default()
    });
    run
}

#[test]
fn a_run_is_in_the_spool_from_its_beginning_to_its_delivery() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path().join("spool"));
    assert!(spool.read().unwrap().is_empty(), "none is made by looking");
    let first = run(1);
    let entry = spool.begin(&first).unwrap();
    assert!(matches!(&spool.read().unwrap()[..], [SpoolFile::Active(_)]));
    let done = ended(first);
    let path = entry.end(&done).unwrap();
    let found = spool.read().unwrap();
    let [SpoolFile::Run(got)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*got.run, &got.path), (&done, &path));
}

#[test]
fn a_run_without_process_and_end_counts_as_killed() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    // The id of a process that has ended.
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let killed = Run { pid, ..run(2) };
    spool.begin(&killed).unwrap();
    // Another process has the id of this one.
    let other = Run {
        pid_began: Some(1),
        ..run(3)
    };
    spool.begin(&other).unwrap();
    // The processes of another machine are unknown.
    let far = Run {
        host: "elsewhere".into(),
        start: esker_record::now(),
        ..run(4)
    };
    spool.begin(&far).unwrap();
    let found = spool.read().unwrap();
    let said = |run: &Run| {
        run.ended
            .as_ref()
            .and_then(|e| e.why.clone())
            .unwrap_or_default()
    };
    let killed = found
        .iter()
        .filter(|f| matches!(f, SpoolFile::Run(found) if said(&found.run).starts_with("killed")));
    assert_eq!(killed.count(), 2, "{found:?}");
    assert_eq!(
        found
            .iter()
            .filter(|f| matches!(f, SpoolFile::Active(_)))
            .count(),
        1
    );
}

#[test]
fn torn_files_are_named_and_the_beginning_counts() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    let path = spool.begin(&run(5)).unwrap().end(&ended(run(5))).unwrap();
    let whole = fs::read(&path).unwrap();
    // A full disk: the second line is truncated, then the first one.
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    assert!(matches!(&spool.read().unwrap()[..], [SpoolFile::Active(_)]));
    fs::write(&path, &whole[..40]).unwrap();
    let found = spool.read().unwrap();
    assert!(
        matches!(&found[..], [SpoolFile::Broken(p, why)] if p == &path && why.contains("cut off")),
        "{found:?}"
    );
    let mut other = whole.clone();
    other[30] ^= 1;
    other.truncate(whole.iter().position(|b| *b == b'\n').unwrap() + 1);
    fs::write(&path, &other).unwrap();
    let found = spool.read().unwrap();
    assert!(
        matches!(&found[..], [SpoolFile::Broken(_, why)] if why.contains("hash does not match")),
        "{found:?}"
    );
}

#[test]
fn a_group_that_shares_a_folder_may_read_what_lies_there_and_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let mode = |at: &Path| fs::metadata(at).unwrap().permissions().mode() & 0o777;
    for (folder, wanted) in [(0o700, 0o600), (0o755, 0o600), (0o770, 0o640)] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(folder)).unwrap();
        let first = run(folder);
        let path = Spool::new(dir.path()).begin(&first).unwrap();
        let path = path.end(&ended(first)).unwrap();
        // Independent of the umask.
        assert_eq!(mode(&path) & !wanted, 0, "{folder:o}");
        assert_eq!(mode(&path) & 0o600, 0o600);
    }
}

#[test]
fn runs_that_have_ended_are_found_without_looking_at_others() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    let goes_on = spool.begin(&run(7)).unwrap();
    let done = ended(run(8));
    spool.begin(&run(8)).unwrap().end(&done).unwrap();
    let found = spool.ended().unwrap();
    assert!(
        matches!(&found[..], [SpoolFile::Run(found)] if *found.run == done),
        "{found:?}"
    );
    assert_eq!(spool.read().unwrap().len(), 2);
    drop(goes_on);
}

#[test]
fn a_thousand_tasks_share_a_spool() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    std::thread::scope(|scope| {
        for part in 0..8 {
            let spool = &spool;
            scope.spawn(move || {
                for n in 0..125 {
                    let run = run(part * 1000 + n);
                    spool.begin(&run).unwrap().end(&ended(run)).unwrap();
                }
            });
        }
    });
    let found = spool.read().unwrap();
    let mut ids: Vec<_> = found
        .iter()
        .filter_map(|f| match f {
            SpoolFile::Run(found) => Some(found.run.id.clone()),
            _ => None,
        })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 1000);
}

#[test]
fn a_batch_says_all_of_a_run_and_the_same_again() {
    let mut all = ended(run(6));
    all.params.insert("k".into(), "3".into());
    all.tags.insert("level".into(), "2".into());
    all.inputs
        .push(esker_record::Use::of(Path::new("/etc/hostname")));
    all.outputs.push(esker_record::Use {
        path: "/scratch/out.nc".into(),
        ..esker_record::Use::default()
    });
    let types = Types::resolve(&Schema::default()).unwrap();
    let made = batch(&all, &types).unwrap();
    assert_eq!(made.mutations, batch(&all, &types).unwrap().mutations);
    let edges = made
        .mutations
        .iter()
        .filter(|m| matches!(m.op, Op::PutEdge { .. }));
    assert_eq!(edges.count(), 3, "run, read, write");
    let has = |name: &str, value: &Value| {
        made.mutations.iter().any(|m| match &m.op {
            Op::SetAttributes { set, .. } | Op::ChangeVertex { set, .. } => {
                set.get(name) == Some(value)
            }
            _ => false,
        })
    };
    // Programs have the state that they had then.
    all.programs.push(esker_record::Use {
        path: "/opt/bin/cc1".into(),
        size: Some(7),
        ..esker_record::Use::default()
    });
    let exe = batch(&all, &types).unwrap().mutations.into_iter().any(|m| {
        matches!(m.op, Op::PutEdge { properties, .. } if properties.get("size") == Some(&Value::I64(7)))
    });
    assert!(exe);
    all.programs.clear();
    assert!(has("level", &Value::I64(2)) && has("exit", &Value::I64(0)));
    assert!(has(
        "settings",
        &Value::List(vec![Value::String("k=3".into())])
    ));
    // A run that has not ended has the same start.
    let open = batch(&Run { ended: None, ..all }, &types).unwrap();
    assert!(made.mutations.starts_with(&open.mutations));
}

#[test]
fn the_state_of_a_source_tree_is_gits_own() {
    let dir = tempfile::tempdir().unwrap();
    let call = |words: &[&str]| {
        let out = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(git(dir.path()), None);
    call(&["init", "-q", "-b", "main"]);
    fs::write(dir.path().join("a"), "1").unwrap();
    call(&["add", "a"]);
    call(&["commit", "-qm", "a"]);
    call(&["remote", "add", "origin", "https://me:secret@host/x.git"]);
    fs::create_dir(dir.path().join("below")).unwrap();
    let state = git(&dir.path().join("below")).unwrap();
    assert_eq!(state.commit, call(&["rev-parse", "HEAD"]));
    assert_eq!(
        (state.branch.as_deref(), state.dirty),
        (Some("main"), Some(false))
    );
    assert_eq!(
        state.remote.as_deref(),
        Some("https://me:[redacted]@host/x.git")
    );
    fs::write(dir.path().join("a"), "2").unwrap();
    call(&["pack-refs", "--all"]);
    let state = git(dir.path()).unwrap();
    assert_eq!((state.commit.len(), state.dirty), (40, Some(true)));
    call(&["checkout", "-q", "--detach"]);
    assert_eq!(git(dir.path()).unwrap().branch, None);
}

#[test]
fn a_source_tree_starts_no_programs() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let call = |words: &[&str]| {
        let out = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(&tree)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    let started = dir.path().join("started");
    let program = dir.path().join("program");
    let script = format!("#!/bin/sh\ntouch {}\n", started.display());
    fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    call(&["init", "-q"]);
    fs::write(tree.join("a"), "1").unwrap();
    call(&["add", "a"]);
    call(&["commit", "-qm", "a"]);
    fs::write(tree.join("a"), "2").unwrap();
    call(&["config", "core.fsmonitor", program.to_str().unwrap()]);
    assert_eq!(git(&tree).unwrap().dirty, Some(true));
    assert!(!started.exists());
    // Only files of another user's tree are read: its filters are programs, too.
    if is_root() {
        call(&["config", "--unset", "core.fsmonitor"]);
        call(&["config", "filter.x.clean", program.to_str().unwrap()]);
        fs::write(tree.join(".gitattributes"), "a filter=x\n").unwrap();
        fs::write(tree.join("a"), "3").unwrap();
        let all = Command::new("chown")
            .args(["-R", "7002"])
            .arg(&tree)
            .status();
        assert!(all.unwrap().success());
        let state = git(&tree).unwrap();
        assert_eq!((state.commit.len(), state.dirty), (40, None));
        assert!(!started.exists());
    }
}

/// Id of another user; only root can give files away.
const OTHER: u32 = 7002;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn the_owner_of_a_run_does_not_change_with_its_file_name() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    // Claims user 0 but belongs to another user, who replaces it as soon as it was read.
    let path = spool.begin(&run(9)).unwrap().end(&ended(run(9))).unwrap();
    std::os::unix::fs::chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    let mut look = spool.files(SpoolSelection::All).unwrap();
    let Some(SpoolFile::Run(waiting)) = look.next() else {
        panic!("it is not read");
    };
    fs::remove_file(&path).unwrap();
    assert_eq!(waiting.owner, OTHER);
    let why = waiting.check_owner().unwrap_err();
    assert!(why.contains("its file is user 7002's"), "{why}");
    // Another file of that name remains.
    fs::write(&path, "another").unwrap();
    waiting.remove().unwrap();
    assert!(path.exists());
}

#[test]
fn what_is_no_file_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink("/dev/zero", at("a.done")).unwrap();
    let made = Command::new("mkfifo").arg(at("b.done")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(at("c.done")).unwrap();
    fs::File::create(at("d.done"))
        .unwrap()
        .set_len(65 << 20)
        .unwrap();
    let mut kinds = vec!["a symbolic link", "a named pipe", "a socket", "too large"];
    if is_root() {
        let mut make = Command::new("mknod");
        make.arg(at("e.done")).args(["c", "1", "5"]);
        // Some containers cannot create devices.
        if make.status().unwrap().success() {
            kinds.push("a device");
        }
    }
    let found = Spool::new(dir.path()).read().unwrap();
    assert_eq!(found.len(), kinds.len(), "{found:?}");
    for (found, kind) in found.iter().zip(kinds) {
        assert!(
            matches!(found, SpoolFile::Broken(_, why) if why.contains(kind)),
            "{kind}: {found:?}"
        );
    }
}

#[test]
fn only_of_opens_no_files_of_other_users() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    let path = spool.begin(&run(1)).unwrap().end(&ended(run(1))).unwrap();
    spool.begin(&run(2)).unwrap().end(&ended(run(2))).unwrap();
    std::os::unix::fs::chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    let found: Vec<SpoolFile> = spool
        .files(SpoolSelection::All)
        .unwrap()
        .only_of(0)
        .collect();
    assert!(
        matches!(&found[..], [SpoolFile::OtherUser(at, OTHER), SpoolFile::Run(_)] if *at == path),
        "{found:?}"
    );
}

#[test]
fn the_folder_aside_is_no_link_and_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path().join("spool"));
    fs::create_dir_all(spool.folder()).unwrap();
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    let broken = spool.folder().join("x.done");
    fs::write(&broken, "torn").unwrap();
    let aside = spool.folder().join("aside");
    std::os::unix::fs::symlink("../elsewhere", &aside).unwrap();
    spool.set_aside(&broken).unwrap_err();
    fs::remove_file(&aside).unwrap();
    if is_root() {
        fs::create_dir(&aside).unwrap();
        std::os::unix::fs::chown(&aside, Some(OTHER), Some(OTHER)).unwrap();
        let why = spool.set_aside(&broken).unwrap_err().to_string();
        assert!(why.contains("is user 7002's"), "{why}");
        fs::remove_dir(&aside).unwrap();
    }
    assert!(broken.exists());
    assert_eq!(spool.set_aside(&broken).unwrap(), aside.join("x.done"));
    assert!(!broken.exists() && aside.join("x.done").exists());
}

#[test]
fn a_file_is_named_by_its_plain_path_or_not_at_all() {
    let types = Types::resolve(&Schema::default()).unwrap();
    let mut run = ended(run(1));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    fs::create_dir(folder.join("below")).unwrap();
    std::os::unix::fs::symlink("below", folder.join("link")).unwrap();
    for (given, path) in [
        ("below/../new", "new"),
        ("link/new", "below/new"),
        ("none/../other", "other"),
        ("none/./x//y", "none/x/y"),
    ] {
        let used = esker_record::Use::of(&folder.join(given));
        assert_eq!(Path::new(&used.path), folder.join(path), "{given}");
        run.outputs.push(used);
    }
    batch(&run, &types).unwrap();
    for bad in ["/scratch/../etc/passwd", "/scratch//a", "/scratch/./a"] {
        let used = esker_record::Use {
            path: bad.into(),
            ..esker_record::Use::default()
        };
        for run in [
            Run {
                inputs: vec![used.clone()],
                ..run.clone()
            },
            Run {
                outputs: vec![used.clone()],
                ..run.clone()
            },
            Run {
                programs: vec![used.clone()],
                ..run.clone()
            },
            Run {
                program: Some(bad.into()),
                ..run.clone()
            },
        ] {
            let why = batch(&run, &types).unwrap_err().to_string();
            assert!(why.contains("plain form of a path"), "{why}");
        }
    }
}

proptest! {
    /// Any bytes in a spool are handled without a panic.
    #[test]
    fn nothing_in_a_spool_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.done"), &bytes).unwrap();
        let found = Spool::new(dir.path()).read().unwrap();
        prop_assert_eq!(found.len(), 1);
    }

    /// Ids sort by time and belong to runs only.
    #[test]
    fn ids_sort_by_time(a in 0..1_i64 << 60, b in 0..1_i64 << 60, pid in any::<u32>()) {
        let (x, y) = (new_id(a, "n1", pid, 7), new_id(b, "n1", pid, 7));
        prop_assert_eq!(x.len(), 17);
        if a / 1_000_000 < b / 1_000_000 {
            prop_assert!(x < y);
        }
        prop_assert!(x != new_id(a, "n2", pid, 7));
        prop_assert!(x != new_id(a, "n1", pid, 8));
    }
}
