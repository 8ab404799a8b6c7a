//! The servers of a cluster (`stores` in its file): at running members, or in folders of a stopped cluster.

use super::up_process;
use esker::rpc::{Address, Client};
use esker_cluster::ServerId;
use esker_server::ClusterConfig;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::usage;
use std::path::{Path, PathBuf};

/// The location of one server's data.
#[derive(Debug, Clone)]
pub(super) enum StoreLocation {
    /// A running process answers for the server.
    Served { store: u32, address: Box<Address> },
    /// The server's folder; no process has it open.
    Folder { store: u32, folder: PathBuf },
}

impl StoreLocation {
    pub(super) fn store(&self) -> u32 {
        match self {
            Self::Served { store, .. } | Self::Folder { store, .. } => *store,
        }
    }

    /// Returns the location as text for users.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Served { address, .. } => format!("esker://{}", address.authority()),
            Self::Folder { folder, .. } => folder.display().to_string(),
        }
    }
}

/// The way to find the servers of a cluster.
pub(super) enum Stores {
    /// Any member knows where all servers are.
    Member(Address),
    /// The assignment is in etcd.
    Etcd(Box<ClusterConfig>),
    /// Each server has a fixed address in the file.
    Fixed(Box<ClusterConfig>),
    /// No server runs; the folders are read.
    Down(Box<ClusterConfig>),
}

impl Stores {
    /// Finds out how to reach the servers of the cluster that an address or a file names.
    pub(super) fn find(target: &str, context: &Context) -> anyhow::Result<Self> {
        if Address::is_address(target) {
            return Ok(Self::Member(Address::parse(target)?));
        }
        if !Path::new(target).is_file() {
            return Err(usage(format!(
                "`{target}` is neither a cluster's file nor the address of one of its servers (esker://HOST:PORT)"
            )));
        }
        let config = Box::new(ClusterConfig::from_file(Path::new(target))?);
        let runs = if config.etcd.is_some() {
            // An etcd of `cluster up` runs only while that command does.
            let own = config.etcd.as_ref().is_some_and(|e| e.endpoints.is_empty());
            let no_etcd = own && up_process(&config).is_none();
            !no_etcd && !MembershipClient::connect(&config)?.status()?.0.is_empty()
        } else {
            let answers = |address: &String| esker_launch::probe(address).is_some();
            config.servers.iter().any(answers)
        };
        if !runs {
            anyhow::ensure!(
                config.storage.is_dir(),
                "cluster `{}` is down, and there is no `{}`",
                config.name,
                config.storage.display()
            );
            if config.checkpoint.is_some() {
                return Err(usage(format!(
                    "cluster `{}` is down, and its data is in checkpoints: start it first",
                    config.name
                )));
            }
            context.note(&format!(
                "cluster `{}` is down: reading its folders",
                config.name
            ));
            return Ok(Self::Down(config));
        }
        Ok(match config.etcd {
            Some(_) => Self::Etcd(config),
            None => Self::Fixed(config),
        })
    }

    /// Whether servers run, which may write.
    pub(super) fn running(&self) -> bool {
        !matches!(self, Self::Down(_))
    }

    /// Returns all servers with their present locations.
    pub(super) fn all(&self) -> anyhow::Result<Vec<StoreLocation>> {
        match self {
            Self::Member(first) => {
                let cluster = Client::connect(first)?.cluster()?;
                if cluster.servers.is_empty() {
                    return Err(usage(format!(
                        "{first} is a single server, not part of a cluster"
                    )));
                }
                let places = (0..).zip(&cluster.servers);
                places
                    .map(|(store, place)| served(store, place, Some(first)))
                    .collect()
            }
            Self::Etcd(config) => {
                let (_, stores, _) = MembershipClient::connect(config)?.status()?;
                let places = stores.iter().map(|s| {
                    let member = s.member.as_deref().unwrap_or_default();
                    served(s.store, member, None)
                });
                places.collect()
            }
            Self::Fixed(config) => config
                .ids()
                .map(|id| served(id.0, config.address(id), None))
                .collect(),
            Self::Down(config) => {
                let stores = (0..config.parts() as u32).map(ServerId);
                let places = stores.map(|id| {
                    let folder = config.present_folder(id)?;
                    anyhow::ensure!(
                        folder.is_dir(),
                        "store {}: there is no `{}`",
                        id.0,
                        folder.display()
                    );
                    Ok(StoreLocation::Folder {
                        store: id.0,
                        folder,
                    })
                });
                places.collect()
            }
        }
    }
}

fn served(store: u32, place: &str, like: Option<&Address>) -> anyhow::Result<StoreLocation> {
    anyhow::ensure!(
        !place.is_empty(),
        "no server has store {store} at the moment: try again once all stores are served (`esker cluster status`)"
    );
    let mut address = match like.and_then(|like| like.with_authority(place)) {
        Some(address) => address,
        None => Address::parse(&format!("esker://{place}"))?,
    };
    address.store = Some(store);
    Ok(StoreLocation::Served {
        store,
        address: Box::new(address),
    })
}
