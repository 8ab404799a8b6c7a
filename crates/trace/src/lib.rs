//! Which files a program and all its descendants open: the kernel stops them at the few system calls that name files, and nowhere else.
//!
//! ```text
//!  program ──open, rename, exec …──► seccomp's filter ──► ptrace stops it, twice ──► tracer ──► files: read, written, run
//!     └──────all other calls────────────────────────────► the kernel, as ever
//! ```
//!
//! The filter is handed down to whatever the program starts, and nobody can take it off: whoever has it needs the tracer for each file that it
//! opens. So the tracer stays until the last of them has ended, and if it is killed, they are.
//!
//! Suggested reading order: [`run`], `filter` (what stops), `tracer` (the loop), `files` (what becomes of it).

#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    reason = "three calls of C that no library wraps with real-time signals, in `sys` alone"
)]

mod files;
mod filter;
mod sys;
mod tracer;

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

/// Where files are the system's own: nobody asks which of them a run has read.
pub const SYSTEM: [&str; 12] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/cache",
];

/// What is to be observed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Files in these folders and below are none of interest.
    pub ignore: Vec<PathBuf>,
    /// When the run began: a file that was made later was made by it.
    pub start: SystemTime,
}

/// A file as it was when it was opened first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its whole path, without symbolic links.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// When it was changed last: nanoseconds since 1970.
    pub mtime: i64,
}

/// What was observed. Each file once, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Read, and not written before by the same run.
    pub inputs: Vec<Seen>,
    /// Written, and still there when all had ended.
    pub outputs: Vec<PathBuf>,
    /// Programs, in the order in which they were first run.
    pub programs: Vec<Seen>,
    /// How often files were opened, those that are of no interest among them.
    pub opens: u64,
    /// Files beyond those that are kept.
    pub left_out: u64,
}

/// How it went.
#[derive(Debug)]
pub enum Outcome {
    /// It has run to its end, and so have all that it started.
    Ran(ExitStatus, SystemTime, Observed),
    /// Its program could not be started.
    NotStarted(io::Error),
    /// This machine does not let it be observed, and why: nothing was started.
    Refused(String),
}

/// Runs a command to its end and observes it. `started` is told its process as soon as there is one.
///
/// Whoever calls it must have no other children that it waits for in the same thread.
pub fn run(command: Command, options: &Options, started: &dyn Fn(u32)) -> Outcome {
    match sys::start(command, filter::program()) {
        Ok(child) => {
            started(child.pid());
            tracer::follow(child, options)
        }
        Err(e) => Outcome::Refused(format!("starting a traced process: {e}")),
    }
}

/// Whether programs can be observed on this machine; else why not. Starts `/bin/true`.
pub fn check() -> Result<(), String> {
    let options = Options {
        ignore: Vec::new(),
        start: SystemTime::now(),
    };
    match run(Command::new("/bin/true"), &options, &|_| {}) {
        Outcome::Ran(status, _, observed) if status.success() && observed.opens > 0 => Ok(()),
        Outcome::Ran(status, _, observed) => Err(format!(
            "/bin/true ended with {status}, {} files were seen",
            observed.opens
        )),
        Outcome::NotStarted(e) => Err(format!("/bin/true: {e}")),
        Outcome::Refused(why) => Err(why),
    }
}
