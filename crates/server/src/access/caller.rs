//! The client at the other end of a connection.

use super::{Access, Admitted, ClientIdentity, ClientRights, Proof};
use crate::audit::RequestNote;
use crate::http::{Bound, Session};
use crate::oidc::{OidcLogin, is_jwt};
use crate::settings::Loopback;
use axum::body::Body;
use esker_access::jwt::CLOCK_SKEW;
use esker_access::origin_check::{ForeignRequest, OriginHeaders};
use esker_access::peer::is_mapped;
use esker_access::proof::EXPORTER_BYTES;
use esker_access::slots::Slot;
use esker_access::{PublicKey, Refused, Role, fingerprint, rights, token};
use esker_audit::Subject;
use http::{Request, Response, StatusCode, header};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tonic::metadata::MetadataValue;

/// Time for which the rights of a key are cached.
const RIGHTS_CACHED: Duration = Duration::from_millis(500);
/// Time before the end of a provider's token at which clients are told to open another connection, in seconds. Clients renew a token
/// earlier than that.
const RECONNECT_BEFORE: i64 = 15;
/// Refusals of one connection that are logged; later ones are only counted.
const LOGGED_REFUSALS_MAX: u64 = 100;
/// Characters of a key's comment that are shown.
const COMMENT_MAX: usize = 80;
/// Metadata key of a refusal that tells clients whether a key would help.
pub(crate) const HINT: &str = "esker-access";

/// The client of one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    from: ClientAddress,
    /// Exported keying material of the TLS connection; `None` without TLS 1.3.
    exporter: Option<[u8; EXPORTER_BYTES]>,
    encrypted: bool,
    proven: Mutex<Option<ProvenIdentity>>,
    refusals: AtomicU64,
    /// Number of keys that were proved.
    proofs: AtomicU64,
    /// Connection slot by which the connection is counted.
    slot: Slot,
}

#[derive(Debug, Clone, Copy)]
enum ClientAddress {
    /// A process of this machine, at the socket in the database's folder.
    Unix { user: Option<u32> },
    /// A client at the port; with its user if the kernel knows it.
    Tcp { peer: SocketAddr, user: Option<u32> },
}

/// An identity that was proved on a connection.
#[derive(Debug, Clone)]
struct ProvenIdentity {
    identity: ClientIdentity,
    /// Description for messages.
    who: String,
    /// Whether it is the server's own key, which other servers of the cluster have.
    is_host: bool,
    allowed: Result<ClientRights, Refused>,
    until: Instant,
    generation: u64,
}

/// The sender of a request: its connection, token and session.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(crate) caller: Arc<Caller>,
    token: Option<Arc<str>>,
    /// User whom a provider of OpenID Connect names in the token, or why the token is refused; `None` for other tokens.
    login: Option<Result<Arc<OidcLogin>, Arc<str>>>,
    /// Cookie of a session, from the request.
    cookie: Option<Arc<str>>,
    /// Whether a browser sent the request for a page of another origin.
    is_cross_site: bool,
    /// Reason why the user of the sending process does not authenticate the request, if there is one.
    foreign: Option<ForeignRequest>,
    /// Number of the request in the life of the server.
    pub(crate) request: u64,
    /// HTTP method of the request.
    pub(super) method: http::Method,
    /// Facts of the request for its record.
    pub(crate) note: Arc<RequestNote>,
    /// Its last description, with the number of proofs and the rights from which it was made.
    pub(super) subjects: Arc<Mutex<Option<(u64, Admitted, Arc<Subject>)>>>,
}

/// A refusal and its reason.
#[derive(Debug)]
pub(crate) struct Denied {
    /// One word, the label of the counter.
    pub(super) why: &'static str,
    pub(crate) message: String,
    /// Message for the log, if it says more than the client is told.
    pub(super) log: Option<String>,
    /// Whether the client is authenticated but lacks the right; else it could still authenticate.
    authenticated: bool,
}

impl Caller {
    /// Creates the caller for a process at the socket in the folder.
    pub(crate) fn local(user: Option<u32>, slot: Slot) -> Arc<Self> {
        Self::new(ClientAddress::Unix { user }, None, false, slot)
    }

