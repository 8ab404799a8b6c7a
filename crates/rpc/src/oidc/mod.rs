//! Requests to a provider of OpenID Connect: its description (Discovery 1.0), its keys, and its tokens.
//!
//! Each request has a time limit, and each answer a largest size. [`device`] has the login of a command (RFC 8628), [`stored`] the tokens
//! that a user's commands keep.

pub mod device;
pub mod stored;

use crate::http::{Endpoint, RequestBody, Stop};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use esker_access::jwt::KeySet;
use esker_access::peer::is_this_machine;
use esker_model::{Error, Result};
use serde_json::Value as Json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Time limit of a request to a provider.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Largest answer of a provider in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Path of a provider's description, after the issuer's address.
const DESCRIPTION: &str = "/.well-known/openid-configuration";

/// Whether a text is an address to which secrets may be sent: `https`, or `http` on this machine.
pub fn is_private_url(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else {
        return false;
    };
    let host = uri.host().filter(|host| !host.is_empty());
    let clean = uri.authority().is_some_and(|a| !a.as_str().contains('@'));
    match (uri.scheme_str(), host) {
        (Some("https"), Some(_)) => clean,
        (Some("http"), Some(host)) => clean && is_this_machine(host),
        _ => false,
    }
}

/// Whether a text can be an issuer: an address without query and fragment.
pub fn is_issuer(url: &str) -> bool {
    is_private_url(url) && !url.contains(['?', '#'])
}

/// Description of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Address by which tokens name the provider.
    pub issuer: String,
    /// Page at which a browser logs in.
    pub authorization: Option<String>,
    /// Address that issues tokens.
    pub token: String,
    /// Address of the keys by which tokens are signed.
    keys: String,
    /// Address at which the login of a command begins.
    pub device_authorization: Option<String>,
    /// Whether a client sends its secret in the form rather than in a header.
    secret_in_form: bool,
}

/// Client of a provider, as which a request is sent.
#[derive(Debug, Clone, Copy)]
pub struct ClientCredentials<'a> {
    /// Name of the client at the provider.
    pub id: &'a str,
    /// Secret that the client shares with the provider, if it has one.
    pub secret: Option<&'a str>,
}

/// Tokens that a provider issued.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedTokens {
    /// Token that names the user.
    pub id: String,
    /// Token by which new ones are obtained.
    pub refresh: Option<String>,
}

/// Omits the tokens.
impl std::fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IssuedTokens")
    }
}

/// Error that names the provider and the failed step.
fn failed(issuer: &str, what: &str, why: impl std::fmt::Display) -> Error {
    Error::Unavailable(format!(
        "the OpenID provider `{issuer}` cannot be used: {what}: {why}"
    ))
}

