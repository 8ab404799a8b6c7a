//! Who looks, and how a browser becomes somebody.
//!
//! A browser on this machine, of a user who owns the database, is that user: the kernel says so. Every other one has nothing to show: it gets a
//! **ticket** from somebody who has proved who they are (`esker console`, by a key of SSH), in a link that opens once, and keeps a cookie
//! for it. What a session may do is what its maker could when the ticket was made; it ends with the server, or after some hours.

use super::super::{failure, json_response};
use crate::access::Asking;
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use esker_access::Role;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a ticket waits to be used.
const TICKET: Duration = Duration::from_mins(2);
/// How long a session holds.
const SESSION: Duration = Duration::from_hours(12);
/// Tickets and sessions that there may be at once.
const MOST: usize = 1_000;
/// The cookie's name. `__Host-` would need TLS.
const COOKIE: &str = "esker_session";
/// What somebody calls this server, if they say.
const TARGET: &str = "esker-target";
/// Bytes of chance in a ticket.
const CHANCE: usize = 32;

/// Somebody, by a ticket or a cookie.
#[derive(Debug, Clone)]
pub(crate) struct Somebody {
    pub(crate) who: String,
    pub(crate) role: Role,
    until: Instant,
}

/// Tickets and sessions, by hashes of what is shown for them.
#[derive(Default)]
pub(crate) struct Sessions {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    tickets: HashMap<[u8; 32], Somebody>,
    sessions: HashMap<[u8; 32], Somebody>,
}

/// What is compared: a guess says nothing by how long that takes.
fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

fn secret() -> Result<String, String> {
    let mut bytes = [0; CHANCE];
    let failed = |e| format!("the system gives no random bytes: {e}");
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
        filled +=
            rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    }
    let mut text = String::with_capacity(2 * CHANCE);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.tickets.retain(|_, somebody| somebody.until > now);
        held.sessions.retain(|_, somebody| somebody.until > now);
        held
    }

    /// A ticket for somebody.
    pub(crate) fn ticket(&self, who: String, role: Role) -> Result<String, String> {
        let secret = secret()?;
        let mut held = self.held();
        if held.tickets.len() >= MOST {
            return Err("too many tickets are under way: try again in two minutes".into());
        }
        let until = Instant::now() + TICKET;
        let somebody = Somebody { who, role, until };
        held.tickets.insert(hash(&secret), somebody);
        Ok(secret)
    }

    /// Takes a ticket: the cookie for it, and who has it.
    fn enter(&self, ticket: &str) -> Option<Result<(String, Somebody), String>> {
        let mut held = self.held();
        let mut somebody = held.tickets.remove(&hash(ticket))?;
        if held.sessions.len() >= MOST {
            return Some(Err(
                "too many sessions are open: end one, or try again later".into(),
            ));
        }
        let cookie = match secret() {
            Ok(cookie) => cookie,
            Err(why) => return Some(Err(why)),
        };
        somebody.until = Instant::now() + SESSION;
        held.sessions.insert(hash(&cookie), somebody.clone());
        Some(Ok((cookie, somebody)))
    }

    /// Whose cookie it is.
    pub(crate) fn of(&self, cookie: &str) -> Option<Somebody> {
        self.held().sessions.get(&hash(cookie)).cloned()
    }

    fn end(&self, cookie: &str) {
        self.held().sessions.remove(&hash(cookie));
    }
}

/// The cookie of a session, if a request shows one.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get_all(header::COOKIE).iter();
    shown
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

fn role_name(role: Role) -> &'static str {
    role.name()
}

/// What a page says of who looks and of the server.
fn about(service: &Service, who: &str, role: Role, how: &str) -> Json {
    let kind = if service.cluster.is_some() {
        "cluster"
    } else {
        "folder"
    };
    json!({
        "who": who,
        "role": role_name(role),
        "how": how,
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "target": service.access.folder().display().to_string(),
            "kind": kind,
            "pid": std::process::id(),
        },
    })
}

