//! Observation of real programs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use esker_testkit::wait::wait_until;
use esker_trace::{Observed, Options, Outcome, SYSTEM, run};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Existing files are older than the run.
        Self { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    /// Ensures that files created so far are older than the run.
    fn rest() {
        std::thread::sleep(Duration::from_millis(60));
    }

    fn options() -> Options {
        Options {
            ignore: SYSTEM.iter().map(PathBuf::from).collect(),
            start: SystemTime::now(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.dir.path());
        command
    }

    fn observe(&self, words: &[&str]) -> (ExitStatus, Observed) {
        Self::rest();
        match run(self.command(words), &Self::options(), &|_| {}) {
            Outcome::Ran(status, _, observed) => (status, observed),
            other => panic!("{other:?}"),
        }
    }

    fn sh(&self, script: &str) -> (ExitStatus, Observed) {
        self.observe(&["sh", "-c", script])
    }

    /// Returns the names of files in this folder.
    fn names<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
        let root = self.at("");
        let here = paths.into_iter().filter_map(|p| p.strip_prefix(&root).ok());
        here.map(|p| p.to_string_lossy().into_owned()).collect()
    }

    fn inputs(&self, observed: &Observed) -> Vec<String> {
        self.names(observed.inputs.iter().map(|s| s.path.as_path()))
    }

    fn outputs(&self, observed: &Observed) -> Vec<String> {
        self.names(observed.outputs.iter().map(PathBuf::as_path))
    }
}

#[test]
fn what_is_read_written_and_run_is_known() {
    let lab = Lab::new();
    lab.put("in", "12345");
    lab.put("untouched", "");
    fs::create_dir(lab.at("sub")).unwrap();
    // Relative names from another folder; a search that fails; an intermediate file; a deleted file.
    let (status, observed) = lab.sh(
        "cat missing 2>/dev/null; cd sub; cat ../in > tmp; sort tmp > result; cp result ../copy; rm tmp; ls / >/dev/null",
    );
    assert!(status.success());
    assert_eq!(lab.inputs(&observed), ["in"]);
    assert_eq!(lab.outputs(&observed), ["copy", "sub/result"]);
    assert_eq!(observed.inputs[0].size, 5);
    let programs: Vec<_> = observed
        .programs
        .iter()
        .filter_map(|p| p.path.file_name()?.to_str())
        .collect();
    for wanted in ["cat", "sort", "cp", "rm"] {
        assert!(programs.contains(&wanted), "{programs:?}");
    }
    assert!(observed.opens > 10);
}

#[test]
fn a_file_is_told_by_the_name_that_it_has_at_the_end() {
    let lab = Lab::new();
    lab.put("old", "1");
    fs::create_dir_all(lab.at("a/b")).unwrap();
    Lab::rest();
    let (_, observed) = lab.sh(
        "echo x > draft; mv draft final; mv old moved; echo y > a/b/deep; mv a c; ln final second; : > gone; mv gone c/gone; rm c/gone",
    );
    assert_eq!(
        lab.outputs(&observed),
        ["c/b/deep", "final", "moved", "second"]
    );
    assert_eq!(lab.inputs(&observed), ["old"]);
}

/// Editors and `sed -i` write a new file and rename it over the one that they read.
#[test]
fn a_file_that_is_replaced_by_a_rename_was_read() {
    let lab = Lab::new();
    lab.put("conf", "1\n");
    lab.put("other", "1\n");
    Lab::rest();
    let (status, observed) =
        lab.sh("tr 1 2 < conf > conf.new; mv conf.new conf; echo 3 > more; mv more other");
    assert!(status.success());
    assert_eq!(lab.outputs(&observed), ["conf", "other"]);
    assert_eq!(lab.inputs(&observed), ["conf"]);
    assert_eq!(observed.inputs[0].size, 2);
}

#[test]
fn what_is_changed_in_place_was_read_too_and_appending_is_writing() {
    let lab = Lab::new();
    lab.put("log", "1\n");
    lab.put("data", "1\n");
    lab.put("cut", "1\n");
    let (status, observed) =
        lab.sh("echo 2 >> log; exec 3<>data; echo 2 >&3; truncate -s 0 cut; exec 4<>new");
    assert!(status.success());
    assert_eq!(lab.outputs(&observed), ["cut", "data", "log", "new"]);
    assert_eq!(lab.inputs(&observed), ["data"]);
}

#[test]
fn how_it_ends_is_its_own() {
    let lab = Lab::new();
    let (status, _) = lab.sh("exit 7");
    assert_eq!(status.code(), Some(7));
    let (status, _) = lab.sh("kill -TERM $$");
    assert_eq!(status.signal(), Some(15));
    // Real-time signals arrive as well.
    let (status, _) = lab.sh("trap 'exit 3' 40; kill -40 $$; exit 9");
    assert_eq!(status.code(), Some(3));
    let outcome = run(
        lab.command(&["./no-such-program"]),
        &Lab::options(),
        &|_| {},
    );
    assert!(
        matches!(&outcome, Outcome::NotStarted(e) if e.kind() == std::io::ErrorKind::NotFound),
        "{outcome:?}"
    );
}

