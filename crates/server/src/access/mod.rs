//! Who may do what here. Each request comes by [`Access::admit`] before anything else looks at it; which role it needs is in
//! [`table`].
//!
//! A connection is somebody's because the kernel says so (processes of this machine whose user owns the database, or is
//! root), because its client proved a key of SSH on it ([`prove`]), or because a request shows a token.

mod bound;
mod caller;
mod prove;
pub(crate) mod table;

pub(crate) use bound::BoundUser;
pub(crate) use caller::{Asking, Caller};
pub(crate) use prove::{prove, routes};

use crate::http::{Bound, Sessions};
use crate::metrics::Metrics;
use crate::settings::{Loopback, Settings};
use axum::body::Body;
use caller::Denied;
use esker_access::grants::Listed;
use esker_access::host_key::NAME;
use esker_access::page::{Foreign, Sender};
use esker_access::{
    Folder, Granted, HostKey, KeyData, Refused, Rights, Role, fingerprint, peer, strict_modes, tls,
};
use esker_model::object::Asker;
use esker_model::{Error, Result};
use http::{Request, Response, StatusCode};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use table::{Found, Needs, READ};
use tokio_rustls::TlsAcceptor;

/// What is spoken over TLS.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What a server knows of who may do what.
pub(crate) struct Access {
    rights: Rights,
    host: HostKey,
    /// Where the files lie: the database's folder, or a cluster's storage, as it was when the server started.
    folder: Arc<Folder>,
    /// Users of this machine who may do everything: who owned the database then, who serves it, root.
    users: Vec<u32>,
    /// Where that is so.
    loopback: Loopback,
    metrics: Arc<Metrics>,
    /// Browsers that somebody has let in.
    sessions: Sessions,
    /// Pages of other origins that may ask SPARQL.
    origins: Vec<String>,
    /// Where it listens, as `HOST:PORT`, by the name that its settings have.
    authority: OnceLock<String>,
}

impl Access {
    /// For the database in a folder. Its host key is made if there is none.
    pub(crate) fn open(folder: &Path, settings: &Settings, metrics: Arc<Metrics>) -> Result<Self> {
        let path = folder;
        let folder = Arc::new(Folder::open(path)?);
        check_parents(path, settings.access.strict_modes)?;
        let mut users = vec![0, folder.owner(), peer::own_user()];
        users.retain(|user| peer::is_mapped(*user));
        users.sort_unstable();
        users.dedup();
        let access = Self {
            rights: Rights::of(&folder),
            host: host_key(path, settings)?,
            folder,
            users,
            loopback: settings.access.loopback,
            metrics,
            sessions: Sessions::default(),
            origins: settings.sparql.origins().map(str::to_owned).collect(),
            authority: OnceLock::new(),
        };
        for mistake in access.rights.mistakes() {
            tracing::warn!("{mistake}");
        }
        Ok(access)
    }

    /// Notes where it listens: at a host that settings name, and at a port that the system may have chosen.
    pub(crate) fn listens(&self, listen: &str, port: u16) {
        let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
        // The first of several is the process's own.
        let _ = self.authority.set(format!("{host}:{port}"));
    }

    /// Why the user of the process that sent a request says nothing of who asks, if so. Which pages SPARQL is for is configured
    /// (`sparql.read_origins`, `sparql.write_origins`); what those may do is seen where SPARQL is answered.
    fn foreign(&self, sender: &Sender<'_>, path: &str) -> Option<Foreign> {
        let is_own = |host: &str| {
            let own = self.authority.get();
            own.is_some_and(|own| own.eq_ignore_ascii_case(host))
        };
        let rdf = ["/sparql", "/rdf-graphs", "/api/v1/rdf"]
            .iter()
            .any(|root| {
                path.strip_prefix(root)
                    .is_some_and(|r| r.is_empty() || r.starts_with('/'))
            });
        let named = sender
            .origin()
            .is_some_and(|origin| self.origins.iter().any(|o| o == "*" || o == origin));
        let looked = if rdf && named {
            sender.is_direct(is_own)
        } else {
            sender.is_own(is_own)
        };
        looked.err()
    }

