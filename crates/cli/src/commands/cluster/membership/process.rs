//! A member as a child process.

use super::super::child::{probe, tail};
use super::super::io_failure;
use super::log_of;
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A member that was started.
pub(crate) struct Process {
    pub(crate) member: String,
    pub(crate) log: PathBuf,
    child: Child,
}

/// Asks a process to stop.
pub(crate) fn stop(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

impl Process {
    /// Starts a member; `kept` says whether it ends with this process.
    pub(crate) fn start(
        file: &Path,
        config: &ClusterConfig,
        member: &str,
        memory: u64,
        kept: bool,
    ) -> anyhow::Result<Self> {
        let log = log_of(config, member);
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| io_failure(format!("opening the log `{}`", log.display()), e))?;
        let program = super::super::program()?;
        let mut command = Command::new(program);
        command.args(["cluster", "server"]).arg(file).args([
            "--listen",
            member,
            "--memory",
            &memory.to_string(),
        ]);
        if kept {
            command.arg("--until-stdin-ends").stdin(Stdio::piped());
        } else {
            command.stdin(Stdio::null());
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(out)
            // Ctrl-C must reach only this process.
            .process_group(0)
            .spawn()
            .map_err(|e| io_failure(format!("starting the server at {member}"), e))?;
        Ok(Self {
            member: member.to_owned(),
            log,
            child,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns why the member is not ready, if it is not.
    pub(crate) fn not_ready_reason(&self) -> Option<String> {
        match probe(&self.member) {
            Some((200, _)) => None,
            Some((_, why)) => Some(format!("{}: {why}", self.member)),
            None => Some(format!("{} does not answer yet", self.member)),
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
