//! Every path of the server with every method, by every kind of client, over both versions of HTTP.
//!
//! The paths come from the server's own list (`esker_server::routes`), so that new ones are included. Clients run in threads of another
//! user, because the kernel would identify this process as the owner's.

use crate::common::{http as plain, settings, vertex};
use crate::raw::send;
use bytes::Bytes;
use esker::OpenOptions;
use esker_access::authorized::Terms;
use esker_access::{HostKey, Role, grants};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Properties};
use esker_rpc::{PROTOCOL, proto};
use esker_server::{Server, Settings};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustix::process::{Gid, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use tokio::net::TcpStream;

const METHODS: [&str; 9] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "FROBNICATE",
];

/// Requests that need no rights.
const OPEN: [(&str, &str); 18] = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/"),
    ("GET", "/favicon.svg"),
    ("GET", "/assets/{*name}"),
    ("GET", "/api/v1/session"),
    ("POST", "/api/v1/session"),
    ("DELETE", "/api/v1/session"),
    ("GET", "/api/v1/oidc"),
    ("GET", "/api/v1/oidc/login"),
    ("GET", "/api/v1/oidc/callback"),
    ("POST", "/api/v1/prove"),
    ("POST", "/esker.v1.Access/Prove"),
    ("OPTIONS", "/sparql"),
    ("OPTIONS", "/sparql/"),
    ("OPTIONS", "/rdf-graphs"),
    ("OPTIONS", "/rdf-graphs/"),
    ("OPTIONS", "/rdf-graphs/{*name}"),
];
/// Requests of the commands of `esker rdf`.
const OPEN_COMMANDS: (&str, &str) = ("OPTIONS", "/api/v1/rdf/{what}");

/// Paths that are not listed.
const UNLISTED: [&str; 6] = [
    "/nowhere",
    "/api/v1/nowhere",
    "/esker.v1.Access/Nothing",
    "/esker.v1.Esker/Nothing",
    "/esker.v1.Other/Token",
    "/api/v1/apply/",
];

/// User id of the clients.
const OTHER: u32 = 54_321;

/// A server with data, grants and tokens.
struct Lab {
    server: Server,
    folder: PathBuf,
    granted: String,
    attacker: String,
    tokens: Vec<(Role, String)>,
    _dir: tempfile::TempDir,
}

impl Lab {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("lab.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let database = options.open(folder.to_str().unwrap()).unwrap();
        let key = HostKey::generate().unwrap();
        let terms = Terms {
            role: Some(Role::Write),
            ..Terms::default()
        };
        grants::grant(&folder, key.public(), &terms).unwrap();
        let token = |role: Role| {
            let text = grants::make_token(&folder, &role.into(), 3_600, "walk").unwrap();
            (role, text)
        };
        let tokens = Role::ALL.into_iter().map(token).collect();
        let schema = database.schema().unwrap();
        let mut batch = Batch::new();
        for name in ["job:1", "file:/in"] {
            batch.push(Op::PutVertex {
                vertex: vertex(&database, name),
                key: name.split_once(':').unwrap().1.into(),
                attributes: Properties::new(),
            });
        }
        batch.push(Op::PutEdge {
            source: vertex(&database, "job:1"),
            edge_type: schema.edge_type_id("read").unwrap(),
            destination: vertex(&database, "file:/in"),
            properties: Properties::new(),
        });
        database.apply(batch).unwrap();
        let settings = Settings {
            listen: "0.0.0.0:0".into(),
            ..settings()
        };
        let attacker = HostKey::generate().unwrap();
        let server = Server::start(database, settings).unwrap();
        let at = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
        let turtle = [("content-type", "text/turtle")];
        let triple = b"<http://e/a> a <http://e/Run> .";
        let put = send(at, "PUT", "/rdf-graphs?default", &turtle, triple);
        assert!(put.status < 300, "{}", put.body);
        Self {
            server,
            folder,
            granted: key.public().to_openssh().unwrap(),
            attacker: attacker.public().to_openssh().unwrap(),
            tokens,
            _dir: dir,
        }
    }

    fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.server.address().port()))
    }

    /// State that no request may change: grants, and the data as its owner sees it.
    fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for name in ["authorized_keys", "access_tokens", "host_key"] {
            let bytes = std::fs::read(self.folder.join(name)).unwrap();
            state.push(String::from_utf8(bytes).unwrap());
        }
        for path in [
            "/api/v1/schema",
            "/api/v1/vertices?type=File",
            "/api/v1/vertices?type=Execution",
            "/api/v1/edges?id=job:1",
            "/api/v1/tags",
            "/api/v1/find?count=true",
            "/api/v1/files/list?path=/",
            "/rdf-graphs?default",
        ] {
            let (status, _, body) = plain(self.at(), "GET", path, "");
            state.push(format!("{path}: {status}: {body}"));
        }
        state.push(format!("{:?}", self.server.stop_request()));
        state
    }

    /// Texts that no answer may contain.
    fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> = self.tokens.iter().map(|(_, t)| t.clone()).collect();
        secrets.push(self.granted.split(' ').nth(1).unwrap().to_owned());
        let host_key = std::fs::read_to_string(self.folder.join("host_key")).unwrap();
        secrets.extend(host_key.lines().skip(1).take(2).map(str::to_owned));
        let tokens = std::fs::read_to_string(self.folder.join("access_tokens")).unwrap();
        secrets.extend(
            tokens
                .lines()
                .map(|l| l.split(' ').next().unwrap().to_owned()),
        );
        secrets
    }
}

/// Kinds of clients.
#[derive(Clone)]
struct Client {
    name: &'static str,
    at: SocketAddr,
    token: Option<(Role, String)>,
}

impl Client {
    fn may(&self, needs: &str) -> bool {
        match (needs, &self.token) {
            ("nothing", _) => true,
            (_, None) | ("server", _) => false,
            (needs, Some((role, _))) => Role::parse(needs).is_some_and(|n| role.may(n)),
        }
    }
}

/// An address of this machine that is not loopback.
fn outside() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.77:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

