//! Pages of other origins: which may read answers, and which may change data.
//!
//! A browser sends a form to any server on behalf of any page, with or without CORS headers. Requests that change data therefore check
//! the page's origin and refuse pages that are not allowed.

use super::plain::text_response;
use crate::settings::Sparql;
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

/// Origin of a request.
pub(super) enum Origin {
    /// No page, or a page of this server.
    Own,
    /// A page that may read answers.
    Reads(HeaderValue),
    /// A page that may read answers and change data.
    Writes(HeaderValue),
    /// Any other page.
    Foreign(HeaderValue),
}

impl Origin {
    /// Determines the origin of a request to `host` from its headers.
    pub(super) fn of(headers: &HeaderMap, host: &str, settings: &Sparql) -> Self {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Self::Own;
        };
        let text = origin.to_str().unwrap_or_default();
        let from = text.split_once("://").map_or("", |(_, host)| host);
        if !from.is_empty() && from == host {
            return Self::Own;
        }
        if settings.write_origins.iter().any(|a| a == text) {
            return Self::Writes(origin.clone());
        }
        if settings.read_origins.iter().any(|a| a == "*" || a == text) {
            return Self::Reads(origin.clone());
        }
        Self::Foreign(origin.clone())
    }

    /// Refuses changes by pages that may not make them.
    pub(super) fn may_write(&self) -> Result<(), Response<Body>> {
        let (Self::Foreign(origin) | Self::Reads(origin)) = self else {
            return Ok(());
        };
        Err(text_response(
            StatusCode::FORBIDDEN,
            &format!(
                "pages of {} may not change data here; the server's configuration names those that may (sparql.write_origins)",
                origin.to_str().unwrap_or("that origin")
            ),
        ))
    }

    /// Adds the CORS headers that tell the browser whether the page may read the answer.
    pub(super) fn add_cors_headers(&self, headers: &mut HeaderMap) {
        let vary = HeaderValue::from_static("origin, accept");
        headers.append(header::VARY, vary);
        if let Self::Reads(origin) | Self::Writes(origin) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            let exposed = HeaderValue::from_static("location, retry-after");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }

    /// Answers a preflight request.
    pub(super) fn preflight(&self, headers: &HeaderMap, methods: &[Method]) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let Ok(names) = HeaderValue::from_str(&names.join(", ")) else {
            return response;
        };
        let to = response.headers_mut();
        to.insert(header::ALLOW, names.clone());
        if let Self::Reads(_) | Self::Writes(_) = self {
            to.insert(header::ACCESS_CONTROL_ALLOW_METHODS, names);
            let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
            let asked = asked
                .cloned()
                .unwrap_or_else(|| HeaderValue::from_static("content-type, accept"));
            to.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
            to.insert(
                header::ACCESS_CONTROL_MAX_AGE,
                HeaderValue::from_static("600"),
            );
        }
        response
    }
}
