//! One look into a directory for all questions that need one.
//!
//! Where a server has no short way to say that a name is absent, the directory above has to be listed: for many names at
//! once, twice is enough. No question is answered from a listing that was asked for before the question was.

use super::session::{Control, Looked};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What came of the last look at a directory, and the number drawn before it.
type Last = tokio::sync::Mutex<Option<(u64, Arc<Looked>)>>;

/// Directories that are looked into just now.
#[derive(Default)]
pub(super) struct Together {
    numbers: AtomicU64,
    directories: Mutex<HashMap<Box<[u8]>, Arc<Last>>>,
}

impl Together {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<Last>>> {
        let locked = self.directories.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a directory when the last one who waits for it goes.
struct Waits<'a> {
    together: &'a Together,
    path: &'a [u8],
    last: Arc<Last>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut directories = self.together.lock();
        // One is the table's, one is ours.
        if Arc::strong_count(&self.last) <= 2 {
            directories.remove(self.path);
        }
    }
}

impl Control {
    /// Looks into a directory, with whoever else wants that.
    pub(super) async fn look_together(&self, path: &[u8]) -> Result<Arc<Looked>> {
        let together = &self.together;
        let number = together.numbers.fetch_add(1, Ordering::Relaxed);
        let last = together.lock().entry(path.into()).or_default().clone();
        let waits = Waits {
            together,
            path,
            last,
        };
        let mut last = waits.last.lock().await;
        if let Some((since, looked)) = &*last
            && *since > number
        {
            return Ok(looked.clone());
        }
        // Whoever drew a number before this one has asked before the listing is asked for.
        let since = together.numbers.fetch_add(1, Ordering::Relaxed);
        let looked = Arc::new(self.look(path).await?);
        *last = Some((since, looked.clone()));
        drop(last);
        Ok(looked)
    }
}
