//! Comparison of all answers of an engine with the model's.

use crate::history::traversal;
use crate::model::{GraphModel, TraversalAnswer};
use crate::reads::Reads;
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_engine::{CheckOptions, Engine, explain};
use esker_model::traversal::{Budget, Stop, StopReason, TravelResult};
use esker_model::{
    DiffSelect, Edge, EdgeKey, EdgeSelect, EdgeTypeId, Flow, NeverCancel, Traversal, Version,
    VersionRange, Versions, VertexId, VertexSelect,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Result of a comparison; an error describes the difference.
pub type Compared = Result<(), String>;

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, engine: &T, model: &T) -> Compared {
    if engine == model {
        return Ok(());
    }
    Err(format!(
        "{}\n  engine: {engine:?}\n  model:  {model:?}",
        what()
    ))
}

fn ok<T>(what: &str, result: esker_model::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what} failed: {e}"))
}

/// Compares all reads, as of now and of some random versions, and some random traversals, twice each.
pub fn compare(
    engine: &dyn Reads,
    model: &GraphModel,
    graph: &TestGraph,
    rng: &mut Rng,
) -> Compared {
    let seen: Vec<Version> = model.versions().into_iter().collect();
    let mut times = vec![Version::MAX];
    for _ in 0..4 {
        if !seen.is_empty() {
            let v = *rng.pick(&seen);
            times.push(if rng.percent(30) { Version(v.0 - 1) } else { v });
        }
    }
    for time in times {
        as_of(engine, model, graph, time)?;
    }
    ranges(engine, model, graph, rng, &seen)?;
    counters(engine, model, graph, rng)?;
    for _ in 0..2 {
        let mut at = || {
            if seen.is_empty() || rng.percent(20) {
                Version::MAX
            } else {
                *rng.pick(&seen)
            }
        };
        diff(engine, model, at(), at())?;
    }
    for _ in 0..6 {
        let traversal = traversal(graph, rng);
        for time in ["cold", "warm"] {
            travel(engine, model, &traversal).map_err(|e| format!("({time}) {e}"))?;
        }
    }
    Ok(())
}

pub(crate) fn as_of(
    engine: &dyn Reads,
    model: &GraphModel,
    graph: &TestGraph,
    time: Version,
) -> Compared {
    let ids = graph.ids();
    let read = engine.read_vertices(&ids, time);
    let expected: Vec<_> = ids.iter().map(|id| model.vertex(*id, time)).collect();
    same(
        || format!("vertices as of {time:?}"),
        &ok("read_vertices", read)?,
        &expected,
    )?;
    if let [first, ..] = ids.as_slice() {
        let one = ok("read_vertices", engine.read_vertices(&[*first], time))?;
        same(
            || format!("one vertex as of {time:?}"),
            &one,
            &vec![model.vertex(*first, time)],
        )?;
    }
    let keys = graph.edge_keys();
    let expected: Vec<_> = keys.iter().map(|k| model.edge_as_of(*k, time)).collect();
    let read = ok("read_edges", engine.read_edges(&keys, time))?;
    for (got, want) in read.iter().zip(&expected) {
        same(|| format!("an edge as of {time:?}"), got, want)?;
    }
    scan(engine, model, &ids, Vec::new(), Versions::AsOf(time))?;
    scan(
        engine,
        model,
        &ids[3..6],
        graph.edge_types.clone(),
        Versions::AsOf(time),
    )?;
    for (t, _) in model.schema.vertex_types() {
        let mut select = VertexSelect {
            as_of: time,
            ..VertexSelect::of(t)
        };
        let all = model.vertices_of(&select);
        let middle = all.get(all.len() / 2).map(|v| (v.type_id, v.id));
        for (after, deleted) in [(None, false), (None, true), (middle, false), (middle, true)] {
            (select.after, select.deleted) = (after, deleted);
            let mut found = Vec::new();
            let read = engine.scan_vertices(&select, &mut |v| {
                found.push(v);
                Flow::Continue(())
            });
            ok("scan_vertices", read)?;
            let expected = model.vertices_of(&select);
            same(|| format!("vertices of {select:?}"), &found, &expected)?;
        }
    }
    Ok(())
}

