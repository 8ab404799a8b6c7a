//! Bearer tokens with an expiry time, for programs without SSH keys: `Authorization: Bearer esker_…`.
//!
//! A database's folder has only their hashes, so that a reader of the file cannot use a token:
//!
//! ```text
//!  SHA-256 in hexadecimal digits, role, expiry time (seconds since 1970), comment
//! ```
//!
//! `read/1002:100,7` or `read/ada` in place of a role binds the token to that user.

use crate::binding::UserBinding;
use crate::file::{Folder, RightsFolder};
use crate::options;
use crate::role::Role;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use esker_model::{Error, Result};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt::{self, Write as _};

/// File name, in a database's folder.
pub const NAME: &str = "access_tokens";
/// Prefix of every token.
pub const PREFIX: &str = "esker_";

/// Rights of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRights {
    /// Role of the token's bearer.
    pub role: Role,
    /// User to which the token is bound; `None` if it may read everything.
    pub user: Option<UserBinding>,
}

impl From<Role> for TokenRights {
    fn from(role: Role) -> Self {
        Self { role, user: None }
    }
}

impl fmt::Display for TokenRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            None => write!(f, "{}", self.role),
            Some(user) => write!(f, "{}/{user}", self.role),
        }
    }
}

impl TokenRights {
    /// Creates the rights of a role, bound to `user` if given. The error says why the two cannot be combined.
    pub fn new(role: Role, user: Option<&str>) -> std::result::Result<Self, String> {
        let user = user.map(str::parse::<UserBinding>).transpose()?;
        if user.is_some() && role != Role::Read {
            return Err(format!(
                "a credential that is bound to a user can only have role `read`, not `{role}`: what a user may change is not checked yet"
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

/// An issued token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    hash: String,
    /// Role of the token's bearer.
    pub role: Role,
    /// User to which the token is bound; `None` if it may read everything.
    pub user: Option<UserBinding>,
    /// Expiry time, in seconds since 1970.
    pub expires: i64,
    /// Purpose of the token.
    pub comment: String,
}

/// Returns the hash of a token, which identifies it in files and logs.
pub fn hash_of(token: &str) -> String {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Token {
    /// Returns the hash of the token.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the public name of the token: the beginning of its hash.
    pub fn name(&self) -> String {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        format!("token:{short}")
    }

    /// Returns the expiry time as text.
    pub fn end(&self) -> String {
        options::time_text(self.expires).unwrap_or_default()
    }
}

/// Parses the tokens of a file's text; malformed lines are skipped.
pub fn parse(text: &str) -> Vec<Token> {
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let hash = words.next()?;
        let hex = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let opens = TokenRights::parse(words.next()?)?;
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

/// Finds the token that a client presents.
pub fn find<'a>(tokens: &'a [Token], shown: &str) -> Option<&'a Token> {
    if !shown.starts_with(PREFIX) || shown.len() > 100 {
        return None;
    }
    let hash = hash_of(shown);
    tokens.iter().find(|t| t.hash == hash)
}

/// Creates a token and records it in the folder; expired tokens are removed.
pub fn make(
    folder: &(impl RightsFolder + ?Sized),
    opens: &TokenRights,
    expires: i64,
    now: i64,
    comment: &str,
) -> Result<String> {
    let folder = folder.open_folder()?;
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| {
        Error::io(
            "making a token",
            std::io::Error::other("the system's random number generator failed"),
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

/// Removes the token with the given name ([`Token::name`]) or secret; returns whether it existed.
pub fn forget(folder: &(impl RightsFolder + ?Sized), what: &str) -> Result<bool> {
    let folder = folder.open_folder()?;
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

/// Reads the tokens of a folder.
pub fn of_folder(folder: &(impl RightsFolder + ?Sized)) -> Result<Vec<Token>> {
    of_open(&*folder.open_folder()?)
}

fn of_open(folder: &Folder) -> Result<Vec<Token>> {
    let text = folder.read(NAME)?.map(|(_, text)| text);
    Ok(parse(&text.unwrap_or_default()))
}

fn write(folder: &Folder, all: &[Token]) -> Result<()> {
    folder.replace(NAME, 0o600, text_of(all).as_bytes())
}

/// Formats the text of a token file.
#[doc(hidden)]
pub fn text_of(all: &[Token]) -> String {
    let mut text = String::new();
    for t in all {
        let opens = TokenRights {
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
        // Expired tokens are removed when the next one is made.
        let bound = TokenRights::new(Role::Read, Some("1002:100,7")).unwrap();
        let three = make(dir.path(), &bound, 900, 150, "").unwrap();
        let all = of_folder(dir.path()).unwrap();
        assert_eq!(find(&all, &three).unwrap().user, bound.user);
        assert!(TokenRights::new(Role::Write, Some("1002")).is_err());
        let named = TokenRights::new(Role::Read, Some("ada")).unwrap();
        assert_eq!(TokenRights::parse("read/ada"), Some(named));
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
