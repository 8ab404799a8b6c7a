//! The call `esker.v1.Access/Prove` over plain HTTP, with the same messages as bodies.

use crate::access::{Requester, prove};
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use esker_rpc::proto;
use http::{HeaderValue, Request, Response, StatusCode, header};
use prost::Message as _;
use std::sync::Arc;
use tonic::Code;

/// Largest request in bytes.
const BYTES_MAX: usize = 256 << 10;

fn text_response(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response
}

/// Answers which of the offered keys have rights, or verifies a proof.
pub(super) async fn answer(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(requester) = request.extensions().get::<Requester>().cloned() else {
        return text_response(StatusCode::FORBIDDEN, "the caller is not known");
    };
    let body = axum::body::to_bytes(request.into_body(), BYTES_MAX).await;
    let message = body
        .ok()
        .and_then(|b: Bytes| proto::ProveRequest::decode(b).ok());
    let Some(message) = message else {
        let text = "expected a message esker.v1.ProveRequest";
        return text_response(StatusCode::BAD_REQUEST, text);
    };
    match prove(&service, &requester, &message) {
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
            text_response(code, status.message())
        }
    }
}
