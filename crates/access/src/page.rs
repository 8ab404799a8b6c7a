//! For which page a request was sent, as far as its headers say. A browser sends requests with the rights of its user for any page, so that
//! a process's user says nothing of such a request unless it is for a page of this server:
//!
//! - `Host` (HTTP/2: the authority) is a name of this machine. Any other may be a name that its owner made to lead here.
//! - `Origin`, which browsers send with what may change something, is the same host at the same port.
//! - `Sec-Fetch-Site`, which browsers send to hosts that they trust, says that page and server are of one origin, or that its user typed
//!   the address.
//! - No header says that the request was passed on: the process is not the sender then.

use crate::peer::is_this_machine;
use std::fmt;

/// Headers that proxies add to what they pass on.
const FORWARDED: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// What a request says of its sender.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sender<'a> {
    host: Option<&'a str>,
    authority: Option<&'a str>,
    origin: Option<&'a str>,
    site: Option<&'a str>,
    forwarded: bool,
}

/// Why a request says nothing of its process's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// It was sent to a name that is none of this machine's, or to none.
    Host,
    /// It was sent for a page of another origin.
    Page,
    /// Another program passed it on.
    Forwarded,
}

impl Foreign {
    /// One word, to count by.
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Page => "page",
            Self::Forwarded => "forwarded",
        }
    }
}

impl fmt::Display for Foreign {
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
                "this was passed on by another program (a proxy's header says so), and that program's user is not who asks"
            }
        })
    }
}

/// An origin without its scheme.
fn site_of(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, site)| site)
}

impl<'a> Sender<'a> {
    /// What a request says, by its headers and, if there is one, by its URL's authority. A header that is no text is an empty one.
    pub fn of(header: impl Fn(&str) -> Option<&'a str>, authority: Option<&'a str>) -> Self {
        Self {
            host: header("host").or(authority),
            authority,
            origin: header("origin"),
            site: header("sec-fetch-site"),
            forwarded: FORWARDED.iter().any(|name| header(name).is_some()),
        }
    }

    /// Where it was sent: host and port.
    pub fn host(&self) -> Option<&'a str> {
        self.host
    }

    /// The page that it is for, if it names one.
    pub fn origin(&self) -> Option<&'a str> {
        self.origin
    }

    /// Whether it names a page that is of another origin than the server that it was sent to.
    pub fn is_crossed(&self) -> bool {
        let crossed = |origin: &str| self.host != Some(site_of(origin));
        self.origin.is_some_and(crossed)
            || !matches!(self.site, None | Some("same-origin" | "none"))
    }

    /// Whether it was sent here, not passed on, and to a name of this machine or to one that `is_own` takes.
    pub fn is_direct(&self, is_own: impl Fn(&str) -> bool) -> Result<(), Foreign> {
        if self.forwarded {
            return Err(Foreign::Forwarded);
        }
        let here = |host: &str| is_this_machine(host) || is_own(host);
        let other = self.authority.is_some_and(|a| Some(a) != self.host);
        if other || !self.host.is_some_and(here) {
            return Err(Foreign::Host);
        }
        Ok(())
    }

    /// The same, and whether it is for no page, or for one of this server.
    pub fn is_own(&self, is_own: impl Fn(&str) -> bool) -> Result<(), Foreign> {
        self.is_direct(is_own)?;
        if self.is_crossed() {
            return Err(Foreign::Page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(headers: &[(&str, &'static str)]) -> Result<(), Foreign> {
        let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        Sender::of(header, None).is_own(|host| host == "lab.example.org:7400")
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
        use Foreign::{Forwarded, Host, Page};
        let host = ("host", "127.0.0.1:7400");
        for (foreign, why) in [
            (&[host, ("origin", "https://evil.example")][..], Page),
            (&[host, ("origin", "null")], Page),
            (&[host, ("origin", "")], Page),
            // Another program's page, of this machine or of one at the other end of an SSH tunnel.
            (&[host, ("origin", "http://127.0.0.1:8888")], Page),
            (&[host, ("origin", "http://localhost:7400")], Page),
            // A picture of a page of another site: no origin is named.
            (&[host, ("sec-fetch-site", "cross-site")], Page),
            (&[host, ("sec-fetch-site", "same-site")], Page),
            // A name that its owner made to lead here: page and server are of one origin then.
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
            // A name without a dot, which a network's resolver or a search domain gives away.
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
        let all = |authority| Sender::of(header, authority).is_own(|_| false);
        assert_eq!(all(None), Ok(()));
        assert_eq!(all(Some("localhost:7400")), Ok(()));
        assert_eq!(all(Some("evil.example")), Err(Foreign::Host));
        let only = Sender::of(|_| None, Some("localhost:7400"));
        assert_eq!(only.is_own(|_| false), Ok(()));
    }
}
