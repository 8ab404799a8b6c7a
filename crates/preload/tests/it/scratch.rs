//! A database, and programs that are started with the preloaded library.

use esker::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory that does not exist, so that everything below it comes from the target.
pub(crate) const PREFIX: &str = "/esker-preload-test";

pub(crate) struct Scratch {
    pub(crate) folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Self { folder };
        let made = OpenOptions::new().create(true).open(&scratch.target());
        made.unwrap().close().unwrap();
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn target(&self) -> String {
        self.path("db").to_str().unwrap().to_owned()
    }

    /// Builds a shell command in which `$LAB` is the prefix.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let data = self.path("data");
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|a| a.replace("$LAB", PREFIX)))
            .env("LD_PRELOAD", library())
            .env(
                "ESKER_PRELOAD",
                format!("{PREFIX}={},{}", self.target(), data.display()),
            )
            .env("LC_ALL", "C")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a program that must succeed; returns its output.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let out = self.command(program, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success(),
            "{program} {arguments:?}: {}\n{said}{errors}",
            out.status
        );
        assert_eq!(errors, "", "{program} {arguments:?}");
        said
    }

    /// Runs a program that must fail; returns its error output.
    pub(crate) fn fail(&self, program: &str, arguments: &[&str]) -> String {
        let out = self.command(program, arguments).output().unwrap();
        assert!(!out.status.success(), "{program} {arguments:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
}

/// Returns the library of this build.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let library = program.parent().unwrap().join("libesker_preload.so");
    assert!(library.exists(), "expected {}", library.display());
    library
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let found = found.is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}