/// `GET /api/v1/session`.
pub(in super::super) async fn look(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "it is not known who asks", None);
    };
    match asking.known(&service.access) {
        Ok((who, role, how)) => {
            let mut about = about(&service, &who, role, how);
            // Whoever came through a tunnel knows the server by another name.
            let called = request.headers().get(TARGET).and_then(|t| t.to_str().ok());
            if let Some(target) = called {
                about["server"]["target"] = target.into();
            }
            json_response(about.to_string())
        }
        Err(denied) => denied.response(&request),
    }
}

/// `POST /api/v1/session/ticket`: for whoever may ask anything here.
pub(in super::super) async fn ticket(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "it is not known who asks", None);
    };
    let (who, role) = match asking.known(&service.access) {
        Ok((who, role, _)) => (who, role),
        Err(denied) => return denied.response(&request),
    };
    match service.access.sessions().ticket(who, role) {
        Ok(ticket) => {
            let seconds = TICKET.as_secs();
            json_response(
                json!({"ticket": ticket, "seconds": seconds, "role": role_name(role)}).to_string(),
            )
        }
        Err(why) => failure(StatusCode::SERVICE_UNAVAILABLE, &why, None),
    }
}

/// `POST /api/v1/session`, with a ticket: it becomes a session.
pub(in super::super) async fn enter(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let secure = request
        .extensions()
        .get::<Asking>()
        .is_some_and(|asking| asking.caller.encrypted());
    let body = axum::body::to_bytes(request.into_body(), 1 << 12).await;
    let ticket = body
        .ok()
        .and_then(|b| serde_json::from_slice::<Json>(&b).ok())
        .and_then(|json| json.get("ticket")?.as_str().map(str::to_owned));
    let Some(ticket) = ticket else {
        let message = "expected a JSON object with `ticket`";
        return failure(StatusCode::BAD_REQUEST, message, None);
    };
    match service.access.sessions().enter(&ticket) {
        None => failure(
            StatusCode::UNAUTHORIZED,
            "this link was used already, or is too old: links open once, within two minutes. Make another with `esker console`",
            None,
        ),
        Some(Err(why)) => failure(StatusCode::SERVICE_UNAVAILABLE, &why, None),
        Some(Ok((cookie, somebody))) => {
            tracing::info!(who = %somebody.who, role = %somebody.role, "a session of the console begins");
            let about = about(&service, &somebody.who, somebody.role, "session");
            let mut response = json_response(about.to_string());
            let secure = if secure { "; Secure" } else { "" };
            let age = SESSION.as_secs();
            let cookie = format!(
                "{COOKIE}={cookie}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
            );
            if let Ok(value) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
    }
}

/// `DELETE /api/v1/session`.
pub(in super::super) async fn leave(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Response<Body> {
    if let Some(cookie) = cookie(&headers) {
        service.access.sessions().end(cookie);
    }
    let mut response = json_response(json!({"ended": true}).to_string());
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    if let Ok(value) = HeaderValue::from_str(&gone) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_once() {
        let sessions = Sessions::default();
        let ticket = sessions.ticket("ada".into(), Role::Read).unwrap();
        assert_eq!(ticket.len(), 2 * CHANCE);
        let (cookie, somebody) = sessions.enter(&ticket).unwrap().unwrap();
        assert_eq!((somebody.who.as_str(), somebody.role), ("ada", Role::Read));
        assert!(sessions.enter(&ticket).is_none());
        assert!(sessions.enter("x").is_none());
        assert_eq!(sessions.of(&cookie).unwrap().who, "ada");
        assert!(sessions.of(&ticket).is_none(), "a ticket is no cookie");
        sessions.end(&cookie);
        assert!(sessions.of(&cookie).is_none());
    }

    #[test]
    fn cookies_are_found_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(cookie(&headers), None);
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("a=b; esker_session=77; esker_sessions=8"),
        );
        assert_eq!(cookie(&headers), Some("77"));
    }
}
