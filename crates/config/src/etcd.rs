//! Connection settings of etcd: the certificates and the account that a configuration file names, read when a connection is made.

use crate::{DeValue, text};
use esker_model::{Error, Result};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Largest size in bytes of a file with certificates, a key or a password.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Description of URLs that [`is_url`] accepts.
pub const URLS: &str = "a list of etcd's addresses, as in [\"https://etcd.example.org:2379\"]";

/// The files by which etcd and its client authenticate each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdTrust {
    /// Certificates that must have signed etcd's own.
    pub ca: Option<PathBuf>,
    /// Certificate that the client presents to etcd.
    pub certificate: Option<PathBuf>,
    /// Private key of the client's certificate.
    pub key: Option<PathBuf>,
    /// Name of the account in etcd.
    pub user: Option<String>,
    /// File with the account's password.
    pub password_file: Option<PathBuf>,
}

/// Contents of these files. `Debug` shows none of them.
pub struct EtcdSecrets {
    /// Certificates in PEM form.
    pub ca: Option<Vec<u8>>,
    /// A certificate and its key in PEM form.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Name of an account and its password.
    pub login: Option<(String, String)>,
}

impl std::fmt::Debug for EtcdSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EtcdSecrets(..)")
    }
}

/// Whether a text is a URL of etcd.
pub fn is_url(url: &str) -> bool {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', '?', '#']))
}

impl EtcdTrust {
    /// Sets one of the keys `ca`, `certificate`, `key`, `user` or `password_file`.
    pub fn take(&mut self, name: &str, value: &DeValue<'_>) -> Option<()> {
        let value = text(value)?.to_owned();
        match name {
            "user" => self.user = Some(value),
            "ca" => self.ca = Some(value.into()),
            "certificate" => self.certificate = Some(value.into()),
            "key" => self.key = Some(value.into()),
            "password_file" => self.password_file = Some(value.into()),
            _ => return None,
        }
        Some(())
    }

    /// Resolves relative paths against a folder.
    #[must_use]
    pub fn resolve_relative_to(mut self, folder: &Path) -> Self {
        let files = [
            &mut self.ca,
            &mut self.certificate,
            &mut self.key,
            &mut self.password_file,
        ];
        for path in files.into_iter().flatten() {
            *path = folder.join(&*path);
        }
        self
    }

    /// Returns what is wrong with these settings for etcd at those URLs, if anything.
    pub fn mistake(&self, endpoints: &[String]) -> Option<&'static str> {
        let tls = |u: &String| u.starts_with("https://");
        if self.certificate.is_some() != self.key.is_some() {
            return Some("a certificate for etcd and its `key` go together");
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Some("a `user` of etcd and a `password_file` go together");
        }
        let any = self.ca.is_some() || self.certificate.is_some() || self.user.is_some();
        if any && !endpoints.iter().all(tls) {
            return Some(
                "certificates and passwords are for etcd at https:// addresses: others could eavesdrop and answer in its place",
            );
        }
        if self.ca.is_none() && endpoints.iter().any(tls) {
            return Some(
                "etcd at an https:// address needs `ca`, the file of the certificates that sign etcd's, as in \
                 \"/etc/ssl/certs/ca-certificates.crt\"",
            );
        }
        None
    }

    /// Reads the files. A key or a password that other users can read is an error.
    pub fn read(&self) -> Result<EtcdSecrets> {
        let all = |file: &Option<PathBuf>| file.as_deref().map(|f| contents(f, false)).transpose();
        let secret =
            |file: &Option<PathBuf>| file.as_deref().map(|f| contents(f, true)).transpose();
        let password = secret(&self.password_file)?.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.lines().next().unwrap_or_default().to_owned()
        });
        Ok(EtcdSecrets {
            ca: all(&self.ca)?,
            identity: all(&self.certificate)?.zip(secret(&self.key)?),
            login: self.user.clone().zip(password),
        })
    }
}

/// Reads a file; a secret only if no user but its owner can read it.
fn contents(path: &Path, is_secret: bool) -> Result<Vec<u8>> {
    let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() || about.len() > FILE_BYTES_MAX {
        return Err(Error::Target(format!(
            "`{}` is not a file of certificates, keys or passwords",
            path.display()
        )));
    }
    if is_secret && about.mode() & 0o077 != 0 {
        return Err(Error::Target(format!(
            "`{}` opens etcd, and others can read it (mode {:o}): it is not used; run `chmod 600 {}`",
            path.display(),
            about.mode() & 0o7777,
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    let mut limited = file.take(FILE_BYTES_MAX);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_does_not_go_together_is_said() {
        let at = |url: &str| vec![url.to_owned()];
        let (plain, tls) = (at("http://h:1"), at("https://h:1"));
        let ca = EtcdTrust {
            ca: Some("ca.pem".into()),
            ..EtcdTrust::default()
        };
        assert_eq!(EtcdTrust::default().mistake(&plain), None);
        assert_eq!(ca.mistake(&tls), None);
        let said = |trust: &EtcdTrust, urls| trust.mistake(urls).unwrap_or_default();
        assert!(said(&EtcdTrust::default(), &tls).contains("needs `ca`"));
        assert!(said(&ca, &plain).contains("https://"));
        let alone = EtcdTrust {
            user: Some("lab".into()),
            ..ca.clone()
        };
        assert!(said(&alone, &tls).contains("password_file"));
        let alone = EtcdTrust {
            certificate: Some("c".into()),
            ..ca
        };
        assert!(said(&alone, &tls).contains("`key`"));
        for (url, good) in [
            ("http://h:1", true),
            ("https://[::1]:1", true),
            ("https://", false),
            ("ftp://h", false),
            ("http://user:word@h:1", false),
        ] {
            assert_eq!(is_url(url), good, "{url}");
        }
    }

    #[test]
    fn a_password_that_others_can_read_is_not_used() {
        let file = std::env::temp_dir().join(format!("esker-etcd-{}", std::process::id()));
        std::fs::write(&file, "s3cret\nmore\n").unwrap();
        let trust = EtcdTrust {
            user: Some("lab".into()),
            password_file: Some(file.clone()),
            ..EtcdTrust::default()
        };
        let mode = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o644);
        let refused = trust.read().unwrap_err().to_string();
        assert!(
            refused.contains("chmod 600") && !refused.contains("s3cret"),
            "{refused}"
        );
        mode(0o600);
        let read = trust.read().unwrap();
        assert!(!format!("{read:?}").contains("s3cret"));
        let login = read.login.unwrap();
        assert_eq!((&*login.0, &*login.1), ("lab", "s3cret"));
        std::fs::remove_file(&file).unwrap();
    }
}
