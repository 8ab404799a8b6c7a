//! Where versions past the retention policy go: out of the live store, still read by whatever asks for so old a time.

use esker_model::{Flow, Result, VersionRange};
use esker_store::{Cursor, KeyRange};

/// Rows of the `history` table, by key and value, in ascending key order.
pub type HistoryRows<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + 'a;

/// A place for superseded versions. The host provides it (Parquet files beside the store).
pub trait Archive: Send + Sync {
    /// Adds rows in ascending key order; returns how many, once they are durable. A row that is there already may be
    /// added again.
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64>;

    /// What it holds at this moment: rows appended later do not show. Cheap.
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

/// One moment of an archive.
pub trait ArchiveView {
    /// A cursor over its rows. Those whose version lies outside `versions` it may leave out.
    fn cursor(&self, versions: VersionRange) -> Result<Box<dyn ArchiveCursor + '_>>;
}

/// Rows of an archive, each key once, in key order. Over nothing before the first [`ArchiveCursor::seek`].
///
/// What is read for one range serves the next one too where both lie near each other: ask for ranges in key order.
pub trait ArchiveCursor: Cursor {
    /// Goes before the first row of a range, wherever it lies; `advance` then leads through the range.
    fn seek(&mut self, range: &KeyRange);
}

/// An archive that refuses to take anything in and holds nothing: for stores without a folder beside them.
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
