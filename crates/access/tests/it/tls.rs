//! Handshakes in memory: the server key that a client learns, and the value that both ends share.

use esker_access::tls::{Client, exporter, exporter_of, key_in, server};
use esker_access::{HostKey, KeyData};
use proptest::prelude::*;
use rustls_pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

/// Carries bytes both ways until both handshakes are done.
fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), String> {
    let words = |e: tokio_rustls::rustls::Error| e.to_string();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().map_err(words)?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().map_err(words)?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

fn connect(config: Arc<ClientConfig>, name: ServerName<'static>) -> ClientConnection {
    ClientConnection::new(config, name).unwrap()
}

fn serving(key: &HostKey) -> Arc<ServerConfig> {
    let names = ["localhost".to_owned(), "10.0.0.7".to_owned()];
    Arc::new(server(key, &names, None, &[b"h2"]).unwrap())
}

#[test]
fn a_client_learns_the_key_and_both_a_secret() {
    let key = HostKey::generate().unwrap();
    let config = serving(&key);
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let wanted = Client::new(&[b"h2"]).unwrap();
        assert!(wanted.key().is_none());
        let mut client = connect(wanted.config(), Client::name().unwrap());
        let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
        shake(&mut client, &mut server).unwrap();
        assert_eq!(wanted.key().as_ref(), Some(key.public().key_data()));
        assert_eq!(client.alpn_protocol(), Some(b"h2".as_slice()));
        let secret = exporter_of(&client).unwrap();
        assert_eq!(exporter(&server), Some(secret));
        secrets.push(secret);
    }
    // Another connection has another value, although keys and ends are the same.
    assert_ne!(secrets[0], secrets[1]);
}

/// A man in the middle ends both connections with a key of their own: the client detects the key, and the values differ.
#[test]
fn somebody_in_the_middle_is_seen_and_has_two_secrets() {
    let (real, middle) = (HostKey::generate().unwrap(), HostKey::generate().unwrap());
    let ends = |key: &HostKey| {
        let wanted = Client::new(&[]).unwrap();
        let mut client = connect(wanted.config(), Client::name().unwrap());
        let mut server = ServerConnection::new(serving(key)).unwrap();
        shake(&mut client, &mut server).unwrap();
        (wanted.key().unwrap(), exporter_of(&client).unwrap())
    };
    let (shown, ours) = ends(&middle);
    let (_, theirs) = ends(&real);
    assert_ne!(&shown, real.public().key_data());
    assert_ne!(ours, theirs);
}

#[test]
fn certificates_hold_the_key() {
    let key = HostKey::generate().unwrap();
    let (certificate, _) = key.certificate(&["lab".to_owned()]).unwrap();
    let held: Option<KeyData> = key_in(&certificate);
    assert_eq!(held.as_ref(), Some(key.public().key_data()));
}

proptest! {
    #[test]
    fn any_bytes_are_a_certificate_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(key_in(&CertificateDer::from(bytes)), None);
    }

    #[test]
    fn a_changed_certificate_is_read_or_not(at in 0_usize..1_000, to in any::<u8>()) {
        let key = HostKey::generate().unwrap();
        let (certificate, _) = key.certificate(&[]).unwrap();
        let mut bytes = certificate.to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = key_in(&CertificateDer::from(bytes));
    }
}
