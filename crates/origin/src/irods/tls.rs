//! TLS for iRODS, if the server or the user requires it.

use super::message::pack_header;
use crate::error::{Error, Result};
use hyper_rustls::ConfigBuilderExt as _;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

/// A byte stream to the server, plain or encrypted.
pub(crate) trait IrodsTransport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> IrodsTransport for S {}

/// Key parameters that a server waits for: encryption of file contents, which are never requested.
const KEY: (&str, usize, usize, usize) = ("AES-256-CBC", 32, 8, 16);

/// TLS policy and trusted certificates.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsPolicy {
    /// The host name that the certificate must have.
    pub(super) host: Box<str>,
    /// Whether TLS is required even if the server would do without.
    pub(super) required: bool,
    /// A certificates file that replaces the system's.
    pub(super) trusted: Option<PathBuf>,
}

impl TlsPolicy {
    /// Starts TLS on a connection and sends the key that the protocol requires.
    pub(super) async fn wrap(
        &self,
        plain: Box<dyn IrodsTransport>,
        origin: &str,
    ) -> Result<Box<dyn IrodsTransport>> {
        let unsupported = |why: String| Error::Unsupported {
            origin: origin.into(),
            why: why.into(),
        };
        let provider = ring::default_provider();
        let mut key = vec![0; KEY.1];
        let random = provider.secure_random.fill(&mut key);
        random.map_err(|_| unsupported("this machine has no random numbers".into()))?;
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| unsupported(e.to_string()))?;
        let config = match &self.trusted {
            None => config.with_native_roots().map_err(|e| {
                unsupported(format!(
                    "this machine has no certificates to trust ({e}); install ca-certificates, or set \
                     irods_ssl_ca_certificate_file"
                ))
            })?,
            Some(file) => {
                let mut roots = RootCertStore::empty();
                let read = CertificateDer::pem_file_iter(file);
                let read = read.map_err(|e| unsupported(format!("{}: {e}", file.display())))?;
                // An unreadable certificate is not trusted.
                roots.add_parsable_certificates(read.flatten());
                config.with_root_certificates(roots)
            }
        };
        let name = ServerName::try_from(self.host.to_string());
        let name = name.map_err(|e| unsupported(e.to_string()))?;
        let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
        let refused = |e: std::io::Error| {
            Error::Denied {
            origin: origin.into(),
            why: format!(
                "TLS failed: {e} (is irods_ssl_ca_certificate_file right, and the host's name that of its certificate?)"
            )
            .into(),
        }
        };
        let mut stream = connector.connect(name, plain).await.map_err(refused)?;
        let mut handshake = pack_header(KEY.0, [KEY.1, KEY.2, KEY.3], 0);
        handshake.extend(pack_header("SHARED_SECRET", [KEY.1, 0, 0], 0));
        handshake.extend(key);
        let sent = async {
            stream.write_all(&handshake).await?;
            stream.flush().await
        };
        sent.await.map_err(refused)?;
        Ok(Box::new(stream))
    }
}
