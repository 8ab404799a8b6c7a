//! Who is at the other end of a connection.

use super::Access;
use crate::http::Somebody;
use axum::body::Body;
use esker_access::peer::{is_this_machine, name_of};
use esker_access::proof::EXPORTER_BYTES;
use esker_access::{PublicKey, Refused, Role, fingerprint};
use http::{Request, Response, StatusCode, header};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tonic::metadata::MetadataValue;

/// How long what a key may do is remembered.
const FRESH: Duration = Duration::from_millis(500);
/// Refusals of one connection that are logged; others are counted.
const LOGGED: u64 = 100;
/// Characters of a key's comment that are shown.
const COMMENT_MAX: usize = 80;
/// What a refusal for want of a key says so by, for clients that can show one.
pub(crate) const HINT: &str = "esker-access";

/// One connection's other end.
#[derive(Debug)]
pub(crate) struct Caller {
    from: From,
    /// What TLS gives to both ends only; none without TLS 1.3.
    exporter: Option<[u8; EXPORTER_BYTES]>,
    encrypted: bool,
    proven: Mutex<Option<Proven>>,
    refusals: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum From {
    /// A process of this machine, at the socket in the database's folder.
    Unix { user: Option<u32> },
    /// At the port; with its user if the kernel knows.
    Tcp { peer: SocketAddr, user: Option<u32> },
}

/// A key that was proved on a connection.
#[derive(Debug, Clone)]
struct Proven {
    key: PublicKey,
    /// The server's own key: another server of the cluster has it.
    is_host: bool,
    role: Result<Role, Refused>,
    until: Instant,
    generation: u64,
}

/// A request's sender: its connection, and the token that it shows.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) caller: Arc<Caller>,
    token: Option<Arc<str>>,
    /// The cookie of a session that it shows.
    cookie: Option<Arc<str>>,
    /// It names the page that it is for, and that is another site's than it was sent to.
    crossed: bool,
    /// A browser may have sent it for a page of another site: that its process is the owner's says nothing then.
    foreign: bool,
}

/// Why somebody is refused.
#[derive(Debug)]
pub(crate) struct Denied {
    /// One word, to count by.
    pub(super) why: &'static str,
    pub(crate) words: String,
    /// What the log says, if more.
    pub(super) log: Option<String>,
    /// Whether it is known who asks: they may not. Else they could say who they are.
    known: bool,
}

impl Caller {
    /// A process at the socket in the folder.
    pub(crate) fn local(user: Option<u32>) -> Arc<Self> {
        Self::new(From::Unix { user }, None, false)
    }

    /// A client at the port.
    pub(crate) fn remote(
        peer: SocketAddr,
        user: Option<u32>,
        encrypted: bool,
        exporter: Option<[u8; EXPORTER_BYTES]>,
    ) -> Arc<Self> {
        Self::new(From::Tcp { peer, user }, exporter, encrypted)
    }

    fn new(from: From, exporter: Option<[u8; EXPORTER_BYTES]>, encrypted: bool) -> Arc<Self> {
        Arc::new(Self {
            from,
            exporter,
            encrypted,
            proven: Mutex::new(None),
            refusals: AtomicU64::new(0),
        })
    }

