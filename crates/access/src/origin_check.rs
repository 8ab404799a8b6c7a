//! Origin check of HTTP requests. A browser sends requests with the rights of its user for any page, so the user of the sending process
//! identifies the principal only if all of these hold:
//!
//! - `Host` (HTTP/2: the authority) is a name of this machine. The owner of any other name could make it resolve to this machine.
//! - `Origin`, which browsers send with requests that may change data, has the same host and port.
//! - `Sec-Fetch-Site`, which browsers send to trustworthy hosts, says that page and server are of one origin, or that the user typed
//!   the address.
//! - No header says that a proxy forwarded the request: the sending process would not be the principal.

use crate::peer::is_this_machine;
use std::fmt;

/// Headers that proxies add to requests that they forward.
const FORWARDED: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// Headers of a request from which its origin follows.
#[derive(Debug, Clone, Copy, Default)]
pub struct OriginHeaders<'a> {
    host: Option<&'a str>,
    authority: Option<&'a str>,
    origin: Option<&'a str>,
    site: Option<&'a str>,
    forwarded: bool,
}

/// Reason why the user of the sending process is not the principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignRequest {
    /// Sent to a name that is not this machine's, or to no name.
    Host,
    /// Sent for a page of another origin.
    Page,
    /// Forwarded by a proxy.
    Forwarded,
}

impl ForeignRequest {
    /// Returns the label of the reason for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Page => "page",
            Self::Forwarded => "forwarded",
        }
    }
}

impl fmt::Display for ForeignRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => {
                "this was sent to a name that is not this machine's: use http://127.0.0.1 or http://localhost"
            }
            Self::Page => {
                "this came from a browser, for a page that is not this server's: open the server's own page, at http://127.0.0.1 or \
                 http://localhost"
            }
            Self::Forwarded => {
                "this was passed on by another program (a proxy's header says so), and that program's user is not the caller"
            }
        })
    }
}

/// Returns an origin without its scheme.
fn site_of(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, site)| site)
}

impl<'a> OriginHeaders<'a> {
    /// Reads the headers and, if there is one, the authority of the URL. A header that is not text counts as empty.
    pub fn of(header: impl Fn(&str) -> Option<&'a str>, authority: Option<&'a str>) -> Self {
        Self {
            host: header("host").or(authority),
            authority,
            origin: header("origin"),
            site: header("sec-fetch-site"),
            forwarded: FORWARDED.iter().any(|name| header(name).is_some()),
        }
    }

    /// Returns the host and port to which the request was sent.
    pub fn host(&self) -> Option<&'a str> {
        self.host
    }

    /// Returns the origin of the page, if the request names one.
    pub fn origin(&self) -> Option<&'a str> {
        self.origin
    }

    /// Whether the request names a page of another origin than the server.
    pub fn is_crossed(&self) -> bool {
        let crossed = |origin: &str| self.host != Some(site_of(origin));
        self.origin.is_some_and(crossed)
            || !matches!(self.site, None | Some("same-origin" | "none"))
    }

    /// Checks that no proxy forwarded the request and that it was sent to a name of this machine or one that `is_own` accepts.
    pub fn is_direct(&self, is_own: impl Fn(&str) -> bool) -> Result<(), ForeignRequest> {
        if self.forwarded {
            return Err(ForeignRequest::Forwarded);
        }
        let here = |host: &str| is_this_machine(host) || is_own(host);
        let other = self.authority.is_some_and(|a| Some(a) != self.host);
        if other || !self.host.is_some_and(here) {
            return Err(ForeignRequest::Host);
        }
        Ok(())
    }

    /// Checks [`Self::is_direct`] and that the request is for no page or for one of this server.
    pub fn is_own(&self, is_own: impl Fn(&str) -> bool) -> Result<(), ForeignRequest> {
        self.is_direct(is_own)?;
        if self.is_crossed() {
            return Err(ForeignRequest::Page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(headers: &[(&str, &'static str)]) -> Result<(), ForeignRequest> {
        let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        OriginHeaders::of(header, None).is_own(|host| host == "lab.example.org:7400")
    }

    #[test]
    fn pages_of_this_server_and_programs_are_its_users() {
        for own in [
            &[("host", "127.0.0.1:7400")][..],
            &[("host", "localhost:7400")],
            &[("host", "[::1]:7400"), ("origin", "http://[::1]:7400")],
            &[
                ("host", "127.0.0.2:7400"),
                ("content-type", "application/grpc"),
            ],
            &[("host", "lab.example.org:7400")],
            &[
                ("host", "localhost:7400"),
                ("origin", "http://localhost:7400"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("host", "localhost:7400"), ("sec-fetch-site", "none")],
        ] {
            assert_eq!(looked(own), Ok(()), "{own:?}");
        }
    }

    #[test]
    fn other_pages_names_and_proxies_are_not() {
        use ForeignRequest::{Forwarded, Host, Page};
        let host = ("host", "127.0.0.1:7400");
        for (foreign, why) in [
            (&[host, ("origin", "https://evil.example")][..], Page),
            (&[host, ("origin", "null")], Page),
            (&[host, ("origin", "")], Page),
            // Another program's page, of this machine or of one at the other end of an SSH tunnel.
            (&[host, ("origin", "http://127.0.0.1:8888")], Page),
            (&[host, ("origin", "http://localhost:7400")], Page),
            // An image on a page of another site: the request has no `Origin`.
            (&[host, ("sec-fetch-site", "cross-site")], Page),
            (&[host, ("sec-fetch-site", "same-site")], Page),
            // A foreign name that resolves to this machine: page and server have one origin then.
            (
                &[
                    ("host", "evil.example:7400"),
                    ("origin", "http://evil.example:7400"),
                    ("sec-fetch-site", "same-origin"),
                    ("content-type", "application/grpc"),
                ],
                Host,
            ),
            (&[("host", "127.0.0.1.evil.example")], Host),
            (&[("host", "0.0.0.0:7400")], Host),
            // A name without a dot, which a network's resolver or a search domain controls.
            (&[("host", "esker:7400")], Host),
            (&[("host", "lab.example.org:7401")], Host),
            (&[], Host),
            (&[("host", "")], Host),
            (&[host, ("x-forwarded-for", "10.0.0.7")], Forwarded),
            (&[host, ("forwarded", "for=10.0.0.7")], Forwarded),
            (&[host, ("via", "1.1 proxy")], Forwarded),
        ] {
            assert_eq!(looked(foreign), Err(why), "{foreign:?}");
        }
    }

    #[test]
    fn a_url_and_a_header_that_name_two_hosts_are_refused() {
        let header = |name: &str| (name == "host").then_some("localhost:7400");
        let all = |authority| OriginHeaders::of(header, authority).is_own(|_| false);
        assert_eq!(all(None), Ok(()));
        assert_eq!(all(Some("localhost:7400")), Ok(()));
        assert_eq!(all(Some("evil.example")), Err(ForeignRequest::Host));
        let only = OriginHeaders::of(|_| None, Some("localhost:7400"));
        assert_eq!(only.is_own(|_| false), Ok(()));
    }
}
