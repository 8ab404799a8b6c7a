//! Who may ask a tier. A tier asks origins with its owner's credentials: a request is answered if the kernel says that its
//! sender is the tier's owner or root, or if its sender proved a key of SSH that has rights, or shows a token.

mod page;
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

/// What is spoken over TLS.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Requests that are answered to everybody: whether the tier lives, and those by which a key is proved.
const OPEN: [(&str, &str); 3] = [
    ("GET", "/health"),
    ("POST", "/api/v1/prove"),
    ("POST", "/esker.v1.Access/Prove"),
];

/// What a tier knows of who may ask it.
pub(crate) struct Access {
    /// The rights of keys and tokens, and the key that proves the tier, if it speaks TLS.
    keys: Option<Keys>,
}

struct Keys {
    rights: Rights,
    host: HostKey,
}

/// The other end of one connection.
pub(crate) struct Caller {
    /// The address; none at a socket of this machine.
    peer: Option<SocketAddr>,
    /// The user, if the kernel says that.
    user: Option<u32>,
    encrypted: bool,
    /// What TLS gives to both ends only; none without TLS 1.3.
    exporter: Option<[u8; EXPORTER_BYTES]>,
    /// The key that was proved.
    proven: Mutex<Option<KeyData>>,
    /// What its connection is counted by.
    slot: Slot,
}

/// A request's sender.
#[derive(Clone)]
pub(crate) struct Asking {
    caller: Arc<Caller>,
    token: Option<Arc<str>>,
    /// A browser may have sent it for a page of another site, or somebody passes on what others ask.
    foreign: bool,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Denied {
    code: StatusCode,
    words: String,
}

impl Caller {
    /// A process at a socket of this machine.
    pub(crate) fn local(user: Option<u32>, slot: Slot) -> Arc<Self> {
        Self::new(None, user, None, false, slot)
    }

    /// A client at the port; `user` is what the kernel says of it.
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

    /// The address that rights may depend on.
    pub(crate) fn ip(&self) -> IpAddr {
        let peer = self.peer.map(|peer| peer.ip().to_canonical());
        peer.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    /// What its connection is counted by.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    fn proven(&self) -> MutexGuard<'_, Option<KeyData>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asking {
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
            && (page::is_forwarded(headers) || page::is_of_another_site(headers, request.uri()));
        Self {
            caller: caller.clone(),
            token,
            foreign,
        }
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// By what the connections of one client are counted: a token, a key, else where it is.
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

    /// It is not known who the sender is.
    fn unknown(words: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, words)
    }

    /// The sender is known, and may not.
    fn known(words: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, words)
    }

