//! The service by which clients prove keys and administrators grant rights.

use super::Access;
use super::caller::{Caller, Denied, Requester, key_text};
use super::needs::ADMIN;
use crate::http::SESSION_PREFIX;
use crate::service::Service;
use esker_access::authorized::Terms;
use esker_access::prove::{Authentication, Unproved};
use esker_access::token::TokenRights;
use esker_access::{PublicKey, Refused, Role, fingerprint, grants, time_text};
use esker_model::Error;
use esker_rpc::proto;
use esker_rpc::proto::access_server::{Access as Calls, AccessServer};
use std::fmt::Write as _;
use std::sync::Arc;
use tonic::{Request, Response, Status, async_trait};

/// Largest message in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Longest validity of a token in seconds: a year.
const TOKEN_SECONDS_MAX: u64 = 366 * 86_400;

/// The generated gRPC service over this server.
pub(crate) fn routes(service: &Arc<Service>) -> AccessServer<AccessService> {
    AccessServer::new(AccessService(Arc::clone(service)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// Implementation of the service `esker.v1.Access`.
pub(crate) struct AccessService(Arc<Service>);

fn requester<T>(request: &Request<T>) -> Result<Requester, Status> {
    let requester = request.extensions().get::<Requester>().cloned();
    requester.ok_or_else(|| Status::internal("the caller is not known"))
}

fn invalid(e: impl std::fmt::Display) -> Status {
    Status::invalid_argument(e.to_string())
}

fn key_of(text: &str) -> Result<PublicKey, Status> {
    PublicKey::from_openssh(text.trim())
        .map_err(|e| invalid(format!("that is not an SSH public key: {e}")))
}

/// Returns which of the offered keys have rights, and verifies a proof.
pub(crate) fn prove(
    service: &Service,
    requester: &Requester,
    request: &proto::ProveRequest,
) -> Result<proto::ProveReply, Status> {
    let access = &service.access;
    let caller: &Caller = &requester.caller;
    let proving = Authentication {
        rights: &access.rights,
        host: Some(access.host.public().key_data()),
        slot: caller.slot(),
        from: caller.address(),
        exporter: caller.exporter(),
    };
    let shown = proving
        .check(&request.keys, &request.proof)
        .map_err(|unproved| {
            let words = unproved.to_string();
            let denied = match unproved {
                Unproved::Hindered(_) => {
                    access.count_refused("hindered");
                    return Denied::unauthenticated("hindered", words).status();
                }
                Unproved::NoneUsable(keys) => none_usable(&keys),
                Unproved::Unbound => Denied::unauthenticated("plain", words),
                Unproved::Wrong(_) => Denied::unauthenticated("bad_proof", words),
            };
            access.refused(requester, denied, "Prove").status()
        })?;
    let mut reply = proto::ProveReply {
        usable: shown.usable,
        ..Default::default()
    };
    let Some(key) = shown.proved else {
        return Ok(reply);
    };
    let comment = access.rights.comment_of(&key);
    let key = PublicKey::new(key, comment.clone());
    match caller.prove(access, key.clone()) {
        Ok(role) => {
            tracing::info!(peer = %caller.address_text(), who = %key_text(&key), %role, "a key was proved");
            role.name().clone_into(&mut reply.role);
            reply.comment = comment;
            if access.audit.wants_logins() {
                let rights = requester.allowed(access).ok();
                requester.record_session(access, "Prove", rights, key_text(&key));
            }
            Ok(reply)
        }
        Err(refused) => {
            caller.slot().failed();
            let denied = Denied::of_key(&key, &refused);
            Err(access.refused(requester, denied, "Prove").status())
        }
    }
}

/// Refusal that lists every offered key with the reason why it has no rights.
fn none_usable(keys: &[(PublicKey, Refused)]) -> Denied {
    let known = keys.iter().rfind(|(_, why)| *why != Refused::Unknown);
    let why = known.map_or("unknown_key", |(_, why)| why.word());
    let words = |said: fn(&Refused) -> String| {
        let each = keys
            .iter()
            .map(|(key, why)| format!("{}: {}", key_text(key), said(why)));
        let each: Vec<String> = each.collect();
        format!(
            "no presented key gives access to this database: {}",
            each.join("; ")
        )
    };
    // Details of files and modes are for the owner and only in the log.
    Denied::forbidden(why, words(Refused::client_message)).logged(words(Refused::to_string))
}

/// Description of granted rights for the audit log.
fn granted_text(role: Role, terms: &Terms) -> String {
    let mut text = role.name().to_owned();
    if let Some(until) = terms.expires.and_then(time_text) {
        let _ = write!(text, " until {until}");
    }
    if let Some(from) = &terms.from {
        let _ = write!(text, " from {from}");
    }
    if let Some(user) = &terms.user {
        let _ = write!(text, " as {user}");
    }
    text
}

/// Revokes the rights of a key or token, or ends a session; returns a description of it.
fn revoke(access: &Access, what: &str) -> esker_model::Result<String> {
    if !what.starts_with(SESSION_PREFIX) {
        return grants::revoke(&access.folder, what);
    }
    match access.sessions.end_named(what) {
        Some(who) => Ok(format!("{what} of {who}")),
        None => Err(Error::Target(format!(
            "there is no session `{what}` here: `esker grant … --list` shows the existing ones"
        ))),
    }
}

impl AccessService {
    /// Returns the sender of a request that needs the role `admin`, whatever let the request come here.
    fn admitted<T>(&self, request: &Request<T>, what: &str) -> Result<Requester, Status> {
        let requester = requester(request)?;
        let admitted = self.0.access.admit(&requester, ADMIN, what);
        admitted.map_err(|denied| denied.status())?;
        Ok(requester)
    }

    /// Changes access files on a thread that may block.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Access) -> esker_model::Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let service = Arc::clone(&self.0);
        let changed = move || {
            let done = work(&service.access);
            // The change takes effect now.
            service.access.rights.refresh();
            done
        };
        let done = tokio::task::spawn_blocking(changed).await;
        match done {
            Ok(done) => done.map_err(invalid),
            Err(_) => Err(Status::internal("the server could not finish this call")),
        }
    }
}

#[async_trait]
impl Calls for AccessService {
    async fn prove(
        &self,
        request: Request<proto::ProveRequest>,
    ) -> Result<Response<proto::ProveReply>, Status> {
        let requester = requester(&request)?;
        prove(&self.0, &requester, request.get_ref()).map(Response::new)
    }

    async fn grant(
        &self,
        request: Request<proto::GrantRequest>,
    ) -> Result<Response<proto::GrantReply>, Status> {
        let requester = self.admitted(&request, "Grant")?;
        let request = request.into_inner();
        let key = key_of(&request.key)?;
        let role = Role::parse(&request.role)
            .ok_or_else(|| invalid(format!("a role is {}", Role::NAMES)))?;
        let terms = Terms {
            role: Some(role),
            expires: request.expires,
            from: request.from,
            user: request
                .user
                .map(|user| user.parse().map_err(invalid))
                .transpose()?,
        };
        let print = fingerprint(key.key_data());
        let who = key_text(&key);
        let details = vec![
            ("grantee", who.clone()),
            ("granted", granted_text(role, &terms)),
        ];
        let done = self
            .change(move |access| grants::grant(&access.folder, &key, &terms))
            .await;
        requester.record_change(&self.0.access, "Grant", details, done.is_ok());
        done?;
        tracing::info!(peer = %requester.caller.address_text(), by = %requester.description(), to = %who, %role, "granted");
        Ok(Response::new(proto::GrantReply { fingerprint: print }))
    }

    async fn revoke(
        &self,
        request: Request<proto::RevokeRequest>,
    ) -> Result<Response<proto::RevokeReply>, Status> {
        let requester = self.admitted(&request, "Revoke")?;
        let what = request.into_inner().key;
        let done = self.change(move |access| revoke(access, &what)).await;
        // A name that matched nothing may be a token, which is no text for a log.
        let details = done
            .as_ref()
            .map_or_else(|_| Vec::new(), |revoked| vec![("revoked", revoked.clone())]);
        requester.record_change(&self.0.access, "Revoke", details, done.is_ok());
        let revoked = done?;
        tracing::info!(peer = %requester.caller.address_text(), by = %requester.description(), what = %revoked, "revoked");
        Ok(Response::new(proto::RevokeReply { revoked }))
    }

    async fn grants(
        &self,
        request: Request<proto::GrantsRequest>,
    ) -> Result<Response<proto::GrantsReply>, Status> {
        self.admitted(&request, "Grants")?;
        let (host_key, list) = self
            .change(|access| {
                let (mut lines, mistakes) = grants::list(&access.folder)?;
                lines.extend(access.list_sessions());
                Ok((access.fingerprint(), (lines, mistakes)))
            })
            .await?;
        let (lines, mistakes) = list;
        Ok(Response::new(proto::GrantsReply {
            host_key,
            lines: lines.into_iter().map(Into::into).collect(),
            mistakes,
        }))
    }

    async fn token(
        &self,
        request: Request<proto::TokenRequest>,
    ) -> Result<Response<proto::TokenReply>, Status> {
        let requester = self.admitted(&request, "Token")?;
        let request = request.into_inner();
        let role = Role::parse(&request.role)
            .ok_or_else(|| invalid(format!("a role is {}", Role::NAMES)))?;
        if !(1..=TOKEN_SECONDS_MAX).contains(&request.seconds) {
            return Err(invalid("a token can be valid for at most a year"));
        }
        let opens = TokenRights::new(role, request.user.as_deref()).map_err(invalid)?;
        let bound = request.user.as_deref().map(|user| format!(" as {user}"));
        let granted = format!(
            "{role} for {} s{}",
            request.seconds,
            bound.unwrap_or_default()
        );
        let done = self
            .change(move |access| {
                grants::make_token(&access.folder, &opens, request.seconds, &request.comment)
            })
            .await;
        let grantee = match &done {
            Ok(token) => match self.0.access.rights.of_token(token) {
                Ok((_, name)) => name,
                Err(_) => "a token".to_owned(),
            },
            Err(_) => "no token".to_owned(),
        };
        let details = vec![("grantee", grantee), ("granted", granted)];
        requester.record_change(&self.0.access, "Token", details, done.is_ok());
        let token = done?;
        tracing::info!(peer = %requester.caller.address_text(), by = %requester.description(), %role, "made a token");
        Ok(Response::new(proto::TokenReply { token }))
    }
}
