//! Direct system calls. `nix` does not support real-time signals, and would lose a process that is stopped by one.

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use seccompiler::sock_filter;
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;

/// Maximum length of a path, in bytes.
const PATH_BYTES: usize = 4096;
/// Page size: reads do not cross a page boundary, because the next page may be unmapped.
const PAGE: usize = 4096;

/// Byte that the new process sends if the filter was refused.
const NO_FILTER: u8 = 1;

/// A process that is traced from its first instruction.
pub(crate) struct Started {
    pid: u32,
    /// Result of `Command::spawn`.
    spawned: mpsc::Receiver<io::Result<Child>>,
    said: File,
}

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns why the process ended without executing its program.
    pub(crate) fn failure(mut self) -> Failure {
        match self.spawned.recv() {
            // A signal killed it before.
            Ok(Ok(mut child)) => match child.wait() {
                Ok(status) => Failure::Killed(status),
                Err(e) => Failure::NotStarted(e),
            },
            Ok(Err(e)) => {
                let mut said = [0];
                let filter = self.said.read(&mut said).is_ok_and(|n| n == 1);
                if filter && said == [NO_FILTER] {
                    Failure::NoFilter(e)
                } else {
                    Failure::NotStarted(e)
                }
            }
            Err(_) => Failure::NotStarted(io::Error::other("its thread is gone")),
        }
    }
}

/// Reason why a process did not execute its program.
pub(crate) enum Failure {
    /// The program does not exist, or cannot be executed.
    NotStarted(io::Error),
    /// The kernel refused the filter.
    NoFilter(io::Error),
    /// A signal killed the process first.
    Killed(ExitStatus),
}

/// Starts a command that waits, before it executes its program, until it is traced and has installed the filter.
pub(crate) fn start(mut command: Command, filter: Vec<sock_filter>) -> io::Result<Started> {
    let (mut said, say) = pipe()?;
    let (hear, mut tell) = pipe()?;
    let ends = [said.as_raw_fd(), tell.as_raw_fd()];
    let before = move || {
        // If its parent dies, it must not wait for ever.
        for end in ends {
            // SAFETY: these are this process's own copies, which nothing uses after this.
            unsafe { libc::close(end) };
        }
        let pid = std::process::id().to_le_bytes();
        nix::unistd::write(&say, &pid)?;
        let mut go = [0];
        if nix::unistd::read(&hear, &mut go)? != 1 {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if seccompiler::apply_filter(&filter).is_err() {
            let error = io::Error::last_os_error();
            nix::unistd::write(&say, &[NO_FILTER])?;
            return Err(error);
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only; nothing is allocated and no lock taken.
    unsafe { command.pre_exec(before) };
    let (sender, spawned) = mpsc::channel();
    // It returns when the program has begun, which needs this thread.
    std::thread::Builder::new()
        .name("esker-spawn".into())
        .spawn(move || {
            let child = command.spawn();
            drop(command);
            let _ = sender.send(child);
        })?;
    let mut pid = [0; 4];
    if let Err(e) = said.read_exact(&mut pid) {
        // No process was created.
        return Err(match spawned.recv() {
            Ok(Err(e)) => e,
            _ => e,
        });
    }
    let pid = u32::from_le_bytes(pid);
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_EXITKILL;
    if let Err(e) = ptrace::seize(to_pid(pid), options) {
        // The end of the pipe makes the process exit without executing anything.
        drop(tell);
        if let Ok(Ok(mut child)) = spawned.recv() {
            let _ = child.wait();
        }
        return Err(e.into());
    }
    tell.write_all(&[1])?;
    Ok(Started { pid, spawned, said })
}

fn pipe() -> io::Result<(File, File)> {
    let (read, write): (OwnedFd, OwnedFd) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    Ok((read.into(), write.into()))
}

pub(crate) fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

/// Waits for a process that has not executed its program yet, and returns its `waitpid` status. `None` if it has ended: `Command::spawn`
/// waits for it then, and must find it.
pub(crate) fn wait_first(pid: u32) -> Option<i32> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(to_pid(pid)), flags | WaitPidFlag::__WALL) {
            Err(Errno::EINTR) => continue,
            Err(Errno::ECHILD) | Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                return None;
            }
            // Including a signal without a name.
            Err(_) | Ok(_) => {}
        }
        let mut status = 0;
        // SAFETY: `status` is there for the call to write to.
        let found = unsafe {
            libc::waitpid(
                pid.cast_signed(),
                &raw mut status,
                libc::__WALL | libc::WNOHANG,
            )
        };
        match found {
            0 => {}
            1.. => return Some(status),
            _ => return None,
        }
    }
}

