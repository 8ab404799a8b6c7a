//! `known_hosts`: the keys by which servers are recognized, in OpenSSH's format.
//!
//! ```text
//!  [lab.example.org]:7400 ssh-ed25519 AAAAC3Nz…
//! ```

use crate::options::matches_pattern;
use crate::{file, fingerprint, home};
use esker_model::{Error, Result};
use ring::hmac;
use ssh_key::PublicKey;
use ssh_key::known_hosts::{HostPatterns, Marker};
use ssh_key::public::KeyData;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// SSH's port, which a file omits after the host name.
const SSH_PORT: u16 = 22;

/// Whether this process trusts servers that are not listed yet (`--trust-new-host`).
static TRUST_NEW: AtomicBool = AtomicBool::new(false);

/// Makes this process trust and record servers that are not listed yet, as if each address said so.
pub fn trust_new_hosts() {
    TRUST_NEW.store(true, Ordering::Release);
}

/// Whether this process trusts servers that are not listed yet.
pub fn new_hosts_are_trusted() -> bool {
    TRUST_NEW.load(Ordering::Acquire)
}

/// Files that list the keys of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    /// The first file receives new keys.
    files: Vec<PathBuf>,
}

/// Result of looking up a server's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeyStatus {
    /// Listed for this server.
    Listed,
    /// The server is not listed.
    New,
    /// The server is listed with another key.
    Other {
        /// File and line of the entry.
        at: String,
        /// Fingerprint of the listed key.
        listed: String,
    },
    /// The key is listed as revoked.
    Revoked {
        /// File and line of the entry.
        at: String,
    },
}

/// One line of a file.
struct HostLine {
    marker: Option<Marker>,
    hosts: HostPatterns,
    key: PublicKey,
}

fn line(text: &str) -> Option<HostLine> {
    let mut words = text.split_ascii_whitespace();
    let mut word = words.next().filter(|w| !w.starts_with('#'))?;
    let mut marker = None;
    if word.starts_with('@') {
        marker = Some(word.parse().ok()?);
        word = words.next()?;
    }
    let hosts = word.parse().ok()?;
    let key = format!("{} {}", words.next()?, words.next()?);
    Some(HostLine {
        marker,
        hosts,
        key: PublicKey::from_openssh(&key).ok()?,
    })
}

