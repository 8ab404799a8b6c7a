//! Checks the stores of an idle cluster: each row is on the server that the placement selects, once, and each version
//! of an edge has the same version of its inverse.

use super::Findings;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::cluster::Cluster;
use esker_cluster::placement::{End, Order, Placement, Splits};
use esker_cluster::{ServerId, VnodeMap};
use esker_model::key::{EdgeKey, HistoryKey, RowKey};
use esker_model::record::EdgeRecord;
use esker_model::{EdgeTypeId, Flow, GraphRead, Properties, Schema, Version, VertexId};
use esker_store::{KeyRange, Table};
use std::collections::{BTreeMap, BTreeSet};

/// All versions of all edges, in both directions.
type Edges = BTreeMap<(EdgeKey, Version), (bool, Properties)>;

/// Checks the rows of every store.
pub fn check(
    cluster: &Cluster,
    client_view: &BlockingClient,
    schema: &Schema,
    findings: &mut Findings,
) {
    let Some(mut owners) = RowOwners::new(cluster) else {
        findings.push("the cluster has no map".into());
        return;
    };
    let mut edges = Edges::new();
    for at in 0..cluster.len() {
        let mut here = ServerRows {
            server: ServerId(at as u32),
            degrees: BTreeMap::new(),
        };
        let Some(store) = cluster.store(at) else {
            continue;
        };
        for table in [Table::Rows, Table::History] {
            let mut rows = Vec::new();
            let read = store.scan(table, &KeyRange::ALL, &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                Flow::Continue(())
            });
            if let Err(e) = read {
                findings.push(format!("reading {table:?} of server {at}: {e}"));
            }
            for (key, value) in rows {
                if let Err(why) = here.row(&mut owners, table, &key, &value, &mut edges) {
                    findings.push(format!("{why}, in {} of server {at}", table.name()));
                }
            }
        }
        counters(cluster, at, &here.degrees, findings);
    }
    check_inverses(&edges, schema, findings);
    for id in owners.splits.keys() {
        // The cluster's own answer is taken as the truth, but all servers must give the same one.
        let answers: BTreeSet<Option<Vec<u32>>> = (0..cluster.len())
            .map(|at| splits_said(cluster, client_view, at, *id))
            .collect();
        if answers.len() > 1 {
            findings.push(format!(
                "servers tell different splits of {id}: {answers:?}"
            ));
        }
    }
}

fn splits_said(
    cluster: &Cluster,
    client_view: &BlockingClient,
    at: usize,
    id: VertexId,
) -> Option<Vec<u32>> {
    let splits = ask_splits(cluster, at, id)?;
    client_view.wait(0);
    Some(splits.iter().map(|p| p.0).collect())
}

fn ask_splits(cluster: &Cluster, at: usize, id: VertexId) -> Option<Splits> {
    let node = cluster.node(at)?;
    let answer = cluster.exec.block_on(node.splits(id), 60_000_000);
    let state = answer.ok()?.ok()?;
    Some(state.map(|s| s.splits().clone()).unwrap_or_default())
}

/// Expected owners of rows.
struct RowOwners<'c> {
    cluster: &'c Cluster,
    map: VnodeMap,
    placement: Box<dyn Placement>,
    splits: BTreeMap<VertexId, Splits>,
}

impl<'c> RowOwners<'c> {
    fn new(cluster: &'c Cluster) -> Option<Self> {
        let map = cluster.map()?;
        let shape = cluster.shape;
        let placement = shape.placement.over(shape.vnodes, Order::Numbers).ok()?;
        Some(Self {
            cluster,
            map,
            placement,
            splits: BTreeMap::new(),
        })
    }

    fn edge(&mut self, key: &EdgeKey) -> Option<ServerId> {
        let shards = self.map.vnodes().count();
        let cluster = self.cluster;
        let splits = self
            .splits
            .entry(key.source)
            .or_insert_with(|| ask_splits(cluster, 0, key.source).unwrap_or_default());
        let source = End::of(key.source, shards);
        let destination = End::of(key.destination, shards);
        let partition = self.placement.locate(splits, source, destination);
        self.map
            .server(self.placement.shard_of(source.home, partition))
    }
}

/// The rows of one server's store.
struct ServerRows {
    server: ServerId,
    degrees: BTreeMap<(VertexId, EdgeTypeId), u64>,
}

impl ServerRows {
    fn row(
        &mut self,
        owners: &mut RowOwners<'_>,
        table: Table,
        key: &[u8],
        value: &[u8],
        edges: &mut Edges,
    ) -> Result<(), String> {
        let history = table == Table::History;
        let (edge, version) = if history {
            match HistoryKey::decode(key).map_err(|e| e.to_string())? {
                HistoryKey::Static(id, _) | HistoryKey::Attribute(id, ..) => {
                    return self.at_home(owners, id);
                }
                HistoryKey::Edge(edge, version) => (edge, Some(version)),
            }
        } else {
            match RowKey::decode(key).map_err(|e| e.to_string())? {
                RowKey::Vertex(id) => return self.at_home(owners, id),
                RowKey::Edge(edge) => (edge, None),
            }
        };
        let record = EdgeRecord::decode(value).map_err(|e| e.to_string())?;
        let version = version.unwrap_or(record.version);
        let should = owners.edge(&edge);
        if should != Some(self.server) {
            return Err(format!("{edge:?} should lie at {should:?}"));
        }
        if !history && !record.deleted {
            *self
                .degrees
                .entry((edge.source, edge.edge_type))
                .or_default() += 1;
        }
        let known = edges.insert((edge, version), (record.deleted, record.properties));
        if known.is_some() {
            return Err(format!("{edge:?} at {version:?} is there twice"));
        }
        Ok(())
    }

    fn at_home(&self, owners: &RowOwners<'_>, id: VertexId) -> Result<(), String> {
        let home = owners.map.home(id);
        if home == Some(self.server) {
            return Ok(());
        }
        Err(format!("the home server of vertex {id} is {home:?}"))
    }
}

/// Compares a server's counters with its rows.
fn counters(
    cluster: &Cluster,
    at: usize,
    degrees: &BTreeMap<(VertexId, EdgeTypeId), u64>,
    findings: &mut Findings,
) {
    let Some(engine) = cluster.engine_of(at) else {
        return;
    };
    let of: Vec<(VertexId, EdgeTypeId)> = degrees.keys().copied().collect();
    let counted: Vec<u64> = degrees.values().copied().collect();
    match engine.degrees(&of) {
        Ok(said) if said == counted => {}
        Ok(said) => {
            for ((of, said), counted) in of.iter().zip(said).zip(counted) {
                if said != counted {
                    findings.push(format!(
                        "server {at} holds {counted} edges of {of:?}; its counter says {said}"
                    ));
                }
            }
        }
        Err(e) => findings.push(format!("degrees of server {at}: {e}")),
    }
}

/// Checks that each version of an edge has the same version of its inverse.
pub fn check_inverses(edges: &Edges, schema: &Schema, findings: &mut Findings) {
    for ((edge, version), (deleted, properties)) in edges {
        let inverse = edge.reversed(schema.inverse(edge.edge_type));
        match edges.get(&(inverse, *version)) {
            Some(other) if other.0 == *deleted && other.1 == *properties => {}
            other => findings.push(format!(
                "{edge:?} at {version:?} (deleted: {deleted}, {properties:?}) has the inverse {other:?}"
            )),
        }
    }
}
