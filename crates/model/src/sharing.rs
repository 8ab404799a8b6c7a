//! Shares: a lineage that users and groups see although permissions would hide its files and objects.
//!
//! A share names its root, the direction in which the lineage was followed, the users and groups, and a time at which it
//! ends. The items that it opens are determined when it is made. They are rows of their own ([`crate::key::shared_item`]),
//! each with the owner of the item at that time: an item that gets another owner is hidden again. The rule is in
//! [`crate::visibility`].

#![deny(clippy::indexing_slicing)]

use crate::codec::{DecodeError, Reader, put_u64, put_varint};
use crate::error::{Error, Result};
use crate::id::VertexId;
use crate::limits::{SHARE_GRANTEES_MAX, SHARE_TYPES_MAX};
use crate::object::Principal;
use crate::version::Version;
use crate::{wire_enum, wire_newtype, wire_struct};
use std::fmt;
use std::str::FromStr;

const IMPACT: u8 = 1;
const ENDS: u8 = 2;
const BY_USER: u8 = 4;

/// Number of a share: a hash of its root, its direction, its users and groups, and the user who shares. Sharing the same
/// again replaces the share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareId(pub u64);

/// Formats the number as 16 hexadecimal digits.
impl fmt::Display for ShareId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ShareId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            Some(text).filter(|t| t.len() == 16 && t.bytes().all(|b| b.is_ascii_hexdigit()));
        number
            .and_then(|t| u64::from_str_radix(t, 16).ok())
            .map(Self)
            .ok_or_else(|| {
                format!("`{text}` is not the number of a share: expected 16 hexadecimal digits, as `esker share TARGET --list` prints them")
            })
    }
}

/// Terms of a share: what is shared, with whom and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingTerms {
    /// Vertex whose lineage is shared.
    pub root: VertexId,
    /// Whether the data derived from the root is shared, instead of the data that it was derived from.
    pub impact: bool,
    /// Users who see the lineage.
    pub users: Vec<i64>,
    /// Groups whose members see the lineage.
    pub groups: Vec<i64>,
    /// Time from which the share opens nothing, in milliseconds since 1970; `None` for no end.
    pub until_millis: Option<u64>,
}

