//! Where a server is: `esker://host:port?tls=ca.pem&timeout=30s`.

use crate::limits::PATIENCE;
use esker_model::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What the address of a server begins with.
pub const SCHEME: &str = "esker://";
/// The port where the address names none.
pub const DEFAULT_PORT: u16 = 7400;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name, or an IP address (IPv6 without brackets).
    pub host: String,
    /// The port.
    pub port: u16,
    /// With TLS: the certificates (PEM) that are trusted.
    pub tls: Option<PathBuf>,
    /// How long to bear with a server that does not answer or cannot be reached any more.
    pub patience: Duration,
    /// Whether a client remembers where files are and what it was promised (`?cache=off` for doubters).
    pub cache: bool,
    /// Of a cluster whose stores move: which of them is meant, whoever has it by now. Nothing for any that is there.
    pub store: Option<u32>,
    /// How long a connection may take to come about, if less than patience says.
    pub connect: Option<Duration>,
}

impl Address {
    /// Whether a target is the address of a server rather than a folder.
    pub fn is_address(target: &str) -> bool {
        target.starts_with(SCHEME)
    }

    /// Reads an address.
    pub fn parse(target: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::Target(format!(
                "`{target}` is no address of a server: {why}; expected esker://HOST:PORT, as in esker://127.0.0.1:7400, \
                 with ?tls=FILE for TLS, ?timeout=30s for patience and ?cache=off for a client that remembers nothing"
            ))
        };
        let rest = target
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("it does not begin with esker://"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '#', '@']) {
            return Err(bad("nothing but a host and a port may stand there"));
        }
        let (host, port) = split(place).map_err(bad)?;
        let mut address = Self {
            host,
            port,
            tls: None,
            patience: PATIENCE,
            cache: true,
            store: None,
            connect: None,
        };
        for option in options.split('&').filter(|o| !o.is_empty()) {
            match option.split_once('=') {
                Some(("tls", file)) if !file.is_empty() => address.tls = Some(file.into()),
                Some(("timeout", time)) => {
                    address.patience = duration(time)
                        .ok_or_else(|| bad("a timeout is a number and ms, s or m, as in 30s"))?;
                }
                Some(("cache", "on")) => address.cache = true,
                Some(("cache", "off")) => address.cache = false,
                Some(("cache", _)) => return Err(bad("cache is on or off")),
                Some(("tls", _)) => {
                    return Err(bad("tls needs the file of certificates to trust"));
                }
                _ => {
                    return Err(bad(&format!(
                        "there is no option `{}`",
                        option.split('=').next().unwrap_or_default()
                    )));
                }
            }
        }
        Ok(address)
    }

    /// The same options for another `HOST:PORT`.
    pub fn moved(&self, to: &str) -> Option<Self> {
        let (host, port) = split(to).ok()?;
        Some(Self {
            host,
            port,
            ..self.clone()
        })
    }

    /// `host:port`, as connections and messages name it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// `esker://host:port`, without options.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.authority())
    }
}

fn split(place: &str) -> Result<(String, u16), &'static str> {
    const PORT: &str = "a port is a number from 1 to 65535";
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(PORT),
        Ok(port) => Ok(port),
    };
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or("the bracket around the IPv6 address is not closed")?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err("there is no IPv6 address between the brackets");
        }
        match rest.strip_prefix(':') {
            Some(text) => (host, port(text)?),
            None if rest.is_empty() => (host, DEFAULT_PORT),
            None => return Err("only a port may stand behind the bracket"),
        }
    } else {
        match place.split_once(':') {
            Some((_, text)) if text.contains(':') => {
                return Err("an IPv6 address stands in brackets");
            }
            Some((host, text)) => (host, port(text)?),
            None => (place, DEFAULT_PORT),
        }
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() {
        return Err("there is no host");
    }
    if !host.chars().all(good) {
        return Err("the host holds a character that no host's name has");
    }
    Ok((host.to_owned(), port))
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => number,
        "s" => number.checked_mul(1_000)?,
        "m" => number.checked_mul(60_000)?,
        _ => return None,
    };
    (1..=86_400_000)
        .contains(&millis)
        .then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| {
            let a = Address::parse(text).unwrap();
            (a.authority(), a.tls, a.patience.as_millis())
        };
        assert_eq!(
            read("esker://127.0.0.1:7400"),
            ("127.0.0.1:7400".into(), None, 30_000)
        );
        assert_eq!(read("esker://lab/"), ("lab:7400".into(), None, 30_000));
        assert_eq!(
            read("esker://[::1]:9?tls=/etc/ca.pem&timeout=5s"),
            ("[::1]:9".into(), Some("/etc/ca.pem".into()), 5_000)
        );
    }

    #[test]
    fn caches_are_on_unless_they_are_turned_off() {
        let cache = |text: &str| Address::parse(text).unwrap().cache;
        assert!(cache("esker://lab"));
        assert!(cache("esker://lab?cache=on"));
        assert!(!cache("esker://lab?timeout=5s&cache=off"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, why) in [
            ("esker://", "there is no host"),
            ("esker://:7400", "there is no host"),
            ("esker://lab:0", "from 1 to 65535"),
            ("esker://lab:70000", "from 1 to 65535"),
            ("esker://::1:7400", "stands in brackets"),
            ("esker://[::1:7400", "not closed"),
            ("esker://lab/db", "nothing but a host"),
            ("esker://lab?tsl=x", "no option `tsl`"),
            ("esker://lab?timeout=5", "a timeout is a number"),
            ("esker://lab?cache=no", "cache is on or off"),
            ("esker://la b", "a character that no host's name has"),
        ] {
            let e = Address::parse(text).unwrap_err().to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
