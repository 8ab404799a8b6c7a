//! What somebody may do.

use std::fmt;

/// What somebody may do with a database. What one may do of what another may, [`Role::may`] says: `ingest` and `read` have nothing in common,
/// so that roles have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Send events of OpenLineage and jobs of Slurm, and nothing else.
    Ingest,
    /// Ask.
    Read,
    /// Change data, types and indexes as well.
    Write,
    /// Look after it: repair, compact, back up, say who may do what.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Read, Self::Write, Self::Admin];
    /// Their names, as a message lists them.
    pub const NAMES: &str = "ingest, read, write or admin";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Whether somebody with this role may do what needs that one.
    pub fn may(self, needed: Self) -> bool {
        match self {
            Self::Ingest | Self::Read => self == needed,
            Self::Write => needed != Self::Admin,
            Self::Admin => true,
        }
    }

    /// The role that may do what both of two roles may; `None` for `ingest` and `read`, which have nothing in common.
    pub fn lesser(self, other: Self) -> Option<Self> {
        if other.may(self) {
            Some(self)
        } else {
            self.may(other).then_some(other)
        }
    }

    /// The role of that name.
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
