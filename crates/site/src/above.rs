//! What a tier asks: origins themselves, or the tiers above.

mod cloud;
mod link;
mod members;
mod origins;

pub use cloud::{Member, Parents};
pub(crate) use link::Event;
pub use link::Link;
pub(crate) use members::{Kept, follow, register};
pub use origins::{Origins, Rules};

use crate::given::Refused;
use esker_origin::{Found, Told};
use esker_site_cache::entry::Wants;
use esker_site_cache::queue::Class;
use futures_util::future::BoxFuture;
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;

/// One request upwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// `sftp://host`.
    pub origin: Arc<str>,
    /// Absolute below it.
    pub path: Box<[u8]>,
    /// What is asked of it.
    pub wants: Wants,
    /// How urgent it is.
    pub class: Class,
    /// How old the answer may be.
    pub max_age: Option<Duration>,
    /// The digest of what is kept: the same need not be sent.
    pub kept: Option<u64>,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// An answer.
    Found {
        /// What there is.
        found: Found,
        /// How long before the request was sent the origin was asked, at most.
        age: Duration,
        /// Whether changes will be told.
        told: bool,
    },
    /// What is kept is still so.
    Same {
        /// As above.
        age: Duration,
        /// As above.
        told: bool,
    },
}

/// What is told without having been asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Something happened below an origin.
    Told(Arc<str>, Told),
    /// Whoever promised to tell of changes is gone.
    Cut,
}

/// Whoever is asked.
pub trait Above: Send + Sync + 'static {
    /// Asks; bounded in time.
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Got, Refused>>;

    /// Whether an origin may be asked for at all.
    fn allows(&self, origin: &str) -> Result<(), Refused>;

    /// A person says that a path may have changed.
    fn doubt(&self, origin: &str, path: &[u8]);

    /// Who is asked, and how that goes, for people.
    fn status(&self) -> Json;
}
