//! Reads the body of a request as text, within the size limit, and decompresses gzip.

use super::ApiError;
use crate::call::CallState;
use crate::service::Service;
use axum::body::{Body, Bytes};
use flate2::read::MultiGzDecoder;
use http::{Request, Response, StatusCode, header};
use std::io::Read as _;
use std::sync::Arc;

fn too_large(limit: usize) -> ApiError {
    let message =
        format!("the request's body is larger than {limit} bytes, the most that this server takes");
    ApiError::Status(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Decompresses a body, if the result has at most `limit` bytes.
fn unpacked(packed: &[u8], limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    let most = limit as u64 + 1;
    if let Err(e) = MultiGzDecoder::new(packed).take(most).read_to_end(&mut out) {
        return Err(ApiError::bad(format!(
            "the request's body is not gzip, as its Content-Encoding says: {e}"
        )));
    }
    if out.len() > limit {
        return Err(too_large(limit));
    }
    Ok(out)
}

/// Refuses a body whose type is neither `kind` nor JSON. A page of another site can make a browser send text and forms without a
/// preflight request, but no body of these types.
pub(super) fn is_typed<B>(request: &Request<B>, kind: &str) -> Result<(), ApiError> {
    let given = request.headers().get(header::CONTENT_TYPE);
    let given = given.map(|g| g.to_str().unwrap_or_default());
    let name = given.map(|g| g.split(';').next().unwrap_or_default().trim());
    let fits = |name: &str| {
        name.eq_ignore_ascii_case(kind) || name.eq_ignore_ascii_case("application/json")
    };
    if name.is_some_and(fits) {
        return Ok(());
    }
    let said = match given {
        Some(given) => format!("a body of type `{given}` is not taken here"),
        None => "a body without a type is not taken here".to_owned(),
    };
    let message = format!("{said}: send it with the header `Content-Type: {kind}`");
    Err(ApiError::Status(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        message,
    ))
}

/// Reads the text of the body.
pub(super) async fn text(
    service: &Arc<Service>,
    request: Request<Body>,
) -> Result<String, Response<Body>> {
    let limit = service.settings.limits.request_bytes;
    let coding = request.headers().get(header::CONTENT_ENCODING);
    let coding = coding.map(|c| String::from_utf8_lossy(c.as_bytes()).to_ascii_lowercase());
    let body: Bytes = axum::body::to_bytes(request.into_body(), limit)
        .await
        .map_err(|_| too_large(limit).response())?;
    service.metrics.received.add(body.len() as u64);
    let plain = match coding.as_deref() {
        None | Some("" | "identity") => body.into(),
        Some("gzip" | "x-gzip") => {
            let unpack = move |_: &Service, _: &CallState| unpacked(&body, limit);
            let done = service.work(0, unpack).await;
            done.map_err(|e| super::failed(&e))?
                .map_err(|e| e.response())?
        }
        Some(other) => {
            let message = format!(
                "Content-Encoding `{other}` is not known here; send gzip, or the body as it is"
            );
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ApiError::Status(status, message).response());
        }
    };
    String::from_utf8(plain)
        .map_err(|_| ApiError::bad("the request's body is not UTF-8".into()).response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    #[test]
    fn a_small_body_does_not_become_a_large_one() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&vec![b'a'; 1 << 20]).unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(unpacked(&packed, 1 << 20).unwrap().len(), 1 << 20);
        let status = |r: Result<Vec<u8>, ApiError>| r.unwrap_err().response().status();
        assert_eq!(
            status(unpacked(&packed, (1 << 20) - 1)),
            StatusCode::PAYLOAD_TOO_LARGE
        );
        assert_eq!(status(unpacked(b"{}", 1 << 20)), StatusCode::BAD_REQUEST);
        let cut = packed.get(..packed.len() / 2).unwrap();
        assert_eq!(status(unpacked(cut, 1 << 21)), StatusCode::BAD_REQUEST);
    }
}
