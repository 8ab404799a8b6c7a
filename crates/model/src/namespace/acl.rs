//! POSIX access control lists of files (`acl(5)`; IEEE 1003.1e draft 17), as Linux stores, inherits and checks them.
//!
//! A list is an extended attribute in the form of `setxattr(2)`, in one canonical encoding: named users and groups are in
//! the order of their ids. The bits of a file's mode and its access list always agree: a mode has the permissions of the
//! owner, of the mask (or of the owning group, if there is no mask) and of others. A list that says no more than a mode is
//! not stored.

use super::{NFS4_ACL, XATTR_BYTES_MAX};
use crate::codec::DecodeError;
use crate::object::Principal;

/// Name of the extended attribute with a file's access list.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the extended attribute with the list that new entries of a directory inherit.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

const FORMAT: u32 = 2;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// Largest number of entries: as many as an extended attribute has. Linux reads 511 over FUSE, and denies access to a file of
/// a mount with more.
pub(super) const ENTRIES_MAX: usize = (XATTR_BYTES_MAX - HEAD_BYTES) / ENTRY_BYTES;
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An access control list. Permissions are 4 read, 2 write, 1 search or execute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Permissions of the file's owner.
    pub owner: u8,
    /// Permissions of further users, by id, in ascending order.
    pub users: Vec<(u32, u8)>,
    /// Permissions of the file's group.
    pub group: u8,
    /// Permissions of further groups, by id, in ascending order.
    pub groups: Vec<(u32, u8)>,
    /// Upper bound of the permissions of further users and of all groups. Always there if there are named entries.
    pub mask: Option<u8>,
    /// Permissions of everybody else.
    pub other: u8,
}

/// Names of all extended attributes that are access control lists.
pub const ACL_NAMES: [&[u8]; 3] = [NFS4_ACL, ACL_ACCESS, ACL_DEFAULT];

/// Whether an extended attribute is an access control list.
pub fn is_acl(name: &[u8]) -> bool {
    ACL_NAMES.contains(&name)
}

impl Acl {
    /// Decodes the value of an extended attribute; `None` for a list without entries, which removes the list.
    ///
    /// # Errors
    /// A wrong size or version, an unknown or missing entry, a wrong order of kinds, two entries of one user or group, and a
    /// list with named entries that has no mask.
    pub fn parse(value: &[u8]) -> Result<Option<Self>, DecodeError> {
        let bad = |expected| DecodeError { at: 0, expected };
        let (head, entries) = value
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or_else(|| bad("the version of an access list"))?;
        if u32::from_le_bytes(*head) != FORMAT {
            return Err(bad("an access list of version 2"));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let (mut owner, mut group, mut mask, mut other) = (None, None, None, None);
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        let mut last = 0;
        for entry in entries.chunks(ENTRY_BYTES) {
            let &[tag, high, permissions, zero, a, b, c, d] = entry else {
                return Err(bad("entries of eight bytes"));
            };
            let tag = u16::from_le_bytes([tag, high]);
            let id = u32::from_le_bytes([a, b, c, d]);
            if zero != 0 || permissions > 7 {
                return Err(bad("permissions of an entry (0 to 7)"));
            }
            let named = matches!(tag, USER | GROUP);
            if tag < last || tag == last && !named {
                return Err(bad("entries in order, each once"));
            }
            last = tag;
            match tag {
                USER_OBJ => owner = Some(permissions),
                USER => users.push((id, permissions)),
                GROUP_OBJ => group = Some(permissions),
                GROUP => groups.push((id, permissions)),
                MASK => mask = Some(permissions),
                OTHER => other = Some(permissions),
                _ => return Err(bad("a kind of entry")),
            }
            if named && id == NO_ID {
                return Err(bad("the id of a named entry"));
            }
        }
        for named in [&mut users, &mut groups] {
            named.sort_unstable();
            if named
                .windows(2)
                .any(|pair| matches!(pair, [(a, _), (b, _)] if a == b))
            {
                return Err(bad("one entry for each user and group"));
            }
        }
        let needs_mask = !users.is_empty() || !groups.is_empty();
        if needs_mask && mask.is_none() {
            return Err(bad("a mask, since there are named entries"));
        }
        let (Some(owner), Some(group), Some(other)) = (owner, group, other) else {
            return Err(bad("entries of the owner, the group and others"));
        };
        Ok(Some(Self {
            owner,
            users,
            group,
            groups,
            mask,
            other,
        }))
    }

    /// Returns the canonical value of the extended attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FORMAT.to_le_bytes().to_vec();
        let mut put = |tag: u16, permissions: u8, id: u32| {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&u16::from(permissions).to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        };
        put(USER_OBJ, self.owner, NO_ID);
        self.users.iter().for_each(|(id, p)| put(USER, *p, *id));
        put(GROUP_OBJ, self.group, NO_ID);
        self.groups.iter().for_each(|(id, p)| put(GROUP, *p, *id));
        if let Some(mask) = self.mask {
            put(MASK, mask, NO_ID);
        }
        put(OTHER, self.other, NO_ID);
        out
    }

