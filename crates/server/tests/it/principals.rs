//! Users with login names: by their processes, by certificates, by Munge, by keys and tokens that are bound to a name. The clients are
//! processes of user `daemon`, which each machine has; so these tests need root.

use crate::access::{SingleConnection, outside};
use crate::common::{http_by_token, settings};
use esker::OpenOptions;
use esker_access::token::TokenRights;
use esker_access::{HostKey, Role, grants, known_hosts, munge, tls};
use esker_model::GraphRead as _;
use esker_rpc::proto;
use esker_rpc::proto::access_client::AccessClient;
use esker_server::settings::{AccessSettings, Loopback};
use esker_server::{Server, Settings};
use esker_testkit::wait::wait_until;
use serde_json::Value as Json;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

/// The user `daemon` of each Linux machine.
const DAEMON: u32 = 1;

/// Whether this process may start processes of other users; prints a message if not.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can start processes of other users");
    }
    root
}

/// Whether a program is installed; prints a message if not.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: `{program}` is not installed");
    }
    there
}

/// A server, and a home of the user `daemon`.
struct Centre {
    server: Server,
    folder: PathBuf,
    home: PathBuf,
    dir: tempfile::TempDir,
}

fn start(listen: &str, access: AccessSettings) -> Centre {
    let dir = tempfile::tempdir().unwrap();
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let folder = dir.path().join("lab.esker");
    let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
    let database = options.open(folder.to_str().unwrap()).unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::create_dir_all(home.join(".esker")).unwrap();
    for path in [&home, &home.join(".ssh"), &home.join(".esker")] {
        chown(path, Some(DAEMON), Some(DAEMON)).unwrap();
    }
    // The program of this test, where that user can start it.
    std::fs::copy(std::env::current_exe().unwrap(), dir.path().join("client")).unwrap();
    let server = Server::start(
        database,
        Settings {
            listen: listen.to_owned(),
            access,
            ..settings()
        },
    );
    Centre {
        server: server.unwrap(),
        folder,
        home,
        dir,
    }
}

/// Opens a server as the client that the environment describes; run by [`Centre::client`].
#[test]
#[ignore = "the other tests run it as another user"]
#[expect(
    clippy::print_stdout,
    reason = "the output is the result of the process"
)]
fn a_client() {
    let target = std::env::var("CLIENT_TARGET").unwrap();
    match OpenOptions::new().open(&target) {
        Ok(database) => println!("opened: {:?}", database.counts().map(|c| c.vertices)),
        Err(e) => println!("refused: {e}"),
    }
}

impl Centre {
    fn as_daemon(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .uid(DAEMON)
            .gid(DAEMON);
        command
    }

    /// Returns the answer to a `GET` of a path by a process of that user.
    fn get(&self, path: &str) -> Json {
        let url = format!("http://{}{path}", self.server.address());
        let got = self.as_daemon("curl").args(["-s", &url]).output().unwrap();
        serde_json::from_slice(&got.stdout).unwrap_or_else(|e| panic!("{path}: {e}: {got:?}"))
    }

    /// Opens the server with options in the address, by a process of that user.
    fn client(&self, options: &str, environment: &[(&str, &Path)]) -> String {
        let known = self.home.join(".esker/known_hosts");
        let target = format!(
            "esker://{}?timeout=20s&known-hosts={}{options}",
            self.server.address(),
            known.display()
        );
        let public = HostKey::read(&self.folder.join("host_key"))
            .unwrap()
            .unwrap();
        let address = self.server.address();
        let listed = known_hosts::KnownHosts::in_files(vec![known.clone()]);
        let key = public.public().key_data();
        listed
            .accept(&address.ip().to_string(), address.port(), key, true)
            .unwrap();
        std::fs::set_permissions(&known, PermissionsExt::from_mode(0o644)).unwrap();
        let run = self
            .as_daemon(self.dir.path().join("client"))
            .args([
                "--ignored",
                "--exact",
                "principals::a_client",
                "--nocapture",
            ])
            .env("CLIENT_TARGET", target)
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let said = text.lines().find_map(|line| {
            let at = line.find("opened: ").or_else(|| line.find("refused: "))?;
            line.get(at..)
        });
        said.unwrap_or_else(|| panic!("{run:?}")).to_owned()
    }

    fn write_grants(&self, text: &str) {
        let path = self.folder.join("authorized_keys");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }
}

fn roles(lines: &[(&str, &str)]) -> AccessSettings {
    let mut access = AccessSettings::default();
    for (who, role) in lines {
        access.roles.add(who, role).unwrap();
    }
    access
}

