//! Requests to SPARQL endpoints and for documents over HTTP.

use super::Services;
use crate::rdf::format_of;
use esker_rdf::{ACCEPT, Dataset, Load, RdfFormat, Solutions, read_solutions, resolve_iri};
use esker_rpc::http::{Endpoint, RequestBody, Response};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit for connecting to an endpoint.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for one query or document.
const TIME: Duration = Duration::from_mins(1);
/// Maximum bytes of a response.
const BYTES: u64 = 1 << 30;
/// Maximum of solutions in a response.
const ROWS: usize = 50_000_000;
/// Maximum of redirections to a document.
const REDIRECTIONS: usize = 5;
/// Value of the `Accept` header for documents.
const DOCUMENTS: &str = "text/turtle, application/trig, application/n-triples, application/n-quads, application/ld+json;q=0.9, application/rdf+xml;q=0.9, */*;q=0.1";

/// Sends a query to an endpoint.
pub(super) fn send(
    endpoint: &str,
    query: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Solutions, String> {
    let (server, path) = Endpoint::of_url(endpoint, PATIENCE).map_err(|e| e.to_string())?;
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", ACCEPT),
        ("user-agent", "esker"),
    ];
    let until = Instant::now().checked_add(TIME);
    let mut answer = server
        .request(
            "POST",
            &path,
            &headers,
            RequestBody::Bytes(query.as_bytes()),
            stop,
            until,
        )
        .map_err(|e| e.to_string())?;
    check_status(&mut answer)?;
    let content_type = answer.header("content-type").to_owned();
    let mut from = Bounded::new(&mut answer)?;
    read_solutions(&content_type, &mut from, ROWS)
}

/// Reads a document and those to which its server redirects.
pub(super) fn read_document(
    allowed: &Services,
    load: &Load<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Dataset, String> {
    let until = Instant::now().checked_add(TIME);
    let headers = [("accept", DOCUMENTS), ("user-agent", "esker")];
    let mut iri = load.iri.to_owned();
    for _ in 0..=REDIRECTIONS {
        allowed.check_document(&iri)?;
        let (server, path) = Endpoint::of_url(&iri, PATIENCE).map_err(|e| e.to_string())?;
        let mut answer = server
            .request("GET", &path, &headers, RequestBody::Nothing, stop, until)
            .map_err(|e| e.to_string())?;
        if matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
            iri = resolve_iri(&iri, answer.header("location"))?;
            continue;
        }
        check_status(&mut answer)?;
        let format = document_format(&iri, answer.header("content-type"))?;
        return load.read(&iri, &mut Bounded::new(&mut answer)?, format);
    }
    Err(format!("there are more than {REDIRECTIONS} redirections"))
}

/// Returns the format that the content type names, or the ending of the path if the content type names none.
fn document_format(iri: &str, content_type: &str) -> Result<RdfFormat, String> {
    let unspecific = ["", "text/plain", "application/octet-stream"];
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let format = if unspecific.contains(&media_type) {
        let path = iri.split(['?', '#']).next().unwrap_or_default();
        format_of(Path::new(path))
    } else {
        None
    };
    format
        .or_else(|| RdfFormat::from_media_type(content_type))
        .ok_or_else(|| format!("its content type `{content_type}` names no format of RDF"))
}

fn check_status(answer: &mut Response<'_>) -> Result<(), String> {
    if answer.status == 200 {
        return Ok(());
    }
    let status = answer.status;
    let text = answer.text(4_096).unwrap_or_default();
    Err(format!(
        "it answered with status {status}: {}",
        text.trim_end()
    ))
}

/// Reader with a maximum of bytes; more bytes are an error, not an end of file.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<'r, 'a> Bounded<&'r mut Response<'a>> {
    /// Returns the body of a response, unless its head tells that it is too large.
    fn new(from: &'r mut Response<'a>) -> Result<Self, String> {
        let length = from.header("content-length").parse();
        if length.is_ok_and(|length: u64| length > BYTES) {
            return Err(too_large());
        }
        Ok(Self { from, left: BYTES })
    }
}

fn too_large() -> String {
    format!("its answer has more than {BYTES} bytes")
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other(too_large()))?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_and_endings_tell_the_format_of_a_document() {
        let turtle = Ok(RdfFormat::Turtle);
        let none = |content_type: &str| {
            Err(format!(
                "its content type `{content_type}` names no format of RDF"
            ))
        };
        for (iri, content_type, expected) in [
            (
                "http://h/x.nt",
                "text/turtle; charset=utf-8",
                turtle.clone(),
            ),
            (
                "http://h/x.ttl?v=1#a",
                "text/plain; charset=utf-8",
                turtle.clone(),
            ),
            ("http://h/x.ttl", "", turtle),
            ("http://h/x", "text/plain", Ok(RdfFormat::NTriples)),
            ("http://h/x.ttl", "text/html", none("text/html")),
            (
                "http://h/x",
                "application/octet-stream",
                none("application/octet-stream"),
            ),
        ] {
            assert_eq!(
                document_format(iri, content_type),
                expected,
                "{iri} {content_type}"
            );
        }
    }

    #[test]
    fn a_reader_with_a_maximum_fails_beyond_it() {
        let read = |left| {
            let mut text = String::new();
            let mut from = Bounded {
                from: &b"12345"[..],
                left,
            };
            from.read_to_string(&mut text).map_err(|e| e.to_string())
        };
        assert_eq!(read(5), Ok(5));
        assert_eq!(read(4), Err(too_large()));
    }
}