    /// Creates the caller for a client at the port.
    pub(crate) fn remote(
        peer: SocketAddr,
        user: Option<u32>,
        encrypted: bool,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        slot: Slot,
    ) -> Arc<Self> {
        Self::new(ClientAddress::Tcp { peer, user }, exporter, encrypted, slot)
    }

    fn new(
        from: ClientAddress,
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
            proofs: AtomicU64::new(0),
            slot,
        })
    }

    /// Connection slot by which the connection is counted.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    fn proven(&self) -> MutexGuard<'_, Option<ProvenIdentity>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// User id as the kernel shows it.
    fn kernel_user(&self) -> Option<u32> {
        match self.from {
            ClientAddress::Unix { user } | ClientAddress::Tcp { user, .. } => user,
        }
    }

    /// User of the client's process, if the id belongs to one user alone.
    pub(crate) fn user(&self) -> Option<u32> {
        self.kernel_user().filter(|user| is_mapped(*user))
    }

    /// User of the client's process, if that user counts on this connection without further proof.
    fn counted_user(&self, access: &Access) -> Option<u32> {
        let counts = match (access.loopback, self.from) {
            (Loopback::Uid, _) | (Loopback::Socket, ClientAddress::Unix { .. }) => true,
            (Loopback::Socket, ClientAddress::Tcp { .. }) | (Loopback::Off, _) => false,
        };
        self.user().filter(|_| counts)
    }

    /// User of the client's process, if that user has the admin role here without further proof.
    fn owner(&self, access: &Access) -> Option<u32> {
        let user = self.counted_user(access);
        user.filter(|u| access.users.contains(u))
    }

    /// The user or address to which a session of this client is bound.
    pub(crate) fn bound(&self) -> Bound {
        match self.user() {
            Some(user) => Bound::User(user),
            None => Bound::of_address(self.address()),
        }
    }

    /// Address of the client, where rights depend on it.
    pub(crate) fn address(&self) -> IpAddr {
        match self.from {
            ClientAddress::Unix { .. } => Ipv4Addr::LOCALHOST.into(),
            ClientAddress::Tcp { peer, .. } => peer.ip(),
        }
    }

    /// Whether the connection is encrypted.
    pub(crate) fn encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether others on the network may read what the client sends.
    pub(crate) fn is_unencrypted_remote(&self) -> bool {
        !self.encrypted && !self.address().to_canonical().is_loopback()
    }

    /// Description of the client's address for the log.
    pub(crate) fn address_text(&self) -> String {
        match self.from {
            ClientAddress::Unix { .. } => "unix".to_owned(),
            ClientAddress::Tcp { peer, .. } => peer.to_string(),
        }
    }

    /// Whether one more refusal of this connection is to be logged.
    pub(super) fn may_log(&self) -> bool {
        self.refusals.fetch_add(1, Ordering::Relaxed) < LOGGED_REFUSALS_MAX
    }

    /// Number of keys that were proved on the connection.
    pub(super) fn proofs(&self) -> u64 {
        self.proofs.load(Ordering::Acquire)
    }

    /// Keying material over which a proof must be made.
    pub(super) fn exporter(&self) -> Option<&[u8; EXPORTER_BYTES]> {
        self.exporter.as_ref()
    }

    /// Notes that the client proved an identity; returns its rights.
    pub(super) fn prove(
        &self,
        access: &Access,
        identity: ClientIdentity,
        who: String,
    ) -> Result<ClientRights, Refused> {
        let generation = access.rights.generation();
        let host = access.host.public().key_data();
        let is_host = matches!(&identity, ClientIdentity::Key(key) if key == host);
        let allowed = self.rights_of(access, &identity, is_host);
        self.proofs.fetch_add(1, Ordering::AcqRel);
        *self.proven() = Some(ProvenIdentity {
            identity,
            who,
            is_host,
            allowed: allowed.clone(),
            until: Instant::now() + RIGHTS_CACHED,
            generation,
        });
        allowed
    }

    fn rights_of(
        &self,
        access: &Access,
        identity: &ClientIdentity,
        is_host: bool,
    ) -> Result<ClientRights, Refused> {
        // A client that can read the host key could serve the database.
        if is_host {
            return Ok(ClientRights::all(Proof::Server));
        }
        let granted = access.role_of(identity, self.address())?;
        Ok(ClientRights {
            proof: identity.proof(),
            ..granted.into()
        })
    }

    /// Returns the present rights of the identity that was proved, if one was.
    fn allowed_by_proof(&self, access: &Access) -> Option<Result<ClientRights, (String, Refused)>> {
        let mut proven = self.proven();
        let found = proven.as_mut()?;
        let generation = access.rights.generation();
        // Rights change, and expire with time.
        if found.generation != generation || Instant::now() >= found.until {
            found.allowed = self.rights_of(access, &found.identity, found.is_host);
            found.until = Instant::now() + RIGHTS_CACHED;
            found.generation = generation;
        }
        Some(match &found.allowed {
            Ok(allowed) => Ok(allowed.clone()),
            Err(refused) => Err((found.who.clone(), refused.clone())),
        })
    }
}

