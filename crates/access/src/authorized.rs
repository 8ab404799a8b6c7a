//! `authorized_keys`: lines of options, key and comment, in sshd's format with additional options.
//!
//! ```text
//!  esker-role="write",expiry-time="20270101" ssh-ed25519 AAAAC3Nz… bob@lab
//!  esker-user="1002:100,7" ssh-ed25519 AAAAC3Nz… portal
//!  principal="ada" ssh-ed25519 AAAAC3Nz… ada@lab
//!  cert-authority,principals="ada,bob" ssh-ed25519 AAAAC3Nz… the centre's CA
//! ```
//!
//! A key without a role has role `read`. A key bound to a user reads only what that user may read, whatever its client says.
//! A line with an option that cannot be enforced grants no rights and is reported with its line number.

use crate::binding::UserBinding;
use crate::crypto;
use crate::fingerprint;
use crate::options::{Options, split_line, time_text};
use crate::role::Role;
use ssh_key::PublicKey;
use ssh_key::public::KeyData;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Name of the file, in a database's folder and in `~/.esker`.
pub const NAME: &str = "authorized_keys";

/// A line that lists a key.
#[derive(Debug, Clone)]
pub struct Line {
    /// Line number, from 1.
    pub number: usize,
    /// The key with its comment.
    pub key: PublicKey,
    options: Options,
}

/// A line that grants no rights because of a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Line number, from 1.
    pub number: usize,
    /// Description of the mistake.
    pub why: String,
}

/// A parsed `authorized_keys` file.
#[derive(Debug, Clone, Default)]
pub struct AuthorizedKeys {
    /// Lines that list a key.
    pub lines: Vec<Line>,
    /// Lines that could not be parsed.
    pub mistakes: Vec<Mistake>,
}

/// Reason for refusing a key that a file lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineRefusal {
    /// Listed with role `none`.
    Revoked,
    /// Past its expiry time.
    Expired {
        /// Expiry time as text.
        at: String,
    },
    /// Disallowed from the client's address.
    AddressNotAllowed {
        /// Address patterns from which the key is allowed.
        from: String,
    },
}

impl Line {
    /// Returns the role of the key; `None` if it is revoked.
    pub fn role(&self) -> Option<Role> {
        self.options.role
    }

    /// Returns the expiry time, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        self.options.expires
    }

    /// Returns the address patterns from which the key is allowed; `None` if from everywhere.
    pub fn from(&self) -> Option<&str> {
        self.options
            .from
            .as_ref()
            .map(crate::options::AddressPatterns::text)
    }

    /// Returns the user to which the key is bound; `None` if it may read everything.
    pub fn user(&self) -> Option<&UserBinding> {
        self.options.user.as_ref()
    }

    /// Returns the login names whose certificates the key may sign, if it is that of a certificate authority; empty for all.
    pub fn authority(&self) -> Option<&[String]> {
        self.options.authority.as_deref()
    }

    /// Returns the role that the key grants to a client at `from` at time `now`, in seconds since 1970.
    pub fn role_at(&self, from: IpAddr, now: i64) -> Result<Role, LineRefusal> {
        let Some(role) = self.role() else {
            return Err(LineRefusal::Revoked);
        };
        if let Some(end) = self.options.expires
            && now >= end
        {
            return Err(LineRefusal::Expired {
                at: time_text(end).unwrap_or_default(),
            });
        }
        match &self.options.from {
            Some(patterns) if !patterns.allows(from) => Err(LineRefusal::AddressNotAllowed {
                from: patterns.text().to_owned(),
            }),
            _ => Ok(role),
        }
    }
}

/// Parses the options and the key of a line.
fn entry(line: &str) -> Result<(Options, PublicKey), String> {
    let key = |text: &str| -> Result<PublicKey, String> {
        let key = PublicKey::from_openssh(text).map_err(|e| format!("there is no key: {e}"))?;
        crypto::usable(key.key_data())?;
        Ok(key)
    };
    // A line that begins with a key type has no options.
    let first = line.split([' ', '\t']).next().unwrap_or_default();
    if is_kind(first) {
        return Ok((Options::default(), key(&single_spaces(line))?));
    }
    let (options, rest) =
        split_line(line).ok_or("expected options, a key and a comment: a quote is not closed")?;
    Ok((Options::parse(options)?, key(&single_spaces(rest))?))
}

/// Whether a word is the name of a key type.
fn is_kind(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|p| word.starts_with(p))
}

