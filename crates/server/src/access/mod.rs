//! Authorization of requests. Each request passes [`Access::admit`] before any other code reads it; [`table`] has the role that it needs.
//!
//! A connection is authenticated by the kernel (a process of this machine whose user owns the database, or is root), by a proof of an SSH
//! key ([`prove`]), or by a token in a request: one of this server, or one of the provider of OpenID Connect that its settings name.

mod bound;
mod caller;
pub(crate) mod needs;
mod principals;
mod prove;
mod subject;
pub(crate) mod table;

pub(crate) use bound::BoundUser;
pub(crate) use caller::{Caller, Requester};
pub(crate) use prove::{prove, routes};

use crate::audit::Audit;
use crate::client::{Client, ClientTable};
use crate::http::{Bound, Sessions};
use crate::metrics::Metrics;
use crate::oidc::{Oidc, OidcLogin};
use crate::settings::{Loopback, Settings};
use axum::body::Body;
use caller::Denied;
use esker_access::grants::RightsEntry;
use esker_access::host_key::NAME;
use esker_access::origin_check::{ForeignRequest, OriginHeaders};
use esker_access::{
    Folder, Granted, HostKey, KeyData, Refused, Rights, Role, UserCertificate, fingerprint, peer,
    rights, strict_modes, time_text, tls,
};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use http::{Request, Response, StatusCode};
use needs::{Needs, READ};
use principals::PrincipalRules;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use table::RouteLookup;
use tokio_rustls::TlsAcceptor;

/// ALPN names of the protocols that the server speaks over TLS.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Authorization state of a server.
pub(crate) struct Access {
    rights: Rights,
    host: HostKey,
    /// Folder of the access files: the database's folder, or a cluster's storage, as it was when the server started.
    folder: Arc<Folder>,
    /// Users of this machine with the admin role: the owner of the database at the start, the user of this process, root.
    users: Vec<u32>,
    /// Connections on which these users have that role.
    loopback: Loopback,
    /// Users with login names.
    principals: PrincipalRules,
    metrics: Arc<Metrics>,
    /// Audit log of the requests.
    audit: Arc<Audit>,
    /// Shares and quotas of clients.
    clients: ClientTable,
    /// Sessions of browsers.
    sessions: Sessions,
    /// Logins by a provider of OpenID Connect, if the settings name one.
    oidc: Option<Arc<Oidc>>,
    /// Other origins whose pages may send SPARQL requests.
    origins: Vec<String>,
    /// Address at which the server listens, as `HOST:PORT`, with the host name of its settings.
    authority: OnceLock<String>,
}

impl Access {
    /// Opens the access files of the database in a folder. Creates a missing host key.
    pub(crate) fn open(
        folder: &Path,
        settings: &Settings,
        metrics: Arc<Metrics>,
        audit: Arc<Audit>,
    ) -> Result<Self> {
        let path = folder;
        let folder = Arc::new(Folder::open(path)?);
        check_parents(path, settings.access.strict_modes)?;
        let mut users = vec![0, folder.owner(), peer::own_user()];
        users.retain(|user| peer::is_mapped(*user));
        users.sort_unstable();
        users.dedup();
        let access = Self {
            rights: Rights::load(&folder),
            host: host_key(path, settings)?,
            folder,
            users,
            loopback: settings.access.loopback,
            principals: PrincipalRules::of(&settings.access)?,
            metrics,
            audit,
            clients: ClientTable::new(settings),
            sessions: Sessions::default(),
            oidc: settings
                .oidc
                .as_ref()
                .map(Oidc::open)
                .transpose()?
                .map(Arc::new),
            origins: settings.sparql.origins().map(str::to_owned).collect(),
            authority: OnceLock::new(),
        };
        for mistake in access.rights.mistakes() {
            tracing::warn!("{mistake}");
        }
        Ok(access)
    }

    /// Audit log of the requests.
    pub(crate) fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Notes the address at which the server listens: a host from the settings, and a port that the system may have chosen.
    pub(crate) fn set_listen_address(&self, listen: &str, port: u16) {
        let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
        // Only the first address is kept; it is the process's own.
        let _ = self.authority.set(format!("{host}:{port}"));
    }

