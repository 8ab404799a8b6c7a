//! Settings of logins by a provider of OpenID Connect. Plain data; `config_oidc` reads them from a file.

use std::path::PathBuf;
use std::time::Duration;

/// Longest session that begins with a login.
pub(crate) const SESSION_MAX: Duration = Duration::from_hours(8);

/// Path of this server to which the provider sends a browser back.
pub(crate) const CALLBACK: &str = "/api/v1/oidc/callback";

/// Settings of logins by a provider of OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Address of the provider, which its tokens name.
    pub issuer: String,
    /// Name of this server as a client of the provider.
    pub client: String,
    /// File of the secret that this server shares with the provider, if it has one.
    pub client_secret_file: Option<PathBuf>,
    /// Name under which commands log in, a client without a secret; `None` for the server's own.
    pub device_client: Option<String>,
    /// Audience of access tokens that are made for this server.
    pub audience: Option<String>,
    /// Claim that names the user.
    pub users: UserClaim,
    /// Scopes that a login asks for, separated by spaces.
    pub scopes: String,
    /// Duration of a session that begins with a login.
    pub session: Duration,
    /// Address to which the provider sends a browser back; `None` for the one at which the browser has called this server.
    pub redirect: Option<String>,
}

/// Claim that names the user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserClaim {
    /// Claim with a login name.
    Name(String),
    /// Claim with a user id.
    Uid(String),
}

impl Default for OidcSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client: String::new(),
            client_secret_file: None,
            device_client: None,
            audience: None,
            users: UserClaim::Name("preferred_username".into()),
            scopes: "openid profile".into(),
            session: SESSION_MAX,
            redirect: None,
        }
    }
}

impl OidcSettings {
    /// Name under which commands log in.
    pub(crate) fn device_client(&self) -> &str {
        self.device_client.as_deref().unwrap_or(&self.client)
    }

    /// Host of the provider, by which pages name it.
    pub(crate) fn host(&self) -> String {
        let uri = self.issuer.parse::<http::Uri>().ok();
        let host = uri.as_ref().and_then(http::Uri::host);
        host.unwrap_or(&self.issuer).to_owned()
    }
}
