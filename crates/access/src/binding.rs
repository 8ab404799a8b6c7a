//! The user to whom a key or a token is bound.

use esker_model::object::Principal;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a login name, in bytes.
const LOGIN_BYTES_MAX: usize = 256;

/// User to whom a credential is bound: by numbers that never change, or by a login name that the server looks up each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserBinding {
    /// A user id with the ids of its groups.
    Numbers(Principal),
    /// A login name; the server's name service has its id and groups.
    Login(String),
}

/// Formats as `UID:GID,GID` or as the login name.
impl fmt::Display for UserBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbers(user) => user.fmt(f),
            Self::Login(login) => f.write_str(login),
        }
    }
}

impl FromStr for UserBinding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numeric = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+');
        if text.starts_with(numeric) {
            return numbers_of(text).map(Self::Numbers);
        }
        login_of(text).map(Self::Login)
    }
}

/// Parses a user id and group ids to which a credential can be bound.
pub(crate) fn numbers_of(text: &str) -> Result<Principal, String> {
    let user: Principal = text.parse()?;
    if user.uid <= 0 {
        return Err(format!(
            "a key cannot be bound to user {}: user 0 sees everything, and other user ids are positive numbers",
            user.uid
        ));
    }
    Ok(user)
}

/// Whether a text can be a login name. It stands in files of lines, options and lists.
pub fn is_login(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '$');
    text.len() <= LOGIN_BYTES_MAX
        && text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(inner)
}

/// Parses a login name.
pub(crate) fn login_of(text: &str) -> Result<String, String> {
    if is_login(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is not a user: expected a login name as in ada, or UID:GID,GID as in 1001:100,200"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn users_are_numbers_or_names() {
        for text in [
            "1002:100,7",
            "1002",
            "ada",
            "svc-portal",
            "ada@example.org",
            "ŝtelo",
        ] {
            let user: UserBinding = text.parse().unwrap();
            assert_eq!(user.to_string(), text);
            let is_name = !text.starts_with('1');
            assert_eq!(matches!(user, UserBinding::Login(_)), is_name, "{text}");
        }
        for (text, why) in [
            ("", "a login name"),
            ("0", "user 0 sees everything"),
            ("-5", "positive numbers"),
            ("@staff", "a login name"),
            ("a b", "a login name"),
            ("a,b", "a login name"),
            ("a\"b", "a login name"),
            ("a/b", "a login name"),
            ("12ada", "is not a user"),
        ] {
            let refused = text.parse::<UserBinding>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_user_or_refused(text in "\\PC{0,30}") {
            if let Ok(UserBinding::Login(login)) = text.parse() {
                prop_assert!(!login.contains([',', '"', ' ', '/', '\\']));
            }
        }
    }
}
