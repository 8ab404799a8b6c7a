//! Sessions of the console and users of this machine: with real second users and real connections.

use crate::common::settings;
use esker::OpenOptions;
use esker_access::authorized::Terms;
use esker_access::{HostKey, Identity, Role, grants, proof, tls};
use esker_rpc::proto;
use esker_server::settings::{AccessSettings, Loopback};
use esker_server::{Server, Settings};
use esker_testkit::wait::{HANG, eventually};
use prost::Message as _;
use serde_json::{Value as Json, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// User id without rights to the database.
const EVE: u32 = 1002;

/// A server over `project/lab.esker`.
struct Lab {
    // Stopped before the folder is removed.
    server: Server,
    folder: PathBuf,
    dir: tempfile::TempDir,
}

impl Lab {
    fn start(loopback: Loopback) -> Self {
        Self::start_as(loopback, |_| {})
    }

    /// Starts a server after `prepare` has set up the folder.
    fn start_as(loopback: Loopback, prepare: impl Fn(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("project/lab.esker");
        fs::create_dir(dir.path().join("project")).unwrap();
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let database = options.open(folder.to_str().unwrap()).unwrap();
        prepare(&folder);
        let access = AccessSettings {
            loopback,
            ..AccessSettings::default()
        };
        let server = Server::start(
            database,
            Settings {
                access,
                ..settings()
            },
        );
        Self {
            server: server.unwrap(),
            folder,
            dir,
        }
    }

    fn at(&self) -> SocketAddr {
        self.server.address()
    }

    /// Makes a token for the server's database.
    fn token(&self, role: Role) -> String {
        let token = grants::make_token(&self.folder, &role.into(), 3_600, "a test").unwrap();
        let bearer = format!("authorization: Bearer {token}");
        becomes(200, || self.send(STATS, &[&bearer], ""));
        token
    }

    fn send(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.at()).unwrap();
        stream
            .write_all(text_of(request, headers, body).as_bytes())
            .unwrap();
        Answer::read(&mut stream)
    }

    /// Begins a session with a token; returns its cookie.
    fn session_of(&self, token: &str) -> String {
        let bearer = format!("authorization: Bearer {token}");
        let made = self.send("POST /api/v1/session/ticket", &[&bearer], "");
        assert_eq!(made.status, 200, "{made:?}");
        let entered = self.send("POST /api/v1/session", &[], &made.json()["ticket"].enter());
        assert_eq!(entered.status, 200, "{entered:?}");
        entered.cookie()
    }
}

/// Repeats a request until its answer has the expected status.
fn becomes(status: u16, mut ask: impl FnMut() -> Answer) -> Answer {
    eventually(|| {
        let answer = ask();
        if answer.status == status {
            Ok(answer)
        } else {
            Err(format!("it stays {answer:?}"))
        }
    })
}

trait Enter {
    fn enter(&self) -> String;
}

impl Enter for Json {
    /// The body of a request that uses a ticket.
    fn enter(&self) -> String {
        json!({ "ticket": self }).to_string()
    }
}

fn text_of(request: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().flat_map(|h| [*h, "\r\n"]).collect();
    let length = body.len();
    format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(from: &mut impl std::io::Read) -> Self {
        let mut answer = Vec::new();
        // A server that refuses a request early may close the connection.
        let _ = from.read_to_end(&mut answer);
        Self::of(&answer)
    }

    fn of(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap()
    }

    fn set_cookie(&self) -> String {
        let lower = self.head.to_ascii_lowercase();
        let at = lower.find("set-cookie: ").unwrap() + "set-cookie: ".len();
        self.head[at..].lines().next().unwrap().to_owned()
    }

    /// The header with the cookie.
    fn cookie(&self) -> String {
        let set = self.set_cookie();
        format!("cookie: {}", set.split(';').next().unwrap())
    }
}

/// Sends a request as another user of this machine.
fn as_user(user: u32, at: SocketAddr, request: &str) -> Answer {
    let script = format!(
        "exec 3<>/dev/tcp/{}/{}; cat >&3; cat <&3",
        at.ip(),
        at.port()
    );
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .uid(user)
        .gid(user)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(request.as_bytes()).unwrap();
    drop(stdin);
    Answer::of(&child.wait_with_output().unwrap().stdout)
}

fn is_root() -> bool {
    let root = esker_access::peer::own_user() == 0;
    if !root {
        eprintln!("skipped: only root can be another user");
    }
    root
}

/// A TLS connection on which a key may be proved.
struct Wire {
    stream: TlsStream<tokio::net::TcpStream>,
    runtime: Runtime,
}

impl Wire {
    fn to(at: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stream = runtime.block_on(async {
            let client = tls::Client::new(&[b"http/1.1"]).unwrap();
            let stream = tokio::net::TcpStream::connect(at).await.unwrap();
            let connector = TlsConnector::from(client.config());
            let name = tls::Client::name().unwrap();
            connector.connect(name, stream).await.unwrap()
        });
        Self { stream, runtime }
    }

    /// Sends a request over the connection, which stays open.
    fn send(&mut self, request: &str, headers: &[&str], body: &[u8]) -> Answer {
        let text = text_of(request, headers, "").replace("connection: close\r\n", "");
        let text = text.replace(
            "content-length: 0",
            &format!("content-length: {}", body.len()),
        );
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.write_all(body).await.unwrap();
            let mut got = Vec::new();
            loop {
                let whole = String::from_utf8_lossy(&got).to_ascii_lowercase();
                if let Some((head, _)) = whole.split_once("\r\n\r\n") {
                    let length = head
                        .lines()
                        .find_map(|l| l.strip_prefix("content-length: "));
                    let length: usize = length.unwrap_or("0").parse().unwrap();
                    if got.len() >= head.len() + 4 + length {
                        return Answer::of(&got);
                    }
                }
                assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{whole}");
            }
        })
    }

    fn prove(&mut self, key: &HostKey) -> Answer {
        let exporter = tls::exporter_of(self.stream.get_ref().1).unwrap();
        let signature = Identity::of_host(key.clone()).prove(&exporter).unwrap();
        let request = proto::ProveRequest {
            proof: proof::to_text(&signature).unwrap().into_bytes(),
            ..Default::default()
        };
        self.send("POST /api/v1/prove", &[], &request.encode_to_vec())
    }
}

