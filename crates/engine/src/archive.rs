//! The archive interface: superseded versions past the retention policy leave the live store but stay readable.

use esker_model::{Flow, Result, VersionRange};
use esker_store::{Cursor, KeyRange};

/// Rows of the `history` table, by key and value, in ascending key order.
pub type HistoryRows<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + 'a;

/// Storage of superseded versions, provided by the host (Parquet files beside the store).
pub trait Archive: Send + Sync {
    /// Adds rows in ascending key order; returns their number once they are durable. Adding a row that is already stored is
    /// allowed.
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64>;

    /// Returns a view of the current content; rows appended later are not in it. Cheap.
    fn view(&self) -> Result<Box<dyn ArchiveView + '_>>;

    /// Calls `sink` with each row of the range, each key once, in key order, until it breaks.
    fn scan(&self, range: &KeyRange, sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let view = self.view()?;
        let mut cursor = view.cursor(VersionRange::ALL)?;
        cursor.seek(range);
        while cursor.advance()? {
            if sink(cursor.key(), cursor.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A consistent view of an archive.
pub trait ArchiveView {
    /// Returns a cursor over the rows; it may omit those whose version is outside `versions`.
    fn cursor(&self, versions: VersionRange) -> Result<Box<dyn ArchiveCursor + '_>>;
}

/// Rows of an archive, each key once, in key order. Empty before the first [`ArchiveCursor::seek`].
///
/// Data read for one range is reused for the next if they are close: seek ranges in key order.
pub trait ArchiveCursor: Cursor {
    /// Positions the cursor before the first row of a range in either direction; `advance` then reads the range.
    fn seek(&mut self, range: &KeyRange);
}

/// An empty archive that refuses to store rows: for stores without a folder beside them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoArchive;

impl Archive for NoArchive {
    fn append(&self, _rows: &mut HistoryRows<'_>) -> Result<u64> {
        Err(esker_model::Error::Invalid(
            "this database has no archive: nothing can be compacted away".into(),
        ))
    }

    fn view(&self) -> Result<Box<dyn ArchiveView + '_>> {
        Ok(Box::new(Self))
    }
}

impl ArchiveView for NoArchive {
    fn cursor(&self, _versions: VersionRange) -> Result<Box<dyn ArchiveCursor + '_>> {
        Ok(Box::new(Self))
    }
}

impl ArchiveCursor for NoArchive {
    fn seek(&mut self, _range: &KeyRange) {}
}

impl Cursor for NoArchive {
    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn key(&self) -> &[u8] {
        &[]
    }

    fn value(&self) -> &[u8] {
        &[]
    }
}
