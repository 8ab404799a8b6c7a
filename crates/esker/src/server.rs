//! Administrative calls to a server, converted to the engine's report types.

use crate::backup::BackupReport;
use crate::engine::{CheckOptions, CheckReport, CompactReport, Problem, Stats};
use esker_model::{Cancel, Error, Result, Version};
use esker_rpc::text::intern;
use esker_rpc::{Client, convert, proto};
use esker_store::{StoreStats, Table};
use std::path::Path;

/// Counts, sizes and cache statistics.
pub(crate) fn stats(client: &Client) -> Result<Stats> {
    stats_in(client.stats()?)
}

fn stats_in(stats: proto::StatsReply) -> Result<Stats> {
    let store = stats.store.unwrap_or_default();
    let table = |t: proto::store_stats::Table| {
        // Tables of later releases are skipped.
        let known = Table::ALL.into_iter().find(|k| k.name() == t.name);
        known.map(|k| (k, t.bytes))
    };
    Ok(Stats {
        counts: convert::counts_in(stats.counts.unwrap_or_default())?,
        store: StoreStats {
            // A server reports a failed store on the next write.
            failed: false,
            engine: intern(&store.engine),
            table_bytes: store.tables.into_iter().filter_map(table).collect(),
            log_bytes: store.log_bytes,
            cache_bytes: store.cache_bytes,
            cache_bytes_max: store.cache_bytes_max,
        },
        adjacency_lists: stats.adjacency_lists,
        adjacency_edges: stats.adjacency_edges,
        adjacency_bytes: stats.adjacency_bytes,
        adjacency_bytes_max: stats.adjacency_bytes_max,
        objects_bytes: stats.objects_bytes,
        objects_index_bytes: stats.objects_index_bytes,
        objects_disk_bytes: stats.objects_disk_bytes,
        newest: stats.newest.map(Version),
        retained_since: stats.retained_since.map(Version),
    })
}

/// Checks the consistency of all rows.
pub(crate) fn check(
    client: &Client,
    options: CheckOptions,
    cancel: &dyn Cancel,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let report = client.check(options.repair, cancel, progress)?;
    Ok(CheckReport {
        rows: report.rows,
        vertices: report.vertices,
        edges: report.edges,
        history: report.history,
        problems: report
            .problems
            .into_iter()
            .map(|p| Problem {
                what: p.what,
                detail: p.detail,
                repaired: p.repaired,
            })
            .collect(),
        problems_total: report.problems_total,
        complete: report.complete,
        edges_sum: report.edges_sum,
        inverses_sum: report.inverses_sum,
    })
}

/// Moves superseded versions to the archive.
pub(crate) fn compact(
    client: &Client,
    retain_after: Option<Version>,
    cancel: &dyn Cancel,
) -> Result<CompactReport> {
    let done = client.compact(retain_after, cancel)?;
    Ok(CompactReport {
        archived: done.archived,
        kept: done.kept,
        // Servers do not report it.
        dropped: 0,
    })
}

/// Copies the database on the server's machine.
pub(crate) fn backup(client: &Client, directory: &Path) -> Result<BackupReport> {
    let text = directory.to_str().ok_or_else(|| {
        Error::Invalid(format!(
            "`{}` cannot be sent to a server: its name is not UTF-8",
            directory.display()
        ))
    })?;
    let done = client.backup(text)?;
    Ok(BackupReport {
        bytes: done.bytes,
        newest: done.newest.map(Version),
    })
}
