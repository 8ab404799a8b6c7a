//! Rights of an authenticated client, and the reasons for refusing one.

use crate::authorized::LineRefusal;
use crate::role::Role;
use esker_model::object::Principal;
use esker_process::accounts::LookupError;
use esker_process::name_service::Account;
use esker_process::user::is_mapped;
use std::fmt;
use std::sync::Arc;

/// Rights of an authenticated client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Role of the client.
    pub role: Role,
    /// User as whom the client reads; `None` if it may read everything.
    pub user: Option<Principal>,
    /// Login name of the client's user, if the server's name service has it.
    pub login: Option<Arc<str>>,
    /// Whether the client may read as users other than its own.
    pub impersonates: bool,
    /// Comment of the key in the file that grants it rights.
    pub comment: String,
    /// Expiry time, in seconds since 1970; `None` for never.
    pub until: Option<i64>,
}

/// Reason for refusing a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No file names the key.
    Unknown,
    /// The credential was revoked.
    Revoked,
    /// Past its expiry time.
    Expired {
        /// Expiry time as text.
        at: String,
    },
    /// Disallowed from the client's address.
    AddressNotAllowed {
        /// Address patterns from which it is allowed.
        from: String,
    },
    /// The files with the rights cannot be read.
    Unread {
        /// Description of the read error.
        why: String,
    },
    /// The server's machine has no such user, or the user cannot be bound.
    NoUser {
        /// Login name or id of the user.
        user: String,
    },
    /// The server's name service did not answer.
    NameService {
        /// Description of the failure.
        why: String,
    },
    /// A certificate is not accepted.
    Certificate {
        /// Description of the reason.
        why: String,
    },
    /// The server's configuration gives the user no role.
    NoRole {
        /// Login name of the user.
        user: String,
    },
}

impl Refused {
    /// Returns the text for the refused client: files and their modes are not disclosed.
    pub fn client_message(&self) -> String {
        match self {
            Self::Unread { .. } => "the server cannot read the grants; its log says why".to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns the label of the reason for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_key",
            Self::Revoked => "revoked",
            Self::Expired { .. } => "expired",
            Self::AddressNotAllowed { .. } => "elsewhere",
            Self::Unread { .. } => "unreadable",
            Self::NoUser { .. } => "no_user",
            Self::NameService { .. } => "name_service",
            Self::Certificate { .. } => "certificate",
            Self::NoRole { .. } => "no_role",
        }
    }
}

impl Refused {
    pub(crate) fn of_lookup(user: &str, e: LookupError) -> Self {
        match e {
            LookupError::NotFound => Self::NoUser {
                user: user.to_owned(),
            },
            LookupError::Unavailable(why) => Self::NameService { why },
        }
    }
}

impl From<LineRefusal> for Refused {
    fn from(closed: LineRefusal) -> Self {
        match closed {
            LineRefusal::Revoked => Self::Revoked,
            LineRefusal::Expired { at } => Self::Expired { at },
            LineRefusal::AddressNotAllowed { from } => Self::AddressNotAllowed { from },
        }
    }
}

impl Granted {
    /// Returns the rights of a role, without a limit to one user and without an end.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            user: None,
            login: None,
            impersonates: false,
            comment: String::new(),
            until: None,
        }
    }

    /// Limits the rights to what a user may read. Nothing is hidden from root, so that root is refused.
    pub(crate) fn limited_to(self, account: &Account) -> Result<Self, Refused> {
        if account.uid == 0 || !is_mapped(account.uid) {
            return Err(Refused::NoUser {
                user: account.login.clone(),
            });
        }
        Ok(Self {
            role: Role::Read,
            user: Some(Principal {
                uid: i64::from(account.uid),
                gids: account.gids.iter().map(|gid| i64::from(*gid)).collect(),
            }),
            login: Some(account.login.as_str().into()),
            ..self
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it has no rights here"),
            Self::Revoked => f.write_str("it was revoked"),
            Self::Expired { at } => write!(f, "its time ended at {at}"),
            Self::AddressNotAllowed { from } => write!(f, "it may be used from {from} only"),
            Self::Unread { why } | Self::NameService { why } | Self::Certificate { why } => {
                f.write_str(why)
            }
            Self::NoUser { user } => write!(
                f,
                "its user `{user}` is unknown on the server's machine (`getent passwd {user}` there), or is root"
            ),
            Self::NoRole { user } => write!(
                f,
                "user `{user}` has no role here: the server's configuration lists roles ([access.roles])"
            ),
        }
    }
}