    fn proven(&self) -> MutexGuard<'_, Option<Proven>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user(&self) -> Option<u32> {
        match self.from {
            From::Unix { user } | From::Tcp { user, .. } => user,
        }
    }

    /// Their address, where rights depend on it.
    pub(super) fn address(&self) -> IpAddr {
        match self.from {
            From::Unix { .. } => Ipv4Addr::LOCALHOST.into(),
            From::Tcp { peer, .. } => peer.ip(),
        }
    }

    /// Whether what they send is encrypted.
    pub(crate) fn encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether others may see what they send.
    fn is_in_the_open(&self) -> bool {
        !self.encrypted && !self.address().to_canonical().is_loopback()
    }

    /// Where they are, for a log.
    pub(super) fn place(&self) -> String {
        match self.from {
            From::Unix { .. } => "unix".to_owned(),
            From::Tcp { peer, .. } => peer.to_string(),
        }
    }

    /// Whether one more refusal is to be logged.
    pub(super) fn may_log(&self) -> bool {
        self.refusals.fetch_add(1, Ordering::Relaxed) < LOGGED
    }

    /// What a proof must be over.
    pub(super) fn exporter(&self) -> Option<&[u8; EXPORTER_BYTES]> {
        self.exporter.as_ref()
    }

    /// That key was proved to be the client's.
    pub(super) fn prove(&self, access: &Access, key: PublicKey) -> Result<Role, Refused> {
        let generation = access.rights.generation();
        let is_host = key.key_data() == access.host.public().key_data();
        let role = self.look(access, &key, is_host);
        *self.proven() = Some(Proven {
            key,
            is_host,
            role: role.clone(),
            until: Instant::now() + FRESH,
            generation,
        });
        role
    }

    fn look(&self, access: &Access, key: &PublicKey, is_host: bool) -> Result<Role, Refused> {
        // Whoever can read the host key could serve the database.
        if is_host {
            return Ok(Role::Admin);
        }
        let granted = access.rights.of_key(key.key_data(), self.address())?;
        Ok(granted.role)
    }

    /// What the key that was proved may do now, if one was.
    fn role_of_key(&self, access: &Access) -> Option<Result<Role, (PublicKey, Refused)>> {
        let mut proven = self.proven();
        let found = proven.as_mut()?;
        let generation = access.rights.generation();
        // Rights come and go, and end by the clock.
        if found.generation != generation || Instant::now() >= found.until {
            found.role = self.look(access, &found.key, found.is_host);
            found.until = Instant::now() + FRESH;
            found.generation = generation;
        }
        Some(match &found.role {
            Ok(role) => Ok(*role),
            Err(refused) => Err((found.key.clone(), refused.clone())),
        })
    }
}

/// A key in words.
pub(super) fn named(key: &PublicKey) -> String {
    let print = fingerprint(key.key_data());
    // Whoever shows a key says how it is called: that is not to end a line of the log.
    let comment = key.comment().chars().filter(|c| !c.is_control());
    let comment: String = comment.take(COMMENT_MAX).collect();
    if comment.is_empty() {
        format!("key {print}")
    } else {
        format!("key {print} ({comment})")
    }
}

/// Whether a request may come from a page of another site: one that names its site, and that is not this machine's; or one that was
/// sent to a name with a dot which is not this machine's, as after an attacker's name was made to lead here (names without one are
/// nobody's to give away). A page cannot send what
/// gRPC sends without asking first; which pages SPARQL is for is configured there (`sparql.origins`).
fn is_foreign<B>(request: &Request<B>) -> bool {
    let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    if header(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/grpc")) {
        return false;
    }
    let host = header(header::HOST)
        .or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    let Some(host) = host else {
        return header(header::ORIGIN).is_some();
    };
    let site = header(header::ORIGIN).map(|o| o.split_once("://").map_or(o, |(_, site)| site));
    let path = request.uri().path();
    let own_rules = ["/sparql", "/rdf-graphs"].contains(&path) || path.starts_with("/api/v1/rdf/");
    let elsewhere = !is_this_machine(host) && name_of(host).contains(['.', ':']);
    elsewhere || !own_rules && site.is_some_and(|site| !is_this_machine(site))
}

/// Whether a request names the page that it is for, and that page's host is another than the request was sent to.
fn is_crossed<B>(request: &Request<B>) -> bool {
    let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    let host = header(header::HOST)
        .or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    header(header::ORIGIN).is_some_and(|origin| {
        let site = origin.split_once("://").map_or(origin, |(_, site)| site);
        host != Some(site)
    })
}

