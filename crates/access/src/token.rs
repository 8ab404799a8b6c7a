//! Tokens for programs that know no SSH: `Authorization: Bearer esker_…`, for a time.
//!
//! A database's folder keeps what they hash to, so that nobody who reads the file can use one:
//!
//! ```text
//!  SHA-256 in hexadecimal digits, role, end (seconds since 1970), who made it
//! ```
//!
//! `read/1002:100,7` in the place of a role binds the token to that user.

use crate::file::{Folder, Within};
use crate::options::{self, user_of};
use crate::role::Role;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use esker_model::object::Asker;
use esker_model::{Error, Result};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt::{self, Write as _};

/// The name of the file, in a database's folder.
pub const NAME: &str = "access_tokens";
/// What tokens begin with.
pub const PREFIX: &str = "esker_";

/// What a token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opens {
    /// What whoever shows it may do.
    pub role: Role,
    /// As whom they read; none if nothing is hidden from them.
    pub user: Option<Asker>,
}

impl From<Role> for Opens {
    fn from(role: Role) -> Self {
        Self { role, user: None }
    }
}

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            None => write!(f, "{}", self.role),
            Some(user) => write!(f, "{}/{user}", self.role),
        }
    }
}

impl Opens {
    /// A role, bound to a user if one is given. The error says what does not go together.
    pub fn new(role: Role, user: Option<&str>) -> std::result::Result<Self, String> {
        let user = user.map(user_of).transpose()?;
        if user.is_some() && role != Role::Read {
            return Err(format!(
                "what is bound to a user has role `read` only, not `{role}`: what a user may change is not checked yet"
            ));
        }
        Ok(Self { role, user })
    }

    fn parse(word: &str) -> Option<Self> {
        let (role, user) = match word.split_once('/') {
            Some((role, user)) => (role, Some(user)),
            None => (word, None),
        };
        Self::new(Role::parse(role)?, user).ok()
    }
}

/// A token that was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    hash: String,
    /// What it opens.
    pub role: Role,
    /// As whom it reads; none if nothing is hidden from it.
    pub user: Option<Asker>,
    /// Seconds since 1970 from which it opens nothing.
    pub expires: i64,
    /// What for.
    pub comment: String,
}

/// What a token hashes to, by which it is known where it is not shown.
pub fn hash_of(token: &str) -> String {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Token {
    /// What it hashes to.
    pub fn hash(&self) -> &str {
        &self.hash
    }

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
        let opens = Opens::parse(words.next()?)?;
        Some(Token {
            hash: hex.then(|| hash.to_owned())?,
            role: opens.role,
            user: opens.user,
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
pub fn make(
    folder: &(impl Within + ?Sized),
    opens: &Opens,
    expires: i64,
    now: i64,
    comment: &str,
) -> Result<String> {
    let folder = folder.opened()?;
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| {
        Error::io(
            "making a token",
            std::io::Error::other("the system gave no random numbers"),
        )
    })?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let mut all = of_open(&folder)?;
    all.retain(|t| t.expires > now);
    all.push(Token {
        hash: hash_of(&token),
        role: opens.role,
        user: opens.user.clone(),
        expires,
        comment: comment.replace(['\n', '\r'], " "),
    });
    write(&folder, &all)?;
    Ok(token)
}

/// Forgets the one of that name ([`Token::name`]) or that is shown; whether there was one.
pub fn forget(folder: &(impl Within + ?Sized), what: &str) -> Result<bool> {
    let folder = folder.opened()?;
    let mut all = of_open(&folder)?;
    let before = all.len();
    let shown = find(&all, what).map(Token::name);
    all.retain(|t| t.name() != what && Some(t.name()) != shown);
    if all.len() == before {
        return Ok(false);
    }
    write(&folder, &all)?;
    Ok(true)
}

/// Those of a folder.
pub fn of_folder(folder: &(impl Within + ?Sized)) -> Result<Vec<Token>> {
    of_open(&*folder.opened()?)
}

fn of_open(folder: &Folder) -> Result<Vec<Token>> {
    let text = folder.read(NAME)?.map(|(_, text)| text);
    Ok(parse(&text.unwrap_or_default()))
}

fn write(folder: &Folder, all: &[Token]) -> Result<()> {
    folder.replace(NAME, 0o600, text_of(all).as_bytes())
}

/// The text of a file of tokens.
#[doc(hidden)]
pub fn text_of(all: &[Token]) -> String {
    let mut text = String::new();
    for t in all {
        let opens = Opens {
            role: t.role,
            user: t.user.clone(),
        };
        let _ = writeln!(text, "{} {opens} {} {}", t.hash, t.expires, t.comment);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_found_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let one = make(dir.path(), &Role::Read.into(), 100, 0, "curl").unwrap();
        let two = make(dir.path(), &Role::Write.into(), 200, 0, "a\nb").unwrap();
        let text = std::fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert!(!text.contains(one.strip_prefix(PREFIX).unwrap()));
        let all = of_folder(dir.path()).unwrap();
        assert_eq!(find(&all, &one).unwrap().role, Role::Read);
        assert_eq!(find(&all, &two).unwrap().comment, "a b");
        assert_eq!(find(&all, "esker_x"), None);
        assert_eq!(find(&all, &format!("{one}x")), None);
        // What is over goes when the next one is made.
        let bound = Opens::new(Role::Read, Some("1002:100,7")).unwrap();
        let three = make(dir.path(), &bound, 900, 150, "").unwrap();
        let all = of_folder(dir.path()).unwrap();
        assert_eq!(find(&all, &three).unwrap().user, bound.user);
        assert!(Opens::new(Role::Write, Some("1002")).is_err());
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