/// Formats a server's name as in such a file.
fn name_of(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == SSH_PORT {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

fn names(hosts: &HostPatterns, name: &str) -> bool {
    match hosts {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let mut found = false;
            for pattern in patterns {
                let pattern = pattern.to_ascii_lowercase();
                match pattern.strip_prefix('!') {
                    Some(not) if matches_pattern(not.as_bytes(), name.as_bytes()) => return false,
                    Some(_) => {}
                    None => found |= matches_pattern(pattern.as_bytes(), name.as_bytes()),
                }
            }
            found
        }
    }
}

impl KnownHosts {
    /// Returns this user's files, then OpenSSH's: `~/.esker/known_hosts`, `~/.ssh/known_hosts`, `/etc/ssh/ssh_known_hosts`.
    pub fn of_user() -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        if let Some(own) = home() {
            files.push(own.join("known_hosts"));
            files.push(own.with_file_name(".ssh").join("known_hosts"));
        }
        files.push(PathBuf::from("/etc/ssh/ssh_known_hosts"));
        Self { files }
    }

    /// Uses the given files.
    pub fn in_files(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Looks up the key that a server presented.
    pub fn lookup(&self, host: &str, port: u16, key: &KeyData) -> Result<HostKeyStatus> {
        let name = name_of(host, port);
        let mut known = HostKeyStatus::New;
        for path in &self.files {
            let Some((_, text)) = file::read(path)? else {
                continue;
            };
            match lookup_in(path, &text, &name, key) {
                // A revocation in any file takes precedence.
                revoked @ HostKeyStatus::Revoked { .. } => return Ok(revoked),
                HostKeyStatus::New => {}
                found => {
                    if known != HostKeyStatus::Listed {
                        known = found;
                    }
                }
            }
        }
        Ok(known)
    }

    /// Appends a server's key to the first file.
    pub fn add(&self, host: &str, port: u16, key: &KeyData) -> Result<PathBuf> {
        let path = self
            .files
            .first()
            .filter(|_| home().is_some() || self.files.len() == 1);
        let path = path.ok_or_else(|| {
            Error::Target("a server's key cannot be saved: HOME is not set".to_owned())
        })?;
        let failed = |e| Error::io(format!("writing `{}`", path.display()), e);
        // An address may come from a file that another user wrote; it must not be able to append lines to arbitrary files.
        let refused = |why: &str| {
            Err(Error::Target(format!(
                "the key of {host} is not written into `{}`: {why}",
                path.display()
            )))
        };
        if !host
            .chars()
            .all(|c| c.is_alphanumeric() || ".-_:%".contains(c))
        {
            return refused("that is not a host name");
        }
        let named = path.file_name().unwrap_or_default().to_string_lossy();
        if !named.contains("known_hosts") {
            return refused("the name of a file of host keys must contain `known_hosts`");
        }
        if let Some(folder) = path.parent() {
            file::own_folder(folder)?;
        }
        let key = PublicKey::from(key.clone()).to_openssh();
        let key = key.map_err(|e| failed(std::io::Error::other(e)))?;
        // The last line may lack its line break.
        let before = file::read(path)?.map(|(_, text)| text).unwrap_or_default();
        let is_one = |l: &str| l.trim().is_empty() || l.starts_with('#') || line(l).is_some();
        if !before.is_empty() && !before.lines().any(is_one) {
            return refused("its contents are not host keys");
        }
        let gap = if before.is_empty() || before.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path);
        let line = format!("{gap}{} {key}\n", name_of(host, port));
        file.and_then(|mut f| f.write_all(line.as_bytes()))
            .map_err(failed)?;
        Ok(path.clone())
    }

    /// Accepts the server's key if it is listed, or if it is new and `trust_new` is set; otherwise the error says what to do. Returns
    /// a message if a key was recorded.
    pub fn accept(
        &self,
        host: &str,
        port: u16,
        key: &KeyData,
        trust_new: bool,
    ) -> Result<Option<String>> {
        let print = fingerprint(key);
        let name = name_of(host, port);
        let refused = |why: String| Err(Error::Target(why));
        match self.lookup(host, port, key)? {
            HostKeyStatus::Listed => Ok(None),
            HostKeyStatus::New if trust_new => {
                let path = self.add(host, port, key)?;
                Ok(Some(format!(
                    "wrote the key of {name}, {print}, into `{}`",
                    path.display()
                )))
            }
            HostKeyStatus::New => {
                let public = PublicKey::from(key.clone())
                    .to_openssh()
                    .unwrap_or_default();
                let file = self.files.first().map(|p| p.display().to_string());
                refused(format!(
                    "the server {name} is not known: it shows the host key {print}. Compare that with what its owner sees \
                     (`esker grant DATABASE --list`, or `ssh-keygen -lf DATABASE/host_key.pub`); if it is the same, repeat \
                     with --trust-new-host (or ?trust-new-host in the address), or add this line to {}:\n  {name} {public}",
                    file.unwrap_or_else(|| "~/.esker/known_hosts".into())
                ))
            }
            HostKeyStatus::Other { at, listed } => refused(format!(
                "THE HOST KEY OF {name} HAS CHANGED: it shows {print}, and {at} lists {listed}. \
                 Someone may be impersonating that server; nothing was sent. If its owner has made \
                 a new key, remove that line and repeat"
            )),
            HostKeyStatus::Revoked { at } => refused(format!(
                "the host key of {name}, {print}, is revoked ({at}): nothing was sent"
            )),
        }
    }
}

/// Looks up a key in a file's text, for fuzz targets.
#[doc(hidden)]
pub fn lookup_in_text(text: &str, host: &str, port: u16, key: &KeyData) -> HostKeyStatus {
    lookup_in(Path::new("known_hosts"), text, &name_of(host, port), key)
}