    /// Lets a request go on to what answers it, with as whom it is answered, or is the answer to one that may not: it is not listed, or its
    /// sender may not ask it. Its body is not read.
    #[expect(
        clippy::result_large_err,
        reason = "the refusal is the response that is sent"
    )]
    pub(crate) fn admit_request<B>(
        &self,
        asking: &Asking,
        request: &Request<B>,
    ) -> std::result::Result<BoundUser, Response<Body>> {
        if let Some(words) = asking.caller.slot().refusal() {
            return Err(full(request, words));
        }
        let path = request.uri().path();
        let found = table::find(request.method().as_str(), path);
        let needs = match &found {
            Found::Listed(entry) => entry.needs,
            // Whoever may read is told so.
            Found::OtherMethods(_) | Found::Nothing => READ,
        };
        Err(match (self.admit(asking, needs, path), found) {
            (Ok(BoundUser(Some(user))), Found::Listed(entry)) if !entry.per_user => {
                let denied = Denied::known("bound", BoundUser::refusal(&user, path));
                self.refused(asking, denied, path).response(request)
            }
            (Ok(bound), Found::Listed(_)) => return Ok(bound),
            (Ok(_), Found::OtherMethods(allow)) => crate::http::wrong_method(request, &allow),
            (Ok(_), Found::Nothing) => crate::http::nothing(request),
            (Err(denied), _) => denied.response(request),
        })
    }

    /// How this server proves itself.
    pub(crate) fn acceptor(&self, settings: &Settings) -> Result<TlsAcceptor> {
        let given = settings.tls.as_ref().map(crate::tls::given).transpose()?;
        let config = tls::server(&self.host, &tls::names(&settings.listen), given, &PROTOCOLS)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The server's key, as `ssh-keygen -l` prints it.
    pub(crate) fn fingerprint(&self) -> String {
        self.host.fingerprint()
    }

    /// Where the files lie.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Logs what has gone wrong with the files that say who may do what. It is to be called about once a second.
    pub(crate) fn report(&self) {
        for said in self.rights.news() {
            tracing::warn!("{said}");
        }
    }

    /// What somebody may do now who was known in that way, for requests from that address.
    pub(crate) fn role_of(
        &self,
        known: &KnownBy,
        from: IpAddr,
    ) -> std::result::Result<Granted, Refused> {
        let admin = Granted {
            role: Role::Admin,
            user: None,
            comment: String::new(),
            until: None,
        };
        match known {
            KnownBy::User(user) if self.users.contains(user) => Ok(admin),
            KnownBy::User(_) => Err(Refused::Revoked),
            // Whoever can read the host key could serve the database.
            KnownBy::Key(key) if key == self.host.public().key_data() => Ok(admin),
            KnownBy::Key(key) => self.rights.of_key(key, from),
            KnownBy::Token { hash, .. } => Ok(self.rights.of_token_hash(hash)?.0),
        }
    }

    /// Browsers that somebody has let in.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The sessions that there are, with what each may do now.
    pub(crate) fn list_sessions(&self) -> Vec<Listed> {
        self.sessions.list(|session| {
            let address = match session.bound {
                Bound::Address(address) => address,
                Bound::User(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            };
            let granted = self.role_of(&session.known_by, address).ok()?;
            let role = granted.role.lesser(session.role)?;
            Some(Allowed {
                role,
                user: granted.user,
            })
        })
    }

    /// Whether the kernel's word suffices to let the user who starts this server in, over loopback.
    pub(crate) fn knows_own_user(&self) -> bool {
        self.loopback == Loopback::Uid
            && self.users.contains(&peer::own_user())
            && peer::kernel_knows_users()
    }

    /// Whether a user of this machine may do everything.
    pub(crate) fn is_owner(&self, user: u32) -> bool {
        self.users.contains(&user) && peer::is_mapped(user)
    }

    /// A connection on which somebody was let in stays. One client has so many of them.
    fn let_in(&self, asking: &Asking, what: &str) -> std::result::Result<(), Denied> {
        let slot = asking.caller.slot();
        slot.known(|| asking.client(self)).map_err(|words| {
            let denied = Denied::known("connections", words);
            self.refused(asking, denied, what)
        })
    }

    /// Lets a request in, and says as whom it is to be answered, or says why not. What is refused is counted and logged.
    pub(crate) fn admit(
        &self,
        asking: &Asking,
        needs: Needs,
        what: &str,
    ) -> std::result::Result<BoundUser, Denied> {
        let free = BoundUser::default();
        let role = match needs {
            Needs::Nothing => {
                asking.caller.slot().asked();
                return Ok(free);
            }
            Needs::Role(role) => role,
            Needs::Server if asking.is_server(self) => {
                return self.let_in(asking, what).map(|()| free);
            }
            Needs::Server => {
                let denied = Denied::known(
                    "not_a_server",
                    "only servers of a cluster ask each other that".into(),
                );
                return Err(self.refused(asking, denied, what));
            }
        };
        match asking.allowed(self) {
            Ok(has) if has.role.may(role) => {
                self.let_in(asking, what).map(|()| BoundUser(has.user))
            }
            Ok(Allowed { role: has, .. }) => {
                let who = asking.who();
                let denied = Denied::known(
                    "role",
                    format!(
                        "{who} has role `{has}` here, and `{what}` needs `{role}`: the database's owner can give it \
                         (`esker grant DATABASE --key … --role {role}`)"
                    ),
                );
                Err(self.refused(asking, denied, what))
            }
            Err(denied) => Err(self.refused(asking, denied, what)),
        }
    }

    /// Counts somebody who was refused before they could be asked who they are.
    pub(crate) fn count_refused(&self, why: &'static str) {
        self.metrics.refused(why);
    }

    /// Counts and logs a refusal.
    fn refused(&self, asking: &Asking, denied: Denied, what: &str) -> Denied {
        self.metrics.refused(denied.why);
        if asking.caller.may_log() {
            tracing::warn!(
                peer = %asking.caller.place(),
                who = %asking.who(),
                call = what,
                why = denied.why,
                reason = %denied.log.as_ref().unwrap_or(&denied.words),
                "refused"
            );
        }
        denied
    }

    /// Lets a server that greets as one of the cluster be one.
    pub(crate) fn admit_server(&self, asking: &Asking) -> std::result::Result<(), String> {
        let admitted = self.admit(asking, Needs::Server, "greeting as a server");
        admitted.map(|_| ()).map_err(|denied| {
            format!(
                "{}: its servers have one host key, in their storage, and prove it to each other",
                denied.words
            )
        })
    }
}

/// The answer to any request on a connection for which there is no room.
fn full<B>(request: &Request<B>, words: &str) -> Response<Body> {
    if crate::http::is_grpc(request) {
        tonic::Status::resource_exhausted(words).into_http()
    } else {
        crate::http::failure(StatusCode::TOO_MANY_REQUESTS, words, Some(1_000))
    }
}

/// What somebody may do, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) role: Role,
    /// As whom their requests are answered; none if they may ask on anybody's behalf.
    pub(crate) user: Option<Asker>,
}

