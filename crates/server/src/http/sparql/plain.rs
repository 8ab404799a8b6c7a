//! Responses with text for people.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

/// A response with text for people.
pub(super) fn text_response(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