/// Description of a key for messages.
pub(super) fn key_text(key: &PublicKey) -> String {
    let print = fingerprint(key.key_data());
    // The comment is the client's own text: it must not break a line of the log.
    let comment = key.comment().chars().filter(|c| !c.is_control());
    let comment: String = comment.take(COMMENT_MAX).collect();
    if comment.is_empty() {
        format!("key {print}")
    } else {
        format!("key {print} ({comment})")
    }
}

/// Origin headers of a request.
fn origin_headers<B>(request: &Request<B>) -> OriginHeaders<'_> {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    let authority = request.uri().authority();
    OriginHeaders::of(header, authority.map(http::uri::Authority::as_str))
}

impl Requester {
    /// Creates the sender of a request on a connection.
    pub(crate) fn of<B>(access: &Access, caller: &Arc<Caller>, request: &Request<B>) -> Self {
        let headers = origin_headers(request);
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
            login: None,
            cookie: crate::http::cookie(request.headers(), caller.encrypted()).map(Into::into),
            is_cross_site: headers.is_crossed(),
            foreign: access.foreign(&headers, request.uri().path()),
            request: access.audit().next_request(),
            method: request.method().clone(),
            note: Arc::default(),
            subjects: Arc::default(),
        }
    }

    /// Returns the check of a token that a provider of OpenID Connect has issued, if the request has one; it may wait for the provider.
    pub(crate) fn check_login(
        &self,
        access: &Access,
    ) -> Option<impl Future<Output = Result<Arc<OidcLogin>, Arc<str>>> + Send + use<>> {
        let oidc = Arc::clone(access.oidc()?);
        let token = self.token.clone().filter(|token| is_jwt(token))?;
        if self.caller.is_unencrypted_remote() {
            return None;
        }
        Some(async move {
            match tokio::task::spawn_blocking(move || oidc.bearer(&token)).await {
                Ok(checked) => checked.map_err(Into::into),
                Err(_) => Err("the server could not check the token".into()),
            }
        })
    }

    /// Notes the result of [`Self::check_login`].
    pub(crate) fn set_login(&mut self, login: Result<Arc<OidcLogin>, Arc<str>>) {
        self.login = Some(login);
    }

    /// Time after which a connection must not be used for further calls, because the token of its provider is about to expire; `None` without
    /// such a token.
    pub(crate) fn login_left(&self) -> Option<Duration> {
        let login = self.login.as_ref()?.as_ref().ok()?;
        let end = login.until - CLOCK_SKEW - RECONNECT_BEFORE;
        Some(Duration::from_secs(
            u64::try_from(end.saturating_sub(rights::now())).unwrap_or(0),
        ))
    }

    /// Identity by which requests in progress are counted per client: a user of this machine, a token, a session, a key, else an address.
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
                Some(proven) => proven.identity.text(),
                None => self.caller.slot.source().to_string(),
            },
        };
        client.into()
    }

    /// Description of the sender for the log and for messages.
    pub(super) fn description(&self) -> String {
        if let Some(proven) = &*self.caller.proven() {
            return proven.who.clone();
        }
        if let Some(Ok(login)) = &self.login {
            return login.to_string();
        }
        match (self.caller.kernel_user(), &self.token) {
            (_, Some(_)) => "anyone who has that token".to_owned(),
            (Some(user), None) => format!("user {user}"),
            (None, None) => "somebody unknown".to_owned(),
        }
    }

    /// Name of the request's token.
    pub(super) fn token_name(&self, access: &Access) -> Option<String> {
        let token = self.token.as_ref()?;
        access.rights.of_token(token).ok().map(|(_, name)| name)
    }

    /// Description of the holder of the request's session.
    pub(super) fn session_owner(&self, access: &Access) -> Option<String> {
        let session = self.session(access).ok().flatten()?.0;
        Some(format!("{} ({})", session.who, session.id))
    }

    /// Whether the sender is another server of the cluster.
    pub(super) fn is_server(&self, access: &Access) -> bool {
        let by_key = self.caller.proven().as_ref().is_some_and(|p| p.is_host);
        by_key || self.owner(access).is_some()
    }

    /// Returns the sender's present rights. A token that is sent decides, also for a process of the owner: a portal of that user limits
    /// its requests by the tokens of others.
    pub(super) fn allowed(&self, access: &Access) -> Result<ClientRights, Denied> {
        if let Some(token) = &self.token {
            return self.allowed_by_token(access, token);
        }
        if self.owner(access).is_some() {
            return Ok(ClientRights::all(Proof::Process));
        }
        if let Some((_, allowed)) = self.session(access)? {
            return Ok(allowed);
        }
        match (
            self.caller.allowed_by_proof(access),
            self.local_user(access),
        ) {
            (Some(Ok(allowed)), _) => Ok(allowed),
            // A key without rights takes nothing from its user.
            (_, Some(user)) => {
                let identity = ClientIdentity::Local(user);
                let rights = self.caller.rights_of(access, &identity, false);
                rights.map_err(|e| Denied::of_identity(&format!("user {user}"), &e))
            }
            (Some(Err((who, refused))), None) => Err(Denied::of_identity(&who, &refused)),
            (None, None) => {
                let mut denied = self.unauthenticated(access);
                if access.oidc().is_some() {
                    denied.message.push_str(
                        "; users of the OpenID provider log in by `esker login`, or by the button of the console",
                    );
                }
                Err(denied)
            }
        }
    }

    /// User of the sending process, if the server knows other users of this machine by their processes.
    pub(super) fn local_user(&self, access: &Access) -> Option<u32> {
        let knows = access.principals.knows_local_users();
        self.own_user(access).filter(|_| knows)
    }

    /// User of the sending process, if that user has the admin role and the request is the process's own.
    fn owner(&self, access: &Access) -> Option<u32> {
        let user = self.own_user(access);
        user.filter(|u| access.users.contains(u))
    }

    /// User of the sending process, if that user counts on the connection and the request is the process's own.
    fn own_user(&self, access: &Access) -> Option<u32> {
        let own = match self.foreign {
            None => true,
            // Browsers do not use sockets in a folder; but a proxy may forward requests to one.
            Some(foreign) => {
                foreign != ForeignRequest::Forwarded
                    && matches!(self.caller.from, ClientAddress::Unix { .. })
            }
        };
        self.caller.counted_user(access).filter(|_| own)
    }

    /// Returns the session of the request's cookie, if there is one, with its present rights.
    fn session(&self, access: &Access) -> Result<Option<(Session, ClientRights)>, Denied> {
        // Browsers that are old enough send cookies for pages of other sites, too.
        let Some(cookie) = self.cookie.as_ref().filter(|_| !self.is_cross_site) else {
            return Ok(None);
        };
        let Some(session) = access.sessions.of(cookie) else {
            return Ok(None);
        };
        if self.caller.is_unencrypted_remote() {
            return Err(Denied::unauthenticated(
                "session_in_the_open",
                "a session's cookie was sent without encryption, so others may have seen it: use \
                 https, or `esker console`, which needs none"
                    .into(),
            ));
        }
        // Browsers send cookies to all ports of a host, and another port may belong to another user.
        if session.bound != self.caller.bound() {
            return Err(Denied::unauthenticated(
                "session_elsewhere",
                "that session was begun by another user, or from another address: a session is valid only for the user and address that began it".into(),
            )
            .logged(format!("session {} is of {}, not of {}", session.id, session.bound, self.caller.bound())));
        }
        match access.role_of(&session.identity, self.caller.address()) {
            Ok(granted) => match session.role.lesser(granted.role) {
                Some(role) => {
                    let rights = session.identity.session_rights(granted, role);
                    Ok(Some((session, rights)))
                }
                None => Err(Denied::forbidden(
                    "role",
                    format!(
                        "the session was begun with role `{}`, and its credential now has role `{}`: begin a new one",
                        session.role, granted.role
                    ),
                )),
            },
            Err(refused) => Err(Denied::forbidden(
                refused.word(),
                format!(
                    "the session is of {}, whose credential no longer gives access here: {}",
                    session.who,
                    refused.client_message()
                ),
            )
            .logged(format!(
                "session {} of {}: {refused}",
                session.id, session.who
            ))),
        }
    }

    /// Returns a description of the sender and its rights.
    pub(crate) fn authentication(&self, access: &Access) -> Result<(String, ClientRights), Denied> {
        let rights = self.allowed(access)?;
        let who = match (rights.proof, self.own_user(access)) {
            (Proof::Process, Some(user)) => format!("user {user}"),
            (Proof::Local, Some(user)) => {
                format!("user {user} ({})", rights.name.as_deref().unwrap_or("?"))
            }
            (Proof::Session | Proof::Oidc, _) => match self.session(access)? {
                Some((session, _)) => session.who,
                None => self.description(),
            },
            _ => match &rights.name {
                Some(name) => format!("{} as {name}", self.description()),
                None => self.description(),
            },
        };
        Ok((who, rights))
    }

    /// Returns a description, role and identity of a sender that is authenticated by a user, a key or a token. A session does not
    /// qualify: it could renew itself endlessly with its own tickets.
    pub(crate) fn identity(
        &self,
        access: &Access,
    ) -> Result<(String, Role, ClientIdentity), Denied> {
        let (who, ClientRights { role, proof, .. }) = self.authentication(access)?;
        let proven = || self.caller.proven().as_ref().map(|p| p.identity.clone());
        let identity = match (proof, self.caller.user(), &self.token) {
            (Proof::Process, Some(user), _) => Some(ClientIdentity::User(user)),
            (Proof::Local, Some(user), _) => Some(ClientIdentity::Local(user)),
            (Proof::Token, _, Some(shown)) => {
                let name = access.rights.of_token(shown).map(|(_, name)| name);
                let hash = token::hash_of(shown);
                name.ok().map(|name| ClientIdentity::Token { hash, name })
            }
            (Proof::Oidc, ..) => {
                let login = self.login.as_ref().and_then(|login| login.as_ref().ok());
                login.map(|login| ClientIdentity::Oidc(Arc::clone(login)))
            }
            (Proof::Key | Proof::Server | Proof::Certificate | Proof::Munge, ..) => proven(),
            _ => None,
        };
        match identity {
            Some(ClientIdentity::Token { hash, name }) => {
                Ok((name.clone(), role, ClientIdentity::Token { hash, name }))
            }
            Some(identity) => Ok((who, role, identity)),
            None => Err(Denied::forbidden(
                "session",
                "a session cannot create tickets: prove a key, show a token, or be the owner of the database (`esker console`)".into(),
            )),
        }
    }

    fn allowed_by_token(&self, access: &Access, token: &str) -> Result<ClientRights, Denied> {
        if self.caller.is_unencrypted_remote() {
            return Err(Denied::unauthenticated(
                "token_in_the_open",
                "a token was sent without encryption, so others may have seen it: revoke it, and use https".into(),
            ));
        }
        match &self.login {
            Some(Ok(login)) => return Self::allowed_by_login(access, login, self.caller.address()),
            Some(Err(why)) => {
                self.caller.slot.failed();
                return Err(Denied::unauthenticated("oidc", why.to_string()));
            }
            None => {}
        }
        match access.rights.of_token(token) {
            Ok((granted, _)) => Ok(ClientRights {
                proof: Proof::Token,
                ..access.listed(granted).into()
            }),
            Err(refused) => Err({
                self.caller.slot.failed();
                Denied::unauthenticated(
                    refused.word(),
                    format!(
                        "the token gives no access here: {}",
                        refused.client_message()
                    ),
                )
                .logged(format!("the token gives no access here: {refused}"))
            }),
        }
    }

    /// Returns the rights of a user whom a provider's token names.
    fn allowed_by_login(
        access: &Access,
        login: &Arc<OidcLogin>,
        from: IpAddr,
    ) -> Result<ClientRights, Denied> {
        let identity = ClientIdentity::Oidc(Arc::clone(login));
        match access.role_of(&identity, from) {
            Ok(granted) => {
                let role = granted.role;
                Ok(identity.session_rights(granted, role))
            }
            Err(refused) => {
                let message = format!("the token of {login}: {}", refused.client_message());
                Err(Denied::unauthenticated(refused.word(), message))
            }
        }
    }

    /// Refusal of a sender that is not authenticated.
    fn unauthenticated(&self, access: &Access) -> Denied {
        if let (Some(foreign), Some(_)) = (self.foreign, self.caller.user()) {
            let words =
                format!("{foreign}; other programs show a token (`esker grant DATABASE --token`)");
            return Denied::unauthenticated(foreign.word(), words);
        }
        if self
            .caller
            .user()
            .is_some_and(|u| access.users.contains(&u))
            && self.caller.owner(access).is_none()
        {
            return Denied::unauthenticated(
                "loopback",
                "this server does not accept the user of the calling process as a credential \
                 (`access.loopback` in its settings): prove an SSH key (`esker` does, with ?ssh=on \
                 in the address), or show a token (`esker grant DATABASE --token`)"
                    .into(),
            );
        }
        let (why, words) = match self.caller.from {
            ClientAddress::Unix { user } => (
                "user",
                format!(
                    "user {} does not own this database: only its owner and root may connect here; \
                     use the server's port with an SSH key",
                    user.map_or_else(|| "?".to_owned(), |u| u.to_string())
                ),
            ),
            ClientAddress::Tcp { user: Some(user), .. } if !self.caller.encrypted => (
                "user",
                format!(
                    "user {user} does not own this database, and this server asks for a key: prove \
                     an SSH key (`esker` does, with ?ssh=on in the address), or show a token \
                     (`esker grant DATABASE --token`)"
                ),
            ),
            ClientAddress::Tcp { .. } if !self.caller.encrypted => (
                "plain",
                "this server asks for a key, and the connection is not encrypted: use an `esker` \
                 that proves SSH keys, without ?plain=on in the address; for other programs there \
                 are tokens over https (`esker grant DATABASE --token`)"
                    .to_owned(),
            ),
            ClientAddress::Tcp { .. } => (
                "no_key",
                "this server asks for a key, and none was proved on this connection: use an `esker` of the server's release; \
                 for other programs there are tokens (`esker grant DATABASE --token`)"
                    .to_owned(),
            ),
        };
        Denied::unauthenticated(why, words)
    }
}