    /// Returns why the user of the process that sent a request does not authenticate it, if so. The settings have the origins that may
    /// use SPARQL (`sparql.read_origins`, `sparql.write_origins`); their rights are checked where SPARQL is answered.
    fn foreign(&self, headers: &OriginHeaders<'_>, path: &str) -> Option<ForeignRequest> {
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
        let named = headers
            .origin()
            .is_some_and(|origin| self.origins.iter().any(|o| o == "*" || o == origin));
        let looked = if rdf && named {
            headers.is_direct(is_own)
        } else {
            headers.is_own(is_own)
        };
        looked.err()
    }

    /// Authorizes a request, or returns the response that refuses it because it is not listed or its sender lacks the role. Does not read
    /// the body.
    #[expect(
        clippy::result_large_err,
        reason = "the refusal is the response that is sent"
    )]
    pub(crate) fn admit_request<B>(
        &self,
        requester: &Requester,
        request: &Request<B>,
    ) -> std::result::Result<Admitted, Response<Body>> {
        if let Some(words) = requester.caller.slot().refusal() {
            return Err(full(request, words));
        }
        let path = request.uri().path();
        let found = table::find(request.method().as_str(), path);
        let needs = match &found {
            RouteLookup::Listed(entry) => entry.needs,
            // Any caller with the role `read` learns that the path does not exist.
            RouteLookup::OtherMethods(_) | RouteLookup::Nothing => READ,
        };
        Err(match (self.admit(requester, needs, path), found) {
            (Ok(admitted), RouteLookup::Listed(entry)) => match admitted.bound().user {
                Some(user) if !entry.per_user => {
                    let denied = Denied::forbidden("bound", BoundUser::refusal(&user, path));
                    self.refused(requester, denied, path).response(request)
                }
                _ => return Ok(admitted),
            },
            (Ok(_), RouteLookup::OtherMethods(allow)) => crate::http::wrong_method(request, &allow),
            (Ok(_), RouteLookup::Nothing) => crate::http::unknown_path(request),
            (Err(denied), _) => denied.response(request),
        })
    }

    /// Returns the TLS acceptor with the server's certificate or host key.
    pub(crate) fn acceptor(&self, settings: &Settings) -> Result<TlsAcceptor> {
        let given = settings.tls.as_ref().map(crate::tls::load).transpose()?;
        let config = tls::server(&self.host, &tls::names(&settings.listen), given, &PROTOCOLS)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Fingerprint of the server's key, as `ssh-keygen -l` prints it.
    pub(crate) fn fingerprint(&self) -> String {
        self.host.fingerprint()
    }

    /// Folder of the access files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Logs errors in the access files. To be called about once a second.
    pub(crate) fn report(&self) {
        for said in self.rights.news() {
            tracing::warn!("{said}");
        }
    }

    /// Returns the present rights of a client with a given identity, for requests from an address.
    pub(crate) fn role_of(
        &self,
        known: &ClientIdentity,
        from: IpAddr,
    ) -> std::result::Result<Granted, Refused> {
        let admin = Granted::new(Role::Admin);
        match known {
            ClientIdentity::User(user) if self.users.contains(user) => Ok(admin),
            // A client that can read the host key could serve the database.
            ClientIdentity::Key(key) if key == self.host.public().key_data() => Ok(admin),
            ClientIdentity::Key(key) => Ok(self.listed(self.rights.of_key(key, from)?)),
            ClientIdentity::Token { hash, .. } => {
                Ok(self.listed(self.rights.of_token_hash(hash)?.0))
            }
            ClientIdentity::Certificate { certificate, login } => {
                let granted = self.rights.of_certificate(certificate, login, from)?;
                Ok(self.listed(granted))
            }
            ClientIdentity::Local(user) if self.principals.knows_local_users() => {
                self.role_of_user(*user)
            }
            ClientIdentity::Munge(user) if self.principals.munge().is_some() => {
                self.role_of_user(*user)
            }
            ClientIdentity::Oidc(login) => self.role_of_login(login),
            ClientIdentity::User(_) | ClientIdentity::Local(_) | ClientIdentity::Munge(_) => {
                Err(Refused::Revoked)
            }
        }
    }

    /// Rights with the role that the configuration lists for their user.
    fn listed(&self, granted: Granted) -> Granted {
        let accounts = self.rights.accounts();
        self.principals.with_listed_role(granted, accounts)
    }

    /// Rights of a user who has no other right than by the configuration.
    fn role_of_user(&self, user: u32) -> std::result::Result<Granted, Refused> {
        let granted = self.rights.of_user(user)?;
        let accounts = self.rights.accounts();
        self.principals.only_listed_role(granted, accounts)
    }

    /// Returns the rights of a user whom a provider authenticated, until the login ends.
    fn role_of_login(&self, login: &OidcLogin) -> std::result::Result<Granted, Refused> {
        if login.until <= rights::now() {
            return Err(Refused::Expired {
                at: time_text(login.until).unwrap_or_default(),
            });
        }
        let uid = u32::try_from(login.principal.uid).map_err(|_| Refused::Revoked)?;
        let granted = self.role_of_user(uid)?;
        Ok(Granted {
            until: Some(login.until),
            ..granted
        })
    }

    /// Logins by a provider of OpenID Connect, if the settings name one.
    pub(crate) fn oidc(&self) -> Option<&Arc<Oidc>> {
        self.oidc.as_ref()
    }

    /// Sessions of browsers with the console.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Lists the open sessions with their present rights.
    pub(crate) fn list_sessions(&self) -> Vec<RightsEntry> {
        self.sessions.list(|session| {
            let address = match session.bound {
                Bound::Address(address) => address,
                Bound::User(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            };
            let granted = self.role_of(&session.identity, address).ok()?;
            let role = granted.role.lesser(session.role)?;
            Some(session.identity.session_rights(granted, role))
        })
    }

    /// Whether the kernel authenticates the user who starts this server, over loopback.
    pub(crate) fn knows_own_user(&self) -> bool {
        self.loopback == Loopback::Uid
            && self.users.contains(&peer::own_user())
            && peer::kernel_knows_users()
    }

    /// Whether a user of this machine has the admin role.
    pub(crate) fn is_owner(&self, user: u32) -> bool {
        self.users.contains(&user) && peer::is_mapped(user)
    }

    /// Shares and quotas of clients.
    pub(crate) fn clients(&self) -> &ClientTable {
        &self.clients
    }

    /// Returns the client of an authorized request, with its share and its limits.
    pub(crate) fn client_of(&self, requester: &Requester, admitted: &Admitted) -> Arc<Client> {
        let sender = requester.client(self);
        let rights = admitted.rights();
        let user = rights.and_then(|rights| rights.user.as_ref());
        let name = rights.and_then(|rights| rights.name.as_deref());
        let is_admin = rights.is_some_and(|rights| rights.role == Role::Admin);
        Arc::new(self.clients.client(sender, user, name, is_admin))
    }

    /// Marks the connection as authenticated, so that it is not closed. The number of connections per client is limited.
    fn mark_authenticated(
        &self,
        requester: &Requester,
        what: &str,
    ) -> std::result::Result<(), Denied> {
        let slot = requester.caller.slot();
        slot.admit_authenticated(|| requester.client(self))
            .map_err(|words| {
                let denied = Denied::forbidden("connections", words);
                self.refused(requester, denied, what)
            })
    }

    /// Authorizes a request, or returns the reason for refusing it. Refusals are counted and logged.
    pub(crate) fn admit(
        &self,
        requester: &Requester,
        needs: Needs,
        what: &str,
    ) -> std::result::Result<Admitted, Denied> {
        self.admit_call(requester, requester.request, needs, what)
    }

    /// Authorizes request number `request`, one of several of a requester.
    pub(crate) fn admit_call(
        &self,
        requester: &Requester,
        request: u64,
        needs: Needs,
        what: &str,
    ) -> std::result::Result<Admitted, Denied> {
        let role = match needs {
            Needs::Nothing => {
                requester.caller.slot().admit_public();
                return Ok(Admitted::default());
            }
            Needs::Role(role) => role,
            Needs::WriteOrBound => match requester.allowed(self) {
                Ok(rights) if rights.user.is_some() => Role::Read,
                _ => Role::Write,
            },
            Needs::Server if requester.is_server(self) => {
                return self
                    .mark_authenticated(requester, what)
                    .map(|()| ClientRights::all(Proof::Server).into());
            }
            Needs::Server => {
                let denied = Denied::forbidden(
                    "not_a_server",
                    "only servers of a cluster send each other that".into(),
                );
                return Err(self.refused_call(requester, request, denied, what));
            }
        };
        match requester.allowed(self) {
            Ok(has) if has.role.may(role) => self
                .mark_authenticated(requester, what)
                .map(|()| has.into()),
            Ok(ClientRights { role: has, .. }) => {
                let who = requester.description();
                let denied = Denied::forbidden(
                    "role",
                    format!(
                        "{who} has role `{has}` here, and `{what}` needs `{role}`: the database's owner can give it \
                         (`esker grant DATABASE --key … --role {role}`)"
                    ),
                );
                Err(self.refused_call(requester, request, denied, what))
            }
            Err(denied) => Err(self.refused_call(requester, request, denied, what)),
        }
    }

    /// Counts a client that was refused before it could authenticate.
    pub(crate) fn count_refused(&self, why: &'static str) {
        self.metrics.refused(why);
    }

    /// Counts, logs and records a refusal.
    fn refused(&self, requester: &Requester, denied: Denied, what: &str) -> Denied {
        self.refused_call(requester, requester.request, denied, what)
    }

    /// Counts, logs and records the refusal of request number `request`.
    fn refused_call(
        &self,
        requester: &Requester,
        request: u64,
        denied: Denied,
        what: &str,
    ) -> Denied {
        self.metrics.refused(denied.why);
        let reason = denied.log.as_ref().unwrap_or(&denied.message);
        if requester.caller.may_log() {
            tracing::warn!(
                peer = %requester.caller.address_text(),
                who = %requester.description(),
                call = what,
                why = denied.why,
                request,
                reason = %reason,
                "refused"
            );
        }
        if self.audit.is_on() {
            let call = table::recorded_name(requester.method.as_str(), what);
            let subject = requester.refused_subject(self);
            let why = (denied.why, reason.as_str());
            self.audit.record_refusal(&call, subject, request, why);
            requester.note.refused();
        }
        denied
    }

    /// Records that a client's request is refused because it is not one of the user to whom the client is bound.
    pub(crate) fn refused_bound(
        &self,
        requester: &Requester,
        request: u64,
        words: String,
        what: &str,
    ) -> Denied {
        self.refused_call(requester, request, Denied::forbidden("bound", words), what)
    }

    /// Authorizes a server that greets as one of the cluster.
    pub(crate) fn admit_server(&self, requester: &Requester) -> std::result::Result<(), String> {
        let admitted = self.admit(requester, Needs::Server, "greeting as a server");
        admitted.map(|_| ()).map_err(|denied| {
            format!(
                "{}: its servers have one host key, in their storage, and prove it to each other",
                denied.message
            )
        })
    }
}

/// Response to any request on a connection that exceeds the limits.
fn full<B>(request: &Request<B>, words: &str) -> Response<Body> {
    if crate::http::is_grpc(request) {
        tonic::Status::resource_exhausted(words).into_http()
    } else {
        crate::http::failure(StatusCode::TOO_MANY_REQUESTS, words, Some(1_000))
    }
}

/// Kind of proof by which a client was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Proof {
    /// The kernel named the user of the client's process.
    Process,
    /// The client proved an SSH key.
    Key,
    /// The client proved an SSH key with a certificate.
    Certificate,
    /// The kernel named the user of the client's process, who is not an owner of the database.
    Local,
    /// Munge named the user of the client's process on another machine.
    Munge,
    /// The request had a token.
    Token,
    /// The request had the cookie of a session.
    Session,
    /// A provider of OpenID Connect authenticated the user, who has a session or sent the provider's token.
    Oidc,
    /// The client proved the host key of the cluster's servers.
    Server,
}

