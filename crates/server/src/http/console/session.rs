//! Who looks, and how a browser becomes somebody.
//!
//! A browser on this machine, of a user who owns the database, is that user: the kernel says so. Every other one has nothing to show: it gets a
//! **ticket** from somebody who has proved who they are (by a key of SSH, a token, or a user of this machine), in a link that opens once, and
//! keeps a cookie for it.
//!
//! A session holds how its ticket's maker was known, and is as good as that is at each use: what takes the key's rights, or the token's, takes
//! the session's. It may do what its maker could when the ticket was made, and no more. It is bound to the user of this machine who began it,
//! or to the address; it ends with the server, with what it was known by, or after some hours; and it gives no tickets.

use super::super::{failure, json_response};
use crate::access::{Allowed, Asking, KnownBy};
use crate::service::Service;
use axum::body::Body;
use axum::extract::{Path, State};
use esker_access::grants::Listed;
use esker_access::{Role, rights, time_text};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a ticket waits to be used.
const TICKET: Duration = Duration::from_mins(2);
/// How long a session holds.
const SESSION: Duration = Duration::from_hours(12);
/// Tickets that one user, key or token may have; the oldest goes for one more.
const TICKETS_EACH: usize = 16;
/// Sessions that one user, key or token may have; the oldest ends for one more.
const SESSIONS_EACH: usize = 64;
/// Tickets, or sessions, that there may be at once. Where there are as many, the oldest goes of whoever has the most.
const MOST: usize = 1_000;
/// The cookie's name without TLS.
const COOKIE: &str = "esker_session";
/// The cookie's name over TLS: browsers take it from this host only, over TLS.
const COOKIE_OF_HOST: &str = "__Host-esker_session";
/// What names of sessions begin with.
pub(crate) const PREFIX: &str = "session:";
/// What somebody calls this server, if they say.
const TARGET: &str = "esker-target";
/// Bytes of chance in a ticket.
const CHANCE: usize = 32;

/// What a session is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A user of this machine.
    User(u32),
    /// An address; of version 6 the network, as a host changes the rest.
    Address(IpAddr),
}

impl Bound {
    /// That address, or its network.
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

/// Somebody who was let in by a ticket.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// How it is called: `session:` and some digits.
    pub(crate) id: String,
    pub(crate) who: String,
    pub(crate) known_by: KnownBy,
    /// The most that it may do.
    pub(crate) role: Role,
    pub(crate) bound: Bound,
    began: Instant,
    until: Instant,
    /// The same in seconds since 1970.
    ends: i64,
}

/// Somebody who may be let in.
#[derive(Debug, Clone)]
struct Ticket {
    who: String,
    known_by: KnownBy,
    role: Role,
    /// The user whose process asked for it, if that is known.
    maker: Option<u32>,
    began: Instant,
    until: Instant,
}

/// What is held of somebody for a time.
trait Held {
    /// Whose it is, to count by.
    fn holder(&self) -> Hash;
    fn began(&self) -> Instant;
    fn until(&self) -> Instant;
}

impl Held for Ticket {
    fn holder(&self) -> Hash {
        self.known_by.digest()
    }
    fn began(&self) -> Instant {
        self.began
    }
    fn until(&self) -> Instant {
        self.until
    }
}

impl Held for Session {
    fn holder(&self) -> Hash {
        self.known_by.digest()
    }
    fn began(&self) -> Instant {
        self.began
    }
    fn until(&self) -> Instant {
        self.until
    }
}

type Hash = [u8; 32];

