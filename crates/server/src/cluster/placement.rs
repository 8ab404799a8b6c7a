//! Placement of a vertex's edges.

use super::Cluster;
use esker_cluster::placement::Shard;
use esker_model::{Result, VertexId};
use esker_rpc::proto;

impl Cluster {
    /// Returns how a vertex has split, and which server has which vnode.
    pub(crate) fn placement(&self, vertex: VertexId) -> Result<proto::PlacementReply> {
        let splits = self.wait(self.node.splits(vertex))?;
        let map = self.node.map();
        let server_of = |vnode| map.server(Shard(vnode)).map(|server| server.0);
        Ok(proto::PlacementReply {
            placement: self.config.placement.name().to_owned(),
            vnodes: self.config.vnodes,
            threshold: self.config.threshold,
            servers: self.config.servers.len() as u32,
            server_of: (0..self.config.vnodes).filter_map(server_of).collect(),
            splits: splits.map(|state| state.encode()).unwrap_or_default(),
        })
    }
}
