//! The servers, each with its own configuration and folder, stopped by process id.

use super::tree::Tree;
use crate::servers::patient;
use esker_origin::ftp::{Ftp, FtpSettings};
use esker_origin::{OriginUrl, Pool};
use esker_testkit::wait::{HANG, eventually};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

/// The server and its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Without MLST: `SIZE` and `MDTM`, or `STAT`.
    Vsftpd,
    /// vsftpd, asked for all attributes.
    VsftpdExact,
    /// vsftpd with TLS.
    VsftpdTls,
    /// vsftpd without `STAT`: listings over data channels, with TLS on both channels.
    VsftpdTlsData,
    /// ProFTPD: MLST, listings by `STAT`.
    Proftpd,
    /// ProFTPD without `STAT`: listings over data channels.
    ProftpdData,
    /// ProFTPD with its own account, `ann` with password `s3cret pass`.
    ProftpdLogin,
    /// ProFTPD with only `SIZE`, `MDTM`, `CWD`, `PASV` and `LIST`.
    ProftpdBare,
    /// globus-gridftp-server with MLSC.
    Globus,
    /// globus-gridftp-server that requires a certificate.
    GlobusGsi,
}

pub(super) struct Server {
    pub(super) kind: Kind,
    pub(super) tree: Tree,
    /// The folder of the server's own files.
    pub(super) dir: tempfile::TempDir,
    pub(super) port: u16,
    process: Child,
}

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let here = std::path::absolute(".").unwrap();
        let folder = std::env::var_os("ESKER_FTP_SERVERS_DIR").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| here.join("../../target/ftp-servers"));
        let fetched = Command::new(here.join("tests/fetch-ftp-servers.sh"))
            .arg(&folder)
            .status();
        assert!(
            fetched.is_ok_and(|status| status.success()),
            "no FTP servers: see crates/origin/tests/fetch-ftp-servers.sh"
        );
        folder.canonicalize().unwrap()
    })
}

