//! `esker run`: runs a program and records it. `esker log` and `esker spool` are in modules of their own.
//!
//! ```text
//!  this process: a file in the spool ──► the program ──► the second line of the file ──► a background process delivers
//! ```
//!
//! Recording must not fail or delay the program: its errors are printed as warnings on stderr.

pub(crate) mod deliver;
pub(crate) mod log;
mod start;

use crate::args::{Globals, RunArgs, SpoolArg};
use esker_model::Error;
use esker_record::{Begin, Ended, Entry, Redactor, Run, Spool, Use, begin, git, now, settings};
use esker_terminal::output::Style;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Exit codes of shells for a program that was not found, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// Time limit for the state of the source tree after the program has ended.
const GIT_MAX: Duration = Duration::from_millis(300);

/// Returns the spool folder.
pub(crate) fn spool(arg: &SpoolArg) -> Spool {
    if let Some(folder) = &arg.spool {
        return Spool::new(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
    }
    Spool::usual()
}

/// Returns the target with an absolute path.
fn absolute_target(target: &str) -> String {
    if target.contains("://") {
        return target.to_owned();
    }
    let whole = std::path::absolute(target);
    whole.map_or_else(|_| target.to_owned(), |p| p.to_string_lossy().into_owned())
}

fn warn(globals: &Globals, text: &str) {
    let style = Style::new(globals.color, io::stderr().is_terminal());
    // A closed stderr leaves no way to report the error.
    let _ = writeln!(io::stderr(), "{} {text}", style.yellow("warning:"));
}

/// Runs the program and returns its exit code. This must come before any signal handler, because signals are for the program.
pub(crate) fn main(args: &RunArgs, globals: &Globals) -> u8 {
    // Invalid patterns were refused when the command line was parsed.
    let redactor = Redactor::new(args.redact.iter().map(String::as_str)).unwrap_or_default();
    let child = Arc::new(AtomicU32::new(0));
    forward_signals(&child);
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(n, v)| Some((n.into_string().ok()?, v.to_string_lossy().into_owned())))
        .collect();
    let what = Begin {
        target: args
            .target
            .as_deref()
            .map_or_else(String::new, absolute_target),
        name: args.name.clone(),
        command: args.command.clone(),
        variables: args.keep.clone(),
        redactor: redactor.clone(),
    };
    let mut run = begin(what, &environment, now());
    run.params = settings(args.params.iter().cloned(), &redactor);
    let tags = args.tags.iter();
    run.tags = tags
        .map(|(name, value)| (name.clone(), redactor.named(name, value)))
        .collect();
    run.name = redactor.value(&run.name);
    run.inputs = args.inputs.iter().map(|path| Use::of(path)).collect();
    let spool = spool(&args.spool);
    let begun = BeginRecord::write(&spool, &run, globals);
    let state = state_of_source(Path::new(&run.cwd));
    let (status, observed) = start::run_to_end(args, globals, &run, &spool, &child);
    child.store(0, Ordering::Release);
    run.git = state.recv_timeout(GIT_MAX).ok().flatten();
    run.outputs = args.outputs.iter().map(|path| Use::of(path)).collect();
    let (at, status) = status;
    run.ended = Some(match &status {
        Ok(status) => Ended {
            at,
            exit: status.code(),
            signal: status.signal(),
            why: None,
        },
        Err(e) => Ended {
            at,
            why: Some(format!("not started: {e}")),
            ..Ended::default()
        },
    });
    if let Some(observed) = observed {
        start::add_observed(&mut run, &observed);
    }
    begun.end(&spool, &run, args, globals);
    match status {
        Ok(status) => exit_like(status),
        Err(e) => {
            let missing = e.kind() == io::ErrorKind::NotFound;
            let style = Style::new(globals.color, io::stderr().is_terminal());
            let program = args.command.first().map_or("", String::as_str);
            let _ = writeln!(
                io::stderr(),
                "{} `{program}` cannot be started: {e}",
                style.red("error:")
            );
            if missing { NOT_FOUND } else { NOT_RUN }
        }
    }
}

/// Record of the beginning of a run.
enum BeginRecord {
    /// The record is in the spool.
    Spool(Entry),
    /// The spool refused the record with this error, so a thread has delivered it to the database directly.
    Database(io::Error, Option<JoinHandle<Result<(), Error>>>),
}

