//! `cluster.toml`: the servers of a cluster, their storage, the placement of edges. The file is the same on all servers.

mod etcd;

pub use etcd::EtcdConfig;
use etcd::EtcdSection;
pub(crate) use etcd::ID_FILE;

use crate::config::Draft;
use crate::settings::Settings;
use esker::modes::create_private_all;
use esker::{Durability, WindowOptions};
use esker_cluster::node::SERVERS_MAX;
use esker_cluster::placement::{
    DIRECTORY_THRESHOLD_DEFAULT, TABLE_LEAST_DEFAULT, THRESHOLD_DEFAULT,
};
use esker_cluster::vnode::VNODES_DEFAULT;
use esker_cluster::{Kind, ServerId, Vnodes};
use esker_config::{self as config, DeValue, Key, KeySink, Source, count, integer, take_by, text};
use esker_model::{Error, Result};
use esker_rpc::map::MAP_FILE;
use esker_rpc::{Address, proto};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Defaults of the keys of `[checkpoint]`.
const WRITES_DEFAULT: u64 = 100_000;
const EVERY_DEFAULT: Duration = Duration::from_secs(1);
const RESERVE_DEFAULT: u64 = 1 << 30;
const REPLAY_DEFAULT: Duration = Duration::from_secs(2);
/// Size in bytes of the segments above which, if they are also larger than the last base, a new base replaces them.
const BASE_LEAST: u64 = 64 << 20;

/// Configuration of a cluster from its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterConfig {
    /// Name of the cluster.
    pub name: String,
    /// Folder with the servers' databases and logs.
    pub storage: PathBuf,
    /// Method of placing edges on servers.
    pub placement: Kind,
    /// Split threshold: the most edges of a partition before it splits.
    pub threshold: u64,
    /// Split threshold of directories: the most entries of a partition before it splits.
    pub directory_threshold: u64,
    /// Folder that all servers see, if there is one: moving partitions of directories pass through it as sorted tables.
    pub shared: Option<PathBuf>,
    /// Fewest rows of a partition for a sorted table; smaller partitions are sent in messages.
    pub shared_least: u64,
    /// Number of virtual nodes.
    pub vnodes: u32,
    /// Durability of acknowledged writes.
    pub durability: Durability,
    /// Bytes of memory of one server for caches and buffers, if the file has them.
    pub memory_bytes: Option<u64>,
    /// `HOST:PORT` of each server, by its number.
    pub servers: Vec<String>,
    /// Time without a server after which another one takes over its database; `None` for never.
    pub proxy_after: Option<Duration>,
    /// Settings of etcd, if it assigns stores to members.
    pub etcd: Option<EtcdConfig>,
    /// Locations of stores and their checkpoints, if stores are ephemeral (`durability = "window"`).
    pub checkpoint: Option<Checkpoint>,
    /// Settings that a single server has, too.
    pub settings: Settings,
}

/// Locations and intervals of the checkpoints of ephemeral stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Folder of the ephemeral stores.
    pub live: PathBuf,
    /// Folders for checkpoints, the fastest first.
    pub to: Vec<PathBuf>,
    /// Bytes to leave free in each folder.
    pub reserve: u64,
    /// Number of writes after which a checkpoint is written.
    pub writes: u64,
    /// Time after which a checkpoint is written.
    pub every: Duration,
    /// Time for which a restored server accepts only batches that clients send again.
    pub replay: Duration,
}

/// Contents of the file while it is being read.
struct ParsedFile {
    name: Option<String>,
    storage: Option<PathBuf>,
    placement: Kind,
    threshold: u64,
    directory_threshold: u64,
    shared: Option<PathBuf>,
    shared_least: u64,
    vnodes: u32,
    durability: Durability,
    window: bool,
    checkpoint: CheckpointSection,
    memory_bytes: Option<u64>,
    servers: Option<Servers>,
    listen: Option<SocketAddr>,
    proxy_after: Option<Duration>,
    stores: Option<u32>,
    etcd: EtcdSection,
    server: Draft,
}

/// Contents of the section `[checkpoint]`.
#[derive(Default)]
struct CheckpointSection {
    writes: Option<u64>,
    every: Option<Duration>,
    live: Option<PathBuf>,
    to: Option<Vec<PathBuf>>,
    reserve: Option<u64>,
    replay: Option<Duration>,
}

