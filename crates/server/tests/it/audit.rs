//! The audit log of a server, read after it has stopped.

use crate::common::{http, http_by_token, settings, vertex};
use esker::{Database, OpenOptions};
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_audit::verify;
use esker_model::{Batch, GraphRead as _, GraphWrite as _, Op, Properties, Version};
use esker_rpc::proto;
use esker_rpc::proto::access_client::AccessClient;
use esker_rpc::proto::esker_client::EskerClient;
use esker_server::settings::{AuditLevel, AuditSettings};
use esker_server::{Server, Settings};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio bob@lab";

/// A server that records what one level says.
struct Audited {
    /// A token with the role `read`, from before the start of the server.
    token: String,
    server: Server,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Audited {
    fn start(log: AuditLevel) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("lab.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let database = options.open(folder.to_str().unwrap()).unwrap();
        let rights = TokenRights::new(Role::Read, None).unwrap();
        let token = grants::make_token(&folder, &rights, 3_600, "portal").unwrap();
        let audit = AuditSettings {
            log,
            ..AuditSettings::default()
        };
        let settings = Settings {
            audit,
            ..settings()
        };
        Self {
            server: Server::start(database, settings).unwrap(),
            folder,
            token,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
            _dir: dir,
        }
    }

    fn target(&self) -> String {
        format!("esker://{}", self.server.address())
    }

    /// A connection of gRPC; with another host name, the user of this process does not count.
    fn channel(&self, host: &str) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.server.address()));
        let endpoint = endpoint
            .unwrap()
            .origin(format!("http://{host}").parse().unwrap());
        self.runtime.block_on(endpoint.connect()).unwrap()
    }

    /// Stops the server and returns its records, without those of the log itself.
    fn records(self) -> Vec<Value> {
        assert!(self.server.stop().unwrap());
        let log = self.folder.join("audit");
        let report = verify(&log, &[]).unwrap();
        assert!(report.is_intact(), "{report:?}");
        let lines = lines(&log);
        let last = lines.last().unwrap();
        assert_eq!(last["event"], "stop");
        let own = ["segment", "start", "stop"];
        lines
            .into_iter()
            .filter(|line| !own.contains(&line["event"].as_str().unwrap()))
            .collect()
    }
}

fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log.join("00000001.jsonl")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Removes the keys whose values differ from run to run, after a check of their form.
fn steady(record: &Value) -> Value {
    let mut fields = record.as_object().unwrap().clone();
    assert!(fields["request"].as_u64().unwrap() > 0, "{record}");
    for key in [
        "seq", "time", "prev", "request", "micros", "peer", "who", "uid",
    ] {
        fields.remove(key);
    }
    fields.into()
}

