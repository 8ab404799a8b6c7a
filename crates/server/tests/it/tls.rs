//! TLS, and the certificates that clients trust.

use crate::common::{Served, filled, settings};
use esker::OpenOptions;
use esker_model::GraphRead as _;
use esker_server::Settings;
use esker_server::settings::Tls;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    std::path::absolute("tests/it/tls").unwrap().join(name)
}

fn served() -> Served {
    Served::start(Settings {
        tls: Some(Tls {
            certificate: file("server.pem"),
            key: file("server.key"),
        }),
        ..settings()
    })
}

#[test]
fn a_client_that_trusts_the_authority_is_served() {
    let served = served();
    let open = |target: &str| OpenOptions::new().open(target);
    for host in ["127.0.0.1", "localhost"] {
        let port = served.server.address().port();
        let target = format!("esker://{host}:{port}?tls={}", file("ca.pem").display());
        assert!(open(&target).unwrap().counts().is_ok(), "by {host}");
    }
    let target = served.target();
    let other = open(&format!("{target}?tls={}", file("other.pem").display())).unwrap_err();
    assert!(other.to_string().contains("TLS with"), "{other}");
    let plain = open(&format!("{target}?timeout=2s")).unwrap_err();
    assert!(plain.to_string().contains("TLS"), "{plain}");
    let absent = open(&format!("{target}?tls=/nowhere.pem")).unwrap_err();
    assert!(
        absent
            .to_string()
            .contains("reading the certificates to trust, `/nowhere.pem`"),
        "{absent}"
    );
    let empty = open(&format!("{target}?tls=/dev/null")).unwrap_err();
    assert!(empty.to_string().contains("/dev/null"), "{empty}");
}

#[test]
fn a_plain_server_is_not_asked_by_tls() {
    let served = Served::start(settings());
    filled(&served);
    let target = format!(
        "{}?tls={}&timeout=2s",
        served.target(),
        file("ca.pem").display()
    );
    let e = OpenOptions::new().open(&target).unwrap_err();
    assert!(e.to_string().contains("TLS"), "{e}");
}

#[test]
fn an_identity_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let start = |certificate: PathBuf, key: PathBuf| {
        let database = OpenOptions::new()
            .create(true)
            .open(path.to_str().unwrap())
            .unwrap();
        let settings = Settings {
            tls: Some(Tls { certificate, key }),
            ..settings()
        };
        esker_server::Server::start(database, settings)
            .unwrap_err()
            .to_string()
    };
    let e = start(file("ca.pem"), file("server.key"));
    assert!(e.contains("make no server's identity"), "{e}");
    let e = start(file("server.key"), file("server.key"));
    assert!(e.contains("holds no certificates"), "{e}");
    let e = start(file("server.pem"), file("server.pem"));
    assert!(e.contains("holds no private key"), "{e}");
    let e = start(file("none.pem"), file("server.key"));
    assert!(e.contains("none.pem"), "{e}");
}
