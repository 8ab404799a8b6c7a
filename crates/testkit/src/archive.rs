//! In-memory archive.

use esker_engine::{Archive, ArchiveCursor, ArchiveView, HistoryRows};
use esker_model::{Result, VersionRange};
use esker_store::{Cursor, KeyRange};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// In-memory archive; of a row that is appended twice, the later value stays.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    rows: Mutex<Arc<Rows>>,
    passes: AtomicU64,
}

impl MemoryArchive {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether the archive is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of cursors opened so far.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, Arc<Rows>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
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
            Arc::make_mut(&mut self.rows()).insert(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn view(&self) -> Result<Box<dyn ArchiveView + '_>> {
        Ok(Box::new(View {
            rows: Arc::clone(&self.rows()),
            passes: &self.passes,
        }))
    }
}

struct View<'a> {
    rows: Arc<Rows>,
    passes: &'a AtomicU64,
}

impl ArchiveView for View<'_> {
    /// Omits everything that the trait allows, so that callers that request too little are detected.
    fn cursor(&self, versions: VersionRange) -> Result<Box<dyn ArchiveCursor + '_>> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Found {
            kept: &self.rows,
            versions,
            rows: Box::new(std::iter::empty()),
            row: (&[], &[]),
        }))
    }
}

struct Found<'v> {
    kept: &'v Rows,
    versions: VersionRange,
    rows: Box<dyn Iterator<Item = (&'v Vec<u8>, &'v Vec<u8>)> + 'v>,
    row: (&'v [u8], &'v [u8]),
}

impl ArchiveCursor for Found<'_> {
    fn seek(&mut self, range: &KeyRange) {
        let (until, versions) = (range.until.clone(), self.versions);
        let rows = self.kept.range(range.from.clone()..);
        let rows = rows.take_while(move |(key, _)| until.as_ref().is_none_or(|u| *key < u));
        self.rows = Box::new(rows.filter(move |(key, _)| {
            let version = esker_model::key::version_of(key);
            version.is_some_and(|v| versions.contains(v))
        }));
    }
}

impl Cursor for Found<'_> {
    fn advance(&mut self) -> Result<bool> {
        let next = self.rows.next();
        self.row = next.map_or((&[], &[]), |(key, value)| (key, value));
        Ok(next.is_some())
    }

    fn key(&self) -> &[u8] {
        self.row.0
    }

    fn value(&self) -> &[u8] {
        self.row.1
    }
}
