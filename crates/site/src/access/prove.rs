//! Proof of an SSH key on a connection: `esker.v1.Access/Prove`, and the same messages over plain HTTP.

use super::{Access, Denied, RequestSender};
use axum::body::{Body, Bytes};
use axum::response::Response;
use esker_access::fingerprint;
use esker_access::prove::{Authentication, Unproved};
use esker_rpc::proto;
use esker_rpc::proto::access_server::{Access as Calls, AccessServer};
use http::{Request as HttpRequest, StatusCode, header};
use prost::Message as _;
use std::sync::Arc;
use tonic::{Request, Response as Reply, Status, async_trait};

/// Maximum size of a message, in bytes.
const BYTES_MAX: usize = 256 << 10;

impl Access {
    /// Returns which of the offered keys have rights, and checks a proof.
    fn prove(
        &self,
        sender: &RequestSender,
        request: &proto::ProveRequest,
    ) -> Result<proto::ProveReply, Denied> {
        let caller = sender.caller();
        let Some(keys) = &self.keys else {
            return Err(self.no_right(sender, false));
        };
        let authentication = Authentication {
            rights: &keys.rights,
            host: None,
            slot: caller.slot(),
            from: caller.ip(),
            exporter: caller.exporter.as_ref(),
            certificates: None,
            has_other_ways: false,
        };
        let shown = authentication
            .check(&request.keys, &request.proof)
            .map_err(|unproved| match &unproved {
                Unproved::NoneUsable(_) => Denied::forbidden(unproved.to_string()),
                _ => Denied::unauthenticated(unproved.to_string()),
            })?;
        let mut reply = proto::ProveReply {
            usable: shown.usable,
            ..Default::default()
        };
        let Some(key) = shown.proved else {
            return Ok(reply);
        };
        match keys.rights.of_key(&key, caller.ip()) {
            Ok(granted) => {
                tracing::info!(peer = %caller.ip(), key = fingerprint(&key), "a key was proved");
                *caller.proven() = Some(key);
                granted.role.name().clone_into(&mut reply.role);
                reply.comment = granted.comment;
                Ok(reply)
            }
            Err(refused) => {
                caller.slot().failed();
                Err(Denied::forbidden(format!(
                    "key {}: {}",
                    fingerprint(&key),
                    refused.client_message()
                )))
            }
        }
    }
}

/// Returns the generated service over a tier's rights.
pub(crate) fn service(access: &Arc<Access>) -> AccessServer<AccessService> {
    AccessServer::new(AccessService(access.clone())).max_decoding_message_size(BYTES_MAX)
}

/// Implements `esker.v1.Access/Prove`; rights to a tier are granted by files only.
pub(crate) struct AccessService(Arc<Access>);

fn request_sender<T>(request: &Request<T>) -> Result<RequestSender, Status> {
    let sender = request.extensions().get::<RequestSender>().cloned();
    sender.ok_or_else(|| Status::internal("the caller is not known"))
}

fn in_files() -> Status {
    Status::unimplemented("rights to a tier are given in the files of its `access.folder`")
}

#[async_trait]
impl Calls for AccessService {
    async fn prove(
        &self,
        request: Request<proto::ProveRequest>,
    ) -> Result<Reply<proto::ProveReply>, Status> {
        let sender = request_sender(&request)?;
        let proved = self.0.prove(&sender, request.get_ref());
        proved.map(Reply::new).map_err(Denied::status)
    }

    async fn grant(
        &self,
        _: Request<proto::GrantRequest>,
    ) -> Result<Reply<proto::GrantReply>, Status> {
        Err(in_files())
    }

    async fn revoke(
        &self,
        _: Request<proto::RevokeRequest>,
    ) -> Result<Reply<proto::RevokeReply>, Status> {
        Err(in_files())
    }

    async fn grants(
        &self,
        _: Request<proto::GrantsRequest>,
    ) -> Result<Reply<proto::GrantsReply>, Status> {
        Err(in_files())
    }

    async fn token(
        &self,
        _: Request<proto::TokenRequest>,
    ) -> Result<Reply<proto::TokenReply>, Status> {
        Err(in_files())
    }
}

fn text_response(status: StatusCode, text: &str) -> Response {
    let built = Response::builder()
        .status(status)
        .body(Body::from(format!("{text}\n")));
    built.unwrap_or_default()
}

/// Handles the call over plain HTTP: the messages are bodies.
pub(crate) async fn by_http(access: Arc<Access>, request: HttpRequest<Body>) -> Response {
    let Some(sender) = request.extensions().get::<RequestSender>().cloned() else {
        return text_response(StatusCode::FORBIDDEN, "the caller is not known");
    };
    let body = axum::body::to_bytes(request.into_body(), BYTES_MAX).await;
    let asked = body
        .ok()
        .and_then(|b: Bytes| proto::ProveRequest::decode(b).ok());
    let Some(asked) = asked else {
        return text_response(
            StatusCode::BAD_REQUEST,
            "expected a message esker.v1.ProveRequest",
        );
    };
    match access.prove(&sender, &asked) {
        Ok(reply) => {
            let built = Response::builder()
                .header(header::CONTENT_TYPE, "application/x-protobuf")
                .body(Body::from(reply.encode_to_vec()));
            built.unwrap_or_default()
        }
        Err(denied) => text_response(denied.code, &denied.words),
    }
}
