//! `site.toml`: the configuration of a tier's cache, upstream and address.

use crate::address::{KeyFiles, TierAddress};
use crate::listen::{Listening, socket};
use crate::upstream::Rules;
use esker_access::slots::CONNECTIONS;
use esker_config::etcd::{EtcdTrust, URLS, is_url};
use esker_config::{
    COUNT, DeValue, Key, KeySink, SIZE, Source, TIME, count, integer, size, take_by, text, texts,
    time,
};
use esker_model::{Error, Result};
use esker_origin::Settings as OriginSettings;
use esker_site_cache::cache::Policy;
use esker_site_cache::predict::PredictorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default address of a tier.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7500";

/// Maximum of the setting `connections`.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Configuration of a tier.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the tier, for display and for upstream tiers.
    pub name: String,
    /// Listening address: `HOST:PORT` or `unix:/PATH`.
    pub listen: String,
    /// Address at which others reach it, if different from `listen`.
    pub advertise: Option<String>,
    /// Maximum number of connections; the owner's processes get some more.
    pub connections: usize,
    /// Maximum number of connections of one address, of one local user, or of one key; 0 for half of all.
    pub connections_each: usize,
    /// Folder of the host key and of the rights of keys and tokens; `None` for `~/.esker/site` if it is reachable from other machines,
    /// otherwise for no keys.
    pub access_folder: Option<PathBuf>,
    /// Key files for upstream tiers.
    pub keys: KeyFiles,
    /// Addresses of the upstream tiers. Without any, it queries origins itself.
    pub parents: Vec<String>,
    /// Members of etcd, if the pool of upstream tiers, or its own pool, is kept there.
    pub etcd: Vec<String>,
    /// Credentials and trusted certificates for etcd.
    pub etcd_trust: EtcdTrust,
    /// Name of the pool in etcd.
    pub pool: Option<String>,
    /// For a member of the pool without a cache: number of services, each with one connection and one request at a time.
    pub services: Option<usize>,
    /// Capacity of the cache in memory, in bytes.
    pub memory_bytes: u64,
    /// Replacement policy of the cache.
    pub policy: Policy,
    /// Predictor that selects prefetches.
    pub predictor: PredictorKind,
    /// Number of misses in a directory before a predictor lists it.
    pub threshold: Option<u32>,
    /// Initial time to live of an answer without invalidations.
    pub ttl: Duration,
    /// Maximum time to live of an answer that never changes.
    pub ttl_most: Duration,
    /// Folder of the cache on disk.
    pub disk: Option<PathBuf>,
    /// Capacity of the cache on disk, in bytes.
    pub disk_bytes: u64,
    /// Maximum number of upstream requests in flight.
    pub running: usize,
    /// Allowed origins and connection settings.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "site".into(),
            listen: LISTEN_DEFAULT.into(),
            advertise: None,
            connections: CONNECTIONS,
            connections_each: 0,
            access_folder: None,
            keys: KeyFiles::default(),
            parents: Vec::new(),
            etcd: Vec::new(),
            etcd_trust: EtcdTrust::default(),
            pool: None,
            services: None,
            memory_bytes: 256 << 20,
            policy: Policy::Lru,
            predictor: PredictorKind::Guarded,
            threshold: None,
            ttl: Duration::from_secs(10),
            ttl_most: Duration::from_mins(10),
            disk: None,
            disk_bytes: 4 << 30,
            running: 4096,
            rules: Rules {
                allow: Vec::new(),
                clear_passwords: Vec::new(),
                default_login: false,
                settings: OriginSettings::default(),
            },
        }
    }
}

const TIERS: &str = "a list of tiers' addresses, as in [\"esker://fog.example.org:7500\"]; on this machine http://127.0.0.1:PORT or \
                     unix:/PATH";

fn tiers(value: &DeValue<'_>) -> Option<Vec<String>> {
    let list = texts(value)?;
    let good = |u: &String| TierAddress::parse(u).is_ok();
    list.iter().all(good).then_some(list)
}

/// Parses the absolute path of a file or a folder.
fn path(value: &DeValue<'_>) -> Option<PathBuf> {
    text(value).map(PathBuf::from).filter(|p| p.is_absolute())
}

