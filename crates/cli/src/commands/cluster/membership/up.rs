//! `esker cluster up` of a cluster whose servers move: starts the members that the file names, and an etcd if it names none.

use super::super::up::{Program, code_of, end};
use super::super::{EXIT_RESTART, EXIT_STOP, io_failure, pid_file, up_process};
use esker_launch::{MemberProcess, OwnedEtcd, stop};
use esker_server::ClusterConfig;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::program::own_path;
use esker_terminal::units::counted;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between checks of children and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time without all members ready after which the command prints which ones are missing.
const REPORT_AFTER: Duration = Duration::from_secs(15);
/// Minimum time between two starts of a member that keeps failing.
const RESTART_INTERVAL: Duration = Duration::from_secs(5);
/// Time for a stop beyond the members' drain time.
const STOP_MAX: Duration = Duration::from_secs(25);

struct MemberServers<'a> {
    file: &'a Path,
    config: &'a ClusterConfig,
    memory: u64,
    etcd: Option<OwnedEtcd>,
    all: Vec<(MemberProcess, Instant)>,
    /// Members that were asked to stop, and whose stop was reported.
    reported_stops: BTreeSet<String>,
}

pub(in super::super) fn run(
    file: &Path,
    config: &ClusterConfig,
    command: &[String],
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let file = std::path::absolute(file)
        .map_err(|e| io_failure(format!("finding `{}`", file.display()), e))?;
    let storage = &config.storage;
    esker::modes::create_private_all(storage)
        .map_err(|e| io_failure(format!("making `{}`", storage.display()), e))?;
    let named = config
        .etcd
        .as_ref()
        .is_some_and(|e| !e.endpoints.is_empty());
    let mut servers = MemberServers {
        file: &file,
        config,
        memory: config.memory_bytes.unwrap_or(context.globals.memory),
        etcd: if named {
            None
        } else {
            Some(OwnedEtcd::start(config)?)
        },
        all: Vec::new(),
        reported_stops: BTreeSet::new(),
    };
    // An unreachable etcd is reported before any member starts.
    drop(MembershipClient::connect(config)?);
    for member in &config.servers {
        let process =
            MemberProcess::start(&own_path()?, &file, config, member, servers.memory, true)?;
        servers.all.push((process, Instant::now()));
    }
    let done = servers.serve(command, context);
    let whole = servers.stop();
    if up_process(config) == Some(std::process::id()) {
        let _ = std::fs::remove_file(pid_file(config));
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

impl MemberServers<'_> {
    /// Runs until interrupted, until all members were asked to stop, or until the program ends (its exit code).
    fn serve(&mut self, command: &[String], context: &mut Context) -> anyhow::Result<Option<u8>> {
        if !self.wait_until_ready(context)? {
            return Ok(None);
        }
        let file = pid_file(self.config);
        std::fs::write(&file, format!("{}\n", std::process::id()))
            .map_err(|e| io_failure(format!("writing `{}`", file.display()), e))?;
        if let Some(etcd) = &self.etcd {
            let endpoints = self.config.etcd_endpoints()?.join(" ");
            writeln!(context.out, "etcd  {endpoints}  pid {}", etcd.pid())?;
        }
        for (process, _) in &self.all {
            writeln!(
                context.out,
                "server  esker://{}  pid {}  log {}",
                process.member,
                process.pid(),
                process.log.display()
            )?;
        }
        let count = counted(self.all.len() as u64, "server", "servers");
        let stores = counted(self.config.parts() as u64, "store", "stores");
        let first = self.config.servers.first().map_or("", String::as_str);
        writeln!(context.out, "ready: esker://{first} ({count}, {stores})")?;
        context.out.flush()?;
        let program = Program {
            words: command,
            job: None,
        };
        let mut running = program.start(&format!("esker://{first}"))?;
        while context.interrupt.stopped().is_none() && self.reported_stops.len() < self.all.len() {
            if let Err(e) = self.restart_ended(context) {
                end(running.as_mut());
                return Err(e);
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

    fn wait_until_ready(&mut self, context: &Context) -> anyhow::Result<bool> {
        let mut reported = Instant::now();
        while context.interrupt.stopped().is_none() {
            let mut waits = Vec::new();
            for (process, _) in &mut self.all {
                if let Some(status) = process.ended() {
                    anyhow::bail!(
                        "member {} ended before it was ready ({status}); the end of its log, `{}`:\n{}",
                        process.member,
                        process.log.display(),
                        process.log_tail()
                    );
                }
                waits.extend(process.not_ready_reason());
            }
            if waits.is_empty() {
                return Ok(true);
            }
            if reported.elapsed() > REPORT_AFTER {
                reported = Instant::now();
                for why in waits {
                    context.note(&format!("not ready: {why}"));
                }
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(false)
    }

    /// Restarts members that have ended; their servers have moved to the others, and each gets its share again.
    fn restart_ended(&mut self, context: &Context) -> anyhow::Result<()> {
        if let Some(etcd) = &mut self.etcd
            && etcd.restart_ended()?
        {
            context.warn(&format!(
                "etcd had ended; it is started again (pid {})",
                etcd.pid()
            ));
        }
        for (process, since) in &mut self.all {
            let Some(status) = process.ended() else {
                continue;
            };
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            if code == Some(EXIT_STOP) {
                if self.reported_stops.insert(process.member.clone()) {
                    context.note(&format!(
                        "member {} was asked to stop, and stays down; the others have its servers",
                        process.member
                    ));
                }
                continue;
            }
            if code == Some(EXIT_RESTART) {
                *process = MemberProcess::start(
                    &own_path()?,
                    self.file,
                    self.config,
                    &process.member,
                    self.memory,
                    true,
                )?;
                *since = Instant::now();
                context.note(&format!(
                    "member {} was asked to restart (pid {})",
                    process.member,
                    process.pid()
                ));
                continue;
            }
            if since.elapsed() < RESTART_INTERVAL {
                continue;
            }
            context.warn(&format!(
                "member {} ended ({status}); the end of its log, `{}`:\n{}",
                process.member,
                process.log.display(),
                process.log_tail()
            ));
            *process = MemberProcess::start(
                &own_path()?,
                self.file,
                self.config,
                &process.member,
                self.memory,
                true,
            )?;
            *since = Instant::now();
            context.note(&format!(
                "member {} is started again (pid {})",
                process.member,
                process.pid()
            ));
        }
        Ok(())
    }

    /// Stops all members, then etcd; false if some had to be killed.
    fn stop(&mut self) -> bool {
        for (process, _) in &mut self.all {
            if process.ended().is_none() {
                stop(process.pid());
            }
        }
        let until = Instant::now() + self.config.settings.drain + STOP_MAX;
        let mut whole = true;
        for (process, _) in &mut self.all {
            while process.ended().is_none() {
                if Instant::now() >= until {
                    process.kill();
                    whole = false;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        whole
    }
}
