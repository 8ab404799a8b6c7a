//! Tests of operations that a process in a sandbox may and may not do. A sandbox is permanent, so each test runs in a process of its own:
//! another run of this binary.

#![allow(clippy::unwrap_used, reason = "tests")]

use esker_sandbox::{Enforced, Level, Sandbox};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "ESKER_SANDBOX_TEST";

/// Runs a test of this binary in a process of its own, with a scratch folder. Returns the folder in that process, `None` in the other.
fn inside(name: &str) -> Option<String> {
    if let Ok(folder) = std::env::var(VARIABLE) {
        return Some(folder);
    }
    let scratch = tempfile::tempdir().unwrap();
    for folder in ["mine", "other", "public"] {
        fs::create_dir(scratch.path().join(folder)).unwrap();
        fs::write(scratch.path().join(folder).join("file"), folder).unwrap();
    }
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VARIABLE, scratch.path())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    None
}

fn denied<T>(result: io::Result<T>) {
    let kind = result.err().map(|e| e.kind());
    assert_eq!(kind, Some(ErrorKind::PermissionDenied));
}

#[test]
fn files_outside_are_closed() {
    let Some(scratch) = inside("files_outside_are_closed") else {
        return;
    };
    let at = |path: &str| Path::new(&scratch).join(path);
    let mut open = fs::File::open(at("other/file")).unwrap();
    let entered = Sandbox::new()
        .write(at("mine"))
        .read(at("public"))
        .read(at("absent"))
        .enter()
        .unwrap();
    if entered.files == Level::None {
        return;
    }
    // Writable folder.
    fs::write(at("mine/new"), "x").unwrap();
    fs::rename(at("mine/new"), at("mine/newer")).unwrap();
    fs::create_dir(at("mine/folder")).unwrap();
    fs::hard_link(at("mine/newer"), at("mine/folder/link")).unwrap();
    fs::remove_file(at("mine/newer")).unwrap();
    assert_eq!(fs::read_dir(at("mine")).unwrap().count(), 2);
    // Readable folder.
    assert_eq!(fs::read_to_string(at("public/file")).unwrap(), "public");
    denied(fs::write(at("public/file"), "x"));
    denied(fs::write(at("public/new"), "x"));
    denied(fs::remove_file(at("public/file")));
    // A folder that must not be reachable by any path.
    denied(fs::read(at("other/file")));
    denied(fs::read_dir(at("other")));
    denied(fs::write(at("other/new"), "x"));
    denied(fs::remove_file(at("other/file")));
    denied(fs::read("/etc/passwd"));
    std::os::unix::fs::symlink(at("other/file"), at("mine/way")).unwrap();
    denied(fs::read(at("mine/way")));
    assert!(fs::rename(at("other/file"), at("mine/file")).is_err());
    assert!(fs::hard_link(at("other/file"), at("mine/hard")).is_err());
    // Files that were open stay open.
    assert_eq!(io::read_to_string(&mut open).unwrap(), "other");
    // Threads that start later are restricted, too.
    let path = at("other/file");
    std::thread::spawn(move || denied(fs::read(path)))
        .join()
        .unwrap();
}

#[test]
fn a_published_file_does_not_open_its_folder() {
    let Some(scratch) = inside("a_published_file_does_not_open_its_folder") else {
        return;
    };
    let at = |path: &str| Path::new(&scratch).join(path);
    let entered = Sandbox::new().publish(at("public")).enter().unwrap();
    if entered.files == Level::None {
        return;
    }
    fs::write(at("public/port.new"), "7400").unwrap();
    fs::rename(at("public/port.new"), at("public/port")).unwrap();
    fs::remove_file(at("public/port")).unwrap();
    denied(fs::read(at("public/file")));
    denied(fs::read_dir(at("public")));
    denied(fs::create_dir(at("public/folder")));
}

#[test]
fn programs_are_not_started_and_processes_not_traced() {
    let Some(_) = inside("programs_are_not_started_and_processes_not_traced") else {
        return;
    };
    // A thread that already runs is restricted as well.
    let (go, went) = std::sync::mpsc::channel::<()>();
    let early = std::thread::spawn(move || {
        went.recv().unwrap();
        denied(Command::new("/bin/true").status());
    });
    // All files are allowed, so that only the system call filter refuses.
    let entered = Sandbox::new().write("/").enter().unwrap();
    assert!(entered.calls);
    go.send(()).unwrap();
    early.join().unwrap();
    denied(Command::new("/bin/true").status());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("Seccomp:\t2"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
}

#[test]
fn connections_and_ports_are_closed() {
    let Some(_) = inside("connections_and_ports_are_closed") else {
        return;
    };
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let allowed = free.local_addr().unwrap();
    drop(free);
    let entered = Sandbox::new().listen(allowed.port()).enter().unwrap();
    if entered
        != (Enforced {
            files: Level::Full,
            calls: true,
        })
    {
        return;
    }
    denied(TcpStream::connect(before.local_addr().unwrap()));
    denied(TcpListener::bind("127.0.0.1:0"));
    TcpListener::bind(allowed).unwrap();
}
