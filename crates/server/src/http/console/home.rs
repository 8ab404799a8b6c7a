//! The first page: counts, activity and health.

use super::super::api::{Answer, ApiRequest, add_names};
use super::super::json::version_out;
use crate::metrics::Metrics;
use crate::service::Service;
use esker_console::runs::{self, RunFilter};
use esker_model::{EdgeKey, Schema, Version, VertexId};
use serde_json::{Map, Value as Json, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds per point of the series, and number of points, which cover an hour.
const STEP_S: u64 = 5;
const POINTS: usize = 720;
/// Number of runs and changes that are shown.
const SHOWN: usize = 12;
/// Number of changes that are kept.
const CHANGES_MAX: usize = 200;
/// Free fractions of the file system below which the page warns.
const FREE_WARN: f64 = 0.05;
const FREE_BAD: f64 = 0.01;

/// Activity of the last hour.
#[derive(Default)]
pub(super) struct Rates(Mutex<Series>);

#[derive(Default)]
struct Series {
    /// Operations and calls per step.
    points: VecDeque<(u64, u64)>,
    last: Option<(Instant, u64, u64)>,
}

impl Rates {
    pub(super) fn note(&self, metrics: &Metrics) {
        let (operations, calls) = (metrics.mutations(), metrics.calls().0);
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, before, calls_before)) = series.last else {
            series.last = Some((Instant::now(), operations, calls));
            return;
        };
        if at.elapsed().as_millis() < u128::from(STEP_S) * 1_000 - 100 {
            return;
        }
        series.points.push_back((
            operations.saturating_sub(before),
            calls.saturating_sub(calls_before),
        ));
        if series.points.len() > POINTS {
            series.points.pop_front();
        }
        series.last = Some((Instant::now(), operations, calls));
    }

    fn to_json(&self) -> Json {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let per_second = |n: u64| n as f64 / STEP_S as f64;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let length = series.points.len() as u64 * STEP_S;
        json!({
            "step_s": STEP_S,
            "from": now.unwrap_or_default().as_secs().saturating_sub(length),
            "operations": series.points.iter().map(|p| per_second(p.0)).collect::<Json>(),
            "calls": series.points.iter().map(|p| per_second(p.1)).collect::<Json>(),
        })
    }
}

/// Changes since the first request for them.
#[derive(Default)]
pub(super) struct Changes(Mutex<ChangeLog>);