/// Regression: the tracer consumed the exit of a process whose program did not exist, for which `Command::spawn` waited, too, and
/// which then panicked. That exit is now left to it.
#[test]
fn what_cannot_be_started_says_so_however_fast_it_ends() {
    let lab = Lab::new();
    for _ in 0..200 {
        let outcome = run(lab.command(&["./nothing"]), &Lab::options(), &|_| {});
        assert!(
            matches!(&outcome, Outcome::NotStarted(e) if e.raw_os_error() == Some(2)),
            "{outcome:?}"
        );
    }
    lab.put("no-program", "");
    let outcome = run(lab.command(&["./no-program"]), &Lab::options(), &|_| {});
    assert!(
        matches!(&outcome, Outcome::NotStarted(e) if e.raw_os_error() == Some(13)),
        "{outcome:?}"
    );
}

#[test]
fn processes_that_outlive_the_program_are_observed_to_their_end() {
    let lab = Lab::new();
    let (status, observed) = lab.sh("(sleep 0.3; echo late > late) & exit 4");
    assert_eq!(status.code(), Some(4));
    assert_eq!(lab.outputs(&observed), ["late"]);
}

/// Returns the state of a process in `/proc`.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_program_that_is_stopped_stays_so_until_it_is_continued() {
    let lab = Lab::new();
    let (sender, pids) = mpsc::channel();
    let command = lab.command(&["sh", "-c", "read x < fifo; echo $x > said"]);
    let made = Command::new("mkfifo").arg(lab.at("fifo")).status().unwrap();
    assert!(made.success());
    std::thread::scope(|scope| {
        let runs = scope.spawn(move || {
            run(command, &Lab::options(), &move |pid| {
                sender.send(pid).unwrap();
            })
        });
        let pid = pids.recv().unwrap();
        let kill = |signal: &str| {
            let status = Command::new("kill")
                .args([signal, &pid.to_string()])
                .status();
            assert!(status.unwrap().success());
        };
        kill("-STOP");
        wait_until("it is not stopped", || matches!(state(pid), 'T' | 't'));
        kill("-CONT");
        fs::write(lab.at("fifo"), "well\n").unwrap();
        let Outcome::Ran(status, _, observed) = runs.join().unwrap() else {
            panic!("it did not run");
        };
        assert!(status.success());
        assert_eq!(lab.outputs(&observed), ["said"]);
    });
    assert_eq!(fs::read_to_string(lab.at("said")).unwrap(), "well\n");
}

#[test]
fn many_processes_and_threads_at_once() {
    let lab = Lab::new();
    for n in 0..40 {
        lab.put(&format!("in{n}"), "x");
    }
    let (status, observed) =
        lab.sh("for n in $(seq 0 39); do (sort --parallel=2 in$n -o out$n; cat out$n >/dev/null) & done; wait");
    assert!(status.success());
    assert_eq!(lab.inputs(&observed).len(), 40, "{observed:?}");
    assert_eq!(lab.outputs(&observed).len(), 40, "{observed:?}");
}

/// `open("in", O_RDONLY)`, `creat("out", 0644)`, `exit(0)` by the calls of a 32-bit program; static, without a library.
#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_32_bits_and_static_ones_are_observed() {
    let lab = Lab::new();
    lab.put("in", "1");
    lab.put(
        "small.s",
        ".globl _start\n_start: movl $5,%eax\n movl $in,%ebx\n xorl %ecx,%ecx\n int $0x80\n\
         movl $8,%eax\n movl $out,%ebx\n movl $420,%ecx\n int $0x80\n\
         movl $1,%eax\n xorl %ebx,%ebx\n int $0x80\n.data\nin: .asciz \"in\"\nout: .asciz \"out\"\n",
    );
    for words in [
        &["as", "--32", "-o", "small.o", "small.s"][..],
        &["ld", "-m", "elf_i386", "-o", "small", "small.o"],
    ] {
        let status = lab.command(words).stderr(Stdio::inherit()).status();
        assert!(status.unwrap().success(), "{words:?}");
    }
    let (status, observed) = lab.observe(&["./small"]);
    assert!(status.success(), "{status}");
    assert_eq!(lab.inputs(&observed), ["in"]);
    assert_eq!(lab.outputs(&observed), ["out"]);
    assert_eq!(observed.programs[0].path, lab.at("small"));
}

#[test]
fn this_machine_can() {
    esker_trace::check().unwrap();
}
