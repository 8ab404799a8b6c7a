//! Access control lists of `NFSv4` (RFC 8881, section 6), as a scan copies them from a file system and as they are checked.
//!
//! Such a list is an ordered sequence of entries that allow or deny operations; the first entry that decides about an
//! operation counts. Linux has two forms of it. A client of `NFSv4` shows the form of the protocol as `system.nfs4_acl`, with
//! principals as text. ZFS shows `system.nfs4_acl_xdr`, with principals as numbers. The second form is the one that is stored:
//! the host maps the texts of the first to numbers once, when it reads a file.

use crate::codec::DecodeError;
use crate::object::Principal;

/// Name of the extended attribute with a list whose principals are numbers: the stored form.
pub const NFS4_ACL: &[u8] = b"system.nfs4_acl_xdr";
/// Name of the extended attribute with a list whose principals are texts.
pub const NFS4_ACL_NAMED: &[u8] = b"system.nfs4_acl";

/// Largest number of entries.
const NFS4_ENTRIES_MAX: usize = 5_000;

const ALLOW: u32 = 0;
const DENY: u32 = 1;
/// Types of entries that log operations and decide nothing.
const AUDIT_AND_ALARM: [u32; 2] = [2, 3];

const INHERIT_ONLY: u32 = 0x08;
const IDENTIFIER_GROUP: u32 = 0x40;

const SPECIAL: u32 = 1;
const OWNER: u32 = 1;
const GROUP: u32 = 2;
const EVERYONE: u32 = 3;

/// Reading a file's content, or listing a directory.
const READ_DATA: u32 = 0x1;
/// Writing a file's content, or adding a file to a directory.
const WRITE_DATA: u32 = 0x2;
/// Appending to a file, or adding a directory to a directory.
const APPEND_DATA: u32 = 0x4;
/// Executing a file, or searching a directory.
const EXECUTE: u32 = 0x20;
/// Removing entries of a directory.
const DELETE_CHILD: u32 = 0x40;
/// Reading size, times, mode and owners.
const READ_ATTRIBUTES: u32 = 0x80;

/// Letters of operations, as `nfs4_getfacl` prints them.
const OPERATIONS: [(u32, char); 14] = [
    (READ_DATA, 'r'),
    (WRITE_DATA, 'w'),
    (APPEND_DATA, 'a'),
    (DELETE_CHILD, 'D'),
    (0x1_0000, 'd'),
    (EXECUTE, 'x'),
    (READ_ATTRIBUTES, 't'),
    (0x100, 'T'),
    (0x8, 'n'),
    (0x10, 'N'),
    (0x2_0000, 'c'),
    (0x4_0000, 'C'),
    (0x8_0000, 'o'),
    (0x10_0000, 'y'),
];

/// Letters of flags, as `nfs4_getfacl` prints them.
const FLAGS: [(u32, char); 7] = [
    (0x1, 'f'),
    (0x2, 'd'),
    (0x4, 'n'),
    (INHERIT_ONLY, 'i'),
    (0x10, 'S'),
    (0x20, 'F'),
    (IDENTIFIER_GROUP, 'g'),
];

/// Users to whom an entry applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nfs4Who {
    /// The file's owner (`OWNER@`).
    Owner,
    /// Members of the file's group (`GROUP@`).
    Group,
    /// All users, the owner and the group among them (`EVERYONE@`).
    Everyone,
    /// The user with this id.
    User(u32),
    /// Members of the group with this id.
    NamedGroup(u32),
}

/// An entry that allows or denies operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nfs4Entry {
    /// Whether the entry denies what its mask says.
    pub denies: bool,
    /// Flags of inheritance, as in the protocol.
    pub flags: u32,
    /// Operations, as in the protocol.
    pub mask: u32,
    /// Users to whom the entry applies.
    pub who: Nfs4Who,
}

/// An access control list of `NFSv4`: what no entry allows is denied.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Nfs4Acl {
    /// Flags of the list, as in the protocol.
    pub flags: u32,
    /// Entries that allow or deny, in the order in which they are checked.
    pub entries: Vec<Nfs4Entry>,
}

/// A user or group that an entry of a file system names, before it is known which id it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nfs4Name<'a> {
    /// Text of the entry, mostly `name@domain`.
    pub text: &'a str,
    /// Whether it names a group.
    pub is_group: bool,
}

/// Reader of big-endian words.
struct XdrReader<'a>(&'a [u8]);

