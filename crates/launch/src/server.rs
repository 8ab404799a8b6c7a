//! A server as a child process: start, health check, stop.

use crate::io_failure;
use esker_cluster::ServerId;
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Timeout of a readiness check.
const PROBE_MAX: Duration = Duration::from_millis(500);
/// Maximum size of the answer to a readiness check, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 10;
/// Number of bytes to read from the end of a log.
const LOG_END_BYTES: u64 = 8 << 10;
/// Number of log lines to print.
const LOG_LINES: usize = 6;

/// A server that this process has started.
pub struct ServerProcess {
    /// Number of the server.
    pub id: ServerId,
    address: String,
    log: PathBuf,
    process: std::process::Child,
    /// The command of the server, for restarts.
    start: ServerStart,
}

/// Whether a server accepts requests of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// The server accepts requests.
    Yes,
    /// The server does not accept requests, for this reason.
    No(String),
}

/// The command that starts servers.
#[derive(Clone)]
pub struct ServerStart {
    /// Path of the command `esker`.
    pub program: PathBuf,
    /// The cluster's configuration file.
    pub file: PathBuf,
    /// Memory of each server, in bytes.
    pub memory: u64,
    /// By server, the command prefix that runs a program on the server's node; none for this machine.
    pub launchers: Vec<Vec<String>>,
}

impl ServerStart {
    fn spawn(&self, config: &ClusterConfig, id: ServerId) -> anyhow::Result<std::process::Child> {
        let log = config.log(id);
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| io_failure(format!("opening the log `{}`", log.display()), e))?;
        let launchers = self.launchers.get(id.0 as usize);
        let mut command = match launchers.and_then(|words| words.split_first()) {
            Some((launcher, words)) => {
                let mut command = Command::new(launcher);
                command.args(words).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .args(["cluster", "server"])
            .arg(&self.file)
            .args(["--id", &id.0.to_string(), "--until-stdin-ends"])
            .args(["--memory", &self.memory.to_string()])
            // The server ends when this process does, because its stdin closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(out)
            // Ctrl-C must reach only this process, which stops the servers itself.
            .process_group(0)
            .spawn()
            .map_err(|e| io_failure(format!("starting {id}"), e))
    }
}

impl ServerProcess {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// The log cannot be opened, or the program cannot be started.
    pub fn start(
        config: &ClusterConfig,
        id: ServerId,
        start: &ServerStart,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            id,
            address: config.address(id).to_owned(),
            log: config.log(id),
            process: start.spawn(config, id)?,
            start: start.clone(),
        })
    }

    /// Restarts the server after it has ended.
    pub fn restart(&mut self, config: &ClusterConfig) -> anyhow::Result<()> {
        self.process = self.start.spawn(config, self.id)?;
        Ok(())
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the exit status if the server has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns whether the server accepts requests of clients.
    pub fn ready(&self) -> Ready {
        match probe(&self.address) {
            Some((200, _)) => Ready::Yes,
            Some((_, why)) => Ready::No(why),
            None => Ready::No(format!("{} does not answer yet", self.id)),
        }
    }

    /// Asks the server to stop.
    pub fn stop(&self) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // The process may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Kills the server and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Returns the last lines of the server's log.
    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }

    /// Returns the file of the server's log.
    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// Requests `/readyz` and returns the status and the text of the answer.
pub fn probe(address: &str) -> Option<(u16, String)> {
    let address = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PROBE_MAX).ok()?;
    stream.set_read_timeout(Some(PROBE_MAX)).ok()?;
    let request = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.trim().to_owned()))
}

pub(crate) fn tail(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_END_BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LOG_LINES));
    let last: Vec<String> = last.map(|l| format!("    {l}")).collect();
    Ok(last.join("\n"))
}
