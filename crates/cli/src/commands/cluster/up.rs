//! `esker cluster up`: runs all servers of a cluster as child processes.

use super::{EXIT_RESTART, EXIT_STOP, io_failure, pid_file, slurm, up_process};
use crate::args::ClusterUpArgs;
use esker_cluster::ServerId;
use esker_launch::{Ready, ServerProcess, ServerStart};
use esker_server::ClusterConfig;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::program::own_path;
use esker_terminal::units::counted;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

/// Interval between checks of children and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time without all servers ready after which the command prints which ones are missing.
const REPORT_AFTER: Duration = Duration::from_secs(15);
/// Number of restarts within [`RESTARTS_TIME`] after which the command gives up, because another restart would not help.
const RESTARTS_MAX: usize = 5;
const RESTARTS_TIME: Duration = Duration::from_mins(2);
/// Time for a stop beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(15);
/// Time for the program that uses the servers to end after SIGTERM.
const PROGRAM_STOP_MAX: Duration = Duration::from_secs(10);

pub(super) fn run(args: &ClusterUpArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let job = slurm::job(args, context)?;
    let file = match (&job, &args.file) {
        (Some(job), _) => job.file.clone(),
        (None, Some(file)) => std::path::absolute(file)
            .map_err(|e| io_failure(format!("finding `{}`", file.display()), e))?,
        (None, None) => return Err(usage("which cluster? name its file, or use --slurm")),
    };
    let config = ClusterConfig::from_file(&file)?;
    if config.etcd.is_none() {
        config.claim_storage()?;
    }
    if let Some(pid) = up_process(&config) {
        anyhow::bail!(
            "cluster `{}` is up already: process {pid} runs it; `esker cluster down {}` stops it",
            config.name,
            file.display()
        );
    }
    if config.etcd.is_some() && job.is_some() {
        return Err(usage(
            "a cluster whose stores move (`stores`, `[etcd]`) is not started in Slurm jobs yet: \
             leave these keys out of its file, and data is redistributed if the number of nodes \
             differs when the job starts",
        ));
    }
    if config.etcd.is_some() {
        return super::membership::up::run(&file, &config, &args.command, context);
    }
    let start = ServerStart {
        program: own_path()?,
        file,
        memory: config.memory_bytes.unwrap_or(context.globals.memory),
        launchers: job.as_ref().map_or_else(Vec::new, slurm::Job::launchers),
    };
    let mut servers = RunningServers {
        config: &config,
        children: Vec::new(),
        restarts: Vec::new(),
        gone: BTreeSet::new(),
        in_job: job.is_some(),
    };
    for id in config.ids() {
        servers
            .children
            .push(ServerProcess::start(&config, id, &start)?);
    }
    let program = Program {
        words: &args.command,
        job: job.as_ref(),
    };
    let done = servers.serve(&program, context);
    let whole = servers.stop();
    if up_process(&config) == Some(std::process::id()) {
        let _ = std::fs::remove_file(pid_file(&config));
    }
    if let Some(job) = &job {
        job.remove_files();
    }
    let code = done?;
    if !whole {
        context.warn("some servers did not stop in time and were killed");
    }
    Ok(match code {
        Some(code) if code != 0 => Outcome::Program(code),
        _ => Outcome::partly_if(!whole),
    })
}

/// The program to run while the servers answer.
pub(super) struct Program<'a> {
    pub(super) words: &'a [String],
    pub(super) job: Option<&'a slurm::Job>,
}

impl Program<'_> {
    /// Starts the program; `None` if none was given.
    pub(super) fn start(&self, target: &str) -> anyhow::Result<Option<std::process::Child>> {
        let Some((program, words)) = self.words.split_first() else {
            return Ok(None);
        };
        let mut command = std::process::Command::new(program);
        command.args(words).env("ESKER_TARGET", target);
        if let Some(job) = self.job {
            command.envs(job.environment());
        }
        let child = command
            .spawn()
            .map_err(|e| io_failure(format!("starting `{program}`"), e))?;
        Ok(Some(child))
    }
}