/// Frames a gRPC message.
fn framed(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// A concrete path for a pattern of the list, chosen so that permitted requests change nothing.
fn filled(path: &str, allowed: bool) -> String {
    let part = |part: &str| match part {
        "{what}" if allowed => "checkpoint".to_owned(),
        "{what}" => "drop".to_owned(),
        "{id}" => "1".to_owned(),
        part if part.starts_with('{') => "x".to_owned(),
        part => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// A body that would change data or reveal a secret if it was accepted, with its type.
fn harm(lab: &Lab, path: &str) -> (&'static str, Vec<u8>) {
    let grpc = |message: Vec<u8>| ("application/grpc", message);
    let json = |text: &str| ("application/json", text.as_bytes().to_vec());
    match path {
        "/esker.v1.Access/Token" => grpc(framed(&proto::TokenRequest {
            role: "admin".into(),
            seconds: 31_622_400,
            ..Default::default()
        })),
        "/esker.v1.Access/Grant" => grpc(framed(&proto::GrantRequest {
            key: lab.attacker.clone(),
            role: "admin".into(),
            ..Default::default()
        })),
        "/esker.v1.Access/Revoke" => grpc(framed(&proto::RevokeRequest {
            key: lab.granted.clone(),
        })),
        "/esker.v1.Esker/Exchange" => grpc(framed(&proto::ToServer {
            hello: Some(proto::Hello {
                protocol: PROTOCOL,
                version: "0.0.9".into(),
                peer: None,
                ..Default::default()
            }),
            ..Default::default()
        })),
        path if path.starts_with("/esker.v1.") => grpc(vec![0; 5]),
        "/api/v1/objects" => json(r#"{"name": "n", "app": "a", "owner": 1, "step": 1}"#),
        "/api/v1/tag" => json(r#"{"filter": "step > 0", "set": {"t": 1}}"#),
        "/api/v1/index" => json(r#"{"name": "t", "on": false}"#),
        "/api/v1/lineage" => json(
            r#"{"eventType": "COMPLETE", "eventTime": "2026-01-01T00:00:00Z", "producer": "http://p", "schemaURL": "http://s",
                "run": {"runId": "0190b6cb-7b6a-7000-8000-000000000001"}, "job": {"namespace": "n", "name": "j"}}"#,
        ),
        "/ingest/slurm/_doc" => {
            json(r#"{"jobid": 7, "cluster": "c", "@start": "2026-01-01T00:00:00"}"#)
        }
        path if path.starts_with("/sparql") => (
            "application/sparql-update",
            b"INSERT DATA { <http://e/x> a <http://e/Run> }".to_vec(),
        ),
        path if path.starts_with("/rdf-graphs") => {
            ("text/turtle", b"<http://e/x> a <http://e/Run> .".to_vec())
        }
        _ => json(r#"{"op":"ensure_vertex","id":"job:9"}"#),
    }
}

/// A connection that is reused.
enum Wire {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

struct Principal {
    client: Client,
    two: bool,
    wire: Option<Wire>,
}

/// An answer, with a gRPC status converted to the HTTP status of the same meaning.
struct Got {
    status: u16,
    body: String,
}

impl Principal {
    async fn connect(&self) -> Wire {
        let stream = TcpStream::connect(self.client.at).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        if self.two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            return Wire::Two(sender);
        }
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Wire::One(sender)
    }

    fn request(&self, method: &str, path: &str, body: &(&str, Vec<u8>)) -> Request<Full<Bytes>> {
        let at = self.client.at;
        let uri = if self.two {
            format!("http://{at}{path}")
        } else {
            path.to_owned()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", body.0)
            .header("te", "trailers");
        if !self.two {
            request = request.header("host", at.to_string());
        }
        if let Some((_, token)) = &self.client.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(Full::new(body.1.clone().into())).unwrap()
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect().await,
        };
        match self.wire.insert(wire) {
            Wire::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Wire::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    async fn exchange(&mut self, method: &str, path: &str, body: &(&str, Vec<u8>)) -> Got {
        // A server may close a connection whose body it has not read.
        let mut why = String::new();
        for _ in 0..3 {
            let request = self.request(method, path, body);
            let answer = match self.send(request).await {
                Ok(answer) => answer,
                Err(e) => {
                    why = format!("{why} {e:?}");
                    self.wire = None;
                    continue;
                }
            };
            let header = |name: &str| {
                let value = answer.headers().get(name)?;
                Some(value.to_str().unwrap().to_owned())
            };
            let kind = header("content-type").unwrap_or_default();
            let said = header("grpc-status");
            let status = match said.as_deref() {
                None => answer.status().as_u16(),
                // `Exchange` has its status in a header of its own.
                Some("16" | "7" | "9") if header("esker-access").is_some_and(|h| h == "key") => 401,
                Some("16" | "7" | "9") => 403,
                Some("12") => 404,
                Some(_) => 400,
            };
            // A body without an end is not read.
            let endless = ["/Exchange", "/WatchFiles"];
            let streams = kind.starts_with("text/event-stream")
                || (said.is_none() && endless.iter().any(|e| path.ends_with(e)));
            if streams {
                self.wire = None;
                return Got {
                    status,
                    body: "a stream".into(),
                };
            }
            let close = header("connection").is_some_and(|c| c == "close");
            let bytes = match answer.into_body().collect().await {
                Ok(bytes) => bytes,
                Err(e) => {
                    why = format!("{why} body: {e:?}");
                    self.wire = None;
                    continue;
                }
            };
            if close {
                self.wire = None;
            }
            return Got {
                status,
                body: String::from_utf8_lossy(&bytes.to_bytes()).into_owned(),
            };
        }
        Got {
            status: 0,
            body: format!("no whole answer:{why}"),
        }
    }
}

/// Runs a closure in a thread of another user of this machine.
fn as_other<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(OTHER), Gid::from_raw(OTHER));
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(work)
        });
        thread.join().unwrap()
    })
}

/// Errors in the answers that one client gets.
async fn walked(lab: &Lab, client: Client, two: bool, secrets: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    // Access that the server's list requires.
    let mut paths: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for route in esker_server::routes() {
        let methods = paths.entry(route.path).or_default();
        if route.method == "GET" {
            methods.insert("HEAD".into(), route.needs.clone());
        }
        methods.insert(route.method, route.needs);
    }
    paths.extend(UNLISTED.map(|path| (path.to_owned(), BTreeMap::new())));
    let who = format!("{} over HTTP/{}", client.name, if two { 2 } else { 1 });
    let mut principal = Principal {
        client,
        two,
        wire: None,
    };
    for (path, methods) in &paths {
        for method in METHODS {
            let needs = methods.get(method);
            let allowed = needs.is_some_and(|n| principal.client.may(n));
            let at = filled(path, allowed);
            let known = principal.client.token.is_some();
            let reads = principal.client.may("read");
            let expected = match &needs {
                _ if !known => 401,
                Some(_) => 403,
                None if !reads => 403,
                None if UNLISTED.contains(&path.as_str()) => 404,
                None => 405,
            };
            // A permitted request is harmless; its result is not checked here. An update is sent like a query.
            let update =
                path.starts_with("/sparql") && method == "POST" && !principal.client.may("write");
            let body = if allowed && !update {
                let kind = if path.starts_with("/esker.v1.") {
                    "application/grpc"
                } else {
                    "application/json"
                };
                (kind, Vec::new())
            } else {
                harm(lab, path)
            };
            let got = principal.exchange(method, &at, &body).await;
            let expected = if update && allowed {
                Some(403)
            } else {
                (!allowed).then_some(expected)
            };
            let fits = match expected {
                Some(expected) => got.status == expected,
                None => {
                    ![0, 401, 403, 405].contains(&got.status)
                        || needs.is_some_and(|n| n == "nothing")
                }
            };
            if !fits {
                wrong.push(format!(
                    "{who}: {method} {path}: {} instead of {expected:?} (needs {needs:?}): {}",
                    got.status,
                    got.body.chars().take(120).collect::<String>()
                ));
            }
            let told = secrets.iter().any(|s| got.body.contains(s.as_str()));
            let made =
                !allowed && (got.body.contains("esker_") || got.body.contains("\"ticket\":"));
            if told || made {
                wrong.push(format!("{who}: {method} {path}: a secret is told"));
            }
        }
    }
    wrong
}

/// This file lists the requests that need no rights, and paths below `/esker.v1.` accept only POST.
#[test]
fn what_is_open_is_known() {
    let mut open: BTreeSet<(String, String)> = BTreeSet::new();
    for route in esker_server::routes() {
        assert!(
            !route.path.starts_with("/esker.v1.") || route.method == "POST",
            "{} {}",
            route.method,
            route.path
        );
        if route.needs == "nothing" {
            open.insert((route.method, route.path));
        }
    }
    let expected = OPEN.iter().chain([&OPEN_COMMANDS]);
    let expected: BTreeSet<_> = expected
        .map(|(m, p)| ((*m).to_owned(), (*p).to_owned()))
        .collect();
    assert_eq!(open, expected);
}

#[test]
fn every_method_of_every_path_is_refused_without_the_right() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can ask as another user");
        return;
    }
    let lab = Lab::start();
    let secrets = lab.secrets();
    let far = SocketAddr::new(outside().unwrap_or_else(|| lab.at().ip()), lab.at().port());
    let mut clients = vec![
        Client {
            name: "nobody",
            at: far,
            token: None,
        },
        Client {
            name: "another user",
            at: lab.at(),
            token: None,
        },
    ];
    for (role, token) in &lab.tokens {
        clients.push(Client {
            name: role.name(),
            at: lab.at(),
            token: Some((*role, token.clone())),
        });
    }
    let mut wrong = Vec::new();
    let mut before = lab.state();
    for client in clients {
        for two in [false, true] {
            wrong.extend(as_other(walked(&lab, client.clone(), two, &secrets)));
            let after = lab.state();
            for (then, now) in before.iter().zip(&after) {
                // `admin` may stop the server.
                let stopped = client.may("admin") && now.contains("Some(");
                if then != now && !stopped {
                    wrong.push(format!(
                        "{} over HTTP/{}: changed:\n{then}\n{now}",
                        client.name,
                        if two { 2 } else { 1 }
                    ));
                }
            }
            before = after;
        }
    }
    // A change or a revealed secret is worse than a wrong status.
    wrong.sort_by_key(|w| !(w.contains("changed:") || w.contains("secret")));
    let shown: Vec<&str> = wrong.iter().take(60).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
