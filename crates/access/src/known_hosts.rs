//! `known_hosts`: by which keys servers are known, as OpenSSH keeps them.
//!
//! ```text
//!  [lab.example.org]:7400 ssh-ed25519 AAAAC3Nz…
//! ```

use crate::options::like;
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

/// The port of SSH, which is not written beside a host's name.
const SSH_PORT: u16 = 22;

/// Whether this process trusts servers that are not known yet (`--trust-new-host`).
static TRUST_NEW: AtomicBool = AtomicBool::new(false);

/// From now on this process writes down servers that are not known yet, as if each address said so.
pub fn trust_new_ones() {
    TRUST_NEW.store(true, Ordering::Release);
}

/// Whether it does.
pub fn new_ones_are_trusted() -> bool {
    TRUST_NEW.load(Ordering::Acquire)
}

/// Where the keys of servers are looked for, and where new ones are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    /// The first is written to.
    files: Vec<PathBuf>,
}

/// What is known of a server's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is the one that is listed.
    Listed,
    /// The server is not listed.
    New,
    /// It is listed with another key.
    Other {
        /// Where: file and line.
        at: String,
        /// The fingerprint there.
        listed: String,
    },
    /// The key is listed as one that nobody is to trust any more.
    Revoked {
        /// Where: file and line.
        at: String,
    },
}

/// One line.
struct Line {
    marker: Option<Marker>,
    hosts: HostPatterns,
    key: PublicKey,
}

fn line(text: &str) -> Option<Line> {
    let mut words = text.split_ascii_whitespace();
    let mut word = words.next().filter(|w| !w.starts_with('#'))?;
    let mut marker = None;
    if word.starts_with('@') {
        marker = Some(word.parse().ok()?);
        word = words.next()?;
    }
    let hosts = word.parse().ok()?;
    let key = format!("{} {}", words.next()?, words.next()?);
    Some(Line {
        marker,
        hosts,
        key: PublicKey::from_openssh(&key).ok()?,
    })
}

/// How a server is called in such a file.
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
                    Some(not) if like(not.as_bytes(), name.as_bytes()) => return false,
                    Some(_) => {}
                    None => found |= like(pattern.as_bytes(), name.as_bytes()),
                }
            }
            found
        }
    }
}

