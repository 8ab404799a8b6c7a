//! Parsers of bytes that clients send, for fuzz targets: the same code as for requests.

use crate::http::sparql::form;

/// Parses a multipart form into names, content types and contents.
///
/// # Errors
/// Returns the reason if the body is not a form.
pub fn form<'a>(
    content_type: &str,
    body: &'a [u8],
) -> Result<Vec<(String, String, &'a [u8])>, String> {
    let parts = form::parts(content_type, body)?;
    let parts = parts.into_iter();
    Ok(parts
        .map(|part| (part.name, part.content_type, part.content))
        .collect())
}
