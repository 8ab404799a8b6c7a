//! The tracer's loop: handles each stop and resumes the process.

use crate::files::Files;
use crate::filter::{COMPAT, Call};
use crate::sys::{self, Failure, Go, Started};
use crate::{Options, Outcome};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::SystemTime;

/// A system call that has begun.
#[derive(Debug)]
struct Pending {
    call: Call,
    compat: bool,
    /// Files that it names, if they must be resolved before the call completes.
    paths: Vec<PathBuf>,
}

/// `AT_FDCWD`, as a 32-bit number.
const CURRENT_FOLDER: u32 = libc::AT_FDCWD.cast_unsigned();
/// `RENAME_EXCHANGE`.
const EXCHANGE: u64 = 2;

/// Observes a process and all its descendants to the end of the last.
pub(crate) fn follow(child: Started, options: &Options) -> Outcome {
    let root = child.pid();
    let mut files = Files::new(options);
    files.inherited();
    let mut pending: HashMap<u32, Pending> = HashMap::new();
    let mut ended = None;
    // Until it executes its program, it has no descendants.
    while ended.is_none() {
        let Some(status) = sys::wait_first(root) else {
            return match child.failure() {
                Failure::NotStarted(e) => Outcome::NotStarted(e),
                Failure::NoFilter(e) => {
                    Outcome::Refused(format!("seccomp's filter is refused here: {e}"))
                }
                Failure::Killed(status) => Outcome::Ran(status, SystemTime::now(), files.finish()),
            };
        };
        if libc::WIFSTOPPED(status) {
            let (how, signal) = stopped(root, status, &mut pending, &mut files);
            sys::go(root, how, signal);
            if status >> 16 == libc::PTRACE_EVENT_EXEC {
                break;
            }
        } else {
            ended = Some((ExitStatus::from_raw(status), SystemTime::now()));
        }
    }
    while let Some((pid, status)) = sys::wait() {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            pending.remove(&pid);
            if pid == root {
                ended = Some((ExitStatus::from_raw(status), SystemTime::now()));
            }
            continue;
        }
        let (how, signal) = stopped(pid, status, &mut pending, &mut files);
        sys::go(pid, how, signal);
    }
    let (status, at) = ended.unwrap_or((ExitStatus::default(), SystemTime::now()));
    Outcome::Ran(status, at, files.finish())
}

/// Handles a stop; returns how to resume the process.
fn stopped(
    pid: u32,
    status: i32,
    pending: &mut HashMap<u32, Pending>,
    files: &mut Files,
) -> (Go, i32) {
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => {
            if let Some(call) = pending.remove(&pid) {
                end(pid, &call, files);
            }
            (Go::On, 0)
        }
        // A signal, which is delivered.
        0 => (Go::On, signal),
        libc::PTRACE_EVENT_SECCOMP => match begin(pid) {
            Some(call) => {
                pending.insert(pid, call);
                (Go::ToEnd, 0)
            }
            None => (Go::On, 0),
        },
        libc::PTRACE_EVENT_EXEC => {
            if let Some(was) = sys::message(pid).and_then(|was| u32::try_from(was).ok()) {
                pending.remove(&was);
            }
            pending.remove(&pid);
            files.ran(pid);
            (Go::On, 0)
        }
        libc::PTRACE_EVENT_STOP => match signal {
            // Ctrl-Z, or `kill -STOP`: the group stays stopped.
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => (Go::Stay, 0),
            _ => (Go::On, 0),
        },
        _ => (Go::On, 0),
    }
}

fn begin(pid: u32) -> Option<Pending> {
    let data = u16::try_from(sys::message(pid)?).ok()?;
    let (call, compat) = (Call::of(data)?, data & COMPAT != 0);
    let mut paths = Vec::new();
    if !matches!(
        call,
        Call::Open | Call::OpenAt | Call::OpenAt2 | Call::Creat
    ) {
        let [a, b, c, d, flags] = sys::registers(pid, compat)?.arguments;
        let here = u64::from(CURRENT_FOLDER);
        let named = match call {
            Call::Truncate => vec![(here, a)],
            Call::Rename | Call::Link => vec![(here, a), (here, b)],
            _ => vec![(a, b), (c, d)],
        };
        for (folder, name) in named {
            paths.push(resolve(pid, folder, &sys::text(pid, name)?)?);
        }
        if call == Call::RenameAt2 && flags & EXCHANGE != 0 {
            // A third path marks an exchange.
            paths.push(PathBuf::new());
        }
    }
    Some(Pending {
        call,
        compat,
        paths,
    })
}

/// Resolves a name as the process does: from its working directory, or from an open folder. Only the last part may be a symbolic link
/// afterwards.
fn resolve(pid: u32, folder: u64, name: &[u8]) -> Option<PathBuf> {
    // The upper half of the register is undefined.
    let folder = folder as u32;
    let name = PathBuf::from(OsString::from_vec(name.to_vec()));
    let from = if name.is_absolute() {
        PathBuf::from("/")
    } else if folder == CURRENT_FOLDER {
        fs::read_link(format!("/proc/{pid}/cwd")).ok()?
    } else {
        fs::read_link(format!("/proc/{pid}/fd/{folder}")).ok()?
    };
    if name.as_os_str().is_empty() {
        return Some(from);
    }
    if let Ok(rest) = name.strip_prefix("/proc/self") {
        return fs::read_link(Path::new("/proc").join(pid.to_string()).join(rest)).ok();
    }
    let path = from.join(name);
    let last = path.file_name()?;
    Some(fs::canonicalize(path.parent()?).ok()?.join(last))
}

fn end(pid: u32, pending: &Pending, files: &mut Files) {
    let Some(registers) = sys::registers(pid, pending.compat) else {
        return;
    };
    let result = if pending.compat {
        // A signed 32-bit result.
        i64::from((registers.result as u32).cast_signed())
    } else {
        registers.result
    };
    if result < 0 {
        return;
    }
    let flags = |at: usize| registers.arguments.get(at).copied().unwrap_or(0);
    match (pending.call, pending.paths.as_slice()) {
        (Call::Open, _) => files.opened(pid, result, flags(1)),
        (Call::OpenAt, _) => files.opened(pid, result, flags(2)),
        (Call::OpenAt2, _) => {
            // The first word of `struct open_how`.
            files.opened(pid, result, sys::word(pid, flags(2)).unwrap_or(0));
        }
        (Call::Creat, _) => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            files.opened(pid, result, u64::from(flags.cast_unsigned()));
        }
        (Call::Truncate, [path]) => files.wrote(path),
        (Call::Link | Call::LinkAt, [old, new]) => files.linked(old, new),
        (_, [old, new]) => files.renamed(old, new),
        (_, [old, new, _]) => files.exchanged(old, new),
        _ => {}
    }
}
