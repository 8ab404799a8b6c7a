//! Where an origin is: `scheme://[user@]host[:port]`, and a path below it.

use crate::error::{Error, Result};
use std::fmt;
use url::Url;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// FTP, RFC 959 and 3659.
    Ftp,
    /// FTP over TLS, RFC 4217.
    Ftps,
    /// GridFTP, GFD.20: FTP whose control channel answers listings.
    GridFtp,
    /// SFTP, version 3, over SSH.
    Sftp,
    /// iRODS.
    Irods,
    /// WebDAV over HTTP.
    Dav,
    /// WebDAV over HTTPS.
    Davs,
    /// S3 and what speaks like it; the host is the bucket.
    S3,
    /// A folder of this machine.
    File,
    /// Another Esker.
    Esker,
    /// Another Esker, over TLS.
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
    /// Its name in front of `://`.
    pub fn name(self) -> &'static str {
        let found = SCHEMES.iter().find(|(_, scheme, _)| *scheme == self);
        found.map_or("", |(name, ..)| name)
    }

    /// The port where nothing else is said.
    pub fn port(self) -> u16 {
        let found = SCHEMES.iter().find(|(_, scheme, _)| *scheme == self);
        found.map_or(0, |(.., port)| *port)
    }

    fn of(name: &str) -> Option<Self> {
        let found = SCHEMES.iter().find(|(known, ..)| *known == name);
        found.map(|(_, scheme, _)| *scheme)
    }
}

/// An origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// As whom, if the URL says it.
    pub user: Option<Box<str>>,
    /// Name or address; empty for a folder of this machine.
    pub host: Box<str>,
    /// The port; the scheme's own if the URL says none.
    pub port: u16,
}

impl Place {
    /// An origin and the path behind it, from a URL. `%20` is a space, as in all URLs; a password is refused, for it would be
    /// seen by whoever lists processes.
    pub fn parse(text: &str) -> Result<(Self, Vec<u8>)> {
        let bad = |why: &str| Error::Named {
            what: text.into(),
            why: why.into(),
        };
        let url = Url::parse(text).map_err(|e| bad(&format!("{e}; give SCHEME://HOST/PATH")))?;
        let scheme = Scheme::of(url.scheme()).ok_or_else(|| {
            let all: Vec<&str> = SCHEMES.iter().map(|(name, ..)| *name).collect();
            bad(&format!("no such protocol; there are {}", all.join(", ")))
        })?;
        if url.password().is_some() {
            let mut shown = url.clone();
            // The text of the error must not have it either.
            if shown.set_password(None).is_err() {
                shown = Url::parse("ftp://host/").map_err(|e| bad(&e.to_string()))?;
            }
            return Err(Error::Named {
                what: shown.as_str().into(),
                why: "it has a password, which does not go into a URL, where all can see it; put it into ~/.netrc, or use a key or an \
                      agent"
                    .into(),
            });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad(
                "? and # are part of no path in a URL; write %3F and %23",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() != (scheme == Scheme::File) {
            return Err(bad(match scheme {
                Scheme::File => "a folder of this machine has no host: file:///PATH",
                _ => "it names no host: SCHEME://HOST/PATH",
            }));
        }
        let user = percent(url.username().as_bytes());
        let user = String::from_utf8(user).map_err(|_| bad("the user's name is not UTF-8"))?;
        if user.chars().any(char::is_control) {
            return Err(bad("the user's name has control characters"));
        }
        let place = Self {
            scheme,
            user: (!user.is_empty()).then(|| user.into()),
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: url.port().unwrap_or(scheme.port()),
        };
        let mut path = percent(url.path().as_bytes());
        if path.is_empty() {
            path.push(b'/');
        }
        if path.contains(&0) {
            return Err(bad("a path has no zero bytes"));
        }
        Ok((place, path))
    }

    /// Whether a text begins like a URL that is not one of Esker's own targets, be its protocol known or not.
    pub fn is_meant(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(letter)
                && Scheme::of(scheme) != Some(Scheme::Esker)
        })
    }

    /// `host:port`, with brackets around addresses of IPv6.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The one way to write an origin, without its path: what caches know it by.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        if let Some(user) = &self.user {
            write!(f, "{}@", escaped(user.as_bytes(), b""))?;
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

/// `%41` becomes `A`; a `%` that two hexadecimal digits do not follow stands for itself.
pub fn percent(text: &[u8]) -> Vec<u8> {
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

/// The other way: letters, digits, `-._~` and `keep` stay as they are.
pub fn escaped(bytes: &[u8], keep: &[u8]) -> String {
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
            assert!(Place::is_meant(far), "{far}");
        }
        for own in [
            "esker://h:1",
            "lab.esker",
            "a/b://c",
            "://x",
            "1://x",
            "file:/x",
        ] {
            assert!(!Place::is_meant(own), "{own}");
        }
    }

    #[test]
    fn urls_name_origins_and_paths() {
        let (place, path) = Place::parse("gsiftp://ann@grid.example:2812/a%20b//c").unwrap();
        assert_eq!(place.to_string(), "gridftp://ann@grid.example:2812");
        assert_eq!(path, b"/a b//c");
        let (place, path) = Place::parse("sftp://host").unwrap();
        assert_eq!(
            (place.to_string().as_str(), &path[..]),
            ("sftp://host", &b"/"[..])
        );
        let (place, _) = Place::parse("ftp://[::1]:2121/x").unwrap();
        assert_eq!(place.to_string(), "ftp://[::1]:2121");
        assert_eq!(place.authority(), "[::1]:2121");
        let (place, path) = Place::parse("file:///data/%FF").unwrap();
        assert_eq!(
            (place.to_string().as_str(), &path[..]),
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
            let error = Place::parse(bad).unwrap_err().to_string();
            assert!(
                error.starts_with('`') && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
