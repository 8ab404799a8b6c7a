//! Retention of past states of files: removes states that were superseded before a version, and records of files removed by then,
//! unless the graph has their vertices.
//!
//! The newest past state of a file stays while its successor is unknown: the present state may be in any directory. Records of
//! removed directories stay, because they locate the past states of their entries. An id may be reused once nothing is stored
//! about its file any more.

use super::rows::corrupt;
use crate::Engine;
use crate::catalog::{RETAINED_KEY, version_value};
use crate::read::{FirstError, vertex_record};
use crate::settings::CompactReport;
use crate::txn::{CommitKind, lock};
use esker_model::key::names::{INODE_HISTORY_PREFIX, LOCATION_PREFIX, NamesKey};
use esker_model::namespace::record::LocationRecord;
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Snapshot, Table};
use std::sync::atomic::Ordering;

/// Rows removed at a time, under the write lock.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Removable rows of a part of the table, and the key to continue from.
struct RemovableRows {
    rows: Vec<Vec<u8>>,
    /// The newest version that superseded one of the states.
    superseded_by: Version,
    next: Option<Vec<u8>>,
}

impl Engine {
    /// Drops states that were superseded at or before `since`.
    pub(crate) fn retain_names(
        &self,
        since: Version,
        cancel: &dyn Cancel,
        report: &mut CompactReport,
    ) -> Result<()> {
        if !self.names.any() {
            return Ok(());
        }
        // Past states first, because the records of removed files date their end; then those records.
        for kind in [INODE_HISTORY_PREFIX, LOCATION_PREFIX] {
            let mut next = Some(kind.to_vec());
            while let Some(from) = next.take() {
                if cancel.cancelled() {
                    return Err(Error::Interrupted);
                }
                let mut writer = lock(&self.writer);
                let snapshot = self.store.snapshot()?;
                let portion = match kind {
                    INODE_HISTORY_PREFIX => past(&*snapshot, from, since, report)?,
                    _ => removed(&*snapshot, from, since, report)?,
                };
                drop(snapshot);
                if !portion.rows.is_empty() {
                    report.dropped += portion.rows.len() as u64;
                    // Raised before the rows go, as for rows of the graph: a reader checks it after taking its snapshot.
                    let before = self
                        .retained_since
                        .fetch_max(portion.superseded_by.0, Ordering::AcqRel);
                    let retained = Version(before).max(portion.superseded_by);
                    self.commit(&mut writer, CommitKind::Local, &*self.store, |commit| {
                        let value = version_value(retained);
                        commit.overlay.put(Table::Meta, RETAINED_KEY, value);
                        for key in portion.rows {
                            commit.overlay.remove(Table::Names, key);
                        }
                        // An opening ignores pending rows of versions that are merged already.
                        commit.effects.newest.0 = commit.tick();
                        Ok(())
                    })?;
                }
                next = portion.next;
            }
        }
        Ok(())
    }
}

/// Scans rows of a kind until there are enough to remove. `superseded_by` returns the version at which a row was superseded
/// (`Version::MAX` for rows to keep), or `None` for rows that are no past states.
fn portion(
    snapshot: &dyn Snapshot,
    (kind, from): ([u8; 1], Vec<u8>),
    since: Version,
    superseded_by: &mut dyn FnMut(NamesKey, &[u8]) -> Result<Option<Version>>,
    report: &mut CompactReport,
) -> Result<RemovableRows> {
    let until = KeyRange::prefix(&kind).until;
    let (mut rows, mut next, mut seen) = (Vec::new(), None, 0_usize);
    let mut newest = Version::ZERO;
    let mut last = None;
    let mut error = FirstError::default();
    snapshot.scan(
        Table::Names,
        &KeyRange { from, until },
        &mut |key, value| {
            let decoded = error.keep(NamesKey::decode(key).map_err(corrupt))?;
            seen += 1;
            // Stops only between files: each past state is superseded by the one before it in key order.
            let full = rows.len() >= ROWS_AT_ONCE || seen > 16 * ROWS_AT_ONCE;
            if full && last != Some(decoded.id()) {
                next = Some(key.to_vec());
                return Flow::Break(());
            }
            last = Some(decoded.id());
            if let Some(version) = error.keep(superseded_by(decoded, value))? {
                if version <= since {
                    newest = newest.max(version);
                    rows.push(key.to_vec());
                } else {
                    report.kept += 1;
                }
            }
            Flow::Continue(())
        },
    )?;
    error.into_result()?;
    Ok(RemovableRows {
        rows,
        superseded_by: newest,
        next,
    })
}

fn past(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    since: Version,
    report: &mut CompactReport,
) -> Result<RemovableRows> {
    let mut newer: Option<(VertexId, Version)> = None;
    let mut superseded_by = |key, _: &[u8]| {
        let NamesKey::InodeHistory(id, version) = key else {
            return Ok(None);
        };
        let successor = match newer {
            Some((same, version)) if same == id => Some(version),
            _ => removed_at(snapshot, id)?,
        };
        newer = Some((id, version));
        Ok(Some(successor.unwrap_or(Version::MAX)))
    };
    let part = (INODE_HISTORY_PREFIX, from);
    portion(snapshot, part, since, &mut superseded_by, report)
}

fn removed(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    since: Version,
    report: &mut CompactReport,
) -> Result<RemovableRows> {
    let mut superseded_by = |key: NamesKey, value: &[u8]| {
        let id = key.id();
        let place = LocationRecord::decode(id, value).map_err(corrupt)?;
        let Some(inode) = place.inode.filter(|i| place.deleted && !i.is_directory()) else {
            return Ok(None);
        };
        let goes = vertex_record(snapshot, id)?.is_none();
        Ok(Some(if goes { inode.version } else { Version::MAX }))
    };
    let part = (LOCATION_PREFIX, from);
    portion(snapshot, part, since, &mut superseded_by, report)
}

/// Returns the version at which a file was removed, if it was.
fn removed_at(snapshot: &dyn Snapshot, id: VertexId) -> Result<Option<Version>> {
    let place = super::rows::location_record(&super::CommittedRows(snapshot), id)?;
    Ok(place
        .filter(|p| p.deleted)
        .and_then(|p| Some(p.inode?.version)))
}
