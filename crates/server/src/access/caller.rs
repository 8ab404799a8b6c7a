//! Who is at the other end of a connection.

use super::{Access, Allowed, KnownBy};
use crate::http::{Bound, Session};
use crate::settings::Loopback;
use axum::body::Body;
use esker_access::page::{Foreign, Sender};
use esker_access::peer::is_mapped;
use esker_access::proof::EXPORTER_BYTES;
use esker_access::slots::Slot;
use esker_access::{PublicKey, Refused, Role, fingerprint, token};
use http::{Request, Response, StatusCode, header};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
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
    /// What its connection is counted by.
    slot: Slot,
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
    allowed: Result<Allowed, Refused>,
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
    /// A browser sent it for a page of another origin.
    crossed: bool,
    /// Why the user of the process that sent it says nothing of who asks, if so.
    foreign: Option<Foreign>,
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
    pub(crate) fn local(user: Option<u32>, slot: Slot) -> Arc<Self> {
        Self::new(From::Unix { user }, None, false, slot)
    }

    /// A client at the port.
    pub(crate) fn remote(
        peer: SocketAddr,
        user: Option<u32>,
        encrypted: bool,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        slot: Slot,
    ) -> Arc<Self> {
        Self::new(From::Tcp { peer, user }, exporter, encrypted, slot)
    }

    fn new(
        from: From,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        encrypted: bool,
        slot: Slot,
    ) -> Arc<Self> {
        Arc::new(Self {
            from,
            exporter,
            encrypted,
            proven: Mutex::new(None),
            refusals: AtomicU64::new(0),
            slot,
        })
    }

    /// What its connection is counted by.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    fn proven(&self) -> MutexGuard<'_, Option<Proven>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user's number, as the kernel shows it.
    fn shown_user(&self) -> Option<u32> {
        match self.from {
            From::Unix { user } | From::Tcp { user, .. } => user,
        }
    }

    /// The user whose process they are, if the number is one user's alone.
    pub(crate) fn user(&self) -> Option<u32> {
        self.shown_user().filter(|user| is_mapped(*user))
    }

    /// The user whose process they are, if that one may do everything here, and no more needs to be known.
    fn owner(&self, access: &Access) -> Option<u32> {
        let counts = match (access.loopback, self.from) {
            (Loopback::Uid, _) | (Loopback::Socket, From::Unix { .. }) => true,
            (Loopback::Socket, From::Tcp { .. }) | (Loopback::Off, _) => false,
        };
        self.user().filter(|u| counts && access.users.contains(u))
    }

    /// What a session that they begin is bound to.
    pub(crate) fn bound(&self) -> Bound {
        match self.user() {
            Some(user) => Bound::User(user),
            None => Bound::of_address(self.address()),
        }
    }

    /// Their address, where rights depend on it.
    pub(crate) fn address(&self) -> IpAddr {
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
    pub(crate) fn place(&self) -> String {
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
        let allowed = self.look(access, &key, is_host);
        let role = allowed.clone().map(|allowed| allowed.role);
        *self.proven() = Some(Proven {
            key,
            is_host,
            allowed,
            until: Instant::now() + FRESH,
            generation,
        });
        role
    }

    fn look(&self, access: &Access, key: &PublicKey, is_host: bool) -> Result<Allowed, Refused> {
        // Whoever can read the host key could serve the database.
        if is_host {
            return Ok(Allowed::ALL);
        }
        let granted = access.rights.of_key(key.key_data(), self.address())?;
        Ok(granted.into())
    }

    /// What the key that was proved may do now, if one was.
    fn allowed_by_key(&self, access: &Access) -> Option<Result<Allowed, (PublicKey, Refused)>> {
        let mut proven = self.proven();
        let found = proven.as_mut()?;
        let generation = access.rights.generation();
        // Rights come and go, and end by the clock.
        if found.generation != generation || Instant::now() >= found.until {
            found.allowed = self.look(access, &found.key, found.is_host);
            found.until = Instant::now() + FRESH;
            found.generation = generation;
        }
        Some(match &found.allowed {
            Ok(allowed) => Ok(allowed.clone()),
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

/// What a request says of the page that it is for.
fn sender<B>(request: &Request<B>) -> Sender<'_> {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let authority = request.uri().authority();
    Sender::of(header, authority.map(http::uri::Authority::as_str))
}

impl Asking {
    /// Who sends a request over a connection.
    pub(crate) fn of<B>(access: &Access, caller: &Arc<Caller>, request: &Request<B>) -> Self {
        let sender = sender(request);
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
            cookie: crate::http::cookie(request.headers(), caller.encrypted()).map(Into::into),
            crossed: sender.is_crossed(),
            foreign: access.foreign(&sender, request.uri().path()),
        }
    }

    /// By what all that one client has under way is counted: a user of this machine, a token, a session, a key, else an address.
    pub(crate) fn client(&self, access: &Access) -> Arc<str> {
        static RANDOM: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let owner = self.owner(access);
        let shown = |kind: &str, secret: &str| format!("{kind} {:016x}", RANDOM.hash_one(secret));
        let client = match (owner, &self.token, &self.cookie) {
            (Some(user), ..) => format!("user {user}"),
            (_, Some(token), _) => shown("token", token),
            (_, None, Some(cookie)) if access.sessions.of(cookie).is_some() => {
                shown("session", cookie)
            }
            _ => match &*self.caller.proven() {
                Some(proven) => format!("key {}", fingerprint(proven.key.key_data())),
                None => self.caller.slot.source().to_string(),
            },
        };
        client.into()
    }

    /// Who they are, for a log and for messages.
    pub(super) fn who(&self) -> String {
        if let Some(proven) = &*self.caller.proven() {
            return named(&proven.key);
        }
        match (self.caller.shown_user(), &self.token) {
            (_, Some(_)) => "whoever shows that token".to_owned(),
            (Some(user), None) => format!("user {user}"),
            (None, None) => "somebody unknown".to_owned(),
        }
    }

    /// Whether it is another server of the cluster.
    pub(super) fn is_server(&self, access: &Access) -> bool {
        let by_key = self.caller.proven().as_ref().is_some_and(|p| p.is_host);
        by_key || self.owner(access).is_some()
    }

    /// What they may do, now, and as whom.
    pub(super) fn allowed(&self, access: &Access) -> Result<Allowed, Denied> {
        if self.owner(access).is_some() {
            return Ok(Allowed::ALL);
        }
        if let Some(token) = &self.token {
            return self.allowed_by_token(access, token);
        }
        if let Some((_, allowed)) = self.session(access)? {
            return Ok(allowed);
        }
        match self.caller.allowed_by_key(access) {
            Some(Ok(allowed)) => Ok(allowed),
            Some(Err((key, refused))) => Err(Denied::of_key(&key, &refused)),
            None => Err(self.nobody(access)),
        }
    }

    /// The user whose process asks, if that is one who may do everything and the request is that process's own.
    fn owner(&self, access: &Access) -> Option<u32> {
        let own = match self.foreign {
            None => true,
            // No page is asked for at a socket in a folder; but a program may pass on what comes elsewhere.
            Some(foreign) => {
                foreign != Foreign::Forwarded && matches!(self.caller.from, From::Unix { .. })
            }
        };
        self.caller.owner(access).filter(|_| own)
    }

    /// The session whose cookie a request shows, if it is one, and what it may do now.
    fn session(&self, access: &Access) -> Result<Option<(Session, Allowed)>, Denied> {
        // A browser sends cookies for pages of other sites, too, if they are old enough.
        let Some(cookie) = self.cookie.as_ref().filter(|_| !self.crossed) else {
            return Ok(None);
        };
        let Some(session) = access.sessions.of(cookie) else {
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
        // Browsers send cookies to all ports of a host: what listens there may be another user's.
        if session.bound != self.caller.bound() {
            return Err(Denied::unknown(
                "session_elsewhere",
                "that session was begun by another user, or from another address: a session is for whoever began it".into(),
            )
            .logged(format!("session {} is of {}, not of {}", session.id, session.bound, self.caller.bound())));
        }
        match access.role_of(&session.known_by, self.caller.address()) {
            Ok(granted) => match session.role.lesser(granted.role) {
                Some(role) => {
                    let user = granted.user;
                    Ok(Some((session, Allowed { role, user })))
                }
                None => Err(Denied::known(
                    "role",
                    format!(
                        "the session was begun with role `{}`, and what it was known by has role `{}` now: begin a new one",
                        session.role, granted.role
                    ),
                )),
            },
            Err(refused) => Err(Denied::known(
                refused.word(),
                format!(
                    "the session is of {}, and what it was known by opens nothing here now: {}",
                    session.who,
                    refused.told()
                ),
            )
            .logged(format!(
                "session {} of {}: {refused}",
                session.id, session.who
            ))),
        }
    }

    /// Who they are, what they may do, and by what that is known.
    pub(crate) fn known(&self, access: &Access) -> Result<(String, Role, &'static str), Denied> {
        let role = self.allowed(access)?.role;
        if let Some(user) = self.owner(access) {
            return Ok((format!("user {user}"), role, "process"));
        }
        if self.token.is_some() {
            return Ok((self.who(), role, "token"));
        }
        if let Ok(Some((session, _))) = self.session(access) {
            return Ok((session.who, role, "session"));
        }
        Ok((self.who(), role, "key"))
    }

    /// Who they are, by something that is theirs: a user, a key, a token. A session is not: it would go on without end by tickets
    /// of its own.
    pub(crate) fn identity(&self, access: &Access) -> Result<(String, Role, KnownBy), Denied> {
        let (who, role, how) = self.known(access)?;
        let proven = || {
            self.caller
                .proven()
                .as_ref()
                .map(|p| p.key.key_data().clone())
        };
        let known_by = match (how, self.caller.user(), &self.token) {
            ("process", Some(user), _) => Some(KnownBy::User(user)),
            ("token", _, Some(shown)) => {
                let name = access.rights.of_token(shown).map(|(_, name)| name);
                let hash = token::hash_of(shown);
                name.ok().map(|name| KnownBy::Token { hash, name })
            }
            ("key", ..) => proven().map(KnownBy::Key),
            _ => None,
        };
        match known_by {
            Some(KnownBy::Token { hash, name }) => {
                Ok((name.clone(), role, KnownBy::Token { hash, name }))
            }
            Some(known_by) => Ok((who, role, known_by)),
            None => Err(Denied::known(
                "session",
                "a session gives no tickets: they are for who proves a key, shows a token, or owns the database (`esker console`)".into(),
            )),
        }
    }

    fn allowed_by_token(&self, access: &Access, token: &str) -> Result<Allowed, Denied> {
        if self.caller.is_in_the_open() {
            return Err(Denied::unknown(
                "token_in_the_open",
                "a token was sent without encryption, so that others may have seen it: revoke it, and use https".into(),
            ));
        }
        match access.rights.of_token(token) {
            Ok((granted, _)) => Ok(granted.into()),
            Err(refused) => Err({
                self.caller.slot.failed();
                Denied::unknown(
                    refused.word(),
                    format!("the token opens nothing here: {}", refused.told()),
                )
                .logged(format!("the token opens nothing here: {refused}"))
            }),
        }
    }

    /// Nobody has said who they are.
    fn nobody(&self, access: &Access) -> Denied {
        if let (Some(foreign), Some(_)) = (self.foreign, self.caller.user()) {
            let words =
                format!("{foreign}; other programs show a token (`esker grant DATABASE --token`)");
            return Denied::unknown(foreign.word(), words);
        }
        if self
            .caller
            .user()
            .is_some_and(|u| access.users.contains(&u))
            && self.caller.owner(access).is_none()
        {
            return Denied::unknown(
                "loopback",
                "this server lets nobody in because of the user whose process asks here (`access.loopback` in its settings): prove a key of \
                 SSH (`esker` does, with ?ssh=on in the address), or show a token (`esker grant DATABASE --token`)"
                    .into(),
            );
        }
        let (why, words) = match self.caller.from {
            From::Unix { user } => (
                "user",
                format!(
                    "user {} does not own this database: its owner and root may ask here; ask at the server's port with a key \
                     of SSH",
                    user.map_or_else(|| "?".to_owned(), |u| u.to_string())
                ),
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
        if crate::http::is_grpc(request) {
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