/// Separates type, key and comment by single spaces; in the file, tabs and runs of spaces separate them, too.
fn single_spaces(text: &str) -> String {
    let mut parts = text.splitn(2, [' ', '\t']);
    let kind = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default().trim_start();
    let mut parts = rest.splitn(2, [' ', '\t']);
    let key = parts.next().unwrap_or_default();
    let comment = parts.next().unwrap_or_default().trim();
    format!("{kind} {key} {comment}").trim_end().to_owned()
}

impl AuthorizedKeys {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for (i, line) in text.lines().enumerate() {
            let (number, line) = (i + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match entry(line) {
                Ok((options, key)) => all.lines.push(Line {
                    number,
                    key,
                    options,
                }),
                Err(why) => all.mistakes.push(Mistake { number, why }),
            }
        }
        all
    }

    /// Returns the lines that list `key` as a client's key.
    pub fn lines_of<'a>(&'a self, key: &'a KeyData) -> impl Iterator<Item = &'a Line> {
        let named = self.lines.iter().filter(move |l| l.key.key_data() == key);
        named.filter(|l| l.authority().is_none())
    }

    /// Returns the lines that list `key` as that of a certificate authority.
    pub fn authorities_of<'a>(&'a self, key: &'a KeyData) -> impl Iterator<Item = &'a Line> {
        let named = self.lines.iter().filter(move |l| l.key.key_data() == key);
        named.filter(|l| l.authority().is_some())
    }
}

/// Rights that a new line is to grant to a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Role of the key; `None` revokes it.
    pub role: Option<Role>,
    /// Expiry time, in seconds since 1970.
    pub expires: Option<i64>,
    /// Comma-separated address patterns from which the key is allowed.
    pub from: Option<String>,
    /// User to which the key is bound; `None` if it may read everything.
    pub user: Option<UserBinding>,
}

/// Formats a line for a key. The error says which of the terms cannot be written.
pub fn line(key: &PublicKey, terms: &Terms) -> Result<String, String> {
    crypto::usable(key.key_data())?;
    let role = terms.role.map_or("none", Role::name);
    let mut line = format!("esker-role=\"{role}\"");
    if let Some(end) = terms.expires {
        let end = time_text(end).ok_or("that time is beyond those that can be written")?;
        let _ = write!(line, ",expiry-time=\"{end}\"");
    }
    if let Some(from) = &terms.from {
        let _ = write!(line, ",from=\"{from}\"");
    }
    if let Some(user) = &terms.user {
        let option = match user {
            UserBinding::Numbers(_) => "esker-user",
            UserBinding::Login(_) => "principal",
        };
        let _ = write!(line, ",{option}=\"{user}\"");
    }
    let options = Options::parse(&line)?;
    let text = key.to_openssh().map_err(|e| e.to_string())?;
    let line = format!("{line} {text}");
    // A line that would not parse back to the same terms is refused.
    let same = |(o, k): (Options, PublicKey)| o == options && k.key_data() == key.key_data();
    if line.lines().count() != 1 || !entry(&line).is_ok_and(same) {
        return Err(
            "the addresses or the comment contain a character that is not allowed in a line".into(),
        );
    }
    Ok(line)
}

