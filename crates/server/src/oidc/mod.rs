//! Logins by a provider of OpenID Connect: ID tokens of browsers that return from the provider, and tokens that programs send.
//!
//! The provider says who a user is; this machine says which user that is here, and in which groups. All functions may wait for the
//! provider or for the machine's directory of users, so they run on threads that may block.

mod provider_cache;
mod users;

use crate::settings_oidc::OidcSettings;
use esker_access::jwt::{CLOCK_SKEW, ExpectedClaims, TokenClaims, TokenRefused};
use esker_access::{read_secret, rights};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use esker_rpc::oidc::{ClientCredentials, Provider};
use provider_cache::ProviderCache;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use zeroize::Zeroizing;

/// Age of the provider's description up to which a new login uses it.
const DESCRIPTION_AGE: Duration = Duration::from_secs(5);
/// Time for which a checked token is not checked again, nor its user looked up.
const CHECKED: Duration = Duration::from_mins(1);
/// Largest number of checked tokens that are remembered.
const CHECKED_MAX: usize = 4_096;
/// Requests to the provider for logins at once.
const LOGINS_MAX: usize = 16;

/// A user whom the provider has authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OidcLogin {
    /// Name of the user at the provider, which never changes.
    pub(crate) subject: Arc<str>,
    /// Login name on this machine.
    pub(crate) name: Arc<str>,
    /// User and groups on this machine.
    pub(crate) principal: Principal,
    /// End of the login in seconds since 1970.
    pub(crate) until: i64,
    /// Host of the provider.
    host: Arc<str>,
}

/// Describes the user for logs and pages.
impl fmt::Display for OidcLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.host)
    }
}

/// Logins by one provider.
pub(crate) struct Oidc {
    pub(crate) settings: OidcSettings,
    secret: Option<Zeroizing<String>>,
    host: Arc<str>,
    provider: ProviderCache,
    /// Tokens that were checked lately, by their hashes.
    checked: Mutex<HashMap<[u8; 32], (Arc<OidcLogin>, Instant)>>,
    logins: Semaphore,
}

/// Whether a bearer token has the form of a provider's tokens.
pub(crate) fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|b| *b == b'.').count() == 2
}

impl Oidc {
    /// Reads the secret that the settings name. The provider is asked at the first login.
    pub(crate) fn open(settings: &OidcSettings) -> Result<Self> {
        let secret = settings.client_secret_file.as_ref();
        let secret = secret.map(|file| {
            let missing = || {
                Error::Target(format!(
                    "`{}` does not exist (oidc.client_secret_file)",
                    file.display()
                ))
            };
            let text = read_secret(file)?.ok_or_else(missing)?;
            Ok::<_, Error>(Zeroizing::new(text.trim().to_owned()))
        });
        Ok(Self {
            secret: secret.transpose()?,
            host: settings.host().into(),
            provider: ProviderCache::new(&settings.issuer),
            settings: settings.clone(),
            checked: Mutex::default(),
            logins: Semaphore::new(LOGINS_MAX),
        })
    }

    /// Admits one more request to the provider for a login; `None` if there are too many.
    pub(crate) fn admit_login(&self) -> Option<SemaphorePermit<'_>> {
        self.logins.try_acquire().ok()
    }

    fn credentials(&self) -> ClientCredentials<'_> {
        ClientCredentials {
            id: &self.settings.client,
            secret: self.secret.as_deref().map(String::as_str),
        }
    }

    /// Returns the provider's description for a login that begins.
    pub(crate) fn provider(&self) -> Result<Provider> {
        self.provider.description(DESCRIPTION_AGE)
    }

    /// Exchanges the code of a login for an ID token, and checks it.
    pub(crate) fn finish_login(
        &self,
        code: &str,
        verifier: &str,
        nonce: &str,
        redirect: &str,
    ) -> std::result::Result<OidcLogin, String> {
        let words = |e: Error| e.to_string();
        let provider = self.provider.description(DESCRIPTION_AGE).map_err(words)?;
        let tokens = provider.exchange_code(self.credentials(), code, verifier, redirect);
        let tokens = tokens.map_err(words)?;
        let login = self.login_of(&tokens.id, Some(nonce))?;
        // The session has a duration of its own: browsers do not renew tokens.
        let lasts = i64::try_from(self.settings.session.as_secs()).unwrap_or(i64::MAX);
        Ok(OidcLogin {
            until: rights::now().saturating_add(lasts),
            ..login
        })
    }

    /// Checks a token that a program sent.
    pub(crate) fn bearer(&self, token: &str) -> std::result::Result<Arc<OidcLogin>, String> {
        let hash = *blake3::hash(token.as_bytes()).as_bytes();
        let now = Instant::now();
        if let Some((login, until)) = self.checked().get(&hash)
            && *until > now
        {
            return Ok(Arc::clone(login));
        }
        let login = Arc::new(self.login_of(token, None)?);
        let mut checked = self.checked();
        checked.retain(|_, (_, until)| *until > now);
        if checked.len() < CHECKED_MAX {
            checked.insert(hash, (Arc::clone(&login), now + CHECKED));
        }
        Ok(login)
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Arc<OidcLogin>, Instant)>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a token and looks up its user; with a nonce, only an ID token of that login is accepted.
    fn login_of(&self, token: &str, nonce: Option<&str>) -> std::result::Result<OidcLogin, String> {
        let claims = self.verify(token)?;
        let refused = |e: TokenRefused| self.refusal(&e);
        let own = self.settings.client.as_str();
        let (console, all) = ([own], [own, self.settings.device_client()]);
        let clients: &[&str] = if nonce.is_some() { &console } else { &all };
        let expected = ExpectedClaims {
            issuer: &self.settings.issuer,
            clients,
            audience: self.settings.audience.as_deref(),
            nonce,
            now: rights::now(),
        };
        let (subject, until) = claims.check(&expected).map_err(refused)?;
        let (name, principal) = users::find(&claims, &self.settings.users).map_err(|why| {
            format!(
                "`{}` has authenticated you, but {why}",
                self.settings.issuer
            )
        })?;
        Ok(OidcLogin {
            subject: subject.into(),
            name: name.into(),
            principal,
            until: until.saturating_add(CLOCK_SKEW),
            host: Arc::clone(&self.host),
        })
    }

    /// Verifies the signature, with newer keys if the token names a key that is not known yet.
    fn verify(&self, token: &str) -> std::result::Result<TokenClaims, String> {
        let keys = self.provider.keys().map_err(|e| e.to_string())?;
        let verified = match keys.verify(token) {
            Err(TokenRefused::UnknownKey(id)) => match self.provider.newer_keys(&keys) {
                Some(keys) => keys.verify(token),
                None => Err(TokenRefused::UnknownKey(id)),
            },
            verified => verified,
        };
        verified.map_err(|e| self.refusal(&e))
    }

    fn refusal(&self, why: &TokenRefused) -> String {
        format!(
            "the token is not accepted as one of `{}`: {why}",
            self.settings.issuer
        )
    }
}
