//! Client of other SPARQL endpoints for `SERVICE`: only allowed endpoints, with a time limit and bounded results.

use esker_model::{Error, Result};
use esker_rdf::{ACCEPT, Solutions, read_solutions};
use esker_rpc::http::{Endpoint, RequestBody};
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Time limit for connecting to an endpoint.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for one request.
const TIME: Duration = Duration::from_mins(1);
/// Maximum bytes of a response.
const BYTES: u64 = 1 << 30;
/// Maximum of solutions in a response.
const ROWS: usize = 50_000_000;

/// Endpoints that queries may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services {
    /// Allowed prefixes of IRIs.
    allowed: Vec<String>,
}

impl Services {
    /// Allows endpoints with one of these prefixes, up to the end of a path segment: `http://lab` does not match
    /// `http://lab.example`.
    pub fn new(allowed: Vec<String>) -> Result<Self> {
        for prefix in &allowed {
            let host = prefix
                .strip_prefix("http://")
                .or_else(|| prefix.strip_prefix("https://"));
            if host.is_none_or(str::is_empty) {
                return Err(Error::Invalid(format!(
                    "`{prefix}` is not the beginning of an endpoint's IRI; expected one as in https://lab.example/sparql"
                )));
            }
        }
        Ok(Self { allowed })
    }

    /// Whether no endpoint is allowed.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    fn allows(&self, endpoint: &str) -> bool {
        // Servers resolve such segments, so the IRI may leave the allowed prefix.
        if has_dots(endpoint) {
            return false;
        }
        self.allowed.iter().any(|prefix| {
            endpoint.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                rest.is_empty() || prefix.ends_with('/') || rest.starts_with(['/', '?', '#'])
            })
        })
    }

    /// Sends a query to an allowed endpoint.
    pub fn query_endpoint(
        &self,
        endpoint: &str,
        query: &str,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<Solutions, String> {
        if !self.allows(endpoint) {
            return Err(format!(
                "this endpoint is not one of those allowed: {}",
                self.allowed.join(", ")
            ));
        }
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
        if answer.status != 200 {
            let status = answer.status;
            let text = answer.text(4_096).unwrap_or_default();
            let text = text.trim_end();
            return Err(format!("it answered with status {status}: {text}"));
        }
        let content_type = answer.header("content-type").to_owned();
        read_solutions(
            &content_type,
            Bounded {
                from: &mut answer,
                left: BYTES,
            },
            ROWS,
        )
    }
}

/// Whether a path segment of an IRI is `.` or `..`, also percent-encoded.
fn has_dots(iri: &str) -> bool {
    let path = iri.split(['?', '#']).next().unwrap_or_default();
    let plain = path.to_ascii_lowercase().replace("%2e", ".");
    let plain = plain.replace("%2f", "/").replace("%5c", "/");
    plain
        .split(['/', '\\'])
        .any(|part| matches!(part.split(';').next(), Some("." | "..")))
}

/// Reader with a maximum of bytes; more bytes are an error, not an end of file.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other(format!("its answer has more than {BYTES} bytes")))?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_allowed_is_asked() {
        let services = Services::new(vec![
            "http://lab.example".into(),
            "http://other.example/data/".into(),
        ])
        .unwrap();
        for (endpoint, allowed) in [
            ("http://lab.example", true),
            ("http://lab.example/sparql", true),
            ("http://lab.example?x", true),
            ("http://lab.example.evil.org/sparql", false),
            ("http://lab.example:81/sparql", false),
            ("http://lab.example@evil.org/", false),
            ("http://other.example/data/sparql", true),
            ("http://other.example/", false),
            ("http://other.example/data/../admin", false),
            ("http://other.example/data/x/./sparql", false),
            ("http://other.example/data/%2e%2E/admin", false),
            ("http://other.example/data/..%2fadmin", false),
            ("http://other.example/data/..%5Cadmin", false),
            ("http://other.example/data\\..\\admin", false),
            ("http://other.example/data/..;x/admin", false),
            ("http://other.example/data/..", false),
            ("http://other.example/data/...?q=/../x", true),
        ] {
            assert_eq!(services.allows(endpoint), allowed, "{endpoint}");
        }
        let e = services.query_endpoint("http://no.example/", "ASK {}", &|| false);
        assert!(e.unwrap_err().contains("those allowed: http://lab.example"));
        assert!(Services::new(vec!["https://lab".into()]).is_ok());
        assert!(Services::new(vec!["https://".into()]).is_err());
        assert!(Services::new(vec!["ftp://lab".into()]).is_err());
        assert!(Services::new(vec!["http://".into()]).is_err());
    }
}