impl<'a> XdrReader<'a> {
    fn word(&mut self) -> Result<u32, DecodeError> {
        let (word, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*word))
    }

    /// Reads bytes that are padded to whole words.
    fn opaque(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.word()?).map_err(|_| CUT_OFF)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        let padding = length.next_multiple_of(4) - length;
        self.0 = rest.get(padding..).ok_or(CUT_OFF)?;
        Ok(bytes)
    }

    fn finish(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(bad("the end of the access list"))
        }
    }

    /// Reads the number of entries, each of which has at least `bytes` bytes.
    fn count(&mut self, bytes: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.word()?).unwrap_or(usize::MAX);
        if count > NFS4_ENTRIES_MAX {
            return Err(bad("at most 5,000 entries"));
        }
        if count > self.0.len() / bytes {
            return Err(CUT_OFF);
        }
        Ok(count)
    }
}

const CUT_OFF: DecodeError = bad("more bytes of an access list of NFSv4");

const fn bad(expected: &'static str) -> DecodeError {
    DecodeError { at: 0, expected }
}

/// Returns the entry, or `None` if it decides nothing. A principal that is not known (`None`) is nobody where it is allowed
/// something, and might be anybody where it is denied something.
fn entry(
    kind: u32,
    flags: u32,
    mask: u32,
    who: Option<Nfs4Who>,
) -> Result<Option<Nfs4Entry>, DecodeError> {
    let denies = match kind {
        ALLOW => false,
        DENY => true,
        kind if AUDIT_AND_ALARM.contains(&kind) => return Ok(None),
        _ => return Err(bad("a type of entry (0 to 3)")),
    };
    let who = who.or(denies.then_some(Nfs4Who::Everyone));
    Ok(who.map(|who| Nfs4Entry {
        denies,
        // The flag says only which kind of id follows; the stored form derives it from the principal.
        flags: flags & !IDENTIFIER_GROUP,
        mask,
        who,
    }))
}