impl Asking {
    /// Who sends a request over a connection.
    pub(crate) fn of<B>(caller: &Arc<Caller>, request: &Request<B>) -> Self {
        let shown = request.headers().get(header::AUTHORIZATION);
        let shown = shown.and_then(|v| v.to_str().ok());
        let token = shown.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then(|| token.trim().into())
        });
        Self {
            caller: Arc::clone(caller),
            token,
            cookie: crate::http::cookie(request.headers()).map(Into::into),
            crossed: is_crossed(request),
            foreign: is_foreign(request),
        }
    }

    /// Who they are, for a log and for messages.
    pub(super) fn who(&self) -> String {
        if let Some(proven) = &*self.caller.proven() {
            return named(&proven.key);
        }
        match (self.caller.user(), &self.token) {
            (_, Some(_)) => "whoever shows that token".to_owned(),
            (Some(user), None) => format!("user {user}"),
            (None, None) => "somebody unknown".to_owned(),
        }
    }

    /// Whether it is another server of the cluster.
    pub(super) fn is_server(&self, access: &Access) -> bool {
        let by_key = self.caller.proven().as_ref().is_some_and(|p| p.is_host);
        by_key || self.caller.user().is_some_and(|u| access.is_owner(u))
    }

    /// What they may do, now.
    pub(super) fn role(&self, access: &Access) -> Result<Role, Denied> {
        if self.caller.user().is_some_and(|u| access.is_owner(u)) && !self.is_of_a_page() {
            return Ok(Role::Admin);
        }
        if let Some(token) = &self.token {
            return self.role_of_token(access, token);
        }
        if let Some(somebody) = self.somebody(access)? {
            return Ok(somebody.role);
        }
        match self.caller.role_of_key(access) {
            Some(Ok(role)) => Ok(role),
            Some(Err((key, refused))) => Err(Denied::of_key(&key, &refused)),
            None => Err(self.nobody()),
        }
    }

    /// Whether it came to the port for a page of another site, as far as a request says that.
    fn is_of_a_page(&self) -> bool {
        self.foreign && matches!(self.caller.from, From::Tcp { .. })
    }

    /// Whose session it is, if it shows a cookie of one that holds.
    fn somebody(&self, access: &Access) -> Result<Option<Somebody>, Denied> {
        // A browser sends cookies for pages of other sites, too, if they are old enough.
        let Some(cookie) = self.cookie.as_ref().filter(|_| !self.crossed) else {
            return Ok(None);
        };
        let Some(somebody) = access.sessions.of(cookie) else {
            return Ok(None);
        };
        if self.caller.is_in_the_open() {
            return Err(Denied::unknown(
                "session_in_the_open",
                "a session's cookie was sent without encryption, so that others may have seen it: use https, or `esker console`, which \
                 needs none"
                    .into(),
            ));
        }
        Ok(Some(somebody))
    }

    /// Who they are, what they may do, and by what that is known.
    pub(crate) fn known(&self, access: &Access) -> Result<(String, Role, &'static str), Denied> {
        let role = self.role(access)?;
        let owner = self.caller.user().filter(|u| access.is_owner(*u));
        if let Some(user) = owner.filter(|_| !self.is_of_a_page()) {
            return Ok((format!("user {user}"), role, "process"));
        }
        if self.token.is_some() {
            return Ok((self.who(), role, "token"));
        }
        if let Ok(Some(somebody)) = self.somebody(access) {
            return Ok((somebody.who, role, "session"));
        }
        Ok((self.who(), role, "key"))
    }

    fn role_of_token(&self, access: &Access, token: &str) -> Result<Role, Denied> {
        if self.caller.is_in_the_open() {
            return Err(Denied::unknown(
                "token_in_the_open",
                "a token was sent without encryption, so that others may have seen it: revoke it, and use https".into(),
            ));
        }
        match access.rights.of_token(token) {
            Ok((granted, _)) => Ok(granted.role),
            Err(refused) => Err(Denied::unknown(
                refused.word(),
                format!("the token opens nothing here: {}", refused.told()),
            )
            .logged(format!("the token opens nothing here: {refused}"))),
        }
    }

    /// Nobody has said who they are.
    fn nobody(&self) -> Denied {
        let (why, words) = match self.caller.from {
            From::Unix { user } => (
                "user",
                format!(
                    "user {} does not own this database: its owner and root may ask here; ask at the server's port with a key \
                     of SSH",
                    user.map_or_else(|| "?".to_owned(), |u| u.to_string())
                ),
            ),
            From::Tcp { user: Some(_), .. } if self.foreign => (
                "page",
                "this came from a browser for a page that is not this server's, or under a name that is not this machine's: use \
                 http://127.0.0.1 or localhost, or show a token (`esker grant DATABASE --token`)"
                    .to_owned(),
            ),
            From::Tcp { user: Some(user), .. } if !self.caller.encrypted => (
                "user",
                format!(
                    "user {user} does not own this database, and this server asks for a key: prove one of SSH (`esker` does, with \
                     ?ssh=on in the address), or show a token (`esker grant DATABASE --token`)"
                ),
            ),
            From::Tcp { .. } if !self.caller.encrypted => (
                "plain",
                "this server asks for a key, and the connection is not encrypted: use an `esker` that proves keys of SSH, without \
                 ?plain=on in the address; for other programs there are tokens over https (`esker grant DATABASE --token`)"
                    .to_owned(),
            ),
            From::Tcp { .. } => (
                "no_key",
                "this server asks for a key, and none was proved on this connection: use an `esker` of the server's release; \
                 for other programs there are tokens (`esker grant DATABASE --token`)"
                    .to_owned(),
            ),
        };
        Denied::unknown(why, words)
    }
}