#[test]
fn other_users_of_the_machine_need_no_key_if_the_server_says_so() {
    if !is_root() || !has("curl") {
        return;
    }
    let off = start("127.0.0.1:0", AccessSettings::default());
    let refused = off.get("/api/v1/session");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("user 1 does not own")
    );
    let local = AccessSettings {
        local: true,
        ..AccessSettings::default()
    };
    let centre = start("127.0.0.1:0", local.clone());
    let about = centre.get("/api/v1/session");
    let facts = (&about["how"], &about["name"], &about["role"]);
    assert_eq!(
        facts,
        (&"local".into(), &"daemon".into(), &"read".into()),
        "{about}"
    );
    assert!(
        about["user"].as_str().unwrap().starts_with("1:1"),
        "{about}"
    );
    // The user reads as itself only, and changes nothing.
    let other = centre.get("/api/v1/find?uid=1002");
    assert!(
        other["error"].as_str().unwrap().contains("bound to user 1"),
        "{other}"
    );
    assert!(centre.get("/api/v1/stats?uid=1")["error"].is_null());
    // A client without any key.
    let opened = centre.client("", &[]);
    assert!(opened.starts_with("opened: Ok"), "{opened}");
    // Forwarded requests are not the user's.
    let url = format!("http://{}/api/v1/session", centre.server.address());
    let via = ["-s", "-H", "Via: 1.1 proxy", &url];
    let forwarded = centre.as_daemon("curl").args(via).output().unwrap();
    let forwarded = String::from_utf8_lossy(&forwarded.stdout).into_owned();
    assert!(
        forwarded.contains("passed on by another program"),
        "{forwarded}"
    );
    drop(centre);
    // A proxy of the machine connects for others.
    let by_socket = AccessSettings {
        loopback: Loopback::Socket,
        ..local.clone()
    };
    let refused = start("127.0.0.1:0", by_socket).get("/api/v1/session");
    assert!(refused["error"].is_string(), "{refused}");
    for (listed, role) in [("daemon", "admin"), ("@daemon", "admin"), ("*", "read")] {
        let access = AccessSettings {
            local: true,
            ..roles(&[(listed, role)])
        };
        let about = start("127.0.0.1:0", access).get("/api/v1/session");
        assert_eq!(about["role"], role, "{about}");
        assert_eq!(about["user"].is_null(), role == "admin", "{about}");
    }
    let access = AccessSettings {
        local: true,
        ..roles(&[("bin", "read")])
    };
    let refused = start("127.0.0.1:0", access).get("/api/v1/session");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("has no role here"),
        "{refused}"
    );
    let access = AccessSettings {
        local: true,
        impersonate: vec!["@daemon".parse().unwrap()],
        ..AccessSettings::default()
    };
    let portal = start("127.0.0.1:0", access);
    assert!(portal.get("/api/v1/find?uid=1002&gids=7")["error"].is_null());
    let root = portal.get("/api/v1/find?uid=0");
    assert!(
        root["error"].as_str().unwrap().contains("bound to user 1"),
        "{root}"
    );
}

#[test]
fn a_local_user_begins_a_session_that_is_bound_to_it() {
    if !is_root() || !has("curl") {
        return;
    }
    let access = AccessSettings {
        local: true,
        ..AccessSettings::default()
    };
    let centre = start("127.0.0.1:0", access);
    let root = format!("http://{}/api/v1/session", centre.server.address());
    let post = |url: &str, body: &str| -> Output {
        let arguments = [
            "-s",
            "-i",
            "-X",
            "POST",
            "-H",
            "content-type: application/json",
        ];
        let mut curl = centre.as_daemon("curl");
        curl.args(arguments)
            .args(["-d", body, url])
            .output()
            .unwrap()
    };
    let made = String::from_utf8(post(&format!("{root}/ticket"), "").stdout).unwrap();
    let made: Json = serde_json::from_str(made.rsplit("\r\n").next().unwrap()).unwrap();
    let body = serde_json::json!({ "ticket": made["ticket"] }).to_string();
    let began = String::from_utf8(post(&root, &body).stdout).unwrap();
    assert!(began.contains("esker_session="), "{began}");
    assert!(began.contains("\"name\":\"daemon\""), "{began}");
    let cookie = began.split("set-cookie: ").nth(1).unwrap();
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    let get = ["-s", "-H", &cookie, &root];
    let about = centre.as_daemon("curl").args(get).output().unwrap();
    let about: Json = serde_json::from_slice(&about.stdout).unwrap();
    assert_eq!(
        (&about["how"], &about["name"]),
        (&"session".into(), &"daemon".into()),
        "{about}"
    );
}

