//! Sessions of browsers.
//!
//! A browser on this machine whose user owns the database is authenticated by the kernel. Any other browser has no credential: it gets a
//! **ticket** from a client that is authenticated (by an SSH key, a token, or as a user of this machine), in a link that opens once, and
//! keeps a cookie for it.
//!
//! A browser may also log in at a provider of OpenID Connect ([`super::oidc`]), which begins a session without a ticket.
//!
//! A session has the identity of its ticket's maker, which is checked at each use: revoking the key or token also revokes the session.
//! Its role is at most the maker's when the ticket was made. It is bound to the user of this machine who began it, or to an address; it
//! ends with the server, with the maker's rights, or after some hours; and it cannot make tickets.

use super::super::{failure, json_response};
use super::begun_login::BegunLogin;
use super::secret_map::{Expiring, Hash, SecretMap, hash, hex, secret};
use crate::access::{ClientIdentity, ClientRights, Requester};
use crate::service::Service;
use axum::body::Body;
use axum::extract::{Path, State};
use esker_access::grants::RightsEntry;
use esker_access::{Role, rights, time_text};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value as Json, json};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time until an unused ticket expires.
const TICKET: Duration = Duration::from_mins(2);
/// Longest duration of a session.
const SESSION: Duration = Duration::from_hours(12);
/// Tickets per user, key or token; one more replaces the oldest.
const TICKETS_EACH: usize = 16;
/// Sessions per user, key or token; one more ends the oldest.
const SESSIONS_EACH: usize = 64;
/// Name of the cookie without TLS.
const COOKIE: &str = "esker_session";
/// Name of the cookie over TLS: browsers accept it from this host only, over TLS.
const COOKIE_OF_HOST: &str = "__Host-esker_session";
/// Prefix of the names of sessions.
pub(crate) const PREFIX: &str = "session:";
/// Header with the name by which a client knows this server.
const TARGET: &str = "esker-target";

/// User or address to which a session is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A user of this machine.
    User(u32),
    /// An address, or for IPv6 its network, because hosts change the rest.
    Address(IpAddr),
}

impl Bound {
    /// Binds to an address, or for IPv6 to its network.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                let network = ip.to_bits() & !u128::from(u64::MAX);
                Ipv6Addr::from_bits(network).into()
            }
            ip => ip,
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Address(ip @ IpAddr::V6(_)) => write!(f, "{ip}/64"),
            Self::Address(ip) => write!(f, "{ip}"),
        }
    }
}

/// A session that a ticket began.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// Name of the session: `session:` and some digits.
    pub(crate) id: String,
    pub(crate) who: String,
    pub(crate) identity: ClientIdentity,
    /// Highest role of the session.
    pub(crate) role: Role,
    pub(crate) bound: Bound,
    began: Instant,
    until: Instant,
    /// End of the session in seconds since 1970.
    ends: i64,
}

/// A ticket that has not been used.
#[derive(Debug, Clone)]
struct Ticket {
    who: String,
    identity: ClientIdentity,
    role: Role,
    /// User of the process that requested the ticket, if that is known.
    maker: Option<u32>,
    began: Instant,
    until: Instant,
}

impl Expiring for Ticket {
    fn holder(&self) -> Hash {
        self.identity.digest()
    }
    fn began(&self) -> Instant {
        self.began
    }
    fn until(&self) -> Instant {
        self.until
    }
}

impl Expiring for Session {
    fn holder(&self) -> Hash {
        self.identity.digest()
    }
    fn began(&self) -> Instant {
        self.began
    }
    fn until(&self) -> Instant {
        self.until
    }
}

/// Tickets and sessions of the server.
#[derive(Default)]
pub(crate) struct Sessions {
    state: Mutex<SessionState>,
}

#[derive(Default)]
struct SessionState {
    tickets: SecretMap<Ticket>,
    sessions: SecretMap<Session>,
    logins: SecretMap<BegunLogin>,
}

/// Reasons for refusing a ticket.
#[derive(Debug)]
enum TicketError {
    /// The ticket does not exist, or no longer.
    Unknown,
    /// The ticket belongs to another user of this machine.
    Foreign,
    /// The maker of the ticket has lost the rights.
    Over(String),
    /// The system failed to give random bytes.
    Failed(String),
}