fn scan(
    engine: &dyn Reads,
    model: &GraphModel,
    ids: &[VertexId],
    types: Vec<EdgeTypeId>,
    versions: Versions,
) -> Compared {
    let mut found = Vec::new();
    let select = EdgeSelect {
        types: types.clone(),
        versions,
        properties: true,
        after: None,
    };
    let read = engine.scan_edges(ids, &select, &mut |i, edge| {
        found.push((i, edge));
        Flow::Continue(())
    });
    ok("scan_edges", read)?;
    let mut expected = Vec::new();
    for (i, id) in ids.iter().enumerate() {
        expected.extend(
            model
                .edges_of(*id, &types, versions)
                .into_iter()
                .map(|e| (i, e)),
        );
    }
    same(
        || format!("edges of types {types:?}, {versions:?}"),
        &found,
        &expected,
    )?;
    // A scan after a cursor is the rest of the scan.
    let of_first = expected.iter().filter(|(i, _)| *i == 0);
    let mut cursors: Vec<_> = of_first
        .map(|(_, e)| (e.key.edge_type, e.key.destination))
        .collect();
    cursors.dedup();
    for cursor in [
        cursors.first(),
        cursors.get(cursors.len() / 2),
        cursors.last(),
    ] {
        let Some(cursor) = cursor.copied() else {
            continue;
        };
        let after = EdgeSelect {
            after: Some(cursor),
            ..select.clone()
        };
        let mut rest = Vec::new();
        let read = engine.scan_edges(ids, &after, &mut |i, edge| {
            rest.push((i, edge));
            Flow::Continue(())
        });
        ok("scan_edges", read)?;
        let is_after =
            |(i, e): &&(usize, Edge)| *i > 0 || (e.key.edge_type, e.key.destination) > cursor;
        let expected: Vec<_> = expected.iter().filter(is_after).cloned().collect();
        same(|| format!("edges of {after:?}"), &rest, &expected)?;
    }
    // Repeats the scan without properties, and with a sink that stops after one edge.
    let select = EdgeSelect {
        types,
        versions,
        properties: false,
        after: None,
    };
    let mut bare = Vec::new();
    let read = engine.scan_edges(ids, &select, &mut |i, edge| {
        bare.push((i, edge.key, edge.version, edge.deleted));
        Flow::Break(())
    });
    ok("scan_edges", read)?;
    let expected: Vec<_> = expected
        .iter()
        .take(1)
        .map(|(i, e)| (*i, e.key, e.version, e.deleted))
        .collect();
    same(
        || "the first edge of a scan without properties".into(),
        &bare,
        &expected,
    )
}

pub(crate) fn ranges(
    engine: &dyn Reads,
    model: &GraphModel,
    graph: &TestGraph,
    rng: &mut Rng,
    seen: &[Version],
) -> Compared {
    let mut range = VersionRange::ALL;
    for round in 0..2 {
        if round == 1 && !seen.is_empty() {
            let (a, b) = (*rng.pick(seen), *rng.pick(seen));
            range = VersionRange {
                from: a.min(b),
                until: a.max(b),
            };
        }
        for id in graph.ids() {
            let read = ok("vertex_history", engine.vertex_history(id, range))?;
            same(
                || format!("history of vertex {id} in {range:?}"),
                &read,
                &model.vertex_history(id, range),
            )?;
        }
        for (key, _) in model.directed() {
            let read = ok("edge_history", engine.edge_history(key, range))?;
            same(
                || format!("history of an edge in {range:?}"),
                &read,
                &model.edge_history(key, range),
            )?;
        }
        scan(
            engine,
            model,
            &graph.ids(),
            Vec::new(),
            Versions::Range(range),
        )?;
    }
    Ok(())
}

