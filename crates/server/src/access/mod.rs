//! Who may do what here. Each request comes by [`Access::admit`] before anything else looks at it; which role it needs is in
//! [`table`].
//!
//! A connection is somebody's because the kernel says so (processes of this machine whose user owns the database, or is
//! root), because its client proved a key of SSH on it ([`prove`]), or because a request shows a token.

mod caller;
mod prove;
pub(crate) mod table;

pub(crate) use caller::{Asking, Caller};
pub(crate) use prove::{prove, routes};

use crate::http::Sessions;
use crate::metrics::Metrics;
use crate::settings::Settings;
use caller::Denied;
use esker_access::host_key::NAME;
use esker_access::{HostKey, Rights, tls};
use esker_model::{Error, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::Needs;
use tokio_rustls::TlsAcceptor;

/// What is spoken over TLS.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What a server knows of who may do what.
pub(crate) struct Access {
    rights: Rights,
    host: HostKey,
    /// Where the files lie: the database's folder, or a cluster's storage.
    folder: PathBuf,
    /// Users of this machine who may do everything: who owns the database, who serves it, root.
    users: Vec<u32>,
    metrics: Arc<Metrics>,
    /// Browsers that somebody has let in.
    sessions: Sessions,
}

impl Access {
    /// For the database in a folder. Its host key is made if there is none.
    pub(crate) fn open(folder: &Path, settings: &Settings, metrics: Arc<Metrics>) -> Result<Self> {
        let owner = std::fs::metadata(folder)
            .map_err(|e| Error::io(format!("asking whose `{}` is", folder.display()), e))?
            .uid();
        let mut users = vec![0, owner, esker_access::peer::own_user()];
        users.sort_unstable();
        users.dedup();
        let access = Self {
            rights: Rights::of(folder),
            host: host_key(folder, settings)?,
            folder: folder.to_path_buf(),
            users,
            metrics,
            sessions: Sessions::default(),
        };
        for mistake in access.rights.mistakes() {
            tracing::warn!("{mistake}");
        }
        Ok(access)
    }

    /// How this server proves itself.
    pub(crate) fn acceptor(&self, settings: &Settings) -> Result<TlsAcceptor> {
        let given = settings.tls.as_ref().map(crate::tls::given).transpose()?;
        let config = tls::server(&self.host, &names(&settings.listen), given, &PROTOCOLS)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The server's key, as `ssh-keygen -l` prints it.
    pub(crate) fn fingerprint(&self) -> String {
        self.host.fingerprint()
    }

    /// Where the files lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Browsers that somebody has let in.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn is_owner(&self, user: u32) -> bool {
        self.users.contains(&user)
    }

    /// Lets a request in, or says why not. What is refused is counted and logged.
    pub(crate) fn admit(
        &self,
        asking: &Asking,
        needs: Needs,
        what: &str,
    ) -> std::result::Result<(), Denied> {
        let role = match needs {
            Needs::Nothing => return Ok(()),
            Needs::Role(role) => role,
            Needs::Server if asking.is_server(self) => return Ok(()),
            Needs::Server => {
                let denied = Denied::known(
                    "not_a_server",
                    "only servers of a cluster ask each other that".into(),
                );
                return Err(self.refused(asking, denied, what));
            }
        };
        match asking.role(self) {
            Ok(has) if has >= role => Ok(()),
            Ok(has) => {
                let who = asking.who();
                let denied = Denied::known(
                    "role",
                    format!(
                        "{who} has role `{has}` here, and `{what}` needs `{role}`: the database's owner can give it \
                         (`esker grant DATABASE --key … --role {role}`)"
                    ),
                );
                Err(self.refused(asking, denied, what))
            }
            Err(denied) => Err(self.refused(asking, denied, what)),
        }
    }

    /// Counts somebody who was refused before they could be asked who they are.
    pub(crate) fn count_refused(&self, why: &'static str) {
        self.metrics.refused(why);
    }

    /// Counts and logs a refusal.
    fn refused(&self, asking: &Asking, denied: Denied, what: &str) -> Denied {
        self.metrics.refused(denied.why);
        if asking.caller.may_log() {
            tracing::warn!(
                peer = %asking.caller.place(),
                who = %asking.who(),
                call = what,
                why = denied.why,
                reason = %denied.log.as_ref().unwrap_or(&denied.words),
                "refused"
            );
        }
        denied
    }

    /// Lets a server that greets as one of the cluster be one.
    pub(crate) fn admit_server(&self, asking: &Asking) -> std::result::Result<(), String> {
        let admitted = self.admit(asking, Needs::Server, "greeting as a server");
        admitted.map_err(|denied| {
            format!(
                "{}: its servers have one host key, in their storage, and prove it to each other",
                denied.words
            )
        })
    }
}

/// The key of a server whose files lie in that folder. It is made if there is none.
pub(crate) fn host_key(folder: &Path, settings: &Settings) -> Result<HostKey> {
    match &settings.host_key {
        Some(file) => HostKey::at(file),
        None => HostKey::at(&folder.join(NAME)),
    }
}

/// What clients may call this server.
fn names(listen: &str) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        names.push(name.trim().to_owned());
    }
    if let Some((host, _)) = listen.rsplit_once(':') {
        names.push(host.trim_matches(['[', ']']).to_owned());
    }
    // A name that no certificate can hold is none of this server's.
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    names.retain(|n| !n.is_empty() && n.chars().all(good));
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_certificate_can_hold() {
        let names = names("[fe80::1%eth0]:7400");
        assert!(names.contains(&"localhost".to_owned()));
        assert!(!names.iter().any(|n| n.contains('%')), "{names:?}");
        assert!(super::names("10.0.0.7:0").contains(&"10.0.0.7".to_owned()));
    }
}