const STATS: &str = "GET /api/v1/stats";

/// A token is revoked while a session that began with it and a stream of events are open.
#[test]
fn a_session_and_its_events_go_with_the_token_they_came_of() {
    let lab = Lab::start(Loopback::Off);
    let token = lab.token(Role::Read);
    let cookie = lab.session_of(&token);
    assert_eq!(lab.send(STATS, &[&cookie], "").status, 200);
    let mut stream = TcpStream::connect(lab.at()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let events = text_of("GET /api/v1/events", &[&cookie], "");
    stream.write_all(events.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("connected")));
    grants::revoke(&lab.folder, &token).unwrap();
    let refused = becomes(403, || lab.send(STATS, &[&cookie], ""));
    assert!(
        refused.body.contains("no longer gives access here"),
        "{refused:?}"
    );
    // The stream has ended or is about to; later changes are not in it.
    let writer = format!("authorization: Bearer {}", lab.token(Role::Write));
    let line = r#"{"op":"ensure_vertex","id":"job:9"}"#;
    becomes(200, || lab.send("POST /api/v1/apply", &[&writer], line));
    assert!(!lines.any(|line| line.contains("job:9")));
}

/// A session that began with a key ends, or is limited, as the key's line in the file changes.
#[test]
fn a_session_is_as_good_as_the_key_it_came_of() {
    let lab = Lab::start(Loopback::Off);
    let ann = HostKey::generate().unwrap();
    let grant = |role, expires, from: Option<&str>| {
        let from = from.map(str::to_owned);
        let terms = Terms {
            role,
            expires,
            from,
            user: None,
        };
        grants::grant(&lab.folder, ann.public(), &terms).unwrap();
    };
    let now = esker_access::rights::now();
    grant(Some(Role::Write), Some(now + 600), Some("127.0.0.1"));
    let mut wire = Wire::to(lab.at());
    assert_eq!(wire.prove(&ann).status, 200);
    let made = wire.send("POST /api/v1/session/ticket", &[], b"");
    assert_eq!(made.status, 200, "{made:?}");
    // Over TLS, the cookie is bound to this host.
    let mut browser = Wire::to(lab.at());
    let shown = made.json()["ticket"].enter();
    let entered = browser.send("POST /api/v1/session", &[], shown.as_bytes());
    assert_eq!(entered.json()["role"], "write", "{entered:?}");
    let set = entered.set_cookie();
    assert!(set.starts_with("__Host-esker_session="), "{set}");
    assert!(set.ends_with("; Secure"), "{set}");
    // It ends when the key expires.
    let age = set
        .split("Max-Age=")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    assert!(age.parse::<u64>().unwrap() <= 600, "{set}");
    let cookie = entered.cookie();
    let mut ask = || browser.send(STATS, &[&cookie], b"");
    assert_eq!(ask().status, 200);
    for (role, expires, from, said) in [
        (Some(Role::Write), Some(now - 1), None, "its time ended"),
        (
            Some(Role::Write),
            None,
            Some("203.0.113.0/24"),
            "may be used from",
        ),
        (None, None, None, "it was revoked"),
    ] {
        grant(role, expires, from);
        let refused = becomes(403, &mut ask);
        assert!(refused.body.contains(said), "{refused:?}");
        grant(Some(Role::Write), None, None);
        becomes(200, &mut ask);
    }
    // After the key's role is reduced, the session's is, too.
    grant(Some(Role::Read), None, None);
    let line = br#"{"op":"ensure_vertex","id":"job:9"}"#;
    becomes(403, || browser.send("POST /api/v1/apply", &[&cookie], line));
}

