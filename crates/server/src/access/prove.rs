//! The service by which clients prove keys and administrators grant rights.

use super::caller::{Caller, Denied, Requester, key_text};
use super::needs::ADMIN;
use super::{Access, ClientIdentity};
use crate::http::SESSION_PREFIX;
use crate::service::Service;
use esker_access::authorized::Terms;
use esker_access::binding::is_login;
use esker_access::blocking::run_blocking;
use esker_access::prove::{Authentication, Unproved};
use esker_access::token::TokenRights;
use esker_access::{
    KeyData, PublicKey, Refused, Role, UserCertificate, fingerprint, grants, time_text,
};
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
    if !request.user.is_empty() && !is_login(&request.user) {
        return Err(invalid("`user` is not a login name"));
    }
    if !request.munge.is_empty() {
        return prove_by_munge(access, requester, &request.munge);
    }
    let munge = access.principals.munge().is_some();
    let proving = Authentication {
        rights: &access.rights,
        host: Some(access.host.public().key_data()),
        slot: caller.slot(),
        from: caller.address(),
        exporter: caller.exporter(),
        certificates: Some(&request.user),
        has_other_ways: has_other_ways(access, requester),
    };
    let shown = proving
        .check(&request.keys, &request.proof)
        .map_err(|unproved| unproved_status(access, requester, &unproved))?;
    let Some(key) = shown.proved else {
        return Ok(proto::ProveReply {
            usable: shown.usable,
            munge,
            ..Default::default()
        });
    };
    let comment = access.rights.comment_of(&key);
    let identity = if request.certificate.is_empty() {
        let who = key_text(&PublicKey::new(key.clone(), comment.clone()));
        Ok((ClientIdentity::Key(key), who))
    } else {
        certified(access, caller, &key, request)
    };
    let (identity, who) = identity.map_err(|denied| {
        caller.slot().failed();
        access.refused(requester, denied, "Prove").status()
    })?;
    let reply = proved(access, requester, identity, who)?;
    Ok(proto::ProveReply {
        usable: shown.usable,
        comment,
        munge,
        ..reply
    })
}

/// Whether a client may be authenticated without a key: then a key without rights is no failed attempt.
fn has_other_ways(access: &Access, requester: &Requester) -> bool {
    access.principals.munge().is_some() || requester.local_user(access).is_some()
}

/// Notes the identity that a client proved, and answers with its rights.
fn proved(
    access: &Access,
    requester: &Requester,
    identity: ClientIdentity,
    who: String,
) -> Result<proto::ProveReply, Status> {
    let caller: &Caller = &requester.caller;
    let is_key = matches!(identity, ClientIdentity::Key(_));
    let proof = identity.proof().name();
    match caller.prove(access, identity, who.clone()) {
        Ok(rights) => {
            let user = rights.name.as_deref().unwrap_or_default();
            tracing::info!(peer = %caller.address_text(), %who, user, role = %rights.role, "a {proof} was proved");
            if access.audit.wants_logins() {
                let rights = requester.allowed(access).ok();
                requester.record_session(access, "Prove", rights, who);
            }
            Ok(proto::ProveReply {
                role: rights.role.name().to_owned(),
                user: user.to_owned(),
                ..Default::default()
            })
        }
        Err(refused) => {
            if !is_key || !has_other_ways(access, requester) {
                caller.slot().failed();
            }
            let denied = Denied::of_identity(&who, &refused);
            Err(access.refused(requester, denied, "Prove").status())
        }
    }
}

/// Returns the identity of the owner of a certificate whose key was proved.
fn certified(
    access: &Access,
    caller: &Caller,
    key: &KeyData,
    request: &proto::ProveRequest,
) -> Result<(ClientIdentity, String), Denied> {
    let bad = |why: String| Denied::unauthenticated("bad_proof", why);
    let certificate = UserCertificate::parse(&request.certificate).map_err(bad)?;
    if certificate.key() != key {
        return Err(bad(
            "the certificate is for another key than the proof".into()
        ));
    }
    let who = certificate.description();
    let logins = access
        .rights
        .logins_of(&certificate, &request.user, caller.address())
        .map_err(|refused| Denied::of_identity(&who, &refused))?;
    let [login] = logins.as_slice() else {
        let words = format!(
            "{who} is for several users: name one by ?user=NAME in the address ({})",
            logins.join(", ")
        );
        return Err(Denied::forbidden("certificate", words));
    };
    let login = login.as_str().into();
    let certificate = Arc::new(certificate);
    Ok((ClientIdentity::Certificate { certificate, login }, who))
}

/// Accepts a client by a Munge credential that was made for its connection.
fn prove_by_munge(
    access: &Access,
    requester: &Requester,
    credential: &[u8],
) -> Result<proto::ProveReply, Status> {
    let caller: &Caller = &requester.caller;
    if let Some(words) = caller.slot().hindered() {
        let hindered = Unproved::Hindered(words);
        return Err(unproved_status(access, requester, &hindered));
    }
    let Some(decoder) = access.principals.munge() else {
        let words = "this server accepts no Munge credentials (`munge = true` in [access] of its configuration)";
        let denied = Denied::unauthenticated("bad_proof", words.into());
        return Err(access.refused(requester, denied, "Prove").status());
    };
    let Some(exporter) = caller.exporter() else {
        return Err(unproved_status(access, requester, &Unproved::Unbound));
    };
    let user = run_blocking(|| decoder.user_of(credential, exporter)).map_err(|why| {
        caller.slot().failed();
        let denied = Denied::unauthenticated("bad_proof", why);
        access.refused(requester, denied, "Prove").status()
    })?;
    let who = format!("user {user} by Munge");
    proved(access, requester, ClientIdentity::Munge(user), who)
}

/// Response to a client that proved nothing.
fn unproved_status(access: &Access, requester: &Requester, unproved: &Unproved) -> Status {
    let words = unproved.to_string();
    let denied = match unproved {
        Unproved::Hindered(_) => {
            access.count_refused("hindered");
            return Denied::unauthenticated("hindered", words).status();
        }
        Unproved::NoneUsable(keys) => none_usable(keys),
        Unproved::Unbound => Denied::unauthenticated("plain", words),
        Unproved::Wrong(_) => Denied::unauthenticated("bad_proof", words),
    };
    access.refused(requester, denied, "Prove").status()
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
