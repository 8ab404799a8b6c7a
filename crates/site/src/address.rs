//! The address of a tier: `http://127.0.0.1:PORT` or `unix:/PATH` on this machine, `esker://HOST:PORT` on any machine.

use esker_access::peer::is_this_machine;
use esker_rpc::http::Place;
use esker_rpc::{Address, address::SCHEME};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What the address of a socket of this machine begins with.
const UNIX: &str = "unix:";

/// The address of a tier, and how its client and the tier know each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TierAddress {
    /// `http://HOST:PORT` at a loopback address: not encrypted, the kernel says whose each end is.
    Loopback {
        /// `HOST:PORT`.
        authority: String,
    },
    /// `unix:/PATH`: a socket, the kernel says whose each end is.
    Unix(PathBuf),
    /// `esker://HOST:PORT?OPTIONS`: over TLS, the tier proves its host key and the client a key of SSH.
    Keyed(Box<Address>),
}

/// The files by which a tier proves itself to the tiers above and knows them, where an address names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// The private key of SSH to prove; none: the user's agent, then the keys in `~/.ssh`.
    pub key: Option<PathBuf>,
    /// The file of host keys that are known; none: the user's own files.
    pub known_hosts: Option<PathBuf>,
}

impl TierAddress {
    /// Reads an address; an error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(format!(
                    "`{text}` is no tier's address: the path of a socket is absolute, as in unix:/run/user/1000/site.sock"
                ))
            };
        }
        if text.starts_with(SCHEME) {
            let mut address = Address::parse(text).map_err(|e| e.to_string())?;
            // Without a key nobody is known: what `http://` is for has its own way.
            address.trust.encrypt = esker_rpc::address::Encrypt::Always;
            return Ok(Self::Keyed(Box::new(address)));
        }
        let wrong = || {
            format!(
                "`{text}` is no tier's address; give http://127.0.0.1:PORT or unix:/PATH for a tier on this machine, \
                 esker://HOST:PORT for one on another"
            )
        };
        let url = url::Url::parse(text).map_err(|_| wrong())?;
        let host = url.host_str().filter(|_| url.scheme() == "http");
        let host = host.ok_or_else(wrong)?;
        let port = url.port().unwrap_or(80);
        if url.path() != "/" || url.query().is_some() || !url.username().is_empty() {
            return Err(wrong());
        }
        if !is_this_machine(host) {
            return Err(format!(
                "`{text}` is a tier on another machine: others could read what goes there by http://, and answer in its place; \
                 give esker://{host}:{port}, or http://127.0.0.1:{port} through `ssh -L {port}:127.0.0.1:{port} {host}`"
            ));
        }
        Ok(Self::Loopback {
            authority: format!("{host}:{port}"),
        })
    }

    /// The same, where it names no files of keys with these.
    #[must_use]
    pub fn with(mut self, files: &KeyFiles) -> Self {
        if let Self::Keyed(address) = &mut self {
            let trust = &mut address.trust;
            trust.key = trust.key.take().or_else(|| files.key.clone());
            trust.known_hosts = trust
                .known_hosts
                .take()
                .or_else(|| files.known_hosts.clone());
        }
        self
    }

    /// Whether it has options, which say whom to trust.
    pub fn has_options(text: &str) -> bool {
        text.contains('?')
    }

    /// Where requests of HTTP go; `patience` is how long it may take to connect.
    pub fn place(&self, patience: Duration) -> Place {
        match self {
            Self::Unix(path) => Place::Unix(path.clone()),
            Self::Keyed(address) => {
                let mut address = (**address).clone();
                address.patience = address.patience.min(patience);
                Place::from(&address)
            }
            Self::Loopback { authority } => {
                let host = authority.rsplit_once(':').map_or("", |(host, _)| host);
                Place::Tcp {
                    authority: authority.clone(),
                    tls: None,
                    host: host.trim_matches(['[', ']']).to_owned(),
                    patience,
                    esker: None,
                }
            }
        }
    }
}

impl fmt::Display for TierAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback { authority } => write!(f, "http://{authority}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
            Self::Keyed(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let shown = |text: &str| TierAddress::parse(text).map(|a| a.to_string());
        for (text, is) in [
            ("http://127.0.0.1:7500", "http://127.0.0.1:7500"),
            ("http://localhost:7500/", "http://localhost:7500"),
            ("http://[::1]:7500", "http://[::1]:7500"),
            ("unix:/run/site.sock", "unix:/run/site.sock"),
            ("unix:///run/site.sock", "unix:/run/site.sock"),
            (
                "esker://edge.example:7500?trust-new-host",
                "esker://edge.example:7500",
            ),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(is));
        }
        for (text, why) in [
            ("nonsense", "is no tier's address"),
            ("https://127.0.0.1:7500", "is no tier's address"),
            ("http://127.0.0.1:7500/x", "is no tier's address"),
            ("http://edge.example:7500", "give esker://edge.example:7500"),
            ("http://10.0.0.1:7500", "others could read"),
            ("unix:site.sock", "is absolute"),
            ("esker://edge:7500?colour=red", "no option `colour`"),
            ("esker://edge:7500?plain=on", "plain=on is for"),
        ] {
            let refused = shown(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        // On this machine, too, a key is proved where the address says `esker://`.
        let TierAddress::Keyed(address) = TierAddress::parse("esker://127.0.0.1:1").unwrap() else {
            panic!("a keyed address");
        };
        assert!(address.by_host_key());
    }
}
