//! Retention: moves versions that were superseded before a given version from the live store into the archive.
//!
//! A superseded version is valid from its own version until its successor's. Under a policy "keep what was current at `since`
//! or later", every version whose successor is not later than `since` may be moved.
//!
//! **Which reads need only the live store.** For each moved row the superseding version is known when the row moves;
//! `retained` is the largest of them all. A read as of `t` needs the archive only if `t < retained`:
//!
//! - *When a row moves.* It was current from its version `v` until its successor `s`, and `v < s <= retained`. So for
//!   any `t >= retained` the row is not the one read as of `t`: a later version of the same timeline is in `(v, t]`. If
//!   that one moved too, the argument applies to its successor, up to a version in the live store, since versions without a
//!   successor never move.
//! - *Afterwards.* Versions of that timeline in `(v, retained]` in the live store may be replaced, but never removed: a late
//!   change adds a version; one that replaces a mere mention (`txn::vertex`) is older than the mention and
//!   newer than all versions before the mention. So a version of the timeline remains in `(v, retained]`.
//!
//! If nothing moved, `retained` is unchanged, whatever the policy: `--retain 90d` alone slows down no read.
//! Reads as of an earlier version include the archive (`read::Source`) and return the same as before the move.
//!
//! **Crashes.** The rows are first made durable in the archive; then one commit removes them from the live store and raises
//! `retained`. In between they are in both, and are returned once. In memory `retained` is raised before that commit, and
//! readers load it after taking their snapshot: a reader that cannot see the rows any more consults the archive.

use crate::Engine;
use crate::catalog::{RETAINED_KEY, version_value};
use crate::read::{FirstError, corrupt, vertex_record};
use crate::settings::CompactReport;
use crate::txn::lock;
use esker_model::key::{HistoryKey, without_version};
use esker_model::record::EdgeRecord;
use esker_model::{Cancel, Error, Flow, Result, Version};
use esker_store::{KeyRange, Snapshot, Table, WriteBatch};
use std::sync::atomic::Ordering;

/// Rows archived, and then removed from the store, at a time.
const ROWS_AT_ONCE: usize = 1 << 16;

impl Engine {
    /// Archives versions superseded at or before `since` (if given), then lets the store reclaim space in its own files. Can be
    /// interrupted between portions; what was archived by then stays archived.
    pub fn compact(&self, since: Option<Version>, cancel: &dyn Cancel) -> Result<CompactReport> {
        let mut report = CompactReport::default();
        if let Some(since) = since {
            if since > self.newest_version() {
                return Err(Error::Invalid(format!(
                    "cannot retain only what comes after {since}: that is in the future"
                )));
            }
            self.archive_until(since, cancel, &mut report)?;
            self.retain_names(since, cancel, &mut report)?;
        }
        if cancel.cancelled() {
            return Err(Error::Interrupted);
        }
        self.store.compact()?;
        Ok(report)
    }

    /// The present time, or the newest version assigned if that is later.
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
        let snapshot = self.store.snapshot()?;
        let mut after: Option<(Vec<u8>, Timeline)> = None;
        loop {
            if cancel.cancelled() {
                return Err(Error::Interrupted);
            }
            let portion = portion(&*snapshot, after.take(), since, report)?;
            if !portion.rows.is_empty() {
                self.archive_portion(portion.rows, portion.superseded_by, report)?;
            }
            match portion.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn archive_portion(
        &self,
        rows: Rows,
        superseded_by: Version,
        report: &mut CompactReport,
    ) -> Result<()> {
        self.archive.append(&mut rows.iter().cloned().map(Ok))?;
        report.archived += rows.len() as u64;
        let before = self
            .retained_since
            .fetch_max(superseded_by.0, Ordering::AcqRel);
        self.archive_moves.fetch_add(1, Ordering::AcqRel);
        let retained = Version(before).max(superseded_by);
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, RETAINED_KEY, version_value(retained));
        rows.into_iter()
            .for_each(|(key, _)| batch.remove(Table::History, key));
        self.commit_unlisted(batch)
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows to archive together.
struct Portion {
    rows: Rows,
    /// The newest version that superseded one of the rows.
    superseded_by: Version,
    /// Position to continue from; `None` at the end.
    next: Option<(Vec<u8>, Timeline)>,
}

/// The timeline of the last row (its key without a version), and that row's version.
struct Timeline {
    part: Vec<u8>,
    version: Version,
}

/// Returns the next rows to archive.
fn portion(
    snapshot: &dyn Snapshot,
    after: Option<(Vec<u8>, Timeline)>,
    since: Version,
    report: &mut CompactReport,
) -> Result<Portion> {
    let mut rows = Rows::new();
    let mut superseded_by = Version::ZERO;
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
            let part = without_version(key);
            // Newest first: the previous row, if it is of the same timeline, is the successor.
            let successor = match &timeline {
                Some(t) if t.part == part => Some(t.version),
                _ => error.keep(current_version(snapshot, &decoded))?,
            };
            timeline = Some(Timeline {
                part: part.to_vec(),
                version,
            });
            // Versions without a successor stay: the removal of an attribute prevents an older value that arrives late from becoming
            // the newest.
            if let Some(successor) = successor.filter(|s| *s <= since) {
                superseded_by = superseded_by.max(successor);
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
    Ok(Portion {
        rows,
        superseded_by,
        next,
    })
}

/// Returns the version in `rows` of the timeline that a row of `history` belongs to.
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
