//! Address of a tier: `http://127.0.0.1:PORT` or `unix:/PATH` on this machine, `esker://HOST:PORT` on any machine.

use esker_access::peer::is_this_machine;
use esker_rpc::http::Endpoint;
use esker_rpc::{Address, address::SCHEME};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Prefix of the address of a Unix socket.
const UNIX: &str = "unix:";

/// Address of a tier, which determines how client and tier authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TierAddress {
    /// `http://HOST:PORT` at a loopback address: unencrypted, the kernel reports the user of each end.
    Loopback {
        /// Host and port, `HOST:PORT`.
        authority: String,
    },
    /// `unix:/PATH`: a socket, the kernel reports the user of each end.
    Unix(PathBuf),
    /// `esker://HOST:PORT?OPTIONS`: over TLS, the tier proves its host key and the client an SSH key.
    Keyed(Box<Address>),
}

/// Key files that a tier uses for upstream tiers if their address names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// Private SSH key to prove; `None` for the user's agent, then the keys in `~/.ssh`.
    pub key: Option<PathBuf>,
    /// File of known host keys; `None` for the user's own files.
    pub known_hosts: Option<PathBuf>,
}

impl TierAddress {
    /// Parses an address; the error describes the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(format!(
                    "`{text}` is not a tier's address: the path of a socket is absolute, as in unix:/run/user/1000/site.sock"
                ))
            };
        }
        if text.starts_with(SCHEME) {
            let mut address = Address::parse(text).map_err(|e| e.to_string())?;
            // Both ends must be authenticated by keys; unencrypted access is by `http://` only.
            address.trust.encrypt = esker_rpc::address::Encrypt::Always;
            return Ok(Self::Keyed(Box::new(address)));
        }
        let wrong = || {
            format!(
                "`{text}` is not a tier's address; give http://127.0.0.1:PORT or unix:/PATH for a \
                 tier on this machine, esker://HOST:PORT for one on another"
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
                "`{text}` is a tier on another machine: others could read what is sent there by \
                 http://, and answer in its place; give esker://{host}:{port}, or \
                 http://127.0.0.1:{port} through `ssh -L {port}:127.0.0.1:{port} {host}`"
            ));
        }
        Ok(Self::Loopback {
            authority: format!("{host}:{port}"),
        })
    }

    /// Sets the key files unless the address names its own.
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

    /// Whether the address has options, which select trusted keys.
    pub fn has_options(text: &str) -> bool {
        text.contains('?')
    }

    /// Returns the endpoint of HTTP requests; `patience` is the connect timeout.
    pub fn endpoint(&self, patience: Duration) -> Endpoint {
        match self {
            Self::Unix(path) => Endpoint::Unix(path.clone()),
            Self::Keyed(address) => {
                let mut address = (**address).clone();
                address.patience = address.patience.min(patience);
                Endpoint::from(&address)
            }
            Self::Loopback { authority } => {
                let host = authority.rsplit_once(':').map_or("", |(host, _)| host);
                Endpoint::Tcp {
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
            ("nonsense", "is not a tier's address"),
            ("https://127.0.0.1:7500", "is not a tier's address"),
            ("http://127.0.0.1:7500/x", "is not a tier's address"),
            ("http://edge.example:7500", "give esker://edge.example:7500"),
            ("http://10.0.0.1:7500", "others could read"),
            ("unix:site.sock", "is absolute"),
            ("esker://edge:7500?colour=red", "no option `colour`"),
            ("esker://edge:7500?plain=on", "plain=on is for"),
        ] {
            let refused = shown(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        // `esker://` requires a key on this machine, too.
        let TierAddress::Keyed(address) = TierAddress::parse("esker://127.0.0.1:1").unwrap() else {
            panic!("a keyed address");
        };
        assert!(address.by_host_key());
    }
}
