//! Addresses of servers: `esker://host:port?tls=ca.pem&timeout=30s`.

use crate::limits::PATIENCE;
use esker_access::environment::variable;
use esker_access::{HostKey, KeyData, known_hosts};
use esker_model::{Error, Result};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Scheme of a server's address.
pub const SCHEME: &str = "esker://";
/// Port of an address without one.
pub const DEFAULT_PORT: u16 = 7400;

/// Address of a server, with the options of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address (IPv6 without brackets).
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// File of trusted certificates (PEM), for TLS.
    pub tls: Option<PathBuf>,
    /// Time for which a call is retried while the server does not respond or cannot be reached.
    pub patience: Duration,
    /// Whether the client caches locations of files and leased answers (`?cache=off` disables it).
    pub cache: bool,
    /// Authentication of server and client.
    pub trust: Trust,
    /// Server of a cluster that moves between members, found on whichever member runs it; `None` for any server.
    pub store: Option<u32>,
    /// Time limit for connecting, if shorter than `patience`.
    pub connect: Option<Duration>,
}

/// Encryption of a connection whose address names no certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encrypt {
    /// Encrypted if the server is on another machine, or asks for a key.
    #[default]
    Auto,
    /// Always encrypted (`?ssh=on`).
    Always,
    /// Never encrypted (`?plain=on`).
    Never,
}

/// Authentication of a server and its client by SSH keys.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Whether the connection is encrypted and the server identified by its host key.
    pub encrypt: Encrypt,
    /// Key to prove, instead of the user's keys (`?key=FILE`).
    pub key: Option<PathBuf>,
    /// Whether the keys of unknown servers are added to the known hosts (`?trust-new-host`).
    pub new_hosts: bool,
    /// Login name in a certificate as which the client is answered (`?user=NAME`).
    pub user: Option<String>,
    /// Whether the client proves its user by Munge instead of a key (`?auth=munge`).
    pub munge: bool,
    /// File of known hosts, instead of the user's own files (`?known-hosts=FILE`).
    pub known_hosts: Option<PathBuf>,
    /// Whether the client sends no credential, as before a login.
    pub anonymous: bool,
    /// Host key shared by all servers of a cluster, for a server that connects to another one.
    pub own: Option<HostKey>,
    /// Host keys verified so far. A server that a verified server refers to may have the same key.
    verified: Arc<Mutex<Vec<KeyData>>>,
}

impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        let settings = |t: &Self| {
            let files = (t.key.clone(), t.known_hosts.clone());
            (t.encrypt, files, t.new_hosts, t.user.clone(), t.munge)
        };
        let own = |t: &Self| t.own.as_ref().map(HostKey::fingerprint);
        settings(self) == settings(other) && own(self) == own(other)
    }
}

impl Eq for Trust {}

impl Trust {
    /// Whether this host key was verified before.
    pub(crate) fn is_verified(&self, key: &KeyData) -> bool {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        verified.contains(key)
    }

    /// Stores a verified host key.
    pub(crate) fn add_verified(&self, key: KeyData) {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if !verified.contains(&key) {
            verified.push(key);
        }
    }

    /// Whether the keys of unknown servers are accepted and stored: by the address, by `ESKER_TRUST_NEW_HOST=1`, or by
    /// the setting of
    /// the process.
    pub(crate) fn trusts_new_hosts(&self) -> bool {
        self.new_hosts
            || known_hosts::new_hosts_are_trusted()
            || variable("ESKER_TRUST_NEW_HOST").is_some_and(|v| v == "1")
    }

    /// Whether the client proves its user by Munge only: by the address, or by `ESKER_AUTH=munge`.
    pub(crate) fn is_by_munge(&self) -> bool {
        self.munge || variable("ESKER_AUTH").is_some_and(|v| v == "munge")
    }

    /// File of the key to prove: from the address or from `ESKER_KEY`.
    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        let named = || Some(PathBuf::from(variable("ESKER_KEY")?));
        self.key.clone().or_else(named)
    }
}

impl Address {
    /// Whether a target is the address of a server rather than a folder.
    pub fn is_address(target: &str) -> bool {
        target.starts_with(SCHEME)
    }

