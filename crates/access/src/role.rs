//! Roles of principals in a database.

use std::fmt;

/// Rights of a principal in a database. [`Role::may`] compares roles: they have no total order, because `ingest` and `read` have
/// nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sends `OpenLineage` events and Slurm jobs, and nothing else.
    Ingest,
    /// Reads data.
    Read,
    /// Reads, and changes data, types and indexes.
    Write,
    /// Administers: repairs, compacts, backs up and grants rights.
    Admin,
}

impl Role {
    /// All roles, in declaration order.
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Read, Self::Write, Self::Admin];
    /// Role names, as a message lists them.
    pub const NAMES: &str = "ingest, read, write or admin";

    /// Returns the name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Whether this role permits calls that need role `needed`.
    pub fn may(self, needed: Self) -> bool {
        match self {
            Self::Ingest | Self::Read => self == needed,
            Self::Write => needed != Self::Admin,
            Self::Admin => true,
        }
    }

    /// Returns the role that permits what both roles permit; `None` for `ingest` and `read`, which have nothing in common.
    pub fn lesser(self, other: Self) -> Option<Self> {
        if other.may(self) {
            Some(self)
        } else {
            self.may(other).then_some(other)
        }
    }

    /// Parses the name of a role.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_may_what_they_need_and_less() {
        let may = |role: Role| {
            let all = Role::ALL.into_iter().filter(|n| role.may(*n));
            all.map(Role::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(may(Role::Ingest), "ingest");
        assert_eq!(may(Role::Read), "read");
        assert_eq!(may(Role::Write), "ingest read write");
        assert_eq!(may(Role::Admin), "ingest read write admin");
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
            assert!(Role::NAMES.contains(role.name()));
        }
        assert_eq!(Role::Read.lesser(Role::Admin), Some(Role::Read));
        assert_eq!(Role::Write.lesser(Role::Ingest), Some(Role::Ingest));
        assert_eq!(Role::Read.lesser(Role::Ingest), None);
        assert_eq!(Role::parse("none"), None);
    }
}
