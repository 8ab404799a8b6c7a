//! Login of a command without a browser of its own (RFC 8628): the user enters a code on a page of the provider, on any machine.

use super::{ClientCredentials, IssuedTokens, Provider, Refusal, failed};
use crate::http::Stop;
use esker_model::{Error, Result};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// Time between requests if the provider names none.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest time between requests.
const INTERVAL_MAX: Duration = Duration::from_mins(1);
/// Longest time for which a code is waited for.
const LASTS_MAX: Duration = Duration::from_hours(1);
/// Time by which requests become rarer when the provider asks for it (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// Time between checks for cancellation.
const STOP_POLL: Duration = Duration::from_millis(50);

/// A login that waits for its user.
#[derive(Debug)]
pub struct PendingLogin<'a> {
    provider: &'a Provider,
    client: &'a str,
    code: String,
    interval: Duration,
    until: Instant,
    /// Page at which the user enters the code.
    pub page: String,
    /// Code that the user enters.
    pub user_code: String,
    /// Page that has the code already, if the provider has such pages.
    pub page_with_code: Option<String>,
}

/// Returns a text that is safe to print: it is another server's.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

impl<'a> PendingLogin<'a> {
    /// Begins a login.
    ///
    /// # Errors
    /// Returns an error that names the issuer and what failed.
    pub fn begin(
        provider: &'a Provider,
        client: &'a str,
        scopes: &str,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let what = "it began no login by a code";
        let wrong = |why: &str| failed(&provider.issuer, what, why);
        let url = provider.device_authorization.as_deref();
        let url = url.ok_or_else(|| {
            wrong("it does not offer logins of devices (`device_authorization_endpoint`)")
        })?;
        let credentials = ClientCredentials {
            id: client,
            secret: None,
        };
        let (status, json) = provider
            .post(url, credentials, &[("scope", scopes)], stop)
            .map_err(|e| wrong(&e))?;
        if status != 200 {
            return Err(wrong(&Refusal::of(status, &json).to_string()));
        }
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let needed =
            |name: &str| text(name).ok_or_else(|| wrong(&format!("its answer has no `{name}`")));
        let seconds = |name: &str| {
            json.get(name)
                .and_then(Json::as_u64)
                .map(Duration::from_secs)
        };
        Ok(Self {
            provider,
            client,
            code: needed("device_code")?.to_owned(),
            interval: seconds("interval").unwrap_or(INTERVAL).min(INTERVAL_MAX),
            until: Instant::now() + seconds("expires_in").unwrap_or(LASTS_MAX).min(LASTS_MAX),
            page: printable(needed("verification_uri")?),
            user_code: printable(needed("user_code")?),
            page_with_code: text("verification_uri_complete").map(printable),
        })
    }

    /// Waits until the user has entered the code; returns the tokens.
    ///
    /// # Errors
    /// Returns an error if the user or the provider refuses, the code expires, or `stop` returns true.
    pub fn wait(mut self, stop: Stop<'_>) -> Result<IssuedTokens> {
        let credentials = ClientCredentials {
            id: self.client,
            secret: None,
        };
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", self.code.as_str()),
        ];
        loop {
            sleep(self.interval, stop)?;
            if Instant::now() >= self.until {
                return Err(Error::Target(
                    "the code has expired before it was entered: log in again".into(),
                ));
            }
            let refusal = match self.provider.ask_tokens(credentials, &fields, stop)? {
                Ok(tokens) => return Ok(tokens),
                Err(refusal) => refusal,
            };
            match refusal.code.as_str() {
                "authorization_pending" => {}
                "slow_down" => self.interval = (self.interval + SLOWER).min(INTERVAL_MAX),
                "access_denied" => {
                    return Err(Error::Target("the login was refused on that page".into()));
                }
                "expired_token" => {
                    return Err(Error::Target(
                        "the code has expired before it was entered: log in again".into(),
                    ));
                }
                _ => {
                    let what = "it refused the login";
                    return Err(failed(&self.provider.issuer, what, refusal));
                }
            }
        }
    }
}

/// Sleeps, with checks for cancellation.
fn sleep(time: Duration, stop: Stop<'_>) -> Result<()> {
    let until = Instant::now() + time;
    loop {
        if stop() {
            return Err(Error::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(STOP_POLL));
    }
}
