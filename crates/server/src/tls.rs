//! TLS with a certificate from the settings. The host key is in `access`.

use crate::settings::Tls;
use esker_model::{Error, Result};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::sign::CertifiedKey;

fn bad(file: &Path, what: &str, e: impl std::fmt::Display) -> Error {
    Error::Target(format!(
        "`{}` holds no {what} in PEM form: {e}",
        file.display()
    ))
}

/// Reads the certificate and its key.
pub(crate) fn load(tls: &Tls) -> Result<CertifiedKey> {
    let read = |file: &Path| {
        std::fs::read(file).map_err(|e| Error::io(format!("reading `{}`", file.display()), e))
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read(&tls.certificate)?).collect();
    let chain = chain.map_err(|e| bad(&tls.certificate, "certificates", e))?;
    if chain.is_empty() {
        return Err(bad(&tls.certificate, "certificates", "the file has none"));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&tls.key)?)
        .map_err(|e| bad(&tls.key, "private key", e))?;
    let fits = |e: tokio_rustls::rustls::Error| {
        Error::Target(format!(
            "the key in `{}` and the certificates in `{}` make no server's identity: {e}",
            tls.key.display(),
            tls.certificate.display()
        ))
    };
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(fits)
}
