//! TLS for `ftps`, with the trusted certificates.

use crate::error::{Error, Result};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Files with the system's trusted certificates.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS to one server. The data channel reuses the session, so that servers recognize the client.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    origin: Box<str>,
}

impl Tls {
    pub(super) fn new(host: &str, trusted: Option<&Path>, origin: &str) -> Result<Self> {
        let env = || std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let system = || SYSTEM.iter().map(PathBuf::from).find(|file| file.exists());
        let file = trusted.map(Path::to_path_buf).or_else(env).or_else(system);
        let file = file.ok_or_else(|| Error::Unreachable {
            origin: origin.into(),
            why:
                "no trusted certificates: install ca-certificates, or name a file with SSL_CERT_FILE"
                    .into(),
        })?;
        let bad = |why: String| Error::InvalidName {
            what: file.display().to_string().into(),
            why: why.into(),
        };
        let mut roots = RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(&file).map_err(|e| bad(e.to_string()))?;
        // An unreadable certificate is not trusted.
        roots.add_parsable_certificates(read.flatten());
        if roots.is_empty() {
            return Err(bad("it has no certificates".into()));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| bad(e.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|e| Error::InvalidName {
            what: host.into(),
            why: e.to_string().into(),
        })?;
        Ok(Self {
            connector: Arc::new(config).into(),
            name,
            origin: origin.into(),
        })
    }

    pub(super) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: S,
    ) -> Result<TlsStream<S>> {
        let wrapped = self.connector.connect(self.name.clone(), io).await;
        wrapped.map_err(|error| Error::Unreachable {
            origin: self.origin.clone(),
            why: format!("TLS: {error}").into(),
        })
    }
}
