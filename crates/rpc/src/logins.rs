//! Source of the tokens by which the user of this process has logged in at servers.

use crate::Address;
use esker_model::Result;
use std::sync::OnceLock;

/// Returns the value of the header `authorization` for a server, if the user has logged in there.
pub type LoginSource = fn(&Address) -> Result<Option<String>>;

static SOURCE: OnceLock<LoginSource> = OnceLock::new();

/// Makes the clients of this process use the tokens of a source. The first source counts.
pub fn use_logins(source: LoginSource) {
    let _ = SOURCE.set(source);
}

/// Returns the value of the header `authorization` for a server; it may wait for a provider. Servers of a cluster prove themselves to each
/// other in another way, and a key that an address names is used instead.
pub(crate) fn authorization(address: &Address) -> Result<Option<String>> {
    let trust = &address.trust;
    match SOURCE.get() {
        Some(source) if !trust.anonymous && trust.own.is_none() && trust.key_file().is_none() => {
            source(address)
        }
        _ => Ok(None),
    }
}
