//! Users whom the machine, a certificate, a key or Munge names: which are accepted, and the roles that the configuration gives them.

use crate::settings::{AccessSettings, Loopback};
use esker_access::accounts::Accounts;
use esker_access::munge::MungeDecoder;
use esker_access::{Granted, Refused, Role, RoleTable, UserPattern};
use esker_model::{Error, Result};

/// Rules of a server for users with login names.
#[derive(Debug)]
pub(crate) struct PrincipalRules {
    /// Whether other users of this machine are known by their processes.
    local: bool,
    munge: Option<MungeDecoder>,
    roles: RoleTable,
    /// Users that may ask on behalf of other users.
    impersonate: Vec<UserPattern>,
}

impl PrincipalRules {
    /// Takes the rules from the settings, and checks that they fit together.
    pub(crate) fn of(settings: &AccessSettings) -> Result<Self> {
        if settings.local && settings.loopback == Loopback::Off {
            return Err(Error::Invalid(
                "access.local = \"on\" contradicts access.loopback = \"off\", by which the user of a process does not count: \
                 set loopback to \"uid\" or \"socket\""
                    .into(),
            ));
        }
        let decoder = || MungeDecoder::new(settings.munge_socket.as_deref());
        Ok(Self {
            local: settings.local,
            munge: settings.munge.then(decoder),
            roles: settings.roles.clone(),
            impersonate: settings.impersonate.clone(),
        })
    }

    /// Whether other users of this machine are known by their processes.
    pub(crate) fn knows_local_users(&self) -> bool {
        self.local
    }

    /// Decoder of Munge credentials, if they are accepted.
    pub(crate) fn munge(&self) -> Option<&MungeDecoder> {
        self.munge.as_ref()
    }

    /// Gives a user with a login name the best listed role, if it is better than its own.
    pub(crate) fn with_listed_role(&self, granted: Granted, accounts: &Accounts) -> Granted {
        let (Some(login), Some(user)) = (&granted.login, &granted.user) else {
            return granted;
        };
        if self.roles.best(login, &user.gids, accounts) == Some(Role::Admin) {
            // An administrator may do everything, on behalf of all users.
            return Granted {
                role: Role::Admin,
                user: None,
                ..granted
            };
        }
        let mut patterns = self.impersonate.iter();
        let impersonates = patterns.any(|pattern| pattern.names(login, &user.gids, accounts));
        Granted {
            impersonates,
            ..granted
        }
    }

    /// Returns the rights of a user who has no other right than by the configuration: `read`, unless roles are listed.
    pub(crate) fn only_listed_role(
        &self,
        granted: Granted,
        accounts: &Accounts,
    ) -> std::result::Result<Granted, Refused> {
        if let (false, Some(login), Some(user)) =
            (self.roles.is_empty(), &granted.login, &granted.user)
            && self.roles.best(login, &user.gids, accounts).is_none()
        {
            return Err(Refused::NoRole {
                user: login.to_string(),
            });
        }
        Ok(self.with_listed_role(granted, accounts))
    }
}
