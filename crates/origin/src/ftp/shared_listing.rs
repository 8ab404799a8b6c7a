//! One listing of a directory shared by all requests that need it.
//!
//! If a server has no cheap way to report an absent name, the parent directory is listed; for many names at once, two listings
//! are enough. No request is answered from a listing that was requested before the request itself.

use super::session::{ControlChannel, ListOutcome};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The latest listing of a directory, and the sequence number drawn before it.
type LatestListing = tokio::sync::Mutex<Option<(u64, Arc<ListOutcome>)>>;

/// Directories that are being listed.
#[derive(Default)]
pub(super) struct SharedListings {
    numbers: AtomicU64,
    directories: Mutex<HashMap<Box<[u8]>, Arc<LatestListing>>>,
}

impl SharedListings {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<LatestListing>>> {
        let locked = self.directories.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiting request; the last one to leave removes the directory's entry.
struct ListingWaiter<'a> {
    shared_listings: &'a SharedListings,
    path: &'a [u8],
    last: Arc<LatestListing>,
}

impl Drop for ListingWaiter<'_> {
    fn drop(&mut self) {
        let mut directories = self.shared_listings.lock();
        // One reference is the table's, the other ours.
        if Arc::strong_count(&self.last) <= 2 {
            directories.remove(self.path);
        }
    }
}

impl ControlChannel {
    /// Lists a directory, sharing the result with concurrent requests.
    pub(super) async fn list_shared(&self, path: &[u8]) -> Result<Arc<ListOutcome>> {
        let shared_listings = &self.shared_listings;
        let number = shared_listings.numbers.fetch_add(1, Ordering::Relaxed);
        let last = shared_listings
            .lock()
            .entry(path.into())
            .or_default()
            .clone();
        let waits = ListingWaiter {
            shared_listings,
            path,
            last,
        };
        let mut last = waits.last.lock().await;
        if let Some((since, outcome)) = &*last
            && *since > number
        {
            return Ok(outcome.clone());
        }
        // Requests with a lower number arrived before this listing is requested.
        let since = shared_listings.numbers.fetch_add(1, Ordering::Relaxed);
        let outcome = Arc::new(self.read_directory(path).await?);
        *last = Some((since, outcome.clone()));
        drop(last);
        Ok(outcome)
    }
}