impl CheckpointSection {
    /// The first key that is set.
    fn any(&self) -> Option<&'static str> {
        let keys = [
            (self.writes.is_some(), "writes"),
            (self.every.is_some(), "every"),
            (self.live.is_some(), "live"),
            (self.to.is_some(), "to"),
            (self.reserve.is_some(), "reserve"),
            (self.replay.is_some(), "replay"),
        ];
        keys.into_iter().find_map(|(set, key)| set.then_some(key))
    }
}

enum Servers {
    Addresses(Vec<String>),
    Count(usize),
}

const CLUSTER_KEYS: [Key<ParsedFile>; 20] = [
    Key {
        path: "name",
        expected: "text",
        set: |d, v| text(v).map(|t| d.name = Some(t.to_owned())),
    },
    Key {
        path: "storage",
        expected: "the path of a folder",
        set: |d, v| text(v).map(|t| d.storage = Some(t.into())),
    },
    Key {
        path: "placement",
        expected: "one of \"dido\", \"giga+\", \"edge-cut\", \"vertex-cut\"",
        set: |d, v| {
            d.placement = text(v)?.parse().ok()?;
            Some(())
        },
    },
    Key {
        path: "threshold",
        expected: config::COUNT,
        set: |d, v| {
            d.threshold = integer(v).filter(|n| *n > 0)?;
            Some(())
        },
    },
    Key {
        path: "directory_threshold",
        expected: config::COUNT,
        set: |d, v| {
            d.directory_threshold = integer(v).filter(|n| *n > 0)?;
            Some(())
        },
    },
    Key {
        path: "shared",
        expected: "the path of a folder that all servers see",
        set: |d, v| text(v).map(|t| d.shared = Some(t.into())),
    },
    Key {
        path: "shared_least",
        expected: config::COUNT,
        set: |d, v| {
            d.shared_least = integer(v)?;
            Some(())
        },
    },
    Key {
        path: "vnodes",
        expected: "a power of two up to 65536",
        set: |d, v| {
            let count = u32::try_from(integer(v)?).ok()?;
            d.vnodes = Vnodes::new(count).ok()?.count();
            Some(())
        },
    },
    Key {
        path: "durability",
        expected: "\"relaxed\", \"sync\" or \"window\"",
        set: |d, v| {
            d.durability = match text(v)? {
                "relaxed" | "window" => Durability::Relaxed,
                "sync" => Durability::Sync,
                _ => return None,
            };
            d.window = text(v)? == "window";
            Some(())
        },
    },
    Key {
        path: "memory",
        expected: config::SIZE,
        set: |d, v| config::size(v).map(|n| d.memory_bytes = Some(n as u64)),
    },
    Key {
        path: "servers",
        expected: "a list of \"HOST:PORT\", each once, at most 64; or how many there are, with `listen`",
        set: |d, v| {
            d.servers = Some(match v.as_array() {
                None => Servers::Count(count(v).filter(|n| *n <= SERVERS_MAX)?),
                Some(list) => {
                    Servers::Addresses(addresses(list.iter().map(esker_config::Spanned::get_ref))?)
                }
            });
            Some(())
        },
    },
    Key {
        path: "listen",
        expected: "the IP address and port of the first server, as in \"127.0.0.1:7400\"",
        set: |d, v| {
            d.listen = Some(text(v)?.parse().ok()?);
            Some(())
        },
    },
    Key {
        path: "stores",
        expected: "how many parts of the data move between servers: a number up to 64",
        set: |d, v| {
            d.stores = Some(count(v).filter(|n| (1..=SERVERS_MAX).contains(n))? as u32);
            Some(())
        },
    },
    Key {
        path: "failover.proxy_after",
        expected: config::TIME,
        set: |d, v| config::time(v).map(|t| d.proxy_after = Some(t)),
    },
    Key {
        path: "checkpoint.writes",
        expected: config::COUNT,
        set: |d, v| {
            d.checkpoint.writes = Some(integer(v).filter(|n| *n > 0)?);
            Some(())
        },
    },
    Key {
        path: "checkpoint.every",
        expected: config::TIME,
        set: |d, v| config::time(v).map(|t| d.checkpoint.every = Some(t)),
    },
    Key {
        path: "checkpoint.live",
        expected: "the path of a folder on the server's own machine",
        set: |d, v| text(v).map(|t| d.checkpoint.live = Some(t.into())),
    },
    Key {
        path: "checkpoint.to",
        expected: "a list of paths of folders, the fastest first",
        set: |d, v| {
            let list = v.as_array()?.iter();
            let paths = list.map(|p| p.get_ref().as_str().map(PathBuf::from));
            let paths: Vec<PathBuf> = paths.collect::<Option<_>>()?;
            d.checkpoint.to = Some(paths).filter(|p| !p.is_empty());
            d.checkpoint.to.is_some().then_some(())
        },
    },
    Key {
        path: "checkpoint.reserve",
        expected: config::SIZE,
        set: |d, v| config::size(v).map(|n| d.checkpoint.reserve = Some(n as u64)),
    },
    Key {
        path: "checkpoint.replay",
        expected: config::TIME,
        set: |d, v| config::time(v).map(|t| d.checkpoint.replay = Some(t)),
    },
];

