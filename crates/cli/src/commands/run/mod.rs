//! `esker run`: starts a program, and records it. `esker log` and `esker spool` are in rooms of their own.
//!
//! ```text
//!  here, before: a file in the spool ──► the program ──► here, after: the file's second line ──► a process beside that delivers
//! ```
//!
//! Nothing here may fail or delay the program: what goes wrong with recording is a line on stderr.

pub(crate) mod deliver;
pub(crate) mod log;
mod start;

use crate::args::{Globals, RunArgs, SpoolArg};
use crate::output::Style;
use esker_model::Error;
use esker_record::{Begin, Ended, Entry, Redactor, Run, Spool, Use, begin, git, now, settings};
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

/// What shells say of a program that was not found, and of one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// How long the state of a source tree may still take once the program has ended.
const GIT_MAX: Duration = Duration::from_millis(300);

/// The folder where runs wait.
pub(crate) fn spool(arg: &SpoolArg) -> Spool {
    if let Some(folder) = &arg.spool {
        return Spool::new(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
    }
    Spool::usual()
}

/// A target that means the same from any folder.
fn whole_target(target: &str) -> String {
    if target.contains("://") {
        return target.to_owned();
    }
    let whole = std::path::absolute(target);
    whole.map_or_else(|_| target.to_owned(), |p| p.to_string_lossy().into_owned())
}

fn warn(globals: &Globals, text: &str) {
    let style = Style::new(globals.color, io::stderr().is_terminal());
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "{} {text}", style.yellow("warning:"));
}

/// Runs it to its end, and gives its exit code. Comes before anything catches signals: they are the program's.
pub(crate) fn main(args: &RunArgs, globals: &Globals) -> u8 {
    // A pattern that is none was an error before anything was started.
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
            .map_or_else(String::new, whole_target),
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
    let begun = Begun::write(&spool, &run, globals);
    let state = state_of_source(Path::new(&run.cwd));
    let (status, observed) = start::to_the_end(args, globals, &run, &spool, &child);
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
        start::add(&mut run, &observed);
    }
    begun.end(&spool, &run, args, globals);
    match status {
        Ok(status) => pass_on(status),
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

/// Where the beginning of a run was written down.
enum Begun {
    /// In the spool.
    Spool(Entry),
    /// The spool does not take it, and why: a thread beside the program has brought it to the database itself.
    Database(io::Error, Option<JoinHandle<Result<(), Error>>>),
}

impl Begun {
    fn write(spool: &Spool, run: &Run, globals: &Globals) -> Self {
        match spool.begin(run) {
            Ok(entry) => Self::Spool(entry),
            Err(e) => {
                let (run, globals) = (run.clone(), globals.clone());
                let thread = std::thread::Builder::new()
                    .name("esker-begin".into())
                    .spawn(move || deliver::directly(&run, None, &globals));
                Self::Database(e, thread.ok())
            }
        }
    }

    /// Writes down how it ended, wherever that is possible; what is not is told.
    fn end(self, spool: &Spool, run: &Run, args: &RunArgs, globals: &Globals) {
        let folder = spool.folder().display();
        match self {
            Self::Spool(entry) => {
                let begun = entry.path().to_owned();
                match entry.end(run) {
                    Ok(_) if args.leave => {}
                    Ok(_) if args.wait => deliver::now(spool, &run.target, globals),
                    Ok(_) => deliver::beside(spool, &run.target),
                    // A disk that is full by now: the database may take what the spool does not.
                    Err(e) => match deliver::directly(run, Some(begun), globals) {
                        Ok(()) => warn(
                            globals,
                            &format!(
                                "the spool {folder} takes no more ({e}): this run went straight to {}",
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
                // One that has not got there by now is not asked a second time: nobody is to wait twice.
                let still = thread.as_ref().is_some_and(|t| !t.is_finished());
                // In their order, so that nobody sees the end first.
                let begun = thread.map(JoinHandle::join);
                let ended = match &begun {
                    Some(Ok(Err(e))) if still => Err(Error::Unavailable(e.to_string())),
                    _ => deliver::directly(run, None, globals),
                };
                match ended {
                    Ok(()) => warn(
                        globals,
                        &format!(
                            "the spool {folder} takes nothing ({e}): this run went straight to {}",
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

/// Ends as the program did: with its exit code, or by the same signal.
fn pass_on(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        // A core of this process would say nothing.
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

/// Signals that this process gets go on to the program; those of the terminal it has got itself.
fn forward_signals(child: &Arc<AtomicU32>) {
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let Ok(mut signals) = Signals::new(all) else {
        return;
    };
    let child = Arc::clone(child);
    // Without it signals end this process, and the run counts as killed.
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

/// Whether a terminal sends its signals to this process and its program alike.
fn has_terminal() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}

/// Asked beside the program, so that it takes no time of its own.
fn state_of_source(folder: &Path) -> mpsc::Receiver<Option<esker_record::Git>> {
    let (sender, receiver) = mpsc::channel();
    let folder = folder.to_owned();
    let _ = std::thread::Builder::new()
        .name("esker-git".into())
        .spawn(move || sender.send(git(&folder)));
    receiver
}

/// This program, as a process of its own that outlives this one and is in nobody's way.
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

/// One line of a run, for messages.
pub(super) fn told(run: &Run) -> String {
    format!("execution:{} ({})", run.id, run.name)
}