impl Proof {
    /// Name in answers and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Key => "key",
            Self::Certificate => "certificate",
            Self::Local => "local",
            Self::Munge => "munge",
            Self::Token => "token",
            Self::Session => "session",
            Self::Oidc => "oidc",
            Self::Server => "server",
        }
    }
}

/// Rights of a client: its role, the user to whom its answers are limited, and the proof of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientRights {
    pub(crate) role: Role,
    /// User to whom answers are limited; `None` if the client may ask on behalf of any user.
    pub(crate) user: Option<Principal>,
    /// Login name of the client's user, if it is known.
    pub(crate) name: Option<Arc<str>>,
    /// Whether the client may ask on behalf of other users, although it is limited to one.
    pub(crate) impersonates: bool,
    pub(crate) proof: Proof,
}

impl ClientRights {
    /// Full rights, without a limit to one user.
    pub(crate) const fn all(proof: Proof) -> Self {
        Self {
            role: Role::Admin,
            user: None,
            name: None,
            impersonates: false,
            proof,
        }
    }
}

impl From<Granted> for ClientRights {
    fn from(granted: Granted) -> Self {
        Self {
            role: granted.role,
            user: granted.user,
            name: granted.login,
            impersonates: granted.impersonates,
            proof: Proof::Key,
        }
    }
}