#[test]
fn a_token_is_bound_to_a_login_name() {
    let centre = start("127.0.0.1:0", AccessSettings::default());
    let of = |login: &str| {
        let opens = TokenRights::new(Role::Read, Some(login)).unwrap();
        let token = grants::make_token(&centre.folder, &opens, 3_600, "t").unwrap();
        let mut got = (0, String::new());
        // A new token counts within a second.
        wait_until("the token is not known", || {
            let request = ("GET", "/api/v1/session", "");
            let (status, _, body) = http_by_token(centre.server.address(), request, &token);
            got = (status, body);
            !got.1.contains("it has no rights here")
        });
        got
    };
    let (status, about) = of("daemon");
    assert_eq!(status, 200, "{about}");
    let about: Json = serde_json::from_str(&about).unwrap();
    assert_eq!(
        (&about["how"], &about["name"]),
        (&"token".into(), &"daemon".into()),
        "{about}"
    );
    for unknown in ["no-such-user-7", "root"] {
        let (status, refused) = of(unknown);
        assert_eq!(status, 401, "{refused}");
        let expected = format!("its user `{unknown}` is unknown");
        assert!(refused.contains(&expected), "{refused}");
    }
}

fn keygen(arguments: &[&str]) {
    let made = Command::new("ssh-keygen")
        .arg("-q")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn keys_and_certificates_open_a_server_as_their_user() {
    let Some(listen) = outside() else { return };
    if !is_root() || Command::new("ssh-keygen").arg("-?").output().is_err() {
        return;
    }
    let centre = start(&format!("{listen}:0"), AccessSettings::default());
    let key = centre.home.join(".ssh/id_ed25519");
    let key_text = key.to_str().unwrap();
    let authority = centre.dir.path().join("ca");
    let authority_text = authority.to_str().unwrap();
    for path in [key_text, authority_text] {
        keygen(&["-t", "ed25519", "-N", "", "-C", "t", "-f", path]);
    }
    chown(&key, Some(DAEMON), Some(DAEMON)).unwrap();
    let public = |path: &Path| std::fs::read_to_string(path.with_extension("pub")).unwrap();
    let refused = centre.client("", &[]);
    assert!(refused.contains("it has no rights here"), "{refused}");
    centre.write_grants(&format!("principal=\"no-such-user-7\" {}", public(&key)));
    let refused = centre.client("", &[]);
    assert!(refused.contains("`no-such-user-7` is unknown"), "{refused}");
    centre.write_grants(&format!("principal=\"daemon\" {}", public(&key)));
    let opened = centre.client("", &[]);
    assert!(opened.starts_with("opened: Ok"), "{opened}");

    let trusted = public(&authority);
    centre.write_grants(&format!(
        "cert-authority,principals=\"daemon,bin\" {trusted}"
    ));
    let sign = |arguments: &[&str]| {
        let public = format!("{key_text}.pub");
        let fixed = ["-s", authority_text, "-I", "card 7"];
        keygen(&[&fixed[..], arguments, &[&public]].concat());
    };
    sign(&["-n", "daemon", "-V", "+1h"]);
    let opened = centre.client("", &[]);
    assert!(opened.starts_with("opened: Ok"), "{opened}");
    sign(&["-n", "daemon", "-V", "20200101:20210101"]);
    let refused = centre.client("", &[]);
    assert!(refused.contains("expired at 2021"), "{refused}");
    // Among several users, the client's own name is chosen, or the one in the address.
    sign(&["-n", "bin,daemon"]);
    for options in ["", "&user=bin"] {
        let opened = centre.client(options, &[]);
        assert!(opened.starts_with("opened: Ok"), "{options}: {opened}");
    }
    let refused = centre.client("&user=sync", &[]);
    assert!(refused.contains("does not name user `sync`"), "{refused}");
    sign(&["-n", "bin,games"]);
    centre.write_grants(&format!("cert-authority {trusted}"));
    let refused = centre.client("", &[]);
    assert!(refused.contains("name one by ?user=NAME"), "{refused}");
}

/// A running munged with a key and a socket of its own, ended when dropped.
struct Munged {
    process: Child,
    socket: PathBuf,
}

impl Munged {
    fn start(folder: &Path) -> Self {
        let folder = folder.join("munge");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        let key = folder.join("key");
        std::fs::write(&key, [7; 128]).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o400)).unwrap();
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        let socket = folder.join("socket");
        let process = Command::new("munged")
            .args(["--foreground", "--force", "--num-threads=1"])
            .args([option("key-file", "key"), option("socket", "socket")])
            .args([option("pid-file", "pid"), option("log-file", "log")])
            .arg(option("seed-file", "seed"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("munged does not start", || socket.exists());
        Self { process, socket }
    }

    /// Makes a credential of the user `daemon`.
    fn credential(&self, centre: &Centre, payload: &str) -> Vec<u8> {
        let made = centre
            .as_daemon("munge")
            .arg("-S")
            .arg(&self.socket)
            .args(["-s", payload])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        made.stdout
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends credentials over one TLS connection; `credential` gets the payload for it.
fn prove_by_munge(
    centre: &Centre,
    credentials: impl Fn(&str) -> Vec<Vec<u8>>,
) -> Vec<Result<proto::ProveReply, String>> {
    let at = centre.server.address();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = tls::Client::new(&[b"h2"]).unwrap();
        let stream = TcpStream::connect(at).await.unwrap();
        let connector = TlsConnector::from(client.config());
        let stream = connector
            .connect(tls::Client::name().unwrap(), stream)
            .await;
        let stream = stream.unwrap();
        let exporter = tls::exporter_of(stream.get_ref().1).unwrap();
        let once = SingleConnection(Some(stream));
        let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
        let channel = endpoint.connect_with_connector(once).await.unwrap();
        let mut client = AccessClient::new(channel);
        let mut replies = Vec::new();
        for munge in credentials(&munge::payload(&exporter)) {
            let request = proto::ProveRequest {
                munge,
                ..Default::default()
            };
            let reply = client.prove(request).await;
            let reply = reply.map(tonic::Response::into_inner);
            replies.push(reply.map_err(|status| status.message().to_owned()));
        }
        replies
    })
}

#[test]
fn munge_names_the_user_of_another_machine() {
    let Some(listen) = outside() else { return };
    if !is_root() || !has("munged") {
        return;
    }
    let munge_dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(munge_dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let munged = Munged::start(munge_dir.path());
    let access = AccessSettings {
        munge: true,
        munge_socket: Some(munged.socket.clone()),
        ..AccessSettings::default()
    };
    let centre = start(&format!("{listen}:0"), access);
    let socket = [("ESKER_MUNGE_SOCKET", munged.socket.as_path())];
    // Selected in the address, or tried without any key.
    for options in ["&auth=munge", ""] {
        let opened = centre.client(options, &socket);
        assert!(opened.starts_with("opened: Ok"), "{options}: {opened}");
    }
    // A key without rights does not prevent it.
    let key = centre.home.join(".ssh/id_ed25519");
    keygen(&["-t", "ed25519", "-N", "", "-f", key.to_str().unwrap()]);
    chown(&key, Some(DAEMON), Some(DAEMON)).unwrap();
    let opened = centre.client("", &socket);
    assert!(opened.starts_with("opened: Ok"), "{opened}");

    let replies = prove_by_munge(&centre, |payload| {
        let good = munged.credential(&centre, payload);
        let other = munged.credential(&centre, "esker-munge@1 00");
        vec![other, good.clone(), good]
    });
    let [other, good, again] = replies.as_slice() else {
        panic!("{replies:?}");
    };
    assert!(
        other
            .as_ref()
            .unwrap_err()
            .contains("for another connection"),
        "{other:?}"
    );
    let reply = good.as_ref().unwrap();
    assert_eq!(
        (reply.role.as_str(), reply.user.as_str()),
        ("read", "daemon")
    );
    assert!(
        again.as_ref().unwrap_err().contains("used before"),
        "{again:?}"
    );
    // Root of a machine is not bound to root, from whom nothing is hidden.
    let root = prove_by_munge(&centre, |payload| {
        let mut munge = Command::new("munge");
        let made = munge.arg("-S").arg(&munged.socket).args(["-s", payload]);
        vec![made.output().unwrap().stdout]
    });
    assert!(
        root[0].as_ref().unwrap_err().contains("is root"),
        "{root:?}"
    );
    // Without munged, and without the setting.
    let payload = munged.credential(&centre, "x");
    drop(munged);
    let refused = prove_by_munge(&centre, |_| vec![payload.clone()]);
    let why = refused[0].as_ref().unwrap_err();
    assert!(why.contains("munged does not run on the server"), "{why}");
    let off = start(&format!("{listen}:0"), AccessSettings::default());
    let refused = prove_by_munge(&off, |_| vec![payload.clone()]);
    let why = refused[0].as_ref().unwrap_err();
    assert!(why.contains("accepts no Munge credentials"), "{why}");
}
