//! Virtual nodes: fixed parts of the id space, and the map that assigns each to a server.
//!
//! A vnode is a contiguous range of vertex ids, chosen by their highest bits. The first bit of an id is the lowest
//! bit of the vnode's number, so ids with common first bits are in one residue class. The number of vnodes never
//! changes; servers come and go, and the map moves vnodes between them. A vertex's partition tree is over vnodes, so
//! it never changes either.
//!
//! **Locality.** With many vnodes per server, a tree could move an edge from vnode to vnode for ten levels before it
//! is on its destination's server, while a vertex of 2,000 edges splits four times. Therefore the tree separates
//! servers first. In the tree of [`Order::Numbers`](crate::placement::Order::Numbers) the edges below a node of level
//! `l` have their destinations in the vnodes of one residue class modulo `2^l`, whatever the source is. The map gives
//! each server such classes: with `2^m` servers, the vnodes that are equal modulo `2^m`. Then the first `m` levels of
//! every vertex's tree separate servers, as the paper's tree over servers does, and everything below stays on its
//! server.
//!
//! For other numbers of servers, and while they come and go, [`VnodeMap::change`] keeps classes together as well as
//! balance and the fewest moves allow; [`VnodeMap::locality`] measures how well.

mod layout;

use crate::placement::{SHARDS_MAX, Shard};
use esker_model::VertexId;
use layout::BlockLayout;
use std::fmt;

/// Default number of vnodes of a database.
pub const VNODES_DEFAULT: u32 = 1024;

/// Division of the id space into vnodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Vnodes {
    count: u32,
}

impl Vnodes {
    /// Creates a division into `count` vnodes; must be a power of two.
    pub fn new(count: u32) -> Result<Self, BadVnodes> {
        if count.is_power_of_two() && count <= SHARDS_MAX {
            Ok(Self { count })
        } else {
            Err(BadVnodes(count))
        }
    }

    /// Returns the number of vnodes.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the vnode of a vertex: the highest bits of its id, the first bit lowest ([`VertexId::home_bits`]).
    pub fn of(self, id: VertexId) -> Shard {
        Shard(u32::from(id.home_bits()) & (self.count - 1))
    }

    /// Returns the first and the last id of a vnode.
    pub fn range(self, vnode: Shard) -> (VertexId, VertexId) {
        let bits = self.count.ilog2();
        // With one vnode the shift would be by all 128 bits.
        let low = 128 - bits;
        let reversed = vnode.0.reverse_bits().checked_shr(32 - bits).unwrap_or(0);
        let first = u128::from(reversed).checked_shl(low).unwrap_or(0);
        let last = first | u128::MAX.checked_shr(bits).unwrap_or(0);
        (VertexId(first.to_be_bytes()), VertexId(last.to_be_bytes()))
    }
}

/// An invalid number of vnodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there cannot be {0} vnodes; expected a power of two up to {SHARDS_MAX}")]
pub struct BadVnodes(pub u32);

/// Id of a server, fixed for the lifetime of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}", self.0)
    }
}

/// The server that has a vnode, and since which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    server: ServerId,
    epoch: u64,
}

/// A vnode that moves from one server to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Vnode that moves to another server.
    pub vnode: Shard,
    /// Server that has the vnode before.
    pub from: ServerId,
    /// Server that receives the vnode.
    pub to: ServerId,
}

/// The server of each vnode, at one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VnodeMap {
    vnodes: Vnodes,
    epoch: u64,
    /// Sorted by id.
    servers: Vec<ServerId>,
    /// Owner of each vnode, by vnode.
    owners: Vec<Owner>,
}

impl VnodeMap {
    /// Creates the initial map of a cluster, at epoch 1. With a power of two of servers, vnode `v` is on server `v
    /// mod servers`; with another number, the map is that of a neighbouring power of two after one [`Self::change`],
    /// whichever gives more [`Self::locality`] over the levels.
    pub fn first(vnodes: Vnodes, servers: &[ServerId]) -> Result<Self, MapError> {
        let servers = checked(vnodes, servers)?;
        let layout = BlockLayout::first(vnodes.count, servers.len());
        let owners = layout
            .by_vnode()
            .filter_map(|server| servers.get(server).copied())
            .map(|server| Owner { server, epoch: 1 })
            .collect();
        Ok(Self {
            vnodes,
            epoch: 1,
            servers,
            owners,
        })
    }

    /// Returns the division of the id space.
    pub fn vnodes(&self) -> Vnodes {
        self.vnodes
    }

    /// Returns the number of this map; each change increments it.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the servers, sorted by id.
    pub fn servers(&self) -> &[ServerId] {
        &self.servers
    }

    /// Returns the server that has a vnode; `None` if there is no such vnode.
    pub fn server(&self, vnode: Shard) -> Option<ServerId> {
        self.owners.get(vnode.0 as usize).map(|owner| owner.server)
    }

    /// Returns the epoch at which a vnode came to its server. A server that claims the vnode with an older epoch has lost it.
    pub fn epoch_of(&self, vnode: Shard) -> Option<u64> {
        self.owners.get(vnode.0 as usize).map(|owner| owner.epoch)
    }