fn put(database: &Database, name: &str) {
    let mut batch = Batch::new();
    batch.push(Op::PutVertex {
        vertex: vertex(database, name),
        key: name.split_once(':').unwrap().1.into(),
        attributes: Properties::new().with("size", 4_711),
    });
    database.apply(batch).unwrap();
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

#[test]
fn allowed_and_refused_requests_are_recorded() {
    let audited = Audited::start(AuditLevel::All);
    let database = OpenOptions::new().open(&audited.target()).unwrap();
    let at = audited.server.address();
    let token = audited.token.clone();

    put(&database, "file:/in");
    let output = vertex(&database, "file:/in");
    let _ = database.read_vertices(&[output.id], Version::MAX).unwrap();
    let (status, head, _) = http(at, "GET", "/api/v1/vertex?id=file:/none&uid=5&gids=7", "");
    assert_eq!(status, 404);
    let (status, refused_head, _) = http_by_token(at, ("POST", "/api/v1/apply", "{}"), &token);
    assert_eq!(status, 403);
    let id = |head: &str| {
        let line = head
            .lines()
            .find(|l| l.to_ascii_lowercase().starts_with("x-request-id: "));
        line.unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .trim()
            .parse::<u64>()
            .unwrap()
    };
    let (asked, refused) = (id(&head), id(&refused_head));
    assert!(asked < refused);

    let plain = audited.channel("elsewhere");
    let mut client = EskerClient::new(plain);
    let names = proto::ReadVerticesRequest {
        names: vec!["file:/in".into(), "file:/out".into()],
        ..Default::default()
    };
    let read = audited
        .runtime
        .block_on(client.read_vertices(with_token(names, &token)));
    assert_eq!(read.unwrap().into_inner().items.len(), 2);
    let apply = with_token(proto::ApplyRequest::default(), &token);
    let applied = audited.runtime.block_on(client.apply(apply)).unwrap_err();
    assert_eq!(applied.code(), Code::PermissionDenied);

    let mut access = AccessClient::new(audited.channel(&at.to_string()));
    let grant = proto::GrantRequest {
        key: KEY.into(),
        role: "write".into(),
        from: Some("10.0.0.0/8".into()),
        ..Default::default()
    };
    audited.runtime.block_on(access.grant(grant)).unwrap();
    let revoke = proto::RevokeRequest {
        key: "bob@lab".into(),
    };
    audited.runtime.block_on(access.revoke(revoke)).unwrap();
    drop((database, client, access));

    let records = audited.records();
    let of = |call: &str| -> Vec<&Value> { records.iter().filter(|r| r["call"] == call).collect() };
    let [read, by_token] = of("read_vertices")[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(
        steady(read),
        json!({"event": "call", "proof": "process", "role": "admin", "protocol": "grpc", "call": "read_vertices",
               "targets": [output.id.to_string()], "targets_total": 1, "rows": 1, "result": "ok"}),
    );
    assert_eq!(
        steady(by_token),
        json!({"event": "call", "proof": "token", "role": "read", "protocol": "grpc", "call": "read_vertices",
               "targets": ["file:/in", "file:/out"], "targets_total": 2, "rows": 1, "result": "ok"}),
    );
    assert!(
        by_token["who"].as_str().unwrap().starts_with("token:"),
        "{by_token}"
    );
    assert!(by_token["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    let [vertex] = of("GET /api/v1/vertex")[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(
        steady(vertex),
        json!({"event": "call", "proof": "process", "role": "admin", "protocol": "http", "call": "GET /api/v1/vertex",
               "path": "/api/v1/vertex?id=file:/none&uid=5&gids=7", "as": {"uid": 5, "gids": [7]}, "status": 404, "result": "error", "error": "404"}),
    );
    assert_eq!(vertex["request"], asked);
    for (call, protocol) in [("POST /api/v1/apply", "http"), ("apply", "grpc")] {
        let refusals: Vec<_> = of(call)
            .into_iter()
            .filter(|r| r["event"] == "refusal")
            .collect();
        let [record] = refusals[..] else {
            panic!("{call}: {records:#?}");
        };
        let mut steady = steady(record);
        let reason = steady.as_object_mut().unwrap().remove("reason").unwrap();
        assert!(
            reason.as_str().unwrap().contains("has role `read` here"),
            "{reason}"
        );
        assert_eq!(
            steady,
            json!({"event": "refusal", "proof": "none", "protocol": protocol, "call": call, "result": "refused", "why": "role"}),
        );
        if protocol == "http" {
            assert_eq!(record["request"], refused);
        }
    }
    let [grant] = of("Grant")[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(
        (&grant["event"], &grant["granted"]),
        (&json!("access"), &json!("write from 10.0.0.0/8"))
    );
    assert!(
        grant["grantee"].as_str().unwrap().ends_with("(bob@lab)"),
        "{grant}"
    );
    assert!(
        of("Revoke")[0]["revoked"]
            .as_str()
            .unwrap()
            .contains("bob@lab")
    );
    assert!(
        records.iter().all(|r| !r.to_string().contains(&token)),
        "a token is in the log"
    );
    let mut requests: Vec<u64> = records
        .iter()
        .map(|r| r["request"].as_u64().unwrap())
        .collect();
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(
        requests.len(),
        records.len(),
        "each request has a number of its own"
    );
}

#[test]
fn a_level_leaves_out_what_it_does_not_name() {
    for (level, expected) in [
        (AuditLevel::Refused, vec!["GET /api/v1/stats"]),
        (AuditLevel::Writes, vec!["apply", "GET /api/v1/stats"]),
    ] {
        let audited = Audited::start(level);
        let database = OpenOptions::new().open(&audited.target()).unwrap();
        put(&database, "file:/in");
        let file = vertex(&database, "file:/in");
        let _ = database.read_vertices(&[file.id], Version::MAX).unwrap();
        let refused = http_by_token(
            audited.server.address(),
            ("GET", "/api/v1/stats", ""),
            "none",
        );
        assert_eq!(refused.0, 401);
        drop(database);
        let records = audited.records();
        let calls: Vec<&str> = records
            .iter()
            .map(|r| r["call"].as_str().unwrap())
            .collect();
        assert_eq!(calls, expected);
        if let Some(apply) = records.iter().find(|r| r["call"] == "apply") {
            assert_eq!(apply["targets"], json!(["File:/in"]));
            assert!(
                !apply.to_string().contains("4711"),
                "a value is in the log: {apply}"
            );
        }
        assert_eq!(records.last().unwrap()["why"], "unknown_key");
    }
}

#[test]
fn a_server_without_a_log_has_no_folder_of_it() {
    let audited = Audited::start(AuditLevel::Off);
    let (status, head, _) = http(audited.server.address(), "GET", "/api/v1/stats", "");
    assert_eq!(status, 200);
    assert!(head.to_ascii_lowercase().contains("x-request-id: "));
    assert!(audited.server.stop().unwrap());
    assert!(!audited.folder.join("audit").exists());
}
