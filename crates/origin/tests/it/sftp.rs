//! OpenSSH's server, with its own keys and configuration.

use crate::battery::{Lacks, NO_TEXT, ODD, Site, Tree, chmod};
use crate::servers::{free_port, patient, wait_for};
use esker_origin::sftp::Sftp;
use esker_origin::{Error, MetadataRequest, OriginUrl, PathMetadata, Pool, Settings};
use esker_testkit::signal;
use esker_testkit::wait::{HANG, ends};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A running server, stopped on drop.
struct Sshd {
    dir: tempfile::TempDir,
    process: Child,
    port: u16,
    user: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap().trim().into()
}

impl Sshd {
    /// Starts a server with a subsystem, as the user who runs the tests; if that is root, which is denied nothing, as
    /// another user.
    fn start(subsystem: &str, lowly: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755);
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for key in ["host_key", "user_key", "stranger_key"] {
            run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]));
        }
        fs::copy(at("user_key.pub"), at("authorized_keys")).unwrap();
        let port = free_port();
        let host_key = fs::read_to_string(at("host_key.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let user = if root && lowly {
            "nobody".to_owned()
        } else {
            run(Command::new("id").arg("-un"))
        };
        if root {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nAuthorizedKeysFile {}\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\nUseDNS no\nSubsystem sftp {}\n",
            at("host_key"),
            at("authorized_keys"),
            subsystem.replace("DIR", dir.path().to_str().unwrap()),
        );
        fs::write(at("sshd_config"), config).unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-E", &at("log"), "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .spawn()
            .expect("sshd is there: `make setup` installs it");
        let sshd = Self {
            dir,
            process,
            port,
            user,
        };
        wait_for(port);
        sshd
    }

    fn program(&self, key: &str, known: &str) -> Vec<OsString> {
        let dir = self.dir.path();
        let option = |name: &str, value: PathBuf| {
            let mut option = OsString::from(format!("-o{name}="));
            option.push(value);
            option
        };
        vec![
            "ssh".into(),
            "-F".into(),
            "none".into(),
            "-oIdentitiesOnly=yes".into(),
            "-oGlobalKnownHostsFile=none".into(),
            option("IdentityFile", dir.join(key)),
            option("UserKnownHostsFile", dir.join(known)),
        ]
    }

    /// Sends a signal to all running relays.
    fn signal(&self, name: &str) {
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(pid) = file.strip_prefix("pid.") {
                let pid = pid.parse().unwrap();
                // An ended process needs no signal.
                if signal::exists(pid) {
                    signal::signal(pid, name);
                }
            }
        }
    }

    fn origin_url(&self) -> OriginUrl {
        let url = format!("sftp://{}@127.0.0.1:{}/", self.user, self.port);
        OriginUrl::parse(&url).unwrap().0
    }

    fn pool_with(&self, program: Vec<OsString>, settings: Settings) -> Pool {
        let sftp = Sftp::new(self.origin_url()).unwrap().with_program(program);
        Pool::new(Arc::new(sftp.with_silence(HANG)), settings)
    }

    fn pool(&self, settings: Settings) -> Pool {
        self.pool_with(self.program("user_key", "known_hosts"), settings)
    }
}

fn site(pool: Pool, tree: &Tree) -> Site {
    Site {
        pool,
        root: tree.root().into(),
        prefix: tree.root().to_str().unwrap().into(),
        lacks: &[Lacks::Nanoseconds],
    }
}

fn relayed() -> String {
    let relay = std::path::absolute("tests/it/relay.py").unwrap();
    let relay = relay.display();
    format!("/usr/bin/env python3 {relay} DIR /usr/lib/openssh/sftp-server")
}

