//! Roles of users and groups, and users that may act for others, as a server's configuration lists them.

use crate::binding::is_login;
use crate::role::Role;
use esker_process::accounts::Accounts;
use std::str::FromStr;

/// One user, the users of a group, or all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserPattern {
    /// The user with this login name.
    Login(String),
    /// All users in the group with this name, written `@GROUP`.
    Group(String),
    /// Each known user, written `*`.
    Everyone,
}

impl FromStr for UserPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('@') {
            _ if text == "*" => Ok(Self::Everyone),
            Some(group) if is_login(group) => Ok(Self::Group(group.to_owned())),
            None if is_login(text) => Ok(Self::Login(text.to_owned())),
            _ => Err(format!(
                "`{text}` names no user: expected a login name, \"@GROUP\" or \"*\""
            )),
        }
    }
}

impl UserPattern {
    /// Whether the pattern names the user. A group that the name service does not have, or cannot look up now, contains nobody.
    pub fn names(&self, login: &str, gids: &[i64], accounts: &Accounts) -> bool {
        match self {
            Self::Everyone => true,
            Self::Login(name) => name == login,
            Self::Group(group) => {
                let gid = accounts.group_id(group);
                gid.is_ok_and(|gid| gids.contains(&i64::from(gid)))
            }
        }
    }
}

/// Roles of users and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleTable(Vec<(UserPattern, Role)>);

impl RoleTable {
    /// Adds a line. The error says why it cannot be one.
    pub fn add(&mut self, who: &str, role: &str) -> Result<(), String> {
        let role = match Role::parse(role) {
            Some(role @ (Role::Read | Role::Admin)) => role,
            Some(role) => {
                return Err(format!(
                    "`{who}` cannot have role `{role}` here: expected \"read\" or \"admin\"; what a user may change is not checked \
                     yet, so grant `{role}` to a key (`esker grant`)"
                ));
            }
            None => {
                return Err(format!(
                    "there is no role `{role}`: expected \"read\" or \"admin\""
                ));
            }
        };
        self.0.push((who.parse()?, role));
        Ok(())
    }

    /// Whether no role is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the best role that the table gives a user.
    pub fn best(&self, login: &str, gids: &[i64], accounts: &Accounts) -> Option<Role> {
        let mut best: Option<Role> = None;
        for (pattern, role) in &self.0 {
            let more = best.is_none_or(|best| best != *role && role.may(best));
            if more && pattern.names(login, gids, accounts) {
                best = Some(*role);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_process::accounts::Ages;
    use esker_process::name_service::{Account, NameService};

    struct OneGroup;

    impl NameService for OneGroup {
        fn user_named(&self, _: &str) -> Result<Option<Account>, String> {
            Ok(None)
        }

        fn user_numbered(&self, _: u32) -> Result<Option<Account>, String> {
            Ok(None)
        }

        fn group_named(&self, name: &str) -> Result<Option<u32>, String> {
            match name {
                "staff" => Ok(Some(50)),
                "broken" => Err("LDAP is down".into()),
                _ => Ok(None),
            }
        }
    }

    #[test]
    fn the_best_listed_role_counts() {
        let accounts = Accounts::new(OneGroup, Ages::default());
        let mut table = RoleTable::default();
        let best =
            |table: &RoleTable, login: &str, gids: &[i64]| table.best(login, gids, &accounts);
        table.add("@staff", "read").unwrap();
        table.add("ada", "admin").unwrap();
        table.add("@broken", "admin").unwrap();
        table.add("@gone", "admin").unwrap();
        assert_eq!(best(&table, "ada", &[50]), Some(Role::Admin));
        assert_eq!(best(&table, "bob", &[7, 50]), Some(Role::Read));
        assert_eq!(best(&table, "eve", &[7]), None);
        table.add("*", "read").unwrap();
        assert_eq!(best(&table, "eve", &[7]), Some(Role::Read));
        for (who, role, why) in [
            ("ada", "write", "not checked yet"),
            ("ada", "ingest", "not checked yet"),
            ("ada", "root", "no role `root`"),
            ("@", "read", "names no user"),
            ("1002", "read", "names no user"),
        ] {
            let refused = table.add(who, role).unwrap_err();
            assert!(refused.contains(why), "{who} {role}: {refused}");
        }
    }
}
