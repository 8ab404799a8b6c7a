//! What `esker.v1.Access/Prove` is for gRPC, for plain HTTP: the same messages as bodies.

use crate::access::{Asking, prove};
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use esker_rpc::proto;
use http::{HeaderValue, Request, Response, StatusCode, header};
use prost::Message as _;
use std::sync::Arc;
use tonic::Code;

/// Bytes of a request.
const BYTES_MAX: usize = 256 << 10;

fn said(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response
}

/// Looks at keys that are shown, or at a proof.
pub(super) async fn answer(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return said(StatusCode::FORBIDDEN, "it is not known who asks");
    };
    let body = axum::body::to_bytes(request.into_body(), BYTES_MAX).await;
    let asked = body
        .ok()
        .and_then(|b: Bytes| proto::ProveRequest::decode(b).ok());
    let Some(asked) = asked else {
        let text = "expected a message esker.v1.ProveRequest";
        return said(StatusCode::BAD_REQUEST, text);
    };
    match prove(&service, &asking, &asked) {
        Ok(reply) => {
            let mut response = Response::new(Body::from(reply.encode_to_vec()));
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/x-protobuf"),
            );
            response
        }
        Err(status) => {
            let code = match status.code() {
                Code::Unauthenticated => StatusCode::UNAUTHORIZED,
                Code::PermissionDenied => StatusCode::FORBIDDEN,
                _ => StatusCode::BAD_REQUEST,
            };
            said(code, status.message())
        }
    }
}