/// Whether a key of a single server has the same meaning here.
fn is_shared_key(path: &str) -> bool {
    path == "drain"
        || path == "lease"
        || path == "backups"
        || path == "shares"
        || path.starts_with("quotas.")
        || path.starts_with("access.")
        || path.starts_with("audit.")
        || path.starts_with("limits.")
        || path.starts_with("threads.")
        || path.starts_with("tracing.")
        || path.starts_with("oidc.")
}

impl KeySink for ParsedFile {
    fn paths() -> Vec<&'static str> {
        let shared = Draft::paths().into_iter().filter(|p| is_shared_key(p));
        let own = CLUSTER_KEYS.iter().map(|k| k.path);
        let etcd = etcd::KEYS.iter().map(|k| k.path);
        own.chain(etcd).chain(shared).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&CLUSTER_KEYS, self, path, value)
            .or_else(|| take_by(&etcd::KEYS, &mut self.etcd, path, value))
            .unwrap_or_else(|| self.server.take(path, value))
    }
}

fn addresses<'a, 'v: 'a>(list: impl Iterator<Item = &'a DeValue<'v>>) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for item in list {
        let place = item.as_str()?;
        // With the prefix `esker://` it must be a target with an explicit port.
        let address = Address::parse(&format!("esker://{place}")).ok()?;
        let authority = address.authority();
        if authority != place || all.contains(&authority) {
            return None;
        }
        all.push(authority);
    }
    (1..=SERVERS_MAX).contains(&all.len()).then_some(all)
}

/// Returns `count` addresses starting at `first`: on the loopback network successive addresses, elsewhere successive ports.
fn consecutive_addresses(first: SocketAddr, count: usize) -> Option<Vec<String>> {
    (0..u32::try_from(count).ok()?)
        .map(|n| {
            let mut address = first;
            match first.ip() {
                std::net::IpAddr::V4(ip) if ip.is_loopback() => {
                    let ip = ip.to_bits().checked_add(n)?;
                    address.set_ip(std::net::Ipv4Addr::from_bits(ip).into());
                }
                _ => address.set_port(u16::try_from(u32::from(first.port()) + n).ok()?),
            }
            Some(address.to_string())
        })
        .collect()
}

