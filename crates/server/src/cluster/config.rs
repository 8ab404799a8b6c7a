//! `cluster.toml`: which servers make a cluster, where they lie, how edges are placed. The same file on all of them.

mod etcd;

pub use etcd::EtcdConfig;
pub(crate) use etcd::ID_FILE;
use etcd::WrittenEtcd;

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
use esker_config::{self as config, DeValue, Filled, Key, Source, count, integer, take_by, text};
use esker_model::{Error, Result};
use esker_rpc::map::MAP_FILE;
use esker_rpc::{Address, proto};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a checkpoint's keys are without being set.
const WRITES_DEFAULT: u64 = 100_000;
const EVERY_DEFAULT: Duration = Duration::from_secs(1);
const RESERVE_DEFAULT: u64 = 1 << 30;
const REPLAY_DEFAULT: Duration = Duration::from_secs(2);
/// Checkpoints of windows are replaced by one of all rows once they have so many bytes, and more than that one.
const BASE_LEAST: u64 = 64 << 20;

/// A cluster as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Its name.
    pub name: String,
    /// The folder with the servers' databases and logs.
    pub storage: PathBuf,
    /// Where edges lie.
    pub placement: Kind,
    /// Edges that a partition holds at most before it splits.
    pub threshold: u64,
    /// Entries that a partition of a directory holds at most before it splits.
    pub directory_threshold: u64,
    /// A folder that all servers see, if there is one: partitions of directories pass through it as sorted tables.
    pub shared: Option<PathBuf>,
    /// Partitions with fewer rows go in messages.
    pub shared_least: u64,
    /// How many virtual nodes there are.
    pub vnodes: u32,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Memory of one server for its caches and buffers, if the file says.
    pub memory_bytes: Option<u64>,
    /// `HOST:PORT` of each server, by its number.
    pub servers: Vec<String>,
    /// After so long without a server another one takes over what it had; never, if there is none.
    pub proxy_after: Option<Duration>,
    /// Who lives and who has what, if etcd says so.
    pub etcd: Option<EtcdConfig>,
    /// Where stores and their checkpoints lie, if a store dies with its machine (`durability = "window"`).
    pub checkpoint: Option<Checkpoint>,
    /// What servers have in common with one that stands alone.
    pub settings: Settings,
}

/// Stores that die with their machines, and where checkpoints of them go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The folder of the live stores.
    pub live: PathBuf,
    /// Folders for checkpoints, the fastest first.
    pub to: Vec<PathBuf>,
    /// So many bytes are left free in each.
    pub reserve: u64,
    /// After so many writes a checkpoint is written …
    pub writes: u64,
    /// … or after so long.
    pub every: Duration,
    /// For so long a server that was restored takes only what its clients send again.
    pub replay: Duration,
}

/// What is being read.
struct Half {
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
    checkpoint: Written,
    memory_bytes: Option<u64>,
    servers: Option<Servers>,
    listen: Option<SocketAddr>,
    proxy_after: Option<Duration>,
    stores: Option<u32>,
    etcd: WrittenEtcd,
    server: Draft,
}

/// What the file says under `[checkpoint]`.
#[derive(Default)]
struct Written {
    writes: Option<u64>,
    every: Option<Duration>,
    live: Option<PathBuf>,
    to: Option<Vec<PathBuf>>,
    reserve: Option<u64>,
    replay: Option<Duration>,
}

impl Written {
    /// The first key that is there.
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
    These(Vec<String>),
    Count(usize),
}

const OWN: [Key<Half>; 20] = [
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
                    Servers::These(addresses(list.iter().map(esker_config::Spanned::get_ref))?)
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

/// Keys of a server that stands alone which mean the same here.
fn shared(path: &str) -> bool {
    path == "drain"
        || path == "lease"
        || path == "backups"
        || path.starts_with("access.")
        || path.starts_with("limits.")
        || path.starts_with("threads.")
}

impl Filled for Half {
    fn paths() -> Vec<&'static str> {
        let shared = Draft::paths().into_iter().filter(|p| shared(p));
        let own = OWN.iter().map(|k| k.path);
        let etcd = etcd::KEYS.iter().map(|k| k.path);
        own.chain(etcd).chain(shared).collect()
    }

    fn take(&mut self, path: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        take_by(&OWN, self, path, value)
            .or_else(|| take_by(&etcd::KEYS, &mut self.etcd, path, value))
            .unwrap_or_else(|| self.server.take(path, value))
    }
}

