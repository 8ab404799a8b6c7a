//! Client of other servers: SPARQL endpoints for `SERVICE`, documents for `LOAD`. It sends requests to allowed IRIs only, with a time limit and
//! bounded results.

use esker_model::{Error, Result};
use esker_rdf::{Dataset, Load, Solutions};

#[cfg(feature = "remote")]
mod request;

/// IRIs of other servers that requests may name: endpoints that queries may call, or documents that updates may load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services {
    /// Allowed prefixes of IRIs.
    allowed: Vec<String>,
}

impl Services {
    /// Allows IRIs with one of these prefixes, up to the end of a path segment: `http://lab` does not match
    /// `http://lab.example`.
    pub fn new(allowed: Vec<String>) -> Result<Self> {
        for prefix in &allowed {
            let host = prefix
                .strip_prefix("http://")
                .or_else(|| prefix.strip_prefix("https://"));
            if host.is_none_or(str::is_empty) {
                return Err(Error::Invalid(format!(
                    "`{prefix}` is not the beginning of a server's IRI; expected one as in https://lab.example/sparql"
                )));
            }
        }
        Ok(Self { allowed })
    }

    /// Whether no IRI is allowed.
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
        request::send(endpoint, query, stop)
    }

    /// Reads an allowed document. Redirections lead to allowed documents only.
    pub fn read_document(
        &self,
        load: &Load<'_>,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<Dataset, String> {
        request::read_document(self, load, stop)
    }

    /// Refuses a document that is not allowed.
    #[cfg(feature = "remote")]
    fn check_document(&self, iri: &str) -> std::result::Result<(), String> {
        if self.allows(iri) {
            return Ok(());
        }
        let list = match self.allowed.as_slice() {
            [] => "none (--allow-load, or sparql.load of a server)".to_owned(),
            list => list.join(", "),
        };
        Err(format!(
            "<{iri}> is not one of the documents allowed: {list}"
        ))
    }
}

/// Refuses requests.
#[cfg(not(feature = "remote"))]
mod request {
    use super::Services;
    use esker_rdf::{Dataset, Load, Solutions};

    pub(super) fn send(
        endpoint: &str,
        _query: &str,
        _stop: &dyn Fn() -> bool,
    ) -> Result<Solutions, String> {
        Err(left_out(endpoint))
    }

    pub(super) fn read_document(
        _: &Services,
        load: &Load<'_>,
        _stop: &dyn Fn() -> bool,
    ) -> Result<Dataset, String> {
        Err(left_out(load.iri))
    }

    fn left_out(iri: &str) -> String {
        crate::left_out("remote", &format!("`{iri}` is on a server")).to_string()
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
