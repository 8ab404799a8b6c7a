//! Rights of users whom the machine, a certificate or another service names, instead of a key of their own.

use super::{Rights, now};
use crate::certificate::UserCertificate;
use crate::fingerprint;
use crate::granted::{Granted, Refused};
use crate::role::Role;
use std::net::IpAddr;
use std::sync::PoisonError;

/// Login names for which lines accept a certificate, with the expiry times of the lines.
type AcceptedLogins = Vec<(String, Option<i64>)>;

impl Rights {
    /// Returns the rights of a user of the server's machine, with the role `read`.
    pub fn of_user(&self, uid: u32) -> Result<Granted, Refused> {
        let found = self.accounts.by_uid(uid);
        let account = found.map_err(|e| Refused::of_lookup(&uid.to_string(), e))?;
        Granted::new(Role::Read).limited_to(&account)
    }

    /// Returns the login names that a certificate gives its owner here. With `asked`, only that name is accepted.
    pub fn logins_of(
        &self,
        certificate: &UserCertificate,
        asked: &str,
        from: IpAddr,
    ) -> Result<Vec<String>, Refused> {
        self.generation();
        let lines = self.lines_of_certificate(certificate, asked, from, now())?;
        Ok(lines.into_iter().map(|(login, _)| login).collect())
    }

    /// Returns the current rights of the owner of a certificate as the user with a login name.
    pub fn of_certificate(
        &self,
        certificate: &UserCertificate,
        login: &str,
        from: IpAddr,
    ) -> Result<Granted, Refused> {
        self.generation();
        let lines = self.lines_of_certificate(certificate, login, from, now())?;
        let until = lines.iter().find(|(name, _)| name == login);
        let until = until.and_then(|(_, expires)| *expires);
        let granted = Granted {
            until: [until, certificate.end()].into_iter().flatten().min(),
            ..Granted::new(Role::Read)
        };
        self.as_login(granted, login)
    }

    /// Checks a certificate against the lines of its CA.
    fn lines_of_certificate(
        &self,
        certificate: &UserCertificate,
        asked: &str,
        from: IpAddr,
        now: i64,
    ) -> Result<AcceptedLogins, Refused> {
        let refuse = |why: String| Refused::Certificate { why };
        let authority = fingerprint(certificate.authority());
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.closed()?;
        let lines = |key| state.keys.iter().flat_map(move |keys| keys.lines_of(key));
        let keys = [certificate.key(), certificate.authority()];
        if keys
            .into_iter()
            .flat_map(lines)
            .any(|line| line.role().is_none())
        {
            return Err(Refused::Revoked);
        }
        let authorities = || {
            let files = state.keys.iter();
            files.flat_map(|keys| keys.authorities_of(certificate.authority()))
        };
        if authorities().next().is_none() {
            return Err(refuse(format!(
                "the certificate is signed by a CA that this server does not trust ({authority}): add the CA's key to \
                 `authorized_keys` with the option cert-authority"
            )));
        }
        certificate.check(now, from).map_err(refuse)?;
        if !asked.is_empty() && !certificate.logins().iter().any(|login| login == asked) {
            return Err(refuse(format!(
                "the certificate does not name user `{asked}`: it names {}",
                certificate.logins().join(", ")
            )));
        }
        let mut accepted = AcceptedLogins::new();
        let mut refused: Option<Refused> = None;
        for line in authorities() {
            if let Err(closed) = line.role_at(from, now) {
                refused.get_or_insert(closed.into());
                continue;
            }
            let trusted = line.authority().unwrap_or_default();
            let is_meant = |login: &str| asked.is_empty() || login == asked;
            for login in certificate.logins() {
                let known = accepted.iter().any(|(name, _)| name == login);
                if is_meant(login) && !known && (trusted.is_empty() || trusted.contains(login)) {
                    accepted.push((login.clone(), line.expires()));
                }
            }
        }
        if accepted.is_empty() {
            return Err(refused.unwrap_or_else(|| {
                refuse(format!(
                    "the certificate is for {}, and this server accepts no certificates of CA {authority} for that user",
                    if asked.is_empty() { certificate.logins().join(", ") } else { asked.to_owned() }
                ))
            }));
        }
        Ok(accepted)
    }
}
