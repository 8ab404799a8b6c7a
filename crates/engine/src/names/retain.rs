//! Retention of what files were: states that were superseded long enough ago go, and so do files that were removed by then,
//! unless the graph knows of them.
//!
//! Of each file's past states the newest stays while it is not known what superseded it: a file's present state may lie in
//! any directory. Removed directories stay, for they say where was what was in them. An id may come again once nothing is
//! known of the file that had it.

use super::rows::corrupt;
use crate::Engine;
use crate::read::{FirstError, vertex_record};
use crate::settings::CompactReport;
use crate::txn::{Effects, Overlay, lock};
use esker_model::codec::Reader;
use esker_model::namespace::record::Whereabouts;
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Snapshot, Table};

/// Rows removed at a time, under the write lock.
const ROWS_AT_ONCE: usize = 1 << 14;
const WHEREABOUTS: u8 = 2;
const PAST: u8 = 3;

/// The rows that may go, of a portion of the table, and where to go on.
struct Portion {
    rows: Vec<Vec<u8>>,
    next: Option<Vec<u8>>,
}

impl Engine {
    /// Drops what was superseded at or before `since`.
    pub(crate) fn retain_names(
        &self,
        since: Version,
        cancel: &dyn Cancel,
        report: &mut CompactReport,
    ) -> Result<()> {
        if !self.names.any() {
            return Ok(());
        }
        // First the past, by what removed files say of themselves; then those files.
        for kind in [PAST, WHEREABOUTS] {
            let mut next = Some(vec![kind]);
            while let Some(from) = next.take() {
                if cancel.cancelled() {
                    return Err(Error::Interrupted);
                }
                let mut writer = lock(&self.writer);
                let snapshot = self.store.snapshot()?;
                let portion = match kind {
                    PAST => past(&*snapshot, from, since, report)?,
                    _ => removed(&*snapshot, from, since, report)?,
                };
                drop(snapshot);
                if !portion.rows.is_empty() {
                    let mut overlay = Overlay::new(&*self.store);
                    report.dropped += portion.rows.len() as u64;
                    for key in portion.rows {
                        overlay.remove(Table::Names, key);
                    }
                    writer.senders.begin();
                    let done = self.commit_group(&mut writer, overlay, &mut Effects::default());
                    writer.senders.end(done.is_ok());
                    done?;
                }
                next = portion.next;
            }
        }
        Ok(())
    }
}

/// Goes through rows of a kind until there are enough to remove.
fn portion(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    look: &mut dyn FnMut(VertexId, &[u8], &[u8]) -> Result<bool>,
) -> Result<Portion> {
    let kind = from.first().copied().unwrap_or_default();
    let until = Some(vec![kind + 1]);
    let (mut rows, mut next, mut seen) = (Vec::new(), None, 0_usize);
    let mut last = None;
    let mut error = FirstError::default();
    snapshot.scan(
        Table::Names,
        &KeyRange { from, until },
        &mut |key, value| {
            let id = key.get(1..17).and_then(|id| id.try_into().ok());
            let id = VertexId(id.unwrap_or_default());
            seen += 1;
            // Not among the past states of one file: each is told by the one before it what superseded it.
            let full = rows.len() >= ROWS_AT_ONCE || seen > 16 * ROWS_AT_ONCE;
            if full && last != Some(id) {
                next = Some(key.to_vec());
                return Flow::Break(());
            }
            last = Some(id);
            if error.keep(look(id, key, value))? {
                rows.push(key.to_vec());
            }
            Flow::Continue(())
        },
    )?;
    error.into_result()?;
    Ok(Portion { rows, next })
}

fn past(
    snapshot: &dyn Snapshot,
    from: Vec<u8>,
    since: Version,
    report: &mut CompactReport,
) -> Result<Portion> {
    let mut newer: Option<(VertexId, Version)> = None;
    portion(snapshot, from, &mut |id, key, _| {
        let mut r = Reader::new(key.get(17..).unwrap_or_default());
        let version = Version(!r.u64("a version").map_err(corrupt)?);
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
) -> Result<Portion> {
    portion(snapshot, from, &mut |id, _, value| {
        let place = Whereabouts::decode(id, value).map_err(corrupt)?;
        let Some(inode) = place.inode.filter(|i| place.gone && !i.is_directory()) else {
            return Ok(false);
        };
        let goes = inode.version <= since && vertex_record(snapshot, id)?.is_none();
        report.kept += u64::from(!goes);
        Ok(goes)
    })
}

/// When a file was removed, if it was.
fn removed_at(snapshot: &dyn Snapshot, id: VertexId) -> Result<Option<Version>> {
    let place = super::rows::whereabouts(&super::Committed(snapshot), id)?;
    Ok(place
        .filter(|p| p.gone)
        .and_then(|p| Some(p.inode?.version)))
}
