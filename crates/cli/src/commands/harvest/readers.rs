//! Effective readers of a file: its mode bits, without those of users who cannot pass the folders above it.
//!
//! An object has one owner, one group and one mode. So a class of users (the owner, the group, all others) keeps its bits only if every
//! folder lets all users of that class pass, whichever class of the folder they are in. An access control list
//! reduces the bits to those that all users of a class have.

use nix::unistd::{Uid, User, getgrouplist};
use rustix::fs::Stat;
use std::collections::HashMap;
use std::ffi::CString;

const READ: u32 = 4;
const SEARCH: u32 = 1;

/// Owner, group and permission bits of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

impl From<&Stat> for Rights {
    fn from(stat: &Stat) -> Self {
        Self {
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode & 0o777,
        }
    }
}

/// An access that a user needs on the way to a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Search permission of a folder.
    Search(Rights),
    /// Read permission of a file that is a part of the content.
    Read(Rights),
}

/// Group memberships of users on this machine, cached.
#[derive(Debug, Default)]
pub(super) struct Groups {
    known: HashMap<u32, Vec<u32>>,
}

impl Groups {
    fn has(&mut self, user: u32, group: u32) -> bool {
        let groups = self.known.entry(user).or_insert_with(|| {
            let found = User::from_uid(Uid::from_raw(user)).ok().flatten();
            let groups = found.and_then(|user| {
                let name = CString::new(user.name).ok()?;
                getgrouplist(&name, user.gid).ok()
            });
            let groups = groups.unwrap_or_default().into_iter();
            groups.map(nix::unistd::Gid::as_raw).collect()
        });
        groups.contains(&group)
    }

    /// Returns the file's permission bits that remain effective, given the accesses on the way to its content.
    pub(super) fn effective(&mut self, own: Rights, accesses: &[Access]) -> u32 {
        let mut left = own.mode;
        for step in accesses {
            let (on, bit) = match step {
                Access::Search(on) => (on, SEARCH),
                Access::Read(on) => (on, READ),
            };
            let has = |shift: u32| on.mode >> shift & bit == bit;
            let (owner, group, others) = (has(6), has(3), has(0));
            // The first matching class of owner, group and others decides for the owner.
            let owner_may = if own.uid == on.uid {
                owner
            } else if self.has(own.uid, on.gid) {
                group
            } else {
                others
            };
            // A member of the file's group may own the folder, or be in its group.
            let group_may = owner && group && (others || own.gid == on.gid);
            let others_may = owner && group && others;
            for (may, class) in [(owner_may, 0o700), (group_may, 0o070), (others_may, 0o007)] {
                if !may {
                    left &= !class;
                }
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN_USER: u32 = 4_000_000_001;

    fn rights(uid: u32, gid: u32, mode: u32) -> Rights {
        Rights { uid, gid, mode }
    }

    fn left(own: Rights, accesses: &[Access]) -> u32 {
        Groups::default().effective(own, accesses)
    }

    #[test]
    fn a_class_keeps_its_bits_if_all_of_it_get_there() {
        let ada = UNKNOWN_USER;
        let file = rights(ada, 50, 0o644);
        let folder = |uid, gid, mode| Access::Search(rights(uid, gid, mode));
        for (accesses, mode) in [
            (folder(0, 0, 0o755), 0o644),
            (folder(0, 0, 0o711), 0o644),
            (folder(ada, 50, 0o700), 0o600),
            (folder(ada, 50, 0o750), 0o640),
            // A folder of another group, of which the file's group may not be members.
            (folder(ada, 51, 0o750), 0o600),
            (folder(0, 0, 0o700), 0),
            // The folder's owner and group may not search it, though all others may.
            (folder(7, 8, 0o077), 0o600),
            (folder(7, 8, 0o707), 0o600),
            (folder(ada, 50, 0o666), 0),
            (Access::Read(rights(ada, 50, 0o600)), 0o600),
            (Access::Read(rights(ada, 50, 0o444)), 0o644),
        ] {
            assert_eq!(left(file, &[accesses]), mode, "{accesses:?}");
            assert_eq!(
                left(file, &[folder(0, 0, 0o755), accesses]),
                mode,
                "{accesses:?}"
            );
        }
        let two = [folder(ada, 50, 0o750), folder(ada, 50, 0o711)];
        assert_eq!(left(file, &two), 0o640);
        assert_eq!(left(rights(ada, 50, 0o604), &two), 0o600);
    }

    #[test]
    fn an_owner_gets_there_as_one_of_a_group() {
        // Root is in its own group on every machine.
        let file = rights(0, 0, 0o600);
        let folder = |mode| Access::Search(rights(UNKNOWN_USER, 0, mode));
        assert_eq!(left(file, &[folder(0o750)]), 0o600);
        assert_eq!(left(file, &[folder(0o705)]), 0);
    }
}
