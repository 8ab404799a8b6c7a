//! How a client proves a key of SSH on its connection: `esker.v1.Access/Prove`, and the same messages over plain HTTP.

use super::{Access, Asking, Denied};
use axum::body::{Body, Bytes};
use axum::response::Response;
use esker_access::fingerprint;
use esker_access::prove::{Proving as Showing, Unproved};
use esker_rpc::proto;
use esker_rpc::proto::access_server::{Access as Calls, AccessServer};
use http::{Request as HttpRequest, StatusCode, header};
use prost::Message as _;
use std::sync::Arc;
use tonic::{Request, Response as Reply, Status, async_trait};

/// Bytes of a message.
const BYTES_MAX: usize = 256 << 10;

impl Access {
    /// Says which of the keys that are shown have rights, and takes a proof.
    fn prove(
        &self,
        asking: &Asking,
        request: &proto::ProveRequest,
    ) -> Result<proto::ProveReply, Denied> {
        let caller = asking.caller();
        let Some(keys) = &self.keys else {
            return Err(self.nobody(asking, false));
        };
        let showing = Showing {
            rights: &keys.rights,
            host: None,
            slot: caller.slot(),
            from: caller.ip(),
            exporter: caller.exporter.as_ref(),
        };
        let shown =
            showing
                .see(&request.keys, &request.proof)
                .map_err(|unproved| match &unproved {
                    Unproved::NoneUsable(_) => Denied::known(unproved.to_string()),
                    _ => Denied::unknown(unproved.to_string()),
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
                Err(Denied::known(format!(
                    "key {}: {}",
                    fingerprint(&key),
                    refused.told()
                )))
            }
        }
    }
}

/// The generated service over a tier's rights.
pub(crate) fn service(access: &Arc<Access>) -> AccessServer<Proving> {
    AccessServer::new(Proving(access.clone())).max_decoding_message_size(BYTES_MAX)
}

/// Answers `esker.v1.Access/Prove`; rights to a tier are given in files alone.
pub(crate) struct Proving(Arc<Access>);

fn asking<T>(request: &Request<T>) -> Result<Asking, Status> {
    let asking = request.extensions().get::<Asking>().cloned();
    asking.ok_or_else(|| Status::internal("it is not known who asks"))
}

fn in_files() -> Status {
    Status::unimplemented("rights to a tier are given in the files of its `access.folder`")
}

#[async_trait]
impl Calls for Proving {
    async fn prove(
        &self,
        request: Request<proto::ProveRequest>,
    ) -> Result<Reply<proto::ProveReply>, Status> {
        let asking = asking(&request)?;
        let proved = self.0.prove(&asking, request.get_ref());
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

fn said(status: StatusCode, text: &str) -> Response {
    let built = Response::builder()
        .status(status)
        .body(Body::from(format!("{text}\n")));
    built.unwrap_or_default()
}

/// The same over plain HTTP: the messages are bodies.
pub(crate) async fn by_http(access: Arc<Access>, request: HttpRequest<Body>) -> Response {
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return said(StatusCode::FORBIDDEN, "it is not known who asks");
    };
    let body = axum::body::to_bytes(request.into_body(), BYTES_MAX).await;
    let asked = body
        .ok()
        .and_then(|b: Bytes| proto::ProveRequest::decode(b).ok());
    let Some(asked) = asked else {
        return said(
            StatusCode::BAD_REQUEST,
            "expected a message esker.v1.ProveRequest",
        );
    };
    match access.prove(&asking, &asked) {
        Ok(reply) => {
            let built = Response::builder()
                .header(header::CONTENT_TYPE, "application/x-protobuf")
                .body(Body::from(reply.encode_to_vec()));
            built.unwrap_or_default()
        }
        Err(denied) => said(denied.code, &denied.words),
    }
}
