//! Servers over databases to which a history was applied.

use super::history::{BEGIN, History, STEP, Step};
use crate::common::{http, http_by_token, settings};
use esker::{Database, OpenOptions};
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_engine::{Engine, Settings as EngineSettings};
use esker_model::namespace::{Change, NamePath, Namespace as _, SetAttributes, resolve};
use esker_model::object::{Identity, ObjectKey, ObjectRead as _};
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Schema, VertexName, VertexRef};
use esker_server::settings::AccessSettings;
use esker_server::{Server, Settings};
use esker_store::StoreSettings;
use esker_store_fjall::FjallStore;
use esker_testkit::archive::MemoryArchive;
use esker_testkit::clock::SimClock;
use esker_testkit::wait::wait_until;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

pub(super) fn path_of(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

pub(super) fn vertex_of(engine: &Engine, schema: &Schema, name: &str) -> (VertexRef, String) {
    let name = VertexName::parse(name).unwrap();
    let found = resolve(engine, None, schema, std::slice::from_ref(&name)).unwrap();
    (found[0], name.key)
}

pub(super) fn object_of(engine: &Engine, schema: &Schema, identity: &Identity) -> VertexRef {
    let key = ObjectKey::Identity(identity.clone());
    let found = engine.read_objects(&[key], None).unwrap();
    let id = found[0].as_ref().unwrap().id;
    esker_model::object::object_ref(schema, id).unwrap()
}

/// Applies one step to a database.
pub(super) fn apply_step(engine: &Engine, step: &Step) {
    let schema = engine.schema().unwrap();
    let mut batch = Batch::new();
    let change = |change: Change| {
        engine.change(None, &[change]).unwrap().remove(0).unwrap();
    };
    match step {
        Step::Make { path, make } => return change(Change::Create(path_of(path), make.clone())),
        Step::Rename { from, to } => {
            return change(Change::Rename {
                from: path_of(from),
                to: path_of(to),
                no_replace: true,
            });
        }
        Step::Link { from, to } => {
            return change(Change::Link {
                from: path_of(from),
                to: path_of(to),
            });
        }
        Step::Unlink { path } => return change(Change::Unlink(path_of(path))),
        Step::Date { path } => {
            let time = i64::try_from(BEGIN * 1_000_000).unwrap();
            return change(Change::Set {
                path: path_of(path),
                follow: false,
                set: SetAttributes {
                    mtime: Some(time),
                    ..SetAttributes::default()
                },
            });
        }
        Step::Vertex {
            name,
            attributes,
            tags,
        } => {
            let (vertex, key) = vertex_of(engine, &schema, name);
            batch.push(Op::EnsureVertex { vertex, key });
            if !attributes.is_empty() {
                batch.push(Op::ChangeVertex {
                    vertex,
                    set: attributes.clone(),
                    remove: Vec::new(),
                });
            }
            if !tags.is_empty() {
                batch.push(Op::SetAttributes {
                    vertex,
                    set: tags.clone(),
                    remove: Vec::new(),
                });
            }
        }
        Step::Edge {
            source,
            edge_type,
            destination,
            properties,
        } => batch.push(Op::PutEdge {
            source: vertex_of(engine, &schema, source).0,
            edge_type: schema.edge_type_id(edge_type).unwrap(),
            destination: vertex_of(engine, &schema, destination).0,
            properties: properties.clone(),
        }),
        Step::Object {
            identity,
            attributes,
            tags,
        } => batch.push(Op::CreateObject {
            identity: identity.clone(),
            attributes: attributes.clone(),
            tags: tags.clone(),
        }),
        Step::Tag { identity, tags } => {
            if tags.is_empty() {
                return;
            }
            batch.push(Op::SetAttributes {
                vertex: object_of(engine, &schema, identity),
                set: tags.clone(),
                remove: Vec::new(),
            });
        }
        Step::Delete { identity } => batch.push(Op::DeleteVertex {
            vertex: object_of(engine, &schema, identity),
        }),
    }
    engine.apply(batch).unwrap();
}

/// Settings of a server that tells nothing of hidden vertices, not even their number.
fn concealing() -> Settings {
    Settings {
        access: AccessSettings {
            conceal_counts: true,
            ..AccessSettings::default()
        },
        ..settings()
    }
}

/// A server over a database with a complete history, or with the history without hidden data.
pub(super) struct HistoryServer {
    pub(super) server: Server,
    dir: tempfile::TempDir,
}

impl HistoryServer {
    pub(super) fn new(history: &History, whole: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("lab.esker");
        let target = target.to_str().unwrap();
        let options = OpenOptions::new().memory_bytes(32 << 20);
        drop(Database::init(target, &options).unwrap());
        Self::fill(&Path::new(target).join("store"), history, whole);
        let database = options.open(target).unwrap();
        let server = Self {
            server: Server::start(database, concealing()).unwrap(),
            dir,
        };
        for (name, rights, triples, seen) in &history.graphs {
            if whole || *seen {
                let data = match name.as_str() {
                    "" => triples.clone(),
                    name => format!("GRAPH <{name}> {{ {triples} }}"),
                };
                server.update(&format!(
                    "INSERT DATA {{ {data} GRAPH <urn:esker:rights> {{ {rights} }} }}"
                ));
            }
        }
        server.infer(history.inference);
        server
    }

    fn fill(store: &Path, history: &History, whole: bool) {
        let settings = StoreSettings {
            memory_bytes: 16 << 20,
            ..StoreSettings::default()
        };
        let store = FjallStore::open(store, &settings, false).unwrap();
        let clock = SimClock::at(BEGIN);
        let archive = Arc::new(MemoryArchive::default());
        let engine = Engine::open(
            Arc::new(store),
            Arc::new(clock.clone()),
            archive,
            EngineSettings::default(),
        )
        .unwrap();
        for (i, (step, instead)) in history.steps.iter().enumerate() {
            clock.set(BEGIN + STEP * (1 + i as u64));
            match instead {
                Some(other) if !whole => {
                    if let Some(other) = other {
                        apply_step(&engine, other);
                    }
                }
                _ => apply_step(&engine, step),
            }
        }
        engine.close().unwrap();
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.server.address()
    }

    /// A token that is bound to the limited user.
    pub(super) fn token_of_person(&self) -> String {
        let opens = TokenRights::new(Role::Read, Some("1001:1001,100")).unwrap();
        let token = grants::make_token(&self.dir.path().join("lab.esker"), &opens, 3_600, "a test");
        let token = token.unwrap();
        // The server checks its token file twice a second.
        wait_until("the token gives no access", || {
            http_by_token(self.at(), ("GET", "/api/v1/schema", ""), &token).0 == 200
        });
        token
    }

    fn update(&self, text: &str) {
        let mut stream = TcpStream::connect(self.at()).unwrap();
        let head = format!(
            "POST /sparql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/sparql-update\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    }

    /// Infers triples by these rules from all data.
    fn infer(&self, rules: &str) {
        let triple = "<http://x.example/s0> <http://x.example/p0> <http://x.example/s1> <http://x.example/all> .\n";
        let length = triple.len();
        let body = format!("{{\"name\":\"x\",\"format\":\"nq\",\"bytes\":{length}}}\n{triple}");
        let url = format!("/api/v1/rdf/load?infer={rules}");
        let (status, _, answer) = http(self.at(), "POST", &url, &body);
        assert_eq!(status, 200, "{answer}");
    }

    pub(super) fn open(&self) -> Database {
        OpenOptions::new()
            .open(&format!("esker://{}", self.at()))
            .unwrap()
    }
}

pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => out.push(char::from(byte)),
            byte => write!(out, "%{byte:02X}").unwrap(),
        }
        out
    })
}