    /// Whether the list says no more than the bits of a mode.
    pub fn is_mode(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask.is_none()
    }

    /// Returns the bits of a mode that agree with this list.
    pub fn mode_bits(&self) -> u32 {
        let class = u32::from(self.mask.unwrap_or(self.group));
        u32::from(self.owner) << 6 | class << 3 | u32::from(self.other)
    }

    /// Returns the entries as `getfacl` prints them, with ids as numbers.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut put = |kind: &str, id: Option<u32>, permissions: u8| {
            let id = id.map_or_else(String::new, |id| id.to_string());
            let letters: String = [(4, 'r'), (2, 'w'), (1, 'x')]
                .into_iter()
                .map(|(bit, letter)| if permissions & bit != 0 { letter } else { '-' })
                .collect();
            texts.push(format!("{kind}:{id}:{letters}"));
        };
        put("user", None, self.owner);
        for (id, permissions) in &self.users {
            put("user", Some(*id), *permissions);
        }
        put("group", None, self.group);
        for (id, permissions) in &self.groups {
            put("group", Some(*id), *permissions);
        }
        if let Some(mask) = self.mask {
            put("mask", None, mask);
        }
        put("other", None, self.other);
        texts
    }

    /// Returns the three permissions of a mode, those of its owner first.
    fn classes(mode: u32) -> [u8; 3] {
        [6, 3, 0].map(|shift| (mode >> shift & 7) as u8)
    }

    fn group_class(&mut self) -> &mut u8 {
        self.mask.as_mut().unwrap_or(&mut self.group)
    }

    /// Makes the list agree with a new mode (`chmod`).
    pub fn set_mode(&mut self, mode: u32) {
        let [owner, group, other] = Self::classes(mode);
        (self.owner, self.other) = (owner, other);
        *self.group_class() = group;
    }

    /// Reduces an inherited list to what the mode of a creating call permits.
    pub fn restrict(&mut self, mode: u32) {
        let [owner, group, other] = Self::classes(mode);
        self.owner &= owner;
        self.other &= other;
        *self.group_class() &= group;
    }

    /// Whether a user other than the owner may do everything that the bits ask for, with the permissions of the entry for
    /// the user, else of any entry of the user's groups, else of others. `group` is the file's.
    pub fn allows(&self, principal: &Principal, group: Option<i64>, bits: u8) -> bool {
        let mask = self.mask.unwrap_or(7);
        let permits = |permissions: u8| permissions & mask & bits == bits;
        let named = |(id, _): &&(u32, u8)| i64::from(*id) == principal.uid;
        if let Some((_, permissions)) = self.users.iter().find(named) {
            return permits(*permissions);
        }
        let named = self.groups.iter().map(|(id, p)| (i64::from(*id), *p));
        let own = group.map(|group| (group, self.group));
        let mut is_member = false;
        for (group, permissions) in own.into_iter().chain(named) {
            if principal.gids.contains(&group) {
                if permits(permissions) {
                    return true;
                }
                is_member = true;
            }
        }
        !is_member && self.other & bits == bits
    }
}

/// Whether a value has the size and the version of an access list.
pub(super) fn has_acl_size(value: &[u8]) -> bool {
    value.starts_with(&FORMAT.to_le_bytes())
        && (value.len() - HEAD_BYTES).is_multiple_of(ENTRY_BYTES)
}

/// Whether a value is a list without entries.
pub(super) fn is_empty_acl(value: &[u8]) -> bool {
    value.len() == HEAD_BYTES
}

/// Returns the value of an extended attribute.
pub(super) fn value_of<'x>(xattrs: &'x [(Vec<u8>, Vec<u8>)], name: &[u8]) -> Option<&'x [u8]> {
    let found = xattrs.iter().find(|(n, _)| n == name);
    found.map(|(_, value)| value.as_slice())
}

/// Decodes a list among extended attributes, if there is one. A damaged one permits nothing.
pub(super) fn acl_in(xattrs: &[(Vec<u8>, Vec<u8>)], name: &[u8]) -> Option<Acl> {
    let value = value_of(xattrs, name)?;
    let nothing = || Acl {
        owner: 0,
        users: Vec::new(),
        group: 0,
        groups: Vec::new(),
        mask: Some(0),
        other: 0,
    };
    Acl::parse(value).unwrap_or_else(|_| Some(nothing()))
}

/// Stores a list among extended attributes, or removes it.
pub(super) fn put_acl(xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>, name: &[u8], acl: Option<&Acl>) {
    put_value(xattrs, name, acl.map(Acl::encode));
}

