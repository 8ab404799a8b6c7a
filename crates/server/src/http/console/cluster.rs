//! Status of the servers.

use super::super::api::{Answer, ApiRequest};
use esker_model::Version;
use esker_rpc::{Client, proto};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// Time limit of another server's answer.
const ANSWER_MAX: Duration = Duration::from_millis(1_500);

fn per_second(count: u64, millis: u32) -> Option<f64> {
    (millis > 0).then(|| (count as f64 * 1e4 / f64::from(millis)).round() / 10.0)
}

fn server_out(id: usize, address: &str, reply: &proto::ClusterReply) -> Json {
    let counts = reply.counts.clone().unwrap_or_default();
    let sum = |counts: &[proto::Count]| counts.iter().map(|c| c.count).sum::<u64>();
    json!({
        "server": id,
        "address": address,
        "state": if reply.serving { "serving" } else { "joining" },
        "problem": reply.window.as_ref().map(|w| w.problem.as_str()).filter(|t| !t.is_empty()),
        "newest": Version(reply.newest).to_string(),
        "vertices": sum(&counts.vertices),
        "edges": sum(&counts.edges),
        "bytes": reply.bytes,
        "vnodes": reply.vnodes_here,
        "split_vertices": reply.split_vertices,
        "calls_per_s": per_second(reply.recent_calls, reply.recent_ms),
        "writes_per_s": per_second(reply.recent_writes, reply.recent_ms),
        "asked": reply.calls.iter().sum::<u64>(),
        "unanswered": reply.calls_failed.iter().sum::<u64>(),
        "unsaved": reply.window.as_ref().map(|w| w.written.saturating_sub(w.persisted)),
    })
}

/// Removes the numbers from a server's row for a limited principal: they include hidden data.
fn without_numbers(mut row: Json) -> Json {
    for name in [
        "newest",
        "vertices",
        "edges",
        "bytes",
        "split_vertices",
        "calls_per_s",
        "writes_per_s",
        "asked",
        "unanswered",
        "unsaved",
    ] {
        row[name] = Json::Null;
    }
    row
}

fn down(id: usize, address: &str, why: &str) -> Json {
    json!({
        "server": id, "address": address, "state": "down", "problem": why, "newest": null, "vertices": null, "edges": null,
        "bytes": null, "vnodes": null, "split_vertices": null, "calls_per_s": null, "writes_per_s": null, "asked": null,
        "unanswered": null, "unsaved": null,
    })
}

/// Status of a single server.
fn single_server(request: &ApiRequest<'_>) -> Result<Json, super::super::ApiError> {
    let service = request.service;
    let stats = service.database.stats()?;
    let recent = service.metrics.recent_activity();
    let address = service.console.address.get();
    let address = address.map_or_else(|| service.settings.listen.clone(), ToString::to_string);
    let total = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>();
    let graph = request.graph();
    let top = graph.top_degrees(None, 10)?;
    let schema = service.schema()?;
    let ids: Vec<_> = top.iter().map(|d| d.vertex).collect();
    let found = graph.read_vertices(&ids, Version::MAX)?;
    let hubs = top.iter().zip(&found).map(|(degree, vertex)| {
        let name = super::super::json::name_of(degree.vertex, vertex.as_ref(), &schema);
        let edge_type = schema.edge_type(degree.edge_type).map(|t| t.name.as_str());
        json!({"id": name, "edge_type": edge_type, "edges": degree.degree})
    });
    // Totals are hidden from a limited principal, because they include hidden data.
    let all = |value: Json| {
        if request.is_limited() {
            Json::Null
        } else {
            value
        }
    };
    Ok(json!({
        "kind": "folder",
        "name": null,
        "placement": null,
        "threshold": null,
        "vnodes": null,
        "traversals": service.console.traversals.to_json(request.principal()),
        "hubs": hubs.collect::<Json>(),
        "servers": [{
            "server": 0,
            "address": address,
            "state": "serving",
            "problem": stats.store.failed.then_some("the store takes no writes"),
            "newest": all(stats.newest.map(|v| v.to_string()).into()),
            "vertices": all(total(&mut stats.counts.vertices.iter().map(|(_, n)| *n)).into()),
            "edges": all(total(&mut stats.counts.edges.iter().map(|(_, n)| *n)).into()),
            "bytes": all((total(&mut stats.store.table_bytes.iter().map(|(_, n)| *n)) + stats.objects_disk_bytes).into()),
            "vnodes": null,
            "split_vertices": null,
            "calls_per_s": all(per_second(recent.calls, recent.millis).into()),
            "writes_per_s": all(per_second(recent.writes, recent.millis).into()),
            "asked": null,
            "unanswered": null,
            "unsaved": null,
        }],
    }))
}

/// Answers the request `GET /api/v1/cluster`.
pub(in super::super) fn cluster(request: &ApiRequest<'_>) -> Answer {
    let service = request.service;
    let Some(cluster) = &service.cluster else {
        return single_server(request).map(|json| json.to_string());
    };
    let own = cluster.report(&service.database, &service.metrics)?;
    let others: Vec<Option<esker_rpc::Address>> = cluster.other_addresses();
    // Requests run in parallel, so that a hanging server delays no other.
    let answers: Vec<Option<Result<proto::ClusterReply, String>>> = std::thread::scope(|scope| {
        let asking: Vec<_> = others
            .iter()
            .map(|address| {
                address.clone().map(|mut address| {
                    address.patience = address.patience.min(ANSWER_MAX);
                    scope.spawn(move || {
                        let reply = Client::connect(&address).and_then(|client| client.cluster());
                        reply.map_err(|e| e.to_string())
                    })
                })
            })
            .collect();
        let each = asking.into_iter().map(|thread| {
            thread.map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("asking it failed".into()))
            })
        });
        each.collect()
    });
    let servers = own.servers.iter().enumerate().map(|(id, address)| {
        let row = match answers.get(id).and_then(Option::as_ref) {
            Some(Ok(reply)) => server_out(id, address, reply),
            Some(Err(why)) => down(id, address, why),
            None => server_out(id, address, &own),
        };
        if request.is_limited() {
            without_numbers(row)
        } else {
            row
        }
    });
    Ok(json!({
        "kind": "cluster",
        "name": own.name,
        "placement": own.placement,
        "threshold": own.threshold,
        "vnodes": own.vnodes,
        "traversals": service.console.traversals.to_json(request.principal()),
        "hubs": [],
        "servers": servers.collect::<Json>(),
    })
    .to_string())
}
