//! HTTP on the same port: health, metrics, the JSON API.

mod status;

use crate::service::Service;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;

/// All that is not gRPC.
pub(crate) fn routes(service: &Arc<Service>) -> Router {
    Router::new()
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .fallback(nothing)
        .with_state(Arc::clone(service))
}

async fn nothing(uri: http::Uri) -> Response<Body> {
    let message = format!(
        "there is nothing at `{}`; the API is described at /api/v1/openapi.json",
        uri.path()
    );
    failure(StatusCode::NOT_FOUND, &message, None)
}

/// An error as JSON.
pub(crate) fn failure(
    status: StatusCode,
    message: &str,
    retry_after_ms: Option<u32>,
) -> Response<Body> {
    let mut response = Response::new(Body::from(
        json!({"error": message, "retry_after_ms": retry_after_ms}).to_string(),
    ));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if let Some(millis) = retry_after_ms {
        headers.insert(
            http::header::RETRY_AFTER,
            http::HeaderValue::from(u64::from(millis).div_ceil(1_000)),
        );
    }
    response
}
