//! Spools that several users can write to: protection of the users from each other, and of the server that takes in the runs.

use crate::access::{has, is_root};
use crate::runs::Lab;
use crate::runs_spool::{Server, done};
use esker_record::{Ended, Run, Spool, Use, new_id};
use esker_testkit::wait::wait_until;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The recorded user, and the attacker.
const ADA: u32 = 7001;
const EVE: u32 = 7002;

/// A lab readable by all users, with a spool writable by all. `None` unless root, which can act as other users.
fn shared() -> Option<(Lab, PathBuf)> {
    if !is_root() || !has("setpriv") {
        return None;
    }
    let lab = Lab::new();
    open_to(&lab.at(""), 0o755);
    let spool = lab.at("shared");
    fs::create_dir(&spool).unwrap();
    open_to(&spool, 0o777);
    Some((lab, spool))
}

fn open_to(folder: &Path, mode: u32) {
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a script in a folder as a user.
fn as_user(user: u32, folder: &Path, script: &str) -> Output {
    let id = user.to_string();
    let out = Command::new("setpriv")
        .args([
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
            "sh",
            "-ec",
        ])
        .arg(script)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    out
}

fn run(user: u32, number: u32) -> Run {
    let start = 1_772_366_400_000_000_000 + i64::from(number) * 1_000_000;
    Run {
        id: new_id(start, "n1", number, user),
        name: format!("work of {user}"),
        command: vec!["./work".into()],
        host: "n1".into(),
        uid: user,
        user: Some("root".into()),
        pid: number,
        start,
        ended: Some(Ended {
            at: start + 5_000_000,
            exit: Some(0),
            ..Ended::default()
        }),
        ..Run::default()
    }
}

fn output(path: &str, tags: &[(&str, &str)]) -> Use {
    Use {
        path: path.into(),
        tags: tags
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Use::default()
    }
}

/// Puts a run into a spool, as this user's file.
fn leave(spool: &Path, run: &Run, user: u32) -> PathBuf {
    // Under a name that no server reads, until it belongs to the user.
    let made = tempfile::tempdir_in(spool).unwrap();
    let path = Spool::new(made.path()).begin(run).unwrap();
    let path = path.end(run).unwrap();
    chown(&path, Some(user), Some(user)).unwrap();
    let to = spool.join(path.file_name().unwrap());
    fs::rename(&path, &to).unwrap();
    to
}

#[test]
fn a_server_opens_no_links_pipes_and_devices_of_a_spool() {
    let Some((lab, spool)) = shared() else { return };
    fs::write(lab.at("secret"), "of the server's user").unwrap();
    let server = Server::start(&lab, &spool);
    let script = "ln -s /dev/zero a.done; mkfifo b.done; ln -s ../secret c.done; truncate -s 65M d.done; ln -s /dev/zero e.run; mkdir f.done";
    as_user(EVE, &spool, script);
    // Later runs in the folder are still taken in.
    leave(&spool, &run(ADA, 1), ADA);
    wait_until("the run behind them is not taken in", || {
        server.counts("esker_spool_runs_total") == 1
    });
    wait_until("they are not moved aside", || {
        server.counts("esker_spool_aside_total") >= 5
    });
    assert!(done(&spool).is_empty());
    let aside = spool.join("aside");
    let kind = |name: &str| fs::symlink_metadata(aside.join(name)).unwrap().file_type();
    assert!(kind("a.done").is_symlink() && kind("c.done").is_symlink());
    let said = fs::read_to_string(lab.at("server.log")).unwrap();
    for why in ["a symbolic link", "a named pipe", "too large", "a folder"] {
        assert!(said.contains(why), "{why}: {said}");
    }
    // Stopping does not wait for a pipe.
    let mut server = server;
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_until("the server does not stop", || {
        server.child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_folder_for_what_is_broken_is_the_servers_own() {
    let Some((lab, spool)) = shared() else { return };
    fs::create_dir(lab.at("elsewhere")).unwrap();
    as_user(EVE, &spool, "ln -s ../elsewhere aside; echo torn > x.done");
    let server = Server::start(&lab, &spool);
    wait_until("it is not told", || {
        server.counts("esker_spool_failures_total") >= 1
    });
    assert_eq!(fs::read_dir(lab.at("elsewhere")).unwrap().count(), 0);
    assert!(spool.join("x.done").exists());
    // Neither is a folder of another user.
    fs::remove_file(spool.join("aside")).unwrap();
    as_user(EVE, &spool, "mkdir aside; echo torn > y.done");
    wait_until("it is not told", || {
        let said = fs::read_to_string(lab.at("server.log")).unwrap();
        said.contains(&format!("the folder `aside` is user {EVE}'s"))
    });
    assert_eq!(fs::read_dir(spool.join("aside")).unwrap().count(), 0);
    assert_eq!(server.counts("esker_spool_aside_total"), 0);
}

#[test]
fn a_user_changes_no_run_and_no_file_of_another_by_a_spool() {
    let Some((lab, spool)) = shared() else { return };
    let server = Server::start(&lab, &spool);
    let target = server.target();
    let esker = |words: &[&str]| {
        let out = lab.said(words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let get = |vertex: &str| esker(&["get", &target, vertex, "--format", "json"]);
    let merged = |count: u64| {
        wait_until("a run is not taken in", || {
            server.counts("esker_spool_runs_total") == count
        });
    };
    let aside = |count: u64| {
        wait_until("a run is not moved aside", || {
            server.counts("esker_spool_aside_total") == count
        });
    };
    // A file of the namespace that only its owner may write, one that nobody else may find, and one outside of the namespace.
    esker(&["mkdir", &target, "/data"]);
    esker(&["touch", &target, "/data/ada.nc"]);
    esker(&["mkdir", &target, "/data/private"]);
    esker(&["touch", &target, "/data/private/ada.nc"]);
    let user = format!("{ADA}:{ADA}");
    for path in ["/data/private/ada.nc", "/data/private", "/data/ada.nc"] {
        esker(&["chown", &target, &user, path]);
    }
    esker(&["chmod", &target, "700", "/data/private"]);
    esker(&["chmod", &target, "644", "/data/ada.nc"]);
    let mut ada = run(ADA, 1);
    ada.outputs = ["/data/ada.nc", "/data/private/ada.nc", "/scratch/ada.nc"]
        .map(|path| output(path, &[("quality", "good")]))
        .into();
    leave(&spool, &ada, ADA);
    merged(1);
    for path in ["/data/ada.nc", "/scratch/ada.nc"] {
        assert!(get(&format!("file:{path}")).contains("good"), "{path}");
    }

    // A run of another user, under the attacker's number and under the user's.
    let forged = Run {
        uid: EVE,
        name: "forged".into(),
        ..ada.clone()
    };
    leave(&spool, &forged, EVE);
    aside(1);
    leave(&spool, &Run { uid: ADA, ..forged }, EVE);
    aside(2);
    // An id of the attacker's for a run that the graph assigns to another user.
    let taken = run(EVE, 2);
    let execution = format!("execution:{}", taken.id);
    esker(&[
        "link",
        &target,
        &format!("user:{ADA}"),
        "run",
        &execution,
        "--create",
    ]);
    leave(&spool, &taken, EVE);
    aside(3);
    assert!(!get(&format!("execution:{}", ada.id)).contains("forged"));
    let said = fs::read_to_string(lab.at("server.log")).unwrap();
    assert!(
        said.contains("another user has a run with that id"),
        "{said}"
    );
    assert!(said.contains("is not the one of a run that user"), "{said}");

    // Tags of another user's files, uses of inaccessible files, and a part in another user's run.
    let mut eve = run(EVE, 3);
    eve.parent = Some(ada.id.clone());
    eve.inputs = vec![
        output("/data/private/ada.nc", &[]),
        output("/data/ada.nc", &[]),
    ];
    eve.outputs = [
        "/data/ada.nc",
        "/data/private/ada.nc",
        "/scratch/ada.nc",
        "/scratch/eve.nc",
    ]
    .map(|path| output(path, &[("quality", "bad")]))
    .into();
    leave(&spool, &eve, EVE);
    merged(2);
    let name = format!("execution:{}", eve.id);
    for path in ["/data/ada.nc", "/scratch/ada.nc"] {
        let file = get(&format!("file:{path}"));
        assert!(file.contains("good") && !file.contains("bad"), "{file}");
    }
    assert!(get("file:/scratch/eve.nc").contains("bad"));
    let edges = |edge: &str| esker(&["edges", &target, &name, edge, "--format", "ndjson"]);
    let (read, written) = (edges("read"), edges("write"));
    assert!(read.contains("/data/ada.nc"), "{read}");
    assert!(!read.contains("/data/private"), "{read}");
    assert!(written.contains("/scratch/eve.nc"), "{written}");
    assert!(!written.contains("/data/"), "{written}");
    assert_eq!(edges("belongs").trim(), "", "the other's run is not hers");
    // The user name in a run does not count.
    assert!(!get(&format!("user:{EVE}")).contains("root"));
    let said = fs::read_to_string(lab.at("server.log")).unwrap();
    assert!(said.contains("that was left out"), "{said}");
}

#[test]
fn nothing_goes_where_a_file_in_a_spool_wants_it() {
    let Some((lab, spool)) = shared() else { return };
    let deliver = |more: &[&str]| {
        let words = ["spool", "deliver", "--spool", "shared"];
        let mut command = lab.esker(&[&words, more].concat());
        command.env_remove("ESKER_TARGET").output().unwrap()
    };
    let hosts = lab.at("known_hosts");
    let address = format!(
        "esker://127.0.0.1:1?trust-new-host&known-hosts={}",
        hosts.display()
    );
    let made = lab.at("made.esker").to_string_lossy().into_owned();
    let named = lab.at("lab.esker").to_string_lossy().into_owned();
    // Another user's files are ignored, whatever database they name.
    for (number, target) in [&made, &address, &named, ""].into_iter().enumerate() {
        let target = target.to_string();
        let number = u32::try_from(number).unwrap();
        leave(
            &spool,
            &Run {
                target,
                ..run(0, number)
            },
            EVE,
        );
    }
    for words in [&[][..], &["--target", "lab.esker"]] {
        let out = deliver(words);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(done(&spool).len(), 4, "{said}");
        assert!(said.contains("4 files there are other users'"), "{said}");
    }
    // The owner's files do not redirect runs, either.
    for (number, target) in [&made, &address].into_iter().enumerate() {
        let target = target.clone();
        let number = u32::try_from(number).unwrap() + 10;
        leave(
            &spool,
            &Run {
                target,
                ..run(0, number)
            },
            0,
        );
    }
    let out = deliver(&[]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("--target {made}")), "{said}");
    assert!(!lab.at("made.esker").exists() && !hosts.exists());
    assert_eq!(done(&spool).len(), 6);
    let out = deliver(&["--target", &made]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(done(&spool).len(), 5);
    // A server is reached with the options of the command line, not with those in the file.
    let server = Server::start(&lab, &lab.at("none"));
    let wanted = format!(
        "{}?trust-new-host&known-hosts={}",
        server.target(),
        hosts.display()
    );
    leave(
        &spool,
        &Run {
            target: wanted,
            ..run(0, 20)
        },
        0,
    );
    let out = deliver(&["--target", &server.target()]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(done(&spool).len(), 5);
    assert!(!hosts.exists());
}

#[test]
fn a_spool_among_temporary_files_is_nobody_elses() {
    let Some((lab, _)) = shared() else { return };
    let temporary = lab.at("tmp");
    fs::create_dir(&temporary).unwrap();
    open_to(&temporary, 0o777);
    let spool = temporary.join("esker-spool-0");
    let record = || {
        let out = lab
            .esker(&["run", "--", "true"])
            .env_remove("ESKER_SPOOL")
            .env_remove("XDG_STATE_HOME")
            .env("HOME", "/nonexistent")
            .env("TMPDIR", &temporary)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    as_user(EVE, &temporary, "mkdir -m 777 esker-spool-0");
    let said = record();
    assert!(said.contains(&format!("is user {EVE}'s")), "{said}");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
    // Neither is a folder that others can read, nor a link to one.
    chown(&spool, Some(0), Some(0)).unwrap();
    let said = record();
    assert!(said.contains("with mode 777"), "{said}");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
    fs::remove_dir(&spool).unwrap();
    fs::create_dir(temporary.join("other")).unwrap();
    open_to(&temporary.join("other"), 0o700);
    symlink("other", &spool).unwrap();
    let said = record();
    assert!(said.contains("cannot be written"), "{said}");
    assert_eq!(fs::read_dir(temporary.join("other")).unwrap().count(), 0);
    // The runs are recorded nevertheless.
    assert_eq!(lab.log(&["--limit", "9"]).len(), 3);
}

/// The groups in a file do not count; those of the machine do.
#[test]
fn a_run_of_a_shared_spool_is_the_users_own() {
    let Some((lab, spool)) = shared() else { return };
    let server = Server::start(&lab, &spool);
    let mut run = run(ADA, 1);
    run.tags = BTreeMap::from([("campaign".to_owned(), "winter".to_owned())]);
    leave(&spool, &run, ADA);
    wait_until("the run is not taken in", || {
        server.counts("esker_spool_runs_total") == 1
    });
    let out = lab.said(&[
        "get",
        &server.target(),
        &format!("execution:{}", run.id),
        "--format",
        "json",
    ]);
    let told = String::from_utf8(out.stdout).unwrap();
    assert!(
        told.contains("winter") && told.contains("work of 7001"),
        "{told}"
    );
}
