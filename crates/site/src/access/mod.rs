//! Access control of a tier. A tier queries origins with its owner's credentials: a request is answered if the kernel reports that its
//! sender is the tier's owner or root, or if its sender proved an SSH key that has rights, or presents a token.

mod origin_check;
mod prove;

pub(crate) use prove::{by_http, service};

use crate::config::Config;
use axum::body::Body;
use axum::response::Response;
use esker_access::peer::is_own_or_root;
use esker_access::proof::EXPORTER_BYTES;
use esker_access::slots::Slot;
use esker_access::token::hash_of;
use esker_access::{Folder, HostKey, KeyData, Rights, fingerprint, host_key, tls};
use http::{Request, StatusCode, header};
use serde_json::json;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::TlsAcceptor;

/// ALPN protocols over TLS.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Requests that need no rights: the health check, and those by which a key is proved.
const OPEN: [(&str, &str); 3] = [
    ("GET", "/health"),
    ("POST", "/api/v1/prove"),
    ("POST", "/esker.v1.Access/Prove"),
];

/// Rights to use a tier.
pub(crate) struct Access {
    /// Rights of keys and tokens with the host key, if the tier supports TLS.
    keys: Option<Keys>,
}

struct Keys {
    rights: Rights,
    host: HostKey,
}

/// Client of one connection.
pub(crate) struct Caller {
    /// Address of the client; `None` for a Unix socket.
    peer: Option<SocketAddr>,
    /// User of the client's process, if the kernel reports it.
    user: Option<u32>,
    encrypted: bool,
    /// Exported value of the TLS connection; `None` without TLS 1.3.
    exporter: Option<[u8; EXPORTER_BYTES]>,
    /// Key that the client proved.
    proven: Mutex<Option<KeyData>>,
    /// Slot that counts the connection.
    slot: Slot,
}

/// Sender of a request.
#[derive(Clone)]
pub(crate) struct RequestSender {
    caller: Arc<Caller>,
    token: Option<Arc<str>>,
    /// Whether a browser may have sent it for a page of another site, or a proxy forwarded it.
    foreign: bool,
}

/// Refusal of a request.
#[derive(Debug)]
pub(crate) struct Denied {
    code: StatusCode,
    words: String,
}

impl Caller {
    /// Creates the client of a connection to a Unix socket.
    pub(crate) fn local(user: Option<u32>, slot: Slot) -> Arc<Self> {
        Self::new(None, user, None, false, slot)
    }

    /// Creates the client of a TCP connection; `user` is reported by the kernel.
    pub(crate) fn remote(
        peer: SocketAddr,
        user: Option<u32>,
        encrypted: bool,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        slot: Slot,
    ) -> Arc<Self> {
        Self::new(Some(peer), user, exporter, encrypted, slot)
    }

    fn new(
        peer: Option<SocketAddr>,
        user: Option<u32>,
        exporter: Option<[u8; EXPORTER_BYTES]>,
        encrypted: bool,
        slot: Slot,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer,
            user,
            encrypted,
            exporter,
            proven: Mutex::new(None),
            slot,
        })
    }

    /// Returns the address to which rights may be restricted.
    pub(crate) fn ip(&self) -> IpAddr {
        let peer = self.peer.map(|peer| peer.ip().to_canonical());
        peer.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    /// Returns the slot of the connection.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    fn proven(&self) -> MutexGuard<'_, Option<KeyData>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestSender {
    fn of<B>(caller: &Arc<Caller>, request: &Request<B>) -> Self {
        let headers = request.headers();
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|v| v.to_str().ok());
        let token = shown.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            let bearer = scheme.eq_ignore_ascii_case("bearer");
            bearer.then(|| token.trim().into())
        });
        let foreign = caller.peer.is_some()
            && (origin_check::is_forwarded(headers)
                || origin_check::is_of_another_site(headers, request.uri()));
        Self {
            caller: caller.clone(),
            token,
            foreign,
        }
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Returns the identity by which connections are counted: the token, the key, or else the source.
    fn client(&self) -> Arc<str> {
        let client = match (&self.token, &*self.caller.proven()) {
            (Some(token), _) => format!("token {}", hash_of(token)),
            (None, Some(key)) => format!("key {}", fingerprint(key)),
            (None, None) => self.caller.slot.source().to_string(),
        };
        client.into()
    }
}

impl Denied {
    fn new(code: StatusCode, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { code, words }
    }

    /// The sender is not authenticated.
    fn unauthenticated(words: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, words)
    }

    /// The sender is authenticated and lacks the right.
    fn forbidden(words: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, words)
    }

    /// The limit of connections is reached.
    fn too_many_connections(words: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, words)
    }

    pub(crate) fn status(self) -> tonic::Status {
        match self.code {
            StatusCode::FORBIDDEN => tonic::Status::permission_denied(self.words),
            StatusCode::TOO_MANY_REQUESTS => tonic::Status::resource_exhausted(self.words),
            _ => tonic::Status::unauthenticated(self.words),
        }
    }

    /// Converts the refusal to a response: a status for gRPC, otherwise a JSON object.
    fn response<B>(self, request: &Request<B>) -> Response {
        let kind = request.headers().get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            return self.status().into_http();
        }
        let body = json!({ "error": self.words }).to_string();
        let mut built = Response::builder()
            .status(self.code)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CACHE_CONTROL, "no-store");
        if self.code == StatusCode::TOO_MANY_REQUESTS {
            built = built.header(header::RETRY_AFTER, 1);
        }
        built.body(Body::from(body)).unwrap_or_default()
    }
}