/// Returns the file's text with `line` in place of all lines of `key`; other lines are unchanged.
pub fn with(text: &str, key: &KeyData, line: Option<&str>) -> String {
    let mut out = String::new();
    for old in text.lines() {
        let names = entry(old.trim()).is_ok_and(|(_, k)| k.key_data() == key);
        if !names {
            out.push_str(old);
            out.push('\n');
        }
    }
    if let Some(line) = line {
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Finds the key with the given fingerprint or comment.
pub fn named<'a>(file: &'a AuthorizedKeys, what: &str) -> Option<&'a PublicKey> {
    let by_comment = |l: &&Line| l.key.comment() == what;
    let by_print = |l: &&Line| fingerprint(l.key.key_data()) == what;
    let mut lines = file.lines.iter();
    let found = lines.clone().find(by_print).or_else(|| {
        let first = lines.find(by_comment)?;
        // A comment that two keys share identifies neither.
        let same = |l: &Line| l.key.key_data() == first.key.key_data();
        let all = file.lines.iter().filter(by_comment).all(same);
        all.then_some(first)
    });
    found.map(|l| &l.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_key::HostKey;
    use esker_model::object::Principal;
    use proptest::prelude::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn lines_give_rights_or_are_reported() {
        let text = format!(
            "# Bob's\n\n{KEY} bob #1\n  esker-role=\"write\",expiry-time=\"19700102\" \t{KEY}\tbob at work\n\
             command=\"esker scan\" {KEY} bob\nssh-ed25519 AAAA bob\nesker-role=\"read {KEY}\nnonsense\n"
        );
        let file = AuthorizedKeys::parse(&text);
        let comments: Vec<&str> = file.lines.iter().map(|l| l.key.comment()).collect();
        assert_eq!(comments, ["bob #1", "bob at work"]);
        assert_eq!(file.lines[0].role_at(HERE, 100), Ok(Role::Read));
        assert_eq!(file.lines[1].role_at(HERE, 86_399), Ok(Role::Write));
        assert!(matches!(
            file.lines[1].role_at(HERE, 86_400),
            Err(LineRefusal::Expired { .. })
        ));
        let numbers: Vec<usize> = file.mistakes.iter().map(|m| m.number).collect();
        assert_eq!(numbers, [5, 6, 7, 8]);
        assert!(file.mistakes[0].why.contains("`command`"));
    }

    #[test]
    fn kinds_that_nobody_should_use_open_nothing() {
        // A DSA key and a 1,024-bit RSA key.
        let rsa = {
            let n = [vec![0xc1_u8], vec![0x55; 127]].concat();
            let n = ssh_key::Mpint::from_positive_bytes(&n).unwrap();
            let e = ssh_key::Mpint::from_positive_bytes(&[1, 0, 1]).unwrap();
            PublicKey::from(KeyData::Rsa(ssh_key::public::RsaPublicKey { e, n }))
        };
        let file = AuthorizedKeys::parse(&format!("{}\n", rsa.to_openssh().unwrap()));
        assert!(
            file.mistakes[0].why.contains("1024 bits"),
            "{:?}",
            file.mistakes
        );
    }

    #[test]
    fn a_key_is_named_by_fingerprint_or_comment() {
        let file = AuthorizedKeys::parse(&format!("{KEY} bob\n"));
        let key = &file.lines[0].key;
        assert_eq!(named(&file, "bob"), Some(key));
        assert_eq!(named(&file, &fingerprint(key.key_data())), Some(key));
        assert_eq!(named(&file, "ann"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_file(text in "(\\PC{0,40}\n){0,6}") {
            let file = AuthorizedKeys::parse(&text);
            prop_assert!(file.lines.len() + file.mistakes.len() <= text.lines().count());
        }

        /// Compared with a model: a list of keys and the terms last granted to each.
        #[test]
        fn what_is_granted_last_holds(
            changes in proptest::collection::vec((0_usize..3, proptest::option::of(0_usize..3), proptest::option::of(1_i64..2_000_000_000), proptest::option::of((1_i64..9, proptest::collection::vec(0_i64..9, 0..3)))), 0..12),
            other in "(# [a-z]{0,9}\n){0,2}",
        ) {
            let keys: Vec<HostKey> = (0..3).map(|n| HostKey::from_seed(&[n + 1; 32])).collect();
            let mut text = other.clone();
            let mut model = [None, None, None];
            for (who, role, expires, user) in changes {
                let role = role.and_then(|r| Role::ALL.get(r).copied());
                let key = keys[who].public();
                let user = user.filter(|_| matches!(role, None | Some(Role::Read))).map(|(uid, gids)| if uid == 1 { UserBinding::Login("ada".into()) } else { UserBinding::Numbers(Principal { uid, gids }) });
                let terms = Terms { role, expires, from: None, user };
                text = with(&text, key.key_data(), Some(&line(key, &terms).unwrap()));
                model[who] = Some(terms);
            }
            let file = AuthorizedKeys::parse(&text);
            prop_assert!(file.mistakes.is_empty());
            for (key, terms) in keys.iter().zip(&model) {
                let lines: Vec<&Line> = file.lines_of(key.public().key_data()).collect();
                prop_assert_eq!(lines.len(), usize::from(terms.is_some()));
                if let Some(terms) = terms {
                    prop_assert_eq!(lines[0].role(), terms.role);
                    prop_assert_eq!(lines[0].expires(), terms.expires);
                    prop_assert_eq!(lines[0].user(), terms.user.as_ref());
                }
            }
            prop_assert!(text.starts_with(&other));
        }
    }
}