impl ClusterConfig {
    /// Reads a cluster's file.
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::io(format!("reading `{}`", file.display()), e))?;
        Self::from_toml(file, &text)
    }

    /// Reads a cluster's settings from text; `file` is its name in messages.
    pub fn from_toml(file: &Path, text: &str) -> Result<Self> {
        let source = Source { file, text };
        let mut parsed = ParsedFile {
            name: None,
            storage: None,
            placement: Kind::Dido,
            threshold: THRESHOLD_DEFAULT,
            directory_threshold: DIRECTORY_THRESHOLD_DEFAULT,
            shared: None,
            shared_least: TABLE_LEAST_DEFAULT,
            vnodes: VNODES_DEFAULT,
            durability: Durability::Relaxed,
            window: false,
            checkpoint: CheckpointSection::default(),
            memory_bytes: None,
            servers: None,
            listen: None,
            proxy_after: None,
            stores: None,
            etcd: EtcdSection::default(),
            server: Draft::new(),
        };
        source.read(&mut parsed)?;
        let whole = |message: &str| source.error(0..0, message);
        parsed.server.finish_oidc().map_err(|why| whole(&why))?;
        let servers = match (parsed.servers, parsed.listen) {
            (None, _) => {
                return Err(whole(
                    "`servers` is missing: a list of \"HOST:PORT\", or how many there are, with `listen`",
                ));
            }
            (Some(Servers::Addresses(_)), Some(_)) => {
                return Err(whole(
                    "`listen` requires a number of `servers`; here each has its own address",
                ));
            }
            (Some(Servers::Addresses(list)), None) => list,
            (Some(Servers::Count(count)), listen) => {
                let first = listen.unwrap_or_else(|| {
                    SocketAddr::from(([127, 0, 0, 1], esker_rpc::address::DEFAULT_PORT))
                });
                consecutive_addresses(first, count).ok_or_else(|| {
                    whole(&format!("there are no {count} addresses from {first} on"))
                })?
            }
        };
        let etcd = parsed
            .etcd
            .complete(parsed.stores, file)
            .map_err(|why| whole(&why))?;
        if etcd.is_some() && parsed.proxy_after.is_some() {
            return Err(whole(
                "`failover.proxy_after` is for clusters without etcd: with `stores` or `[etcd]`, stores of a server that is gone go \
                 to the others when its lease ends",
            ));
        }
        if etcd.is_some() && parsed.window {
            return Err(whole(
                "durability \"window\" cannot be combined with `stores` and `[etcd]` yet: choose \"sync\" or \"relaxed\"",
            ));
        }
        let parts = etcd.as_ref().map_or(servers.len(), |e| e.stores as usize);
        if parts > parsed.vnodes as usize {
            return Err(whole(&format!(
                "{parts} {} need as many `vnodes`, and there are {}",
                if etcd.is_some() { "stores" } else { "servers" },
                parsed.vnodes
            )));
        }
        let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = parsed.name.or(stem).unwrap_or_else(|| "cluster".into());
        let storage = parsed
            .storage
            .unwrap_or_else(|| PathBuf::from(format!("{name}.cluster")));
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let storage = folder.join(storage);
        let written = parsed.checkpoint;
        let checkpoint = match (parsed.window, written.live.as_ref()) {
            (true, Some(live)) => {
                let to = written.to.unwrap_or_else(|| vec![storage.clone()]);
                Some(Checkpoint {
                    live: folder.join(live),
                    to: to.iter().map(|to| folder.join(to)).collect(),
                    reserve: written.reserve.unwrap_or(RESERVE_DEFAULT),
                    writes: written.writes.unwrap_or(WRITES_DEFAULT),
                    every: written.every.unwrap_or(EVERY_DEFAULT),
                    replay: written.replay.unwrap_or(REPLAY_DEFAULT),
                })
            }
            (true, None) => {
                return Err(whole(
                    "durability \"window\" needs `checkpoint.live`: a folder on each server's own machine for its live store",
                ));
            }
            (false, _) => match written.any() {
                Some(key) => {
                    return Err(whole(&format!(
                        "`checkpoint.{key}` requires durability = \"window\""
                    )));
                }
                None => None,
            },
        };
        Ok(Self {
            storage,
            name,
            placement: parsed.placement,
            threshold: parsed.threshold,
            directory_threshold: parsed.directory_threshold,
            shared: parsed.shared.map(|shared| folder.join(shared)),
            shared_least: parsed.shared_least,
            vnodes: parsed.vnodes,
            durability: parsed.durability,
            memory_bytes: parsed.memory_bytes,
            servers,
            proxy_after: parsed.proxy_after,
            etcd,
            checkpoint,
            settings: parsed.server.settings,
        })
    }

    /// Numbers of all servers, or of all stores where stores move between servers.
    pub fn ids(&self) -> impl Iterator<Item = ServerId> + '_ {
        (0..self.parts() as u32).map(ServerId)
    }

    /// Number of parts of the data: one per server, or the number of stores.
    pub fn parts(&self) -> usize {
        let stores = self.etcd.as_ref().map(|e| e.stores as usize);
        stores.unwrap_or(self.servers.len())
    }

    /// Description of the members that all servers must agree on.
    fn membership_text(&self) -> Vec<String> {
        match &self.etcd {
            None => self.servers.clone(),
            Some(etcd) => vec![format!("{} stores that move", etcd.stores)],
        }
    }

    /// `HOST:PORT` of a server.
    pub fn address(&self, server: ServerId) -> &str {
        self.servers
            .get(server.0 as usize)
            .map_or("", String::as_str)
    }

    /// Path of the file with the present addresses of servers that another one has taken over, if that is enabled.
    pub fn map(&self) -> Option<PathBuf> {
        self.proxy_after.map(|_| self.storage.join(MAP_FILE))
    }

    /// Folder of a server's database.
    pub fn folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}", server.0))
    }

    /// Locations of a server's ephemeral store and its checkpoints, if stores are ephemeral.
    pub fn window(&self, server: ServerId) -> Result<Option<WindowOptions>> {
        let Some(checkpoint) = &self.checkpoint else {
            return Ok(None);
        };
        for to in &checkpoint.to {
            // A storage that is not mounted must not be taken for an empty one.
            if *to != self.storage && !to.is_dir() {
                return Err(Error::Target(format!(
                    "there is no folder `{}`, which `checkpoint.to` names: make it, or mount its file system",
                    to.display()
                )));
            }
        }
        let own = |folder: &PathBuf| self.own(folder, server);
        let to = checkpoint.to.iter().map(|to| {
            if *to == self.storage {
                self.folder(server).join("checkpoint")
            } else {
                own(to)
            }
        });
        Ok(Some(WindowOptions {
            live: own(&checkpoint.live),
            to: to.collect(),
            reserve: checkpoint.reserve,
            writes: checkpoint.writes,
            every: checkpoint.every,
            base_least: BASE_LEAST,
        }))
    }

    /// Locations for the database that will replace a server's ([`Self::new_folder`]). Checkpoints of several databases in one folder
    /// have different names.
    pub fn new_window(&self, server: ServerId) -> Result<Option<WindowOptions>> {
        let window = self.window(server)?.map(|window| {
            let home = self.folder(server).join("checkpoint");
            let new = self.new_folder(server).join("checkpoint");
            let to = window.to.into_iter();
            WindowOptions {
                live: new_live(&window.live),
                to: to
                    .map(|to| if to == home { new.clone() } else { to })
                    .collect(),
                ..window
            }
        });
        Ok(window)
    }

    fn own(&self, folder: &Path, server: ServerId) -> PathBuf {
        folder.join(&self.name).join(format!("server-{}", server.0))
    }

    /// Ephemeral stores on this machine that no server uses: those of removed servers, and temporary ones.
    pub(super) fn unused_stores(&self, servers: u32) -> Vec<PathBuf> {
        let Some(checkpoint) = &self.checkpoint else {
            return Vec::new();
        };
        let all = (0..SERVERS_MAX as u32).map(ServerId);
        let dead = all.flat_map(|server| {
            let live = self.own(&checkpoint.live, server);
            let new = new_live(&live);
            let gone = (server.0 >= servers).then_some(live);
            gone.into_iter().chain([new])
        });
        dead.filter(|live| live.is_dir()).collect()
    }

    /// Path of a server's log, where the servers are started by one command.
    pub fn log(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.log", server.0))
    }

    /// Greeting of one server to another.
    pub(crate) fn greeting(&self, from: ServerId, to: ServerId) -> proto::Peer {
        proto::Peer {
            cluster: self.name.clone(),
            from: from.0,
            to: to.0,
            servers: self.membership_text(),
            placement: self.placement.name().to_owned(),
            vnodes: self.vnodes,
            threshold: self.threshold,
        }
    }

    /// Returns why a greeting does not fit this server and cluster, if so.
    pub(crate) fn greeting_error(&self, me: ServerId, peer: &proto::Peer) -> Option<String> {
        if peer.cluster != self.name {
            return Some(format!(
                "{} belongs to cluster `{}`; the caller belongs to cluster `{}`",
                self.address(me),
                self.name,
                clean(&peer.cluster)
            ));
        }
        let caller = format!("server {}", peer.from);
        let differs = |what: &str, theirs: &str, ours: &str| {
            Some(format!(
                "{caller} runs with {what} {}, {me} with {ours}: give both the same cluster file",
                clean(theirs)
            ))
        };
        let membership_text = self.membership_text();
        if peer.servers != membership_text {
            let list = |servers: &[String]| servers.join(" ");
            return differs("servers", &list(&peer.servers), &list(&membership_text));
        }
        if peer.placement != self.placement.name() {
            return differs("placement", &peer.placement, self.placement.name());
        }
        if peer.vnodes != self.vnodes {
            let (theirs, ours) = (peer.vnodes.to_string(), self.vnodes.to_string());
            return differs("vnodes", &theirs, &ours);
        }
        if peer.threshold != self.threshold {
            let (theirs, ours) = (peer.threshold.to_string(), self.threshold.to_string());
            return differs("threshold", &theirs, &ours);
        }
        if peer.to != me.0 {
            return Some(format!(
                "{} is {me} of cluster `{}`; {caller} meant server {}",
                self.address(me),
                self.name,
                peer.to
            ));
        }
        if peer.from == me.0 {
            return Some(format!(
                "{me} was asked by itself: another process runs as {me} of cluster `{}`",
                self.name
            ));
        }
        (peer.from as usize >= self.parts()).then(|| {
            format!(
                "{caller} is not one of the {} servers of cluster `{}`",
                self.parts(),
                self.name
            )
        })
    }

    /// Settings that must not change after the storage was made.
    fn permanent_settings(&self, servers: usize) -> [(&'static str, String); 4] {
        [
            ("name", self.name.clone()),
            ("placement", self.placement.name().to_owned()),
            ("vnodes", self.vnodes.to_string()),
            ("servers", servers.to_string()),
        ]
    }

    /// Creates the storage, or checks that it was made for this configuration.
    pub fn claim_storage(&self) -> Result<()> {
        self.check_not_switching()?;
        self.check_coordinated()?;
        let file = self.storage.join(esker::CLUSTER_FILE);
        let failed = |what: &str, e| Error::io(format!("{what} `{}`", file.display()), e);
        create_private_all(&self.storage).map_err(|e| failed("making the folder of", e))?;
        match std::fs::read_to_string(&file) {
            Ok(text) => self.compare(&file, &text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let text = self.storage_description(self.parts());
                // Several servers may write the same text at once.
                let draft = self.storage.join(format!(
                    "{}.{}.new",
                    esker::CLUSTER_FILE,
                    std::process::id()
                ));
                std::fs::write(&draft, text).map_err(|e| failed("writing", e))?;
                std::fs::rename(&draft, &file).map_err(|e| failed("writing", e))
            }
            Err(e) => Err(failed("reading", e)),
        }
    }

    /// Text of the file `CLUSTER` for a number of servers.
    pub(super) fn storage_description(&self, servers: usize) -> String {
        let mut text = String::from("esker cluster 1\n");
        for (what, value) in self.permanent_settings(servers) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what} {value}");
        }
        text
    }

    fn compare(&self, file: &Path, text: &str) -> Result<()> {
        self.compare_but_servers(file, text)?;
        let count = self.parts();
        let was = text.lines().find_map(|l| l.strip_prefix("servers "));
        if was != Some(count.to_string().as_str()) {
            return Err(Error::Target(format!(
                "the cluster in `{}` was made with servers {}, and the cluster file says {count}: put the file back as it was, or give its data to {count} servers with `esker cluster resize FILE`",
                self.storage.display(),
                was.unwrap_or("(nothing)")
            )));
        }
        Ok(())
    }

    pub(super) fn compare_but_servers(&self, file: &Path, text: &str) -> Result<()> {
        let mut lines = text.lines();
        if lines.next() != Some("esker cluster 1") {
            return Err(Error::Target(format!(
                "`{}` does not describe a cluster that this build knows",
                file.display()
            )));
        }
        let fixed = self.permanent_settings(0).into_iter();
        for (what, now) in fixed.filter(|(what, _)| *what != "servers") {
            let was = lines
                .clone()
                .find_map(|l| l.strip_prefix(what)?.strip_prefix(' '));
            if was != Some(now.as_str()) {
                return Err(Error::Target(format!(
                    "the cluster in `{}` was made with {what} {}, and the cluster file says {now}: put the file back as it \
                     was, or give it another `storage`",
                    self.storage.display(),
                    was.unwrap_or("(nothing)")
                )));
            }
        }
        Ok(())
    }
}

/// Path next to an ephemeral store, for one that will replace it.
fn new_live(live: &Path) -> PathBuf {
    live.with_extension("new")
}

/// Removes control characters from text of another process, for messages.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(400).collect()
}

#[cfg(test)]
mod tests;