fn addresses<'a, 'v: 'a>(list: impl Iterator<Item = &'a DeValue<'v>>) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for item in list {
        let place = item.as_str()?;
        // As a target it would be `esker://` and this; without a port it would have the default one.
        let address = Address::parse(&format!("esker://{place}")).ok()?;
        let authority = address.authority();
        if authority != place || all.contains(&authority) {
            return None;
        }
        all.push(authority);
    }
    (1..=SERVERS_MAX).contains(&all.len()).then_some(all)
}

/// So many addresses from that one on: on the loopback network the next addresses, elsewhere the next ports.
fn counted(first: SocketAddr, count: usize) -> Option<Vec<String>> {
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

    /// The same, from text that was in that file.
    pub fn from_toml(file: &Path, text: &str) -> Result<Self> {
        let source = Source { file, text };
        let mut half = Half {
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
            checkpoint: Written::default(),
            memory_bytes: None,
            servers: None,
            listen: None,
            proxy_after: None,
            stores: None,
            etcd: WrittenEtcd::default(),
            server: Draft::new(),
        };
        source.read(&mut half)?;
        let whole = |message: &str| source.error(0..0, message);
        let servers = match (half.servers, half.listen) {
            (None, _) => {
                return Err(whole(
                    "`servers` is missing: a list of \"HOST:PORT\", or how many there are, with `listen`",
                ));
            }
            (Some(Servers::These(_)), Some(_)) => {
                return Err(whole(
                    "`listen` goes with a number of `servers`; here each has its address",
                ));
            }
            (Some(Servers::These(list)), None) => list,
            (Some(Servers::Count(count)), listen) => {
                let first = listen.unwrap_or_else(|| {
                    SocketAddr::from(([127, 0, 0, 1], esker_rpc::address::DEFAULT_PORT))
                });
                counted(first, count).ok_or_else(|| {
                    whole(&format!("there are no {count} addresses from {first} on"))
                })?
            }
        };
        let etcd = half
            .etcd
            .whole(half.stores, file)
            .map_err(|why| whole(&why))?;
        if etcd.is_some() && half.proxy_after.is_some() {
            return Err(whole(
                "`failover.proxy_after` is for clusters without etcd: with `stores` or `[etcd]`, stores of a server that is gone go \
                 to the others when its lease ends",
            ));
        }
        if etcd.is_some() && half.window {
            return Err(whole(
                "durability \"window\" does not go with `stores` and `[etcd]` yet: choose \"sync\" or \"relaxed\"",
            ));
        }
        let parts = etcd.as_ref().map_or(servers.len(), |e| e.stores as usize);
        if parts > half.vnodes as usize {
            return Err(whole(&format!(
                "{parts} {} need as many `vnodes`, and there are {}",
                if etcd.is_some() { "stores" } else { "servers" },
                half.vnodes
            )));
        }
        let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = half.name.or(stem).unwrap_or_else(|| "cluster".into());
        let storage = half
            .storage
            .unwrap_or_else(|| PathBuf::from(format!("{name}.cluster")));
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let storage = folder.join(storage);
        let written = half.checkpoint;
        let checkpoint = match (half.window, written.live.as_ref()) {
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
                        "`checkpoint.{key}` goes with durability = \"window\""
                    )));
                }
                None => None,
            },
        };
        Ok(Self {
            storage,
            name,
            placement: half.placement,
            threshold: half.threshold,
            directory_threshold: half.directory_threshold,
            shared: half.shared.map(|shared| folder.join(shared)),
            shared_least: half.shared_least,
            vnodes: half.vnodes,
            durability: half.durability,
            memory_bytes: half.memory_bytes,
            servers,
            proxy_after: half.proxy_after,
            etcd,
            checkpoint,
            settings: half.server.settings,
        })
    }

    /// The numbers of all servers; of stores, where they move between servers.
    pub fn ids(&self) -> impl Iterator<Item = ServerId> + '_ {
        (0..self.parts() as u32).map(ServerId)
    }

    /// How many parts the data are dealt out in: one for each server, or as many as there are stores.
    pub fn parts(&self) -> usize {
        let stores = self.etcd.as_ref().map(|e| e.stores as usize);
        stores.unwrap_or(self.servers.len())
    }

    /// What all servers must agree on about who they are.
    fn company(&self) -> Vec<String> {
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

    /// The file that says where servers are that are not at their own addresses, where servers take over for others.
    pub fn map(&self) -> Option<PathBuf> {
        self.proxy_after.map(|_| self.storage.join(MAP_FILE))
    }

    /// The folder of a server's database.
    pub fn folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}", server.0))
    }

    /// Where a server's live store and its checkpoints lie, if the live store dies with its machine.
    pub fn window(&self, server: ServerId) -> Result<Option<WindowOptions>> {
        let Some(checkpoint) = &self.checkpoint else {
            return Ok(None);
        };
        for to in &checkpoint.to {
            // A storage that is not mounted must not be taken for an empty one.
            if *to != self.storage && !to.is_dir() {
                return Err(Error::Target(format!(
                    "there is no folder `{}`, which `checkpoint.to` names: make it, or mount what it lies in",
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

    /// The same of the database that is to become a server's ([`Self::new_folder`]). Where checkpoints of several databases lie in one
    /// folder, their names tell them apart.
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

    /// Live stores on this machine that are nobody's: of servers that there are no longer, and those made by the way.
    pub(super) fn dead_stores(&self, servers: u32) -> Vec<PathBuf> {
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

    /// The file of a server's log, where the servers are started together.
    pub fn log(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.log", server.0))
    }

    /// How a server greets another one.
    pub(crate) fn greeting(&self, from: ServerId, to: ServerId) -> proto::Peer {
        proto::Peer {
            cluster: self.name.clone(),
            from: from.0,
            to: to.0,
            servers: self.company(),
            placement: self.placement.name().to_owned(),
            vnodes: self.vnodes,
            threshold: self.threshold,
        }
    }

    /// Why a greeting is not one of this cluster to this server, if it is not.
    pub(crate) fn stranger(&self, me: ServerId, peer: &proto::Peer) -> Option<String> {
        if peer.cluster != self.name {
            return Some(format!(
                "{} belongs to cluster `{}`; who asks belongs to cluster `{}`",
                self.address(me),
                self.name,
                clean(&peer.cluster)
            ));
        }
        let asker = format!("server {}", peer.from);
        let differs = |what: &str, theirs: &str, ours: &str| {
            Some(format!(
                "{asker} runs with {what} {}, {me} with {ours}: give both the same cluster file",
                clean(theirs)
            ))
        };
        let company = self.company();
        if peer.servers != company {
            let list = |servers: &[String]| servers.join(" ");
            return differs("servers", &list(&peer.servers), &list(&company));
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
                "{} is {me} of cluster `{}`; {asker} meant server {}",
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
                "{asker} is none of the {} servers of cluster `{}`",
                self.parts(),
                self.name
            )
        })
    }

    /// What must stay as it was when the storage was made.
    fn fixed(&self, servers: usize) -> [(&'static str, String); 4] {
        [
            ("name", self.name.clone()),
            ("placement", self.placement.name().to_owned()),
            ("vnodes", self.vnodes.to_string()),
            ("servers", servers.to_string()),
        ]
    }

    /// Makes the storage, or compares it with what it was made for.
    pub fn claim_storage(&self) -> Result<()> {
        self.check_not_switching()?;
        self.check_coordinated()?;
        let file = self.storage.join(esker::CLUSTER_FILE);
        let failed = |what: &str, e| Error::io(format!("{what} `{}`", file.display()), e);
        create_private_all(&self.storage).map_err(|e| failed("making the folder of", e))?;
        match std::fs::read_to_string(&file) {
            Ok(text) => self.compare(&file, &text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let text = self.described(self.parts());
                // Several servers may get here at once, with the same text.
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

    /// What the storage says of a cluster of so many servers.
    pub(super) fn described(&self, servers: usize) -> String {
        let mut text = String::from("esker cluster 1\n");
        for (what, value) in self.fixed(servers) {
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
                "the cluster in `{}` was made with servers {}, and the cluster file says {count}: put the file back as it was, or                  give its data to {count} servers with `esker cluster resize FILE`",
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
        let fixed = self.fixed(0).into_iter();
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

/// Beside a live store, for one that is to take its place.
fn new_live(live: &Path) -> PathBuf {
    live.with_extension("new")
}

/// What came from outside, fit for a message.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(400).collect()
}

#[cfg(test)]
mod tests;