impl Sessions {
    fn state(&self) -> MutexGuard<'_, SessionState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        state.tickets.prune(now);
        state.sessions.prune(now);
        state.logins.prune(now);
        state
    }

    /// Makes a ticket for an authenticated client; `maker` is the user of the process that requests it, if that is known.
    pub(crate) fn ticket(
        &self,
        who: String,
        role: Role,
        identity: ClientIdentity,
        maker: Option<u32>,
    ) -> Result<String, String> {
        let secret = secret()?;
        let began = Instant::now();
        let ticket = Ticket {
            who,
            identity,
            role,
            maker,
            began,
            until: began + TICKET,
        };
        let mut state = self.state();
        state.tickets.add(hash(&secret), ticket, TICKETS_EACH);
        Ok(secret)
    }

    /// Notes a login that a browser begins at a provider, by the state that comes back with it.
    pub(super) fn begin_login(&self, state: &str, begun: BegunLogin) {
        self.state().logins.add(hash(state), begun, TICKETS_EACH);
    }

    /// Returns the login that was begun with a state, and forgets it.
    pub(super) fn take_login(&self, state: &str) -> Option<BegunLogin> {
        self.state().logins.remove(&hash(state))
    }

    /// Begins a session of an authenticated client; returns its cookie and the session.
    pub(super) fn begin(
        &self,
        who: String,
        identity: ClientIdentity,
        role: Role,
        bound: Bound,
        lasts: Duration,
    ) -> Result<(String, Session), String> {
        let cookie = secret()?;
        let (began, now) = (Instant::now(), rights::now());
        let hash = hash(&cookie);
        let session = Session {
            id: format!("{PREFIX}{}", hex(hash.get(..6).unwrap_or_default())),
            who,
            identity,
            role,
            bound,
            began,
            until: began + lasts,
            ends: now.saturating_add(i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX)),
        };
        let mut state = self.state();
        state.sessions.add(hash, session.clone(), SESSIONS_EACH);
        Ok((cookie, session))
    }

    /// Exchanges a ticket for a session bound to `bound`; returns its cookie and the session. `granted` returns the maker's present role
    /// and its end.
    fn enter(
        &self,
        ticket: &str,
        bound: Bound,
        granted: impl Fn(&ClientIdentity) -> Result<(Role, Option<i64>), String>,
    ) -> Result<(String, Session), TicketError> {
        let mut state = self.state();
        let hash_of_ticket = hash(ticket);
        let found = state.tickets.get(&hash_of_ticket);
        let found = found.cloned().ok_or(TicketError::Unknown)?;
        // Another user of this machine may have seen the link.
        if let (Some(maker), Bound::User(user)) = (found.maker, bound)
            && maker != user
        {
            return Err(TicketError::Foreign);
        }
        state.tickets.remove(&hash_of_ticket);
        let (role, end) = granted(&found.identity).map_err(TicketError::Over)?;
        drop(state);
        let left = end.map(|end| u64::try_from(end.saturating_sub(rights::now())).unwrap_or(0));
        let lasts = left.map_or(SESSION, |left| SESSION.min(Duration::from_secs(left)));
        // If the roles have nothing in common, the check at each use refuses the session.
        let role = found.role.lesser(role).unwrap_or(found.role);
        self.begin(found.who, found.identity, role, bound, lasts)
            .map_err(TicketError::Failed)
    }

    /// Looks up the session of a cookie.
    pub(crate) fn of(&self, cookie: &str) -> Option<Session> {
        self.state().sessions.get(&hash(cookie)).cloned()
    }

    fn end(&self, cookie: &str) {
        self.state().sessions.remove(&hash(cookie));
    }

    /// Ends the session of a given name; returns its holder's description.
    pub(crate) fn end_named(&self, id: &str) -> Option<String> {
        let mut state = self.state();
        let found = state.sessions.0.iter().find(|(_, (_, s))| s.id == id);
        let found = found.map(|(hash, _)| *hash)?;
        state.sessions.remove(&found).map(|s| s.who)
    }

    /// Lists all sessions; `allowed` returns the present rights of one, if it has any.
    pub(crate) fn list(
        &self,
        allowed: impl Fn(&Session) -> Option<ClientRights>,
    ) -> Vec<RightsEntry> {
        let state = self.state();
        let mut all: Vec<Session> = state.sessions.0.values().map(|(_, s)| s.clone()).collect();
        drop(state);
        all.sort_by_key(|s| s.began);
        let listed = |s: Session| {
            let (role, user) = match allowed(&s) {
                Some(ClientRights { role, user, .. }) => (role.name().to_owned(), user),
                None => (String::new(), None),
            };
            RightsEntry {
                role,
                user: user.map(|user| user.to_string()).unwrap_or_default(),
                expires: time_text(s.ends).unwrap_or_default(),
                from: s.bound.to_string(),
                comment: s.who,
                fingerprint: s.id,
                file: "console".into(),
            }
        };
        all.into_iter().map(listed).collect()
    }
}

