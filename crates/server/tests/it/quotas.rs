//! Quotas refuse what exceeds them, with a message that says which limit it is, how much is used and whom to ask. Other users are not
//! affected.

use crate::common::{Served, http_by_token, settings};
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_model::object::Identity;
use esker_model::{Batch, GraphWrite as _, Op, Properties};
use esker_server::Settings;
use esker_server::settings::{Quota, QuotaKind, Quotas};
use esker_testkit::wait::{eventually, wait_until};
use serde_json::Value as Json;
use std::io::Write as _;
use std::net::TcpStream;

/// Objects, and bytes of each: more than the buffers of a connection have room for.
const OBJECTS: usize = 4_000;
const NOTE_BYTES: usize = 10_000;

fn served(default: Quota) -> Served {
    Served::start(Settings {
        quotas: Quotas {
            contact: Some("storage@example.org".into()),
            default,
            ..Quotas::default()
        },
        ..settings()
    })
}

fn token(served: &Served, role: Role, user: Option<&str>) -> String {
    let rights = TokenRights::new(role, user).unwrap();
    let token = grants::make_token(&served.folder(), &rights, 3_600, "quota").unwrap();
    wait_until("the token gives no access", || {
        get(served, "/api/v1/schema", &token).0 == 200
    });
    token
}

fn get(served: &Served, path: &str, token: &str) -> (u16, String, String) {
    http_by_token(served.server.address(), ("GET", path, ""), token)
}

fn error_of(body: &str) -> String {
    let json: Json = serde_json::from_str(body).unwrap();
    json["error"].as_str().unwrap().to_owned()
}

/// Creates objects of user 1001 that are larger than all buffers together.
fn fill(served: &Served) {
    let database = served.open();
    for first in (0..OBJECTS).step_by(500) {
        let mut batch = Batch::new();
        for n in first..first + 500 {
            batch.push(Op::CreateObject {
                identity: Identity {
                    name: format!("object {n}"),
                    app: String::new(),
                    owner: 1001,
                    step: 0,
                },
                attributes: Properties::new(),
                tags: Properties::new().with("note", "x".repeat(NOTE_BYTES)),
            });
        }
        database.apply(batch).unwrap();
    }
}

/// Number that `/api/v1/quota` shows as used of a limit.
fn used(served: &Served, limit: &str, token: &str) -> Option<u64> {
    let (status, _, body) = get(served, "/api/v1/quota", token);
    assert_eq!(status, 200, "{body}");
    let json: Json = serde_json::from_str(&body).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["limit"] == limit)?;
    row["used"].as_u64()
}

#[test]
fn queries_in_progress_are_limited_by_user() {
    let served = served(Quota::default().with(QuotaKind::Queries, 1));
    fill(&served);
    let ada = token(&served, Role::Read, Some("1001:100"));
    let bob = token(&served, Role::Read, Some("1002:100"));
    // Another token of the same user is the same client.
    let again = token(&served, Role::Read, Some("1001:100"));
    // The client reads nothing of its answer, so that the query lasts.
    let mut stalled = TcpStream::connect(served.server.address()).unwrap();
    write!(
        stalled,
        "GET /api/v1/find?format=ndjson&select=name,note HTTP/1.1\r\nhost: elsewhere\r\nauthorization: Bearer {ada}\r\n\r\n"
    )
    .unwrap();
    wait_until("the query is not in progress", || {
        used(&served, "queries", &ada) == Some(1)
    });
    let find = "/api/v1/find?filter=step%20%3D%207&count=true";
    for token in [&ada, &again] {
        let (status, head, body) = get(&served, find, token);
        assert_eq!(status, 429, "{body}");
        assert_eq!(
            error_of(&body),
            "user 1001 has 1 queries in progress, and quotas.default.queries allows 1: wait for one to end, or ask storage@example.org"
        );
        assert!(head.to_ascii_lowercase().contains("retry-after"), "{head}");
    }
    assert_eq!(get(&served, find, &bob).0, 200);
    // The owner of the database has no limits.
    assert_eq!(served.json("GET", find, "").0, 200);
    let (_, _, metrics) = served.http("GET", "/metrics", "");
    assert!(
        metrics.contains("esker_quota_refused_total{limit=\"queries\"} 2"),
        "{metrics}"
    );
    drop(stalled);
    wait_until("the query does not end with its client", || {
        get(&served, find, &ada).0 == 200
    });
    // Administrators see all; others are told that they may not.
    let (status, all) = served.json("GET", "/api/v1/quota?all=true", "");
    assert_eq!(status, 200, "{all}");
    let (status, _, body) = get(&served, "/api/v1/quota?all=true", &ada);
    assert_eq!(status, 403, "{body}");
}

#[test]
fn a_query_has_a_time() {
    let served = served(Quota::default().with(QuotaKind::QueryTime, 1));
    fill(&served);
    let ada = token(&served, Role::Read, Some("1001:100"));
    // The answer has ten megabytes, which take longer than a millisecond.
    let (status, _, body) = get(&served, "/api/v1/find?limit=1000&select=note", &ada);
    assert_eq!(status, 503, "{}", body.len());
    assert_eq!(
        error_of(&body),
        "a query of user 1001 took longer than the 1 ms that quotas.default.query_time allows: narrow it, or ask storage@example.org"
    );
    let (status, _) = served.json("GET", "/api/v1/find?limit=1000&select=note", "");
    assert_eq!(status, 200);
}

#[test]
fn what_a_user_owns_is_limited() {
    let served = served(Quota::default().with(QuotaKind::Entries, 2));
    let writer = token(&served, Role::Write, None);
    let create = |owner: u32, name: &str| {
        let body = format!(r#"{{"name": "{name}", "owner": {owner}}}"#);
        let request = ("POST", "/api/v1/objects", body.as_str());
        let (status, _, body) = http_by_token(served.server.address(), request, &writer);
        (status, body)
    };
    let created = |owner: u32, name: &str| {
        let mut answer = String::new();
        // An object that is created while all are counted may count twice until the next count.
        wait_until("the object is not created", || {
            let (status, body) = create(owner, name);
            answer = body;
            status == 200
        });
        let json: Json = serde_json::from_str(&answer).unwrap();
        json["id"].as_str().unwrap().to_owned()
    };
    let first = created(1001, "a");
    created(1001, "b");
    eventually(|| {
        let (status, body) = create(1001, "c");
        assert_eq!(status, 507, "{body}");
        let expected = "user 1001 owns 2 files and objects, this request adds 1, and quotas.default.entries allows 2: \
            remove some, or ask storage@example.org";
        let error = error_of(&body);
        if error == expected {
            Ok(())
        } else {
            Err(error)
        }
    });
    created(1002, "a");
    // Changes and deletions are allowed.
    let path = format!("/api/v1/objects/{first}");
    let change = ("PATCH", path.as_str(), r#"{"set": {"note": "x"}}"#);
    let (status, _, body) = http_by_token(served.server.address(), change, &writer);
    assert_eq!(status, 200, "{body}");
    let delete = ("DELETE", path.as_str(), "");
    let (status, _, body) = http_by_token(served.server.address(), delete, &writer);
    assert_eq!(status, 200, "{body}");
    created(1001, "c");
    // The owner of the database may exceed the limits of others.
    let more = r#"{"name": "d", "owner": 1001}"#;
    assert_eq!(served.json("POST", "/api/v1/objects", more).0, 200);
}
