//! Observes the files that a program and its descendants open: the kernel stops them only at the few system calls that name files.
//!
//! ```text
//!  program ──open, rename, exec …──► seccomp's filter ──► ptrace stops it, twice ──► tracer ──► files: read, written, run
//!     └──────all other calls────────────────────────────► the kernel
//! ```
//!
//! The filter is inherited by all processes that the program starts, and cannot be removed: they need the tracer for each file that they
//! open. The tracer therefore stays until the last of them has ended, and if it is killed, so are they.
//!
//! Suggested reading order: [`run`], `filter` (selected calls), `tracer` (the loop), `files` (the result).

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

/// Folders of system files, which are not recorded as inputs of a run.
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

/// Options of an observation.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders whose files are ignored, including subfolders.
    pub ignore: Vec<PathBuf>,
    /// Start of the run: files created later were created by it.
    pub start: SystemTime,
}

/// A file in its state at its first opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedFile {
    /// Absolute path without symbolic links.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub size: u64,
    /// Time of its last modification, in nanoseconds since 1970.
    pub mtime: i64,
}

/// Observed files, each once, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Files that were read, and not written before by the same run.
    pub inputs: Vec<ObservedFile>,
    /// Files that were written and still exist at the end.
    pub outputs: Vec<PathBuf>,
    /// Programs, in the order of first execution.
    pub programs: Vec<ObservedFile>,
    /// Number of file openings, including ignored files.
    pub opens: u64,
    /// Number of files beyond the limit.
    pub left_out: u64,
}

/// Result of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The program ran to its end, and so did all its descendants.
    Ran(ExitStatus, SystemTime, Observed),
    /// The program could not be started.
    NotStarted(io::Error),
    /// This machine does not permit tracing, for this reason; the program was not started.
    Refused(String),
}

/// Runs a command to its end and observes it. `started` is called with its process id as soon as it exists.
///
/// The caller must have no other children that it waits for in the same thread.
pub fn run(command: Command, options: &Options, started: &dyn Fn(u32)) -> Outcome {
    match sys::start(command, filter::program()) {
        Ok(child) => {
            started(child.pid());
            tracer::follow(child, options)
        }
        Err(e) => Outcome::Refused(format!("starting a traced process: {e}")),
    }
}

/// Checks whether programs can be observed on this machine; the error says why not. Starts `/bin/true`.
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
