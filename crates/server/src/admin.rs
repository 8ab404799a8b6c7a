//! Conversion of the engine's reports to messages.

use esker::{CheckReport, Stats};
use esker_rpc::{convert, proto};

pub(crate) fn stats_out(stats: &Stats) -> proto::StatsReply {
    let tables = stats.store.table_bytes.iter();
    proto::StatsReply {
        counts: Some(convert::counts_out(&stats.counts)),
        store: Some(proto::StoreStats {
            engine: stats.store.engine.to_owned(),
            tables: tables
                .map(|(table, bytes)| proto::store_stats::Table {
                    name: table.name().to_owned(),
                    bytes: *bytes,
                })
                .collect(),
            log_bytes: stats.store.log_bytes,
            cache_bytes: stats.store.cache_bytes,
            cache_bytes_max: stats.store.cache_bytes_max,
        }),
        adjacency_lists: stats.adjacency_lists,
        adjacency_edges: stats.adjacency_edges,
        adjacency_bytes: stats.adjacency_bytes,
        adjacency_bytes_max: stats.adjacency_bytes_max,
        objects_bytes: stats.objects_bytes,
        objects_index_bytes: stats.objects_index_bytes,
        objects_disk_bytes: stats.objects_disk_bytes,
        newest: stats.newest.map(|v| v.0),
        retained_since: stats.retained_since.map(|v| v.0),
    }
}

pub(crate) fn check_out(report: CheckReport) -> proto::CheckReport {
    proto::CheckReport {
        rows: report.rows,
        vertices: report.vertices,
        edges: report.edges,
        history: report.history,
        problems: report
            .problems
            .into_iter()
            .map(|p| proto::check_report::Problem {
                what: p.what,
                detail: p.detail,
                repaired: p.repaired,
            })
            .collect(),
        problems_total: report.problems_total,
        complete: report.complete,
        edges_sum: report.edges_sum,
        inverses_sum: report.inverses_sum,
    }
}