/// A session that could make tickets could renew itself endlessly.
#[test]
fn a_session_gives_no_tickets() {
    let lab = Lab::start(Loopback::Off);
    let cookie = lab.session_of(&lab.token(Role::Admin));
    let refused = lab.send("POST /api/v1/session/ticket", &[&cookie], "");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(
        refused.body.contains("a session cannot create tickets"),
        "{refused:?}"
    );
}

/// Another user of this machine reads a ticket in the list of processes, and a cookie at a port of their own.
#[test]
fn tickets_and_cookies_are_of_the_user_they_were_made_for() {
    if !is_root() {
        return;
    }
    let lab = Lab::start(Loopback::Uid);
    let link = lab.server.console_link().unwrap();
    let ticket = link.split_once("/#/enter?ticket=").unwrap().1;
    let enter = Json::from(ticket).enter();
    let request = text_of("POST /api/v1/session", &[], &enter);
    let stolen = as_user(EVE, lab.at(), &request);
    assert_eq!(stolen.status, 403, "{stolen:?}");
    assert!(stolen.body.contains("another user's"), "{stolen:?}");
    // The owner's browser can still use the ticket.
    let entered = lab.send("POST /api/v1/session", &[], &enter);
    assert_eq!(entered.status, 200, "{entered:?}");
    let cookie = entered.cookie();
    let replayed = as_user(EVE, lab.at(), &text_of(STATS, &[&cookie], ""));
    assert_eq!(replayed.status, 401, "{replayed:?}");
    assert!(
        replayed.body.contains("begun by another user"),
        "{replayed:?}"
    );
    // The stream of events is refused, too.
    let events = as_user(
        EVE,
        lab.at(),
        &text_of("GET /api/v1/events", &[&cookie], ""),
    );
    assert_eq!(events.status, 401, "{events:?}");
    // If processes are not authenticated by their users, the session authenticates the owner.
    let lab = Lab::start(Loopback::Off);
    let link = lab.server.console_link().unwrap();
    let ticket = link.split_once("/#/enter?ticket=").unwrap().1;
    let entered = lab.send("POST /api/v1/session", &[], &Json::from(ticket).enter());
    assert_eq!(lab.send(STATS, &[&entered.cookie()], "").status, 200);
    assert_eq!(lab.send(STATS, &[], "").status, 401);
}

#[test]
fn sessions_are_listed_and_ended() {
    let lab = Lab::start(Loopback::Off);
    let (reader, admin) = (lab.token(Role::Read), lab.token(Role::Admin));
    let cookie = lab.session_of(&reader);
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    let (reader, admin) = (bearer(&reader), bearer(&admin));
    let list = "GET /api/v1/sessions";
    assert_eq!(lab.send(list, &[&reader], "").status, 403);
    assert_eq!(lab.send(list, &[&cookie], "").status, 403);
    let all = lab.send(list, &[&admin], "").json();
    let session = &all["sessions"][0];
    let id = session["id"].as_str().unwrap();
    assert!(id.starts_with("session:"), "{all}");
    assert_eq!(session["role"], "read");
    assert!(
        session["who"].as_str().unwrap().starts_with("token:"),
        "{all}"
    );
    let own = format!("user {}", esker_access::peer::own_user());
    assert_eq!(session["bound"], own.as_str());
    // The name of the session reveals nothing of the cookie.
    assert!(!all.to_string().contains(cookie.split('=').nth(1).unwrap()));
    let end = format!("DELETE /api/v1/sessions/{id}");
    assert_eq!(lab.send(&end, &[&reader], "").status, 403);
    assert_eq!(lab.send(STATS, &[&cookie], "").status, 200);
    assert_eq!(lab.send(&end, &[&admin], "").status, 200);
    assert_eq!(lab.send(&end, &[&admin], "").status, 404);
    assert_eq!(lab.send(STATS, &[&cookie], "").status, 401);
}

