//! Connections beyond the limits: some get an error, others are closed without one, after a delay.

use crate::common::{Served, settings};
use esker_access::slots::{CLOSE_AFTER, OWNER_CONNECTIONS, REFUSED_CONNECTIONS_MAX};
use esker_server::Settings;
use esker_server::settings::Limits;
use std::io::Read as _;
use std::net::TcpStream;
use std::time::Instant;

/// A client that reconnects as soon as a connection is closed would keep the server busy with accepting if connections were closed at
/// once. The number of waiting ones is bounded, which a test of `esker_access::slots` checks.
#[test]
fn refused_connections_are_closed_later() {
    let served = Served::start(Settings {
        limits: Limits {
            connections: 1,
            ..Limits::default()
        },
        ..settings()
    });
    let all: Vec<_> = (0..=OWNER_CONNECTIONS).map(|_| served.open()).collect();
    let (status, _, body) = served.http("GET", "/healthz", "");
    assert_eq!(status, 429, "{body}");
    assert!(
        body.contains("the server has 17 connections, the maximum: close some"),
        "{body}"
    );
    // More connections than get an error. None of them sends anything.
    let at = served.server.address();
    let closed: Vec<_> = (0..REFUSED_CONNECTIONS_MAX + 50)
        .map(|_| {
            std::thread::spawn(move || {
                let began = Instant::now();
                let mut stream = TcpStream::connect(at).unwrap();
                let mut said = Vec::new();
                // Closed or reset.
                let _ = stream.read_to_end(&mut said);
                (began.elapsed(), said)
            })
        })
        .collect();
    for closed in closed {
        let (after, said) = closed.join().unwrap();
        assert!(after >= CLOSE_AFTER, "closed after {after:?}");
        assert_eq!(said, b"");
    }
    drop(all);
}
