//! Visibility: the single rule for vertices, objects, files and RDF graphs that says which principal may see which
//! item.
//!
//! A [`Principal`] is the user for whom a call is made. The host of the database fills it in; `None` is the owner of
//! the database, who may do everything. An [`Access`] says which principals may do what with one item: an owner, a
//! group and mode bits. Objects store them as attributes ([`Access::of_attributes`]), files in their inodes
//! ([`Access::of_file`]), RDF graphs in the graph `urn:esker:rights`. [`Access::allows`] decides for all of them: the
//! first of the classes owner, group and others that the principal belongs to counts, as for files (POSIX.1-2017, 4.5). The
//! access control list of a file divides the class of the group ([`Acl`]), or replaces the classes ([`Nfs4Acl`]).
//!
//! [`sees`] decides what a principal may see of the graph: the engine, a cluster's servers and searches over columns of
//! objects only gather what is stored of an [`ItemAccess`]. A file must be reachable as well: each directory on the path of
//! one of its names must let the principal search it. Vertices that are neither objects nor files are visible to
//! everybody. A share ([`crate::sharing`]) shows an item that permissions hide, as long as the item has the owner that it had
//! when it was shared.

use crate::namespace::{Acl, Inode, Kind, Nfs4Acl};
use crate::object::{MODE_DEFAULT, Principal};
use crate::sharing::SharedLineage;
use crate::value::{Properties, Value};

/// Permission bit for reading, within one class of mode bits.
pub const READ: i64 = 0o4;
/// Permission bit for writing, within one class of mode bits.
pub const WRITE: i64 = 0o2;
/// Permission bit for searching a directory or executing a file, within one class of mode bits.
pub const SEARCH: i64 = 0o1;

/// An access control list of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessList {
    /// A list of POSIX. The bits of the group in the mode are its mask.
    Posix(Acl),
    /// A list of `NFSv4`, which decides alone: the mode is not consulted.
    Nfs4(Nfs4Acl),
}

/// Owner, group and permission bits of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// User id of the owner.
    pub owner: i64,
    /// Group id, if the item has a group.
    pub group: Option<i64>,
    /// Permission bits; for a file with its type bits.
    pub mode: i64,
    /// Access control list of a file that has one.
    pub acl: Option<AccessList>,
}

impl Access {
    /// Builds the access of an item from optional attributes. The owner defaults to user 0, the mode to readable by
    /// everybody.
    pub fn new(owner: Option<i64>, group: Option<i64>, mode: Option<i64>) -> Self {
        Self {
            owner: owner.unwrap_or(0),
            group,
            mode: mode.unwrap_or(MODE_DEFAULT),
            acl: None,
        }
    }

    /// Returns the access of an object from its attributes `owner`, `gid` and `mode`.
    pub fn of_attributes(attributes: &Properties) -> Self {
        let number = |name| match attributes.get(name) {
            Some(Value::I64(n)) => Some(*n),
            _ => None,
        };
        Self::new(number("owner"), number("gid"), number("mode"))
    }

    /// Returns the access of a file. The directories on its path are not considered.
    pub fn of_file(inode: &Inode) -> Self {
        Self {
            owner: inode.uid.into(),
            group: Some(inode.gid.into()),
            mode: inode.mode.into(),
            acl: inode.access_list(),
        }
    }

    /// Whether the principal may do everything that the bits ask for.
    pub fn allows(&self, principal: Option<&Principal>, bits: i64) -> bool {
        let Some(principal) = principal.filter(|a| !a.is_superuser()) else {
            return self.allows_superuser(principal.is_some(), bits);
        };
        let wanted = (bits & 7) as u8;
        if let Some(AccessList::Nfs4(acl)) = &self.acl {
            let owners = (self.owner, self.group);
            return acl.allows(principal, owners, self.is_directory(), wanted);
        }
        let class = if principal.uid == self.owner {
            6
        } else if let Some(AccessList::Posix(acl)) = &self.acl
            && self.mode & 0o070 != 0
        {
            // A list with an empty mask is not consulted, as in Linux (`acl_permission_check`).
            return acl.allows(principal, self.group, wanted);
        } else if self
            .group
            .is_some_and(|group| principal.gids.contains(&group))
        {
            3
        } else {
            0
        };
        self.mode >> class & bits == bits
    }

    /// Decides for user 0, who executes only files that somebody may execute and may do everything else, and for the
    /// owner of the database, who may do everything.
    fn allows_superuser(&self, named: bool, bits: i64) -> bool {
        let executes = named && self.kind() != 0 && !self.is_directory() && bits & SEARCH != 0;
        !executes || self.mode & 0o111 != 0
    }

    /// Returns the type bits of the mode; 0 for an item that is no file.
    fn kind(&self) -> u32 {
        u32::try_from(self.mode).unwrap_or(0) & Kind::MASK
    }

    fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory.bits()
    }
}

/// Stored facts of an item that decide who may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemAccess {
    /// A vertex that is neither an object nor a file, or an id of which nothing is stored.
    Vertex,
    /// An object, or a deleted one as it was last; `None` if that is not known.
    Object(Option<Access>),
    /// A file, or a removed one as it was last.
    File {
        /// Access to the file itself; `None` if rows contradict each other.
        access: Option<Access>,
        /// Whether the principal may search all directories on the path of one of its names.
        reachable: bool,
    },
}

