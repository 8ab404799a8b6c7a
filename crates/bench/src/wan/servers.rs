//! Real servers in the remote namespace, each with its own configuration and the same folder of files.

use anyhow::{Context as _, bail};
use esker_origin::ftp::{self, Ftp};
use esker_origin::sftp::Sftp;
use esker_origin::{Connect, OriginUrl};
use esker_wan::Wan;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files per directory.
const FILES_PER_DIRECTORY: u32 = 1000;

/// Files to be requested, in directories of a thousand.
pub(crate) struct ServedFiles {
    folder: PathBuf,
    count: u32,
}

impl ServedFiles {
    /// Creates the files, empty.
    pub(crate) fn make(folder: PathBuf, count: u32) -> anyhow::Result<Self> {
        let files = Self { folder, count };
        for number in 0..count {
            let path = files.folder.join(name(number));
            if number % FILES_PER_DIRECTORY == 0 {
                let above = path.parent().unwrap_or(&files.folder);
                fs::create_dir_all(above)?;
                fs::set_permissions(above, Permissions::from_mode(0o755))?;
            }
            File::create(&path).with_context(|| format!("making {}", path.display()))?;
        }
        fs::set_permissions(&files.folder, Permissions::from_mode(0o755))?;
        Ok(files)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// The path of a file, such as `d002/f002017`.
fn name(number: u32) -> String {
    format!("d{:03}/f{number:06}", number / FILES_PER_DIRECTORY)
}

/// The servers that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Sshd,
    Vsftpd,
    Proftpd,
    Globus,
}

impl ServerKind {
    pub(crate) const ALL: [Self; 4] = [Self::Sshd, Self::Vsftpd, Self::Proftpd, Self::Globus];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sshd => "sshd",
            Self::Vsftpd => "vsftpd",
            Self::Proftpd => "proftpd",
            Self::Globus => "globus",
        }
    }

    /// Debian package and program of the server.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Sshd => ("openssh-server", "sshd"),
            Self::Vsftpd => ("vsftpd", "vsftpd"),
            Self::Proftpd => ("proftpd-core", "proftpd"),
            Self::Globus => ("globus-gridftp-server-progs", "globus-gridftp-server"),
        }
    }

    /// Path of the program and of the libraries from its package: in `unpacked/PACKAGE`, else as installed.
    fn find(self, unpacked: Option<&Path>) -> Option<(PathBuf, OsString)> {
        let (package, program) = self.package();
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let trees = unpacked.map(|u| u.join(package));
        for tree in trees.into_iter().chain([PathBuf::from("/")]) {
            let path = tree.join("usr/sbin").join(program);
            if path.exists() {
                let libraries = ["usr/lib", "lib"].map(|l| tree.join(l).join(&machine));
                let own = if tree == Path::new("/") {
                    OsString::new()
                } else {
                    std::env::join_paths(libraries).unwrap_or_default()
                };
                return Some((path, own));
            }
        }
        None
    }

    /// Whether the program is installed.
    pub(crate) fn is_there(self, unpacked: Option<&Path>) -> bool {
        self.find(unpacked).is_some()
    }
}