/// Stores a value among extended attributes, which are sorted by name, or removes it.
pub(super) fn put_value(xattrs: &mut Vec<(Vec<u8>, Vec<u8>)>, name: &[u8], value: Option<Vec<u8>>) {
    let found = xattrs.binary_search_by(|(n, _)| n.as_slice().cmp(name));
    match (found, value) {
        (Ok(i), Some(value)) => {
            if let Some(entry) = xattrs.get_mut(i) {
                entry.1 = value;
            }
        }
        (Ok(i), None) => {
            xattrs.remove(i);
        }
        (Err(i), Some(value)) => xattrs.insert(i, (name.to_vec(), value)),
        (Err(_), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Errno, Inode, Kind};
    use proptest::prelude::*;

    fn acls() -> impl Strategy<Value = Acl> {
        let named = || prop::collection::btree_map(0_u32..6, 0_u8..8, 0..4);
        (
            any::<[u8; 3]>(),
            named(),
            named(),
            prop::option::of(0_u8..8),
        )
            .prop_map(|([owner, group, other], users, groups, mask)| Acl {
                owner: owner & 7,
                group: group & 7,
                other: other & 7,
                mask: mask.or((!users.is_empty() || !groups.is_empty()).then_some(5)),
                users: users.into_iter().collect(),
                groups: groups.into_iter().collect(),
            })
    }

    /// The access check of `acl(5)`, word by word, for a user who is not the owner.
    fn by_the_manual(acl: &Acl, uid: i64, gids: &[i64], group: i64, wanted: u8) -> bool {
        let mask = acl.mask.unwrap_or(7);
        for (id, permissions) in &acl.users {
            if i64::from(*id) == uid {
                return permissions & mask & wanted == wanted;
            }
        }
        let mut matching = Vec::new();
        if gids.contains(&group) {
            matching.push(acl.group);
        }
        for (id, permissions) in &acl.groups {
            if gids.contains(&i64::from(*id)) {
                matching.push(*permissions);
            }
        }
        if !matching.is_empty() {
            return matching.iter().any(|p| p & mask & wanted == wanted);
        }
        acl.other & wanted == wanted
    }

    fn inode(mode: u32) -> Inode {
        Inode {
            id: crate::id::VertexId::default(),
            version: crate::version::Version::ZERO,
            mode,
            uid: 1,
            gid: 2,
            links: 1,
            size: 0,
            blocks: 0,
            rdev: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
            content: crate::namespace::Content::None,
            xattrs: vec![(b"user.a".to_vec(), Vec::new())],
            tracked: false,
        }
    }

    proptest! {
        #[test]
        fn values_come_back(acl in acls()) {
            prop_assert_eq!(Acl::parse(&acl.encode()).unwrap(), Some(acl));
        }

        #[test]
        fn no_value_panics(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Acl::parse(&value);
            let _ = Acl::parse(&[&[2, 0, 0, 0][..], &value].concat());
        }

        #[test]
        fn access_is_that_of_the_manual(acl in acls(), uid in 0_i64..6, gids in prop::collection::vec(0_i64..6, 0..4), group in 0_i64..6, bits in 0_u8..8) {
            let principal = Principal { uid, gids: gids.clone() };
            let expected = by_the_manual(&acl, uid, &gids, group, bits);
            prop_assert_eq!(acl.allows(&principal, Some(group), bits), expected);
        }

        #[test]
        fn mode_and_list_agree(acl in acls(), mode in 0_u32..0o1000, directory in any::<bool>()) {
            let kind = if directory { Kind::Directory } else { Kind::File };
            let agree = |inode: &Inode| match inode.access_acl() {
                Some(acl) => !acl.is_mode() && acl.mode_bits() == inode.mode & 0o777,
                None => true,
            };
            let at = || "/f".to_owned();
            let mut file = inode(kind.bits() | 0o4640);
            file.set_acl(ACL_ACCESS, Some(&acl.encode()), true, &at).unwrap();
            prop_assert_eq!(file.mode, kind.bits() | 0o4000 | acl.mode_bits());
            prop_assert!(agree(&file));
            prop_assert_eq!(file.access_acl(), Some(acl.clone()).filter(|a| !a.is_mode()));
            file.set_permissions(mode);
            prop_assert!(agree(&file) && file.mode == kind.bits() | mode);
            let mut new = inode(kind.bits() | mode);
            new.inherit(Some(&acl), 0o777);
            prop_assert!(agree(&new) && new.mode & 0o777 & !mode == 0);
            prop_assert_eq!(new.default_acl(), directory.then_some(acl));
            prop_assert!(new.xattrs.is_sorted());
            let mut new = inode(kind.bits() | mode);
            new.inherit(None, 0o027);
            prop_assert_eq!(new.mode, kind.bits() | mode & !0o027);
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        let entry = |tag: u8, permissions: u8, id: u32| {
            [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat()
        };
        let list = |entries: &[(u8, u8, u32)]| {
            let mut value = vec![2, 0, 0, 0];
            for (tag, permissions, id) in entries {
                value.extend(entry(*tag, *permissions, *id));
            }
            value
        };
        let good = [
            (1, 7, NO_ID),
            (2, 5, 9),
            (4, 5, NO_ID),
            (16, 7, NO_ID),
            (32, 0, NO_ID),
        ];
        assert!(Acl::parse(&list(&good)).unwrap().is_some());
        assert_eq!(Acl::parse(&[2, 0, 0, 0]).unwrap(), None);
        for without in 0..good.len() {
            let mut entries = good.to_vec();
            entries.remove(without);
            // Without the named entry it is a list with a mask.
            assert_eq!(
                Acl::parse(&list(&entries)).is_ok(),
                without == 1,
                "{without}"
            );
        }
        let change = |i: usize, entry| {
            let mut entries = good.to_vec();
            entries[i] = entry;
            Acl::parse(&list(&entries))
        };
        assert!(change(0, (1, 8, NO_ID)).is_err(), "permissions");
        assert!(change(1, (2, 5, NO_ID)).is_err(), "no id");
        assert!(change(1, (3, 5, 9)).is_err(), "an unknown kind");
        assert!(change(3, (4, 5, NO_ID)).is_err(), "twice");
        let mut twice = good.to_vec();
        twice.insert(1, (2, 4, 9));
        assert!(
            Acl::parse(&list(&twice)).is_err(),
            "two entries of one user"
        );
        let mut order = good.to_vec();
        order.swap(2, 3);
        assert!(Acl::parse(&list(&order)).is_err(), "order");
        let value = list(&good);
        assert!(Acl::parse(&value[..value.len() - 1]).is_err(), "size");
        assert!(
            Acl::parse(&[&[1, 0, 0, 0][..], &value[4..]].concat()).is_err(),
            "version"
        );
        assert!(Acl::parse(&[]).is_err());
    }

    #[test]
    fn kinds_without_lists_refuse_them() {
        let at = || "/f".to_owned();
        let acl = Acl {
            owner: 7,
            users: vec![(9, 7)],
            group: 5,
            groups: Vec::new(),
            mask: Some(7),
            other: 0,
        };
        let set = |mode, name: &[u8], value: Option<&[u8]>| {
            inode(mode)
                .set_acl(name, value, true, &at)
                .map_err(|e| e.errno)
        };
        let value = acl.encode();
        for name in [ACL_ACCESS, ACL_DEFAULT] {
            assert_eq!(set(0o12_0777, name, Some(&value)), Err(Errno::NotSupported));
            assert_eq!(set(0o10_0644, name, Some(b"x")), Err(Errno::Invalid));
        }
        assert_eq!(
            set(0o10_0644, ACL_DEFAULT, Some(&value)),
            Err(Errno::Access)
        );
        assert_eq!(set(0o10_0644, ACL_DEFAULT, None), Ok(()));
        let stranger = inode(0o10_0644).set_acl(ACL_ACCESS, Some(&value), false, &at);
        assert_eq!(stranger.map_err(|e| e.errno), Err(Errno::NotPermitted));
        assert_eq!(set(0o4_0755, ACL_DEFAULT, Some(&value)), Ok(()));
        let many = |users: u32| Acl {
            users: (0..users).map(|id| (id, 7)).collect(),
            ..acl.clone()
        };
        let set_many = |users| set(0o10_0644, ACL_ACCESS, Some(&many(users).encode()));
        assert_eq!(
            (set_many(5_000), set_many(9_000)),
            (Ok(()), Err(Errno::NoSpace))
        );
    }

    #[test]
    fn entries_are_printed_as_by_getfacl() {
        let acl = Acl {
            owner: 7,
            users: vec![(9, 5)],
            group: 4,
            groups: vec![(20, 2)],
            mask: Some(6),
            other: 0,
        };
        let expected = [
            "user::rwx",
            "user:9:r-x",
            "group::r--",
            "group:20:-w-",
            "mask::rw-",
            "other::---",
        ];
        assert_eq!(acl.texts(), expected);
        let mut file = inode(0o4_0750);
        let at = || "/f".to_owned();
        file.set_acl(ACL_ACCESS, Some(&acl.encode()), true, &at)
            .unwrap();
        file.set_acl(ACL_DEFAULT, Some(&acl.encode()), true, &at)
            .unwrap();
        let texts = file.acl_texts();
        assert_eq!((texts.len(), texts[6].as_str()), (12, "default:user::rwx"));
        assert!(file.has_acl() && !inode(0o10_0644).has_acl());
    }
}
