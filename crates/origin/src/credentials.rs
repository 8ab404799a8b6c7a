//! Passwords from `~/.netrc`, or from the file that `NETRC` names.
//!
//! No password appears in messages or in `Debug` output.

use crate::error::{Error, Result};
use crate::origin_url::{OriginUrl, Scheme};
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum size of a netrc file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Port of implicit FTP over TLS.
const IMPLICIT_TLS: u16 = 990;

/// An account with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name of the account.
    pub user: Box<str>,
    /// The password; empty if none is known.
    pub password: Box<str>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.password.is_empty() {
            "none"
        } else {
            "***"
        };
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &known)
            .finish()
    }
}

/// One entry of a netrc file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Entry {
    /// Host of the entry; `None` for the `default` entry, which applies to any host.
    machine: Option<Box<str>>,
    login: Option<Box<str>>,
    password: Option<Secret>,
}

#[derive(Clone, PartialEq, Eq)]
struct Secret(Box<str>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Returns the path of the netrc file: `NETRC`, else `~/.netrc`.
pub fn netrc() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("NETRC").filter(|file| !file.is_empty()) {
        return Some(file.into());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".netrc"))
}

/// Looks up the account for an origin in a netrc file. `default_too`: whether the file's `default` entry counts.
/// Returns `None` if there is no file or no entry.
///
/// # Errors
/// Returns `InvalidName` if the file cannot be read, is too large, or has a password and can be read by other users.
pub fn find(origin_url: &OriginUrl, file: &Path, default_too: bool) -> Result<Option<Login>> {
    let bad = |why: String| Error::InvalidName {
        what: file.display().to_string().into(),
        why: why.into(),
    };
    let about = match std::fs::metadata(file) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(bad(error.to_string())),
    };
    if about.len() > FILE_BYTES_MAX {
        return Err(bad("it is too large for a file of passwords".into()));
    }
    let text = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    let found = pick(&parse(&text), origin_url, default_too);
    if found
        .as_ref()
        .is_some_and(|login| !login.password.is_empty())
        && is_readable_by_others(&about)
    {
        return Err(bad(format!(
            "others may read the passwords in it; chmod 600 {}",
            file.display()
        )));
    }
    Ok(found)
}

