//! `esker cluster up`, where stores move: the servers that the file names, and an etcd if it names none.

use super::super::up::{Program, code_of, end};
use super::super::{AGAIN, FOR_GOOD, failed, keeper, pid_file};
use super::etcd::Own;
use super::process::{Process, stop};
use crate::context::Context;
use crate::exit::Outcome;
use crate::units::counted;
use esker_server::ClusterConfig;
use esker_server::member::Look;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often children and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// After so long without all servers ready, people are told whom it waits for.
const PATIENCE: Duration = Duration::from_secs(15);
/// One that dies again and again is started again so much later.
const REST: Duration = Duration::from_secs(5);
/// What servers may take to stop beyond their drain time.
const STOP_MAX: Duration = Duration::from_secs(25);

struct Servers<'a> {
    file: &'a Path,
    config: &'a ClusterConfig,
    memory: u64,
    etcd: Option<Own>,
    all: Vec<(Process, Instant)>,
    /// Servers that an owner has asked to stop.
    told: BTreeSet<String>,
}

pub(in super::super) fn run(
    file: &Path,
    config: &ClusterConfig,
    command: &[String],
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let file = std::path::absolute(file)
        .map_err(|e| failed(format!("finding `{}`", file.display()), e))?;
    let storage = &config.storage;
    esker::modes::create_private_all(storage)
        .map_err(|e| failed(format!("making `{}`", storage.display()), e))?;
    let named = config
        .etcd
        .as_ref()
        .is_some_and(|e| !e.endpoints.is_empty());
    let mut servers = Servers {
        file: &file,
        config,
        memory: config.memory_bytes.unwrap_or(context.globals.memory),
        etcd: if named {
            None
        } else {
            Some(Own::start(config)?)
        },
        all: Vec::new(),
        told: BTreeSet::new(),
    };
    // Whether etcd is there is said before anything is started.
    drop(Look::at(config)?);
    for member in &config.servers {
        let process = Process::start(&file, config, member, servers.memory, true)?;
        servers.all.push((process, Instant::now()));
    }
    let done = servers.serve(command, context);
    let whole = servers.stop();
    if keeper(config) == Some(std::process::id()) {
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

impl Servers<'_> {
    /// Until it is told to stop, all servers were, or the program ends (its exit code).
    fn serve(&mut self, command: &[String], context: &mut Context) -> anyhow::Result<Option<u8>> {
        if !self.wait_until_ready(context)? {
            return Ok(None);
        }
        let file = pid_file(self.config);
        std::fs::write(&file, format!("{}\n", std::process::id()))
            .map_err(|e| failed(format!("writing `{}`", file.display()), e))?;
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
        while context.interrupt.stopped().is_none() && self.told.len() < self.all.len() {
            if let Err(e) = self.look_after(context) {
                end(running.as_mut());
                return Err(e);
            }
            if let Some(running) = &mut running
                && let Some(status) = running
                    .try_wait()
                    .map_err(|e| failed("waiting for the program", e))?
            {
                return Ok(Some(code_of(status)));
            }
            std::thread::sleep(LOOK);
        }
        context.note("stopping: what is under way is finished; a second signal ends it at once");
        Ok(end(running.as_mut()))
    }

    fn wait_until_ready(&mut self, context: &Context) -> anyhow::Result<bool> {
        let mut told = Instant::now();
        while context.interrupt.stopped().is_none() {
            let mut waits = Vec::new();
            for (process, _) in &mut self.all {
                if let Some(status) = process.ended() {
                    anyhow::bail!(
                        "the server at {} ended before it was ready ({status}); the end of its log, `{}`:\n{}",
                        process.member,
                        process.log.display(),
                        process.last_words()
                    );
                }
                waits.extend(process.not_yet());
            }
            if waits.is_empty() {
                return Ok(true);
            }
            if told.elapsed() > PATIENCE {
                told = Instant::now();
                for why in waits {
                    context.note(&format!("not ready: {why}"));
                }
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    /// Starts again what has died: its stores have gone to the others meanwhile, and it takes its share.
    fn look_after(&mut self, context: &Context) -> anyhow::Result<()> {
        if let Some(etcd) = &mut self.etcd
            && etcd.look_after()?
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
            if code == Some(FOR_GOOD) {
                if self.told.insert(process.member.clone()) {
                    context.note(&format!(
                        "the server at {} was asked to stop, and stays down; the others have its stores",
                        process.member
                    ));
                }
                continue;
            }
            if code == Some(AGAIN) {
                *process =
                    Process::start(self.file, self.config, &process.member, self.memory, true)?;
                *since = Instant::now();
                context.note(&format!(
                    "the server at {} was asked to start anew (pid {})",
                    process.member,
                    process.pid()
                ));
                continue;
            }
            if since.elapsed() < REST {
                continue;
            }
            context.warn(&format!(
                "the server at {} ended ({status}); the end of its log, `{}`:\n{}",
                process.member,
                process.log.display(),
                process.last_words()
            ));
            *process = Process::start(self.file, self.config, &process.member, self.memory, true)?;
            *since = Instant::now();
            context.note(&format!(
                "the server at {} is started again (pid {})",
                process.member,
                process.pid()
            ));
        }
        Ok(())
    }

    /// Stops all that live; false if some had to be killed. etcd goes last.
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
