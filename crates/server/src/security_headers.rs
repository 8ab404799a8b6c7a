//! Headers that restrict what browsers do with responses.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, header};

/// Headers of all responses but gRPC's, unless a response has its own: browsers must trust the content type, must not give the response
/// to pages of other origins without CORS, and must not store it.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Adds headers that restrict what browsers do with a response.
pub(crate) fn with_security_headers(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let kind = headers.get(header::CONTENT_TYPE);
    if kind.is_some_and(|k| k.as_bytes().starts_with(b"application/grpc")) {
        return response;
    }
    for (name, value) in SECURITY_HEADERS {
        headers.entry(name).or_insert(value);
    }
    response
}
