//! The network client as a [`ServerClient`]: its reports become the engine's.

use super::ServerClient;
use crate::backup::BackupReport;
use crate::database::Submitted;
use crate::engine::{CheckOptions, CheckReport, CompactReport, Problem, Stats};
use esker_model::namespace::{AppliedChange, Change};
use esker_model::object::{Principal, TagReport, TagWhere};
use esker_model::sharing::{ShareCall, SharedLineage};
use esker_model::wire::intern;
use esker_model::{Batch, Cancel, Commit, Error, Result, Schema, SchemaChange, Version};
use esker_rpc::{Client, convert, proto};
use esker_store::{StoreStats, Table};
use std::path::Path;
use std::sync::Arc;

impl ServerClient for Client {
    fn on_behalf_of(&self, principal: Option<&Principal>) -> Box<dyn ServerClient> {
        Box::new(Self::on_behalf_of(self, principal))
    }

    fn address(&self) -> String {
        Self::address(self).to_string()
    }

    fn pid(&self) -> u32 {
        Self::pid(self)
    }

    fn about(&self) -> Result<(String, u64)> {
        let about = Self::about(self)?;
        Ok((about.version, about.clock_millis))
    }

    fn is_cluster(&self) -> Result<bool> {
        Ok(!self.cluster()?.servers.is_empty())
    }

    fn stats(&self) -> Result<Stats> {
        stats_in(Self::stats(self)?)
    }

    fn check(
        &self,
        options: CheckOptions,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport> {
        let report = Self::check(self, options.repair, cancel, progress)?;
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

    fn compact(&self, retain_after: Option<Version>, cancel: &dyn Cancel) -> Result<CompactReport> {
        let done = Self::compact(self, retain_after, cancel)?;
        Ok(CompactReport {
            archived: done.archived,
            kept: done.kept,
            // Servers do not report it.
            dropped: 0,
        })
    }

    fn backup(&self, directory: &Path) -> Result<BackupReport> {
        let text = directory.to_str().ok_or_else(|| {
            Error::Invalid(format!(
                "`{}` cannot be sent to a server: its name is not UTF-8",
                directory.display()
            ))
        })?;
        let done = Self::backup(self, text)?;
        Ok(BackupReport {
            bytes: done.bytes,
            newest: done.newest.map(Version),
        })
    }

    fn apply_with(&self, batch: Batch, sync: bool) -> Result<Commit> {
        Self::apply_with(self, batch, sync)
    }

    fn submit(&self, batch: Batch, sync: bool) -> Result<Submitted> {
        let sent = Self::submit(self, batch, sync)?;
        Ok(Submitted::Sent(Box::new(sent)))
    }

    fn define_with(&self, changes: &[SchemaChange], sync: bool) -> Result<Arc<Schema>> {
        Self::define_with(self, changes, sync)
    }

    fn tag_where_with(
        &self,
        change: &TagWhere,
        sync: bool,
        cancel: &dyn Cancel,
    ) -> Result<TagReport> {
        Self::tag_where_with(self, change, sync, cancel)
    }

    fn change_with(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        Self::change_with(self, principal, changes, sync)
    }

    fn call_shares(
        &self,
        principal: Option<&Principal>,
        call: &ShareCall,
    ) -> Result<Vec<SharedLineage>> {
        Self::call_shares(self, principal, call)
    }

    fn persist(&self) -> Result<()> {
        Self::persist(self)
    }

    fn flush(&self) -> Result<()> {
        Self::flush(self)
    }
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