/// Tickets or sessions, by hashes of what is shown for them, with whose they are.
struct Kept<T>(HashMap<Hash, (Hash, T)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Held> Kept<T> {
    /// Drops what is over.
    fn prune(&mut self, now: Instant) {
        self.0.retain(|_, (_, held)| held.until() > now);
    }

    fn drop_oldest_of(&mut self, holder: Hash) {
        let own = self.0.iter().filter(|(_, (of, _))| *of == holder);
        let oldest = own.min_by_key(|(_, (_, held))| held.began());
        if let Some(hash) = oldest.map(|(hash, _)| *hash) {
            self.0.remove(&hash);
        }
    }

    /// Keeps one more. Whoever has many loses their own oldest: nobody can keep others out.
    fn add(&mut self, hash: Hash, held: T, each: usize) {
        let holder = held.holder();
        let mut counts: HashMap<Hash, usize> = HashMap::new();
        for (of, _) in self.0.values() {
            *counts.entry(*of).or_default() += 1;
        }
        if counts.get(&holder).is_some_and(|n| *n >= each) {
            self.drop_oldest_of(holder);
        } else if self.0.len() >= MOST
            && let Some((most, _)) = counts.into_iter().max_by_key(|(_, n)| *n)
        {
            self.drop_oldest_of(most);
        }
        self.0.insert(hash, (holder, held));
    }

    fn get(&self, hash: &Hash) -> Option<&T> {
        self.0.get(hash).map(|(_, held)| held)
    }

    fn remove(&mut self, hash: &Hash) -> Option<T> {
        self.0.remove(hash).map(|(_, held)| held)
    }
}

/// Tickets and sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    held: Mutex<Both>,
}

#[derive(Default)]
struct Both {
    tickets: Kept<Ticket>,
    sessions: Kept<Session>,
}

/// Why a ticket lets nobody in.
#[derive(Debug)]
enum Closed {
    /// There is no such ticket, or no longer.
    Unknown,
    /// It is of another user of this machine.
    Foreign,
    /// What its maker was known by opens nothing any more.
    Over(String),
    /// The system failed.
    Failed(String),
}

