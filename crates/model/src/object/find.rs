//! Searches for objects (SoMeta's P-search, section II-E) and tagging of the objects found, as data.

use super::{Identity, ObjectId};
use crate::filter::Expr;
use crate::value::{Properties, Value};
use crate::version::Version;
use std::fmt;
use std::str::FromStr;

/// The user for whom a call is made. A search returns only objects that the principal may read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Principal {
    /// User id of the principal.
    pub uid: i64,
    /// Group ids of the principal.
    pub gids: Vec<i64>,
}

impl Principal {
    /// Whether nothing is hidden from the principal: user 0. For others, [`crate::visibility`] decides.
    pub fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Returns the principal unless nothing is hidden from it.
    pub fn limited(principal: Option<&Self>) -> Option<&Self> {
        principal.filter(|a| !a.is_superuser())
    }
}

/// Formats as `UID` or `UID:GID,GID`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uid)?;
        for (n, gid) in self.gids.iter().enumerate() {
            write!(f, "{}{gid}", if n == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}` is not a user: expected UID or UID:GID,GID, as in 1001:100,200");
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

/// One client's share of a collective search. Each object is in exactly one share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index of the share, from 0.
    pub rank: u32,
    /// Total number of shares.
    pub of: u32,
}

impl Share {
    /// Whether an object is in this share.
    pub fn has(self, id: ObjectId) -> bool {
        // The multiplication mixes all bits of the number into the high ones (Fibonacci hashing).
        let mixed = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (mixed * u64::from(self.of)) >> 32 == u64::from(self.rank)
    }
}

/// A search for objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Find {
    /// Condition that objects must match.
    pub filter: Expr,
    /// Names of the attributes and tags to return; `None` for all.
    pub select: Option<Vec<String>>,
    /// Largest number of objects to return.
    pub limit: Option<u64>,
    /// Whether only to count the objects; the sink gets nothing.
    pub count: bool,
    /// Whether only to explain the plan; the sink gets nothing.
    pub explain: bool,
    /// The principal of the search; `None` sees everything.
    pub principal: Option<Principal>,
    /// The share of a collective search, if this is one.
    pub share: Option<Share>,
    /// Cursor: the last object of an earlier answer. Only objects behind it in the order of this search are returned.
    pub after: Option<ObjectId>,
}

impl Find {
    /// Searches for all objects that match a filter.
    pub const fn all(filter: Expr) -> Self {
        Self {
            filter,
            select: None,
            limit: None,
            count: false,
            explain: false,
            principal: None,
            share: None,
            after: None,
        }
    }
}

/// An object in the result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Number of the object.
    pub id: ObjectId,
    /// The version of its creation.
    pub created: Version,
    /// The version of its last change.
    pub modified: Version,
    /// Selected predefined attributes, ID attributes included.
    pub attributes: Properties,
    /// Selected user-defined tags; null is a tag without a value.
    pub tags: Properties,
}

impl Found {
    /// Returns the value of an attribute or a tag.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name).or_else(|| self.tags.get(name))
    }

    /// Returns the ID attributes, if all of them were selected.
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

/// One step of a search's plan: how a term of the filter is or was evaluated, in the order of evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// Number of the server that evaluates the step; 0 outside of clusters.
    pub server: u32,
    /// The term in the syntax of the filter language.
    pub term: String,
    /// Access path: `index`, `text index`, `column` or `all`.
    pub access: String,
    /// Estimated number of objects left after the step.
    pub estimate: u64,
    /// Actual number of objects left after the step; `None` with `explain`.
    pub left: Option<u64>,
    /// Duration in microseconds; `None` with `explain`.
    pub micros: Option<u64>,
}

/// Summary of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindReport {
    /// Number of objects returned or counted.
    pub matches: u64,
    /// Whether the result is complete; false where the limit or the caller stopped the search.
    pub complete: bool,
    /// Numbers of the servers that did not answer, whose objects are missing.
    pub missing: Vec<u32>,
    /// Steps of the plan, in order.
    pub plan: Vec<PlanStep>,
    /// Names in the filter that no object readable by the principal has, each with the most similar existing name and
    /// the number of objects that have it.
    pub unknown: Vec<(String, Option<(String, u64)>)>,
}

/// Statistics of one attribute or tag name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagInfo {
    /// The attribute or tag name.
    pub name: String,
    /// Whether the name is a predefined attribute.
    pub predefined: bool,
    /// Number of objects that have a value of this name.
    pub objects: u64,
    /// Number of distinct values, if an index knows.
    pub distinct: Option<u64>,
    /// Whether searches may use an index on the name.
    pub indexed: bool,
    /// Memory of the values, and of their index, in bytes.
    pub bytes: (u64, u64),
}

/// A change of the tags of objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TagChange {
    /// Tags to set; null for a tag without a value.
    pub set: Properties,
    /// Whether to keep existing values: the tag is set only on objects that lack it (`tag add`, not `tag set`).
    pub keep: bool,
    /// Names of the tags to remove.
    pub remove: Vec<String>,
}

/// A change of the tags of all objects that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct TagWhere {
    /// Condition that objects must match.
    pub filter: Expr,
    /// Change of the tags of each.
    pub change: TagChange,
    /// The principal of the change. Objects that the principal may not change are skipped and counted.
    pub principal: Option<Principal>,
    /// If true, objects are counted and not changed.
    pub dry_run: bool,
    /// Idempotency key; see [`crate::Batch::idempotency_key`].
    pub idempotency_key: Option<Vec<u8>>,
}

/// The result of changing tags by a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagReport {
    /// Number of objects that match the filter and that the principal may read.
    pub matches: u64,
    /// Number of objects that changed, or would with `dry_run`.
    pub changed: u64,
    /// Number of objects that the principal may not change.
    pub refused: u64,
    /// The version of the change.
    pub version: Version,
    /// Whether the call changed anything. False for a dry run, and if the idempotency key had been applied before: by
    /// an earlier call with that key or, where a client repeats an unanswered call, by an earlier attempt of this one.
    /// The counts are zero then.
    pub applied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_groups_are_read_and_written() {
        let principal = |uid, gids: &[i64]| Principal {
            uid,
            gids: gids.to_vec(),
        };
        for (text, read) in [
            ("1001", principal(1001, &[])),
            ("1001:100", principal(1001, &[100])),
            ("1001:100,200", principal(1001, &[100, 200])),
        ] {
            assert_eq!(text.parse(), Ok(read.clone()));
            assert_eq!(read.to_string(), text);
        }
        for bad in ["", "ada", "1001:x", "1001:100,", ":1"] {
            assert!(bad.parse::<Principal>().is_err(), "{bad}");
        }
    }
}
