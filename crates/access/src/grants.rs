//! Granting, revoking and listing rights in the files of a folder.

use crate::authorized::{self, AuthorizedKeys, Terms, line, named, with};
use crate::file::{Folder, RightsFolder};
use crate::options::time_text;
use crate::{file, fingerprint, home, token};
use esker_model::{Error, Result};
use ssh_key::PublicKey;
use std::path::{Path, PathBuf};

/// Rights of one key or token, for a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RightsEntry {
    /// Key fingerprint as `ssh-keygen -l` prints it, or a token's name.
    pub fingerprint: String,
    /// Comment of the key or token.
    pub comment: String,
    /// Role; empty if revoked.
    pub role: String,
    /// Expiry time; empty for never.
    pub expires: String,
    /// Address patterns from which it is allowed; empty for everywhere.
    pub from: String,
    /// User to which it is bound; empty if it may read everything.
    pub user: String,
    /// File that grants the rights.
    pub file: String,
}

fn text_of(path: &Path) -> Result<String> {
    Ok(file::read(path)?.map(|(_, text)| text).unwrap_or_default())
}

fn text_in(folder: &Folder) -> Result<String> {
    let read = folder.read(authorized::NAME)?;
    Ok(read.map(|(_, text)| text).unwrap_or_default())
}

/// Writes a line with these terms for `key` into the folder's file, in place of its earlier lines.
pub fn grant(folder: &(impl RightsFolder + ?Sized), key: &PublicKey, terms: &Terms) -> Result<()> {
    let line = line(key, terms).map_err(Error::Target)?;
    let folder = folder.open_folder()?;
    let _lock = folder.lock()?;
    let text = with(&text_in(&folder)?, key.key_data(), Some(&line));
    folder.replace(authorized::NAME, 0o600, text.as_bytes())?;
    // Reading the file back reports now what the server would refuse to read.
    folder.read(authorized::NAME).map(|_| ())
}

/// Grants a key rights to all of this user's databases, in `~/.esker`.
pub fn grant_all(key: &PublicKey, terms: &Terms) -> Result<()> {
    let folder = own_folder()?;
    file::own_folder(&folder)?;
    grant(&folder, key, terms)
}

/// Returns the path of `~/.esker`.
pub fn own_folder() -> Result<PathBuf> {
    home().ok_or_else(|| {
        Error::Target("there is no ~/.esker: HOME is not set in the environment".into())
    })
}

fn own_file() -> Option<PathBuf> {
    home().map(|h| h.join(authorized::NAME))
}

/// Revokes a key or a token, given as a public key (`ssh-ed25519 AAAA…`), a fingerprint or a comment. The key keeps a line with
/// role `none`, so that its client learns that it was revoked, and so that it grants nothing even if `~/.esker` lists it.
/// Returns a description of the revoked credential.
pub fn revoke(folder: &(impl RightsFolder + ?Sized), what: &str) -> Result<String> {
    let what = what.trim();
    let folder = folder.open_folder()?;
    if what.starts_with(token::PREFIX) || what.starts_with("token:") {
        let _lock = folder.lock()?;
        if token::forget(&folder, what)? {
            return Ok(format!("token {}", what.get(..18).unwrap_or(what)));
        }
        return Err(Error::Target(format!(
            "there is no token `{}` here: `esker grant … --list` shows the existing ones",
            what.get(..18).unwrap_or(what)
        )));
    }
    let file = AuthorizedKeys::parse(&text_in(&folder)?);
    let all = match own_file() {
        Some(path) => AuthorizedKeys::parse(&text_of(&path)?),
        None => AuthorizedKeys::default(),
    };
    let key = PublicKey::from_openssh(what)
        .ok()
        .or_else(|| named(&file, what).cloned())
        .or_else(|| named(&all, what).cloned());
    let key = key.ok_or_else(|| {
        Error::Target(format!(
            "`{what}` names no key that has rights here, or more than one: expected a public key, a fingerprint \
             (SHA256:…) or a comment that one key has; `esker grant … --list` shows them"
        ))
    })?;
    grant(&folder, &key, &Terms::default())?;
    let print = fingerprint(key.key_data());
    Ok(format!("key {print} {}", key.comment())
        .trim_end()
        .to_owned())
}