impl KnownHosts {
    /// This user's, then what OpenSSH knows: `~/.esker/known_hosts`, `~/.ssh/known_hosts`, `/etc/ssh/ssh_known_hosts`.
    pub fn of_user() -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        if let Some(own) = home() {
            files.push(own.join("known_hosts"));
            files.push(own.with_file_name(".ssh").join("known_hosts"));
        }
        files.push(PathBuf::from("/etc/ssh/ssh_known_hosts"));
        Self { files }
    }

    /// Those in these files.
    pub fn in_files(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// What is known of the server that showed that key.
    pub fn look(&self, host: &str, port: u16, key: &KeyData) -> Result<Known> {
        let name = name_of(host, port);
        let mut known = Known::New;
        for path in &self.files {
            let Some((_, text)) = file::read(path)? else {
                continue;
            };
            match look_in(path, &text, &name, key) {
                // Wherever it stands, a key that is revoked is.
                revoked @ Known::Revoked { .. } => return Ok(revoked),
                Known::New => {}
                found => {
                    if known != Known::Listed {
                        known = found;
                    }
                }
            }
        }
        Ok(known)
    }

    /// Writes down a server's key.
    pub fn add(&self, host: &str, port: u16, key: &KeyData) -> Result<PathBuf> {
        let path = self
            .files
            .first()
            .filter(|_| home().is_some() || self.files.len() == 1);
        let path = path.ok_or_else(|| {
            Error::Target(
                "there is no place to write down a server's key: HOME is not set".to_owned(),
            )
        })?;
        let failed = |e| Error::io(format!("writing `{}`", path.display()), e);
        // An address may come from a file that somebody else wrote: it is not to have lines put into any file.
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
            return refused("that is no name of a host");
        }
        let named = path.file_name().unwrap_or_default().to_string_lossy();
        if !named.contains("known_hosts") {
            return refused("the name of a file for keys of servers has `known_hosts` in it");
        }
        if let Some(folder) = path.parent() {
            file::own_folder(folder)?;
        }
        let key = PublicKey::from(key.clone()).to_openssh();
        let key = key.map_err(|e| failed(std::io::Error::other(e)))?;
        // What somebody wrote last may not end with its line.
        let before = file::read(path)?.map(|(_, text)| text).unwrap_or_default();
        let is_one = |l: &str| l.trim().is_empty() || l.starts_with('#') || line(l).is_some();
        if !before.is_empty() && !before.lines().any(is_one) {
            return refused("what is in it are no keys of servers");
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

    /// Accepts the server's key if it is listed, or if it is new and new ones are to be trusted; else says what to do. The
    /// text that comes back is for whoever wants to know that a key was written down.
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
        match self.look(host, port, key)? {
            Known::Listed => Ok(None),
            Known::New if trust_new => {
                let path = self.add(host, port, key)?;
                Ok(Some(format!(
                    "wrote the key of {name}, {print}, into `{}`",
                    path.display()
                )))
            }
            Known::New => {
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
            Known::Other { at, listed } => refused(format!(
                "THE HOST KEY OF {name} HAS CHANGED: it shows {print}, and {at} lists {listed}. Somebody may be \
                 pretending to be that server; nothing was sent. If its owner has made a new key, remove that line and repeat"
            )),
            Known::Revoked { at } => refused(format!(
                "the host key of {name}, {print}, is revoked ({at}): nothing was sent"
            )),
        }
    }
}

/// What a file's text says of a server that shows a key, for fuzz targets.
#[doc(hidden)]
pub fn known_in(text: &str, host: &str, port: u16, key: &KeyData) -> Known {
    look_in(Path::new("known_hosts"), text, &name_of(host, port), key)
}

fn look_in(path: &Path, text: &str, name: &str, key: &KeyData) -> Known {
    let mut known = Known::New;
    for (i, line) in text.lines().enumerate() {
        let Some(line) = self::line(line).filter(|l| names(&l.hosts, name)) else {
            continue;
        };
        let at = || format!("{}:{}", path.display(), i + 1);
        match line.marker {
            Some(Marker::Revoked) if line.key.key_data() == key => {
                return Known::Revoked { at: at() };
            }
            None if line.key.key_data() == key => known = Known::Listed,
            // The host's own SSH may be listed beside it.
            None if line.key.key_data().is_ed25519() && known == Known::New => {
                known = Known::Other {
                    at: at(),
                    listed: fingerprint(line.key.key_data()),
                };
            }
            // Certificates of hosts are not looked at: a key must be listed itself.
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

    fn look(text: &str, name: &str, of: u8) -> Known {
        look_in(Path::new("k"), text, name, &key(of))
    }

    #[test]
    fn a_server_is_listed_new_or_another() {
        let hosts = format!(
            "# mine\n[lab]:7400,[10.0.0.*]:7400,![10.0.0.9]:7400 {} comment\n@revoked * {}\n@cert-authority * {}\nnonsense\n",
            text(1),
            text(2),
            text(3)
        );
        assert_eq!(look(&hosts, "[lab]:7400", 1), Known::Listed);
        assert_eq!(look(&hosts, "[10.0.0.7]:7400", 1), Known::Listed);
        assert_eq!(look(&hosts, "[10.0.0.9]:7400", 1), Known::New);
        assert_eq!(look(&hosts, "lab", 1), Known::New);
        assert!(matches!(look(&hosts, "[lab]:7400", 4), Known::Other { at, .. } if at == "k:2"));
        assert!(matches!(look(&hosts, "[lab]:7400", 2), Known::Revoked { at } if at == "k:3"));
        // A certificate's authority vouches for nobody here.
        assert!(matches!(look(&hosts, "[lab]:7400", 3), Known::Other { .. }));
        assert_eq!(look(&hosts, "[other]:7400", 3), Known::New);
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
        // Trust is for new ones only.
        let refused = known
            .accept("lab", 7400, &key(2), true)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("HAS CHANGED"), "{refused}");
    }

    /// An address from a stranger's file names a file of the user's as `known-hosts`.
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
            let _ = look_in(Path::new("k"), &text, "[lab]:7400", &key(1));
        }

        #[test]
        fn any_words_are_read(words in proptest::collection::vec("(@revoked|\\|1\\|[a-zA-Z0-9=|]{0,40}|ssh-ed25519|[!-~]{0,12})", 0..5)) {
            let _ = look_in(Path::new("k"), &words.join(" "), "[lab]:7400", &key(1));
        }
    }
}