/// Percent-encodes a text for a form or a query.
pub fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// Encodes fields as a form or a query.
pub fn form(fields: &[(&str, &str)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    fields.collect::<Vec<_>>().join("&")
}

/// Sends a request; returns the status and the JSON of the answer.
fn send(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: RequestBody<'_>,
    stop: Stop<'_>,
) -> Result<(u16, Json), String> {
    let words = |e: &dyn std::fmt::Display| format!("{url}: {e}");
    let (endpoint, path) = Endpoint::of_url(url, REQUEST_MAX).map_err(|e| words(&e))?;
    let until = Some(Instant::now() + REQUEST_MAX);
    let headers = [headers, &[("accept", "application/json")]].concat();
    let mut answer = endpoint
        .request(method, &path, &headers, body, stop, until)
        .map_err(|e| match e {
            // The hint of that error is for servers of this product.
            Error::Unavailable(why) => {
                let why = why
                    .split(": start a server there")
                    .next()
                    .unwrap_or_default();
                format!("{url}: {why}")
            }
            e => words(&e),
        })?;
    let text = answer.text(ANSWER_BYTES_MAX).map_err(|e| words(&e))?;
    let status = answer.status;
    let json = serde_json::from_str(&text)
        .map_err(|_| format!("{url} answered with status {status} and no JSON"))?;
    Ok((status, json))
}

fn get(url: &str, stop: Stop<'_>) -> Result<Json, String> {
    match send("GET", url, &[], RequestBody::Nothing, stop)? {
        (200, json) => Ok(json),
        (status, _) => Err(format!("{url} answered with status {status}")),
    }
}

impl Provider {
    /// Asks a provider for its description.
    ///
    /// # Errors
    /// Returns an error that names the issuer and what failed.
    pub fn discover(issuer: &str, stop: Stop<'_>) -> Result<Self> {
        let what = "its description could not be read";
        let url = format!("{}{DESCRIPTION}", issuer.trim_end_matches('/'));
        let json = get(&url, stop).map_err(|e| failed(issuer, what, e))?;
        Self::parse(issuer, &json).map_err(|e| failed(issuer, what, format!("{url}: {e}")))
    }

    fn parse(issuer: &str, json: &Json) -> Result<Self, String> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let named = text("issuer").unwrap_or_default();
        if named != issuer {
            return Err(format!("it describes the issuer `{named}`"));
        }
        let address = |name: &str| match text(name) {
            Some(url) if is_private_url(url) => Ok(Some(url.to_owned())),
            Some(url) => Err(format!(
                "`{name}` is `{url}`; expected an address with https://"
            )),
            None => Ok(None),
        };
        let needed = |name: &str| address(name)?.ok_or_else(|| format!("it has no `{name}`"));
        let methods = json.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Json::as_array);
        let has = |method: &str| {
            methods.is_some_and(|m| m.iter().any(|known| known.as_str() == Some(method)))
        };
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization: address("authorization_endpoint")?,
            token: needed("token_endpoint")?,
            keys: needed("jwks_uri")?,
            device_authorization: address("device_authorization_endpoint")?,
            secret_in_form: !has("client_secret_basic") && has("client_secret_post"),
        })
    }

    /// Asks the provider for its keys.
    ///
    /// # Errors
    /// Returns an error that names the issuer and what failed.
    pub fn keys(&self, stop: Stop<'_>) -> Result<KeySet> {
        let what = "its keys could not be read";
        let json = get(&self.keys, stop).map_err(|e| failed(&self.issuer, what, e))?;
        KeySet::parse(&json).map_err(|e| failed(&self.issuer, what, format!("{}: {e}", self.keys)))
    }

    /// Sends a form to one of the provider's addresses, as a client.
    fn post(
        &self,
        url: &str,
        client: ClientCredentials<'_>,
        fields: &[(&str, &str)],
        stop: Stop<'_>,
    ) -> Result<(u16, Json), String> {
        let mut fields = fields.to_vec();
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        let basic;
        match client.secret {
            Some(secret) if self.secret_in_form => {
                fields.extend([("client_id", client.id), ("client_secret", secret)]);
            }
            Some(secret) => {
                let pair = format!("{}:{}", encoded(client.id), encoded(secret));
                basic = format!("Basic {}", STANDARD.encode(pair));
                headers.push(("authorization", &basic));
            }
            None => fields.push(("client_id", client.id)),
        }
        let body = form(&fields);
        send(
            "POST",
            url,
            &headers,
            RequestBody::Bytes(body.as_bytes()),
            stop,
        )
    }

    /// Asks for tokens; `Err` with the provider's code and message if it refuses.
    fn ask_tokens(
        &self,
        client: ClientCredentials<'_>,
        fields: &[(&str, &str)],
        stop: Stop<'_>,
    ) -> Result<std::result::Result<IssuedTokens, Refusal>> {
        let what = "it issued no token";
        let (status, json) = self
            .post(&self.token, client, fields, stop)
            .map_err(|e| failed(&self.issuer, what, e))?;
        if status != 200 {
            return Ok(Err(Refusal::of(status, &json)));
        }
        let text = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        let id = text("id_token").ok_or_else(|| {
            failed(
                &self.issuer,
                what,
                "its answer has no `id_token`: the scopes must contain `openid`",
            )
        })?;
        Ok(Ok(IssuedTokens {
            id,
            refresh: text("refresh_token"),
        }))
    }

    /// Exchanges the code of a login for tokens (RFC 6749, section 4.1.3, with PKCE).
    ///
    /// # Errors
    /// Returns an error that names the issuer and what failed.
    pub fn exchange_code(
        &self,
        client: ClientCredentials<'_>,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<IssuedTokens> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect),
        ];
        self.ask_tokens(client, &fields, &|| false)?
            .map_err(|refusal| failed(&self.issuer, "it refused the code of the login", refusal))
    }

    /// Obtains new tokens for an expired one.
    ///
    /// # Errors
    /// Returns an error that names the issuer and what failed.
    pub fn refresh(&self, client: ClientCredentials<'_>, token: &str) -> Result<IssuedTokens> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.ask_tokens(client, &fields, &|| false)?
            .map_err(|refusal| failed(&self.issuer, "it refused to renew the token", refusal))
    }
}

