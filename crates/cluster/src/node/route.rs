//! Which server has what, as far as this node knows. Knowledge of splits may be old; answers correct it (GIGA+'s rule).

use super::Node;
use super::state::State;
use crate::placement::{End, Partition, SplitState, Splits};
use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::{Error, Result, VertexId};
use std::collections::BTreeSet;

impl Node {
    /// The server that has a vertex.
    pub(crate) fn home(&self, id: VertexId) -> ServerId {
        // The map has every vnode.
        self.map.home(id).unwrap_or(self.settings.id)
    }

    /// The server on which a partition of a vertex lies.
    pub(crate) fn server_of(&self, id: VertexId, partition: Partition) -> ServerId {
        let home = self.end(id).home;
        let place = self.placement.place(home, partition);
        self.map.server(place).unwrap_or(self.settings.id)
    }

    pub(crate) fn end(&self, id: VertexId) -> End {
        End::of(id, self.placement.places())
    }

    /// The partition of its source that an edge lies in.
    pub(crate) fn partition_of(&self, splits: &Splits, key: &EdgeKey) -> Partition {
        let (source, destination) = (self.end(key.source), self.end(key.destination));
        self.placement.locate(splits, source, destination)
    }

    /// The server of one direction of an edge.
    pub(crate) fn edge_home(&self, key: &EdgeKey) -> ServerId {
        let state = self.state();
        let whole = Splits::default();
        let splits = state.splits_of(key.source).unwrap_or(&whole);
        self.server_of(key.source, self.partition_of(splits, key))
    }

    /// The servers that have edges of a vertex.
    pub(crate) fn edge_servers(&self, id: VertexId) -> BTreeSet<ServerId> {
        let splits = self.splits_known(id);
        self.edge_servers_of(id, &splits)
    }

    /// The same for a vertex that has split so.
    pub(crate) fn edge_servers_of(&self, id: VertexId, splits: &Splits) -> BTreeSet<ServerId> {
        let partitions = self.placement.partitions(splits);
        let servers = partitions.into_iter().map(|p| self.server_of(id, p));
        servers.collect()
    }

    pub(crate) fn splits_known(&self, id: VertexId) -> Splits {
        self.state().splits_of(id).cloned().unwrap_or_default()
    }

    /// What is known of how vertices have split, as stored; vertices that are whole are left out.
    pub(crate) fn known_splits(&self, state: &State, ids: &[VertexId]) -> Vec<(VertexId, Vec<u8>)> {
        let Some(tree) = self.placement.tree() else {
            return Vec::new();
        };
        let known = ids.iter().filter_map(|id| {
            let splits = state.splits_of(*id)?.clone();
            let split = SplitState::new(self.placement.kind(), tree, splits)?;
            Some((*id, split.encode()))
        });
        known.collect()
    }

    /// Learns how vertices have split; whether anything of it was new.
    pub(crate) fn learn_splits(&self, from: ServerId, all: &[(VertexId, Vec<u8>)]) -> Result<bool> {
        let mut news = false;
        for (id, bytes) in all {
            let state = self.decode_splits(from, bytes)?;
            news |= self.state().learn(*id, state.splits());
        }
        Ok(news)
    }

    pub(crate) fn decode_splits(&self, from: ServerId, bytes: &[u8]) -> Result<SplitState> {
        let split = SplitState::decode(bytes)
            .map_err(|e| Error::corrupt(format!("a split state from {from}"), e))?;
        if Some(split.tree()) != self.placement.tree() || split.kind() != self.placement.kind() {
            return Err(Error::Invalid(format!(
                "{from} splits vertices another way: all servers of a cluster need the same placement and number of vnodes"
            )));
        }
        Ok(split)
    }

    /// Whether a direction of an edge lies here. What was only heard of does not count: a partition that is to come here
    /// is here when its rows are.
    pub(crate) fn is_here(&self, state: &State, key: &EdgeKey) -> bool {
        let whole = Splits::default();
        let own = state.splits.get(&key.source);
        let splits = own.map_or(&whole, SplitState::splits);
        self.server_of(key.source, self.partition_of(splits, key)) == self.settings.id
    }
}
