//! Searching objects (SoMeta's P-search, section II-E) and tagging what a search finds, as data.

use super::{Identity, ObjectId};
use crate::filter::Expr;
use crate::value::{Properties, Value};
use crate::version::Version;
use std::fmt;
use std::str::FromStr;

/// On whose behalf something is asked. A search shows them only what they may read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asker {
    /// Their user id.
    pub uid: i64,
    /// The groups that they are in.
    pub gids: Vec<i64>,
}

impl Asker {
    /// Whether nothing is hidden from them: user 0. What others may see, [`crate::visibility`] decides.
    pub fn sees_all(&self) -> bool {
        self.uid == 0
    }

    /// The asker, if something may be hidden from them.
    pub fn limited(asker: Option<&Self>) -> Option<&Self> {
        asker.filter(|a| !a.sees_all())
    }
}

/// `UID` or `UID:GID,GID`.
impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uid)?;
        for (n, gid) in self.gids.iter().enumerate() {
            write!(f, "{}{gid}", if n == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Asker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}` is no user: expected UID or UID:GID,GID, as in 1001:100,200");
        let (uid, gids) = text.split_once(':').unwrap_or((text, ""));
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
        Ok(Self {
            uid: number(uid)?,
            gids: gids
                .split(',')
                .filter(|_| !gids.is_empty())
                .map(number)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// A share of a search that several clients issue together (a collective search): each object is in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which, from 0.
    pub rank: u32,
    /// Of how many.
    pub of: u32,
}

impl Share {
    /// Whether an object is in it.
    pub fn has(self, id: ObjectId) -> bool {
        // A multiplication mixes all bits of the number into the high ones (Fibonacci hashing).
        let mixed = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (mixed * u64::from(self.of)) >> 32 == u64::from(self.rank)
    }
}

/// A search.
#[derive(Debug, Clone, PartialEq)]
pub struct Find {
    /// What must hold.
    pub filter: Expr,
    /// Which attributes and tags to give; `None` for all.
    pub select: Option<Vec<String>>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only count; the sink gets nothing.
    pub count: bool,
    /// Only say how it would be done; the sink gets nothing.
    pub explain: bool,
    /// On whose behalf; `None` sees everything.
    pub asker: Option<Asker>,
    /// Only a share of it.
    pub share: Option<Share>,
    /// Only what comes behind that object in the order in which this search gives them: where an earlier answer stopped.
    pub after: Option<ObjectId>,
}

impl Find {
    /// All that a filter holds of.
    pub const fn all(filter: Expr) -> Self {
        Self {
            filter,
            select: None,
            limit: None,
            count: false,
            explain: false,
            asker: None,
            share: None,
            after: None,
        }
    }
}

/// An object as a search gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its number.
    pub id: ObjectId,
    /// When it was created.
    pub created: Version,
    /// When anything about it changed last.
    pub modified: Version,
    /// Predefined attributes, the ID attributes among them; those that were selected.
    pub attributes: Properties,
    /// User-defined tags; null is a tag without a value. Those that were selected.
    pub tags: Properties,
}

impl Found {
    /// An attribute or a tag.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name).or_else(|| self.tags.get(name))
    }

    /// Its ID attributes, if they are all there.
    pub fn identity(&self) -> Option<Identity> {
        let text = |name| match self.attributes.get(name) {
            Some(Value::String(s)) => Some(s.clone()),
            _ => None,
        };
        let number = |name| match self.attributes.get(name) {
            Some(Value::I64(n)) => Some(*n),
            _ => None,
        };
        Some(Identity {
            name: text("name")?,
            app: text("app")?,
            owner: number("owner")?,
            step: number("step")?,
        })
    }
}

/// How one term of a search is or was answered, in the order in which they are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// The server that did it; 0 where there is one.
    pub server: u32,
    /// The term, as the filter language writes it.
    pub term: String,
    /// By what: `index`, `text index`, `column`, `all`.
    pub access: String,
    /// Objects that it was expected to leave.
    pub estimate: u64,
    /// Objects that it left; nothing with `explain`.
    pub left: Option<u64>,
    /// Microseconds; nothing with `explain`.
    pub micros: Option<u64>,
}

/// What a search did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindReport {
    /// Objects that were given, or counted.
    pub matches: u64,
    /// Whether all that there are were; false where the limit or the caller stopped it.
    pub complete: bool,
    /// Servers that did not answer, so that their objects are missing.
    pub missing: Vec<u32>,
    /// How it went about it.
    pub plan: Vec<PlanStep>,
    /// Names in the filter that no object which the asker may read has, each with the nearest name there is and how many
    /// objects have that one.
    pub unknown: Vec<(String, Option<(String, u64)>)>,
}

/// A name that objects have a value under, and how many do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagInfo {
    /// The name.
    pub name: String,
    /// Whether it is a predefined attribute.
    pub predefined: bool,
    /// Objects that have it.
    pub objects: u64,
    /// Different values among them, where an index knows.
    pub distinct: Option<u64>,
    /// Whether searches may use an index on it.
    pub indexed: bool,
    /// Bytes of memory that its values take, and those of its index.
    pub bytes: (u64, u64),
}

/// What is to become of the tags of objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TagChange {
    /// Those to set; null for a tag without a value.
    pub set: Properties,
    /// With it: only where an object lacks the tag (`tag add`; without it, `tag set`).
    pub keep: bool,
    /// Those to remove.
    pub remove: Vec<String>,
}

/// Tagging of all objects that a filter holds of.
#[derive(Debug, Clone, PartialEq)]
pub struct TagWhere {
    /// What must hold.
    pub filter: Expr,
    /// What to do.
    pub change: TagChange,
    /// On whose behalf; objects that they may not change are left alone and counted.
    pub asker: Option<Asker>,
    /// Only count.
    pub dry_run: bool,
    /// As [`crate::Batch::once`].
    pub once: Option<Vec<u8>>,
}

/// What tagging did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagReport {
    /// Objects that the filter holds of, and that the asker may read.
    pub matches: u64,
    /// Those that changed, or would.
    pub changed: u64,
    /// Those that the asker may not change.
    pub refused: u64,
    /// When they changed.
    pub version: Version,
    /// Whether anything was done now. Not if it was only to be counted, nor if its marker says that it had been done before: by an
    /// earlier call with that marker or, where a client repeats what was not answered, by an earlier attempt of this one. The
    /// numbers are zero then.
    pub applied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_groups_are_read_and_written() {
        let asker = |uid, gids: &[i64]| Asker {
            uid,
            gids: gids.to_vec(),
        };
        for (text, read) in [
            ("1001", asker(1001, &[])),
            ("1001:100", asker(1001, &[100])),
            ("1001:100,200", asker(1001, &[100, 200])),
        ] {
            assert_eq!(text.parse(), Ok(read.clone()));
            assert_eq!(read.to_string(), text);
        }
        for bad in ["", "ada", "1001:x", "1001:100,", ":1"] {
            assert!(bad.parse::<Asker>().is_err(), "{bad}");
        }
    }
}