/// An authorized request: the rights of its sender; `None` for a request that everybody may make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admitted(Option<Arc<ClientRights>>);

impl Admitted {
    /// Rights of the sender, if the request needs any.
    pub(crate) fn rights(&self) -> Option<&ClientRights> {
        self.0.as_deref()
    }

    /// The user to whom the answer is limited.
    pub(crate) fn bound(&self) -> BoundUser {
        let rights = self.rights();
        BoundUser {
            user: rights.and_then(|rights| rights.user.clone()),
            impersonates: rights.is_some_and(|rights| rights.impersonates),
        }
    }
}

impl From<ClientRights> for Admitted {
    fn from(rights: ClientRights) -> Self {
        Self(Some(Arc::new(rights)))
    }
}

/// Identity by which a client was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientIdentity {
    /// The user of its process.
    User(u32),
    /// An SSH key.
    Key(KeyData),
    /// A token, of which only the hash is kept.
    Token { hash: String, name: String },
    /// A certificate, and the login name in it as which the client is answered.
    Certificate {
        certificate: Arc<UserCertificate>,
        login: Arc<str>,
    },
    /// The user of its process, who is not an owner of the database.
    Local(u32),
    /// The user of its process on another machine, by Munge.
    Munge(u32),
    /// A user whom a provider of OpenID Connect authenticated.
    Oidc(Arc<OidcLogin>),
}

