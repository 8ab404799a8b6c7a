//! Least privilege for a long-running process: [`Sandbox::enter`] gives up permanently what the process does not need.
//!
//! - **Landlock** limits which files this thread, and each thread that it starts later, may read and write, which TCP ports it may
//!   listen at, whether it may open TCP connections, and which processes it may signal. Files that are open already stay open.
//! - **seccomp** refuses, in all threads, the system calls that a server never makes: starting programs, tracing processes, mounting
//!   file systems, loading kernel modules, and the like ([`calls`]).
//!
//! Neither needs privileges. Call [`Sandbox::enter`] before the process starts the threads that do its work.

mod calls;
mod files;

use std::path::PathBuf;

/// Resources that the process may still use after [`Sandbox::enter`].
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    publish: Vec<PathBuf>,
    listen: Vec<u16>,
    connect: bool,
}

/// Errors of [`Sandbox::enter`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused a rule about files, ports or signals.
    #[error("restricting files and connections (Landlock): {0}")]
    Files(#[from] landlock::RulesetError),
    /// The kernel refused the filter of system calls.
    #[error("restricting system calls (seccomp): {0}")]
    Calls(#[from] seccompiler::Error),
}

/// Parts of a sandbox that this kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforced {
    /// Degree to which Landlock limits files, ports and signals.
    pub files: Level,
    /// Whether seccomp limits system calls.
    pub calls: bool,
}

/// Degree to which Landlock is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All rules are enforced.
    Full,
    /// The kernel is older than some of the rules and enforces the others.
    Partial,
    /// The kernel has no Landlock, or it is switched off.
    None,
}

impl Sandbox {
    /// Creates a sandbox in which the process may use no file and no port.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows reading a file, or a folder and all below it. A path that does not exist when the sandbox is entered stays inaccessible.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Allows reading and changing a file, or a folder and all below it: files, folders, links and sockets, but no devices.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Allows making, replacing and removing files in a folder, but not listing the folder or reading what is in it.
    #[must_use]
    pub fn publish(mut self, folder: impl Into<PathBuf>) -> Self {
        self.publish.push(folder.into());
        self
    }

    /// Allows listening at a TCP port; 0 allows ports that the system chooses.
    #[must_use]
    pub fn listen(mut self, port: u16) -> Self {
        self.listen.push(port);
        self
    }

    /// Allows opening TCP connections, to anywhere.
    #[must_use]
    pub fn connect(mut self, allowed: bool) -> Self {
        self.connect = allowed;
        self
    }

    /// Gives up everything that was not allowed. The rules for files apply to this thread and to those that it starts afterwards, the
    /// rules for system calls to all threads of the process. They cannot be lifted.
    ///
    /// An older kernel enforces less, which [`Enforced`] reports. After an error, either nothing or only the rules for files are enforced.
    pub fn enter(&self) -> Result<Enforced, Error> {
        let files = files::restrict(self)?;
        calls::restrict()?;
        Ok(Enforced { files, calls: true })
    }
}
