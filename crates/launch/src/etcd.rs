//! An etcd of the cluster's own, if its file names none: one process on this machine that only its owner can use. Clients and etcd
//! authenticate by certificates in a private folder (`certificates`).

use crate::certificates::{create_missing, private_folder, write};
use crate::io_failure;
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

/// Maximum number of starts with new ports.
const ATTEMPTS_MAX: u32 = 3;
/// Minimum time between two starts of an etcd that keeps failing.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// An etcd that this process has started.
pub struct OwnedEtcd {
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
fn earlier_ports(folder: &Path) -> Option<[u16; 2]> {
    let text = std::fs::read_to_string(folder.join("ports")).ok()?;
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
        crate::stop(pid);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes the ports and the URL to files, for later starts and for members.
fn write_addresses(folder: &Path, [client, peer]: [u16; 2]) -> anyhow::Result<()> {
    for (name, text) in [
        ("ports", format!("{client} {peer}\n")),
        ("url", format!("https://127.0.0.1:{client}\n")),
    ] {
        let file = folder.join(name);
        write(&file, &text).map_err(|e| io_failure(format!("writing `{}`", file.display()), e))?;
    }
    Ok(())
}

impl OwnedEtcd {
    /// Starts etcd with the data of earlier runs.
    pub fn start(config: &ClusterConfig) -> anyhow::Result<Self> {
        let folder = config.etcd_folder();
        let program = program()?;
        private_folder(&folder)?;
        create_missing(&folder)?;
        end_orphan(&folder);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let earlier = earlier_ports(&folder);
            let ports = match earlier {
                Some(ports) => ports,
                None => [free_port()?, free_port()?],
            };
            write_addresses(&folder, ports)?;
            let mut etcd = Self {
                child: run(&program, &folder, ports)?,
                program: program.clone(),
                folder: folder.clone(),
                ports,
                since: Instant::now(),
            };
            etcd.write_pid()?;
            match etcd.wait() {
                Ok(()) => return Ok(etcd),
                // Another program may have taken a port since it was free; etcd ends before it stores anything.
                Err(_) if earlier.is_none() && attempts < ATTEMPTS_MAX => {
                    let ports = folder.join("ports");
                    std::fs::remove_file(&ports)
                        .map_err(|e| io_failure(format!("removing `{}`", ports.display()), e))?;
                }
                Err(error) => return Err(error),
            }
        }
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
        let log = self.folder.join("log");
        loop {
            let accepts = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[0])).is_ok();
            // Another program may accept connections at a port that etcd could not have.
            if let Ok(Some(status)) = self.child.try_wait() {
                anyhow::bail!(
                    "etcd ended before it was ready ({status}): see `{}`",
                    log.display()
                );
            }
            if accepts {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < until,
                "etcd is not ready after 30 s: see `{}`",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Restarts etcd if it has ended; returns whether it had.
    pub fn restart_ended(&mut self) -> anyhow::Result<bool> {
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
        crate::stop(self.child.id());
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
