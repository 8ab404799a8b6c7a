//! `site.toml`: what a tier keeps, whom it asks, where it listens.

use crate::above::Rules;
use esker_config::{
    COUNT, DeValue, Filled, Key, SIZE, Source, TIME, count, integer, size, take_by, text, texts,
    time,
};
use esker_model::{Error, Result};
use esker_origin::Settings as Asking;
use esker_site_cache::cache::Policy;
use esker_site_cache::predict::Choice;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a tier listens if nothing is said.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7500";

/// A tier as its file describes it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name, for people and for the tiers above.
    pub name: String,
    /// `HOST:PORT`.
    pub listen: String,
    /// How others reach it, if that is not where it listens.
    pub advertise: Option<String>,
    /// The tiers above, `http://HOST:PORT` each. With none it asks origins itself.
    pub parents: Vec<String>,
    /// Members of etcd, if the pool of tiers above, or the one it belongs to, is kept there.
    pub etcd: Vec<String>,
    /// The name of that pool.
    pub pool: Option<String>,
    /// A member of the pool without a cache: so many services, each with one connection and one request at a time.
    pub services: Option<usize>,
    /// Bytes of metadata kept in memory.
    pub memory_bytes: u64,
    /// Which metadata goes first.
    pub policy: Policy,
    /// What prefetches.
    pub predictor: Choice,
    /// Misses in a directory that a predictor waits for.
    pub threshold: Option<u32>,
    /// How long an answer is believed at first if nobody tells of changes.
    pub ttl: Duration,
    /// And at last, if it never changes.
    pub ttl_most: Duration,
    /// The folder of what is kept on disk.
    pub disk: Option<PathBuf>,
    /// Bytes kept there at most.
    pub disk_bytes: u64,
    /// Requests on their way upwards at once.
    pub running: usize,
    /// Which origins it asks, and how.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "site".into(),
            listen: LISTEN_DEFAULT.into(),
            advertise: None,
            parents: Vec::new(),
            etcd: Vec::new(),
            pool: None,
            services: None,
            memory_bytes: 256 << 20,
            policy: Policy::Lru,
            predictor: Choice::Guarded,
            threshold: None,
            ttl: Duration::from_secs(10),
            ttl_most: Duration::from_mins(10),
            disk: None,
            disk_bytes: 4 << 30,
            running: 4096,
            rules: Rules {
                allow: vec!["*".into()],
                settings: Asking::default(),
            },
        }
    }
}

const URLS: &str = "a list of tiers' addresses, as in [\"http://fog.example.org:7500\"]";

fn urls(value: &DeValue<'_>) -> Option<Vec<String>> {
    let list = texts(value)?;
    let good = |u: &String| {
        url::Url::parse(u).is_ok_and(|u| u.scheme() == "http" && u.host_str().is_some())
    };
    list.iter().all(good).then_some(list)
}

const KEYS: [Key<Config>; 22] = [
    Key {
        path: "name",
        expected: "text",
        set: |d, v| text(v).map(|t| t.clone_into(&mut d.name)),
    },
    Key {
        path: "listen",
        expected: "an address, as in \"127.0.0.1:7500\"",
        set: |d, v| {
            let address = text(v).filter(|t| t.contains(':'))?;
            address.clone_into(&mut d.listen);
            Some(())
        },
    },
    Key {
        path: "advertise",
        expected: "the address at which others reach this tier, as in \"http://edge.example.org:7500\"",
        set: |d, v| {
            let url = text(v).filter(|t| t.starts_with("http://"))?;
            d.advertise = Some(url.to_owned());
            Some(())
        },
    },
    Key {
        path: "parents",
        expected: URLS,
        set: |d, v| urls(v).map(|list| d.parents = list),
    },
    Key {
        path: "etcd",
        expected: "a list of etcd's addresses, as in [\"http://127.0.0.1:2379\"]",
        set: |d, v| urls(v).map(|list| d.etcd = list),
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
            let folder = text(v).map(PathBuf::from).filter(|p| p.is_absolute())?;
            d.disk = Some(folder);
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

impl Filled for Config {
    fn paths() -> Vec<&'static str> {
        KEYS.iter().map(|k| k.path).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&KEYS, self, path, value).unwrap_or(Err("a known key"))
    }
}

impl Config {
    /// Reads a tier's file; what it does not mention keeps its default.
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
        Self::from_toml(file, &text)
    }

    /// The same, from text that was in that file.
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
        if config.services.is_some() && !config.parents.is_empty() {
            return bad(
                "a tier with `services` asks origins itself: it has no `parents`; leave one of them out",
            );
        }
        if config.pool.is_some() && !config.parents.is_empty() {
            return bad(
                "the tiers above are those of `parents` or those of `pool`; leave one of them out",
            );
        }
        if let Some(services) = config.services {
            // A service has one connection, with one request at a time (section III-B-1).
            config.rules.settings.connections = services;
            config.rules.settings.in_flight = 1;
        }
        Ok(config)
    }

    /// How others reach it: where it listens, unless it says otherwise.
    pub fn url(&self, listening: std::net::SocketAddr) -> String {
        let own = || format!("http://{listening}");
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
        assert!(message("parents = [\"edge:7500\"]\n").contains("http://"));
        assert!(message("etcd = [\"http://e:2379\"]\n").contains("go together"));
        assert!(message("services = 5\nparents = [\"http://a:1\"]\n").contains("leave one"));
        assert!(message("[cache]\nttl = \"1h\"\nttl_most = \"1s\"\n").contains("longest"));
    }

    #[test]
    fn services_have_one_connection_each() {
        let config = read("services = 85\n").unwrap();
        assert_eq!(config.rules.settings.connections, 85);
        assert_eq!(config.rules.settings.in_flight, 1);
    }
}
