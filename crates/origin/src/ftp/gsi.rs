//! GSI: TLS inside FTP commands (RFC 2228), as implemented by Globus.
//!
//! Handshake records travel in `ADAT` commands and their replies, then each command in `ENC` and each reply line in a line of
//! its own, in base64. After the handshake the client sends `0`: it does not delegate its credential to the server.

use super::reply::Lines;
use crate::error::{Error, Result, printable};
use crate::origin_url::OriginUrl;
use crate::stream::Fault;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::version::TLS12;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Maximum number of bytes that wait for the end of a line.
const OPENED_MAX: usize = 64 << 10;
/// Maximum number of certificate files that are read.
const FILES_MAX: usize = 10_000;
/// The maximum size of a proxy certificate in bytes.
const PROXY_BYTES_MAX: u64 = 1 << 20;

/// Path of the proxy certificate, as Globus resolves it.
pub(super) fn proxy() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("X509_USER_PROXY").filter(|file| !file.is_empty()) {
        return Some(file.into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let uid = std::fs::metadata("/proc/self").ok()?.uid();
        let file = PathBuf::from(format!("/tmp/x509up_u{uid}"));
        file.exists().then_some(file)
    }
    #[cfg(not(unix))]
    None
}

/// Folder of the trusted certificates, as Globus resolves it.
pub(super) fn trusted() -> PathBuf {
    let named = std::env::var_os("X509_CERT_DIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| "/etc/grid-security/certificates".into(), PathBuf::from)
}

/// A TLS session whose records travel in FTP commands and replies.
#[derive(Debug)]
pub(super) struct Seal {
    tls: ClientConnection,
    /// Whether the `0` (no delegation) has been sent.
    delegation_declined: bool,
    /// Splits the input into lines that contain tokens.
    outer: Lines,
    /// Decrypted bytes.
    opened: BytesMut,
}

impl Seal {
    /// Creates a session with the proxy certificate in a file; `None` if there is no such file.
    pub(super) fn new(
        proxy: &Path,
        grid: Option<&Path>,
        origin_url: &OriginUrl,
    ) -> Result<Option<Self>> {
        let bad = |what: &Path, why: String| Error::InvalidName {
            what: what.display().to_string().into(),
            why: why.into(),
        };
        let about = match std::fs::metadata(proxy) {
            Ok(about) => about,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(bad(proxy, error.to_string())),
        };
        if about.len() > PROXY_BYTES_MAX {
            return Err(bad(proxy, "too large for a proxy certificate".into()));
        }
        if crate::credentials::is_readable_by_others(&about) {
            let why = format!(
                "others may read the key in it; chmod 600 {}",
                proxy.display()
            );
            return Err(bad(proxy, why));
        }
        let chain = CertificateDer::pem_file_iter(proxy);
        let chain: std::result::Result<Vec<_>, _> = chain.and_then(Iterator::collect);
        let chain = chain.map_err(|e| bad(proxy, format!("no certificate: {e}")))?;
        let key = PrivateKeyDer::from_pem_file(proxy);
        let key = key.map_err(|e| bad(proxy, format!("no private key: {e}")))?;
        let grid = grid.map_or_else(trusted, Path::to_path_buf);
        let roots = roots(&grid).map_err(|why| bad(&grid, why))?;
        let key = ring::sign::any_supported_type(&key).map_err(|e| bad(proxy, e.to_string()))?;
        // The key is not checked against the certificate: proxy certificates have an extension that not every library knows.
        let own = CertifiedKey::new(chain, key);
        // Globus ends the handshake in its own way, which requires TLS 1.2.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS12])
            .map_err(|e| bad(proxy, e.to_string()))?
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        let name = ServerName::try_from(origin_url.host.to_string());
        let name = name.map_err(|e| bad(Path::new(&*origin_url.host), e.to_string()))?;
        let tls = ClientConnection::new(Arc::new(config), name);
        Ok(Some(Self {
            tls: tls.map_err(|e| bad(proxy, e.to_string()))?,
            delegation_declined: false,
            outer: Lines::default(),
            opened: BytesMut::new(),
        }))
    }

    /// Runs one handshake step: takes the server's token and returns the next one.
    pub(super) fn step(&mut self, answer: &[u8]) -> std::result::Result<Vec<u8>, Box<str>> {
        self.take(answer)?;
        if !self.tls.is_handshaking() && !self.delegation_declined {
            self.delegation_declined = true;
            let delegation_declined = self.tls.writer().write_all(b"0");
            delegation_declined.map_err(|e| e.to_string())?;
        }
        self.records()
    }

    /// Whether the handshake is complete on both sides.
    pub(super) fn is_whole(&self) -> bool {
        !self.tls.is_handshaking() && self.delegation_declined
    }

    /// Decrypts the records of a token.
    fn take(&mut self, mut token: &[u8]) -> std::result::Result<(), Box<str>> {
        while !token.is_empty() {
            let read = self.tls.read_tls(&mut token);
            if read.map_err(|e| e.to_string())? == 0 {
                return Err("the server ended it".into());
            }
            let state = self.tls.process_new_packets();
            let state = state.map_err(|e| e.to_string())?;
            let from = self.opened.len();
            let count = state.plaintext_bytes_to_read();
            if from + count > OPENED_MAX {
                return Err("a line without an end".into());
            }
            self.opened.resize(from + count, 0);
            let to = self.opened.get_mut(from..).unwrap_or_default();
            self.tls
                .reader()
                .read_exact(to)
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn records(&mut self) -> std::result::Result<Vec<u8>, Box<str>> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).map_err(|e| e.to_string())?;
        }
        Ok(out)
    }

    /// The bytes decrypted so far.
    pub(super) fn opened(&mut self) -> &mut BytesMut {
        &mut self.opened
    }

    /// Decrypts the next token; false if it has not arrived completely.
    pub(super) fn open_next(&mut self, bytes: &mut BytesMut) -> std::result::Result<bool, Fault> {
        let Some(line) = self.outer.cut(bytes) else {
            return Ok(false);
        };
        let protocol_error =
            |why: &str| Fault::Protocol(format!("{why}: `{}`", printable(&line)).into());
        let token = match line.split_at_checked(4) {
            Some((b"631 " | b"631-" | b"632 " | b"632-" | b"633 " | b"633-", token)) => token,
            // An unprotected 421 is accepted: an attacker could as well cut the connection.
            Some((b"421 ", text)) => return Err(Fault::Closing(printable(text))),
            _ => return Err(protocol_error("a reply that is not protected")),
        };
        let token = STANDARD.decode(token.trim_ascii());
        let token = token.map_err(|_| protocol_error("not base64"))?;
        self.take(&token).map_err(|why| protocol_error(&why))?;
        Ok(true)
    }

    /// Encrypts a command into a token.
    pub(super) fn close(
        &mut self,
        command: &[u8],
        out: &mut BytesMut,
    ) -> std::result::Result<(), Fault> {
        let wrong = |why: String| Fault::Protocol(why.into());
        let written = self.tls.writer().write_all(command);
        written.map_err(|e| wrong(e.to_string()))?;
        let records = self.records().map_err(Fault::Protocol)?;
        out.extend_from_slice(b"ENC ");
        out.extend_from_slice(STANDARD.encode(records).as_bytes());
        out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

fn roots(folder: &Path) -> std::result::Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let entries = std::fs::read_dir(folder).map_err(|e| {
        format!("{e}; X509_CERT_DIR names the folder of certificates that are trusted")
    })?;
    for entry in entries.take(FILES_MAX) {
        let file = entry.map_err(|e| e.to_string())?.path();
        let is_one = |e: &std::ffi::OsStr| e == "pem" || e == "crt" || e == "0";
        if !file.extension().is_some_and(is_one) {
            continue;
        }
        // An unreadable certificate is not trusted.
        if let Ok(read) = CertificateDer::pem_file_iter(&file) {
            roots.add_parsable_certificates(read.flatten());
        }
    }
    if roots.is_empty() {
        return Err("no certificates that could be trusted".into());
    }
    Ok(roots)
}

/// Formats a handshake token as a command.
pub(super) fn adat(token: &[u8]) -> Vec<u8> {
    [b"ADAT ", STANDARD.encode(token).as_bytes()].concat()
}

/// Extracts the server's token from a reply; empty if there is no token.
pub(super) fn token(text: &[u8]) -> std::result::Result<Vec<u8>, Fault> {
    let Some(token) = text.strip_prefix(b"ADAT=") else {
        return Ok(Vec::new());
    };
    let token = STANDARD.decode(token.trim_ascii());
    token.map_err(|_| Fault::Protocol("ADAT is not base64".into()))
}