impl Denied {
    /// Refusal of an authenticated client.
    pub(super) fn forbidden(why: &'static str, message: String) -> Self {
        Self {
            why,
            message,
            log: None,
            authenticated: true,
        }
    }

    /// Refusal of a client that is not authenticated.
    pub(super) fn unauthenticated(why: &'static str, message: String) -> Self {
        Self {
            why,
            message,
            log: None,
            authenticated: false,
        }
    }

    /// Refusal of a key, a certificate or a user without rights.
    pub(super) fn of_identity(name: &str, refused: &Refused) -> Self {
        let words = format!("{name} is refused: {}", refused.client_message());
        Self::forbidden(refused.word(), words).logged(format!("{name} is refused: {refused}"))
    }

    /// Sets another message for the log.
    pub(super) fn logged(mut self, log: String) -> Self {
        self.log = Some(log);
        self
    }

    /// Converts the refusal to a gRPC status.
    pub(crate) fn status(&self) -> tonic::Status {
        let mut status = if self.authenticated {
            tonic::Status::permission_denied(&self.message)
        } else {
            tonic::Status::unauthenticated(&self.message)
        };
        let hint = MetadataValue::from_static(if self.authenticated { "denied" } else { "key" });
        status.metadata_mut().insert(HINT, hint);
        status
    }

    /// Converts the refusal to the response to a request.
    pub(crate) fn response<B>(&self, request: &Request<B>) -> Response<Body> {
        if crate::http::is_grpc(request) {
            let status = self.status();
            // Clients that do not know keys show the message of this status unchanged.
            let status = if request.uri().path().ends_with("/Exchange") {
                let mut said = tonic::Status::failed_precondition(status.message());
                *said.metadata_mut() = status.metadata().clone();
                said
            } else {
                status
            };
            return status.into_http();
        }
        let status = if self.authenticated {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::UNAUTHORIZED
        };
        let mut response = crate::http::failure(status, &self.message, None);
        if !self.authenticated {
            let how = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