fn cookie_name(encrypted: bool) -> &'static str {
    if encrypted { COOKIE_OF_HOST } else { COOKIE }
}

/// Returns the session cookie in a request on such a connection.
pub(crate) fn cookie(headers: &HeaderMap, encrypted: bool) -> Option<&str> {
    cookie_named(headers, cookie_name(encrypted))
}

/// Returns the cookie of a name in a request.
pub(super) fn cookie_named<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let shown = headers.get_all(header::COOKIE).iter();
    shown
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Makes the header that sets a cookie for a number of seconds.
pub(super) fn set_cookie(value: &str, seconds: u64, encrypted: bool) -> Option<HeaderValue> {
    let name = cookie_name(encrypted);
    let secure = if encrypted { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).ok()
}

fn role_name(role: Role) -> &'static str {
    role.name()
}

/// Description of the user and the server for pages.
fn about(service: &Service, who: &str, rights: &ClientRights) -> Json {
    let kind = if service.cluster.is_some() {
        "cluster"
    } else {
        "folder"
    };
    json!({
        "who": who,
        "role": role_name(rights.role),
        "how": rights.proof.name(),
        "user": rights.user.as_ref().map(ToString::to_string),
        "name": rights.name.as_deref(),
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "target": service.access.folder().display().to_string(),
            "kind": kind,
            "pid": std::process::id(),
        },
    })
}

/// Answers the request `GET /api/v1/session`.
pub(in super::super) async fn current(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(requester) = request.extensions().get::<Requester>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "the caller is not known", None);
    };
    match requester.authentication(&service.access) {
        Ok((who, rights)) => {
            let mut about = about(&service, &who, &rights);
            // A client that comes through a tunnel knows the server by another name.
            let called = request.headers().get(TARGET).and_then(|t| t.to_str().ok());
            if let Some(target) = called {
                about["server"]["target"] = target.into();
            }
            json_response(about.to_string())
        }
        Err(denied) => denied.response(&request),
    }
}

/// Answers `POST /api/v1/session/ticket`, for clients that are authenticated by more than a session.
pub(in super::super) async fn ticket(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(requester) = request.extensions().get::<Requester>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "the caller is not known", None);
    };
    let (who, role, identity) = match requester.identity(&service.access) {
        Ok(known) => known,
        Err(denied) => return denied.response(&request),
    };
    let maker = requester.caller.user();
    let sessions = service.access.sessions();
    match sessions.ticket(who, role, identity, maker) {
        Ok(ticket) => {
            let seconds = TICKET.as_secs();
            json_response(
                json!({"ticket": ticket, "seconds": seconds, "role": role_name(role)}).to_string(),
            )
        }
        Err(why) => failure(StatusCode::SERVICE_UNAVAILABLE, &why, None),
    }
}