impl BeginRecord {
    fn write(spool: &Spool, run: &Run, globals: &Globals) -> Self {
        match spool.begin(run) {
            Ok(entry) => Self::Spool(entry),
            Err(e) => {
                let (run, globals) = (run.clone(), globals.clone());
                let thread = std::thread::Builder::new()
                    .name("esker-begin".into())
                    .spawn(move || deliver::without_spool(&run, None, &globals));
                Self::Database(e, thread.ok())
            }
        }
    }

    /// Records the end of the run; a failure is a warning.
    fn end(self, spool: &Spool, run: &Run, args: &RunArgs, globals: &Globals) {
        let folder = spool.folder().display();
        match self {
            Self::Spool(entry) => {
                let begun = entry.path().to_owned();
                match entry.end(run) {
                    Ok(_) if args.leave => {}
                    Ok(_) if args.wait => deliver::before_exit(spool, &run.target, globals),
                    Ok(_) => deliver::in_background(spool, &run.target),
                    // The disk may be full now, so the run is delivered to the database directly.
                    Err(e) => match deliver::without_spool(run, Some(begun), globals) {
                        Ok(()) => warn(
                            globals,
                            &format!(
                                "the spool {folder} cannot be written any more ({e}): this run was recorded directly in {}",
                                run.target
                            ),
                        ),
                        Err(why) => warn(
                            globals,
                            &format!("how this run ended is not recorded: {folder}: {e}; {why}"),
                        ),
                    },
                }
            }
            Self::Database(e, thread) => {
                // An unfinished delivery is not repeated, so that the user waits only once.
                let still = thread.as_ref().is_some_and(|t| !t.is_finished());
                // The order matters: the database must not have the end of a run before its beginning.
                let begun = thread.map(JoinHandle::join);
                let ended = match &begun {
                    Some(Ok(Err(e))) if still => Err(Error::Unavailable(e.to_string())),
                    _ => deliver::without_spool(run, None, globals),
                };
                match ended {
                    Ok(()) => warn(
                        globals,
                        &format!(
                            "the spool {folder} cannot be written ({e}): this run was recorded directly in {}",
                            run.target
                        ),
                    ),
                    Err(why) => {
                        let lost = match begun {
                            Some(Ok(Ok(()))) => "how this run ended is not recorded",
                            _ => "this run is not recorded",
                        };
                        warn(globals, &format!("{lost}: {folder}: {e}; {why}"));
                    }
                }
            }
        }
    }
}

/// Ends like the program: with its exit code, or by the same signal.
fn exit_like(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        // A core dump of this process would be useless.
        let _ = rustix::process::setrlimit(
            rustix::process::Resource::Core,
            rustix::process::Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        );
        if signal_hook::low_level::emulate_default_handler(signal).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        return u8::try_from(128 + signal).unwrap_or(255);
    }
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(255)
}

/// Forwards signals to the program, except those that the terminal sends to both processes.
fn forward_signals(child: &Arc<AtomicU32>) {
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let Ok(mut signals) = Signals::new(all) else {
        return;
    };
    let child = Arc::clone(child);
    // Without the thread, signals end this process, and the run counts as killed.
    let _ = std::thread::Builder::new()
        .name("esker-signals".into())
        .spawn(move || {
            for signal in &mut signals {
                if matches!(signal, SIGINT | SIGQUIT) && has_terminal() {
                    continue;
                }
                let pid = i32::try_from(child.load(Ordering::Acquire)).ok();
                let signal = Signal::from_named_raw(signal);
                if let (Some(pid), Some(signal)) = (pid.and_then(Pid::from_raw), signal) {
                    let _ = kill_process(pid, signal);
                }
            }
        });
}

/// Whether the terminal sends its signals to both this process and the program.
fn has_terminal() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}

/// Reads the state of the source tree in a thread, in parallel with the program.
fn state_of_source(folder: &Path) -> mpsc::Receiver<Option<esker_record::Git>> {
    let (sender, receiver) = mpsc::channel();
    let folder = folder.to_owned();
    let _ = std::thread::Builder::new()
        .name("esker-git".into())
        .spawn(move || sender.send(git(&folder)));
    receiver
}

/// Starts this program as an independent background process.
pub(super) fn detached(words: &[&std::ffi::OsStr]) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(drop)
}

/// Returns the name of a run for messages.
pub(super) fn run_label(run: &Run) -> String {
    format!("execution:{} ({})", run.id, run.name)
}
