//! A server as a separate process.

use crate::machine;
use anyhow::Context as _;
use esker_terminal::context::Context;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for starting or stopping a server.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a database in a scratch folder.
pub(crate) struct Child {
    process: Process,
    address: String,
    pub(super) folder: PathBuf,
}

impl Child {
    /// Starts a server; creates the database if absent.
    pub(crate) fn start(context: &Context, folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(context, folder, &[])
    }

    /// Starts a server with further arguments; creates the database if absent.
    pub(super) fn start_with(
        context: &Context,
        folder: &Path,
        arguments: &[String],
    ) -> anyhow::Result<Self> {
        let mut command = Self::serve(context, folder)?;
        command.args(arguments);
        Self::listening(command, folder)
    }

    /// Starts a server with a configuration file; creates the database if absent.
    pub(super) fn configured(
        context: &Context,
        folder: &Path,
        config: &Path,
    ) -> anyhow::Result<Self> {
        let mut command = Self::serve(context, folder)?;
        command.arg("--config").arg(config);
        Self::listening(command, folder)
    }

    fn serve(context: &Context, folder: &Path) -> anyhow::Result<Command> {
        let durability = context.globals.durability.name();
        let mut command = Self::command()?;
        command
            .arg("serve")
            .arg(folder)
            .arg("--create")
            .args(["--durability", durability])
            .args(["--memory", &context.globals.memory.to_string()]);
        Ok(command)
    }

    /// Starts a worker for the part of RDF data in a folder.
    pub(crate) fn worker(folder: &Path, threads: usize) -> anyhow::Result<Self> {
        let mut command = Self::command()?;
        command
            .args(["rdf", "worker"])
            .arg(folder)
            .args(["--threads", &threads.to_string()]);
        Self::listening(command, folder)
    }

    /// A command that runs this program.
    pub(crate) fn command() -> anyhow::Result<Command> {
        let program = esker_terminal::program::installed("esker")?;
        Ok(Command::new(program))
    }

    /// Starts a command that listens, on a free port, and waits until it does.
    fn listening(mut command: Command, folder: &Path) -> anyhow::Result<Self> {
        let port_file: PathBuf = folder.with_extension("port");
        let _ = std::fs::remove_file(&port_file);
        let process = command
            .args(["--quiet", "--listen", "127.0.0.1:0"])
            .arg("--port-file")
            .arg(&port_file)
            .stdin(Stdio::null())
            .spawn()
            .context("starting the server")?;
        let mut child = Self {
            process,
            address: String::new(),
            folder: folder.to_path_buf(),
        };
        let until = Instant::now() + PATIENCE;
        while child.address.is_empty() {
            if let Ok(text) = std::fs::read_to_string(&port_file) {
                text.trim().clone_into(&mut child.address);
                break;
            }
            if let Some(status) = child.process.try_wait()? {
                anyhow::bail!("the server ended at once: {status}");
            }
            anyhow::ensure!(Instant::now() < until, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(child)
    }

    pub(crate) fn target(&self) -> String {
        format!("esker://{}", self.address)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Processor time of the server, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        machine::seconds_of(&self.process.id().to_string())
    }

    /// Resident memory of the server.
    pub(crate) fn memory(&self) -> machine::Memory {
        machine::memory_of(&self.process.id().to_string())
    }

    /// Stops the server cleanly.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let id = self.process.id().to_string();
        Command::new("kill").arg(&id).status().context("kill")?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait()? {
                anyhow::ensure!(status.success(), "the server ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!("the server (process {id}) does not stop");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A stopped server is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
