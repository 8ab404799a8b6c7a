//! The files of the pages, with compressed versions for clients that accept them.

use axum::body::Body;
use axum::extract::Path;
use bytes::Bytes;
use esker_console::assets::{Asset, asset};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Smallest size in bytes for which compression is worthwhile.
const WORTH_BYTES: usize = 1_024;
/// Content security policy: pages may not contact other hosts. Drawing libraries set inline styles.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Compressed files by their tags.
static PACKED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

fn packed(asset: &Asset) -> Option<Bytes> {
    let mut all = PACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all.get(&asset.tag) {
        return Some(found.clone());
    }
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(&asset.bytes).ok()?;
    let bytes = Bytes::from(out.finish().ok()?);
    all.insert(asset.tag.clone(), bytes.clone());
    Some(bytes)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|part| {
            let mut parts = part.split(';').map(str::trim);
            let gzip = parts.next() == Some("gzip");
            gzip && !parts.any(|q| matches!(q, "q=0" | "q=0.0"))
        })
}

fn answer(path: &str, headers: &HeaderMap) -> Response<Body> {
    let Some(asset) = asset(path) else {
        let message = format!("there is no page `/{path}`; the console is at /");
        return super::super::failure(StatusCode::NOT_FOUND, &message, None);
    };
    let tag = format!("\"{}\"", asset.tag);
    let same = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let mut response = Response::new(Body::empty());
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let set = |response: &mut Response<Body>, name: header::HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(&mut response, header::ETAG, &tag);
    let keep = if asset.lasting {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    set(&mut response, header::CACHE_CONTROL, keep);
    set(&mut response, header::VARY, "accept-encoding");
    set(&mut response, header::CONTENT_TYPE, asset.kind);
    set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut response, header::REFERRER_POLICY, "no-referrer");
    if same {
        return response;
    }
    let packed = (takes_gzip(headers) && asset.bytes.len() >= WORTH_BYTES)
        .then(|| packed(&asset))
        .flatten();
    match packed {
        Some(bytes) => {
            set(&mut response, header::CONTENT_ENCODING, "gzip");
            *response.body_mut() = Body::from(bytes);
        }
        None => *response.body_mut() = Body::from(asset.bytes.into_owned()),
    }
    response
}

/// Answers `GET /` with the page.
pub(in super::super) async fn page(headers: HeaderMap) -> Response<Body> {
    answer("", &headers)
}

/// Answers `GET /assets/…` with a part of the page.
pub(in super::super) async fn part(Path(path): Path<String>, headers: HeaderMap) -> Response<Body> {
    answer(&format!("assets/{path}"), &headers)
}

/// Answers `GET /favicon.svg` with the page's icon.
pub(in super::super) async fn icon(headers: HeaderMap) -> Response<Body> {
    answer("favicon.svg", &headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_accept_gzip_get_it() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        assert!(with("gzip, deflate, br, zstd"));
        assert!(with("br;q=1.0, gzip;q=0.8"));
        assert!(!with("br, gzip;q=0"));
        assert!(!with("deflate"));
    }

    #[test]
    fn what_is_not_there_is_said() {
        let response = answer("assets/none.js", &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let response = answer("", &HeaderMap::new());
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str();
        assert!(policy.unwrap().starts_with("default-src 'self'"));
        let mut headers = HeaderMap::new();
        headers.insert(
            header::IF_NONE_MATCH,
            response.headers()[header::ETAG].clone(),
        );
        assert_eq!(answer("", &headers).status(), StatusCode::NOT_MODIFIED);
    }
}
