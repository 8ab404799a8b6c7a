//! Who may see what: the one rule for vertices, objects, files and graphs of RDF.
//!
//! An [`Asker`] is on whose behalf something is asked; whoever hosts the database fills it in, and `None` is whoever owns it, who may
//! do all. What is asked for says who may do what with it by an [`Access`]: an owner, a group and mode bits. Objects have them as
//! attributes ([`Access::of_attributes`]), files in their inodes ([`Access::of_file`]), graphs of RDF in the graph `urn:esker:rights`.
//! [`Access::lets`] decides, for all of them: the first class of owner, group and others that the asker is in counts, as for files
//! (POSIX.1-2017, 4.5).
//!
//! A file has to be reached besides: each directory on the way to one of its names has to let the asker search it. Vertices that are
//! neither objects nor files are seen by everybody.

use crate::namespace::{Inode, Kind};
use crate::object::{Asker, MODE_DEFAULT};
use crate::value::{Properties, Value};

/// The bit for reading, in a class of mode bits.
pub const READ: i64 = 0o4;
/// The bit for changing.
pub const WRITE: i64 = 0o2;
/// The bit for searching a directory, or executing a file.
pub const SEARCH: i64 = 0o1;

/// Who may do what with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Whose it is.
    pub owner: i64,
    /// Its group, if it has one.
    pub group: Option<i64>,
    /// Permission bits; those of a file with its type bits.
    pub mode: i64,
}

impl Access {
    /// From what is said of a thing: without an owner it is user 0's, without mode bits everybody may read it.
    pub fn new(owner: Option<i64>, group: Option<i64>, mode: Option<i64>) -> Self {
        Self {
            owner: owner.unwrap_or(0),
            group,
            mode: mode.unwrap_or(MODE_DEFAULT),
        }
    }

    /// Of an object, by its attributes `owner`, `gid` and `mode`.
    pub fn of_attributes(attributes: &Properties) -> Self {
        let number = |name| match attributes.get(name) {
            Some(Value::I64(n)) => Some(*n),
            _ => None,
        };
        Self::new(number("owner"), number("gid"), number("mode"))
    }

    /// Of a file. The way to it is not looked at.
    pub fn of_file(inode: &Inode) -> Self {
        Self {
            owner: inode.uid.into(),
            group: Some(inode.gid.into()),
            mode: inode.mode.into(),
        }
    }

    /// Whether someone may do all that the bits say.
    pub fn lets(&self, asker: Option<&Asker>, bits: i64) -> bool {
        let Some(asker) = asker.filter(|a| !a.sees_all()) else {
            return self.lets_superuser(asker.is_some(), bits);
        };
        let class = if asker.uid == self.owner {
            6
        } else if self.group.is_some_and(|group| asker.gids.contains(&group)) {
            3
        } else {
            0
        };
        self.mode >> class & bits == bits
    }

    /// User 0 executes only what somebody may execute, and searches all directories; whoever owns the database may do all.
    fn lets_superuser(&self, named: bool, bits: i64) -> bool {
        let kind = u32::try_from(self.mode).unwrap_or(0) & Kind::MASK;
        let executes = named && kind != 0 && kind != Kind::Directory.bits() && bits & SEARCH != 0;
        !executes || self.mode & 0o111 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(uid: i64, gids: &[i64]) -> Asker {
        Asker {
            uid,
            gids: gids.to_vec(),
        }
    }

    #[test]
    fn the_first_class_decides() {
        let ada = asker(7, &[8]);
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
            assert_eq!(access.lets(Some(&ada), bits), expected, "{access:?}");
            assert!(access.lets(None, bits) && access.lets(Some(&asker(0, &[])), bits));
        }
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let empty = Access::of_attributes(&Properties::new());
        assert_eq!(empty, Access::new(Some(0), None, Some(0o644)));
        // A number of another kind says nothing.
        let odd = Properties::new().with("mode", "0600").with("owner", 7);
        assert_eq!(
            Access::of_attributes(&odd),
            Access::new(Some(7), None, None)
        );
        assert!(empty.lets(Some(&asker(7, &[])), READ) && !empty.lets(Some(&asker(7, &[])), WRITE));
    }
}
