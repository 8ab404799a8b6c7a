//! A server over a new database, and a minimal HTTP client.

use crate::raw::Got;
use esker::{Database, OpenOptions};
use esker_model::GraphWrite as _;
use esker_model::{Batch, GraphRead as _, Op, Properties, VertexName, VertexRef};
use esker_server::{Server, Settings};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

pub(crate) struct Served {
    // Stopped before the folder is removed.
    pub(crate) server: Server,
    dir: tempfile::TempDir,
}

pub(crate) fn settings() -> Settings {
    Settings {
        listen: "127.0.0.1:0".into(),
        ..Settings::default()
    }
}

impl Served {
    pub(crate) fn start(settings: Settings) -> Self {
        Self::of(tempfile::tempdir().unwrap(), settings)
    }

    /// Serves the database `lab.esker` in a folder.
    pub(crate) fn of(dir: tempfile::TempDir, settings: Settings) -> Self {
        let path = dir.path().join("lab.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let database = options.open(path.to_str().unwrap()).unwrap();
        Self {
            server: Server::start(database, settings).unwrap(),
            dir,
        }
    }

    pub(crate) fn target(&self) -> String {
        format!("esker://{}", self.server.address())
    }

    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.dir.path().join("lab.esker")
    }

    pub(crate) fn open(&self) -> Database {
        OpenOptions::new().open(&self.target()).unwrap()
    }

    /// Sends a request over HTTP/1.1; returns the status, the headers and the body.
    pub(crate) fn http(&self, verb: &str, path: &str, body: &str) -> (u16, String, String) {
        http(self.server.address(), verb, path, body)
    }

    pub(crate) fn json(&self, verb: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, _, body) = self.http(verb, path, body);
        let json = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"));
        (status, json)
    }
}

pub(crate) fn http(
    address: SocketAddr,
    verb: &str,
    path: &str,
    body: &str,
) -> (u16, String, String) {
    http_as(address, (verb, path, body), "host: localhost")
}

/// Sends a request with a token. It uses a foreign host name, so that the user of this process does not authenticate it.
pub(crate) fn http_by_token(
    address: SocketAddr,
    request: (&str, &str, &str),
    token: &str,
) -> (u16, String, String) {
    let headers = format!("host: elsewhere\r\nauthorization: Bearer {token}");
    http_as(address, request, &headers)
}

fn http_as(
    address: SocketAddr,
    (verb, path, body): (&str, &str, &str),
    headers: &str,
) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    // A server that refuses a body by its length may close the connection before it has read the body.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let got = Got::read(&answer);
    (got.status, got.head, got.body)
}

pub(crate) fn vertex(database: &Database, name: &str) -> VertexRef {
    let schema = database.schema().unwrap();
    VertexName::parse(name).unwrap().resolve(&schema).unwrap()
}

/// Job 1 ran for user 1, read `/in` and wrote `/out`.
pub(crate) fn filled(served: &Served) -> Database {
    let database = served.open();
    let schema = database.schema().unwrap();
    let mut batch = Batch::new();
    for (name, attributes) in [
        ("user:1", Properties::new().with("name", "ada")),
        ("job:1", Properties::new()),
        ("file:/in", Properties::new().with("size", 7)),
        ("file:/out", Properties::new()),
    ] {
        batch.push(Op::PutVertex {
            vertex: vertex(&database, name),
            key: name.split_once(':').unwrap().1.into(),
            attributes,
        });
    }
    for (source, edge_type, destination) in [
        ("user:1", "run", "job:1"),
        ("job:1", "read", "file:/in"),
        ("job:1", "write", "file:/out"),
    ] {
        batch.push(Op::PutEdge {
            source: vertex(&database, source),
            edge_type: schema.edge_type_id(edge_type).unwrap(),
            destination: vertex(&database, destination),
            properties: Properties::new().with("bytes", 7),
        });
    }
    database.apply(batch).unwrap();
    database
}
