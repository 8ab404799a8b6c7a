//! An archive in memory.

use esker_engine::{Archive, HistoryRows};
use esker_model::{Flow, Result};
use esker_store::KeyRange;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keeps what it is given; of a row given twice, the later.
#[derive(Debug, Default)]
pub struct MemoryArchive(Mutex<Rows>);

impl MemoryArchive {
    /// How many rows it holds.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for MemoryArchive {
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64> {
        let mut count = 0;
        let mut last: Option<Vec<u8>> = None;
        for row in rows {
            let (key, value) = row?;
            assert!(
                last.as_ref() < Some(&key),
                "rows come in ascending key order"
            );
            last = Some(key.clone());
            self.rows().insert(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn scan(&self, range: &KeyRange, sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let rows: Vec<_> = self
            .rows()
            .range(range.from.clone()..)
            .take_while(|(k, _)| range.until.as_ref().is_none_or(|until| *k < until))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        for (key, value) in rows {
            if sink(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