#[cfg(unix)]
pub(crate) fn is_readable_by_others(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    about.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
pub(crate) fn is_readable_by_others(_: &std::fs::Metadata) -> bool {
    false
}

/// Whether a netrc `machine` matches the origin: `HOST` matches only the protocol's own port, `HOST:PORT` that port. So another
/// user of the host who listens at another port does not get the password.
fn is_machine(machine: &str, origin_url: &OriginUrl) -> bool {
    let usual = origin_url.port == origin_url.scheme.port()
        || origin_url.scheme == Scheme::Ftps && origin_url.port == IMPLICIT_TLS;
    usual && machine.eq_ignore_ascii_case(&origin_url.host)
        || machine.eq_ignore_ascii_case(&origin_url.authority())
}

/// Returns the first entry that matches the origin and its user, if it names one; else the `default` entry if `default_too`.
fn pick(entries: &[Entry], origin_url: &OriginUrl, default_too: bool) -> Option<Login> {
    let user = origin_url.user.as_deref();
    let fits = |entry: &&Entry| {
        let machine = entry.machine.as_deref();
        let host_fits = machine.map_or(default_too, |machine| is_machine(machine, origin_url));
        let login = entry.login.as_deref();
        host_fits && user.is_none_or(|user| login.is_none_or(|login| login == user))
    };
    let entry = entries.iter().find(fits)?;
    let user = user.or(entry.login.as_deref())?;
    Some(Login {
        user: user.into(),
        password: match &entry.password {
            Some(Secret(password)) => password.clone(),
            None => "".into(),
        },
    })
}

fn parse(text: &[u8]) -> Vec<Entry> {
    let text = String::from_utf8_lossy(text);
    let mut entries: Vec<Entry> = Vec::new();
    let mut rest: &str = &text;
    while let Some(word) = word(&mut rest) {
        match &*word {
            "machine" => entries.push(Entry {
                machine: Some(self::word(&mut rest).unwrap_or_default().into()),
                ..Entry::default()
            }),
            "default" => entries.push(Entry::default()),
            "login" | "user" => {
                let login = self::word(&mut rest);
                if let (Some(entry), Some(login)) = (entries.last_mut(), login) {
                    entry.login = Some(login.into());
                }
            }
            "password" | "passwd" => {
                let password = self::word(&mut rest);
                if let (Some(entry), Some(password)) = (entries.last_mut(), password) {
                    entry.password = Some(Secret(password.into()));
                }
            }
            "account" => {
                self::word(&mut rest);
            }
            // A macro continues to the next empty line.
            "macdef" => {
                let end = rest.find("\n\n").map(|at| at + 2);
                rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
            }
            word if word.starts_with('#') => {
                let end = rest.find('\n');
                rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
            }
            // Unknown words are skipped.
            _ => {}
        }
    }
    entries
}

/// Cuts the next word; a quoted word may contain spaces.
fn word(rest: &mut &str) -> Option<String> {
    let text = rest.trim_start();
    let mut chars = text.char_indices();
    let quoted = text.starts_with('"');
    if quoted {
        chars.next();
    }
    let mut word = String::new();
    let mut any = quoted;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quoted => word.extend(chars.next().map(|(_, c)| c)),
            '"' if quoted => {
                *rest = text.get(at + 1..).unwrap_or_default();
                return Some(word);
            }
            c if c.is_whitespace() && !quoted => {
                *rest = text.get(at..).unwrap_or_default();
                return any.then_some(word);
            }
            c => {
                any = true;
                word.push(c);
            }
        }
    }
    *rest = "";
    any.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str, host: &str, user: Option<&str>) -> Option<(String, String)> {
        let user = user.map_or(String::new(), |user| format!("{user}@"));
        at(text, &format!("ftps://{user}{host}"), true)
    }

    fn at(text: &str, url: &str, default_too: bool) -> Option<(String, String)> {
        let (origin_url, _) = OriginUrl::parse(url).unwrap();
        let login = pick(&parse(text.as_bytes()), &origin_url, default_too)?;
        Some((login.user.into(), login.password.into()))
    }

    #[test]
    fn entries_are_found_by_host_and_user() {
        let text = "# machine no login no\nmachine a login ann password p#1\n\
                    machine a\n  login bob\n  password \"two words \\\" \\\\\"\n\
                    macdef x\n machine evil login e\n\nmachine B password only default login any password q";
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(found(text, "a", None), pair("ann", "p#1"));
        assert_eq!(
            found(text, "A", Some("bob")),
            pair("bob", "two words \" \\")
        );
        assert_eq!(found(text, "b", Some("eve")), pair("eve", "only"));
        assert_eq!(found(text, "evil", None), pair("any", "q"));
        assert_eq!(found(text, "evil", Some("eve")), None);
        assert_eq!(found("", "a", None), None);
        assert_eq!(found("machine", "a", None), None);
        assert_eq!(found("login x password y", "a", None), None);
    }

    #[test]
    fn a_password_is_for_one_port_of_a_host() {
        let text = "machine host login ann password a\nmachine host:2121 login bob password b\n\
                    machine [::1]:2121 login eve password e\ndefault login any password q";
        let user = |url: &str, default_too| at(text, url, default_too).map(|(user, _)| user);
        for url in [
            "ftp://host/",
            "ftps://host/",
            "ftps://host:990/",
            "davs://host/",
            "gridftp://HOST",
        ] {
            assert_eq!(user(url, false).as_deref(), Some("ann"), "{url}");
        }
        assert_eq!(user("ftp://host:2121/", false).as_deref(), Some("bob"));
        assert_eq!(user("ftp://[::1]:2121/", false).as_deref(), Some("eve"));
        // Another user of that host may listen at these ports.
        for url in [
            "ftp://host:4000/",
            "davs://host:8443/",
            "davs://evil.example/",
        ] {
            assert_eq!(user(url, false), None, "{url}");
            assert_eq!(user(url, true).as_deref(), Some("any"), "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_refused_and_passwords_are_never_shown() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("netrc");
        let (origin_url, _) = OriginUrl::parse("ftp://host/").unwrap();
        assert_eq!(find(&origin_url, &file, false).unwrap(), None);
        std::fs::write(&file, "machine host login ann password s3cret").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o644);
        let error = find(&origin_url, &file, false).unwrap_err().to_string();
        assert!(
            error.contains("chmod 600") && !error.contains("s3cret"),
            "{error}"
        );
        mode(0o600);
        let login = find(&origin_url, &file, false).unwrap().unwrap();
        assert_eq!(&*login.password, "s3cret");
        let printable = format!("{login:?} {:?}", parse(b"machine h password s3cret"));
        assert!(!printable.contains("s3cret"), "{printable}");
    }

    proptest! {
        #[test]
        fn any_file_is_read(text in prop::collection::vec(any::<u8>(), 0..300), words in "((machine|default|login|password|macdef|#|\"|\\\\|a|\n| ) ?){0,60}") {
            let (origin_url, _) = OriginUrl::parse("ftp://a/").unwrap();
            let _ = pick(&parse(&text), &origin_url, true);
            let entries = parse(words.as_bytes());
            prop_assert!(entries.len() <= words.len());
        }
    }
}