    /// Returns the server of a vertex.
    pub fn home(&self, id: VertexId) -> Option<ServerId> {
        self.server(self.vnodes.of(id))
    }

    /// Iterates over the servers of all vnodes, by the number of the vnode.
    pub fn owners(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.owners.iter().map(|owner| owner.server)
    }

    /// Iterates over the vnodes of a server, by number.
    pub fn vnodes_of(&self, server: ServerId) -> impl Iterator<Item = Shard> + '_ {
        let all = (0..self.vnodes.count).map(Shard).zip(&self.owners);
        all.filter(move |(_, owner)| owner.server == server)
            .map(|(vnode, _)| vnode)
    }

    /// Returns the map with these servers instead, and the moves. Afterwards no server has two vnodes more than
    /// another, with the fewest moves: the vnodes of servers that leave, and those that new servers get.
    pub fn change(&self, servers: &[ServerId]) -> Result<(Self, Vec<Move>), MapError> {
        let servers = checked(self.vnodes, servers)?;
        let parties = self.parties(&servers);
        let stays: Vec<bool> = parties
            .iter()
            .map(|server| servers.binary_search(server).is_ok())
            .collect();
        let mut layout = self.layout(&parties);
        layout.change(&stays);
        Ok(self.after(servers, &parties, &layout))
    }

    /// Returns a map with the [`Self::locality`] of a new cluster of the same size over all levels, and the moves for
    /// it: after many changes, up to most vnodes. No server has two vnodes more than another. Nothing moves if
    /// locality does not improve.
    pub fn with_best_locality(&self) -> (Self, Vec<Move>) {
        let parties = self.servers.clone();
        let now = self.layout(&parties);
        let initial = BlockLayout::first(self.vnodes.count, parties.len()).named_like(&now);
        if initial.locality_sum() <= now.locality_sum() {
            return (self.clone(), Vec::new());
        }
        self.after(self.servers.clone(), &parties, &initial)
    }

    /// Measures how well the map keeps a tree's subtrees on single servers: the probability that an edge in a
    /// partition of that level is on its destination's server. 1 is best; `1 / servers` is what chance gives.
    pub fn locality(&self, level: u32) -> f64 {
        self.layout(&self.servers).locality(level)
    }

    /// Returns the first level with as many nodes as there are servers, whose [`Self::locality`] matters most.
    pub fn server_level(&self) -> u32 {
        self.servers.len().next_power_of_two().ilog2()
    }

    /// All servers that have vnodes or will have some.
    fn parties(&self, servers: &[ServerId]) -> Vec<ServerId> {
        let mut parties = [&self.servers, servers].concat();
        parties.sort_unstable();
        parties.dedup();
        parties
    }

    fn layout(&self, parties: &[ServerId]) -> BlockLayout {
        let party = |owner: &Owner| parties.partition_point(|server| *server < owner.server);
        BlockLayout::of(self.owners.iter().map(party), parties.len())
    }

    /// Applies a layout to this map; the layout's servers are indexes into `parties`.
    fn after(
        &self,
        servers: Vec<ServerId>,
        parties: &[ServerId],
        layout: &BlockLayout,
    ) -> (Self, Vec<Move>) {
        let mut next = Self {
            servers,
            ..self.clone()
        };
        let mut moves = Vec::new();
        let owners = (0..).map(Shard).zip(&mut next.owners);
        for ((vnode, owner), party) in owners.zip(layout.by_vnode()) {
            let Some(to) = parties.get(party).copied() else {
                continue;
            };
            if to != owner.server {
                moves.push(Move {
                    vnode,
                    from: owner.server,
                    to,
                });
                *owner = Owner {
                    server: to,
                    epoch: self.epoch + 1,
                };
            }
        }
        if !moves.is_empty() || next.servers != self.servers {
            next.epoch += 1;
        }
        (next, moves)
    }
}

/// Sorts and checks the servers of a map.
fn checked(vnodes: Vnodes, servers: &[ServerId]) -> Result<Vec<ServerId>, MapError> {
    let mut sorted = servers.to_vec();
    sorted.sort_unstable();
    if let Some([twice, _]) = sorted
        .array_windows()
        .find(|[a, b]: &&[ServerId; 2]| a == b)
    {
        return Err(MapError::DuplicateServer(*twice));
    }
    match sorted.len() {
        0 => Err(MapError::NoServers),
        n if n > vnodes.count as usize => Err(MapError::TooManyServers {
            servers: n,
            vnodes: vnodes.count,
        }),
        _ => Ok(sorted),
    }
}

/// A list of servers that cannot share the vnodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The list of servers is empty.
    #[error("a cluster has at least one server")]
    NoServers,
    /// Some servers would get no vnode.
    #[error(
        "{vnodes} vnodes are too few for {servers} servers; a cluster can have as many servers as vnodes"
    )]
    TooManyServers {
        /// Number of servers in the list.
        servers: usize,
        /// Number of vnodes of the database.
        vnodes: u32,
    },
    /// A server occurs twice.
    #[error("{0} is named twice")]
    DuplicateServer(ServerId),
}