/// A member of the group of a project's folder replaces the database's folder by another one.
#[test]
fn a_folder_in_the_place_of_a_running_servers_is_not_believed() {
    if !is_root() {
        return;
    }
    let lab = Lab::start(Loopback::Off);
    let project = lab.dir.path().join("project");
    fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&project, Some(0), Some(EVE)).unwrap();
    fs::set_permissions(&project, fs::Permissions::from_mode(0o2775)).unwrap();
    let (ann, eve) = (HostKey::generate().unwrap(), HostKey::generate().unwrap());
    let terms = |role| Terms {
        role: Some(role),
        ..Terms::default()
    };
    grants::grant(&lab.folder, ann.public(), &terms(Role::Read)).unwrap();
    let line = esker_access::authorized::line(eve.public(), &terms(Role::Admin)).unwrap();
    let script =
        format!("mv lab.esker x && mkdir lab.esker && echo '{line}' > lab.esker/authorized_keys");
    let swapped = Command::new("sh")
        .args(["-c", &script])
        .uid(EVE)
        .gid(EVE)
        .current_dir(&project)
        .status();
    assert!(swapped.unwrap().success());
    let refused = Wire::to(lab.at()).prove(&eve);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("has no rights here"), "{refused:?}");
    // The new folder's owner does not get the database owner's rights.
    let asked = as_user(EVE, lab.at(), &text_of(STATS, &[], ""));
    assert_eq!(asked.status, 401, "{asked:?}");
    // The access files of the opened folder remain in effect, and grants are written there.
    let mut wire = Wire::to(lab.at());
    assert_eq!(wire.prove(&ann).status, 200);
    let stats = wire.send(STATS, &[], b"");
    assert_eq!(stats.status, 200, "{stats:?}");
    grants::revoke(&project.join("x"), &ann.public().to_openssh().unwrap()).unwrap();
    becomes(403, || wire.send(STATS, &[], b""));
    fs::remove_dir_all(&lab.folder).unwrap();
    fs::rename(project.join("x"), &lab.folder).unwrap();
}

/// A proxy of root's on this machine makes strangers root over loopback; in a user namespace, many users have the same id.
#[test]
fn users_authenticate_processes_where_the_settings_say() {
    if !is_root() {
        return;
    }
    let at_socket = |lab: &Lab| {
        let mut stream = UnixStream::connect(lab.folder.join("owner/http.sock")).unwrap();
        stream
            .write_all(text_of(STATS, &[], "").as_bytes())
            .unwrap();
        Answer::read(&mut stream)
    };
    for (loopback, at_port, at_the_socket) in [
        (Loopback::Uid, 200, 200),
        (Loopback::Socket, 401, 200),
        (Loopback::Off, 401, 401),
    ] {
        let lab = Lab::start(loopback);
        let answer = lab.send(STATS, &[], "");
        assert_eq!(answer.status, at_port, "{loopback:?}: {answer:?}");
        assert_eq!(at_socket(&lab).status, at_the_socket, "{loopback:?}");
        if at_port != 200 {
            assert!(answer.body.contains("access.loopback"), "{answer:?}");
            let bearer = format!("authorization: Bearer {}", lab.token(Role::Read));
            becomes(200, || lab.send(STATS, &[&bearer], ""));
        }
    }
    // The folder's owner is the id of all unmapped users: it authenticates no client.
    let overflow = esker_access::peer::overflow_user();
    let lab = Lab::start_as(Loopback::Uid, |folder| {
        chown(folder, Some(overflow), None).unwrap();
    });
    let answer = as_user(overflow, lab.at(), &text_of(STATS, &[], ""));
    assert_eq!(answer.status, 401, "{answer:?}");
    // A mapped owner is authenticated.
    let lab = Lab::start_as(Loopback::Uid, |folder| {
        chown(folder, Some(1001), None).unwrap();
    });
    let answer = as_user(1001, lab.at(), &text_of(STATS, &[], ""));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_database_in_a_folder_of_many_is_refused_if_the_settings_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    let open = || {
        let folder = project.join("lab.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        options.open(folder.to_str().unwrap()).unwrap()
    };
    let strict = |strict_modes| Settings {
        access: AccessSettings {
            strict_modes,
            ..AccessSettings::default()
        },
        ..settings()
    };
    assert!(Server::start(open(), strict(true)).is_ok());
    fs::set_permissions(&project, fs::Permissions::from_mode(0o2775)).unwrap();
    let refused = Server::start(open(), strict(true)).unwrap_err().to_string();
    assert!(
        refused.contains("written by others (mode 2775)"),
        "{refused}"
    );
    assert!(Server::start(open(), strict(false)).is_ok());
}