pub(crate) fn counters(
    engine: &dyn Reads,
    model: &GraphModel,
    graph: &TestGraph,
    rng: &mut Rng,
) -> Compared {
    same(
        || "counts".into(),
        &ok("counts", engine.counts())?,
        &model.counts(),
    )?;
    let mut of = Vec::new();
    for id in graph.ids() {
        of.extend(model.schema.edge_types().map(|(t, _)| (id, t)));
    }
    let expected: Vec<_> = of.iter().map(|(id, t)| model.degree(*id, *t)).collect();
    same(
        || "degrees".into(),
        &ok("degrees", engine.degrees(&of))?,
        &expected,
    )?;
    for edge_type in [None, Some(*rng.pick(&graph.edge_types))] {
        for limit in [0, 1, 3, 1000] {
            let top = ok("top_degrees", engine.top_degrees(edge_type, limit))?;
            same(
                || format!("top {limit} of {edge_type:?}"),
                &top,
                &model.top_degrees(edge_type, limit),
            )?;
        }
    }
    for n in 0..4 {
        let idempotency_key = vec![b'm', n];
        let applied = ok("applied", engine.applied(&idempotency_key))?;
        same(
            || format!("marker {n}"),
            &applied,
            &model.applied_keys.contains(&idempotency_key),
        )?;
    }
    Ok(())
}

pub(crate) fn diff(
    engine: &dyn Reads,
    model: &GraphModel,
    before: Version,
    after: Version,
) -> Compared {
    let mut select = DiffSelect::between(before, after);
    let all = model.diff(&select);
    // Twice the whole, in pages that differ in size and continue after the last difference.
    for page in [usize::MAX, 1 + all.len() / 3] {
        let mut found = Vec::new();
        select.start_after = None;
        loop {
            let mut rest = page;
            let page_select = select;
            let read = engine.diff(&page_select, &mut |d| {
                select.start_after = d.key();
                found.push(d);
                rest -= 1;
                if rest == 0 {
                    Flow::Break(())
                } else {
                    Flow::Continue(())
                }
            });
            ok("diff", read)?;
            if rest > 0 {
                break;
            }
        }
        let what = || format!("diff of {before:?} and {after:?} in pages of {page}");
        same(what, &found, &all)?;
    }
    Ok(())
}

/// Compares the result of one traversal.
pub fn travel(engine: &dyn Reads, model: &GraphModel, traversal: &Traversal) -> Compared {
    let result = engine.travel(traversal, &Budget::default());
    let what = |e: String| format!("{traversal}\n{e}");
    let answer = model
        .travel(traversal)
        .ok_or("the model refuses the traversal")?;
    ok("explain", explain(&model.schema, traversal)).map_err(what)?;
    let result = ok("travel", result).map_err(what)?;
    travelled(&result, &answer, traversal).map_err(what)
}

