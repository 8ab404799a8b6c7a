//! An etcd of the cluster's own, if its file names none: one process on this machine that only its owner can use. Clients and etcd
//! authenticate by certificates in a private folder (`certificates`).

use super::super::io_failure;
use super::certificates::{create_missing, private_folder, write};
use esker_server::ClusterConfig;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable with the path of the program, if that is not on `PATH`.
const PROGRAM: &str = "ESKER_ETCD";
/// Timeout of a start.
const START_MAX: Duration = Duration::from_secs(30);

/// Minimum time between two starts of an etcd that keeps failing.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// An etcd that this process has started.
pub(crate) struct OwnedEtcd {
    program: PathBuf,
    folder: PathBuf,
    ports: [u16; 2],
    child: Child,
    since: Instant,
}

fn program() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM) {
        let named = PathBuf::from(named);
        anyhow::ensure!(
            named.is_file(),
            "{PROGRAM} names `{}`, and there is no such file",
            named.display()
        );
        return Ok(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    all.find(|program| program.is_file()).ok_or_else(|| {
        anyhow::anyhow!(
            "the cluster's file names no etcd, and PATH has no etcd to start: install it (Debian: etcd-server), say where \
             it is with {PROGRAM}, or say where one runs with [etcd] endpoints = [\"http://HOST:2379\"]"
        )
    })
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(|e| io_failure("finding a free port", e))?;
    let address = listener
        .local_addr()
        .map_err(|e| io_failure("finding a free port", e))?;
    Ok(address.port())
}

/// Returns the ports of an earlier start.
fn earlier_ports(url: &Path) -> Option<[u16; 2]> {
    let text = std::fs::read_to_string(url.with_file_name("ports")).ok()?;
    let mut numbers = text.split_whitespace().map(|n| n.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// Stops an etcd whose `cluster up` was killed.
fn end_orphan(folder: &Path) {
    let pid = std::fs::read_to_string(folder.join("pid")).ok();
    let Some(pid) = pid.and_then(|p| p.trim().parse::<u32>().ok()) else {
        return;
    };
    let data = folder.join("data").into_os_string().into_encoded_bytes();
    let lives = || {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|word| word == data)
    };
    let until = Instant::now() + START_MAX;
    while lives() && Instant::now() < until {
        super::process::stop(pid);
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl OwnedEtcd {
    /// Starts etcd with the data of earlier runs.
    pub(crate) fn start(config: &ClusterConfig) -> anyhow::Result<Self> {
        let folder = config.etcd_folder();
        let program = program()?;
        let doing = || format!("making `{}`", folder.display());
        private_folder(&folder)?;
        create_missing(&folder)?;
        let url = folder.join("url");
        let ports = match earlier_ports(&url) {
            Some(ports) => ports,
            None => [free_port()?, free_port()?],
        };
        write(
            &folder.join("ports"),
            &format!("{} {}\n", ports[0], ports[1]),
        )
        .map_err(|e| io_failure(doing(), e))?;
        write(&url, &format!("https://127.0.0.1:{}\n", ports[0]))
            .map_err(|e| io_failure(doing(), e))?;
        end_orphan(&folder);
        let child = run(&program, &folder, ports)?;
        let mut own = Self {
            program,
            folder,
            ports,
            child,
            since: Instant::now(),
        };
        own.write_pid()?;
        own.wait()?;
        Ok(own)
    }

    /// Writes the process id to a file.
    fn write_pid(&self) -> anyhow::Result<()> {
        let file = self.folder.join("pid");
        // The write is atomic: readers find the old number or the new one.
        write(&file, &format!("{}\n", self.child.id()))
            .map_err(|e| io_failure(format!("writing `{}`", file.display()), e))
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[0])).is_err() {
            let log = self.folder.join("log");
            if let Ok(Some(status)) = self.child.try_wait() {
                anyhow::bail!(
                    "etcd ended before it was ready ({status}): see `{}`",
                    log.display()
                );
            }
            anyhow::ensure!(
                Instant::now() < until,
                "etcd is not ready after 30 s: see `{}`",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Restarts etcd if it has ended; returns whether it had.
    pub(crate) fn restart_ended(&mut self) -> anyhow::Result<bool> {
        if self.since.elapsed() < RESTART_INTERVAL || !matches!(self.child.try_wait(), Ok(Some(_)))
        {
            return Ok(false);
        }
        self.child = run(&self.program, &self.folder, self.ports)?;
        self.since = Instant::now();
        self.write_pid()?;
        Ok(true)
    }
}

impl Drop for OwnedEtcd {
    fn drop(&mut self) {
        super::process::stop(self.child.id());
        let _ = self.child.wait();
    }
}

fn run(program: &Path, folder: &Path, [client, peer]: [u16; 2]) -> anyhow::Result<Child> {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let at = |port: u16| format!("https://127.0.0.1:{port}");
    let of = |name: &str| folder.join(name);
    let log = folder.join("log");
    let open = || {
        let mut options = File::options();
        options.create(true).append(true).mode(0o600).open(&log)
    };
    let out = open().map_err(|e| io_failure(format!("opening `{}`", log.display()), e))?;
    let errors = out
        .try_clone()
        .map_err(|e| io_failure("opening a log", e))?;
    Command::new(program)
        .arg("--data-dir")
        .arg(folder.join("data"))
        // Clients and peers without a certificate of the folder are refused.
        .args(["--client-cert-auth", "--peer-client-cert-auth"])
        .arg("--cert-file")
        .arg(of("server.pem"))
        .arg("--key-file")
        .arg(of("server.key"))
        .arg("--trusted-ca-file")
        .arg(of("ca.pem"))
        .arg("--peer-cert-file")
        .arg(of("server.pem"))
        .arg("--peer-key-file")
        .arg(of("server.key"))
        .arg("--peer-trusted-ca-file")
        .arg(of("ca.pem"))
        // Earlier revisions of keys are never read.
        .args(["--auto-compaction-retention", "1"])
        .args([
            "--listen-client-urls",
            &at(client),
            "--advertise-client-urls",
            &at(client),
        ])
        .args([
            "--listen-peer-urls",
            &at(peer),
            "--initial-advertise-peer-urls",
            &at(peer),
        ])
        .args(["--initial-cluster", &format!("default={}", at(peer))])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|e| io_failure(format!("starting `{}`", program.display()), e))
}
