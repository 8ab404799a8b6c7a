//! Retention of past states of files: removes states that were superseded before a version, and records of files removed by then,
//! unless the graph has their vertices.
//!
//! The newest past state of a file stays while its successor is unknown: the present state may be in any directory. Records of
//! removed directories stay, because they locate the past states of their entries. An id may be reused once nothing is stored
//! about its file any more.

use super::rows::corrupt;
use crate::Engine;
use crate::read::{FirstError, vertex_record};
use crate::settings::CompactReport;
use crate::txn::{CommitKind, lock};
use esker_model::key::names::{INODE_HISTORY_PREFIX, LOCATION_PREFIX, NamesKey};
use esker_model::namespace::record::LocationRecord;
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Snapshot, Table};

/// Rows removed at a time, under the write lock.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Removable rows of a part of the table, and the key to continue from.
struct RemovableRows {
    rows: Vec<Vec<u8>>,
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
                    self.commit(&mut writer, CommitKind::Local, &*self.store, |commit| {
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

/// Scans rows of a kind until there are enough to remove.
fn portion(
    snapshot: &dyn Snapshot,
    (kind, from): ([u8; 1], Vec<u8>),
    look: &mut dyn FnMut(NamesKey, &[u8]) -> Result<bool>,
) -> Result<RemovableRows> {
    let until = KeyRange::prefix(&kind).until;
    let (mut rows, mut next, mut seen) = (Vec::new(), None, 0_usize);
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
            if error.keep(look(decoded, value))? {
                rows.push(key.to_vec());
            }
            Flow::Continue(())
        },
    )?;
    error.into_result()?;
    Ok(RemovableRows { rows, next })
}

fn past(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    since: Version,
    report: &mut CompactReport,
) -> Result<RemovableRows> {
    let mut newer: Option<(VertexId, Version)> = None;
    portion(snapshot, (INODE_HISTORY_PREFIX, from), &mut |key, _| {
        let NamesKey::InodeHistory(id, version) = key else {
            return Ok(false);
        };
        let successor = match newer {
            Some((same, version)) if same == id => Some(version),
            _ => removed_at(snapshot, id)?,
        };
        newer = Some((id, version));
        let goes = successor.is_some_and(|s| s <= since);
        report.kept += u64::from(!goes);
        Ok(goes)
    })
}

fn removed(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    since: Version,
    report: &mut CompactReport,
) -> Result<RemovableRows> {
    portion(snapshot, (LOCATION_PREFIX, from), &mut |key, value| {
        let id = key.id();
        let place = LocationRecord::decode(id, value).map_err(corrupt)?;
        let Some(inode) = place.inode.filter(|i| place.deleted && !i.is_directory()) else {
            return Ok(false);
        };
        let goes = inode.version <= since && vertex_record(snapshot, id)?.is_none();
        report.kept += u64::from(!goes);
        Ok(goes)
    })
}

/// Returns the version at which a file was removed, if it was.
fn removed_at(snapshot: &dyn Snapshot, id: VertexId) -> Result<Option<Version>> {
    let place = super::rows::location_record(&super::CommittedRows(snapshot), id)?;
    Ok(place
        .filter(|p| p.deleted)
        .and_then(|p| Some(p.inode?.version)))
}
