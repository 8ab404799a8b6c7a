//! Where versions past the retention policy go: still read by `history`, no longer by anything else.

use esker_model::{Flow, Result};
use esker_store::KeyRange;

/// Rows of the `history` table, by key and value, in ascending key order.
pub type HistoryRows<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + 'a;

/// A place for superseded versions. The host provides it (Parquet files beside the store).
pub trait Archive: Send + Sync {
    /// Adds rows in ascending key order; returns how many, once they are durable. A row that is there already may be
    /// added again.
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64>;

    /// Calls `sink` with each row of the range, each key once, in key order, until it breaks.
    fn scan(&self, range: &KeyRange, sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow) -> Result<()>;
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

    fn scan(&self, _range: &KeyRange, _sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        Ok(())
    }
}