impl Access {
    /// Opens the access control of a tier. If the tier is reachable from other machines, or its file names an access folder, it uses
    /// TLS; its host key is created if missing.
    pub(crate) fn open(config: &Config, hears_others: bool) -> io::Result<Self> {
        let folder = match (&config.access_folder, hears_others) {
            (Some(folder), _) => folder.clone(),
            (None, true) => own_folder()?,
            (None, false) => return Ok(Self { keys: None }),
        };
        let failed = |e: esker_model::Error| io::Error::other(e.to_string());
        make_private(&folder)?;
        let host = HostKey::open_or_create(&folder.join(host_key::NAME)).map_err(failed)?;
        // Only this folder's files count: rights to databases do not include the use of the owner's credentials for origins.
        let opened = Folder::open(&folder).map(Arc::new).map_err(failed)?;
        let rights = Rights::load_folder_only(&opened);
        for mistake in rights.mistakes() {
            tracing::warn!("{mistake}");
        }
        tracing::info!(host_key = host.fingerprint(), "speaks TLS");
        Ok(Self {
            keys: Some(Keys { rights, host }),
        })
    }

    /// Returns the TLS acceptor; `None` without TLS. `names` are the tier's host names.
    pub(crate) fn acceptor(&self, names: &[String]) -> io::Result<Option<TlsAcceptor>> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let config = tls::server(&keys.host, names, None, &PROTOCOLS);
        let config = config.map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }

    /// Admits a request, or returns the response that refuses it.
    pub(crate) fn admit<B>(
        &self,
        caller: &Arc<Caller>,
        request: &Request<B>,
    ) -> Result<RequestSender, Box<Response>> {
        let sender = RequestSender::of(caller, request);
        if let Some(words) = caller.slot.refusal() {
            return Err(Box::new(
                Denied::too_many_connections(words).response(request),
            ));
        }
        if OPEN.contains(&(request.method().as_str(), request.uri().path())) {
            caller.slot.admit_public();
            return Ok(sender);
        }
        let known = || {
            let counted = caller.slot.admit_authenticated(|| sender.client());
            counted.map_err(Denied::too_many_connections)
        };
        match self.check_right(&sender).and_then(|()| known()) {
            Ok(()) => Ok(sender),
            Err(denied) => {
                tracing::warn!(
                    peer = caller.peer.map_or("unix".into(), |p| p.to_string()),
                    user = caller.user,
                    path = request.uri().path(),
                    reason = denied.words,
                    "refused"
                );
                Err(Box::new(denied.response(request)))
            }
        }
    }

    /// Whether the sender of a request currently has the right; rights change on open connections, too.
    pub(crate) fn check_right(&self, sender: &RequestSender) -> Result<(), Denied> {
        let caller = &sender.caller;
        let own = caller.user.is_some_and(is_own_or_root);
        if own && !sender.foreign {
            return Ok(());
        }
        if let Some(token) = &sender.token {
            return self.may_by_token(caller, token);
        }
        let key = caller.proven().clone();
        if let (Some(key), Some(keys)) = (key, &self.keys) {
            let Err(refused) = keys.rights.of_key(&key, caller.ip()) else {
                return Ok(());
            };
            let words = format!("key {}: {}", fingerprint(&key), refused.client_message());
            return Err(Denied::forbidden(words));
        }
        Err(self.no_right(sender, own))
    }

    fn may_by_token(&self, caller: &Caller, token: &str) -> Result<(), Denied> {
        if !caller.encrypted && !caller.ip().is_loopback() {
            return Err(Denied::unauthenticated(
                "a token was sent without encryption, so others may have seen it: revoke it, and use https",
            ));
        }
        let Some(keys) = &self.keys else {
            return Err(Denied::unauthenticated(
                "this tier has no tokens: its file names no `access.folder`",
            ));
        };
        let found = keys.rights.of_token(token);
        found.map(drop).map_err(|refused| {
            caller.slot.failed();
            Denied::unauthenticated(format!(
                "the token gives no access here: {}",
                refused.client_message()
            ))
        })
    }

    /// Returns the refusal of a sender without any right.
    fn no_right(&self, sender: &RequestSender, own: bool) -> Denied {
        let caller = &sender.caller;
        if own {
            return Denied::forbidden(
                "this came from a browser for a page of another site, under a name that is not this machine's, or through a \
                 proxy: ask at http://127.0.0.1 or http://localhost, without one",
            );
        }
        let how = if self.keys.is_some() {
            "prove an SSH key that its owner gave rights to (`esker://HOST:PORT` as the tier's address)"
        } else {
            "its owner can give rights to SSH keys (`[access] folder` in its file)"
        };
        match caller.user {
            Some(user) => Denied::unauthenticated(format!(
                "user {user} does not own this tier, which asks origins with its owner's credentials: run one of your own, or {how}"
            )),
            None if !caller.encrypted => Denied::unauthenticated(format!(
                "the caller is not known to this tier, and the connection is not encrypted: {how}"
            )),
            None => Denied::unauthenticated(format!(
                "this tier asks for a key, and none was proved: {how}"
            )),
        }
    }
}

/// Returns the default access folder, `~/.esker/site`.
fn own_folder() -> io::Result<PathBuf> {
    let home = esker_access::home().ok_or_else(|| {
        io::Error::other(
            "a tier that listens for other machines needs a host key, and there is no HOME to keep \
             it in: name a folder with `[access] folder` in its file",
        )
    })?;
    Ok(home.join("site"))
}

/// Creates a folder with mode 0700 unless it exists.
pub(crate) fn make_private(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|e| {
        io::Error::new(
            e.kind(),
            format!("making the folder `{}`: {e}", folder.display()),
        )
    })
}
