//! The first page: counts, what happens, how the server is.

use super::super::api::{Answer, Asked, learn};
use super::super::json::version_out;
use crate::metrics::Metrics;
use crate::service::Service;
use esker_console::runs::{self, Wanted};
use esker_model::{EdgeKey, Schema, Version, VertexId};
use serde_json::{Map, Value as Json, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds that one point of the series stands for, and points that are kept: an hour.
const STEP_S: u64 = 5;
const POINTS: usize = 720;
/// Runs and changes that are shown.
const SHOWN: usize = 12;
/// Changes that are remembered.
const CHANGES_MAX: usize = 200;
/// Parts of a file system's room below which it is said that there is little.
const LITTLE: f64 = 0.05;
const VERY_LITTLE: f64 = 0.01;

/// How much there was to do, over the last hour.
#[derive(Default)]
pub(super) struct Rates(Mutex<Series>);

#[derive(Default)]
struct Series {
    /// Operations and calls of each step.
    points: VecDeque<(u64, u64)>,
    last: Option<(Instant, u64, u64)>,
}

impl Rates {
    pub(super) fn note(&self, metrics: &Metrics) {
        let (operations, calls) = (metrics.mutations(), metrics.calls().0);
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, before, asked)) = series.last else {
            series.last = Some((Instant::now(), operations, calls));
            return;
        };
        if at.elapsed().as_millis() < u128::from(STEP_S) * 1_000 - 100 {
            return;
        }
        series.points.push_back((
            operations.saturating_sub(before),
            calls.saturating_sub(asked),
        ));
        if series.points.len() > POINTS {
            series.points.pop_front();
        }
        series.last = Some((Instant::now(), operations, calls));
    }

    fn told(&self) -> Json {
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

/// What has changed since somebody looked first.
#[derive(Default)]
pub(super) struct Changes(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    place: Option<u64>,
    /// The newest last.
    touched: VecDeque<Touched>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touched {
    Vertex(VertexId),
    Edge(EdgeKey),
}

impl Changes {
    /// The newest first. Nothing of clusters: their servers know their own only.
    fn latest(&self, service: &Service, schema: &Schema) -> Vec<Touched> {
        let Ok((engine, _)) = service.database.engine() else {
            return Vec::new();
        };
        if service.cluster.is_some() {
            return Vec::new();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = known.place.and_then(|place| engine.news_since(place));
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

/// Each thing once.
pub(super) fn distinct(news: &esker::News, schema: &Schema) -> Vec<Touched> {
    let (vertices, edges) = news.distinct(schema);
    let vertices = vertices.into_iter().map(Touched::Vertex);
    vertices
        .chain(edges.into_iter().map(Touched::Edge))
        .collect()
}

/// Changes with their names and versions, as whoever asks may see them.
pub(super) fn changes_out(
    asked: &Asked<'_>,
    schema: &Schema,
    touched: &[Touched],
) -> Result<Vec<Json>, super::super::Refused> {
    let graph = asked.graph();
    let (mut ids, mut keys) = (Vec::new(), Vec::new());
    for one in touched {
        match one {
            Touched::Vertex(id) => ids.push(*id),
            Touched::Edge(key) => keys.push(*key),
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
    learn(&graph, schema, &mut names, ends)?;
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

/// How the server is, in lines that say what to do.
fn health(service: &Service) -> Vec<Json> {
    let mut lines = Vec::new();
    match &service.cluster {
        Some(cluster) => match cluster.not_yet() {
            Some(why) => lines.push(line(
                "cluster",
                "warn",
                &why,
                Some("start the servers that are not there"),
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
            "it stands alone, and takes calls",
            None,
        )),
    }
    match service.database.stats() {
        Ok(stats) if stats.store.failed => lines.push(line(
            "store",
            "bad",
            "it takes no writes any more: most likely its disk was full",
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
        let text = format!(
            "{bytes} free ({:.0} %) where the database lies",
            free * 100.0
        );
        let state = match free {
            free if free < VERY_LITTLE => "bad",
            free if free < LITTLE => "warn",
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
        let text = format!("{waiting} runs wait, {aside} files put aside, {failures} looks failed");
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

/// `GET /api/v1/home`.
pub(in super::super) fn home(asked: &Asked<'_>) -> Answer {
    let service = asked.service;
    let graph = asked.graph();
    let schema = graph.schema()?;
    let stats = crate::answer::stats(service, &*graph, asked.asker())?;
    // How much there is, and happens, is more than what somebody sees from whom something is hidden.
    let limited = asked.is_limited();
    let vertices = stats.counts.vertices.iter().filter_map(|(t, n)| {
        let name = schema.vertex_type(*t)?.name.clone();
        Some((name, Json::from(*n)))
    });
    let bytes =
        stats.store.table_bytes.iter().map(|(_, n)| n).sum::<u64>() + stats.objects_disk_bytes;
    // Each edge is there with its inverse; it is counted once.
    let edges = stats.counts.edges.iter().filter_map(|(t, n)| {
        let declared = schema.edge_type(*t).filter(|t| t.forward)?;
        Some((declared.name.clone(), Json::from(*n)))
    });
    let wanted = Wanted {
        limit: SHOWN,
        ..Wanted::default()
    };
    let runs = runs::list(&*graph, &wanted, asked.watch)?;
    let touched = service.console.changes.latest(service, &schema);
    let mut changes = Vec::new();
    // What whoever asks may not see takes no place of what they may.
    for some in touched.chunks(4 * SHOWN) {
        changes.extend(changes_out(asked, &schema, some)?);
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
        "rate": if limited { Rates::default().told() } else { service.console.rates.told() },
        "runs": runs.runs,
        "runs_stopped": runs.stopped,
        "changes": changes,
        "changes_known": service.cluster.is_none(),
        "health": if limited { Vec::new() } else { health(service) },
    })
    .to_string())
}
