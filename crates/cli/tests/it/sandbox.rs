//! The sandbox of `esker serve`: the process drops unneeded privileges, and its functions still work.

use crate::serve::{Served, esker, run, text};
use std::path::Path;

/// A line of `/proc/PID/status` for every thread of a process.
fn status_lines(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut lines = Vec::new();
    for task in tasks {
        // A thread may end in between.
        let path = task.unwrap().path().join("status");
        let status = std::fs::read_to_string(path).unwrap_or_default();
        lines.extend(
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|value| value.trim().to_owned()),
        );
    }
    lines
}

/// Whether the kernel has Landlock: without it, file access is not restricted.
fn has_landlock() -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    symbols.contains("landlock_restrict_self")
}

#[test]
fn all_threads_of_a_server_refuse_programs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Served::start(dir.path(), &[]);
    let filters = status_lines(server.pid(), "Seccomp:");
    assert!(filters.len() > 5, "{filters:?}");
    assert!(filters.iter().all(|mode| mode == "2"), "{filters:?}");
    let privileges = status_lines(server.pid(), "NoNewPrivs:");
    assert!(privileges.iter().all(|no| no == "1"), "{privileges:?}");

    let other = tempfile::tempdir().unwrap();
    let free = Served::start(other.path(), &["--no-sandbox"]);
    let filters = status_lines(free.pid(), "Seccomp:");
    assert!(filters.iter().all(|mode| mode == "0"), "{filters:?}");
}

/// A server's process may write only to its folders; a command that uses the served folder can still back it up anywhere.
#[test]
fn a_backup_of_a_served_folder_goes_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let server = Served::start(dir.path(), &[]);
    let put = run(dir.path(), &["put", "lab.esker", "file:/a"]);
    assert!(put.status.success(), "{}", text(&put.stderr));
    // The server's process may not write there: the command makes the copy.
    let copy = elsewhere.path().join("copy.esker");
    let shown = copy.to_str().unwrap();
    let done = run(dir.path(), &["backup", "lab.esker", shown]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let names: Vec<String> = entries(&dir.path().join("lab.esker"));
    assert!(!names.iter().any(|n| n.starts_with("backup-")), "{names:?}");
    let check = run(elsewhere.path(), &["check", "copy.esker"]);
    assert!(check.status.success(), "{}", text(&check.stderr));
    let seen = run(elsewhere.path(), &["get", "copy.esker", "file:/a"]);
    assert!(text(&seen.stdout).contains("/a"), "{}", text(&seen.stderr));
    // A non-empty target is refused before anything is copied.
    let again = run(dir.path(), &["backup", "lab.esker", shown]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
    drop(server);
}

/// The server is asked to write outside of its sandbox: its configured backup folder is accessible, a link out of
/// that folder is not.
#[test]
fn a_link_does_not_lead_out_of_the_sandbox() {
    if !has_landlock() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups");
    std::fs::create_dir(&backups).unwrap();
    std::os::unix::fs::symlink(outside.path(), backups.join("way")).unwrap();
    std::fs::write(
        dir.path().join("server.toml"),
        format!("backups = \"{}\"\n", backups.display()),
    )
    .unwrap();
    let server = Served::start(dir.path(), &["--config", "server.toml"]);
    let backup = |name: &str| {
        let target = backups.join(name);
        esker(dir.path())
            .args(["backup", &server.target(), target.to_str().unwrap()])
            .output()
            .unwrap()
    };
    let inside = backup("one.esker");
    assert!(inside.status.success(), "{}", text(&inside.stderr));
    let out = backup("way/two.esker");
    assert!(!out.status.success());
    assert!(
        text(&out.stderr).contains("ermission denied"),
        "{}",
        text(&out.stderr)
    );
    assert!(entries(outside.path()).is_empty());
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}
