//! Routing: which server has what, as far as this node knows. Knowledge of splits may be out of date; responses
//! correct it (GIGA+'s rule).

use super::Node;
use super::state::State;
use crate::placement::{End, Partition, SplitState, Splits};
use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::{Error, Result, VertexId};
use std::collections::BTreeSet;

impl Node {
    /// Returns the home server of a vertex.
    pub(crate) fn home(&self, id: VertexId) -> ServerId {
        // The map contains every vnode.
        self.map.home(id).unwrap_or(self.settings.id)
    }

    /// Returns the server that has a partition of a vertex.
    pub(crate) fn server_of(&self, id: VertexId, partition: Partition) -> ServerId {
        let home = self.end(id).home;
        let shard = self.placement.shard_of(home, partition);
        self.map.server(shard).unwrap_or(self.settings.id)
    }

    pub(crate) fn end(&self, id: VertexId) -> End {
        End::of(id, self.placement.shards())
    }

    /// Returns the partition of the source that has an edge.
    pub(crate) fn partition_of(&self, splits: &Splits, key: &EdgeKey) -> Partition {
        let (source, destination) = (self.end(key.source), self.end(key.destination));
        self.placement.locate(splits, source, destination)
    }

    /// Returns the server of one direction of an edge.
    pub(crate) fn edge_home(&self, key: &EdgeKey) -> ServerId {
        let state = self.state();
        let whole = Splits::default();
        let splits = state.splits_of(key.source).unwrap_or(&whole);
        self.server_of(key.source, self.partition_of(splits, key))
    }

    /// Returns the servers that have edges of a vertex.
    pub(crate) fn edge_servers(&self, id: VertexId) -> BTreeSet<ServerId> {
        let splits = self.cached_splits(id);
        self.edge_servers_of(id, &splits)
    }

    /// Returns the servers that have edges of a vertex with these splits.
    pub(crate) fn edge_servers_of(&self, id: VertexId, splits: &Splits) -> BTreeSet<ServerId> {
        let partitions = self.placement.partitions(splits);
        let servers = partitions.into_iter().map(|p| self.server_of(id, p));
        servers.collect()
    }

    pub(crate) fn cached_splits(&self, id: VertexId) -> Splits {
        self.state().splits_of(id).cloned().unwrap_or_default()
    }

    /// Returns the known splits of vertices, as stored; vertices that have not split are left out.
    pub(crate) fn encoded_splits(
        &self,
        state: &State,
        ids: &[VertexId],
    ) -> Vec<(VertexId, Vec<u8>)> {
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

    /// Learns how vertices have split; returns whether anything was new.
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
                "{from} splits vertices differently: all servers of a cluster need the same placement and number of vnodes"
            )));
        }
        Ok(split)
    }

    /// Whether a direction of an edge is here. Learned splits do not count: a partition that moves here is here once
    /// its rows are.
    pub(crate) fn is_here(&self, state: &State, key: &EdgeKey) -> bool {
        let whole = Splits::default();
        let own = state.splits.get(&key.source);
        let splits = own.map_or(&whole, SplitState::splits);
        self.server_of(key.source, self.partition_of(splits, key)) == self.settings.id
    }
}
