//! Predictors: what will be asked for next.
//!
//! All stand behind one trait. A tier tells its predictor each request ([`Predictor::learn`]), asks it after a miss
//! ([`Predictor::predict`]), and tells it how its guesses did. What it wishes for is fetched unless it is there already.

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

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered from the cache.
    Hit,
    /// The same, and what answered it (what is cached of this path) was prefetched and is used for the first time.
    FirstUse(PathId),
    /// It was not there, but a prefetch of it was waiting or on its way.
    Late(PathId),
    /// It was not there.
    Miss,
}

impl Outcome {
    /// Whether the client has to wait.
    pub fn waits(self) -> bool {
        matches!(self, Self::Late(_) | Self::Miss)
    }
}

/// A request of a client, as predictors see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Who asks.
    pub client: u32,
    /// What for.
    pub request: Request,
    /// How it went.
    pub outcome: Outcome,
}

/// What is to be prefetched, and how urgently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The request.
    pub request: Request,
    /// More is more urgent, up to [`crate::queue::PRIORITY_MAX`].
    pub priority: u8,
}

/// What a predictor may look at.
pub trait View {
    /// The paths.
    fn paths(&self) -> &Paths;
    /// The listing of a directory, if it is cached and true.
    fn listing(&self, path: PathId) -> Option<Arc<Listing>>;
    /// Whether the path's own answer to the request is cached.
    fn has_own(&self, request: Request) -> bool;
    /// Whether the request would be answered from the cache, by whatever is there.
    fn answers(&self, request: Request) -> bool;
    /// Whether the request waits or is on its way.
    fn on_its_way(&self, request: Request) -> bool;
    /// Bytes that the cache may have.
    fn capacity(&self) -> u64;
}

/// A predictor.
pub trait Predictor: fmt::Debug + Send {
    /// Sees each request of a client.
    fn learn(&mut self, access: Access, view: &dyn View);

    /// Says what to prefetch: asked after each miss, and after the first use of what was prefetched.
    fn predict(&mut self, access: Access, view: &dyn View, wishes: &mut Vec<Wish>);

    /// A listing has come, whoever asked for it.
    fn listed(&mut self, _path: PathId, _view: &dyn View, _wishes: &mut Vec<Wish>) {}

    /// What was prefetched went without having been used.
    fn wasted(&mut self, _request: Request, _paths: &Paths) {}

    /// A wish was not sent: it was there already, or the queue is full.
    fn refused(&mut self, _request: Request, _paths: &Paths) {}

    /// Whether a listing of so many bytes that was prefetched is worth its place in a cache of that capacity.
    fn keeps(&self, _bytes: u64, _capacity: u64) -> bool {
        true
    }

    /// Whether what is cached of this path and is to go should stay a while. `unused` says that it was prefetched and nobody
    /// has asked for it yet.
    fn spares(&self, _path: PathId, _unused: bool, _paths: &Paths) -> bool {
        false
    }

    /// What it knows of a directory, for people.
    fn explain(&self, _directory: PathId, _paths: &Paths) -> Option<String> {
        None
    }

    /// Training on a recorded trace has ended.
    fn trained(&mut self) {}

    /// Names all paths whose numbers it holds, so that they are not forgotten.
    fn held(&self, mark: &mut dyn FnMut(PathId));
}

/// Prefetches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Predictor for Nothing {
    fn learn(&mut self, _access: Access, _view: &dyn View) {}

    fn predict(&mut self, _access: Access, _view: &dyn View, _wishes: &mut Vec<Wish>) {}

    fn held(&self, _mark: &mut dyn FnMut(PathId)) {}
}

/// Which predictor, with the parameters of its paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// None: the cache alone.
    Lru,
    /// DLS as published.
    Dls,
    /// DLS with feedback, the default.
    #[default]
    Guarded,
    /// Guarded DLS that knows which directories paid, and joins siblings with sequences.
    Learned,
    /// AMP.
    Amp,
    /// NEXUS.
    Nexus,
    /// FARMER.
    Farmer,
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Dls,
        Self::Guarded,
        Self::Learned,
        Self::Amp,
        Self::Nexus,
        Self::Farmer,
        Self::Lru,
    ];

    /// As people write it.
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

    /// A predictor of this kind. `threshold` is the directory's misses that DLS and its kin wait for; each has its own if
    /// nothing is given.
    pub fn make(self, threshold: Option<u32>) -> Box<dyn Predictor> {
        match self {
            Self::Lru => Box::new(Nothing),
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

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Choice {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            crate::Error::Setting(format!("`{text}` is no predictor: expected one of {names}"))
        })
    }
}