const KEYS: [Key<Config>; 33] = [
    Key {
        path: "name",
        expected: "text",
        set: |d, v| text(v).map(|t| t.clone_into(&mut d.name)),
    },
    Key {
        path: "listen",
        expected: "an address, as in \"127.0.0.1:7500\" or \"unix:/run/user/1000/site.sock\"",
        set: |d, v| {
            let good = |t: &&str| socket(t).map_or(t.contains(':'), Path::is_absolute);
            let address = text(v).filter(good)?;
            address.clone_into(&mut d.listen);
            Some(())
        },
    },
    Key {
        path: "advertise",
        expected: "the address at which others reach this tier, as in \"esker://edge.example.org:7500\"",
        set: |d, v| {
            let url = text(v).filter(|t| TierAddress::parse(t).is_ok())?;
            d.advertise = Some(url.to_owned());
            Some(())
        },
    },
    Key {
        path: "connections",
        expected: COUNT,
        set: |d, v| {
            d.connections = count(v).filter(|n| *n <= CONNECTIONS_MAX)?;
            Some(())
        },
    },
    Key {
        path: "connections_each",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.connections_each = n),
    },
    Key {
        path: "access.folder",
        expected: "the absolute path of a folder",
        set: |d, v| path(v).map(|p| d.access_folder = Some(p)),
    },
    Key {
        path: "access.key",
        expected: "the absolute path of a private key of SSH",
        set: |d, v| path(v).map(|p| d.keys.key = Some(p)),
    },
    Key {
        path: "access.known_hosts",
        expected: "the absolute path of a file of host keys",
        set: |d, v| path(v).map(|p| d.keys.known_hosts = Some(p)),
    },
    Key {
        path: "parents",
        expected: TIERS,
        set: |d, v| tiers(v).map(|list| d.parents = list),
    },
    Key {
        path: "etcd",
        expected: URLS,
        set: |d, v| {
            let list = texts(v)?;
            d.etcd = list.iter().all(|u| is_url(u)).then_some(list)?;
            Some(())
        },
    },
    Key {
        path: "etcd_ca",
        expected: "the file of the certificates that etcd's must be signed by",
        set: |d, v| d.etcd_trust.take("ca", v),
    },
    Key {
        path: "etcd_certificate",
        expected: "the file of the certificate that is shown to etcd",
        set: |d, v| d.etcd_trust.take("certificate", v),
    },
    Key {
        path: "etcd_key",
        expected: "the file of that certificate's private key",
        set: |d, v| d.etcd_trust.take("key", v),
    },
    Key {
        path: "etcd_user",
        expected: "an account of etcd's",
        set: |d, v| d.etcd_trust.take("user", v),
    },
    Key {
        path: "etcd_password_file",
        expected: "the file of that account's password",
        set: |d, v| d.etcd_trust.take("password_file", v),
    },
    Key {
        path: "pool",
        expected: "the name of a pool: letters, digits and -",
        set: |d, v| {
            let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            let name = text(v).filter(|t| t.bytes().all(good))?;
            d.pool = Some(name.to_owned());
            Some(())
        },
    },
    Key {
        path: "services",
        expected: "a whole number from 1 to 10000",
        set: |d, v| {
            d.services = Some(count(v).filter(|n| *n <= 10_000)?);
            Some(())
        },
    },
    Key {
        path: "cache.memory",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.memory_bytes = n as u64),
    },
    Key {
        path: "cache.policy",
        expected: "one of \"lru\", \"sieve\", \"s3-fifo\", \"w-tinylfu\"",
        set: |d, v| {
            d.policy = text(v)?.parse().ok()?;
            Some(())
        },
    },
    Key {
        path: "cache.predictor",
        expected: "one of \"guarded\", \"learned\", \"dls\", \"amp\", \"nexus\", \"farmer\", \"lru\" (none)",
        set: |d, v| {
            d.predictor = text(v)?.parse().ok()?;
            Some(())
        },
    },
    Key {
        path: "cache.threshold",
        expected: "a whole number",
        set: |d, v| {
            d.threshold = Some(u32::try_from(integer(v)?).ok()?);
            Some(())
        },
    },
    Key {
        path: "cache.ttl",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.ttl = t),
    },
    Key {
        path: "cache.ttl_most",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.ttl_most = t),
    },
    Key {
        path: "cache.disk",
        expected: "the absolute path of a folder",
        set: |d, v| {
            d.disk = Some(path(v)?);
            Some(())
        },
    },
    Key {
        path: "cache.disk_size",
        expected: SIZE,
        set: |d, v| size(v).map(|n| d.disk_bytes = n as u64),
    },
    Key {
        path: "cache.running",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.running = n),
    },
    Key {
        path: "origins.allow",
        expected: "a list of beginnings of origins, as in [\"sftp://data.example.org\", \"ftp://\"]; \"*\" is all but folders of this machine",
        set: |d, v| texts(v).map(|list| d.rules.allow = list),
    },
    Key {
        path: "origins.clear_passwords",
        expected: "a list of beginnings of origins, as in [\"ftp://old.example.org\"]",
        set: |d, v| texts(v).map(|list| d.rules.clear_passwords = list),
    },
    Key {
        path: "origins.connections",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.rules.settings.connections = n),
    },
    Key {
        path: "origins.in_flight",
        expected: COUNT,
        set: |d, v| count(v).map(|n| d.rules.settings.in_flight = n),
    },
    Key {
        path: "origins.patience",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.rules.settings.patience = t),
    },
    Key {
        path: "origins.connect",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.rules.settings.connect = t),
    },
    Key {
        path: "origins.idle",
        expected: TIME,
        set: |d, v| time(v).map(|t| d.rules.settings.idle = t),
    },
];

