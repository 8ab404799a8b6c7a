//! Retention: versions that nobody can read any more under the policy move from the live store into the archive.
//!
//! A superseded version is needed by reads as of any time until its successor. So with a policy of "reads as of `since`
//! or later", every version whose successor is not later than `since` may go.

use crate::Engine;
use crate::catalog::{RETAINED_KEY, version_value};
use crate::read::{FirstError, corrupt, vertex_record};
use crate::settings::CompactReport;
use crate::txn::lock;
use esker_model::key::HistoryKey;
use esker_model::record::EdgeRecord;
use esker_model::{Cancel, Error, Flow, Result, Version};
use esker_store::{Durability, KeyRange, Snapshot, Table, WriteBatch};
use std::sync::atomic::Ordering;

/// Rows handed to the archive, and then removed from the store, at a time.
const ROWS_AT_ONCE: usize = 1 << 16;

impl Engine {
    /// Archives versions superseded at or before `since` (if given), then lets the store drop what is superseded in its
    /// own files. Can be interrupted between portions; what was archived by then stays archived.
    pub fn compact(&self, since: Option<Version>, cancel: &dyn Cancel) -> Result<CompactReport> {
        let mut report = CompactReport::default();
        if let Some(since) = since {
            if since > self.newest_version() {
                return Err(Error::Invalid(format!(
                    "cannot retain only what comes after {since}: that lies in the future"
                )));
            }
            self.archive_until(since, cancel, &mut report)?;
        }
        if cancel.cancelled() {
            return Err(Error::Interrupted);
        }
        self.store.compact()?;
        Ok(report)
    }

    /// Now, or the newest version given if that is later.
    fn newest_version(&self) -> Version {
        let now = Version::end_of_millis(self.clock.now_millis());
        now.max(Version(self.newest_seen.load(Ordering::Acquire)))
    }

    fn archive_until(
        &self,
        since: Version,
        cancel: &dyn Cancel,
        report: &mut CompactReport,
    ) -> Result<()> {
        let _writer = lock(&self.writer);
        let retained = self.retained_since.load(Ordering::Acquire).max(since.0);
        // First nobody reads that past any more, then it goes.
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, RETAINED_KEY, version_value(Version(retained)));
        self.store.commit(batch, Durability::Sync)?;
        self.retained_since.store(retained, Ordering::Release);
        let snapshot = self.store.snapshot()?;
        let mut after: Option<(Vec<u8>, Timeline)> = None;
        loop {
            if cancel.cancelled() {
                return Err(Error::Interrupted);
            }
            let (rows, next) = portion(&*snapshot, after.take(), since, report)?;
            if !rows.is_empty() {
                self.archive.append(&mut rows.iter().cloned().map(Ok))?;
                report.archived += rows.len() as u64;
                let mut batch = WriteBatch::default();
                rows.into_iter()
                    .for_each(|(key, _)| batch.remove(Table::History, key));
                self.store.commit(batch, Durability::Sync)?;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The part that the last row belonged to (its key without a version), and that row's version.
struct Timeline {
    part: Vec<u8>,
    version: Version,
}

/// The next rows to archive, and where to go on; `None` at the end.
fn portion(
    snapshot: &dyn Snapshot,
    after: Option<(Vec<u8>, Timeline)>,
    since: Version,
    report: &mut CompactReport,
) -> Result<(Rows, Option<(Vec<u8>, Timeline)>)> {
    let mut rows = Rows::new();
    let mut next = None;
    let (from, mut timeline) = match after {
        Some((key, timeline)) => ([key.as_slice(), &[0]].concat(), Some(timeline)),
        None => (Vec::new(), None),
    };
    let mut error = FirstError::default();
    snapshot.scan(
        Table::History,
        &KeyRange { from, until: None },
        &mut |key, value| {
            let decoded = HistoryKey::decode(key).map_err(|e| corrupt("history", e));
            let decoded = error.keep(decoded)?;
            let version = match &decoded {
                HistoryKey::Static(_, v)
                | HistoryKey::Attribute(_, _, v)
                | HistoryKey::Edge(_, v) => *v,
            };
            let part = key.get(..key.len().saturating_sub(8)).unwrap_or_default();
            // Newest first: the row before, if it is of the same part, is the successor.
            let successor = match &timeline {
                Some(t) if t.part == part => Some(t.version),
                _ => error.keep(current_version(snapshot, &decoded))?,
            };
            timeline = Some(Timeline {
                part: part.to_vec(),
                version,
            });
            // What nothing superseded stays: the removal of an attribute is all that keeps an older value, arriving late,
            // from being taken for the newest.
            if successor.is_some_and(|s| s <= since) {
                rows.push((key.to_vec(), value.to_vec()));
            } else {
                report.kept += 1;
            }
            if rows.len() >= ROWS_AT_ONCE {
                next = timeline.take().map(|t| (key.to_vec(), t));
                return Flow::Break(());
            }
            Flow::Continue(())
        },
    )?;
    error.into_result()?;
    Ok((rows, next))
}

/// The version of what stands in `rows` for the part that a row of `history` belongs to.
fn current_version(read: &dyn Snapshot, key: &HistoryKey) -> Result<Option<Version>> {
    match key {
        HistoryKey::Static(id, _) => Ok(vertex_record(read, *id)?.map(|r| r.static_version)),
        HistoryKey::Attribute(id, name, _) => {
            let record = vertex_record(read, *id)?;
            Ok(record.and_then(|r| r.user.iter().find(|a| a.name == *name).map(|a| a.version)))
        }
        HistoryKey::Edge(edge, _) => {
            let mut version = None;
            read.get_with(Table::Rows, &edge.encode(), &mut |value| {
                version = Some(EdgeRecord::decode_head(value).map(|(_, v)| v));
            })?;
            version.transpose().map_err(|e| corrupt("rows", e))
        }
    }
}
