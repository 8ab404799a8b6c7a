//! A member as a child process.

use crate::io_failure;
use crate::server::{probe, tail};
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A member that was started.
pub struct MemberProcess {
    /// Address of the member, as HOST:PORT.
    pub member: String,
    /// File of the member's log.
    pub log: PathBuf,
    child: Child,
}

/// Asks a process to stop.
pub fn stop(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

impl MemberProcess {
    /// Starts a member by the command `program`; `kept` says whether it ends with this process.
    pub fn start(
        program: &Path,
        file: &Path,
        config: &ClusterConfig,
        member: &str,
        memory: u64,
        kept: bool,
    ) -> anyhow::Result<Self> {
        let log = member_log(config, member);
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| io_failure(format!("opening the log `{}`", log.display()), e))?;
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
            .map_err(|e| io_failure(format!("starting member {member}"), e))?;
        Ok(Self {
            member: member.to_owned(),
            log,
            child,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the member has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns why the member is not ready, if it is not.
    pub fn not_ready_reason(&self) -> Option<String> {
        match probe(&self.member) {
            Some((200, _)) => None,
            Some((_, why)) => Some(format!("{}: {why}", self.member)),
            None => Some(format!("{} does not answer yet", self.member)),
        }
    }

    /// Returns the last lines of the member's log.
    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }

    /// Kills the member and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the log file of a member.
pub fn member_log(config: &ClusterConfig, member: &str) -> PathBuf {
    let name: String = member
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect();
    config.storage.join(format!("member-{name}.log"))
}
