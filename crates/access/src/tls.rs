//! Encryption: TLS 1.3, whose certificate holds the host key and nothing that matters else.

use crate::host_key::HostKey;
use crate::proof::{EXPORTER_BYTES, LABEL};
use crate::slots::HEAD_MAX;
use esker_model::{Error, Result};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{ClientConnectionData, Resumption};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, ProtocolVersion, ServerConfig,
    SignatureScheme, version,
};
use tokio_rustls::server::TlsStream;

/// The name that a client asks for which knows the server by its host key. Others are shown the certificate that the
/// server was given, if it was.
pub const NAME: &str = "host-key.esker.invalid";
/// The first byte of a connection that begins with TLS.
pub const FIRST_BYTE: u8 = 0x16;

/// What comes before the 32 bytes of a key of Ed25519 in a certificate (RFC 8410, section 4).
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The key in a certificate, if it is one that a host key makes.
pub fn key_in(certificate: &CertificateDer<'_>) -> Option<KeyData> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&SPKI)?;
    let key = <[u8; 32]>::try_from(key).ok()?;
    Some(KeyData::Ed25519(Ed25519PublicKey(key)))
}

/// Takes any certificate of a host key, and keeps the key: whether it is the right one is looked up afterwards, before
/// anything is said.
#[derive(Debug)]
struct Keep {
    seen: Mutex<Option<KeyData>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Keep {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let key = key_in(certificate).ok_or_else(|| {
            rustls::Error::General("the server shows no host key of Ed25519".into())
        })?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".into()))
    }

    /// That the server has the key is proved by this signature.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// A client's side of one connection.
#[derive(Debug)]
pub struct Client {
    keep: Arc<Keep>,
    config: Arc<ClientConfig>,
}

impl Client {
    /// For one connection, over which these protocols are spoken.
    pub fn new(protocols: &[&[u8]]) -> Result<Self> {
        let provider = provider();
        let keep = Arc::new(Keep {
            seen: Mutex::new(None),
            provider: Arc::clone(&provider),
        });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| Error::Target(format!("TLS cannot be set up: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&keep) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        // Each connection sees the key itself.
        config.resumption = Resumption::disabled();
        Ok(Self {
            keep,
            config: Arc::new(config),
        })
    }

    /// For the handshake.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name to ask for.
    pub fn name() -> Result<ServerName<'static>> {
        ServerName::try_from(NAME).map_err(|e| Error::Target(e.to_string()))
    }

    /// The key that the server proved to have, once the handshake is done.
    pub fn key(&self) -> Option<KeyData> {
        let seen = self.keep.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What only the two ends of this connection know; none unless TLS 1.3 is spoken.
pub fn exporter<Data>(connection: &ConnectionCommon<Data>) -> Option<[u8; EXPORTER_BYTES]> {
    if connection.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return None;
    }
    let out = connection.export_keying_material([0; EXPORTER_BYTES], LABEL, None);
    out.ok()
}

/// The same of a client's connection.
pub fn exporter_of(
    connection: &ConnectionCommon<ClientConnectionData>,
) -> Option<[u8; EXPORTER_BYTES]> {
    exporter(connection)
}

/// Which certificate a client is shown.
#[derive(Debug)]
struct Choice {
    host: Arc<CertifiedKey>,
    given: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_host_key = hello.server_name() == Some(NAME);
        match &self.given {
            Some(given) if !by_host_key => Some(Arc::clone(given)),
            _ => Some(Arc::clone(&self.host)),
        }
    }
}

/// A server's side: the host key, which clients that ask for [`NAME`] are shown, and a certificate for all others, if there
/// is one. `names` are those of the server, for clients that know no host keys.
pub fn server(
    host: &HostKey,
    names: &[String],
    given: Option<CertifiedKey>,
    protocols: &[&[u8]],
) -> Result<ServerConfig> {
    let bad = |e: rustls::Error| Error::Target(format!("TLS cannot be set up: {e}"));
    let provider = provider();
    let (certificate, key) = host.certificate(names)?;
    let host = CertifiedKey::from_der(vec![certificate], key.into(), &provider).map_err(bad)?;
    let choice = Choice {
        host: Arc::new(host),
        given: given.map(Arc::new),
    };
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = match choice.given {
        // Such clients may be old.
        Some(_) => builder.with_safe_default_protocol_versions(),
        None => builder.with_protocol_versions(&[&version::TLS13]),
    };
    let mut config = builder
        .map_err(bad)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(choice));
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    Ok(config)
}

/// A connection that has begun.
#[derive(Debug)]
pub enum Begun {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Why a connection has not begun.
#[derive(Debug)]
pub enum NotBegun {
    /// Its client said nothing in time, or not enough to agree on TLS.
    Silent,
    /// Its client did not agree on TLS.
    Tls(std::io::Error),
}

/// Waits for a client's first byte, which says whether it speaks TLS, and agrees on that with it: [`HEAD_MAX`] for each. What begins otherwise is
/// `plain` or has failed to agree; without `tls` all is plain.
pub async fn begin(
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    plain: bool,
) -> std::result::Result<Begun, NotBegun> {
    let mut byte = [0];
    let first = tokio::time::timeout(HEAD_MAX, stream.peek(&mut byte)).await;
    if !matches!(first, Ok(Ok(1))) {
        return Err(NotBegun::Silent);
    }
    let Some(tls) = tls.filter(|_| !plain || byte == [FIRST_BYTE]) else {
        return Ok(Begun::Plain(stream));
    };
    match tokio::time::timeout(HEAD_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => Ok(Begun::Encrypted(Box::new(stream))),
        Ok(Err(e)) => Err(NotBegun::Tls(e)),
        Err(_) => Err(NotBegun::Silent),
    }
}

/// The names and addresses by which clients may call a server that listens at `HOST:PORT`: those of this machine, and that host.
pub fn names(listen: &str) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        names.push(name.trim().to_owned());
    }
    if let Some((host, _)) = listen.rsplit_once(':') {
        names.push(host.trim_matches(['[', ']']).to_owned());
    }
    // A name that no certificate can hold is none of the server's.
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    names.retain(|n| !n.is_empty() && n.chars().all(good));
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_that_a_certificate_can_hold() {
        let names = super::names("[fe80::1%eth0]:7400");
        assert!(names.contains(&"localhost".to_owned()));
        assert!(!names.iter().any(|n| n.contains('%')), "{names:?}");
        assert!(super::names("10.0.0.7:0").contains(&"10.0.0.7".to_owned()));
    }
}