    /// Parses a server's address with its options.
    pub fn parse(target: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::Target(format!(
                "`{target}` is not an address of a server: {why}; expected esker://HOST:PORT, as \
                 in esker://127.0.0.1:7400, with ?tls=FILE for a server with certificates, \
                 ?key=FILE for the SSH key to use, ?user=NAME for the user of a certificate, ?auth=munge, ?trust-new-host, ?ssh=on, ?plain=on, \
                 ?timeout=30s for a longer wait and ?cache=off for a client without a cache"
            ))
        };
        let rest = target
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("it does not begin with esker://"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '#', '@']) {
            return Err(bad("only a host and a port are allowed there"));
        }
        let (host, port) = split(place).map_err(bad)?;
        let mut address = Self {
            host,
            port,
            tls: None,
            patience: PATIENCE,
            cache: true,
            trust: Trust::default(),
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
                Some(("key", file)) if !file.is_empty() => address.trust.key = Some(file.into()),
                Some(("known-hosts", file)) if !file.is_empty() => {
                    address.trust.known_hosts = Some(file.into());
                }
                Some(("key", _)) => return Err(bad("key needs the file of an SSH key")),
                Some(("user", name)) if esker_access::binding::is_login(name) => {
                    address.trust.user = Some(name.to_owned());
                }
                Some(("user", _)) => return Err(bad("user needs a login name")),
                Some(("auth", "munge")) => address.trust.munge = true,
                Some(("auth", _)) => {
                    return Err(bad("auth is munge; without it, a key is proved"));
                }
                Some(("ssh", "on")) => address.trust.encrypt = Encrypt::Always,
                Some(("plain", "on")) => address.trust.encrypt = Encrypt::Never,
                Some(("ssh" | "plain", "off")) => address.trust.encrypt = Encrypt::Auto,
                Some(("ssh" | "plain", _)) => return Err(bad("ssh and plain are on or off")),
                Some(("trust-new-host", "on" | "1")) | None if is_trust(option) => {
                    address.trust.new_hosts = true;
                }
                _ => {
                    return Err(bad(&format!(
                        "there is no option `{}`",
                        option.split('=').next().unwrap_or_default()
                    )));
                }
            }
        }
        if address.trust.encrypt == Encrypt::Never && !address.is_local() {
            return Err(bad(
                "plain=on is for servers on this machine: over a network others could eavesdrop and impersonate the server",
            ));
        }
        Ok(address)
    }

    /// Whether the host is this machine by its name.
    pub fn is_local(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost")
            || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
    }

    /// Whether connections are encrypted from the start, with the server identified by its host key.
    pub fn by_host_key(&self) -> bool {
        self.tls.is_none()
            && match self.trust.encrypt {
                Encrypt::Always => true,
                Encrypt::Never => false,
                Encrypt::Auto => !self.is_local(),
            }
    }

    /// The address `HOST:PORT` with the options of this one.
    pub fn with_authority(&self, to: &str) -> Option<Self> {
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

fn is_trust(option: &str) -> bool {
    option.split('=').next() == Some("trust-new-host")
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
            None => return Err("only a port may follow the bracket"),
        }
    } else {
        match place.split_once(':') {
            Some((_, text)) if text.contains(':') => {
                return Err("an IPv6 address must be in brackets");
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
        return Err("the host contains a character that is not allowed in a host name");
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
    fn other_machines_are_known_by_keys() {
        let read = |text: &str| Address::parse(text).unwrap();
        for (text, by_key) in [
            ("esker://127.0.0.1", false),
            ("esker://[::1]", false),
            ("esker://localhost", false),
            ("esker://localhost?ssh=on", true),
            ("esker://127.0.0.1?plain=on", false),
            ("esker://lab", true),
            ("esker://10.0.0.7", true),
            ("esker://lab?tls=ca.pem", false),
        ] {
            assert_eq!(read(text).by_host_key(), by_key, "{text}");
        }
        let trust = read("esker://lab?key=/k&trust-new-host").trust;
        assert_eq!(trust.key, Some("/k".into()));
        assert!(trust.new_hosts);
        assert!(trust.user.is_none() && !trust.munge);
        let trust = read("esker://lab?user=ada&auth=munge").trust;
        assert_eq!((trust.user.as_deref(), trust.munge), (Some("ada"), true));
        assert!(read("esker://lab?trust-new-host=on").trust.new_hosts);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, why) in [
            ("esker://", "there is no host"),
            ("esker://:7400", "there is no host"),
            ("esker://lab:0", "from 1 to 65535"),
            ("esker://lab:70000", "from 1 to 65535"),
            ("esker://::1:7400", "must be in brackets"),
            ("esker://[::1:7400", "not closed"),
            ("esker://lab/db", "only a host and a port"),
            ("esker://lab?tsl=x", "no option `tsl`"),
            ("esker://lab?timeout=5", "a timeout is a number"),
            ("esker://lab?cache=no", "cache is on or off"),
            ("esker://lab?plain=on", "for servers on this machine"),
            ("esker://lab?ssh=maybe", "on or off"),
            ("esker://lab?key=", "key needs"),
            ("esker://lab?user=@x", "user needs a login name"),
            ("esker://lab?auth=kerberos", "auth is munge"),
            ("esker://la b", "not allowed in a host name"),
        ] {
            let e = Address::parse(text).unwrap_err().to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