fn lookup_in(path: &Path, text: &str, name: &str, key: &KeyData) -> HostKeyStatus {
    let mut known = HostKeyStatus::New;
    for (i, line) in text.lines().enumerate() {
        let Some(line) = self::line(line).filter(|l| names(&l.hosts, name)) else {
            continue;
        };
        let at = || format!("{}:{}", path.display(), i + 1);
        match line.marker {
            Some(Marker::Revoked) if line.key.key_data() == key => {
                return HostKeyStatus::Revoked { at: at() };
            }
            None if line.key.key_data() == key => known = HostKeyStatus::Listed,
            // The key of the host's own SSH server may be listed beside it.
            None if line.key.key_data().is_ed25519() && known == HostKeyStatus::New => {
                known = HostKeyStatus::Other {
                    at: at(),
                    listed: fingerprint(line.key.key_data()),
                };
            }
            // Host certificates are ignored: the key itself must be listed.
            _ => {}
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostKey;
    use proptest::prelude::*;

    fn key(n: u8) -> KeyData {
        HostKey::from_seed(&[n; 32]).public().key_data().clone()
    }

    fn text(n: u8) -> String {
        PublicKey::from(key(n)).to_openssh().unwrap()
    }

    fn lookup(text: &str, name: &str, of: u8) -> HostKeyStatus {
        lookup_in(Path::new("k"), text, name, &key(of))
    }

    #[test]
    fn a_server_is_listed_new_or_another() {
        let hosts = format!(
            "# mine\n[lab]:7400,[10.0.0.*]:7400,![10.0.0.9]:7400 {} comment\n@revoked * {}\n@cert-authority * {}\nnonsense\n",
            text(1),
            text(2),
            text(3)
        );
        assert_eq!(lookup(&hosts, "[lab]:7400", 1), HostKeyStatus::Listed);
        assert_eq!(lookup(&hosts, "[10.0.0.7]:7400", 1), HostKeyStatus::Listed);
        assert_eq!(lookup(&hosts, "[10.0.0.9]:7400", 1), HostKeyStatus::New);
        assert_eq!(lookup(&hosts, "lab", 1), HostKeyStatus::New);
        assert!(
            matches!(lookup(&hosts, "[lab]:7400", 4), HostKeyStatus::Other { at, .. } if at == "k:2")
        );
        assert!(
            matches!(lookup(&hosts, "[lab]:7400", 2), HostKeyStatus::Revoked { at } if at == "k:3")
        );
        // Certificate authorities are ignored.
        assert!(matches!(
            lookup(&hosts, "[lab]:7400", 3),
            HostKeyStatus::Other { .. }
        ));
        assert_eq!(lookup(&hosts, "[other]:7400", 3), HostKeyStatus::New);
    }

    #[test]
    fn a_new_one_is_refused_or_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("esker/known_hosts");
        let known = KnownHosts::in_files(vec![path.clone()]);
        let refused = known
            .accept("Lab", 7400, &key(1), false)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("--trust-new-host"), "{refused}");
        assert!(refused.contains(&fingerprint(&key(1))), "{refused}");
        assert!(!path.exists());
        let said = known.accept("Lab", 7400, &key(1), true).unwrap().unwrap();
        assert!(said.contains("[lab]:7400"), "{said}");
        assert_eq!(known.accept("lab", 7400, &key(1), false).unwrap(), None);
        // `trust_new` applies to new servers only.
        let refused = known
            .accept("lab", 7400, &key(2), true)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("HAS CHANGED"), "{refused}");
    }

    /// An address from another user's file names one of this user's files as `known-hosts`.
    #[test]
    fn lines_go_into_files_for_keys_of_servers_only() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, host) in [
            (".bashrc", Some("alias ls='ls -l'\n"), "evil.example"),
            (".profile", None, "evil.example"),
            ("my_known_hosts.sh", Some("exit 0\n"), "evil.example"),
            ("known_hosts", None, "x\ncurl"),
            ("known_hosts", None, "*"),
        ] {
            let path = dir.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let known = KnownHosts::in_files(vec![path.clone()]);
            let refused = known.accept(host, 7400, &key(1), true).unwrap_err();
            assert!(
                refused.to_string().contains("is not written into"),
                "{refused}"
            );
            let now = std::fs::read_to_string(&path).ok();
            assert_eq!(now.as_deref(), text, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC{0,50}\n){0,6}") {
            let _ = lookup_in(Path::new("k"), &text, "[lab]:7400", &key(1));
        }

        #[test]
        fn any_words_are_read(words in proptest::collection::vec("(@revoked|\\|1\\|[a-zA-Z0-9=|]{0,40}|ssh-ed25519|[!-~]{0,12})", 0..5)) {
            let _ = lookup_in(Path::new("k"), &words.join(" "), "[lab]:7400", &key(1));
        }
    }
}