impl SharingTerms {
    /// Checks the terms and sorts the users and groups, each once.
    pub fn normalize(&mut self, now_millis: u64) -> Result<()> {
        for ids in [&mut self.users, &mut self.groups] {
            ids.sort_unstable();
            ids.dedup();
            if let Some(id) = ids.iter().find(|id| **id < 0) {
                return Err(Error::Invalid(format!(
                    "{id} is not the number of a user or a group: expected 0 or more"
                )));
            }
        }
        match self.users.len() + self.groups.len() {
            0 => Err(Error::Invalid(
                "a share needs users or groups: name at least one with --with".into(),
            )),
            n if n > SHARE_GRANTEES_MAX => Err(Error::Limit {
                what: "a share's number of users and groups".into(),
                got: n as u64,
                limit: SHARE_GRANTEES_MAX as u64,
            }),
            _ if self.until_millis.is_some_and(|until| until <= now_millis) => Err(Error::Invalid(
                "the share would end before it begins: give a later time".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Number of the share with these terms that a user makes; `None` is the owner of the database.
    pub fn id(&self, by: Option<i64>) -> ShareId {
        let mut bytes = b"esker share\0".to_vec();
        bytes.extend_from_slice(&self.root.0);
        bytes.push(u8::from(self.impact));
        put_id(&mut bytes, by.unwrap_or(-1));
        put_ids(&mut bytes, &self.users);
        put_ids(&mut bytes, &self.groups);
        let mut number = [0; 8];
        for (slot, byte) in number.iter_mut().zip(blake3::hash(&bytes).as_bytes()) {
            *slot = *byte;
        }
        ShareId(u64::from_be_bytes(number))
    }
}

/// A request to share a lineage: its terms, and how the lineage is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRequest {
    /// Terms of the share.
    pub terms: SharingTerms,
    /// Maximum number of executions on a path; `None` for no limit.
    pub depth: Option<u32>,
    /// Edge types from data to the executions that made it; empty for the default.
    pub made_by: Vec<String>,
    /// Edge types from an execution to the data that it used; empty for the default.
    pub used: Vec<String>,
}

impl ShareRequest {
    /// Checks the sizes of the request.
    pub fn check(&self) -> Result<()> {
        let types = self.made_by.len().max(self.used.len());
        if types > SHARE_TYPES_MAX {
            return Err(Error::Limit {
                what: "a share's number of edge types".into(),
                got: types as u64,
                limit: SHARE_TYPES_MAX as u64,
            });
        }
        Ok(())
    }
}

/// A share as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLineage {
    /// Number of the share.
    pub id: ShareId,
    /// Terms of the share.
    pub terms: SharingTerms,
    /// User who shares; `None` is the owner of the database.
    pub by: Option<i64>,
    /// Version of the commit that stored the share.
    pub made: Version,
    /// Number of files and objects that the share opens.
    pub items: u64,
}

impl SharedLineage {
    /// Whether the share is for a principal, at a time in milliseconds since 1970.
    pub fn is_for(&self, principal: &Principal, now_millis: u64) -> bool {
        let terms = &self.terms;
        let named = terms.users.contains(&principal.uid)
            || terms.groups.iter().any(|g| principal.gids.contains(g));
        named && !self.has_ended(now_millis)
    }

    /// Whether the share has ended at a time in milliseconds since 1970.
    pub fn has_ended(&self, now_millis: u64) -> bool {
        self.terms
            .until_millis
            .is_some_and(|until| until <= now_millis)
    }

    /// Encodes the row of the share; its number is in the key:
    ///
    /// ```text
    ///  [root 16][flags 1][until 8][by 8][made 8][items 8][count]([user 8])*[count]([group 8])*
    ///  flags     1: impact, 2: there is `until`, 4: there is `by`
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let terms = &self.terms;
        let mut out = terms.root.0.to_vec();
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            flag(terms.impact, IMPACT)
                | flag(terms.until_millis.is_some(), ENDS)
                | flag(self.by.is_some(), BY_USER),
        );
        put_u64(&mut out, terms.until_millis.unwrap_or(0));
        put_id(&mut out, self.by.unwrap_or(0));
        put_u64(&mut out, self.made.0);
        put_u64(&mut out, self.items);
        put_ids(&mut out, &terms.users);
        put_ids(&mut out, &terms.groups);
        out
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(id: ShareId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let root = VertexId(r.array("the root of a share")?);
        let flags = r.u8("flags of a share")?;
        if flags > IMPACT | ENDS | BY_USER {
            return Err(r.error("flags of a share (0 to 7)"));
        }
        let until = r.u64("the end of a share")?;
        let by = r.u64("the user who shares")?.cast_signed();
        let made = Version(r.u64("the version of a share")?);
        let items = r.u64("a number of items")?;
        let users = take_ids(&mut r)?;
        let groups = take_ids(&mut r)?;
        r.finish()?;
        Ok(Self {
            id,
            terms: SharingTerms {
                root,
                impact: flags & IMPACT != 0,
                users,
                groups,
                until_millis: (flags & ENDS != 0).then_some(until),
            },
            by: (flags & BY_USER != 0).then_some(by),
            made,
            items,
        })
    }
}

/// Shares that are open to a principal, each with the version that made it. Caches of what a principal sees compare them.
pub type OpenShares = Vec<(ShareId, Version)>;

/// A call about shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareCall {
    /// Shares a lineage; the answer is the share.
    Share(ShareRequest),
    /// Ends a share; the answer is the share that was removed, or nothing.
    Revoke(ShareId),
    /// Lists the shares that the principal made or that are for it.
    List,
}

wire_newtype!(ShareId);
wire_struct!(SharingTerms {
    root,
    impact,
    users,
    groups,
    until_millis
});
wire_struct!(ShareRequest {
    terms,
    depth,
    made_by,
    used
});
wire_struct!(SharedLineage {
    id,
    terms,
    by,
    made,
    items
});
wire_enum!(ShareCall {
    0 Share(request),
    1 Revoke(id),
    2 List,
});

