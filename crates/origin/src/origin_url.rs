//! URLs of origins: `scheme://[user@]host[:port]` and a path.

use crate::error::{Error, Result};
use std::fmt;
use url::Url;

/// The protocol of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// FTP (RFC 959 and 3659).
    Ftp,
    /// FTP over TLS (RFC 4217).
    Ftps,
    /// GridFTP (GFD.20): FTP with listings on the control channel.
    GridFtp,
    /// SFTP version 3 over SSH.
    Sftp,
    /// The iRODS protocol in XML.
    Irods,
    /// WebDAV over plain HTTP.
    Dav,
    /// WebDAV over HTTPS (TLS).
    Davs,
    /// S3 and compatible services; the host is the bucket.
    S3,
    /// A folder of this machine.
    File,
    /// Another Esker server or cluster.
    Esker,
    /// Another Esker server or cluster, over TLS.
    EskerTls,
}

const SCHEMES: [(&str, Scheme, u16); 13] = [
    ("ftp", Scheme::Ftp, 21),
    ("ftps", Scheme::Ftps, 21),
    ("gridftp", Scheme::GridFtp, 2811),
    ("gsiftp", Scheme::GridFtp, 2811),
    ("sftp", Scheme::Sftp, 22),
    ("irods", Scheme::Irods, 1247),
    ("dav", Scheme::Dav, 80),
    ("davs", Scheme::Davs, 443),
    ("webdav", Scheme::Dav, 80),
    ("s3", Scheme::S3, 443),
    ("file", Scheme::File, 0),
    ("esker", Scheme::Esker, 7400),
    ("esker+tls", Scheme::EskerTls, 7400),
];

impl Scheme {
    /// Returns the scheme's name before `://`.
    pub fn name(self) -> &'static str {
        let found = SCHEMES.iter().find(|(_, scheme, _)| *scheme == self);
        found.map_or("", |(name, ..)| name)
    }

    /// Returns the default port of the scheme.
    pub fn port(self) -> u16 {
        let found = SCHEMES.iter().find(|(_, scheme, _)| *scheme == self);
        found.map_or(0, |(.., port)| *port)
    }

    fn of(name: &str) -> Option<Self> {
        let found = SCHEMES.iter().find(|(known, ..)| *known == name);
        found.map(|(_, scheme, _)| *scheme)
    }
}

/// An origin's address: the URL without a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    /// The protocol of the origin.
    pub scheme: Scheme,
    /// The user name, if the URL has one.
    pub user: Option<Box<str>>,
    /// Host name or address; empty for a folder of this machine.
    pub host: Box<str>,
    /// The port; the scheme's default if the URL has none.
    pub port: u16,
}

impl OriginUrl {
    /// Parses a URL into origin and path; `%20` is a space, as in all URLs.
    ///
    /// # Errors
    /// Returns `InvalidName` for an invalid URL, and for one with a password, which any user who lists processes could see.
    pub fn parse(text: &str) -> Result<(Self, Vec<u8>)> {
        let bad = |why: &str| Error::InvalidName {
            what: text.into(),
            why: why.into(),
        };
        let url = Url::parse(text).map_err(|e| bad(&format!("{e}; give SCHEME://HOST/PATH")))?;
        let scheme = Scheme::of(url.scheme()).ok_or_else(|| {
            let all: Vec<&str> = SCHEMES.iter().map(|(name, ..)| *name).collect();
            bad(&format!("no such protocol; there are {}", all.join(", ")))
        })?;
        if url.password().is_some() {
            let mut redacted = url.clone();
            // The error message must not contain the password.
            if redacted.set_password(None).is_err() {
                redacted = Url::parse("ftp://host/").map_err(|e| bad(&e.to_string()))?;
            }
            return Err(Error::InvalidName {
                what: redacted.as_str().into(),
                why: "it has a password, which others can see in a URL; put it into ~/.netrc, or \
                      use a key or an agent"
                    .into(),
            });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad(
                "? and # cannot be part of a path in a URL; write %3F and %23",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() != (scheme == Scheme::File) {
            return Err(bad(match scheme {
                Scheme::File => "a folder of this machine has no host: file:///PATH",
                _ => "it names no host: SCHEME://HOST/PATH",
            }));
        }
        let user = percent_decode(url.username().as_bytes());
        let user = String::from_utf8(user).map_err(|_| bad("the user's name is not UTF-8"))?;
        if user.chars().any(char::is_control) {
            return Err(bad("the user's name has control characters"));
        }
        let origin_url = Self {
            scheme,
            user: (!user.is_empty()).then(|| user.into()),
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: url.port().unwrap_or(scheme.port()),
        };
        let mut path = percent_decode(url.path().as_bytes());
        if path.is_empty() {
            path.push(b'/');
        }
        if path.contains(&0) {
            return Err(bad("a path has no zero bytes"));
        }
        Ok((origin_url, path))
    }

    /// Whether a text begins like a URL, known scheme or not, but is not a target `esker://HOST:PORT`.
    pub fn looks_like_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(letter)
                && Scheme::of(scheme) != Some(Scheme::Esker)
        })
    }

    /// Returns `host:port`, with brackets around IPv6 addresses.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The canonical URL without a path; caches use it as key.
impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        if let Some(user) = &self.user {
            write!(f, "{}@", percent_encode(user.as_bytes(), b""))?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            write!(f, "{}", self.host)?;
        }
        if self.port != self.scheme.port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

/// Decodes percent-encoding: `%41` becomes `A`; a `%` without two hexadecimal digits stays.
pub fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let digit = |at: usize| more.get(at).and_then(|b| char::from(*b).to_digit(16));
        if *first == b'%'
            && let (Some(high), Some(low)) = (digit(0), digit(1))
        {
            out.push((high * 16 + low) as u8);
            rest = &more[2..];
        } else {
            out.push(*first);
            rest = more;
        }
    }
    out
}

/// Percent-encodes all bytes except letters, digits, `-._~` and those in `keep`.
pub fn percent_encode(bytes: &[u8], keep: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for b in bytes {
        if b.is_ascii_alphanumeric() || b"-._~".contains(b) || keep.contains(b) {
            out.push(char::from(*b));
        } else {
            out.push('%');
            out.extend([b >> 4, b & 15].map(|d| char::from(b"0123456789ABCDEF"[d as usize])));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_far_file_is_taken_for_one() {
        for far in ["sftp://h/x", "esker+tls://h/x", "nfs://h", "file:///x"] {
            assert!(OriginUrl::looks_like_url(far), "{far}");
        }
        for own in [
            "esker://h:1",
            "lab.esker",
            "a/b://c",
            "://x",
            "1://x",
            "file:/x",
        ] {
            assert!(!OriginUrl::looks_like_url(own), "{own}");
        }
    }

    #[test]
    fn urls_name_origins_and_paths() {
        let (origin_url, path) =
            OriginUrl::parse("gsiftp://ann@grid.example:2812/a%20b//c").unwrap();
        assert_eq!(origin_url.to_string(), "gridftp://ann@grid.example:2812");
        assert_eq!(path, b"/a b//c");
        let (origin_url, path) = OriginUrl::parse("sftp://host").unwrap();
        assert_eq!(
            (origin_url.to_string().as_str(), &path[..]),
            ("sftp://host", &b"/"[..])
        );
        let (origin_url, _) = OriginUrl::parse("ftp://[::1]:2121/x").unwrap();
        assert_eq!(origin_url.to_string(), "ftp://[::1]:2121");
        assert_eq!(origin_url.authority(), "[::1]:2121");
        let (origin_url, path) = OriginUrl::parse("file:///data/%FF").unwrap();
        assert_eq!(
            (origin_url.to_string().as_str(), &path[..]),
            ("file://", &b"/data/\xff"[..])
        );
        for bad in [
            "x",
            "gopher://h/",
            "sftp:///x",
            "file://h/x",
            "ftp://u:secret@h/",
            "ftp://h/a?b",
            "ftp://h/%00",
            "ftp://a%0db@h/",
        ] {
            let error = OriginUrl::parse(bad).unwrap_err().to_string();
            assert!(
                error.starts_with('`') && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
