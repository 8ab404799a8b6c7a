//! Upstream of a tier: origins, or other tiers.

mod link;
mod origins;
mod parents;
mod pool;

pub(crate) use link::Event;
pub use link::Link;
pub use origins::{Origins, Rules};
pub use parents::{Member, Parents};
pub(crate) use pool::{PoolConfig, follow, register};

use crate::answer::Refused;
use esker_origin::{Notification, PathMetadata};
use esker_site_cache::entry::Wants;
use esker_site_cache::queue::Class;
use futures_util::future::BoxFuture;
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;

/// A request to upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Origin, such as `sftp://host`.
    pub origin: Arc<str>,
    /// Absolute path below the origin.
    pub path: Box<[u8]>,
    /// Kind of the requested metadata.
    pub wants: Wants,
    /// Urgency of the request.
    pub class: Class,
    /// Maximum age of the answer.
    pub max_age: Option<Duration>,
    /// Digest of the cached answer: upstream need not send an identical one.
    pub kept: Option<u64>,
}

/// Successful response from upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchResponse {
    /// A new answer.
    Found {
        /// Metadata of the path.
        found: PathMetadata,
        /// Upper bound of the answer's age when the request was sent.
        age: Duration,
        /// Whether upstream sends invalidations.
        subscribed: bool,
    },
    /// The cached answer is still valid.
    Unchanged {
        /// Upper bound of the answer's age when the request was sent.
        age: Duration,
        /// Whether upstream sends invalidations.
        subscribed: bool,
    },
}

/// Unsolicited message from upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamEvent {
    /// Notification of a change below an origin.
    Notified(Arc<str>, Notification),
    /// Upstream lost its subscriptions and cannot send invalidations any more.
    SubscriptionsLost,
}

/// Upstream of a tier: origins or other tiers.
pub trait Upstream: Send + Sync + 'static {
    /// Fetches metadata; completes within a bounded time.
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<FetchResponse, Refused>>;

    /// Checks whether requests for an origin are allowed.
    fn allows(&self, origin: &str) -> Result<(), Refused>;

    /// Forwards that a path may have changed.
    fn invalidate(&self, origin: &str, path: &[u8]);

    /// Describes upstream and its state for display.
    fn status(&self) -> Json;
}
