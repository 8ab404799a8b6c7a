//! TLS under a connection, where the server or the user demands it.

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

/// What a connection is carried by.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Bytes of files would be encrypted with this once more; none are asked for, but a server waits for a key.
const KEY: (&str, usize, usize, usize) = ("AES-256-CBC", 32, 8, 16);

/// Whether there is TLS, and whom it trusts.
#[derive(Debug, Clone, Default)]
pub(super) struct Tls {
    /// The name that the certificate has to have.
    pub(super) host: Box<str>,
    /// Not without it, even if the server would.
    pub(super) required: bool,
    /// A file of certificates instead of those that this machine trusts.
    pub(super) trusted: Option<PathBuf>,
}

impl Tls {
    /// Wraps a connection, and hands over the key that the protocol demands.
    pub(super) async fn wrap(
        &self,
        plain: Box<dyn Stream>,
        origin: &str,
    ) -> Result<Box<dyn Stream>> {
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
                // One that cannot be read is one that is not trusted.
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
        let mut hello = pack_header(KEY.0, [KEY.1, KEY.2, KEY.3], 0);
        hello.extend(pack_header("SHARED_SECRET", [KEY.1, 0, 0], 0));
        hello.extend(key);
        let sent = async {
            stream.write_all(&hello).await?;
            stream.flush().await
        };
        sent.await.map_err(refused)?;
        Ok(Box::new(stream))
    }
}
