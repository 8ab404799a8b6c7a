//! Virtual nodes: fixed parts of the id space, and the map that says which server has each.
//!
//! A vnode is a contiguous range of vertex ids, chosen by their highest bits (the first one is the lowest of its number, so that
//! what has the first bits in common is in one residue class). Their number never changes; servers come and
//! go, and the map moves vnodes between them. A vertex's partition tree is over vnodes, so it never changes either.
//!
//! **Locality.** With many vnodes to a server, a tree could send an edge from vnode to vnode for ten levels before it is
//! on its destination's server; a vertex of 2,000 edges splits four times. So the tree wins servers first. In the tree
//! of [`Order::Numbers`](crate::placement::Order::Numbers) the edges under a node of level `l` have their destinations
//! in the vnodes of one residue class modulo `2^l`, whatever the source is. And the map gives each server such classes:
//! with `2^m` servers, the vnodes that are the same modulo `2^m`. Then the first `m` levels of every vertex's tree
//! separate servers, as the paper's tree over servers does, and what is below them stays on its server.
//!
//! For other numbers of servers, and while they come and go, [`VnodeMap::change`] keeps whole classes together as well as
//! balance and the fewest moves allow; [`VnodeMap::locality`] says how well that is.

mod layout;

use crate::placement::{PLACES_MAX, Place};
use esker_model::VertexId;
use layout::Layout;
use std::fmt;

/// How many vnodes a database has unless told otherwise.
pub const VNODES_DEFAULT: u32 = 1024;

/// How the id space is cut into vnodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Vnodes {
    count: u32,
}

impl Vnodes {
    /// So many vnodes: a power of two.
    pub fn new(count: u32) -> Result<Self, BadVnodes> {
        if count.is_power_of_two() && count <= PLACES_MAX {
            Ok(Self { count })
        } else {
            Err(BadVnodes(count))
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The vnode of a vertex: its id's highest bits, the first one lowest ([`VertexId::place`]).
    pub fn of(self, id: VertexId) -> Place {
        Place(u32::from(id.place()) & (self.count - 1))
    }

    /// The first and the last id of a vnode.
    pub fn range(self, vnode: Place) -> (VertexId, VertexId) {
        let bits = self.count.ilog2();
        // With one vnode the shift would be by all 128 bits.
        let low = 128 - bits;
        let reversed = vnode.0.reverse_bits().checked_shr(32 - bits).unwrap_or(0);
        let first = u128::from(reversed).checked_shl(low).unwrap_or(0);
        let last = first | u128::MAX.checked_shr(bits).unwrap_or(0);
        (VertexId(first.to_be_bytes()), VertexId(last.to_be_bytes()))
    }
}

/// A number of vnodes that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there cannot be {0} vnodes; expected a power of two up to {PLACES_MAX}")]
pub struct BadVnodes(pub u32);

/// A server, for as long as the cluster lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}", self.0)
    }
}

/// Who has a vnode, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    server: ServerId,
    epoch: u64,
}

/// A vnode that goes from one server to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// What moves.
    pub vnode: Place,
    /// Who has it until then.
    pub from: ServerId,
    /// Who gets it.
    pub to: ServerId,
}

/// Which server has each vnode, at one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VnodeMap {
    vnodes: Vnodes,
    epoch: u64,
    /// Sorted.
    servers: Vec<ServerId>,
    /// By vnode.
    owners: Vec<Owner>,
}