/// A running server, stopped on drop.
pub(crate) struct Server {
    pub(crate) kind: ServerKind,
    pub(crate) place: OriginUrl,
    /// Prefix of all its paths.
    prefix: String,
    connect: Arc<dyn Connect>,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its descendants end with the namespace.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Server {
    /// Starts a server on the remote side. `scratch` is for its own files.
    pub(crate) fn start(
        kind: ServerKind,
        wan: &Wan,
        files: &ServedFiles,
        scratch: &Path,
        unpacked: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let (package, _) = kind.package();
        let found = kind.find(unpacked);
        let (program, libraries) = found.with_context(|| format!("{package} is not installed"))?;
        let dir = scratch.join(kind.name());
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
        let plan = Plan {
            program,
            at: wan.far_address().to_string(),
            root: files.folder.display().to_string(),
            dir,
        };
        let (arguments, port) = match kind {
            ServerKind::Sshd => (plan.sshd()?, 22),
            ServerKind::Vsftpd => (plan.vsftpd()?, 21),
            ServerKind::Proftpd => (plan.proftpd()?, 21),
            ServerKind::Globus => (plan.globus(), 2811),
        };
        let out = File::create(plan.dir.join("out"))?;
        let mut command = wan.command(&plan.program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let mut process = command.spawn()?;
        let began = Instant::now();
        while TcpStream::connect((wan.far_address(), port)).is_err() {
            let ended = process.try_wait()?.is_some();
            if ended || began.elapsed() > Duration::from_secs(20) {
                drop(process.kill());
                drop(process.wait());
                let said = fs::read_to_string(plan.dir.join("out")).unwrap_or_default();
                bail!("{} does not start: {}", kind.name(), said.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let at = &plan.at;
        let (url, prefix) = match kind {
            ServerKind::Sshd => (format!("sftp://root@{at}/"), &*plan.root),
            ServerKind::Vsftpd | ServerKind::Proftpd => (format!("ftp://{at}/"), ""),
            ServerKind::Globus => (format!("gridftp://{at}/"), &*plan.root),
        };
        let (place, _) = OriginUrl::parse(&url)?;
        let connect: Arc<dyn Connect> = if kind == ServerKind::Sshd {
            Arc::new(Sftp::new(place.clone())?.with_program(plan.ssh()))
        } else {
            let settings = ftp::FtpSettings {
                netrc: None,
                proxy: None,
                ..ftp::FtpSettings::default()
            };
            Arc::new(Ftp::new(place.clone(), settings)?)
        };
        Ok(Self {
            kind,
            prefix: prefix.to_owned(),
            place,
            connect,
            process,
        })
    }

    /// The connector to the server.
    pub(crate) fn connect(&self) -> Arc<dyn Connect> {
        self.connect.clone()
    }

    /// A file's path as the server knows it.
    pub(crate) fn path(&self, number: u32) -> Vec<u8> {
        format!("{}/{}", self.prefix, name(number)).into_bytes()
    }
}

/// Program, address and folders of a server.
struct Plan {
    program: PathBuf,
    at: String,
    root: String,
    dir: PathBuf,
}

impl Plan {
    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn sshd(&self) -> anyhow::Result<Vec<String>> {
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &self.file(key)])
                .output()
                .context("starting ssh-keygen")?;
            let said = String::from_utf8_lossy(&made.stderr);
            anyhow::ensure!(made.status.success(), "ssh-keygen: {said}");
        }
        fs::copy(self.file("user_key.pub"), self.file("authorized_keys"))?;
        let host_key = fs::read_to_string(self.file("host_key.pub"))?;
        fs::write(self.file("known_hosts"), format!("{} {host_key}", self.at))?;
        // sshd requires this folder.
        fs::create_dir_all("/run/sshd")?;
        let config = format!(
            "Port 22\nListenAddress {}\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nAuthorizedKeysFile {}\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 1000\nUseDNS no\nSubsystem sftp internal-sftp\n",
            self.at,
            self.file("host_key"),
            self.file("authorized_keys"),
        );
        fs::write(self.file("config"), config)?;
        Ok(vec![
            "-D".into(),
            "-e".into(),
            "-f".into(),
            self.file("config"),
        ])
    }

    /// An `ssh` command with its own keys.
    fn ssh(&self) -> Vec<OsString> {
        let words = [
            "ssh".to_owned(),
            "-F".to_owned(),
            "none".to_owned(),
            "-oIdentitiesOnly=yes".to_owned(),
            "-oGlobalKnownHostsFile=none".to_owned(),
            format!("-oIdentityFile={}", self.file("user_key")),
            format!("-oUserKnownHostsFile={}", self.file("known_hosts")),
        ];
        words.map(OsString::from).to_vec()
    }

    fn vsftpd(&self) -> anyhow::Result<Vec<String>> {
        fs::create_dir_all(self.file("empty"))?;
        let config = format!(
            "listen=YES\nlisten_address={}\nlisten_port=21\nbackground=NO\nanonymous_enable=YES\nanon_root={}\nno_anon_password=YES\n\
             ftp_username=daemon\nsecure_chroot_dir={}\nseccomp_sandbox=NO\nxferlog_enable=NO\nmax_clients=0\nmax_per_ip=0\n",
            self.at,
            self.root,
            self.file("empty"),
        );
        fs::write(self.file("config"), config)?;
        Ok(vec![self.file("config")])
    }

    fn proftpd(&self) -> anyhow::Result<Vec<String>> {
        let modules = self.program.with_file_name("../lib/proftpd");
        let config = format!(
            "ServerType standalone\nServerName bench\nDefaultAddress {}\nPort 21\nUseIPv6 off\nUser nobody\nGroup nogroup\nModulePath {}\n\
             WtmpLog off\nTransferLog none\nSystemLog none\nScoreboardFile {}\nPidFile {}\nDelayEngine off\nRequireValidShell off\n\
             UseReverseDNS off\nMaxInstances 1000\nFactsOptions UseSlink\nAuthOrder mod_auth_unix.c\n\
             <Anonymous {}>\nUser nobody\nGroup nogroup\nUserAlias anonymous nobody\nRequireValidShell off\n</Anonymous>\n",
            self.at,
            modules.display(),
            self.file("score"),
            self.file("pid"),
            self.root,
        );
        fs::write(self.file("config"), config)?;
        Ok(["-n", "-c", &self.file("config")]
            .map(str::to_owned)
            .to_vec())
    }

    fn globus(&self) -> Vec<String> {
        // The server executes itself again for each connection.
        let program = self.program.display().to_string();
        [
            "-p",
            "2811",
            "-control-interface",
            &self.at,
            "-exec",
            &program,
        ]
        .into_iter()
        .chain(["-aa", "-anonymous-user", "nobody", "-home-dir", "/"])
        .map(str::to_owned)
        .collect()
    }
}
