//! Predictors of future requests.
//!
//! All implement one trait. A tier passes each request to its predictor ([`Predictor::learn`]), asks for prefetches after a miss
//! ([`Predictor::predict`]), and reports their outcomes. The requested prefetches are fetched unless they are cached.

mod amp;
mod dls;
mod farmer;
mod guarded;
mod nexus;
mod sequence;

pub use amp::{Amp, AmpSettings};
pub use dls::{Dls, DlsSettings};
pub use farmer::{Farmer, FarmerSettings};
pub use guarded::{Guarded, GuardedSettings};
pub use nexus::{Nexus, NexusSettings};

use crate::entry::{Listing, Request};
use crate::path::{PathId, Paths};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Outcome of a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache.
    Hit,
    /// Answered from a prefetched entry, the one of this path, at its first use.
    FirstUse(PathId),
    /// Missing, but a prefetch of it was waiting or in flight.
    Late(PathId),
    /// Missing from the cache.
    Miss,
}

impl Outcome {
    /// Whether the client has to wait.
    pub fn waits(self) -> bool {
        matches!(self, Self::Late(_) | Self::Miss)
    }
}

/// A request of a client, as input of predictors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Number of the client.
    pub client: u32,
    /// Request of the client.
    pub request: Request,
    /// Outcome of the request.
    pub outcome: Outcome,
}

/// A requested prefetch with its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchRequest {
    /// Request to be prefetched.
    pub request: Request,
    /// Priority; higher is more urgent, up to [`crate::queue::PRIORITY_MAX`].
    pub priority: u8,
}

/// State of a tier that predictors may read.
pub trait CacheView {
    /// Returns the interned paths.
    fn paths(&self) -> &Paths;
    /// Returns the listing of a directory, if it is cached and valid.
    fn listing(&self, path: PathId) -> Option<Arc<Listing>>;
    /// Whether the path's own entry answers the request.
    fn has_own(&self, request: Request) -> bool;
    /// Whether any cached entry answers the request.
    fn answers(&self, request: Request) -> bool;
    /// Whether the request is waiting or in flight.
    fn is_pending(&self, request: Request) -> bool;
    /// Returns the cache's capacity in bytes.
    fn capacity(&self) -> u64;
}

/// A predictor of future requests.
pub trait Predictor: fmt::Debug + Send {
    /// Learns from a request of a client.
    fn learn(&mut self, access: Access, view: &dyn CacheView);

    /// Appends prefetches to `prefetches`; called after each miss and after the first use of a prefetched entry.
    fn predict(
        &mut self,
        access: Access,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    );

    /// Reacts to the arrival of a listing, fetched or prefetched.
    fn on_listing(
        &mut self,
        _path: PathId,
        _view: &dyn CacheView,
        _wishes: &mut Vec<PrefetchRequest>,
    ) {
    }

    /// Records that a prefetched entry was evicted unused.
    fn on_wasted(&mut self, _request: Request, _paths: &Paths) {}

    /// Records that a prefetch was not sent: the answer is cached already, or the queue is full.
    fn on_refused(&mut self, _request: Request, _paths: &Paths) {}

    /// Whether a prefetched listing of this size is worth caching.
    fn keeps(&self, _bytes: u64, _capacity: u64) -> bool {
        true
    }

    /// Whether a victim should stay in the cache for now. `unused` means that it was prefetched and not requested yet.
    fn spares(&self, _path: PathId, _unused: bool, _paths: &Paths) -> bool {
        false
    }

    /// Describes the state of a directory for display.
    fn explain(&self, _directory: PathId, _paths: &Paths) -> Option<String> {
        None
    }

    /// Marks the end of training on a recorded trace.
    fn end_training(&mut self) {}

    /// Marks all paths whose numbers are in use, so that they are not removed.
    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId));
}

/// A predictor without prefetches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrefetch;

impl Predictor for NoPrefetch {
    fn learn(&mut self, _access: Access, _view: &dyn CacheView) {}

    fn predict(
        &mut self,
        _access: Access,
        _view: &dyn CacheView,
        _wishes: &mut Vec<PrefetchRequest>,
    ) {
    }

    fn mark_used_paths(&self, _mark: &mut dyn FnMut(PathId)) {}
}

/// Selectable predictors, with the parameters of their papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PredictorKind {
    /// No prefetching: the cache alone.
    Lru,
    /// DLS as published.
    Dls,
    /// DLS with feedback, the default.
    #[default]
    Guarded,
    /// Guarded DLS with shared records of similar directories and sequences.
    Learned,
    /// Predictor AMP, by n-grams.
    Amp,
    /// Predictor NEXUS, by successor graph.
    Nexus,
    /// Predictor FARMER, by sequences and attributes.
    Farmer,
}

impl PredictorKind {
    /// All predictors, in the order of messages.
    pub const ALL: [Self; 7] = [
        Self::Dls,
        Self::Guarded,
        Self::Learned,
        Self::Amp,
        Self::Nexus,
        Self::Farmer,
        Self::Lru,
    ];

    /// Returns the name of the predictor in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Dls => "dls",
            Self::Guarded => "guarded",
            Self::Learned => "learned",
            Self::Amp => "amp",
            Self::Nexus => "nexus",
            Self::Farmer => "farmer",
        }
    }

    /// Creates a predictor of this kind. `threshold` is the number of misses of a directory before DLS and its variants list it;
    /// without it, each has its own default.
    pub fn make(self, threshold: Option<u32>) -> Box<dyn Predictor> {
        match self {
            Self::Lru => Box::new(NoPrefetch),
            Self::Dls => {
                let mut settings = DlsSettings::default();
                settings.threshold = threshold.unwrap_or(settings.threshold);
                Box::new(Dls::new(settings))
            }
            Self::Guarded | Self::Learned => {
                let mut settings = if self == Self::Guarded {
                    GuardedSettings::default()
                } else {
                    GuardedSettings::learned()
                };
                settings.threshold = threshold.unwrap_or(settings.threshold);
                Box::new(Guarded::new(settings))
            }
            Self::Amp => Box::new(Amp::new(AmpSettings::default())),
            Self::Nexus => Box::new(Nexus::new(NexusSettings::default())),
            Self::Farmer => Box::new(Farmer::new(FarmerSettings::default())),
        }
    }
}

impl fmt::Display for PredictorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PredictorKind {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            crate::Error::Setting(format!(
                "`{text}` is not a predictor: expected one of {names}"
            ))
        })
    }
}