/// Returns a program's exit code as a shell does: 128 and the number of the signal that ended it.
pub(super) fn code_of(status: std::process::ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Asks a program to end, waits, and returns its exit code.
pub(super) fn end(running: Option<&mut std::process::Child>) -> Option<u8> {
    let running = running?;
    if let Some(pid) = i32::try_from(running.id()).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + PROGRAM_STOP_MAX;
    loop {
        if let Ok(Some(status)) = running.try_wait() {
            return Some(code_of(status));
        }
        if Instant::now() >= until {
            let _ = running.kill();
            return running.wait().ok().map(code_of);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The servers of the cluster, running or ended.
struct RunningServers<'a> {
    config: &'a ClusterConfig,
    children: Vec<ServerProcess>,
    /// Times of the latest restarts.
    restarts: Vec<Instant>,
    /// Servers that another server has taken over.
    gone: BTreeSet<ServerId>,
    /// Whether the servers run in a Slurm job, which may stop them.
    in_job: bool,
}

impl RunningServers<'_> {
    /// Runs until interrupted, until the program ends (its exit code), or until a server cannot be kept running.
    fn serve(
        &mut self,
        program: &Program<'_>,
        context: &mut Context,
    ) -> anyhow::Result<Option<u8>> {
        if !self.wait_until_ready(context)? {
            return Ok(None);
        }
        // `cluster down` finds this process by the file.
        let file = pid_file(self.config);
        std::fs::write(&file, format!("{}\n", std::process::id()))
            .map_err(|e| io_failure(format!("writing `{}`", file.display()), e))?;
        for child in &self.children {
            writeln!(
                context.out,
                "{}  esker://{}  pid {}  log {}",
                child.id,
                self.config.address(child.id),
                child.pid(),
                child.log().display()
            )?;
        }
        let count = self.children.len() as u64;
        let servers = counted(count, "server", "servers");
        let first = self.config.servers.first().map_or("", String::as_str);
        writeln!(context.out, "ready: esker://{first} ({servers})")?;
        context.out.flush()?;
        let target = format!("esker://{first}");
        if let Some(job) = program.job {
            job.publish_address(&target)?;
        }
        let mut running = program.start(&target)?;
        while context.interrupt.stopped().is_none() {
            match self.restart_ended(context) {
                Ok(true) => {}
                Ok(false) => return Ok(end(running.as_mut())),
                Err(e) => {
                    end(running.as_mut());
                    return Err(e);
                }
            }
            if let Some(running) = &mut running
                && let Some(status) = running
                    .try_wait()
                    .map_err(|e| io_failure("waiting for the program", e))?
            {
                return Ok(Some(code_of(status)));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        context
            .note("stopping: calls in progress are completed; a second signal ends them at once");
        Ok(end(running.as_mut()))
    }

    /// Waits until all servers are ready; false after an interrupt.
    fn wait_until_ready(&mut self, context: &Context) -> anyhow::Result<bool> {
        let mut told = Instant::now();
        let mut ready = vec![Ready::No(String::new()); self.children.len()];
        while context.interrupt.stopped().is_none() {
            for (child, ready) in self.children.iter_mut().zip(&mut ready) {
                if let Some(status) = child.ended() {
                    anyhow::bail!(
                        "{} ended before it was ready ({status}); the end of its log, `{}`:\n{}",
                        child.id,
                        child.log().display(),
                        child.log_tail()
                    );
                }
                if *ready != Ready::Yes {
                    *ready = child.ready();
                }
            }
            if ready.iter().all(|r| *r == Ready::Yes) {
                return Ok(true);
            }
            if told.elapsed() > REPORT_AFTER {
                told = Instant::now();
                for waits in &ready {
                    if let Ready::No(why) = waits {
                        context.note(&format!("not ready: {why}"));
                    }
                }
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(false)
    }

    /// Restarts servers that have ended, or leaves them to the server that takes them over. False once all were asked to stop.
    fn restart_ended(&mut self, context: &Context) -> anyhow::Result<bool> {
        for child in &mut self.children {
            let Some(status) = child.ended() else {
                continue;
            };
            if self.gone.contains(&child.id) {
                continue;
            }
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            if code == Some(EXIT_STOP) {
                self.gone.insert(child.id);
                context.note(&format!("{} was asked to stop, and stays down", child.id));
                if self.gone.len() == self.config.servers.len() {
                    return Ok(false);
                }
                continue;
            }
            if code == Some(EXIT_RESTART) {
                child.restart(self.config)?;
                context.note(&format!(
                    "{} was asked to restart (pid {})",
                    child.id,
                    child.pid()
                ));
                continue;
            }
            if self.in_job && status.success() {
                anyhow::bail!(
                    "{} was asked to stop, which is how Slurm ends a job: all stop",
                    child.id
                );
            }
            context.warn(&format!(
                "{} ended ({status}); the end of its log, `{}`:\n{}",
                child.id,
                child.log().display(),
                child.log_tail()
            ));
            if let Some(after) = self.config.proxy_after {
                self.gone.insert(child.id);
                let count = self.config.servers.len() as u32;
                if self.gone.len() as u32 == count {
                    anyhow::bail!(
                        "all {count} servers have ended; check their logs and start again"
                    );
                }
                let proxy = (1..count)
                    .map(|back| ServerId((child.id.0 + count - back) % count))
                    .find(|id| !self.gone.contains(id));
                if let Some(proxy) = proxy {
                    context.note(&format!(
                        "{proxy} has taken over from {}, after {} ms; `esker cluster down` and `up` bring it back",
                        child.id,
                        after.as_millis()
                    ));
                }
                continue;
            }
            self.restarts.retain(|at| at.elapsed() < RESTARTS_TIME);
            if self.restarts.len() >= RESTARTS_MAX {
                anyhow::bail!(
                    "servers ended {} times within {} minutes: all are stopped; check their logs and start again",
                    RESTARTS_MAX + 1,
                    RESTARTS_TIME.as_secs() / 60
                );
            }
            self.restarts.push(Instant::now());
            child.restart(self.config)?;
            context.note(&format!(
                "{} is started again (pid {})",
                child.id,
                child.pid()
            ));
        }
        Ok(true)
    }

    /// Stops all servers; false if some had to be killed.
    fn stop(&mut self) -> bool {
        for child in &mut self.children {
            if child.ended().is_none() {
                child.stop();
            }
        }
        let until = Instant::now() + self.config.settings.drain + STOP_MAX;
        let mut whole = true;
        for child in &mut self.children {
            while child.ended().is_none() {
                if Instant::now() >= until {
                    child.kill();
                    whole = false;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        whole
    }
}
