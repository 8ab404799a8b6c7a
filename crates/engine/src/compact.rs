//! Retention: versions that were superseded long enough ago move from the live store into the archive.
//!
//! A superseded version is what is read as of any time from its own until its successor's. With a policy of "keep what
//! was current at `since` or later", every version whose successor is not later than `since` may go.
//!
//! **Which reads the live store alone answers.** Of each row that moved, the version that superseded it is known at that
//! moment; `retained` is the largest of them all. A read as of `t` needs the archive only if `t < retained`:
//!
//! - *When a row moves.* It was current from its version `v` until its successor `s`, and `v < s <= retained`. So for
//!   any `t >= retained` the row is not what is read as of `t`: something of the same timeline lies in `(v, t]`, and if
//!   that moved too, so does its successor, up to one that is in the live store, for what nothing superseded never moves.
//! - *Afterwards.* What is in the live store of that timeline in `(v, retained]` may be replaced, never just go: a late
//!   change adds a version; one that takes the place of a mere mention (`txn::vertex`) is older than the mention and
//!   younger than all that comes before it. So something of the timeline stays in `(v, retained]`.
//!
//! Where nothing moved, `retained` stays what it was, whatever the policy: `--retain 90d` alone slows no read down.
//! Reads of a time before it look into the archive as well (`read::Source`) and answer the same as before the move.
//!
//! **Crashes.** The rows go to the archive first, and are durable there; then one commit takes them out of the live store
//! and raises `retained`. In between they are in both places, and shown once. In memory `retained` is raised before that
//! commit, and readers look at it after they took their snapshot: who cannot see the rows any more knows where they are.

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
            self.retain_names(since, cancel, &mut report)?;
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
        self.feed.end(&mut batch);
        let done = self.store.commit(batch, Durability::Sync);
        self.feed.committed(done.is_ok());
        self.feed.lose();
        done
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows to archive at one go.
struct Portion {
    rows: Rows,
    /// The newest version that superseded one of them.
    superseded_by: Version,
    /// Where to go on; `None` at the end.
    next: Option<(Vec<u8>, Timeline)>,
}

/// The part that the last row belonged to (its key without a version), and that row's version.
struct Timeline {
    part: Vec<u8>,
    version: Version,
}

/// The next rows to archive.
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