/// Answers `POST /api/v1/session` by exchanging a ticket for a session.
pub(in super::super) async fn enter(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(requester) = request.extensions().get::<Requester>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "the caller is not known", None);
    };
    let body = axum::body::to_bytes(request.into_body(), 1 << 12).await;
    let ticket = body
        .ok()
        .and_then(|b| serde_json::from_slice::<Json>(&b).ok())
        .and_then(|json| json.get("ticket")?.as_str().map(str::to_owned));
    let Some(ticket) = ticket else {
        let message = "expected a JSON object with `ticket`";
        return failure(StatusCode::BAD_REQUEST, message, None);
    };
    let (access, caller) = (&service.access, &requester.caller);
    let granted = |identity: &ClientIdentity| {
        let granted = access.role_of(identity, caller.address());
        granted
            .map(|g| (g.role, g.until))
            .map_err(|refused| refused.client_message())
    };
    match access.sessions().enter(&ticket, caller.bound(), granted) {
        Err(TicketError::Unknown) => failure(
            StatusCode::UNAUTHORIZED,
            "this link was used already, or is too old: links open once, within two minutes. Make another with `esker console`",
            None,
        ),
        Err(TicketError::Foreign) => {
            tracing::warn!(by = %caller.bound(), "refused: a ticket of the console that another user made");
            let message = "this link is another user's: make your own with `esker console`";
            failure(StatusCode::FORBIDDEN, message, None)
        }
        Err(TicketError::Over(why)) => {
            let message = format!("the user who made this link no longer has access here: {why}");
            failure(StatusCode::FORBIDDEN, &message, None)
        }
        Err(TicketError::Failed(why)) => failure(StatusCode::SERVICE_UNAVAILABLE, &why, None),
        Ok((cookie, session)) => {
            tracing::info!(who = %session.who, role = %session.role, bound = %session.bound, id = session.id, "a session of the console begins");
            let granted = match access.role_of(&session.identity, caller.address()) {
                Ok(granted) => granted,
                Err(refused) => {
                    return failure(StatusCode::FORBIDDEN, &refused.client_message(), None);
                }
            };
            let rights = session.identity.session_rights(granted, session.role);
            let about = about(&service, &session.who, &rights);
            let named = format!("{} of {}", session.id, session.who);
            requester.record_session(access, "POST /api/v1/session", Some(rights), named);
            let mut response = json_response(about.to_string());
            let age = session.until.saturating_duration_since(session.began);
            let value = set_cookie(&cookie, age.as_secs(), caller.encrypted());
            if let Some(value) = value {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
    }
}

/// Answers the request `DELETE /api/v1/session`.
pub(in super::super) async fn leave(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let requester = request.extensions().get::<Requester>();
    let encrypted = requester.is_some_and(|requester| requester.caller.encrypted());
    if let Some(cookie) = cookie(request.headers(), encrypted) {
        let access = &service.access;
        if let Some(requester) = requester
            && let Ok((who, rights)) = requester.authentication(access)
        {
            requester.record_session(access, "DELETE /api/v1/session", Some(rights), who);
        }
        access.sessions().end(cookie);
    }
    let mut response = json_response(json!({"ended": true}).to_string());
    if let Some(value) = set_cookie("", 0, encrypted) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Answers `GET /api/v1/sessions` with the open sessions.
pub(in super::super) async fn list(State(service): State<Arc<Service>>) -> Response<Body> {
    let one = |l: RightsEntry| json!({"id": l.fingerprint, "who": l.comment, "role": l.role, "user": l.user, "until": l.expires, "bound": l.from});
    let all: Vec<Json> = service
        .access
        .list_sessions()
        .into_iter()
        .map(one)
        .collect();
    json_response(json!({ "sessions": all }).to_string())
}

/// Answers `DELETE /api/v1/sessions/{id}` by ending that session.
pub(in super::super) async fn end(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
) -> Response<Body> {
    match service.access.sessions().end_named(&id) {
        Some(who) => {
            tracing::info!(id, who, "a session of the console was ended");
            json_response(json!({"ended": id, "who": who}).to_string())
        }
        None => failure(
            StatusCode::NOT_FOUND,
            &format!("there is no session `{id}`"),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret_map::{RANDOM_BYTES, TOTAL_MAX};
    use super::*;

    fn token(n: usize) -> ClientIdentity {
        let name = format!("token:{n}");
        ClientIdentity::Token {
            hash: name.clone(),
            name,
        }
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it stands for one that may refuse"
    )]
    fn read(_: &ClientIdentity) -> Result<(Role, Option<i64>), String> {
        Ok((Role::Read, None))
    }

    #[test]
    fn a_ticket_opens_once() {
        let sessions = Sessions::default();
        let made = sessions.ticket("ada".into(), Role::Write, token(1), None);
        let ticket = made.unwrap();
        assert_eq!(ticket.len(), 2 * RANDOM_BYTES);
        let bound = Bound::User(7);
        let (cookie, session) = sessions.enter(&ticket, bound, read).unwrap();
        // The maker's present role is lower than at the time of the ticket.
        assert_eq!((session.who.as_str(), session.role), ("ada", Role::Read));
        for none in [ticket.as_str(), "x"] {
            let closed = sessions.enter(none, bound, read).unwrap_err();
            assert!(matches!(closed, TicketError::Unknown));
        }
        assert_eq!(sessions.of(&cookie).unwrap().who, "ada");
        assert!(sessions.of(&ticket).is_none(), "a ticket is not a cookie");
        sessions.end(&cookie);
        assert!(sessions.of(&cookie).is_none());
    }

    #[test]
    fn a_login_is_finished_once() {
        let sessions = Sessions::default();
        let begun = |nonce: &str| BegunLogin {
            holder: hash("an address"),
            cookie: hash("a cookie"),
            nonce: nonce.into(),
            verifier: "v".into(),
            redirect: "http://127.0.0.1/".into(),
            began: Instant::now(),
        };
        sessions.begin_login("state", begun("n"));
        assert!(sessions.take_login("other").is_none());
        assert_eq!(sessions.take_login("state").unwrap().nonce, "n");
        assert!(sessions.take_login("state").is_none());
        // One address cannot keep others out.
        for n in 0..2 * TICKETS_EACH {
            sessions.begin_login(&n.to_string(), begun("n"));
        }
        assert!(sessions.take_login("0").is_none());
        assert_eq!(sessions.state().logins.0.len(), TICKETS_EACH);
    }

    #[test]
    fn a_ticket_that_another_user_has_seen_is_not_theirs() {
        let sessions = Sessions::default();
        let made = sessions.ticket("ada".into(), Role::Admin, ClientIdentity::User(7), Some(7));
        let ticket = made.unwrap();
        let enter = |bound| sessions.enter(&ticket, bound, read);
        assert!(matches!(enter(Bound::User(8)), Err(TicketError::Foreign)));
        // The ticket remains valid for its maker.
        assert!(enter(Bound::User(7)).is_ok());
    }

    #[test]
    fn a_session_ends_with_what_it_was_known_by() {
        let sessions = Sessions::default();
        let enter = |end: Option<i64>| {
            let ticket = sessions.ticket("ada".into(), Role::Read, token(1), None);
            let granted = |_: &ClientIdentity| Ok((Role::Read, end));
            let entered = sessions.enter(&ticket.unwrap(), Bound::User(7), granted);
            entered.unwrap().1
        };
        let lasts = |session: &Session| session.until.duration_since(session.began);
        assert_eq!(lasts(&enter(None)), SESSION);
        let soon = lasts(&enter(Some(rights::now() + 60)));
        assert!(soon <= Duration::from_mins(1), "{soon:?}");
        assert_eq!(lasts(&enter(Some(rights::now() + 999_999))), SESSION);
        let ticket = sessions.ticket("ada".into(), Role::Read, token(1), None);
        let over = |_: &ClientIdentity| Err("it was revoked".to_owned());
        let closed = sessions.enter(&ticket.unwrap(), Bound::User(7), over);
        assert!(matches!(closed, Err(TicketError::Over(why)) if why == "it was revoked"));
    }

    /// One client with the role `read` makes tickets and begins sessions without end.
    #[test]
    fn nobody_keeps_others_out() {
        let sessions = Sessions::default();
        let ticket = |n| {
            let made = sessions.ticket("somebody".into(), Role::Read, token(n), None);
            made.unwrap()
        };
        let enter = |ticket: &str| sessions.enter(ticket, Bound::User(7), read);
        let (own, _) = enter(&ticket(0)).unwrap();
        let waiting = ticket(0);
        for _ in 0..2 * TOTAL_MAX {
            ticket(1);
            enter(&ticket(1)).unwrap();
        }
        assert!(sessions.of(&own).is_some());
        assert!(enter(&waiting).is_ok());
        let state = sessions.state();
        let all = (
            state.sessions.0.values().map(|(of, _)| *of),
            state.tickets.0.values().map(|(of, _)| *of),
        );
        let of_one = |of: &Hash| *of == token(1).digest();
        assert_eq!(all.0.filter(of_one).count(), SESSIONS_EACH);
        assert!(all.1.filter(of_one).count() <= TICKETS_EACH);
        drop(state);
        // Many cooperating holders fill all places, but a holder with few sessions keeps them.
        for n in 0..2 * TOTAL_MAX {
            enter(&ticket(2 + n % 100)).unwrap();
        }
        assert!(sessions.of(&own).is_some());
        assert_eq!(sessions.state().sessions.0.len(), TOTAL_MAX);
    }

    #[test]
    fn a_session_is_bound_to_a_network_at_most() {
        let of = |text: &str| Bound::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:5::6"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.7"), of("10.0.0.7"));
        assert_ne!(of("10.0.0.8"), of("10.0.0.7"));
        assert_eq!(of("2001:db8::1").to_string(), "2001:db8::/64");
    }

    #[test]
    fn cookies_are_found_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(cookie(&headers, false), None);
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static(
                "a=b; esker_session=77; esker_sessions=8; __Host-esker_session=9",
            ),
        );
        assert_eq!(cookie(&headers, false), Some("77"));
        // Over TLS only a cookie counts that no page of another port could have set.
        assert_eq!(cookie(&headers, true), Some("9"));
        let set = set_cookie("9", 7, true).unwrap();
        let set = set.to_str().unwrap();
        assert!(set.starts_with("__Host-esker_session=9; Path=/; "), "{set}");
        assert!(set.ends_with("; Secure"), "{set}");
    }
}
