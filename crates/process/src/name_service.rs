//! The machine's name service (NSS): users and groups of files, LDAP, SSSD and others, as `nsswitch.conf` orders them.

use nix::errno::Errno;
use nix::unistd::{Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// A user with its groups, as the name service has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User id of the account.
    pub uid: u32,
    /// Login name of the user.
    pub login: String,
    /// Ids of all groups of the user.
    pub gids: Vec<u32>,
}

/// A source of users and groups. Its methods may take any time; [`crate::accounts::Accounts`] bounds it.
pub trait NameService: Send + Sync + 'static {
    /// Looks up a user by login name; `None` if there is no such user.
    fn user_named(&self, login: &str) -> Result<Option<Account>, String>;

    /// Looks up a user by id; `None` if there is no such user.
    fn user_numbered(&self, uid: u32) -> Result<Option<Account>, String>;

    /// Looks up the id of a group by name; `None` if there is no such group.
    fn group_named(&self, name: &str) -> Result<Option<u32>, String>;
}

/// The name service of this machine, as the C library asks it.
#[derive(Debug, Clone, Copy)]
pub struct SystemNames;

impl NameService for SystemNames {
    fn user_named(&self, login: &str) -> Result<Option<Account>, String> {
        account(User::from_name(login))
    }

    fn user_numbered(&self, uid: u32) -> Result<Option<Account>, String> {
        account(User::from_uid(Uid::from_raw(uid)))
    }

    fn group_named(&self, name: &str) -> Result<Option<u32>, String> {
        match Group::from_name(name) {
            Ok(found) => Ok(found.map(|group| group.gid.as_raw())),
            Err(e) => absent(e),
        }
    }
}

/// Some sources report an unknown name as an error.
fn absent<T>(e: Errno) -> Result<Option<T>, String> {
    match e {
        Errno::ENOENT | Errno::ESRCH => Ok(None),
        e => Err(e.desc().to_owned()),
    }
}

fn account(found: nix::Result<Option<User>>) -> Result<Option<Account>, String> {
    let user = match found {
        Ok(Some(user)) => user,
        Ok(None) => return Ok(None),
        Err(e) => return absent(e),
    };
    let name = CString::new(user.name.as_str()).map_err(|e| e.to_string())?;
    let gids = getgrouplist(&name, user.gid).map_err(|e| e.desc().to_owned())?;
    Ok(Some(Account {
        uid: user.uid.as_raw(),
        login: user.name,
        gids: gids.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_a_user_of_each_machine() {
        let root = SystemNames.user_numbered(0).unwrap().unwrap();
        assert_eq!((root.uid, root.login.as_str()), (0, "root"));
        assert!(root.gids.contains(&0), "{root:?}");
        assert_eq!(SystemNames.user_named("root").unwrap(), Some(root));
        assert_eq!(SystemNames.user_named("no-such-user-7").unwrap(), None);
        assert_eq!(SystemNames.group_named("root").unwrap(), Some(0));
        assert_eq!(SystemNames.group_named("no-such-group-7").unwrap(), None);
    }
}
