//! What clients send, as bytes, for fuzz targets: what is asked here is what a request asks.

use crate::http::sparql::form;

/// The parts of a form: names, content types, contents.
///
/// # Errors
/// Why it is none.
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
