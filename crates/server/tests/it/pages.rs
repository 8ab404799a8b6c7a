//! Requests that a page of another site can make its reader's browser send to a server that the reader owns.

use crate::common::{Served, filled, settings};
use crate::raw::{Got, send};

const LINE: &str = r#"{"op":"ensure_vertex","id":"job:9"}"#;

fn vertices(served: &Served) -> String {
    let (status, _, body) = served.http("GET", "/api/v1/vertices?type=Execution", "");
    assert_eq!(status, 200, "{body}");
    body
}

fn apply(served: &Served, headers: &[(&str, &str)]) -> Got {
    let at = served.server.address();
    send(at, "POST", "/api/v1/apply", headers, LINE.as_bytes())
}

/// DNS rebinding: the attacker's name resolves to this machine, so that page and server have one origin and the page may send any type
/// and header, and reads the answers.
#[test]
fn a_name_that_was_made_to_lead_here_opens_nothing() {
    let served = Served::start(settings());
    filled(&served);
    let before = vertices(&served);
    let port = served.server.address().port();
    for host in [
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("0.0.0.0:{port}"),
        // Names without a dot can be set by networks: search domains, LLMNR.
        format!("esker:{port}"),
        "esker".to_owned(),
    ] {
        let origin = format!("http://{host}");
        for kind in [
            "application/grpc",
            "application/grpc+json",
            "application/json",
        ] {
            for more in [&[("origin", origin.as_str())][..], &[]] {
                let mut headers = vec![("host", host.as_str()), ("content-type", kind)];
                headers.extend_from_slice(more);
                let got = apply(&served, &headers);
                let refused = got.status == 401 || got.header("grpc-status") == Some("16");
                assert!(refused, "{host} {kind}: {}: {}", got.status, got.body);
                let at = served.server.address();
                for (method, path) in [
                    ("GET", "/api/v1/vertices?type=Execution"),
                    ("GET", "/api/v1/session"),
                    ("POST", "/api/v1/session/ticket"),
                    ("GET", "/sparql?query=ASK%20%7B%7D"),
                    ("POST", "/esker.v1.Access/Token"),
                ] {
                    let got = send(at, method, path, &headers, b"");
                    let refused = got.status == 401 || got.header("grpc-status") == Some("16");
                    assert!(
                        refused,
                        "{host} {kind} {path}: {}: {}",
                        got.status, got.body
                    );
                    assert!(!got.body.contains("ticket\":"), "{path}: {}", got.body);
                }
            }
        }
    }
    assert_eq!(vertices(&served), before);
}

/// Pages of another program on this machine, or at the other end of the reader's SSH tunnel, and images in any page.
#[test]
fn other_pages_of_this_machine_open_nothing() {
    let served = Served::start(settings());
    filled(&served);
    let before = vertices(&served);
    let at = served.server.address().to_string();
    let host = ("host", at.as_str());
    let json = ("content-type", "application/json");
    for foreign in [
        ("origin", "http://127.0.0.1:8888"),
        ("origin", "http://localhost:8000"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let got = apply(&served, &[host, json, foreign]);
        assert_eq!(got.status, 401, "{foreign:?}: {}", got.body);
        let address = served.server.address();
        for path in ["/sparql?query=ASK%20%7B%7D", "/api/v1/schema", "/metrics"] {
            let got = send(address, "GET", path, &[host, foreign], b"");
            assert_eq!(got.status, 401, "{foreign:?} {path}: {}", got.body);
            assert_eq!(got.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(vertices(&served), before);
    // The server's own page, and an address that the user typed.
    let origin = format!("http://{at}");
    let own = [
        host,
        json,
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(apply(&served, &own).status, 200);
    let typed = [host, ("sec-fetch-site", "none")];
    let got = send(
        served.server.address(),
        "GET",
        "/api/v1/schema",
        &typed,
        b"",
    );
    assert_eq!(got.status, 200);
}

/// A proxy of the owner's that forwards requests from elsewhere does not have the owner's rights.
#[test]
fn what_was_passed_on_is_not_its_proxys() {
    let served = Served::start(settings());
    for passed in [
        ("forwarded", "for=10.0.0.7"),
        ("x-forwarded-for", "10.0.0.7"),
        ("via", "1.1 proxy"),
    ] {
        let at = served.server.address();
        let got = send(at, "GET", "/api/v1/schema", &[passed], b"");
        assert_eq!(got.status, 401, "{passed:?}: {}", got.body);
        assert!(got.body.contains("passed on"), "{}", got.body);
    }
}

/// A page cannot send JSON to another origin without a preflight request, but it can send text and forms.
#[test]
fn what_changes_data_comes_as_json() {
    let served = Served::start(settings());
    filled(&served);
    let before = vertices(&served);
    let at = served.server.address();
    for kind in [
        "text/plain",
        "text/plain; charset=application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        for (path, body) in [
            ("/api/v1/apply", LINE),
            (
                "/api/v1/objects",
                r#"{"name": "n", "app": "a", "owner": 1, "step": 1}"#,
            ),
            ("/api/v1/tag", r#"{"filter": "step > 0", "set": {"t": 1}}"#),
            ("/api/v1/lineage", "{}"),
            ("/ingest/slurm/_doc", "{}"),
            ("/api/v1/session", r#"{"ticket": "x"}"#),
            ("/api/v1/travel", r#"{"chain": "v(\"job:1\")"}"#),
        ] {
            let mut headers = Vec::new();
            if !kind.is_empty() {
                headers.push(("content-type", kind));
            }
            let got = send(at, "POST", path, &headers, body.as_bytes());
            assert_eq!(got.status, 415, "{kind} {path}: {}", got.body);
            assert!(
                got.body.contains("Content-Type: application/"),
                "{}",
                got.body
            );
        }
    }
    assert_eq!(vertices(&served), before);
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/x-ndjson",
    ] {
        let got = apply(&served, &[("content-type", kind)]);
        assert_eq!(got.status, 200, "{kind}: {}", got.body);
    }
}

/// Responses have a fixed type, are for this server's pages only, and are not stored.
#[test]
fn answers_say_what_browsers_may_do_with_them() {
    let served = Served::start(settings());
    let at = served.server.address();
    for path in [
        "/api/v1/schema",
        "/sparql?query=ASK%20%7B%7D",
        "/rdf-graphs?default",
        "/metrics",
        "/nowhere",
        "/api/v1/find?filter=x",
    ] {
        let got = send(at, "GET", path, &[], b"");
        assert_eq!(
            got.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            got.header("cross-origin-resource-policy"),
            Some("same-origin"),
            "{path}"
        );
        assert_eq!(got.header("cache-control"), Some("no-store"), "{path}");
    }
    // The pages' files are cached by their tags.
    let got = send(at, "GET", "/", &[], b"");
    assert_eq!(got.header("cache-control"), Some("no-cache"));
    let refused = send(
        at,
        "GET",
        "/api/v1/schema",
        &[("host", "evil.example")],
        b"",
    );
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("cache-control"), Some("no-store"));
}
