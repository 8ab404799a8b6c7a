//! `GET /api/v1/lineage`: by `id` as ever; by `nodeId` as Marquez answers, jobs and datasets with what leads in and out.

use super::super::Refused;
use super::super::api::{self, Answer, Asked};
use super::data::dataset_out;
use super::jobs::job_out;
use super::known::{Known, Thing, absent};
use esker_import::openlineage::{Types, data_name, job_name, run_name};
use esker_model::{Cancel as _, EdgeSelect, Version, Versions, VertexId, VertexName};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Jobs and datasets of one answer.
const NODES_MAX: usize = 5_000;
/// Steps, if it is not said.
const DEPTH: u64 = 20;

/// Answers both.
pub(in super::super) fn lineage(asked: &Asked<'_>) -> Answer {
    match (asked.query.get("nodeId"), asked.query.get("id")) {
        (Some(_), Some(_)) => Err(Refused::bad(
            "parameters `id` and `nodeId` are two ways to say what to ask for: give one".into(),
        )),
        (Some(node), None) => around(asked, node),
        (None, Some(_)) => api::lineage(asked),
        (None, None) => Err(Refused::bad(
            "parameter `id` (a vertex, as file:/scratch/a.h5) or `nodeId` (as dataset:NAMESPACE:NAME) is missing".into(),
        )),
    }
}

/// What a node is called: names may have colons in them, so each place may be where the namespace ends.
fn candidates(node: &str) -> Result<Vec<VertexName>, Refused> {
    let bad = || {
        Refused::bad(format!(
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

fn start(known: &Known<'_>, asked: &Asked<'_>, node: &str) -> Result<VertexId, Refused> {
    for name in candidates(node)? {
        if name.type_name == "Execution" {
            let run = known.vertex(asked, &name)?;
            let run = run.ok_or_else(|| absent("run", &name.key))?;
            let exe = known.schema.edge_type_id("exe")?;
            let plans = known.ends(run.id, exe)?;
            return match plans.first() {
                Some((plan, _)) => Ok(*plan),
                None => Err(absent("job of run", &name.key)),
            };
        }
        if let Some(thing) = known.thing(asked, &name)?
            && node.ends_with(&format!("{}:{}", thing.namespace, thing.name))
        {
            return Ok(thing.vertex.id);
        }
    }
    Err(absent("job or dataset", node))
}

/// Which datasets go into which jobs, and which come out.
#[derive(Default)]
struct Found {
    nodes: BTreeSet<VertexId>,
    edges: BTreeSet<(VertexId, VertexId)>,
    complete: bool,
}

fn spread(
    known: &Known<'_>,
    types: Types,
    asked: &Asked<'_>,
    from: VertexId,
    depth: u64,
) -> Result<Found, Refused> {
    let mut found = Found {
        complete: true,
        ..Found::default()
    };
    found.nodes.insert(from);
    let mut frontier = vec![from];
    let (consumed, produced) = (known.inverse(types.consumes), known.inverse(types.produces));
    let select = EdgeSelect {
        types: vec![types.consumes, types.produces, consumed, produced],
        versions: Versions::NOW,
        properties: false,
    };
    for _ in 0..depth {
        let mut next = Vec::new();
        known.graph.scan_edges(&frontier, &select, &mut |_, edge| {
            let (this, other) = (edge.key.source, edge.key.destination);
            if !found.nodes.contains(&other) {
                if found.nodes.len() >= NODES_MAX || asked.watch.cancelled() {
                    found.complete = false;
                    return ControlFlow::Break(());
                }
                found.nodes.insert(other);
                next.push(other);
            }
            // What is consumed and what produces go into what they lead to.
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

fn around(asked: &Asked<'_>, node: &str) -> Answer {
    let known = Known::new(asked)?;
    candidates(node)?;
    let Some(types) = known.types else {
        return Err(absent("job or dataset", node));
    };
    let from = start(&known, asked, node)?;
    let depth = asked.query.number("depth")?.unwrap_or(DEPTH);
    let found = spread(&known, types, asked, from, depth)?;
    let ids: Vec<VertexId> = found.nodes.iter().copied().collect();
    let read = known.graph.read_vertices(&ids, Version::MAX)?;
    let mut things: BTreeMap<String, Thing> = BTreeMap::new();
    let mut names: HashMap<VertexId, String> = HashMap::new();
    for thing in read.into_iter().flatten().filter_map(Thing::of) {
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
            job_out(&known, thing)?
        } else {
            dataset_out(&known, thing)?
        };
        let (into, out) = edges.remove(id.as_str()).unwrap_or_default();
        let kind = if is_job { "JOB" } else { "DATASET" };
        graph.push(json!({"id": id, "type": kind, "data": data, "inEdges": into, "outEdges": out}));
    }
    Ok(json!({"graph": graph, "complete": found.complete}).to_string())
}
