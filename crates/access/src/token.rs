//! Tokens for programs that know no SSH: `Authorization: Bearer esker_…`, for a time.
//!
//! A database's folder keeps what they hash to, so that nobody who reads the file can use one:
//!
//! ```text
//!  SHA-256 in hexadecimal digits, role, end (seconds since 1970), who made it
//! ```

use crate::role::Role;
use crate::{file, options};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use esker_model::{Error, Result};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt::Write as _;
use std::path::Path;

/// The name of the file, in a database's folder.
pub const NAME: &str = "access_tokens";
/// What tokens begin with.
pub const PREFIX: &str = "esker_";

/// A token that was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    hash: String,
    /// What it opens.
    pub role: Role,
    /// Seconds since 1970 from which it opens nothing.
    pub expires: i64,
    /// What for.
    pub comment: String,
}

fn hash_of(token: &str) -> String {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Token {
    /// How it is called where it is not shown: the beginning of its hash.
    pub fn name(&self) -> String {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        format!("token:{short}")
    }

    /// When it ends, in words.
    pub fn end(&self) -> String {
        options::time_text(self.expires).unwrap_or_default()
    }
}

/// The tokens in a file's text; lines that are none are passed over.
pub fn parse(text: &str) -> Vec<Token> {
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let hash = words.next()?;
        let hex = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        Some(Token {
            hash: hex.then(|| hash.to_owned())?,
            role: Role::parse(words.next()?)?,
            expires: words.next()?.parse().ok()?,
            comment: words.next().unwrap_or_default().to_owned(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The one that a client shows.
pub fn find<'a>(tokens: &'a [Token], shown: &str) -> Option<&'a Token> {
    if !shown.starts_with(PREFIX) || shown.len() > 100 {
        return None;
    }
    let hash = hash_of(shown);
    tokens.iter().find(|t| t.hash == hash)
}

/// Makes one and notes it in the folder; those that are over are forgotten.
pub fn make(folder: &Path, role: Role, expires: i64, now: i64, comment: &str) -> Result<String> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| {
        Error::io(
            "making a token",
            std::io::Error::other("the system gave no random numbers"),
        )
    })?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let path = folder.join(NAME);
    let mut all = of_folder(folder)?;
    all.retain(|t| t.expires > now);
    all.push(Token {
        hash: hash_of(&token),
        role,
        expires,
        comment: comment.replace(['\n', '\r'], " "),
    });
    write(&path, &all)?;
    Ok(token)
}

/// Forgets the one of that name ([`Token::name`]) or that is shown; whether there was one.
pub fn forget(folder: &Path, what: &str) -> Result<bool> {
    let mut all = of_folder(folder)?;
    let before = all.len();
    let shown = find(&all, what).map(Token::name);
    all.retain(|t| t.name() != what && Some(t.name()) != shown);
    if all.len() == before {
        return Ok(false);
    }
    write(&folder.join(NAME), &all)?;
    Ok(true)
}

/// Those of a folder.
pub fn of_folder(folder: &Path) -> Result<Vec<Token>> {
    let text = file::read(&folder.join(NAME))?.map(|(_, text)| text);
    Ok(parse(&text.unwrap_or_default()))
}

fn write(path: &Path, all: &[Token]) -> Result<()> {
    let mut text = String::new();
    for t in all {
        let _ = writeln!(text, "{} {} {} {}", t.hash, t.role, t.expires, t.comment);
    }
    file::replace(path, 0o600, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_found_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let one = make(dir.path(), Role::Read, 100, 0, "curl").unwrap();
        let two = make(dir.path(), Role::Write, 200, 0, "a\nb").unwrap();
        let text = std::fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert!(!text.contains(one.strip_prefix(PREFIX).unwrap()));
        let all = of_folder(dir.path()).unwrap();
        assert_eq!(find(&all, &one).unwrap().role, Role::Read);
        assert_eq!(find(&all, &two).unwrap().comment, "a b");
        assert_eq!(find(&all, "esker_x"), None);
        assert_eq!(find(&all, &format!("{one}x")), None);
        // What is over goes when the next one is made.
        make(dir.path(), Role::Read, 900, 150, "").unwrap();
        let all = of_folder(dir.path()).unwrap();
        assert_eq!((find(&all, &one), all.len()), (None, 2));
        assert!(forget(dir.path(), &find(&all, &two).unwrap().name()).unwrap());
        assert!(!forget(dir.path(), &two).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC{0,90}\n){0,4}", shown in "\\PC{0,40}") {
            let all = parse(&text);
            prop_assert_eq!(find(&all, &shown), None);
        }
    }
}