/// Encodes the owner of an item as the value of its row.
pub fn item_value(owner: i64) -> [u8; 8] {
    owner.to_be_bytes()
}

/// Decodes the output of [`item_value`].
pub fn item_owner(value: &[u8]) -> Result<i64, DecodeError> {
    let mut r = Reader::new(value);
    let owner = r.u64("the owner of a shared item")?.cast_signed();
    r.finish()?;
    Ok(owner)
}

fn put_id(out: &mut Vec<u8>, id: i64) {
    out.extend_from_slice(&id.to_be_bytes());
}

fn put_ids(out: &mut Vec<u8>, ids: &[i64]) {
    put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| put_id(out, *id));
}

fn take_ids(r: &mut Reader<'_>) -> Result<Vec<i64>, DecodeError> {
    let count = r.varint("a number of users or groups")?;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(r.u64("a user or a group")?.cast_signed());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn share(until_millis: Option<u64>, by: Option<i64>) -> SharedLineage {
        let terms = SharingTerms {
            root: VertexId([7; 16]),
            impact: by.is_some(),
            users: vec![1001, 1002],
            groups: vec![100],
            until_millis,
        };
        SharedLineage {
            id: terms.id(by),
            terms,
            by,
            made: Version(77),
            items: 3,
        }
    }

    #[test]
    fn rows_and_messages_come_back() {
        for (until, by) in [(None, None), (Some(5), Some(1001)), (Some(0), None)] {
            let share = share(until, by);
            let row = share.encode();
            assert_eq!(SharedLineage::decode(share.id, &row), Ok(share.clone()));
            for end in 0..row.len() {
                let cut = row.get(..end).unwrap();
                assert!(
                    SharedLineage::decode(share.id, cut).is_err(),
                    "cut at {end}"
                );
            }
            assert_eq!(wire::decode(&wire::encode(&share)), Ok(share));
        }
        assert_eq!(item_owner(&item_value(-7)), Ok(-7));
        let call = ShareCall::Share(ShareRequest {
            terms: share(None, None).terms,
            depth: Some(2),
            made_by: vec!["made".into()],
            used: Vec::new(),
        });
        for call in [call, ShareCall::Revoke(ShareId(9)), ShareCall::List] {
            assert_eq!(wire::decode(&wire::encode(&call)), Ok(call));
        }
    }

    #[test]
    fn a_share_is_for_its_users_and_groups_until_it_ends() {
        let principal = |uid, gids: &[i64]| Principal {
            uid,
            gids: gids.to_vec(),
        };
        let share = share(Some(1_000), None);
        for (principal, now, expected) in [
            (principal(1001, &[]), 999, true),
            (principal(1001, &[]), 1_000, false),
            (principal(7, &[5, 100]), 0, true),
            (principal(100, &[1001]), 0, false),
        ] {
            assert_eq!(share.is_for(&principal, now), expected, "{principal}");
        }
    }

    #[test]
    fn terms_are_checked_and_numbered() {
        let mut terms = share(None, None).terms;
        terms.users = vec![1002, 1001, 1002];
        terms.normalize(0).unwrap();
        assert_eq!(terms, share(None, None).terms);
        // Another end of time is the same share; another user who shares makes another one.
        terms.until_millis = Some(9);
        assert_eq!(terms.id(None), share(None, None).terms.id(None));
        assert_ne!(terms.id(None), terms.id(Some(0)));
        assert!(terms.clone().normalize(9).is_err());
        let nobody = SharingTerms {
            users: Vec::new(),
            groups: Vec::new(),
            ..terms.clone()
        };
        assert!(nobody.clone().normalize(0).is_err());
        let many = SharingTerms {
            groups: (0..=100).collect(),
            ..nobody
        };
        assert!(many.clone().normalize(0).is_err());
        terms.users.push(-1);
        assert!(terms.normalize(0).is_err());
        let id = ShareId(0xab);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("ab".parse::<ShareId>().is_err() && "+123456789abcdef".parse::<ShareId>().is_err());
    }
}
