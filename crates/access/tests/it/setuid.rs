//! A program with more rights than the user who starts it ignores the environment.

use esker_access::environment;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Prints what a process reads from a variable; this test is that process.
#[test]
#[ignore = "it is run by the test below"]
fn what_a_process_sees() {
    let named = environment::variable("ESKER_KEY");
    let home = esker_access::home();
    println!(
        "rights={} key={named:?} home={home:?}",
        environment::has_more_rights()
    );
}

/// Copies this program with mode `mode`, which may give it the rights of user 1001, and starts it as user 1002.
fn run(folder: &Path, mode: u32) -> String {
    let program = folder.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chown(&program, Some(1001), Some(1001)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
    let out = Command::new(&program)
        .args([
            "--ignored",
            "--exact",
            "setuid::what_a_process_sees",
            "--nocapture",
        ])
        .env("ESKER_KEY", "/home/eve/key")
        .env("HOME", "/home/eve")
        .current_dir("/")
        .uid(1002)
        .gid(1002)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|l| l.contains("rights="));
    line.unwrap_or_else(|| panic!("{out:?}")).to_owned()
}

#[test]
fn a_set_user_id_program_does_not_go_by_its_environment() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    if chown(dir.path(), Some(0), Some(0)).is_err() {
        println!("skipped: only root can make such a program");
        return;
    }
    let plain = run(dir.path(), 0o755);
    assert!(plain.contains("key=Some(\"/home/eve/key\")"), "{plain}");
    assert!(plain.contains("home=Some(\"/home/eve/.esker\")"), "{plain}");
    for mode in [0o4755, 0o2755] {
        let with_rights = run(dir.path(), mode);
        assert!(
            with_rights.contains("rights=true key=None home=None"),
            "{with_rights}"
        );
    }
}