impl Nfs4Acl {
    /// Decodes the form with numbers ([`NFS4_ACL`]). A special principal other than the owner, the group and everyone is
    /// unknown.
    ///
    /// # Errors
    /// A wrong size, an unknown type of entry, and more than 5,000 entries.
    pub fn parse(value: &[u8]) -> Result<Self, DecodeError> {
        let mut words = XdrReader(value);
        let flags = words.word()?;
        let count = words.count(20)?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let [kind, flags, special, mask, id] = [
                words.word()?,
                words.word()?,
                words.word()?,
                words.word()?,
                words.word()?,
            ];
            let who = match (special & SPECIAL != 0, id) {
                (true, OWNER) => Some(Nfs4Who::Owner),
                (true, GROUP) => Some(Nfs4Who::Group),
                (true, EVERYONE) => Some(Nfs4Who::Everyone),
                (true, _) => None,
                (false, id) if flags & IDENTIFIER_GROUP != 0 => Some(Nfs4Who::NamedGroup(id)),
                (false, id) => Some(Nfs4Who::User(id)),
            };
            entries.extend(entry(kind, flags, mask, who)?);
        }
        words.finish()?;
        Ok(Self { flags, entries })
    }

    /// Decodes the form with texts ([`NFS4_ACL_NAMED`]). `id_of` returns the id of a user or group, or `None` if the host knows
    /// no such name.
    ///
    /// # Errors
    /// Those of [`Self::parse`], and a principal that is not UTF-8.
    pub fn parse_named(
        value: &[u8],
        id_of: &mut dyn FnMut(Nfs4Name<'_>) -> Option<u32>,
    ) -> Result<Self, DecodeError> {
        let mut words = XdrReader(value);
        let count = words.count(16)?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let (kind, flags, mask) = (words.word()?, words.word()?, words.word()?);
            let text =
                std::str::from_utf8(words.opaque()?).map_err(|_| bad("a principal in UTF-8"))?;
            let is_group = flags & IDENTIFIER_GROUP != 0;
            let mut id = || id_of(Nfs4Name { text, is_group });
            let who = match text {
                "OWNER@" => Some(Nfs4Who::Owner),
                "GROUP@" => Some(Nfs4Who::Group),
                "EVERYONE@" => Some(Nfs4Who::Everyone),
                _ if is_group => id().map(Nfs4Who::NamedGroup),
                _ => id().map(Nfs4Who::User),
            };
            entries.extend(entry(kind, flags, mask, who)?);
        }
        words.finish()?;
        Ok(Self { flags: 0, entries })
    }

    /// Returns the canonical value of the extended attribute [`NFS4_ACL`].
    pub fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let mut out = [self.flags.to_be_bytes(), count.to_be_bytes()].concat();
        for entry in &self.entries {
            let (group, special, id) = match entry.who {
                Nfs4Who::Owner => (0, SPECIAL, OWNER),
                Nfs4Who::Group => (IDENTIFIER_GROUP, SPECIAL, GROUP),
                Nfs4Who::Everyone => (0, SPECIAL, EVERYONE),
                Nfs4Who::User(id) => (0, 0, id),
                Nfs4Who::NamedGroup(id) => (IDENTIFIER_GROUP, 0, id),
            };
            let kind = if entry.denies { DENY } else { ALLOW };
            for word in [kind, entry.flags | group, special, entry.mask, id] {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
        out
    }

    /// Entries of the file itself, and not only of those that will inherit them.
    fn own(&self) -> impl Iterator<Item = &Nfs4Entry> {
        self.entries.iter().filter(|e| e.flags & INHERIT_ONLY == 0)
    }

    /// Whether a user may do everything that the bits ask for (4 read, 2 write, 1 search or execute), by the rule of RFC 8881,
    /// section 6.2.1. `owner` and `group` are the file's.
    pub fn allows(
        &self,
        principal: &Principal,
        (owner, group): (i64, Option<i64>),
        is_directory: bool,
        bits: u8,
    ) -> bool {
        let mut open = operations(bits, is_directory);
        for entry in self.own() {
            let applies = match entry.who {
                Nfs4Who::Owner => principal.uid == owner,
                Nfs4Who::Group => group.is_some_and(|group| principal.gids.contains(&group)),
                Nfs4Who::Everyone => true,
                Nfs4Who::User(id) => principal.uid == i64::from(id),
                Nfs4Who::NamedGroup(id) => principal.gids.contains(&i64::from(id)),
            };
            if open == 0 {
                break;
            }
            if !applies {
                continue;
            }
            if entry.denies && entry.mask & open != 0 {
                return false;
            }
            if !entry.denies {
                open &= !entry.mask;
            }
        }
        open == 0
    }

    /// Returns the permission bits that each member of a class of a mode has, whichever entries name it: for those who judge a
    /// file by its mode alone.
    pub fn common_mode(&self, is_directory: bool) -> u32 {
        let owner = self.common(&[Nfs4Who::Owner], &[], is_directory);
        let group = self.common(&[Nfs4Who::Group], &[Nfs4Who::Owner], is_directory);
        let other = self.common(&[], &[Nfs4Who::Owner, Nfs4Who::Group], is_directory);
        owner << 6 | group << 3 | other
    }

    /// Returns the bits of one class: entries of `of`, and of everyone, apply to all of its members; those of `outside` to none;
    /// and others to some.
    fn common(&self, of: &[Nfs4Who], outside: &[Nfs4Who], is_directory: bool) -> u32 {
        let all_have = |bit: u8| {
            let mut open = operations(bit, is_directory);
            for entry in self.own().filter(|e| !outside.contains(&e.who)) {
                if entry.denies && entry.mask & open != 0 {
                    return false;
                }
                if !entry.denies && (entry.who == Nfs4Who::Everyone || of.contains(&entry.who)) {
                    open &= !entry.mask;
                }
                if open == 0 {
                    break;
                }
            }
            open == 0
        };
        let bits = [4_u8, 2, 1].into_iter().filter(|bit| all_have(*bit));
        bits.map(u32::from).sum()
    }

    /// Returns the entries as `nfs4_getfacl` prints them, with ids as numbers.
    pub fn texts(&self) -> Vec<String> {
        let letters = |bits: u32, of: &[(u32, char)]| {
            let set = of.iter().filter(|(bit, _)| bits & bit != 0);
            set.map(|(_, letter)| letter).collect::<String>()
        };
        let text = |entry: &Nfs4Entry| {
            let kind = if entry.denies { 'D' } else { 'A' };
            let (group, who) = match entry.who {
                Nfs4Who::Owner => (0, "OWNER@".to_owned()),
                Nfs4Who::Group => (IDENTIFIER_GROUP, "GROUP@".to_owned()),
                Nfs4Who::Everyone => (0, "EVERYONE@".to_owned()),
                Nfs4Who::User(id) => (0, id.to_string()),
                Nfs4Who::NamedGroup(id) => (IDENTIFIER_GROUP, id.to_string()),
            };
            let flags = letters(entry.flags | group, &FLAGS);
            format!("{kind}:{flags}:{who}:{}", letters(entry.mask, &OPERATIONS))
        };
        self.entries.iter().map(text).collect()
    }
}