impl ItemAccess {
    /// Returns the owner of an object or a file, if it is known.
    pub fn owner(&self) -> Option<i64> {
        match self {
            Self::Vertex => None,
            Self::Object(access) | Self::File { access, .. } => access.as_ref().map(|a| a.owner),
        }
    }
}

/// A share that names an item, at the time of a call.
#[derive(Debug, Clone, Copy)]
pub struct ItemShare<'s> {
    /// Share whose items include it.
    pub share: &'s SharedLineage,
    /// Owner of the item when it was shared.
    pub owner: i64,
    /// Time of the call, in milliseconds since 1970.
    pub now_millis: u64,
}

/// Whether the principal may see an item, by its permissions or by a share that names it. Of an item whose access is unknown
/// only those see anything who see all.
pub fn sees(
    principal: Option<&Principal>,
    item: &ItemAccess,
    share: Option<&ItemShare<'_>>,
) -> bool {
    let Some(principal) = Principal::limited(principal) else {
        return true;
    };
    let reads = |access: &Option<Access>| {
        access
            .as_ref()
            .is_some_and(|a| a.allows(Some(principal), READ))
    };
    let permitted = match item {
        ItemAccess::Vertex => true,
        ItemAccess::Object(access) => reads(access),
        ItemAccess::File { access, reachable } => *reachable && reads(access),
    };
    permitted
        || share.is_some_and(|s| {
            item.owner() == Some(s.owner) && s.share.is_for(principal, s.now_millis)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::SharingTerms;
    use crate::{Version, VertexId};

    fn principal(uid: i64, gids: &[i64]) -> Principal {
        Principal {
            uid,
            gids: gids.to_vec(),
        }
    }

    #[test]
    fn the_first_class_decides() {
        let ada = principal(7, &[8]);
        for (mode, owner, group, bits, expected) in [
            (0o077, 7, Some(8), READ, false),
            (0o007, 9, Some(8), READ, false),
            (0o070, 9, Some(8), READ | WRITE | SEARCH, true),
            (0o004, 9, Some(9), READ, true),
            (0o004, 9, None, READ, true),
            (0o040, 9, None, READ, false),
            (0o004, 9, Some(9), READ | WRITE, false),
        ] {
            let access = Access::new(Some(owner), group, Some(mode));
            assert_eq!(access.allows(Some(&ada), bits), expected, "{access:?}");
            assert!(access.allows(None, bits) && access.allows(Some(&principal(0, &[])), bits));
        }
    }

    #[test]
    fn items_of_unknown_access_are_hidden() {
        let (ada, root) = (principal(7, &[8]), principal(0, &[]));
        let open = Access::new(Some(9), None, Some(0o004));
        let closed = Access::new(Some(9), None, Some(0o060));
        let file = |access, reachable| ItemAccess::File { access, reachable };
        for (item, expected) in [
            (ItemAccess::Vertex, true),
            (ItemAccess::Object(Some(open.clone())), true),
            (ItemAccess::Object(Some(closed.clone())), false),
            (ItemAccess::Object(None), false),
            (file(Some(open.clone()), true), true),
            (file(Some(open), false), false),
            (file(Some(closed), true), false),
            (file(None, true), false),
        ] {
            assert_eq!(sees(Some(&ada), &item, None), expected, "{item:?}");
            assert!(
                sees(None, &item, None) && sees(Some(&root), &item, None),
                "all"
            );
        }
    }

    #[test]
    fn a_share_shows_hidden_items_of_the_same_owner() {
        let ada = principal(7, &[8]);
        let terms = SharingTerms {
            root: VertexId::default(),
            impact: false,
            users: Vec::new(),
            groups: vec![8],
            until_millis: Some(100),
        };
        let share = SharedLineage {
            id: terms.id(None),
            terms,
            by: None,
            made: Version::ZERO,
            items: 1,
        };
        let by = |owner, now_millis| ItemShare {
            share: &share,
            owner,
            now_millis,
        };
        let closed = Some(Access::new(Some(9), None, Some(0)));
        let file = |access| ItemAccess::File {
            access,
            reachable: false,
        };
        for (item, share, expected) in [
            (file(closed.clone()), by(9, 99), true),
            (file(closed.clone()), by(9, 100), false),
            (file(closed.clone()), by(6, 99), false),
            (file(None), by(9, 99), false),
            (ItemAccess::Object(closed.clone()), by(9, 0), true),
            (ItemAccess::Object(None), by(9, 0), false),
        ] {
            assert_eq!(sees(Some(&ada), &item, Some(&share)), expected, "{item:?}");
        }
        let other = principal(6, &[]);
        assert!(!sees(
            Some(&other),
            &ItemAccess::Object(closed),
            Some(&by(9, 0))
        ));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let empty = Access::of_attributes(&Properties::new());
        assert_eq!(empty, Access::new(Some(0), None, Some(0o644)));
        // An attribute of the wrong kind is ignored.
        let odd = Properties::new().with("mode", "0600").with("owner", 7);
        assert_eq!(
            Access::of_attributes(&odd),
            Access::new(Some(7), None, None)
        );
        assert!(
            empty.allows(Some(&principal(7, &[])), READ)
                && !empty.allows(Some(&principal(7, &[])), WRITE)
        );
    }
}