    /// There are as many connections as there may be.
    fn full(words: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, words)
    }

    pub(crate) fn status(self) -> tonic::Status {
        match self.code {
            StatusCode::FORBIDDEN => tonic::Status::permission_denied(self.words),
            StatusCode::TOO_MANY_REQUESTS => tonic::Status::resource_exhausted(self.words),
            _ => tonic::Status::unauthenticated(self.words),
        }
    }

    /// As the answer to a request: of gRPC a status, else an object of JSON.
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
    /// For a tier with that file. If it hears other machines, or its file names a folder of rights, it speaks TLS; its host
    /// key is made if there is none.
    pub(crate) fn open(config: &Config, hears_others: bool) -> io::Result<Self> {
        let folder = match (&config.access_folder, hears_others) {
            (Some(folder), _) => folder.clone(),
            (None, true) => own_folder()?,
            (None, false) => return Ok(Self { keys: None }),
        };
        let failed = |e: esker_model::Error| io::Error::other(e.to_string());
        make_private(&folder)?;
        let host = HostKey::at(&folder.join(host_key::NAME)).map_err(failed)?;
        // Whom the owner lets read databases may not use the owner's credentials for that: only this folder's files count.
        let opened = Folder::open(&folder).map(Arc::new).map_err(failed)?;
        let rights = Rights::of_folder_alone(&opened);
        for mistake in rights.mistakes() {
            tracing::warn!("{mistake}");
        }
        tracing::info!(host_key = host.fingerprint(), "speaks TLS");
        Ok(Self {
            keys: Some(Keys { rights, host }),
        })
    }

    /// How the tier proves itself; none if it does not speak TLS. `names` are those by which it may be called.
    pub(crate) fn acceptor(&self, names: &[String]) -> io::Result<Option<TlsAcceptor>> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let config = tls::server(&keys.host, names, None, &PROTOCOLS);
        let config = config.map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }

    /// Lets a request in, or answers it with why not.
    pub(crate) fn admit<B>(
        &self,
        caller: &Arc<Caller>,
        request: &Request<B>,
    ) -> Result<Asking, Box<Response>> {
        let asking = Asking::of(caller, request);
        if let Some(words) = caller.slot.refusal() {
            return Err(Box::new(Denied::full(words).response(request)));
        }
        if OPEN.contains(&(request.method().as_str(), request.uri().path())) {
            caller.slot.asked();
            return Ok(asking);
        }
        let known = || {
            let counted = caller.slot.known(|| asking.client());
            counted.map_err(Denied::full)
        };
        match self.may_ask(&asking).and_then(|()| known()) {
            Ok(()) => Ok(asking),
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

    /// Whether the sender of a request may ask now. Rights come and go, on connections that are open, too.
    pub(crate) fn may_ask(&self, asking: &Asking) -> Result<(), Denied> {
        let caller = &asking.caller;
        let own = caller.user.is_some_and(is_own_or_root);
        if own && !asking.foreign {
            return Ok(());
        }
        if let Some(token) = &asking.token {
            return self.may_by_token(caller, token);
        }
        let key = caller.proven().clone();
        if let (Some(key), Some(keys)) = (key, &self.keys) {
            let Err(refused) = keys.rights.of_key(&key, caller.ip()) else {
                return Ok(());
            };
            let words = format!("key {}: {}", fingerprint(&key), refused.told());
            return Err(Denied::known(words));
        }
        Err(self.nobody(asking, own))
    }

    fn may_by_token(&self, caller: &Caller, token: &str) -> Result<(), Denied> {
        if !caller.encrypted && !caller.ip().is_loopback() {
            return Err(Denied::unknown(
                "a token was sent without encryption, so that others may have seen it: revoke it, and use https",
            ));
        }
        let Some(keys) = &self.keys else {
            return Err(Denied::unknown(
                "this tier has no tokens: its file names no `access.folder`",
            ));
        };
        let found = keys.rights.of_token(token);
        found.map(drop).map_err(|refused| {
            caller.slot.failed();
            Denied::unknown(format!("the token opens nothing here: {}", refused.told()))
        })
    }

    /// The sender of a request is nobody who may ask.
    fn nobody(&self, asking: &Asking, own: bool) -> Denied {
        let caller = &asking.caller;
        if own {
            return Denied::known(
                "this came from a browser for a page of another site, under a name that is not this machine's, or through a \
                 proxy: ask at http://127.0.0.1 or http://localhost, without one",
            );
        }
        let how = if self.keys.is_some() {
            "prove a key of SSH that its owner gave rights to (`esker://HOST:PORT` as the tier's address)"
        } else {
            "its owner can give rights to keys of SSH (`[access] folder` in its file)"
        };
        match caller.user {
            Some(user) => Denied::unknown(format!(
                "user {user} does not own this tier, which asks origins with its owner's credentials: run one of your own, or {how}"
            )),
            None if !caller.encrypted => Denied::unknown(format!(
                "this tier does not know who asks, and the connection is not encrypted: {how}"
            )),
            None => Denied::unknown(format!(
                "this tier asks for a key, and none was proved: {how}"
            )),
        }
    }
}

/// `~/.esker/site`.
fn own_folder() -> io::Result<PathBuf> {
    let home = esker_access::home().ok_or_else(|| {
        io::Error::other(
            "a tier that hears other machines has a host key, and there is no HOME to keep it in: name a folder with \
             `[access] folder` in its file",
        )
    })?;
    Ok(home.join("site"))
}

/// Makes a folder that only its owner gets into, if there is none.
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