impl KeySink for Config {
    fn paths() -> Vec<&'static str> {
        KEYS.iter().map(|k| k.path).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&KEYS, self, path, value).unwrap_or(Err("a known key"))
    }
}

impl Config {
    /// Reads a tier's file; unmentioned settings keep their defaults.
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
        Self::from_toml(file, &text)
    }

    /// Parses `text`, the content of `file`.
    pub fn from_toml(file: &Path, text: &str) -> Result<Self> {
        let mut config = Self::default();
        let source = Source { file, text };
        source.read(&mut config)?;
        let bad = |why: &str| Err(Error::Invalid(format!("{}: {why}", file.display())));
        if config.ttl_most < config.ttl {
            return bad("`cache.ttl_most` is the longest time and cannot be less than `cache.ttl`");
        }
        if config.etcd.is_empty() != config.pool.is_none() {
            return bad(
                "`etcd` and `pool` go together: where the pool of tiers is kept, and which one it is",
            );
        }
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        config.etcd_trust = config.etcd_trust.resolve_relative_to(folder);
        if let Some(why) = config.etcd_trust.mistake(&config.etcd) {
            return bad(&format!("`etcd`: {why}"));
        }
        if config.services.is_some() && !config.parents.is_empty() {
            return bad(
                "a tier with `services` asks origins itself: it has no `parents`; leave one of them out",
            );
        }
        if config.pool.is_some() && !config.parents.is_empty() {
            return bad(
                "the upstream tiers are those of `parents` or those of `pool`; leave one of them out",
            );
        }
        if let Some(services) = config.services {
            // A service has one connection, with one request at a time (section III-B-1).
            config.rules.settings.connections = services;
            config.rules.settings.in_flight = 1;
        }
        Ok(config)
    }

    /// Returns the address at which others reach it: the listening address unless configured otherwise.
    pub fn url(&self, listening: &Listening) -> String {
        let own = || match listening {
            Listening::Unix(path) => format!("unix:{}", path.display()),
            Listening::Tcp(at) if at.ip().to_canonical().is_loopback() => format!("http://{at}"),
            Listening::Tcp(at) => format!("esker://{at}"),
        };
        self.advertise.clone().unwrap_or_else(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        Config::from_toml(Path::new("site.toml"), text)
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(
            message("[cache]\npredictor = \"oracle\"\n")
                .starts_with("site.toml:2:13: `cache.predictor` holds one of \"guarded\"")
        );
        assert!(message("parent = []\n").contains("did you mean `parents`?"));
        assert!(message("parents = [\"http://edge:7500\"]\n").contains("esker://"));
        assert!(message("etcd = [\"http://e:2379\"]\n").contains("go together"));
        assert!(message("services = 5\nparents = [\"esker://a:1\"]\n").contains("leave one"));
        assert!(message("[cache]\nttl = \"1h\"\nttl_most = \"1s\"\n").contains("longest"));
    }

    #[test]
    fn services_have_one_connection_each() {
        let config = read("services = 85\n").unwrap();
        assert_eq!(config.rules.settings.connections, 85);
        assert_eq!(config.rules.settings.in_flight, 1);
    }
}
