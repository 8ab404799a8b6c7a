//! TLS 1.3 whose certificate serves only to carry the host key.

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

/// Server name in the handshake of clients that know the server by its host key. Other clients get the certificate that the server
/// was configured with, if there is one.
pub const NAME: &str = "host-key.esker.invalid";
/// First byte of a connection that begins with TLS.
pub const FIRST_BYTE: u8 = 0x16;

/// Prefix of the 32 bytes of an Ed25519 key in a certificate (RFC 8410, section 4).
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the key of a certificate if a host key made it.
pub fn key_in(certificate: &CertificateDer<'_>) -> Option<KeyData> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&SPKI)?;
    let key = <[u8; 32]>::try_from(key).ok()?;
    Some(KeyData::Ed25519(Ed25519PublicKey(key)))
}

/// Accepts any host key certificate and keeps the key, which is looked up after the handshake, before anything is sent.
#[derive(Debug)]
struct HostKeyRecorder {
    key: Mutex<Option<KeyData>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for HostKeyRecorder {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let key = key_in(certificate).ok_or_else(|| {
            rustls::Error::General("the server presents no Ed25519 host key".into())
        })?;
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is supported".into()))
    }

    /// This signature proves that the server has the key.
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

/// Client side of one TLS connection.
#[derive(Debug)]
pub struct Client {
    recorder: Arc<HostKeyRecorder>,
    config: Arc<ClientConfig>,
}

impl Client {
    /// Creates the client side of one connection with the given ALPN protocols.
    pub fn new(protocols: &[&[u8]]) -> Result<Self> {
        let provider = provider();
        let recorder = Arc::new(HostKeyRecorder {
            key: Mutex::new(None),
            provider: Arc::clone(&provider),
        });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| Error::Target(format!("TLS cannot be set up: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&recorder) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        // Each connection has to obtain the key itself.
        config.resumption = Resumption::disabled();
        Ok(Self {
            recorder,
            config: Arc::new(config),
        })
    }

    /// Returns the configuration for the handshake.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Returns the server name for the handshake, [`NAME`].
    pub fn name() -> Result<ServerName<'static>> {
        ServerName::try_from(NAME).map_err(|e| Error::Target(e.to_string()))
    }

    /// Returns the key that the server proved, once the handshake is done.
    pub fn key(&self) -> Option<KeyData> {
        let key = self.recorder.key.lock();
        key.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the exported value that only the two ends of this connection know; `None` without TLS 1.3.
pub fn exporter<Data>(connection: &ConnectionCommon<Data>) -> Option<[u8; EXPORTER_BYTES]> {
    if connection.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return None;
    }
    let out = connection.export_keying_material([0; EXPORTER_BYTES], LABEL, None);
    out.ok()
}

/// Returns [`exporter`] of a client's connection.
pub fn exporter_of(
    connection: &ConnectionCommon<ClientConnectionData>,
) -> Option<[u8; EXPORTER_BYTES]> {
    exporter(connection)
}

/// Certificates that a server selects from.
#[derive(Debug)]
struct CertificateResolver {
    host: Arc<CertifiedKey>,
    configured: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_host_key = hello.server_name() == Some(NAME);
        match &self.configured {
            Some(configured) if !by_host_key => Some(Arc::clone(configured)),
            _ => Some(Arc::clone(&self.host)),
        }
    }
}

/// Returns the server side's configuration: the host key's certificate for clients that ask for [`NAME`], and `configured` for all others,
/// if there is one. `names` are those of the server, for clients that know no host keys.
pub fn server(
    host: &HostKey,
    names: &[String],
    configured: Option<CertifiedKey>,
    protocols: &[&[u8]],
) -> Result<ServerConfig> {
    let bad = |e: rustls::Error| Error::Target(format!("TLS cannot be set up: {e}"));
    let provider = provider();
    let (certificate, key) = host.certificate(names)?;
    let host = CertifiedKey::from_der(vec![certificate], key.into(), &provider).map_err(bad)?;
    let resolver = CertificateResolver {
        host: Arc::new(host),
        configured: configured.map(Arc::new),
    };
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = match resolver.configured {
        // Clients that use this certificate may not support TLS 1.3.
        Some(_) => builder.with_safe_default_protocol_versions(),
        None => builder.with_protocol_versions(&[&version::TLS13]),
    };
    let mut config = builder
        .map_err(bad)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    Ok(config)
}

/// An accepted connection, with or without TLS.
#[derive(Debug)]
pub enum Accepted {
    /// Connection without TLS.
    Plain(TcpStream),
    /// Connection with TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// Reason why a connection could not begin.
#[derive(Debug)]
pub enum NotAccepted {
    /// The client sent nothing in time, or did not finish the handshake.
    Silent,
    /// The TLS handshake failed.
    Tls(std::io::Error),
}

/// Waits for a client's first byte, which shows whether the client speaks TLS, and does the handshake, each within [`HEAD_MAX`].
/// Other connections are accepted if `plain`, or otherwise fail in the handshake; without `tls`, all are plain.
pub async fn accept(
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    plain: bool,
) -> std::result::Result<Accepted, NotAccepted> {
    let mut byte = [0];
    let first = tokio::time::timeout(HEAD_MAX, stream.peek(&mut byte)).await;
    if !matches!(first, Ok(Ok(1))) {
        return Err(NotAccepted::Silent);
    }
    let Some(tls) = tls.filter(|_| !plain || byte == [FIRST_BYTE]) else {
        return Ok(Accepted::Plain(stream));
    };
    match tokio::time::timeout(HEAD_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => Ok(Accepted::Encrypted(Box::new(stream))),
        Ok(Err(e)) => Err(NotAccepted::Tls(e)),
        Err(_) => Err(NotAccepted::Silent),
    }
}

/// Returns the names and addresses of a server that listens at `HOST:PORT`: those of this machine, and that host.
pub fn names(listen: &str) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        names.push(name.trim().to_owned());
    }
    if let Some((host, _)) = listen.rsplit_once(':') {
        names.push(host.trim_matches(['[', ']']).to_owned());
    }
    // Drops names that a certificate cannot contain.
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