/// Returns the operations that the bits ask for. Who may not read attributes does not read: the answer to a reader has them.
fn operations(bits: u8, is_directory: bool) -> u32 {
    let write = if is_directory {
        WRITE_DATA | APPEND_DATA | DELETE_CHILD
    } else {
        WRITE_DATA | APPEND_DATA
    };
    [(4, READ_DATA | READ_ATTRIBUTES), (2, write), (1, EXECUTE)]
        .into_iter()
        .filter(|(bit, _)| bits & bit != 0)
        .fold(0, |all, (_, operations)| all | operations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn principals() -> impl Strategy<Value = Nfs4Who> {
        prop_oneof![
            Just(Nfs4Who::Owner),
            Just(Nfs4Who::Group),
            Just(Nfs4Who::Everyone),
            (0_u32..4).prop_map(Nfs4Who::User),
            (0_u32..4).prop_map(Nfs4Who::NamedGroup),
        ]
    }

    fn acls() -> impl Strategy<Value = Nfs4Acl> {
        let mask = prop_oneof![0_u32..0x200, Just(0x21), Just(0x81), Just(0xA1)];
        let entry = (any::<bool>(), 0_u32..16, mask, principals()).prop_map(
            |(denies, flags, mask, who)| {
                // Mostly not for inheritance alone.
                let flags = if flags < 12 { flags & 7 } else { flags };
                Nfs4Entry {
                    denies,
                    flags,
                    mask,
                    who,
                }
            },
        );
        prop::collection::vec(entry, 0..8).prop_map(|entries| Nfs4Acl { flags: 0, entries })
    }

    /// The decision of RFC 8881 about one operation: the first entry that applies and has the operation.
    fn by_the_standard(acl: &Nfs4Acl, user: &Principal, owner: i64, group: i64, bit: u32) -> bool {
        for entry in &acl.entries {
            let applies = match entry.who {
                Nfs4Who::Owner => user.uid == owner,
                Nfs4Who::Group => user.gids.contains(&group),
                Nfs4Who::Everyone => true,
                Nfs4Who::User(id) => user.uid == i64::from(id),
                Nfs4Who::NamedGroup(id) => user.gids.contains(&i64::from(id)),
            };
            if applies && entry.flags & 8 == 0 && entry.mask & bit != 0 {
                return !entry.denies;
            }
        }
        false
    }

    fn named(entries: &[(u32, u32, u32, &str)]) -> Vec<u8> {
        let mut out = u32::try_from(entries.len()).unwrap().to_be_bytes().to_vec();
        for (kind, flags, mask, who) in entries {
            let length = u32::try_from(who.len()).unwrap();
            for word in [*kind, *flags, *mask, length] {
                out.extend(word.to_be_bytes());
            }
            out.extend(who.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    proptest! {
        #[test]
        fn values_come_back(acl in acls()) {
            prop_assert_eq!(Nfs4Acl::parse(&acl.encode()).unwrap(), acl);
        }

        #[test]
        fn no_value_panics(value in prop::collection::vec(any::<u8>(), 0..120), count in 0_u32..4) {
            let _ = Nfs4Acl::parse(&value);
            let _ = Nfs4Acl::parse_named(&value, &mut |_| Some(1));
            let _ = Nfs4Acl::parse(&[&[0; 4][..], &count.to_be_bytes(), &value].concat());
            let _ = Nfs4Acl::parse_named(&[&count.to_be_bytes()[..], &value].concat(), &mut |_| None);
        }

        #[test]
        fn access_is_that_of_the_standard(acl in acls(), uid in 0_i64..4, gids in prop::collection::vec(0_i64..4, 0..4), owner in 0_i64..4, group in 0_i64..4, directory in any::<bool>(), bits in 0_u8..8) {
            let user = Principal { uid, gids };
            let wanted = operations(bits, directory);
            let expected = (0..32).map(|i| 1_u32 << i).filter(|bit| wanted & bit != 0)
                .all(|bit| by_the_standard(&acl, &user, owner, group, bit));
            prop_assert_eq!(acl.allows(&user, (owner, Some(group)), directory, bits), expected);
            // A judge by the mode alone never lets a user do more.
            let class = if uid == owner { 6 } else if user.gids.contains(&group) { 3 } else { 0 };
            let common = (acl.common_mode(directory) >> class & 7) as u8;
            prop_assert!(acl.allows(&user, (owner, Some(group)), directory, common));
        }

        #[test]
        fn unknown_names_open_nothing(acl in acls(), unknown in 0_usize..8, uid in 0_i64..4, gids in prop::collection::vec(0_i64..4, 0..4), bits in 1_u8..8) {
            let user = Principal { uid, gids };
            let entries: Vec<_> = acl.entries.iter().enumerate().map(|(i, e)| {
                let (group, text) = match e.who {
                    Nfs4Who::Owner => (0, "OWNER@".to_owned()),
                    Nfs4Who::Group => (IDENTIFIER_GROUP, "GROUP@".to_owned()),
                    Nfs4Who::Everyone => (0, "EVERYONE@".to_owned()),
                    Nfs4Who::User(id) => (0, format!("{id}{}", if i == unknown { "?" } else { "" })),
                    Nfs4Who::NamedGroup(id) => (IDENTIFIER_GROUP, format!("{id}{}", if i == unknown { "?" } else { "" })),
                };
                (u32::from(e.denies), e.flags | group, e.mask, text)
            }).collect();
            let entries: Vec<_> = entries.iter().map(|(a, b, c, d)| (*a, *b, *c, d.as_str())).collect();
            let mut known = |name: Nfs4Name<'_>| name.text.parse().ok();
            let read = Nfs4Acl::parse_named(&named(&entries), &mut known).unwrap();
            let allowed = |acl: &Nfs4Acl| acl.allows(&user, (1, Some(2)), false, bits);
            prop_assert!(!allowed(&read) || allowed(&acl));
        }
    }

    /// The example of RFC 8881, section 6.4.3.2 and of RFC 7530, section 6.2.1: order decides, and audit entries do not.
    #[test]
    fn the_first_entry_decides() {
        let list = |entries: &[(u32, u32, u32, &str)]| {
            let mut id = |name: Nfs4Name<'_>| match name.text {
                "ada@example.org" => Some(7),
                "lab@example.org" => Some(20),
                _ => None,
            };
            Nfs4Acl::parse_named(&named(entries), &mut id).unwrap()
        };
        let ada = Principal {
            uid: 7,
            gids: vec![20],
        };
        let bob = Principal {
            uid: 8,
            gids: vec![30],
        };
        let may =
            |acl: &Nfs4Acl, user: &Principal, bits| acl.allows(user, (1, Some(30)), false, bits);
        let denied_first = list(&[(1, 0, 0x81, "ada@example.org"), (0, 0, 0x81, "EVERYONE@")]);
        assert!(!may(&denied_first, &ada, 4) && may(&denied_first, &bob, 4));
        let allowed_first = list(&[(0, 0, 0x81, "EVERYONE@"), (1, 0, 0x81, "ada@example.org")]);
        assert!(may(&allowed_first, &ada, 4));
        // Parts of what is asked for come from several entries.
        let parts = list(&[(0, 0x40, 0x1, "lab@example.org"), (0, 0, 0x80, "EVERYONE@")]);
        assert!(may(&parts, &ada, 4) && !may(&parts, &bob, 4));
        // A file whose group is denied what everyone is allowed.
        let group = list(&[(1, 0x40, 0x81, "GROUP@"), (0, 0, 0x81, "EVERYONE@")]);
        assert!(may(&group, &ada, 4) && !may(&group, &bob, 4));
        let unknown = list(&[(1, 0, 0x81, "eve@example.org"), (0, 0, 0x81, "EVERYONE@")]);
        assert!(!may(&unknown, &ada, 4) && !may(&unknown, &bob, 4));
        let logged = list(&[(2, 0, 0x81, "EVERYONE@"), (0, 0x8, 0x81, "EVERYONE@")]);
        assert!(logged.entries.len() == 1 && !may(&logged, &ada, 4));
        assert_eq!(group.texts(), ["D:g:GROUP@:rt", "A::EVERYONE@:rt"]);
        assert_eq!(denied_first.common_mode(false), 0);
        assert_eq!(group.common_mode(false), 0o004);
    }

    #[test]
    fn malformed_lists_are_refused() {
        let good = named(&[(0, 0, 1, "OWNER@")]);
        let parse = |value: &[u8]| Nfs4Acl::parse_named(value, &mut |_| None);
        assert!(parse(&good).is_ok());
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "{length}");
        }
        assert!(parse(&[&good[..], &[0; 4]].concat()).is_err(), "too long");
        assert!(parse(&named(&[(4, 0, 1, "OWNER@")])).is_err(), "type");
        let many = vec![(0, 0, 1, "1"); 5_001];
        assert!(parse(&named(&many)).is_err() && parse(&named(&many[..5_000])).is_ok());
        let numbers = parse(&good).unwrap().encode();
        for length in 0..numbers.len() {
            assert!(Nfs4Acl::parse(&numbers[..length]).is_err(), "{length}");
        }
    }
}
