//! Logins of browsers by a provider of OpenID Connect: the authorization code flow with PKCE.
//!
//! A login is bound to the browser that began it by a cookie of its own, and its state is accepted once. Each step answers a browser, so
//! that errors are plain text.

use super::super::{json_response, percent};
use super::begun_login::{BegunLogin, LOGIN};
use super::secret_map::{hash, secret};
use crate::access::{ClientIdentity, Requester};
use crate::oidc::Oidc;
use crate::service::Service;
use crate::settings_oidc::{CALLBACK, OidcSettings};
use axum::body::Body;
use axum::extract::State;
use esker_access::jwt::pkce_challenge;
use esker_rpc::oidc::form;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Path at which a login begins.
const BEGIN: &str = "/api/v1/oidc/login";
/// Name of the cookie of a login, without TLS and over TLS.
const COOKIES: [&str; 2] = ["esker_login", "__Host-esker_login"];
/// Longest message of a provider that is shown, in characters.
const SHOWN_MAX: usize = 300;

/// Returns a page of plain text for a login that failed.
fn page(status: StatusCode, message: &str) -> Response<Body> {
    let text = format!("The login failed: {message}\n\nThe console: /\n");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn cookie_name(encrypted: bool) -> &'static str {
    let [plain, over_tls] = COOKIES;
    if encrypted { over_tls } else { plain }
}

/// Makes the header that sets the cookie of a login. The provider's page sends the browser back, so `SameSite` cannot be `Strict`.
fn set_cookie(value: &str, seconds: u64, encrypted: bool) -> Option<HeaderValue> {
    let name = cookie_name(encrypted);
    let secure = if encrypted { "; Secure" } else { "" };
    HeaderValue::from_str(&format!(
        "{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    ))
    .ok()
}

/// Sends the browser to another page.
fn see_other(to: &str, cookies: impl IntoIterator<Item = Option<HeaderValue>>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let Ok(to) = HeaderValue::from_str(to) else {
        return page(StatusCode::BAD_GATEWAY, "the provider's address is not one");
    };
    response.headers_mut().insert(header::LOCATION, to);
    for cookie in cookies.into_iter().flatten() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Parameters of a query; the first one of a name counts.
fn parameter(query: &str, name: &str) -> Option<String> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        .and_then(percent::decode)
}

/// Address of this server to which the provider sends the browser back.
fn redirect_of(oidc: &Oidc, request: &Request<Body>, encrypted: bool) -> Option<String> {
    if let Some(address) = &oidc.settings.redirect {
        return Some(address.clone());
    }
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str))?;
    let host: http::uri::Authority = host.parse().ok()?;
    let scheme = if encrypted { "https" } else { "http" };
    Some(format!("{scheme}://{host}{CALLBACK}"))
}

/// Answers `GET /api/v1/oidc`: the provider by which users log in here. Without one all values are null: a browser reports an error
/// status to its user.
pub(in super::super) async fn about(State(service): State<Arc<Service>>) -> Response<Body> {
    let settings = service.access.oidc().map(|oidc| &oidc.settings);
    let about = json!({
        "issuer": settings.map(|s| &s.issuer),
        "name": settings.map(OidcSettings::host),
        "client_id": settings.map(OidcSettings::device_client),
        "scopes": settings.map(|s| &s.scopes),
        "audience": settings.and_then(|s| s.audience.as_ref()),
        "login": settings.map(|_| BEGIN),
    });
    json_response(about.to_string())
}

/// The provider and the sender of a request; else the page that refuses it.
#[expect(
    clippy::result_large_err,
    reason = "the refusal is the response that is sent"
)]
fn parts<'a>(
    service: &'a Service,
    request: &Request<Body>,
) -> Result<(&'a Arc<Oidc>, Requester), Response<Body>> {
    let requester = request.extensions().get::<Requester>().cloned();
    let (Some(oidc), Some(requester)) = (service.access.oidc(), requester) else {
        let message = "this server has no OpenID provider (the section [oidc] of its settings)";
        return Err(page(StatusCode::NOT_FOUND, message));
    };
    if requester.caller.is_unencrypted_remote() {
        let message =
            "others on the network could use a session that begins without encryption: use https";
        return Err(page(StatusCode::FORBIDDEN, message));
    }
    Ok((oidc, requester))
}

/// Answers `GET /api/v1/oidc/login` by sending the browser to the provider.
pub(in super::super) async fn begin(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let (oidc, requester) = match parts(&service, &request) {
        Ok(parts) => parts,
        Err(refused) => return refused,
    };
    let encrypted = requester.caller.encrypted();
    let Some(redirect) = redirect_of(oidc, &request, encrypted) else {
        return page(StatusCode::BAD_REQUEST, "the request names no host");
    };
    let Some(_permit) = oidc.admit_login() else {
        return page(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many logins at once: try again",
        );
    };
    let asked = Arc::clone(oidc);
    let provider = tokio::task::spawn_blocking(move || {
        let provider = asked.provider().map_err(|e| e.to_string())?;
        let page = provider.authorization.ok_or_else(|| {
            format!(
                "the OpenID provider `{}` has no page for logins",
                provider.issuer
            )
        })?;
        Ok::<_, String>((page, [secret()?, secret()?, secret()?, secret()?]))
    });
    let (address, [state, cookie, nonce, verifier]) = match provider.await {
        Ok(Ok(provider)) => provider,
        Ok(Err(why)) => {
            tracing::warn!("a login was not begun: {why}");
            return page(StatusCode::BAD_GATEWAY, &why);
        }
        Err(_) => {
            return page(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server could not finish it",
            );
        }
    };
    let challenge = pkce_challenge(&verifier);
    let query = form(&[
        ("response_type", "code"),
        ("client_id", oidc.settings.client.as_str()),
        ("redirect_uri", redirect.as_str()),
        ("scope", oidc.settings.scopes.as_str()),
        ("state", state.as_str()),
        ("nonce", nonce.as_str()),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ]);
    let begun = BegunLogin {
        holder: hash(&requester.caller.bound().to_string()),
        cookie: hash(&cookie),
        nonce,
        verifier,
        redirect,
        began: Instant::now(),
    };
    service.access.sessions().begin_login(&state, begun);
    let with = if address.contains('?') { '&' } else { '?' };
    let cookie = set_cookie(&cookie, LOGIN.as_secs(), encrypted);
    see_other(&format!("{address}{with}{query}"), [cookie])
}

