//! Answers `GET /api/v1/lineage`: by `id` as lineage of any vertex; by `nodeId` as Marquez does, with jobs and datasets and the edges
//! between them.

use super::super::ApiError;
use super::super::api::{self, Answer, ApiRequest};
use super::data::dataset_out;
use super::graph_view::{GraphView, JobOrDataset, absent};
use super::jobs::job_out;
use esker_import::openlineage::{Types, data_name, job_name, run_name};
use esker_model::{Cancel as _, EdgeSelect, Version, Versions, VertexId, VertexName};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Largest number of jobs and datasets in one answer.
const NODES_MAX: usize = 5_000;
/// Default number of steps.
const DEPTH: u64 = 20;

/// Answers by `id` or by `nodeId`.
pub(in super::super) fn lineage(request: &ApiRequest<'_>) -> Answer {
    match (request.query.get("nodeId"), request.query.get("id")) {
        (Some(_), Some(_)) => Err(ApiError::bad(
            "parameters `id` and `nodeId` are two ways to say what to ask for: give one".into(),
        )),
        (Some(node), None) => lineage_of_node(request, node),
        (None, Some(_)) => api::lineage(request),
        (None, None) => Err(ApiError::bad(
            "parameter `id` (a vertex, as file:/scratch/a.h5) or `nodeId` (as dataset:NAMESPACE:NAME) is missing".into(),
        )),
    }
}

/// Possible names of a node: names may contain colons, so the namespace may end at any of them.
fn candidates(node: &str) -> Result<Vec<VertexName>, ApiError> {
    let bad = || {
        ApiError::bad(format!(
            "parameter `nodeId`: expected job:NAMESPACE:NAME, dataset:NAMESPACE:NAME or run:UUID; got `{node}`"
        ))
    };
    let (kind, rest) = node.split_once(':').ok_or_else(bad)?;
    let of: fn(&str, &str) -> VertexName = match kind {
        "job" => job_name,
        "dataset" => data_name,
        "run" => return Ok(vec![run_name(rest).ok_or_else(bad)?]),
        _ => return Err(bad()),
    };
    let places = rest.match_indices(':').map(|(i, _)| i);
    let names: Vec<VertexName> = places
        .filter_map(|i| Some((rest.get(..i)?, rest.get(i + 1..)?)))
        .filter(|(space, name)| !space.is_empty() && !name.is_empty())
        .map(|(space, name)| of(space, name))
        .collect();
    if names.is_empty() {
        Err(bad())
    } else {
        Ok(names)
    }
}

fn start(view: &GraphView<'_>, request: &ApiRequest<'_>, node: &str) -> Result<VertexId, ApiError> {
    for name in candidates(node)? {
        if name.type_name == "Execution" {
            let run = view.vertex(request, &name)?;
            let run = run.ok_or_else(|| absent("run", &name.key))?;
            let exe = view.schema.edge_type_id("exe")?;
            let plans = view.destinations(run.id, exe)?;
            return match plans.first() {
                Some((plan, _)) => Ok(*plan),
                None => Err(absent("job of run", &name.key)),
            };
        }
        if let Some(thing) = view.job_or_dataset(request, &name)?
            && node.ends_with(&format!("{}:{}", thing.namespace, thing.name))
        {
            return Ok(thing.vertex.id);
        }
    }
    Err(absent("job or dataset", node))
}

/// The part of the graph around a node: datasets, jobs, and the edges between them.
#[derive(Default)]
struct LineageGraph {
    nodes: BTreeSet<VertexId>,
    edges: BTreeSet<(VertexId, VertexId)>,
    complete: bool,
}

fn expand(
    view: &GraphView<'_>,
    types: Types,
    request: &ApiRequest<'_>,
    from: VertexId,
    depth: u64,
) -> Result<LineageGraph, ApiError> {
    let mut found = LineageGraph {
        complete: true,
        ..LineageGraph::default()
    };
    found.nodes.insert(from);
    let mut frontier = vec![from];
    let (consumed, produced) = (view.inverse(types.consumes), view.inverse(types.produces));
    let select = EdgeSelect {
        types: vec![types.consumes, types.produces, consumed, produced],
        versions: Versions::NOW,
        properties: false,
        after: None,
    };
    for _ in 0..depth {
        let mut next = Vec::new();
        view.graph.scan_edges(&frontier, &select, &mut |_, edge| {
            let (this, other) = (edge.key.source, edge.key.destination);
            if !found.nodes.contains(&other) {
                if found.nodes.len() >= NODES_MAX || request.call_state.cancelled() {
                    found.complete = false;
                    return ControlFlow::Break(());
                }
                found.nodes.insert(other);
                next.push(other);
            }
            // Edges point in the direction of the data: into consumers and out of producers.
            let into = edge.key.edge_type == types.produces || edge.key.edge_type == consumed;
            found
                .edges
                .insert(if into { (this, other) } else { (other, this) });
            ControlFlow::Continue(())
        })?;
        if next.is_empty() || !found.complete {
            break;
        }
        frontier = next;
    }
    Ok(found)
}

fn lineage_of_node(request: &ApiRequest<'_>, node: &str) -> Answer {
    let view = GraphView::new(request)?;
    candidates(node)?;
    let Some(types) = view.types else {
        return Err(absent("job or dataset", node));
    };
    let from = start(&view, request, node)?;
    let depth = request.query.number("depth")?.unwrap_or(DEPTH);
    let found = expand(&view, types, request, from, depth)?;
    let ids: Vec<VertexId> = found.nodes.iter().copied().collect();
    let read = view.graph.read_vertices(&ids, Version::MAX)?;
    let mut things: BTreeMap<String, JobOrDataset> = BTreeMap::new();
    let mut names: HashMap<VertexId, String> = HashMap::new();
    for thing in read.into_iter().flatten().filter_map(JobOrDataset::of) {
        let kind = if thing.vertex.type_id == types.plan {
            "job"
        } else {
            "dataset"
        };
        let id = format!("{kind}:{}:{}", thing.namespace, thing.name);
        names.insert(thing.vertex.id, id.clone());
        things.insert(id, thing);
    }
    let mut edges: HashMap<&str, (Vec<Json>, Vec<Json>)> = HashMap::new();
    for (origin, destination) in &found.edges {
        let (Some(origin), Some(destination)) = (names.get(origin), names.get(destination)) else {
            continue;
        };
        let edge = json!({"origin": origin, "destination": destination});
        edges.entry(destination).or_default().0.push(edge.clone());
        edges.entry(origin).or_default().1.push(edge);
    }
    let mut graph = Vec::with_capacity(things.len());
    for (id, thing) in &things {
        let is_job = thing.vertex.type_id == types.plan;
        let data = if is_job {
            job_out(&view, thing)?
        } else {
            dataset_out(&view, thing)?
        };
        let (into, out) = edges.remove(id.as_str()).unwrap_or_default();
        let kind = if is_job { "JOB" } else { "DATASET" };
        graph.push(json!({"id": id, "type": kind, "data": data, "inEdges": into, "outEdges": out}));
    }
    Ok(json!({"graph": graph, "complete": found.complete}).to_string())
}