/// These servers change their user, which requires root.
pub(super) fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"left out: FTP servers are only started by root\n",
        );
    }
    root
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    pub(super) fn start(kind: Kind) -> Self {
        // The free port may have been taken since.
        for _ in 0..3 {
            if let Some(server) = Self::try_start(kind) {
                return server;
            }
        }
        panic!("{kind:?} does not start");
    }

    fn try_start(kind: Kind) -> Option<Self> {
        let tree = Tree::new();
        let dir = tempfile::tempdir().unwrap();
        super::tree::chmod(dir.path(), 0o755);
        let port = free_port();
        let mut command = match kind {
            Kind::Vsftpd | Kind::VsftpdExact | Kind::VsftpdTls | Kind::VsftpdTlsData => {
                vsftpd(&tree, &dir, port, kind)
            }
            Kind::Proftpd | Kind::ProftpdData | Kind::ProftpdBare | Kind::ProftpdLogin => {
                proftpd(&tree, &dir, port, kind)
            }
            Kind::Globus => globus(&dir, port, false),
            Kind::GlobusGsi => globus(&dir, port, true),
        };
        let out = File::create(dir.path().join("out")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        let mut process = command.spawn().unwrap();
        let runs = eventually(|| {
            let connected = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if connected || process.try_wait().unwrap().is_some() {
                return Ok(connected);
            }
            Err(fs::read_to_string(dir.path().join("out")).unwrap_or_default())
        });
        if !runs {
            return None;
        }
        Some(Self {
            kind,
            tree,
            dir,
            port,
            process,
        })
    }

    pub(super) fn settings(&self) -> FtpSettings {
        FtpSettings {
            netrc: None,
            proxy: (self.kind == Kind::GlobusGsi).then(|| self.dir.path().join("proxy")),
            grid: Some(self.dir.path().join("certificates")),
            exact: self.kind == Kind::VsftpdExact,
            silence: HANG,
            trusted: matches!(self.kind, Kind::VsftpdTls | Kind::VsftpdTlsData)
                .then(|| self.dir.path().join("cert.pem")),
            ..FtpSettings::default()
        }
    }

    pub(super) fn origin_url(&self, port: u16) -> OriginUrl {
        let scheme = match self.kind {
            Kind::Globus | Kind::GlobusGsi => "gridftp",
            Kind::VsftpdTls | Kind::VsftpdTlsData => "ftps",
            _ => "ftp",
        };
        OriginUrl::parse(&format!("{scheme}://localhost:{port}/"))
            .unwrap()
            .0
    }

    pub(super) fn pool(&self, connections: usize, in_flight: usize) -> Pool {
        self.pool_at(self.port, connections, in_flight)
    }

    /// A pool that connects through a relay.
    pub(super) fn pool_at(&self, port: u16, connections: usize, in_flight: usize) -> Pool {
        let settings = FtpSettings {
            in_flight,
            ..self.settings()
        };
        let ftp = Ftp::new(self.origin_url(port), settings).unwrap();
        let settings = esker_origin::Settings {
            connections,
            in_flight,
            ..patient()
        };
        Pool::new(Arc::new(ftp), settings)
    }

    /// A path below the tree, as the server names it.
    pub(super) fn path(&self, below: &[u8]) -> Vec<u8> {
        let mut path = Vec::new();
        if matches!(self.kind, Kind::Globus | Kind::GlobusGsi) {
            path.extend_from_slice(self.tree.root().to_str().unwrap().as_bytes());
        }
        if !below.is_empty() {
            path.push(b'/');
            path.extend_from_slice(below);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    /// Sends a signal to the server and all its descendants.
    pub(super) fn signal(&self, signal: &str) {
        let mut all = vec![self.process.id()];
        let mut at = 0;
        while let Some(parent) = all.get(at) {
            let parent = *parent;
            all.extend(children(parent));
            at += 1;
        }
        let all = all.iter().map(u32::to_string);
        let _ = Command::new("kill")
            .arg(signal)
            .args(all)
            .stderr(Stdio::null())
            .status();
    }

    pub(super) fn kill(&mut self) {
        self.signal("-9");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ids of the child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The program name before it may contain spaces and parentheses.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let mut words = rest.split_whitespace().skip(1);
        if words.next().and_then(|p| p.parse().ok()) == Some(parent) {
            found.push(pid);
        }
    }
    found
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Path of a program from a package, and its library path.
fn program(package: &str, name: &str) -> (PathBuf, String) {
    let tree = folder().join(package);
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries = ["usr/lib", "lib"].map(|lib| tree.join(lib).join(&machine));
    let libraries = libraries
        .map(|lib| lib.to_str().unwrap().to_owned())
        .join(":");
    (tree.join("usr/sbin").join(name), libraries)
}

fn vsftpd(tree: &Tree, dir: &tempfile::TempDir, port: u16, kind: Kind) -> Command {
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("empty")).unwrap();
    let mut config = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\nanon_root={}\n\
         no_anon_password=YES\nftp_username=daemon\nsecure_chroot_dir={}\nseccomp_sandbox=NO\nxferlog_enable=YES\n\
         log_ftp_protocol=YES\nvsftpd_log_file={}\npasv_address=127.0.0.1\n",
        tree.root().display(),
        at("empty"),
        at("log"),
    );
    if kind == Kind::VsftpdTlsData {
        config += "cmds_denied=STAT\n";
    }
    if matches!(kind, Kind::VsftpdTls | Kind::VsftpdTlsData) {
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            ])
            .args([
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &at("key.pem"), "-out", &at("cert.pem")])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let more = format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\nssl_tlsv1=YES\n\
             rsa_cert_file={}\nrsa_private_key_file={}\nssl_ciphers=HIGH\n",
            at("cert.pem"),
            at("key.pem")
        );
        config += &more;
    }
    fs::write(at("config"), config).unwrap();
    let (program, libraries) = program("vsftpd", "vsftpd");
    let mut command = Command::new(program);
    command.arg(at("config")).env("LD_LIBRARY_PATH", libraries);
    command
}

