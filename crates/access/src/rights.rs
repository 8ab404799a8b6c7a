//! What a server knows of who may do what: the two files of keys and that of tokens, read again when they change.

use crate::authorized::{self, AuthorizedKeys, Closed};
use crate::file::{self, Stamp};
use crate::role::Role;
use crate::token::{self, Token};
use crate::{fingerprint, home};
use ssh_key::public::KeyData;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often at most the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What somebody was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What they may do.
    pub role: Role,
    /// How the key is called: its comment in the file that grants it.
    pub comment: String,
}

/// Why somebody is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No file names the key.
    Unknown,
    /// It was revoked.
    Revoked,
    /// Its time is over.
    Expired {
        /// When.
        at: String,
    },
    /// It may not be used from there.
    Elsewhere {
        /// From where.
        from: String,
    },
    /// The files that would say cannot be read.
    Unread {
        /// Why.
        why: String,
    },
}

impl Refused {
    /// What whoever is refused is told: files and their modes are the owner's business.
    pub fn told(&self) -> String {
        match self {
            Self::Unread { .. } => {
                "the server cannot read who has rights; its log says why".to_owned()
            }
            other => other.to_string(),
        }
    }

    /// One word for it, to count by.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_key",
            Self::Revoked => "revoked",
            Self::Expired { .. } => "expired",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Unread { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it has no rights here"),
            Self::Revoked => f.write_str("it was revoked"),
            Self::Expired { at } => write!(f, "its time ended at {at}"),
            Self::Elsewhere { from } => write!(f, "it may be used from {from} only"),
            Self::Unread { why } => f.write_str(why),
        }
    }
}

/// A file that is read again when it changes.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    stamp: Option<Stamp>,
    text: Result<String, String>,
}

impl Watched {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            stamp: None,
            text: Ok(String::new()),
        }
    }

    /// Reads it if it is not as it was; whether it did.
    fn look(&mut self) -> bool {
        let stamp = Stamp::of(&self.path);
        // What cannot be read is tried again: its folder may have been mended.
        if stamp == self.stamp && self.text.is_ok() {
            return false;
        }
        self.text = match file::read(&self.path) {
            Ok(None) => {
                self.stamp = None;
                Ok(String::new())
            }
            Ok(Some((stamp, text))) => {
                self.stamp = Some(stamp);
                Ok(text)
            }
            Err(e) => {
                self.stamp = stamp;
                Err(e.to_string())
            }
        };
        true
    }
}

#[derive(Debug)]
struct State {
    files: Vec<Watched>,
    tokens: Watched,
    keys: Vec<AuthorizedKeys>,
    known: Vec<Token>,
}

impl State {
    /// Looks at the files; whether one had changed.
    fn look(&mut self) -> bool {
        let mut changed = self.tokens.look();
        for file in &mut self.files {
            changed |= file.look();
        }
        if changed {
            let text = |w: &Watched| w.text.clone().unwrap_or_default();
            let parse = |w: &Watched| AuthorizedKeys::parse(&text(w));
            self.keys = self.files.iter().map(parse).collect();
            self.known = token::parse(&text(&self.tokens));
        }
        changed
    }
}

/// Who may do what with a database.
#[derive(Debug)]
pub struct Rights {
    state: RwLock<State>,
    started: Instant,
    /// When the files were looked at last, in milliseconds since then.
    looked: AtomicU64,
    /// How often they have changed since.
    generation: AtomicU64,
}

impl Rights {
    /// Those that `authorized_keys` in a database's folder and in `~/.esker` grant.
    pub fn of(folder: &Path) -> Self {
        let mut files = vec![folder.join(authorized::NAME)];
        files.extend(home().map(|h| h.join(authorized::NAME)));
        Self::in_files(files, folder.join(token::NAME))
    }

    /// Those that these files grant.
    pub fn in_files(files: Vec<PathBuf>, tokens: PathBuf) -> Self {
        let mut state = State {
            files: files.into_iter().map(Watched::new).collect(),
            tokens: Watched::new(tokens),
            keys: Vec::new(),
            known: Vec::new(),
        };
        state.look();
        let keys = state.files.iter();
        state.keys = keys
            .map(|w| AuthorizedKeys::parse(&w.text.clone().unwrap_or_default()))
            .collect();
        Self {
            state: RwLock::new(state),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            generation: AtomicU64::new(1),
        }
    }

    /// Looks at the files unless that was just done; a number that changes when they have.
    pub fn generation(&self) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.looked.load(Ordering::Acquire);
        let due = now.saturating_sub(before) >= LOOK.as_millis() as u64;
        // One of all that ask at once looks.
        let turn = || {
            let mine =
                self.looked
                    .compare_exchange(before, now, Ordering::AcqRel, Ordering::Acquire);
            mine.is_ok()
        };
        if due && turn() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if state.look() {
                self.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.generation.load(Ordering::Acquire)
    }

