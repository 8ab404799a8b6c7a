//! A server as a child process: started, looked after, stopped.

use super::failed;
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

/// How long a server may take to say whether it is ready.
const PROBE_MAX: Duration = Duration::from_millis(500);
/// How much of its answer is read.
const ANSWER_BYTES_MAX: u64 = 8 << 10;
/// How much of a log's end is looked at.
const LOG_END_BYTES: u64 = 8 << 10;
/// How many lines of it are shown.
const LOG_LINES: usize = 6;

/// A server that was started.
pub(super) struct Child {
    pub(super) id: ServerId,
    address: String,
    log: PathBuf,
    process: std::process::Child,
    /// What a restart does again.
    start: Start,
}

/// Whether a server takes clients' calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ready {
    Yes,
    /// For that reason.
    No(String),
}

/// How servers are started.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) file: PathBuf,
    pub(super) memory: u64,
    /// By server: the command that runs a program where it is to run. Nothing: here.
    pub(super) through: Vec<Vec<String>>,
}

impl Start {
    fn spawn(&self, config: &ClusterConfig, id: ServerId) -> anyhow::Result<std::process::Child> {
        let log = config.log(id);
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| failed(format!("opening the log `{}`", log.display()), e))?;
        let program = super::program()?;
        let through = self.through.get(id.0 as usize);
        let mut command = match through.and_then(|words| words.split_first()) {
            Some((launcher, words)) => {
                let mut command = Command::new(launcher);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(["cluster", "server"])
            .arg(&self.file)
            .args(["--id", &id.0.to_string(), "--until-stdin-ends"])
            .args(["--memory", &self.memory.to_string()])
            // It ends when this process does, however that ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(out)
            // Ctrl-C is for this process, which tells the servers itself.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(format!("starting {id}"), e))
    }
}

impl Child {
    pub(super) fn start(
        config: &ClusterConfig,
        id: ServerId,
        start: &Start,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            id,
            address: config.address(id).to_owned(),
            log: config.log(id),
            process: start.spawn(config, id)?,
            start: start.clone(),
        })
    }

    /// Starts it again, once it has ended.
    pub(super) fn restart(&mut self, config: &ClusterConfig) -> anyhow::Result<()> {
        self.process = self.start.spawn(config, self.id)?;
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Whether it takes clients' calls.
    pub(super) fn ready(&self) -> Ready {
        match probe(&self.address) {
            Some((200, _)) => Ready::Yes,
            Some((_, why)) => Ready::No(why),
            None => Ready::No(format!("{} does not answer yet", self.id)),
        }
    }

    /// Asks it to stop.
    pub(super) fn stop(&self) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The log's last lines.
    pub(super) fn last_words(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }
}

/// What `/readyz` answers with: a status and a line of text.
pub(super) fn probe(address: &str) -> Option<(u16, String)> {
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

pub(super) fn tail(log: &Path) -> std::io::Result<String> {
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