/// Lists all rights, and the mistakes in the files.
pub fn list(folder: &(impl RightsFolder + ?Sized)) -> Result<(Vec<RightsEntry>, Vec<String>)> {
    let folder = folder.open_folder()?;
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    let mut files = vec![(folder.path().join(authorized::NAME), text_in(&folder))];
    if let Some(own) = own_file() {
        let text = text_of(&own);
        files.push((own, text));
    }
    for (path, text) in files {
        let text = match text {
            Ok(text) => text,
            Err(e) => {
                mistakes.push(e.to_string());
                continue;
            }
        };
        let file = AuthorizedKeys::parse(&text);
        all.extend(file.lines.iter().map(|l| RightsEntry {
            fingerprint: fingerprint(l.key.key_data()),
            comment: l.key.comment().to_owned(),
            role: l.role().map_or_else(String::new, |r| r.name().to_owned()),
            expires: l.expires().and_then(time_text).unwrap_or_default(),
            from: l.from().unwrap_or_default().to_owned(),
            user: user_text(l),
            file: path.display().to_string(),
        }));
        let at = |m: &authorized::Mistake| format!("{}:{}: {}", path.display(), m.number, m.why);
        mistakes.extend(file.mistakes.iter().map(at));
    }
    match token::of_folder(&folder) {
        Ok(tokens) => all.extend(tokens.iter().map(|t| RightsEntry {
            fingerprint: t.name(),
            comment: t.comment.clone(),
            role: t.role.name().to_owned(),
            expires: t.end(),
            from: String::new(),
            user: t.user.as_ref().map(ToString::to_string).unwrap_or_default(),
            file: folder.path().join(token::NAME).display().to_string(),
        })),
        Err(e) => mistakes.push(e.to_string()),
    }
    Ok((all, mistakes))
}

/// Describes the users of a line: the one to which its key is bound, or those whose certificates it may sign.
fn user_text(line: &authorized::Line) -> String {
    match (line.authority(), line.user()) {
        (Some([]), _) => "users of its certificates".to_owned(),
        (Some(logins), _) => format!("certificates of {}", logins.join(",")),
        (None, user) => user.map(ToString::to_string).unwrap_or_default(),
    }
}

/// Creates a token that is valid for `seconds`, bound to a user if `opens` names one.
pub fn make_token(
    folder: &(impl RightsFolder + ?Sized),
    opens: &token::TokenRights,
    seconds: u64,
    comment: &str,
) -> Result<String> {
    let now = crate::rights::now();
    let end = now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
    let folder = folder.open_folder()?;
    let _lock = folder.lock()?;
    token::make(&folder, opens, end, now, comment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostKey, Role};

    #[test]
    fn what_is_given_is_listed_and_taken() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::from_seed(&[1; 32]).public().clone();
        let key = PublicKey::new(key.key_data().clone(), "bob@lab");
        let terms = Terms {
            role: Some(Role::Write),
            expires: Some(2_000_000_000),
            from: Some("10.0.0.0/8".into()),
            user: None,
        };
        grant(dir.path(), &key, &terms).unwrap();
        let of = || {
            let all = list(dir.path()).unwrap().0;
            let mut of = all.into_iter().filter(|l| l.comment == "bob@lab");
            let one = of.next().unwrap();
            assert_eq!(of.next(), None);
            (one.role, one.expires, one.from)
        };
        let given = (
            "write".into(),
            "20330518033320Z".into(),
            "10.0.0.0/8".into(),
        );
        assert_eq!(of(), given);
        assert!(revoke(dir.path(), "ann@lab").is_err());
        for name in ["bob@lab", &fingerprint(key.key_data())] {
            assert!(revoke(dir.path(), name).unwrap().contains("SHA256:"));
            assert_eq!(of().0, "");
        }
        let token = make_token(dir.path(), &Role::Read.into(), 60, "curl").unwrap();
        assert!(revoke(dir.path(), &token).is_ok());
        assert!(revoke(dir.path(), &token).is_err());
    }

    #[test]
    fn what_would_not_be_read_back_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::from_seed(&[1; 32]).public().clone();
        for from in ["", "a\"b", "10.0.0.0/99", "x\ny"] {
            let terms = Terms {
                role: Some(Role::Read),
                from: Some(from.into()),
                ..Terms::default()
            };
            assert!(grant(dir.path(), &key, &terms).is_err(), "{from:?}");
        }
        assert!(!dir.path().join(authorized::NAME).exists());
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = dir.path();
                scope.spawn(move || {
                    let key = HostKey::from_seed(&[n + 1; 32]).public().clone();
                    let terms = Terms {
                        role: Some(Role::Read),
                        ..Terms::default()
                    };
                    grant(folder, &key, &terms).unwrap();
                });
            }
        });
        let text = std::fs::read_to_string(dir.path().join(authorized::NAME)).unwrap();
        assert_eq!(AuthorizedKeys::parse(&text).lines.len(), 8);
    }
}