    /// Looks at the files now: they have just been changed, or somebody comes whose rights may be new.
    pub fn refresh(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.look() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What a key may do for somebody at that address, now. Of several lines the one that allows most holds, but one that
    /// revokes the key in the first file that names it is the last word.
    pub fn of_key(&self, key: &KeyData, from: IpAddr) -> Result<Granted, Refused> {
        self.generation();
        self.of_key_at(key, from, now())
    }

    fn of_key_at(&self, key: &KeyData, from: IpAddr, now: i64) -> Result<Granted, Refused> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut best: Option<Granted> = None;
        let mut refused: Option<Refused> = None;
        for keys in &state.keys {
            for line in keys.of(key) {
                match line.opens(from, now) {
                    Ok(role) => {
                        if best.as_ref().is_none_or(|b| b.role < role) {
                            best = Some(Granted {
                                role,
                                comment: line.key.comment().to_owned(),
                            });
                        }
                    }
                    Err(Closed::Revoked) if best.is_none() => return Err(Refused::Revoked),
                    Err(closed) => {
                        refused.get_or_insert(match closed {
                            Closed::Revoked => Refused::Revoked,
                            Closed::Expired { at } => Refused::Expired { at },
                            Closed::Elsewhere { from } => Refused::Elsewhere { from },
                        });
                    }
                }
            }
        }
        if let Some(granted) = best {
            return Ok(granted);
        }
        let unread = || {
            let why = state.files.iter().find_map(|f| f.text.as_ref().err())?;
            Some(Refused::Unread { why: why.clone() })
        };
        Err(refused.or_else(unread).unwrap_or(Refused::Unknown))
    }

    /// What a token opens, now, and how it is called.
    pub fn of_token(&self, shown: &str) -> Result<(Granted, String), Refused> {
        self.generation();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = &state.tokens.text {
            return Err(Refused::Unread { why: why.clone() });
        }
        let token = token::find(&state.known, shown).ok_or(Refused::Unknown)?;
        if now() >= token.expires {
            return Err(Refused::Expired { at: token.end() });
        }
        let granted = Granted {
            role: token.role,
            comment: token.comment.clone(),
        };
        Ok((granted, token.name()))
    }

    /// What is wrong in the files: lines that give no rights, files that are not read.
    pub fn mistakes(&self) -> Vec<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (file, keys) in state.files.iter().zip(&state.keys) {
            all.extend(file.text.as_ref().err().cloned());
            for mistake in &keys.mistakes {
                let at = format!("{}:{}", file.path.display(), mistake.number);
                all.push(format!("{at}: {}", mistake.why));
            }
        }
        all.extend(state.tokens.text.as_ref().err().cloned());
        all
    }

    /// How a key is called in the files, if they name it.
    pub fn comment_of(&self, key: &KeyData) -> String {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut lines = state.keys.iter().flat_map(|k| k.of(key));
        let comment = lines.next().map(|l| l.key.comment().to_owned());
        comment.unwrap_or_default()
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// A key in words, for a log: fingerprint and comment.
pub fn in_words(key: &KeyData, comment: &str) -> String {
    format!("{} {comment}", fingerprint(key))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostKey;
    use crate::authorized::{Terms, line, with};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn write(path: &Path, text: &str) {
        file::replace(path, 0o600, text.as_bytes()).unwrap();
    }

    /// A line of a file for a key.
    fn terms(key: &HostKey, role: Option<Role>, expires: Option<i64>) -> String {
        let terms = Terms {
            role,
            expires,
            from: None,
        };
        line(key.public(), &terms).unwrap()
    }

    #[test]
    fn rights_come_from_both_files_and_go_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (own, all) = (dir.path().join("own"), dir.path().join("all"));
        let rights = Rights::in_files(vec![own.clone(), all.clone()], dir.path().join("tokens"));
        let (bob, ann) = (HostKey::from_seed(&[1; 32]), HostKey::from_seed(&[2; 32]));
        let of = |key: &HostKey| {
            rights.refresh();
            rights.of_key(key.public().key_data(), HERE).map(|g| g.role)
        };
        assert_eq!(of(&bob), Err(Refused::Unknown));
        write(&all, &format!("{}\n", terms(&bob, Some(Role::Write), None)));
        let before = rights.generation();
        assert_eq!(of(&bob), Ok(Role::Write));
        assert_ne!(rights.generation(), before);
        // The database's own file may take away what the other one gives.
        write(&own, &format!("{}\n", terms(&bob, None, None)));
        assert_eq!(of(&bob), Err(Refused::Revoked));
        let text = with("", bob.public().key_data(), None);
        write(
            &own,
            &format!("{text}{}\n", terms(&ann, Some(Role::Admin), Some(7))),
        );
        assert_eq!(of(&bob), Ok(Role::Write));
        assert!(matches!(of(&ann), Err(Refused::Expired { .. })));
        std::fs::remove_file(&all).unwrap();
        assert_eq!(of(&bob), Err(Refused::Unknown));
    }

    #[test]
    fn what_others_could_have_written_opens_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        let bob = HostKey::from_seed(&[1; 32]);
        write(&own, &format!("{}\n", terms(&bob, Some(Role::Write), None)));
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o666)).unwrap();
        let rights = Rights::in_files(vec![own], dir.path().join("tokens"));
        let refused = rights.of_key(bob.public().key_data(), HERE).unwrap_err();
        assert!(matches!(&refused, Refused::Unread { why } if why.contains("written by others")));
        assert_eq!(rights.mistakes().len(), 1);
    }
}
