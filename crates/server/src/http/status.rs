//! Health checks and metrics.

use crate::metrics::{head, value_of};
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode, header};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn text(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    response
}

/// Answers that the process is alive.
pub(super) async fn health() -> Response<Body> {
    text(StatusCode::OK, "ok\n")
}

/// Answers whether the server accepts calls.
pub(super) async fn ready(State(service): State<Arc<Service>>) -> Response<Body> {
    if let Some(why) = service.cluster.as_ref().and_then(|c| c.not_yet()) {
        text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
    } else if service.closing() {
        text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if takes_no_writes(&service).await {
        text(StatusCode::SERVICE_UNAVAILABLE, NO_WRITES)
    } else {
        text(StatusCode::OK, "ready\n")
    }
}

/// Answer to a probe while reads succeed and writes are refused.
const NO_WRITES: &str = "the store takes no writes, most likely because its disk was full: make room, then restart the server\n";

/// Whether the store accepts no writes until it is opened again.
async fn takes_no_writes(service: &Arc<Service>) -> bool {
    // Reading the store's figures may block on the disk.
    let service = Arc::clone(service);
    let stats = tokio::task::spawn_blocking(move || service.database.stats()).await;
    stats.is_ok_and(|stats| stats.is_ok_and(|stats| stats.store.failed))
}

/// Answers with metrics for Prometheus.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response<Body> {
    let mut out = String::new();
    service.metrics.write(&mut out);
    if let Some(cluster) = &service.cluster {
        cluster.metrics(&service.database, &mut out);
    }
    let gauges = [
        (
            "esker_memory_bytes",
            "Bytes of requests and answers in memory.",
            service.memory.load(Ordering::Acquire),
        ),
        (
            "esker_waiting_reads",
            "Short calls that wait for a thread.",
            service.readers.waiting(),
        ),
        (
            "esker_waiting_scans",
            "Long calls that wait for a thread.",
            service.scanners.waiting(),
        ),
        (
            "esker_waiting_writes",
            "Batches that wait for the next group commit.",
            service.writer.waiting(),
        ),
    ];
    for (name, help, value) in gauges {
        value_of(&mut out, name, "gauge", help, value as f64);
    }
    for (name, kind, help, value) in service.access.audit().figures() {
        value_of(&mut out, name, kind, help, value as f64);
    }
    head(
        &mut out,
        "esker_wait_seconds",
        "histogram",
        "Time for which requests waited for a thread, by thread pool.",
    );
    for (pool, lane) in [
        ("reads", &service.readers),
        ("scans", &service.scanners),
        ("sparql", &service.sparql),
    ] {
        let labels = format!("pool=\"{pool}\"");
        lane.waits()
            .write("esker_wait_seconds", &labels, 1e6, &mut out);
    }
    // Reading the store's figures may block on the disk.
    let asked = Arc::clone(&service);
    let stats = tokio::task::spawn_blocking(move || asked.database.stats()).await;
    if let Ok(Ok(stats)) = stats {
        let total = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>() as f64;
        let vertices = total(&mut stats.counts.vertices.iter().map(|(_, n)| *n));
        let edges = total(&mut stats.counts.edges.iter().map(|(_, n)| *n));
        for (name, help, value) in [
            ("esker_vertices", "Vertices that exist now.", vertices),
            (
                "esker_edges",
                "Edges that exist now, inverses included.",
                edges,
            ),
            (
                "esker_adjacency_lists",
                "Adjacency lists in the cache.",
                stats.adjacency_lists as f64,
            ),
            (
                "esker_adjacency_bytes",
                "Bytes of the adjacency cache.",
                stats.adjacency_bytes as f64,
            ),
            (
                "esker_store_cache_bytes",
                "Bytes of the store's block cache.",
                stats.store.cache_bytes as f64,
            ),
            (
                "esker_store_log_bytes",
                "Bytes of the write-ahead log.",
                stats.store.log_bytes as f64,
            ),
            (
                "esker_store_failed",
                "1 if the store takes no writes until the server is restarted, as after a full disk.",
                f64::from(u8::from(stats.store.failed)),
            ),
        ] {
            value_of(&mut out, name, "gauge", help, value);
        }
        out.push_str("# HELP esker_store_table_bytes Bytes on disk, by table.\n# TYPE esker_store_table_bytes gauge\n");
        for (table, bytes) in &stats.store.table_bytes {
            let _ = writeln!(
                out,
                "esker_store_table_bytes{{table=\"{}\"}} {bytes}",
                table.name()
            );
        }
    }
    text(StatusCode::OK, out)
}