/// Returns the login that a browser continues, which ends with that.
fn take_begun(
    service: &Service,
    requester: &Requester,
    headers: &HeaderMap,
    state: &str,
) -> Option<BegunLogin> {
    let begun = service.access.sessions().take_login(state)?;
    let name = cookie_name(requester.caller.encrypted());
    let cookie = super::session::cookie_named(headers, name)?;
    let same =
        begun.cookie == hash(cookie) && begun.holder == hash(&requester.caller.bound().to_string());
    same.then_some(begun)
}

/// Answers `GET /api/v1/oidc/callback`, to which the provider sends the browser back, by beginning a session.
pub(in super::super) async fn finish(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let (oidc, requester) = match parts(&service, &request) {
        Ok(parts) => parts,
        Err(refused) => return refused,
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let value = |name: &str| parameter(&query, name);
    let begun =
        value("state").and_then(|s| take_begun(&service, &requester, request.headers(), &s));
    let Some(begun) = begun else {
        tracing::warn!(peer = %requester.caller.address_text(), "refused: the answer to a login that this browser has not begun");
        let message = "this browser has begun no such login, or it was finished already, or more than ten minutes ago: log in again";
        return page(StatusCode::BAD_REQUEST, message);
    };
    if let Some(issuer) = value("iss").filter(|issuer| *issuer != oidc.settings.issuer) {
        let message = format!(
            "the answer is of `{}`, another provider",
            printable(&issuer)
        );
        return page(StatusCode::BAD_REQUEST, &message);
    }
    let Some(code) = value("code") else {
        let error = value("error").unwrap_or_else(|| "no code".into());
        let words = value("error_description").unwrap_or_default();
        let message = format!(
            "the OpenID provider `{}` refused it: {} {}",
            oidc.settings.issuer,
            printable(&error),
            printable(&words)
        );
        return page(StatusCode::FORBIDDEN, message.trim_end());
    };
    let Some(_permit) = oidc.admit_login() else {
        return page(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many logins at once: try again",
        );
    };
    let asked = Arc::clone(oidc);
    let finished = tokio::task::spawn_blocking(move || {
        asked.finish_login(&code, &begun.verifier, &begun.nonce, &begun.redirect)
    });
    match finished.await {
        Ok(Ok(login)) => enter(&service, &requester, ClientIdentity::Oidc(Arc::new(login))),
        Ok(Err(why)) => {
            tracing::warn!(peer = %requester.caller.address_text(), "refused: a login: {why}");
            service.access.count_refused("login");
            page(StatusCode::FORBIDDEN, &why)
        }
        Err(_) => page(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server could not finish it",
        ),
    }
}

/// Begins a session of an authenticated user, and sends the browser to the pages.
fn enter(service: &Service, requester: &Requester, identity: ClientIdentity) -> Response<Body> {
    let (access, caller) = (&service.access, &requester.caller);
    let granted = match access.role_of(&identity, caller.address()) {
        Ok(granted) => granted,
        Err(refused) => return page(StatusCode::FORBIDDEN, &refused.client_message()),
    };
    let ClientIdentity::Oidc(login) = &identity else {
        return page(
            StatusCode::FORBIDDEN,
            "the provider has not authenticated the user",
        );
    };
    let who = login.to_string();
    let lasts = oidc_session(service);
    let begun = access
        .sessions()
        .begin(who, identity, granted.role, caller.bound(), lasts);
    match begun {
        Ok((cookie, session)) => {
            tracing::info!(who = %session.who, role = %session.role, bound = %session.bound, id = session.id, "a session of the console begins");
            let encrypted = caller.encrypted();
            let session_cookie = super::session::set_cookie(&cookie, lasts.as_secs(), encrypted);
            see_other("/", [session_cookie, set_cookie("", 0, encrypted)])
        }
        Err(why) => page(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

fn oidc_session(service: &Service) -> Duration {
    let oidc = service.access.oidc();
    oidc.map_or(Duration::ZERO, |oidc| oidc.settings.session)
}

/// Shortens a text of another server to what is safe to show.
fn printable(text: &str) -> String {
    let safe = text.chars().filter(|c| !c.is_control());
    safe.take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_once() {
        let query = "state=a%20b&code=x+y&state=z&iss=http%3A%2F%2F127.0.0.1";
        assert_eq!(parameter(query, "state").as_deref(), Some("a b"));
        assert_eq!(parameter(query, "code").as_deref(), Some("x y"));
        assert_eq!(parameter(query, "iss").as_deref(), Some("http://127.0.0.1"));
        assert_eq!(parameter(query, "stat"), None);
        assert_eq!(parameter("", "state"), None);
    }

    #[test]
    fn the_cookie_of_a_login_comes_back_from_another_site() {
        let set = set_cookie("7", 9, true).unwrap();
        let set = set.to_str().unwrap();
        assert!(
            set.starts_with("__Host-esker_login=7; Path=/; Max-Age=9; HttpOnly"),
            "{set}"
        );
        assert!(set.ends_with("; SameSite=Lax; Secure"), "{set}");
    }
}
