//! Where the stores of a cluster are: with servers that run, or in folders while none does.

use super::keeper;
use crate::context::Context;
use crate::exit::usage;
use esker::rpc::{Address, Client};
use esker_cluster::ServerId;
use esker_server::ClusterConfig;
use esker_server::member::Look;
use std::path::{Path, PathBuf};

/// A store.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// With a server that answers for it.
    Served { store: u32, address: Box<Address> },
    /// In a folder that nobody has open.
    Folder { store: u32, folder: PathBuf },
}

impl Place {
    pub(super) fn store(&self) -> u32 {
        match self {
            Self::Served { store, .. } | Self::Folder { store, .. } => *store,
        }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Served { address, .. } => format!("esker://{}", address.authority()),
            Self::Folder { folder, .. } => folder.display().to_string(),
        }
    }
}

/// The stores of a cluster.
pub(super) enum Stores {
    /// Any of its servers says where they are.
    At(Address),
    /// etcd says so.
    Etcd(Box<ClusterConfig>),
    /// They have their places.
    Fixed(Box<ClusterConfig>),
    /// No server runs.
    Down(Box<ClusterConfig>),
}

impl Stores {
    /// Of the cluster that an address or a file names.
    pub(super) fn find(target: &str, context: &Context) -> anyhow::Result<Self> {
        if Address::is_address(target) {
            return Ok(Self::At(Address::parse(target)?));
        }
        if !Path::new(target).is_file() {
            return Err(usage(format!(
                "`{target}` is neither a cluster's file nor the address of one of its servers (esker://HOST:PORT)"
            )));
        }
        let config = Box::new(ClusterConfig::from_file(Path::new(target))?);
        let runs = if config.etcd.is_some() {
            // One that `cluster up` has started is there only while that runs.
            let own = config.etcd.as_ref().is_some_and(|e| e.endpoints.is_empty());
            let no_etcd = own && keeper(&config).is_none();
            !no_etcd && !Look::at(&config)?.now()?.0.is_empty()
        } else {
            let answers = |address: &String| super::child::probe(address).is_some();
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
                    "cluster `{}` is down, and what it holds lies in checkpoints: start it first",
                    config.name
                )));
            }
            context.note(&format!(
                "cluster `{}` is down: its folders are looked at",
                config.name
            ));
            return Ok(Self::Down(config));
        }
        Ok(match config.etcd {
            Some(_) => Self::Etcd(config),
            None => Self::Fixed(config),
        })
    }

    /// Whether servers run, and may write.
    pub(super) fn running(&self) -> bool {
        !matches!(self, Self::Down(_))
    }

    /// All of them, where they are now.
    pub(super) fn all(&self) -> anyhow::Result<Vec<Place>> {
        match self {
            Self::At(first) => {
                let cluster = Client::connect(first)?.cluster()?;
                if cluster.servers.is_empty() {
                    return Err(usage(format!(
                        "{first} stands alone: it is not a server of a cluster"
                    )));
                }
                let places = (0..).zip(&cluster.servers);
                places
                    .map(|(store, place)| served(store, place, Some(first)))
                    .collect()
            }
            Self::Etcd(config) => {
                let (_, stores, _) = Look::at(config)?.now()?;
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
                    Ok(Place::Folder {
                        store: id.0,
                        folder,
                    })
                });
                places.collect()
            }
        }
    }
}

fn served(store: u32, place: &str, like: Option<&Address>) -> anyhow::Result<Place> {
    anyhow::ensure!(
        !place.is_empty(),
        "store {store} is with nobody just now: try again once all stores are served (`esker cluster status`)"
    );
    let mut address = match like.and_then(|like| like.moved(place)) {
        Some(address) => address,
        None => Address::parse(&format!("esker://{place}"))?,
    };
    address.store = Some(store);
    Ok(Place::Served {
        store,
        address: Box::new(address),
    })
}