/// Waits for any process that this thread traces; returns its id and `waitpid` status, or `None` if none is left.
pub(crate) fn wait() -> Option<(u32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is there for the call to write to.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if let Ok(pid @ 1..) = u32::try_from(pid) {
            return Some((pid, status));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Mode in which a stopped process is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    /// Runs to the next stop.
    On,
    /// Runs to the end of the current system call.
    ToEnd,
    /// Stays stopped, as its user wants, until it gets a signal to continue.
    Stay,
}

/// Resumes a stopped process, with a signal if it is not 0. If it was killed meanwhile, a later wait reports it.
pub(crate) fn go(pid: u32, how: Go, signal: i32) {
    let request = match how {
        Go::On => libc::PTRACE_CONT,
        Go::ToEnd => libc::PTRACE_SYSCALL,
        Go::Stay => libc::PTRACE_LISTEN,
    };
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take two numbers, and neither read nor write this process's memory.
    unsafe { libc::ptrace(request, pid, none, i64::from(signal)) };
}

/// Returns the event message of a stop.
pub(crate) fn message(pid: u32) -> Option<i64> {
    ptrace::getevent(to_pid(pid)).ok()
}

/// Arguments of a process's current system call, and its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) arguments: [u64; 5],
    pub(crate) result: i64,
}

/// Reads the registers of a native or a 32-bit program. At the end of a call, the first argument may be its result.
pub(crate) fn registers(pid: u32, compat: bool) -> Option<Registers> {
    let r = ptrace::getregs(to_pid(pid)).ok()?;
    #[cfg(target_arch = "x86_64")]
    {
        let result = r.rax.cast_signed();
        let arguments = if compat {
            [r.rbx, r.rcx, r.rdx, r.rsi, r.rdi].map(|word| word & u64::from(u32::MAX))
        } else {
            [r.rdi, r.rsi, r.rdx, r.r10, r.r8]
        };
        Some(Registers { arguments, result })
    }
    #[cfg(target_arch = "aarch64")]
    {
        let _ = compat;
        let [a, b, c, d, e, ..] = r.regs;
        Some(Registers {
            arguments: [a, b, c, d, e],
            result: a.cast_signed(),
        })
    }
}

/// Reads another process's memory; returns fewer bytes where it ends.
fn memory(pid: u32, at: u64, into: &mut [u8]) -> Option<usize> {
    let base = usize::try_from(at).ok()?;
    let remote = [RemoteIoVec {
        base,
        len: into.len(),
    }];
    process_vm_readv(to_pid(pid), &mut [IoSliceMut::new(into)], &remote).ok()
}

/// Reads a string that ends with a zero byte.
pub(crate) fn text(pid: u32, at: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < PATH_BYTES {
        let from = at.checked_add(out.len() as u64)?;
        let in_page = usize::try_from(from).ok()? % PAGE;
        let mut part = vec![0; (PAGE - in_page).min(256)];
        let read = memory(pid, from, &mut part)?;
        let part = part.get(..read).filter(|p| !p.is_empty())?;
        if let Some(end) = part.iter().position(|b| *b == 0) {
            out.extend_from_slice(part.get(..end)?);
            return Some(out);
        }
        out.extend_from_slice(part);
    }
    None
}

/// Reads a number of 8 bytes; supported machines are little-endian.
pub(crate) fn word(pid: u32, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (memory(pid, at, &mut bytes)? == 8).then_some(u64::from_le_bytes(bytes))
}
