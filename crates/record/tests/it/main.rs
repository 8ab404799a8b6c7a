//! Runs in spools, from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use esker_model::{Op, Schema, Value};
use esker_record::{Ended, Found, Run, Spool, Types, batch, git, new_id};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

fn run(number: u32) -> Run {
    let start = 1_772_366_400_000_000_000 + i64::from(number);
    Run {
        id: new_id(start, "n1", number),
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
    assert!(matches!(&spool.read().unwrap()[..], [Found::GoesOn(_)]));
    let done = ended(first);
    let path = entry.end(&done).unwrap();
    let found = spool.read().unwrap();
    let [Found::Run(got, at)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&**got, at), (&done, &path));
}

#[test]
fn a_run_whose_process_is_gone_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::new(dir.path());
    // A number of a process that has ended.
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let killed = Run { pid, ..run(2) };
    spool.begin(&killed).unwrap();
    // Another process has the number of this one.
    let other = Run {
        pid_began: Some(1),
        ..run(3)
    };
    spool.begin(&other).unwrap();
    // Of another machine nobody knows.
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
        .filter(|f| matches!(f, Found::Run(run, _) if said(run).starts_with("killed")));
    assert_eq!(killed.count(), 2, "{found:?}");
    assert_eq!(
        found
            .iter()
            .filter(|f| matches!(f, Found::GoesOn(_)))
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
    // A disk that was full: the second line is cut off, then the first one.
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    assert!(matches!(&spool.read().unwrap()[..], [Found::GoesOn(_)]));
    fs::write(&path, &whole[..40]).unwrap();
    let found = spool.read().unwrap();
    assert!(
        matches!(&found[..], [Found::Broken(p, why)] if p == &path && why.contains("cut off")),
        "{found:?}"
    );
    let mut other = whole.clone();
    other[30] ^= 1;
    other.truncate(whole.iter().position(|b| *b == b'\n').unwrap() + 1);
    fs::write(&path, &other).unwrap();
    let found = spool.read().unwrap();
    assert!(
        matches!(&found[..], [Found::Broken(_, why)] if why.contains("torn")),
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
        // Whatever is masked out here is not given.
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
        matches!(&found[..], [Found::Run(run, _)] if **run == done),
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
            Found::Run(run, _) => Some(run.id.clone()),
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
    let made = batch(&all, &types);
    assert_eq!(made.mutations, batch(&all, &types).mutations);
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
    // Programs are known by what they were.
    all.programs.push(esker_record::Use {
        path: "/opt/bin/cc1".into(),
        size: Some(7),
        ..esker_record::Use::default()
    });
    let exe = batch(&all, &types).mutations.into_iter().any(|m| {
        matches!(m.op, Op::PutEdge { properties, .. } if properties.get("size") == Some(&Value::I64(7)))
    });
    assert!(exe);
    all.programs.clear();
    assert!(has("level", &Value::I64(2)) && has("exit", &Value::I64(0)));
    assert!(has(
        "settings",
        &Value::List(vec![Value::String("k=3".into())])
    ));
    // One that has not ended says the same of its beginning.
    let open = batch(&Run { ended: None, ..all }, &types);
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

proptest! {
    /// Whatever lies in a spool, it is read.
    #[test]
    fn nothing_in_a_spool_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.done"), &bytes).unwrap();
        let found = Spool::new(dir.path()).read().unwrap();
        prop_assert_eq!(found.len(), 1);
    }

    /// Ids sort as their times do, and are of runs alone.
    #[test]
    fn ids_sort_by_time(a in 0..1_i64 << 60, b in 0..1_i64 << 60, pid in any::<u32>()) {
        let (x, y) = (new_id(a, "n1", pid), new_id(b, "n1", pid));
        prop_assert_eq!(x.len(), 17);
        if a / 1_000_000 < b / 1_000_000 {
            prop_assert!(x < y);
        }
        prop_assert!(x != new_id(a, "n2", pid));
    }
}