impl Allowed {
    /// Everything.
    const ALL: Self = Self {
        role: Role::Admin,
        user: None,
    };
}

impl From<Granted> for Allowed {
    fn from(granted: Granted) -> Self {
        Self {
            role: granted.role,
            user: granted.user,
        }
    }
}

/// How somebody was known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownBy {
    /// By the user whose process they are.
    User(u32),
    /// By a key of SSH.
    Key(KeyData),
    /// By a token, which is kept as its hash only.
    Token { hash: String, name: String },
}

impl KnownBy {
    /// What tells one from another.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let text = match self {
            Self::User(user) => format!("user {user}"),
            Self::Key(key) => format!("key {}", fingerprint(key)),
            Self::Token { hash, .. } => format!("token {hash}"),
        };
        *blake3::hash(text.as_bytes()).as_bytes()
    }
}

/// Warns where others can put another folder in the place of one, or refuses it.
fn check_parents(folder: &Path, refuse: bool) -> Result<()> {
    for weakness in strict_modes(folder) {
        if refuse {
            return Err(Error::Target(format!(
                "`{}` is not served: {weakness} (access.strict_modes is \"refuse\")",
                folder.display()
            )));
        }
        tracing::warn!("{weakness}");
    }
    Ok(())
}

/// The key of a server whose files lie in that folder. It is made if there is none.
pub(crate) fn host_key(folder: &Path, settings: &Settings) -> Result<HostKey> {
    match &settings.host_key {
        Some(file) => HostKey::at(file),
        None => HostKey::at(&folder.join(NAME)),
    }
}