/// Checks that a result is what the model answers, or a part of it if the traversal was stopped early.
pub fn travelled(
    result: &TravelResult,
    answer: &TraversalAnswer,
    traversal: &Traversal,
) -> Compared {
    well_formed(result)?;
    let hops = |sets: &mut dyn Iterator<Item = u32>| sets.collect::<Vec<_>>();
    same(
        || "working sets".into(),
        &hops(&mut result.sets.iter().map(|s| s.hop)),
        &hops(&mut answer.sets.iter().map(|s| s.0)),
    )?;
    same(
        || "complete".into(),
        &result.complete,
        &result.stopped.is_empty(),
    )?;
    let by_rule = |reason| matches!(reason, StopReason::Depth | StopReason::Limit);
    let cut = result.stopped.iter().any(|s| !by_rule(s.reason));
    for (set, (hop, expected)) in result.sets.iter().zip(&answer.sets) {
        if cut {
            let reached = answer.reached.get(hop);
            let there = |id| reached.is_some_and(|reached| reached.contains(id));
            same(
                || format!("set {hop}: vertices that should not be there"),
                &set.vertices.iter().all(there),
                &true,
            )?;
        } else {
            same(|| format!("set {hop}"), &set.vertices, expected)?;
        }
    }
    if !cut {
        // The counts of a step may be lost with a message, so only the reasons are exact.
        let reasons = |stops: &[Stop]| stops.iter().map(|s| s.reason).collect::<Vec<_>>();
        same(
            || "reasons of stops".into(),
            &reasons(&result.stopped),
            &reasons(&answer.stopped),
        )?;
    }
    let Some(paths) = &result.paths else {
        return same(|| "paths returned".into(), &false, &traversal.return_paths);
    };
    let edges: BTreeSet<(EdgeKey, Version)> = paths
        .nodes
        .iter()
        .flat_map(|n| &n.parents)
        .map(|p| (p.edge, p.version))
        .collect();
    if cut {
        // Paths that end early may have edges that are in no complete path.
        return Ok(());
    }
    same(|| "edges of paths".into(), &edges, &answer.path_edges)?;
    let count = |nodes: &mut dyn Iterator<Item = (u32, VertexId)>| {
        let mut counted: BTreeMap<(u32, VertexId), usize> = BTreeMap::new();
        nodes.for_each(|n| *counted.entry(n).or_default() += 1);
        counted
    };
    same(
        || "nodes of paths, by level".into(),
        &count(&mut paths.nodes.iter().map(|n| (n.level, n.vertex))),
        &count(&mut answer.nodes.iter().map(|((_, id), level)| (*level, *id))),
    )?;
    let ends: BTreeSet<VertexId> = paths
        .nodes
        .iter()
        .filter(|n| n.end)
        .map(|n| n.vertex)
        .collect();
    let missing: Vec<_> = answer
        .ends
        .iter()
        .filter(|(_, id)| !ends.contains(id))
        .collect();
    same(
        || "ends of paths that are missing".into(),
        &missing,
        &Vec::new(),
    )
}

/// Checks what is true of every result: sets without repetition, connected paths that lead from the start to an end.
fn well_formed(result: &TravelResult) -> Compared {
    for set in &result.sets {
        let distinct: BTreeSet<_> = set.vertices.iter().collect();
        same(
            || format!("set {} has each vertex once", set.hop),
            &set.vertices.len(),
            &distinct.len(),
        )?;
    }
    let Some(paths) = &result.paths else {
        return Ok(());
    };
    let mut leads_on = vec![false; paths.nodes.len()];
    for node in &paths.nodes {
        same(
            || format!("a node has parents unless it is a start: {node:?}"),
            &(node.level > 0),
            &!node.parents.is_empty(),
        )?;
        for step in &node.parents {
            let parent = paths
                .nodes
                .get(step.parent as usize)
                .ok_or("a parent that does not exist")?;
            same(
                || "a step starts at its parent".into(),
                &step.edge.source,
                &parent.vertex,
            )?;
            same(
                || "a step ends at its node".into(),
                &step.edge.destination,
                &node.vertex,
            )?;
            leads_on[step.parent as usize] = true;
        }
    }
    for (node, leads_on) in paths.nodes.iter().zip(leads_on) {
        same(
            || format!("a node from which nothing leads on is an end: {node:?}"),
            &(node.end || leads_on),
            &true,
        )?;
    }
    Ok(())
}

/// Compares the findings of `check` with the model's.
pub fn check(engine: &Engine, model: &GraphModel) -> Compared {
    let report = ok(
        "check",
        engine.check(&CheckOptions::default(), &NeverCancel, &mut |_| {}),
    )?;
    let count = |what: &str| report.problems.iter().filter(|p| p.what == what).count() as u64;
    let total = report.problems_total;
    if report.problems.len() as u64 == total {
        let (dangling, unreachable) = (count("dangling edge"), count("unreachable vertex"));
        same(
            || format!("dangling edges: {report:?}"),
            &dangling,
            &model.dangling(),
        )?;
        same(
            || format!("unreachable vertices: {report:?}"),
            &unreachable,
            &model.unreachable(),
        )?;
    }
    same(
        || format!("problems: {report:?}"),
        &total,
        &(model.dangling() + model.unreachable()),
    )?;
    same(|| "a check is complete".into(), &report.complete, &true)
}