fn one() -> Settings {
    Settings {
        connections: 1,
        ..patient()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssh_answers_as_the_file_system_does() {
    let sshd = Sshd::start("internal-sftp", true);
    let names: Vec<&[u8]> = ODD.iter().chain(&NO_TEXT).copied().collect();
    let tree = Tree::new(&names);
    let site = site(sshd.pool(patient()), &tree);
    site.all(5_000).await;
    for path in [&b"secret/inner"[..], b"secret/nothing"] {
        let error = site.stat(path).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
    }
    let error = site.list(b"secret").await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let long = site.stat(&[b'x'; 300]).await.unwrap_err();
    assert!(!long.is_transient(), "{long}");
    let report = site.pool.report();
    assert_eq!((report.retries, report.connections <= 4), (0, true));
    assert!(
        report.about.contains("posix-rename@openssh.com"),
        "{}",
        report.about
    );
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_sent_ahead_of_answers() {
    let sshd = Sshd::start(&relayed(), false);
    let tree = Tree::new(&[]);
    let site = site(sshd.pool(one()), &tree);
    fs::write(sshd.dir.path().join("hold"), "32").unwrap();
    site.many(200).await;
    let before = fs::read_to_string(sshd.dir.path().join("before")).unwrap();
    let before: usize = before.parse().unwrap();
    assert!(
        (32..=64).contains(&before),
        "{before} questions before the first answer"
    );
    assert_eq!(site.pool.report().asked, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_in_mid_pipeline_is_asked_again() {
    let sshd = Sshd::start(&relayed(), false);
    let tree = Tree::new(&[]);
    let site = site(sshd.pool(one()), &tree);
    fs::write(sshd.dir.path().join("die"), "").unwrap();
    site.many(100).await;
    assert!(!sshd.dir.path().join("die").exists());
    let report = site.pool.report();
    assert!(report.retries > 0 && report.failed == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_not_waited_for() {
    let sshd = Sshd::start(&relayed(), false);
    let tree = Tree::new(&[]);
    let site = site(sshd.pool(one()), &tree);
    site.stat(b"file").await.unwrap();
    let mut sshd = sshd;
    sshd.process.kill().unwrap();
    sshd.signal("KILL");
    // The error must not be a timeout.
    let error = ends(site.stat(b"file")).await.unwrap_err();
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

/// A hanging server, as with an unreachable file system, is detected, and the request is retried on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_asked_again_elsewhere() {
    let sshd = Sshd::start(&relayed(), false);
    let tree = Tree::new(&[]);
    let sftp = Sftp::new(sshd.origin_url()).unwrap();
    let sftp = sftp.with_program(sshd.program("user_key", "known_hosts"));
    let sftp = sftp.with_silence(Duration::from_secs(5));
    // On a machine so slow that the next connection times out as well, there is yet another one.
    let settings = Settings { tries: 50, ..one() };
    let site = site(Pool::new(Arc::new(sftp), settings), &tree);
    site.stat(b"file").await.unwrap();
    sshd.signal("STOP");
    ends(site.many(50)).await;
    sshd.signal("KILL");
    let report = site.pool.report();
    assert!(report.retries > 0 && report.failed == 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_user_gets_advice() {
    let sshd = Sshd::start("internal-sftp", true);
    let request = async |program: Vec<OsString>| {
        let pool = sshd.pool_with(program, one());
        pool.request(MetadataRequest::stat(b"/")).await
    };
    let error = request(sshd.program("stranger_key", "known_hosts"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Denied { .. }));
    assert!(
        error.to_string().contains("load a key into your agent"),
        "{error}"
    );
    let error = request(sshd.program("user_key", "nobody_knows"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Denied { .. }));
    assert!(
        error.to_string().contains("compare the key's fingerprint"),
        "{error}"
    );
    // There was no prompt, and nothing was written.
    assert!(!sshd.dir.path().join("nobody_knows").exists());
    let error = request(vec!["no-such-ssh".into()]).await.unwrap_err();
    assert!(
        error.to_string().contains("install OpenSSH's client"),
        "{error}"
    );
    let other = Sshd::start("internal-sftp", true);
    // Another server at a known server's address.
    let known = fs::read_to_string(sshd.dir.path().join("known_hosts")).unwrap();
    let known = known.replace(&sshd.port.to_string(), &other.port.to_string());
    fs::write(other.dir.path().join("known_hosts"), known).unwrap();
    let error = other
        .pool(one())
        .request(MetadataRequest::stat(b"/"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_sftp_is_said() {
    let sshd = Sshd::start("/bin/false", false);
    let config = sshd.dir.path().join("sshd_config");
    assert!(Path::new(&config).exists());
    let error = sshd
        .pool(one())
        .request(MetadataRequest::stat(b"/"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

/// Requests per second over one loopback connection: `cargo test -p esker-origin -- --ignored --nocapture speed`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "what it is for")]
async fn speed() {
    let sshd = Sshd::start("internal-sftp", true);
    let tree = Tree::new(&[]);
    for in_flight in [1, 64] {
        let settings = Settings { in_flight, ..one() };
        let pool = sshd.pool(settings);
        let path = tree
            .root()
            .join("file")
            .to_str()
            .unwrap()
            .as_bytes()
            .to_vec();
        let found = pool.request(MetadataRequest::stat(&path)).await.unwrap();
        assert!(matches!(found, PathMetadata::Present(_)));
        let began = Instant::now();
        let count = 20_000;
        let tasks = (0..in_flight).map(|_| {
            let (pool, path) = (pool.clone(), path.clone());
            tokio::spawn(async move {
                for _ in 0..count / in_flight {
                    pool.request(MetadataRequest::stat(&path)).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let rate = f64::from(count as u32) / began.elapsed().as_secs_f64();
        eprintln!("{in_flight} in flight: {rate:.0} stats/s");
    }
}