fn proftpd(tree: &Tree, dir: &tempfile::TempDir, port: u16, kind: Kind) -> Command {
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (program, libraries) = program("proftpd-core", "proftpd");
    let modules = program.parent().unwrap().join("../lib/proftpd");
    let limits = match kind {
        Kind::ProftpdData => "<Limit STAT>\nDenyAll\n</Limit>\n",
        Kind::ProftpdBare => "<Limit STAT MLST MLSD EPSV>\nDenyAll\n</Limit>\n",
        _ => "",
    };
    let advertised = match kind {
        Kind::ProftpdBare => "FactsAdvertise off\n",
        _ => "",
    };
    let anonymous = format!(
        "AuthOrder mod_auth_unix.c\n<Anonymous {}>\nUser nobody\nGroup nogroup\nUserAlias anonymous nobody\nRequireValidShell off\n\
         {limits}</Anonymous>\n",
        tree.root().display()
    );
    let accounts = format!(
        "AuthOrder mod_auth_file.c\nAuthUserFile {}\nDefaultRoot {}\n",
        at("users"),
        tree.root().display()
    );
    if kind == Kind::ProftpdLogin {
        let hash = Command::new("openssl")
            .args(["passwd", "-6", "s3cret pass"])
            .output()
            .unwrap();
        let hash = String::from_utf8(hash.stdout).unwrap();
        let home = tree.root().display();
        let user = format!("ann:{}:65534:65534::{home}:/bin/false\n", hash.trim());
        fs::write(at("users"), user).unwrap();
        super::tree::chmod(&dir.path().join("users"), 0o600);
    }
    let who = match kind {
        Kind::ProftpdLogin => accounts,
        _ => anonymous,
    };
    let config = format!(
        "ServerType standalone\nServerName test\nDefaultAddress 127.0.0.1\nPort {port}\nUseIPv6 off\nUser nobody\nGroup nogroup\n\
         ModulePath {}\nWtmpLog off\nSystemLog {}\nScoreboardFile {}\nPidFile {}\nDelayEngine off\nRequireValidShell off\n\
         UseReverseDNS off\nMaxInstances 100\n{advertised}FactsOptions UseSlink\n{who}",
        modules.display(),
        at("log"),
        at("score"),
        at("pid"),
    );
    fs::write(at("config"), config).unwrap();
    let mut command = Command::new(program);
    command
        .args(["-n", "-c", &at("config")])
        .env("LD_LIBRARY_PATH", libraries);
    command
}

fn globus(dir: &tempfile::TempDir, port: u16, gsi: bool) -> Command {
    let (program, libraries) = program("globus-gridftp-server-progs", "globus-gridftp-server");
    let log = dir.path().join("log");
    let mut command = Command::new(&program);
    command
        .args(["-p", &port.to_string(), "-control-interface", "127.0.0.1"])
        .args(["-log-level", "ALL", "-l", log.to_str().unwrap()])
        // The server executes itself again for each connection.
        .args(["-exec", program.to_str().unwrap()])
        .env("LD_LIBRARY_PATH", libraries);
    if gsi {
        authority(dir);
        let at = |name: &str| dir.path().join(name);
        command
            .env("X509_USER_CERT", at("host.pem"))
            .env("X509_USER_KEY", at("host.key"))
            .env("X509_CERT_DIR", at("certificates"))
            .env("GRIDMAP", at("gridmap"));
    } else {
        command.args(["-aa", "-anonymous-user", "nobody", "-home-dir", "/"]);
    }
    command
}

/// Creates a certificate authority, certificates for the server and for Ann, and a proxy certificate signed by Ann.
pub(super) fn authority(dir: &tempfile::TempDir) {
    const SCRIPT: &str = r#"
        set -eu
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/O=Grid/CN=Test CA" -addext basicConstraints=critical,CA:TRUE \
            -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem
        sign() { # name, subject, signer, extensions
            openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr"
            echo "$4" > "$1.ext"
            openssl x509 -req -in "$1.csr" -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -days 1 -extfile "$1.ext" -out "$1.pem"
            chmod 600 "$1.key"
        }
        usage=keyUsage=critical,digitalSignature,keyEncipherment
        sign host "/O=Grid/CN=host\/localhost" ca subjectAltName=DNS:localhost
        sign user /O=Grid/CN=Ann ca "$usage"
        sign session /O=Grid/CN=Ann/CN=4711 user "proxyCertInfo=critical,language:id-ppl-inheritAll
$usage"
        umask 077
        cat session.pem session.key user.pem > proxy
        umask 022
        mkdir certificates
        hash=$(openssl x509 -in ca.pem -noout -hash)
        cp ca.pem "certificates/$hash.0"
        cat > "certificates/$hash.signing_policy" <<END
access_id_CA X509 '/O=Grid/CN=Test CA'
pos_rights globus CA:sign
cond_subjects globus '"/O=Grid/*"'
END
        echo '"/O=Grid/CN=Ann" daemon' > gridmap
    "#;
    let made = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}