/// Refusal by a provider (RFC 6749, section 5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    code: String,
    description: String,
}

impl Refusal {
    fn of(status: u16, json: &Json) -> Self {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let code = text("error").map_or_else(|| format!("status {status}"), str::to_owned);
        // The text of another server must not break lines of the terminal or the log.
        let words = text("error_description").unwrap_or_default().chars();
        let description = words.filter(|c| !c.is_control()).take(200).collect();
        Self { code, description }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.description.is_empty() {
            return f.write_str(&self.code);
        }
        write!(f, "{} ({})", self.code, self.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_go_to_https_or_this_machine() {
        for url in [
            "https://login.example.org",
            "https://login.example.org/realms/a?x=1",
            "http://127.0.0.1:8080",
            "http://localhost/realm",
            "http://[::1]:9/",
        ] {
            assert!(is_private_url(url), "{url}");
        }
        for url in [
            "http://login.example.org",
            "https://",
            "ftp://127.0.0.1",
            "login.example.org",
            "https://a@login.example.org",
            "http://127.0.0.1.example.org",
        ] {
            assert!(!is_private_url(url), "{url}");
        }
        assert!(!is_issuer("https://login.example.org/?x=1"));
    }

    #[test]
    fn a_description_is_of_its_issuer_and_names_private_addresses() {
        let issuer = "https://login.example.org";
        let whole = json!({
            "issuer": issuer,
            "authorization_endpoint": "https://login.example.org/auth",
            "token_endpoint": "https://login.example.org/token",
            "jwks_uri": "https://login.example.org/keys",
        });
        let provider = Provider::parse(issuer, &whole).unwrap();
        assert_eq!(provider.token, "https://login.example.org/token");
        assert_eq!(provider.device_authorization, None);
        assert!(!provider.secret_in_form);
        for (name, value, why) in [
            (
                "issuer",
                json!("https://other.example.org"),
                "it describes the issuer",
            ),
            (
                "token_endpoint",
                json!("http://login.example.org/token"),
                "an address with https://",
            ),
            ("jwks_uri", Json::Null, "it has no `jwks_uri`"),
        ] {
            let mut changed = whole.clone();
            changed[name] = value;
            let refused = Provider::parse(issuer, &changed).unwrap_err();
            assert!(refused.contains(why), "{name}: {refused}");
        }
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(
            form(&[("a b", "ü&="), ("c", "-._~")]),
            "a%20b=%C3%BC%26%3D&c=-._~"
        );
    }

    #[test]
    fn an_unreachable_provider_is_named() {
        let e = Provider::discover("http://127.0.0.1:1", &|| false).unwrap_err();
        let text = e.to_string();
        assert!(
            text.contains("the OpenID provider `http://127.0.0.1:1` cannot be used"),
            "{text}"
        );
        assert!(
            text.contains("nothing listens at 127.0.0.1:1") && !text.contains("esker serve"),
            "{text}"
        );
    }
}