impl VnodeMap {
    /// The map that a cluster begins with, at epoch 1. With a power of two of servers, vnode `v` is with the server
    /// `v mod servers`; with another number, it is that map of a power of two
    /// next to it after one [`Self::change`], whichever gives more [`Self::locality`] over the levels.
    pub fn first(vnodes: Vnodes, servers: &[ServerId]) -> Result<Self, MapError> {
        let servers = checked(vnodes, servers)?;
        let layout = Layout::first(vnodes.count, servers.len());
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

    /// How the id space is cut.
    pub fn vnodes(&self) -> Vnodes {
        self.vnodes
    }

    /// Which map it is: each change makes the next one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The servers, by id.
    pub fn servers(&self) -> &[ServerId] {
        &self.servers
    }

    /// The server that has a vnode. `None`: there is no such vnode.
    pub fn server(&self, vnode: Place) -> Option<ServerId> {
        self.owners.get(vnode.0 as usize).map(|owner| owner.server)
    }

    /// The epoch at which a vnode came to its server: who claims it with an older one has lost it.
    pub fn epoch_of(&self, vnode: Place) -> Option<u64> {
        self.owners.get(vnode.0 as usize).map(|owner| owner.epoch)
    }

    /// The server of a vertex.
    pub fn home(&self, id: VertexId) -> Option<ServerId> {
        self.server(self.vnodes.of(id))
    }

    /// The vnodes of a server, by number.
    pub fn vnodes_of(&self, server: ServerId) -> impl Iterator<Item = Place> + '_ {
        let all = (0..self.vnodes.count).map(Place).zip(&self.owners);
        all.filter(move |(_, owner)| owner.server == server)
            .map(|(vnode, _)| vnode)
    }

    /// The map with these servers instead, and what moves. Afterwards no server has two vnodes more than another, and as
    /// few have moved as that takes: what leaving servers had, and what new ones get.
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

    /// The map in which [`Self::locality`] is as a fresh cluster of so many servers would have it, over all levels, and what
    /// moves for that: after many changes, up to most vnodes. No server has two vnodes more than another. Nothing moves where nothing
    /// is gained.
    pub fn tidied(&self) -> (Self, Vec<Move>) {
        let parties = self.servers.clone();
        let now = self.layout(&parties);
        let fresh = Layout::first(self.vnodes.count, parties.len()).named_like(&now);
        if fresh.locality_sum() <= now.locality_sum() {
            return (self.clone(), Vec::new());
        }
        self.after(self.servers.clone(), &parties, &fresh)
    }

    /// How well the map keeps a tree's subtrees on single servers: the probability that an edge in a partition of that
    /// level lies on its destination's server. 1 is best; `1 / servers` is what chance gives.
    pub fn locality(&self, level: u32) -> f64 {
        self.layout(&self.servers).locality(level)
    }

    /// The first level with as many nodes as there are servers: the one whose [`Self::locality`] matters.
    pub fn server_level(&self) -> u32 {
        self.servers.len().next_power_of_two().ilog2()
    }

    /// Everyone that has vnodes or is to have some.
    fn parties(&self, servers: &[ServerId]) -> Vec<ServerId> {
        let mut parties = [&self.servers, servers].concat();
        parties.sort_unstable();
        parties.dedup();
        parties
    }

    fn layout(&self, parties: &[ServerId]) -> Layout {
        let party = |owner: &Owner| parties.partition_point(|server| *server < owner.server);
        Layout::of(self.owners.iter().map(party), parties.len())
    }

    /// This map turned into that layout, in which servers are positions in `parties`.
    fn after(
        &self,
        servers: Vec<ServerId>,
        parties: &[ServerId],
        layout: &Layout,
    ) -> (Self, Vec<Move>) {
        let mut next = Self {
            servers,
            ..self.clone()
        };
        let mut moves = Vec::new();
        let owners = (0..).map(Place).zip(&mut next.owners);
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

/// Sorted servers, if there can be a map of them.
fn checked(vnodes: Vnodes, servers: &[ServerId]) -> Result<Vec<ServerId>, MapError> {
    let mut sorted = servers.to_vec();
    sorted.sort_unstable();
    if let Some([twice, _]) = sorted
        .array_windows()
        .find(|[a, b]: &&[ServerId; 2]| a == b)
    {
        return Err(MapError::Twice(*twice));
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

/// Servers that cannot share the vnodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Nobody to have the vnodes.
    #[error("a cluster has one server at least")]
    NoServers,
    /// Some would get no vnode.
    #[error(
        "{vnodes} vnodes are too few for {servers} servers; a cluster can have as many servers as vnodes"
    )]
    TooManyServers {
        /// How many servers there would be.
        servers: usize,
        /// How many vnodes there are.
        vnodes: u32,
    },
    /// The same server again.
    #[error("{0} is named twice")]
    Twice(ServerId),
}
