//! The service by which a client proves who it is, and by which rights are given.

use super::Access;
use super::caller::{Asking, Caller, Denied, named};
use super::table::ADMIN;
use crate::http::SESSION_PREFIX;
use crate::service::Service;
use esker_access::authorized::Terms;
use esker_access::prove::{Proving as Showing, Unproved};
use esker_access::token::Opens;
use esker_access::{PublicKey, Refused, Role, fingerprint, grants};
use esker_model::Error;
use esker_rpc::proto;
use esker_rpc::proto::access_server::{Access as Calls, AccessServer};
use std::sync::Arc;
use tonic::{Request, Response, Status, async_trait};

/// Bytes of a message.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// The longest that a token holds: a year.
const TOKEN_SECONDS_MAX: u64 = 366 * 86_400;

/// The generated service over ours.
pub(crate) fn routes(service: &Arc<Service>) -> AccessServer<Proving> {
    AccessServer::new(Proving(Arc::clone(service))).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// Answers the calls of `esker.v1.Access`.
pub(crate) struct Proving(Arc<Service>);

fn asking<T>(request: &Request<T>) -> Result<Asking, Status> {
    let asking = request.extensions().get::<Asking>().cloned();
    asking.ok_or_else(|| Status::internal("it is not known who asks"))
}

fn invalid(e: impl std::fmt::Display) -> Status {
    Status::invalid_argument(e.to_string())
}

fn key_of(text: &str) -> Result<PublicKey, Status> {
    PublicKey::from_openssh(text.trim())
        .map_err(|e| invalid(format!("that is no public key of SSH: {e}")))
}

/// Says which of the keys that are shown have rights, and takes a proof.
pub(crate) fn prove(
    service: &Service,
    asking: &Asking,
    request: &proto::ProveRequest,
) -> Result<proto::ProveReply, Status> {
    let access = &service.access;
    let caller: &Caller = &asking.caller;
    let showing = Showing {
        rights: &access.rights,
        host: Some(access.host.public().key_data()),
        slot: caller.slot(),
        from: caller.address(),
        exporter: caller.exporter(),
    };
    let shown = showing
        .see(&request.keys, &request.proof)
        .map_err(|unproved| {
            let words = unproved.to_string();
            let denied = match unproved {
                Unproved::Hindered(_) => {
                    access.count_refused("hindered");
                    return Denied::unknown("hindered", words).status();
                }
                Unproved::NoneUsable(keys) => none_usable(&keys),
                Unproved::Unbound => Denied::unknown("plain", words),
                Unproved::Wrong(_) => Denied::unknown("bad_proof", words),
            };
            access.refused(asking, denied, "Prove").status()
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
            tracing::info!(peer = %caller.place(), who = %named(&key), %role, "a key was proved");
            role.name().clone_into(&mut reply.role);
            reply.comment = comment;
            Ok(reply)
        }
        Err(refused) => {
            caller.slot().failed();
            let denied = Denied::of_key(&key, &refused);
            Err(access.refused(asking, denied, "Prove").status())
        }
    }
}

/// None of the keys that were shown opens anything: each is named, with the reason.
fn none_usable(keys: &[(PublicKey, Refused)]) -> Denied {
    let known = keys.iter().rfind(|(_, why)| *why != Refused::Unknown);
    let why = known.map_or("unknown_key", |(_, why)| why.word());
    let words = |said: fn(&Refused) -> String| {
        let each = keys
            .iter()
            .map(|(key, why)| format!("{}: {}", named(key), said(why)));
        let each: Vec<String> = each.collect();
        format!(
            "no key that was shown opens this database: {}",
            each.join("; ")
        )
    };
    // Files and their modes are the owner's business; the log has them.
    Denied::known(why, words(Refused::told)).logged(words(Refused::to_string))
}

/// Takes a key's or a token's rights, or ends a session: in words.
fn revoke(access: &Access, what: &str) -> esker_model::Result<String> {
    if !what.starts_with(SESSION_PREFIX) {
        return grants::revoke(&access.folder, what);
    }
    match access.sessions.end_named(what) {
        Some(who) => Ok(format!("{what} of {who}")),
        None => Err(Error::Target(format!(
            "there is no session `{what}` here: `esker grant … --list` shows those that there are"
        ))),
    }
}

impl Proving {
    /// Who asks for something that only `admin` may, whatever let the request come here.
    fn admitted<T>(&self, request: &Request<T>, what: &str) -> Result<Asking, Status> {
        let asking = asking(request)?;
        let admitted = self.0.access.admit(&asking, ADMIN, what);
        admitted.map_err(|denied| denied.status())?;
        Ok(asking)
    }

    /// Changes files, on a thread that may wait.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Access) -> esker_model::Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let service = Arc::clone(&self.0);
        let changed = move || {
            let done = work(&service.access);
            // It holds from now on.
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
impl Calls for Proving {
    async fn prove(
        &self,
        request: Request<proto::ProveRequest>,
    ) -> Result<Response<proto::ProveReply>, Status> {
        let asking = asking(&request)?;
        prove(&self.0, &asking, request.get_ref()).map(Response::new)
    }

    async fn grant(
        &self,
        request: Request<proto::GrantRequest>,
    ) -> Result<Response<proto::GrantReply>, Status> {
        let asking = self.admitted(&request, "Grant")?;
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
        let who = named(&key);
        self.change(move |access| grants::grant(&access.folder, &key, &terms))
            .await?;
        tracing::info!(peer = %asking.caller.place(), by = %asking.who(), to = %who, %role, "granted");
        Ok(Response::new(proto::GrantReply { fingerprint: print }))
    }

    async fn revoke(
        &self,
        request: Request<proto::RevokeRequest>,
    ) -> Result<Response<proto::RevokeReply>, Status> {
        let asking = self.admitted(&request, "Revoke")?;
        let what = request.into_inner().key;
        let revoked = self.change(move |access| revoke(access, &what)).await?;
        tracing::info!(peer = %asking.caller.place(), by = %asking.who(), what = %revoked, "revoked");
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
        let asking = self.admitted(&request, "Token")?;
        let request = request.into_inner();
        let role = Role::parse(&request.role)
            .ok_or_else(|| invalid(format!("a role is {}", Role::NAMES)))?;
        if !(1..=TOKEN_SECONDS_MAX).contains(&request.seconds) {
            return Err(invalid("a token holds for a year at most"));
        }
        let opens = Opens::new(role, request.user.as_deref()).map_err(invalid)?;
        let token = self
            .change(move |access| {
                grants::make_token(&access.folder, &opens, request.seconds, &request.comment)
            })
            .await?;
        tracing::info!(peer = %asking.caller.place(), by = %asking.who(), %role, "made a token");
        Ok(Response::new(proto::TokenReply { token }))
    }
}