/// What is compared: a guess says nothing by how long that takes.
fn hash(secret: &str) -> Hash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn secret() -> Result<String, String> {
    let mut bytes = [0; CHANCE];
    let failed = |e| format!("the system gives no random bytes: {e}");
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
        filled +=
            rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    }
    Ok(hex(&bytes))
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, Both> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.tickets.prune(now);
        held.sessions.prune(now);
        held
    }

    /// A ticket for somebody who is known in that way; `maker` is the user whose process asks for it, if that is known.
    pub(crate) fn ticket(
        &self,
        who: String,
        role: Role,
        known_by: KnownBy,
        maker: Option<u32>,
    ) -> Result<String, String> {
        let secret = secret()?;
        let began = Instant::now();
        let ticket = Ticket {
            who,
            known_by,
            role,
            maker,
            began,
            until: began + TICKET,
        };
        let mut held = self.held();
        held.tickets.add(hash(&secret), ticket, TICKETS_EACH);
        Ok(secret)
    }

    /// Takes a ticket for somebody who comes from there: the cookie for it, and their session. `granted` says what the ticket's maker may
    /// do now, and until when.
    fn enter(
        &self,
        ticket: &str,
        bound: Bound,
        granted: impl Fn(&KnownBy) -> Result<(Role, Option<i64>), String>,
    ) -> Result<(String, Session), Closed> {
        let mut held = self.held();
        let hash_of_ticket = hash(ticket);
        let found = held.tickets.get(&hash_of_ticket);
        let found = found.cloned().ok_or(Closed::Unknown)?;
        // A link that another user of this machine has seen is not theirs.
        if let (Some(maker), Bound::User(user)) = (found.maker, bound)
            && maker != user
        {
            return Err(Closed::Foreign);
        }
        held.tickets.remove(&hash_of_ticket);
        let (role, end) = granted(&found.known_by).map_err(Closed::Over)?;
        let cookie = secret().map_err(Closed::Failed)?;
        let (began, now) = (Instant::now(), rights::now());
        let left = end.map(|end| u64::try_from(end.saturating_sub(now)).unwrap_or(0));
        let lasts = left.map_or(SESSION, |left| SESSION.min(Duration::from_secs(left)));
        let hash = hash(&cookie);
        let session = Session {
            id: format!("{PREFIX}{}", hex(hash.get(..6).unwrap_or_default())),
            who: found.who,
            known_by: found.known_by,
            // A role that has nothing in common with the ticket's opens nothing where the session is used.
            role: found.role.lesser(role).unwrap_or(found.role),
            bound,
            began,
            until: began + lasts,
            ends: now.saturating_add(i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX)),
        };
        held.sessions.add(hash, session.clone(), SESSIONS_EACH);
        Ok((cookie, session))
    }

    /// Whose cookie it is.
    pub(crate) fn of(&self, cookie: &str) -> Option<Session> {
        self.held().sessions.get(&hash(cookie)).cloned()
    }

    fn end(&self, cookie: &str) {
        self.held().sessions.remove(&hash(cookie));
    }

    /// Ends the session of that name: whose it was.
    pub(crate) fn end_named(&self, id: &str) -> Option<String> {
        let mut held = self.held();
        let found = held.sessions.0.iter().find(|(_, (_, s))| s.id == id);
        let found = found.map(|(hash, _)| *hash)?;
        held.sessions.remove(&found).map(|s| s.who)
    }

    /// All of them, for a list of who may do what; `role` says what one may do now, if anything.
    pub(crate) fn list(&self, allowed: impl Fn(&Session) -> Option<Allowed>) -> Vec<Listed> {
        let held = self.held();
        let mut all: Vec<Session> = held.sessions.0.values().map(|(_, s)| s.clone()).collect();
        drop(held);
        all.sort_by_key(|s| s.began);
        let listed = |s: Session| {
            let (role, user) = match allowed(&s) {
                Some(Allowed { role, user }) => (role.name().to_owned(), user),
                None => (String::new(), None),
            };
            Listed {
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

/// The cookie of a session, if a request over such a connection shows one.
pub(crate) fn cookie(headers: &HeaderMap, encrypted: bool) -> Option<&str> {
    let shown = headers.get_all(header::COOKIE).iter();
    let name = cookie_name(encrypted);
    shown
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// What makes a browser keep a cookie for so many seconds.
fn set_cookie(value: &str, seconds: u64, encrypted: bool) -> Option<HeaderValue> {
    let name = cookie_name(encrypted);
    let secure = if encrypted { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).ok()
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

/// `POST /api/v1/session/ticket`: for whoever may ask anything here, and is known by more than a session.
pub(in super::super) async fn ticket(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "it is not known who asks", None);
    };
    let (who, role, known_by) = match asking.identity(&service.access) {
        Ok(known) => known,
        Err(denied) => return denied.response(&request),
    };
    let maker = asking.caller.user();
    let sessions = service.access.sessions();
    match sessions.ticket(who, role, known_by, maker) {
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
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "it is not known who asks", None);
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
    let (access, caller) = (&service.access, &asking.caller);
    let granted = |known_by: &KnownBy| {
        let granted = access.role_of(known_by, caller.address());
        granted
            .map(|g| (g.role, g.until))
            .map_err(|refused| refused.told())
    };
    match access.sessions().enter(&ticket, caller.bound(), granted) {
        Err(Closed::Unknown) => failure(
            StatusCode::UNAUTHORIZED,
            "this link was used already, or is too old: links open once, within two minutes. Make another with `esker console`",
            None,
        ),
        Err(Closed::Foreign) => {
            tracing::warn!(by = %caller.bound(), "refused: a ticket of the console that another user made");
            let message = "this link is another user's: make your own with `esker console`";
            failure(StatusCode::FORBIDDEN, message, None)
        }
        Err(Closed::Over(why)) => {
            let message = format!("whoever made this link may not ask here any more: {why}");
            failure(StatusCode::FORBIDDEN, &message, None)
        }
        Err(Closed::Failed(why)) => failure(StatusCode::SERVICE_UNAVAILABLE, &why, None),
        Ok((cookie, session)) => {
            tracing::info!(who = %session.who, role = %session.role, bound = %session.bound, id = session.id, "a session of the console begins");
            let about = about(&service, &session.who, session.role, "session");
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

/// `DELETE /api/v1/session`.
pub(in super::super) async fn leave(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let asking = request.extensions().get::<Asking>();
    let encrypted = asking.is_some_and(|asking| asking.caller.encrypted());
    if let Some(cookie) = cookie(request.headers(), encrypted) {
        service.access.sessions().end(cookie);
    }
    let mut response = json_response(json!({"ended": true}).to_string());
    if let Some(value) = set_cookie("", 0, encrypted) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// `GET /api/v1/sessions`: those that there are.
pub(in super::super) async fn list(State(service): State<Arc<Service>>) -> Response<Body> {
    let one = |l: Listed| json!({"id": l.fingerprint, "who": l.comment, "role": l.role, "user": l.user, "until": l.expires, "bound": l.from});
    let all: Vec<Json> = service
        .access
        .list_sessions()
        .into_iter()
        .map(one)
        .collect();
    json_response(json!({ "sessions": all }).to_string())
}

/// `DELETE /api/v1/sessions/{id}`: ends one.
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
    use super::*;

    fn token(n: usize) -> KnownBy {
        let name = format!("token:{n}");
        KnownBy::Token {
            hash: name.clone(),
            name,
        }
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it stands for one that may refuse"
    )]
    fn read(_: &KnownBy) -> Result<(Role, Option<i64>), String> {
        Ok((Role::Read, None))
    }

    #[test]
    fn a_ticket_opens_once() {
        let sessions = Sessions::default();
        let made = sessions.ticket("ada".into(), Role::Write, token(1), None);
        let ticket = made.unwrap();
        assert_eq!(ticket.len(), 2 * CHANCE);
        let bound = Bound::User(7);
        let (cookie, session) = sessions.enter(&ticket, bound, read).unwrap();
        // What they may do now is less than it was.
        assert_eq!((session.who.as_str(), session.role), ("ada", Role::Read));
        for none in [ticket.as_str(), "x"] {
            let closed = sessions.enter(none, bound, read).unwrap_err();
            assert!(matches!(closed, Closed::Unknown));
        }
        assert_eq!(sessions.of(&cookie).unwrap().who, "ada");
        assert!(sessions.of(&ticket).is_none(), "a ticket is no cookie");
        sessions.end(&cookie);
        assert!(sessions.of(&cookie).is_none());
    }

    #[test]
    fn a_ticket_that_another_user_has_seen_is_not_theirs() {
        let sessions = Sessions::default();
        let made = sessions.ticket("ada".into(), Role::Admin, KnownBy::User(7), Some(7));
        let ticket = made.unwrap();
        let enter = |bound| sessions.enter(&ticket, bound, read);
        assert!(matches!(enter(Bound::User(8)), Err(Closed::Foreign)));
        // And stays its maker's.
        assert!(enter(Bound::User(7)).is_ok());
    }

    #[test]
    fn a_session_ends_with_what_it_was_known_by() {
        let sessions = Sessions::default();
        let enter = |end: Option<i64>| {
            let ticket = sessions.ticket("ada".into(), Role::Read, token(1), None);
            let granted = |_: &KnownBy| Ok((Role::Read, end));
            let entered = sessions.enter(&ticket.unwrap(), Bound::User(7), granted);
            entered.unwrap().1
        };
        let lasts = |session: &Session| session.until.duration_since(session.began);
        assert_eq!(lasts(&enter(None)), SESSION);
        let soon = lasts(&enter(Some(rights::now() + 60)));
        assert!(soon <= Duration::from_mins(1), "{soon:?}");
        assert_eq!(lasts(&enter(Some(rights::now() + 999_999))), SESSION);
        let ticket = sessions.ticket("ada".into(), Role::Read, token(1), None);
        let over = |_: &KnownBy| Err("it was revoked".to_owned());
        let closed = sessions.enter(&ticket.unwrap(), Bound::User(7), over);
        assert!(matches!(closed, Err(Closed::Over(why)) if why == "it was revoked"));
    }

    /// One reader takes tickets and begins sessions without end.
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
        for _ in 0..2 * MOST {
            ticket(1);
            enter(&ticket(1)).unwrap();
        }
        assert!(sessions.of(&own).is_some());
        assert!(enter(&waiting).is_ok());
        let held = sessions.held();
        let all = (
            held.sessions.0.values().map(|(of, _)| *of),
            held.tickets.0.values().map(|(of, _)| *of),
        );
        let of_one = |of: &Hash| *of == token(1).digest();
        assert_eq!(all.0.filter(of_one).count(), SESSIONS_EACH);
        assert!(all.1.filter(of_one).count() <= TICKETS_EACH);
        drop(held);
        // Many who are in league have the place that there is, and whoever has little keeps it.
        for n in 0..2 * MOST {
            enter(&ticket(2 + n % 100)).unwrap();
        }
        assert!(sessions.of(&own).is_some());
        assert_eq!(sessions.held().sessions.0.len(), MOST);
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
        // Over TLS only one counts that no page of another port could have set.
        assert_eq!(cookie(&headers, true), Some("9"));
        let set = set_cookie("9", 7, true).unwrap();
        let set = set.to_str().unwrap();
        assert!(set.starts_with("__Host-esker_session=9; Path=/; "), "{set}");
        assert!(set.ends_with("; Secure"), "{set}");
    }
}