impl Denied {
    /// They are known, and may not.
    pub(super) fn known(why: &'static str, words: String) -> Self {
        Self {
            why,
            words,
            log: None,
            known: true,
        }
    }

    /// It is not known who they are.
    pub(super) fn unknown(why: &'static str, words: String) -> Self {
        Self {
            why,
            words,
            log: None,
            known: false,
        }
    }

    /// A key that opens nothing.
    pub(super) fn of_key(key: &PublicKey, refused: &Refused) -> Self {
        let name = named(key);
        let words = format!("{name} is refused: {}", refused.told());
        Self::known(refused.word(), words).logged(format!("{name} is refused: {refused}"))
    }

    /// With other words for the log.
    pub(super) fn logged(mut self, log: String) -> Self {
        self.log = Some(log);
        self
    }

    /// As a status of gRPC.
    pub(crate) fn status(&self) -> tonic::Status {
        let mut status = if self.known {
            tonic::Status::permission_denied(&self.words)
        } else {
            tonic::Status::unauthenticated(&self.words)
        };
        let hint = MetadataValue::from_static(if self.known { "denied" } else { "key" });
        status.metadata_mut().insert(HINT, hint);
        status
    }

    /// As the answer to a request.
    pub(crate) fn response<B>(&self, request: &Request<B>) -> Response<Body> {
        let grpc = request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
        if grpc {
            let status = self.status();
            // Clients that know nothing of keys show the words of this one as they are.
            let status = if request.uri().path().ends_with("/Exchange") {
                let mut said = tonic::Status::failed_precondition(status.message());
                *said.metadata_mut() = status.metadata().clone();
                said
            } else {
                status
            };
            return status.into_http();
        }
        let status = if self.known {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::UNAUTHORIZED
        };
        let mut response = crate::http::failure(status, &self.words, None);
        if !self.known {
            let how = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of another site has the owner's browser ask.
    #[test]
    fn pages_of_other_sites_are_told_from_programs() {
        let asked = |headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri("/api/v1/apply");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            is_foreign(&request.body(()).unwrap())
        };
        for own in [
            &[("host", "127.0.0.1:7400")][..],
            &[("host", "localhost:7400")],
            &[("host", "[::1]:7400"), ("origin", "http://[::1]:7400")],
            &[
                ("host", "127.0.0.2:7400"),
                ("origin", "http://localhost:8000"),
            ],
            &[("host", "lab"), ("content-type", "application/grpc")],
            &[("host", "esker")],
            &[],
        ] {
            assert!(!asked(own), "{own:?}");
        }
        for foreign in [
            &[
                ("host", "127.0.0.1:7400"),
                ("origin", "https://evil.example"),
            ][..],
            &[("host", "127.0.0.1:7400"), ("origin", "null")],
            // The attacker's name leads here now.
            &[
                ("host", "evil.example:7400"),
                ("origin", "http://evil.example:7400"),
            ],
            &[("host", "evil.example")],
            &[("host", "127.0.0.1.evil.example")],
            &[("origin", "http://127.0.0.1:7400")],
        ] {
            assert!(asked(foreign), "{foreign:?}");
        }
    }
}