#[derive(Default)]
struct ChangeLog {
    place: Option<u64>,
    /// Changed items, the newest last.
    touched: VecDeque<ChangedItem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangedItem {
    Vertex(VertexId),
    Edge(EdgeKey),
}

impl Changes {
    /// Returns the latest changes, the newest first; none in a cluster, where each server has only its own.
    fn latest(&self, service: &Service, schema: &Schema) -> Vec<ChangedItem> {
        let Ok((engine, _)) = service.database.engine() else {
            return Vec::new();
        };
        if service.cluster.is_some() {
            return Vec::new();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = known.place.and_then(|place| engine.changes_since(place));
        let Some(news) = news else {
            known.place = Some(engine.follow());
            return known.touched.iter().rev().copied().collect();
        };
        known.place = Some(news.until);
        for one in distinct(&news, schema) {
            known.touched.retain(|other| *other != one);
            known.touched.push_back(one);
            if known.touched.len() > CHANGES_MAX {
                known.touched.pop_front();
            }
        }
        known.touched.iter().rev().copied().collect()
    }
}

/// Returns each changed item once.
pub(super) fn distinct(news: &esker::FeedChanges, schema: &Schema) -> Vec<ChangedItem> {
    let (vertices, edges) = news.distinct(schema);
    let vertices = vertices.into_iter().map(ChangedItem::Vertex);
    vertices
        .chain(edges.into_iter().map(ChangedItem::Edge))
        .collect()
}

/// Encodes changes with names and versions, as the principal may see them.
pub(super) fn changes_out(
    request: &ApiRequest<'_>,
    schema: &Schema,
    touched: &[ChangedItem],
) -> Result<Vec<Json>, super::super::ApiError> {
    let graph = request.graph();
    let (mut ids, mut keys) = (Vec::new(), Vec::new());
    for one in touched {
        match one {
            ChangedItem::Vertex(id) => ids.push(*id),
            ChangedItem::Edge(key) => keys.push(*key),
        }
    }
    let vertices = graph.read_vertices(&ids, Version::MAX)?;
    let mut out: Vec<(Version, Json)> = Vec::new();
    for vertex in vertices.into_iter().flatten() {
        let type_name = schema.vertex_type(vertex.type_id).map(|t| t.name.as_str());
        out.push((
            vertex.version,
            json!({
                "version": version_out(vertex.version),
                "id": vertex.name(schema),
                "type": type_name,
                "change": if vertex.deleted { "deleted" } else { "written" },
                "edge": null,
            }),
        ));
    }
    let mut names = HashMap::new();
    let ends = keys.iter().flat_map(|k| [k.source, k.destination]);
    add_names(&graph, schema, &mut names, ends)?;
    let name = |id: &VertexId| names.get(id).map_or("", String::as_str);
    let edges = graph.read_edges(&keys, Version::MAX)?;
    for edge in edges.into_iter().flatten() {
        let edge_type = schema
            .edge_type(edge.key.edge_type)
            .map(|t| t.name.as_str());
        out.push((
            edge.version,
            json!({
                "version": version_out(edge.version),
                "id": name(&edge.key.source),
                "type": null,
                "change": if edge.deleted { "unlinked" } else { "linked" },
                "edge": {"type": edge_type, "to": name(&edge.key.destination)},
            }),
        ));
    }
    out.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    Ok(out.into_iter().map(|(_, json)| json).collect())
}

fn line(name: &str, state: &str, text: &str, remedy: Option<&str>) -> Json {
    json!({"name": name, "state": state, "text": text, "remedy": remedy})
}

/// Health of the server in lines, with remedies.
fn health(service: &Service) -> Vec<Json> {
    let mut lines = Vec::new();
    match &service.cluster {
        Some(cluster) => match cluster.not_yet() {
            Some(why) => lines.push(line(
                "cluster",
                "warn",
                &why,
                Some("start the servers that are not running"),
            )),
            None => lines.push(line(
                "cluster",
                "ok",
                "this server has joined the others",
                None,
            )),
        },
        None => lines.push(line(
            "server",
            "ok",
            "it is a single server, and takes calls",
            None,
        )),
    }
    match service.database.stats() {
        Ok(stats) if stats.store.failed => lines.push(line(
            "store",
            "bad",
            "it no longer accepts writes: most likely its disk was full",
            Some("make room, then start the server again"),
        )),
        Ok(stats) => lines.push(line(
            "store",
            "ok",
            &format!("{} takes reads and writes", stats.store.engine),
            None,
        )),
        Err(e) => lines.push(line("store", "bad", &e.to_string(), None)),
    }
    let folder = service.access.folder();
    if let Ok(room) = rustix::fs::statvfs(folder) {
        let free = room.f_bavail as f64 / (room.f_blocks as f64).max(1.0);
        let bytes = esker_console::label::bytes(room.f_bavail.saturating_mul(room.f_frsize));
        let text = format!("{bytes} free ({:.0} %) where the database is", free * 100.0);
        let state = match free {
            free if free < FREE_BAD => "bad",
            free if free < FREE_WARN => "warn",
            _ => "ok",
        };
        let remedy = (state != "ok").then_some("make room: a full disk stops writes");
        lines.push(line("disk", state, &text, remedy));
    }
    if !service.settings.spools.is_empty() {
        let spool = &service.metrics.spool;
        let waiting = *spool.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (aside, failures) = (spool.aside.get(), spool.failures.get());
        let state = if aside + failures > 0 { "warn" } else { "ok" };
        let text = format!("{waiting} runs wait, {aside} files put aside, {failures} scans failed");
        let remedy = (state != "ok").then_some("the server's log says which, and why");
        lines.push(line("spools", state, &text, remedy));
    }
    let shed = service.metrics.shed.get();
    if shed > 0 {
        lines.push(line(
            "load",
            "warn",
            &format!("{shed} calls were turned away since the start, because there were too many"),
            Some("`threads` and `limits` in the server's configuration"),
        ));
    }
    lines
}

/// Answers the request `GET /api/v1/home`.
pub(in super::super) fn home(request: &ApiRequest<'_>) -> Answer {
    let service = request.service;
    let graph = request.graph();
    let schema = graph.schema()?;
    let stats = service.stats(&*graph, request.principal())?;
    // Totals are hidden from a limited principal, because they include hidden data.
    let limited = request.is_limited();
    let vertices = stats.counts.vertices.iter().filter_map(|(t, n)| {
        let name = schema.vertex_type(*t)?.name.clone();
        Some((name, Json::from(*n)))
    });
    let bytes =
        stats.store.table_bytes.iter().map(|(_, n)| n).sum::<u64>() + stats.objects_disk_bytes;
    // Each edge has an inverse; only one of them is counted.
    let edges = stats.counts.edges.iter().filter_map(|(t, n)| {
        let declared = schema.edge_type(*t).filter(|t| t.forward)?;
        Some((declared.name.clone(), Json::from(*n)))
    });
    let wanted = RunFilter {
        limit: SHOWN,
        ..RunFilter::default()
    };
    let runs = runs::list(&*graph, &wanted, request.call_state)?;
    let touched = service.console.changes.latest(service, &schema);
    let mut changes = Vec::new();
    // Changes that the principal may not see must not displace others.
    for some in touched.chunks(4 * SHOWN) {
        changes.extend(changes_out(request, &schema, some)?);
        if changes.len() >= 2 * SHOWN || !limited {
            break;
        }
    }
    changes.truncate(2 * SHOWN);
    Ok(json!({
        "vertices": vertices.collect::<Map<String, Json>>(),
        "edges": edges.collect::<Map<String, Json>>(),
        "newest": stats.newest.map(version_out),
        "retained_since": stats.retained_since.map(version_out),
        "bytes": bytes,
        "rate": if limited { Rates::default().to_json() } else { service.console.rates.to_json() },
        "runs": runs.runs,
        "runs_stopped": runs.stopped,
        "changes": changes,
        "changes_known": service.cluster.is_none(),
        "health": if limited { Vec::new() } else { health(service) },
    })
    .to_string())
}