impl ClientIdentity {
    /// Text that distinguishes identities.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::User(user) => format!("user {user}"),
            Self::Key(key) => format!("key {}", fingerprint(key)),
            Self::Token { hash, .. } => format!("token {hash}"),
            Self::Certificate { certificate, login } => {
                format!("certificate {} {login}", fingerprint(certificate.key()))
            }
            Self::Local(user) => format!("local {user}"),
            Self::Munge(user) => format!("munge {user}"),
            Self::Oidc(login) => format!("oidc {}", login.subject),
        }
    }

    /// Hash that distinguishes identities.
    pub(crate) fn digest(&self) -> [u8; 32] {
        *blake3::hash(self.text().as_bytes()).as_bytes()
    }

    /// The proof by which the identity is known.
    pub(crate) fn proof(&self) -> Proof {
        match self {
            Self::User(_) => Proof::Process,
            Self::Key(_) => Proof::Key,
            Self::Token { .. } => Proof::Token,
            Self::Certificate { .. } => Proof::Certificate,
            Self::Local(_) => Proof::Local,
            Self::Munge(_) => Proof::Munge,
            Self::Oidc(_) => Proof::Oidc,
        }
    }

    /// Returns the rights of a session of this identity.
    pub(crate) fn session_rights(&self, granted: Granted, role: Role) -> ClientRights {
        let proof = if matches!(self, Self::Oidc(_)) {
            Proof::Oidc
        } else {
            Proof::Session
        };
        ClientRights {
            role,
            proof,
            ..granted.into()
        }
    }
}

/// Warns if other users could replace a folder, or returns an error if `refuse` is set.
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

/// Opens the host key of a server with access files in that folder. Creates a missing one.
pub(crate) fn host_key(folder: &Path, settings: &Settings) -> Result<HostKey> {
    match &settings.host_key {
        Some(file) => HostKey::open_or_create(file),
        None => HostKey::open_or_create(&folder.join(NAME)),
    }
}
