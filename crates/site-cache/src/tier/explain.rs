//! Why a tier answers as it does, for people.

use super::Tier;
use crate::entry::{Request, State, Time, Wants};
use crate::path::{PathId, Paths};
use crate::queue::Class;

/// What a tier keeps of a path itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What there is.
    pub state: State,
    /// When that was true.
    pub at: Time,
    /// Names of its listing, when that was true, and whether it is complete.
    pub listing: Option<(usize, Time, bool)>,
    /// Whether somebody tells of changes.
    pub told: bool,
    /// For how long it is believed if nobody does, in microseconds.
    pub believed: Time,
    /// Whether it was prefetched and has not been used yet.
    pub unused: bool,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// What a tier knows of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What is kept of the path itself, believed or not.
    pub kept: Option<Kept>,
    /// The path whose entry would answer for its attributes now: itself, or the directory whose listing does.
    pub stat_by: Option<PathId>,
    /// The same for a listing.
    pub list_by: Option<PathId>,
    /// How urgently its attributes are asked for just now, and whether the request is on its way.
    pub stat_pending: Option<(Class, bool)>,
    /// The same for its listing.
    pub list_pending: Option<(Class, bool)>,
    /// Tiers below that are told of changes in its directory.
    pub subscribers: Vec<u32>,
    /// What the predictor knows of it as a directory.
    pub predictor: Option<String>,
    /// What the predictor knows of the directory above it.
    pub predictor_above: Option<String>,
}

impl Tier {
    /// What is known of a path; nothing is counted or moved by that.
    pub fn explain(&self, now: Time, path: PathId, paths: &Paths) -> Explained {
        let by = |wants| {
            let found = self.store.find(Request { path, wants }, now, None, paths)?;
            Some(found.by)
        };
        let above = paths.parent(path);
        Explained {
            kept: self.store.kept(path, paths),
            stat_by: by(Wants::Stat),
            list_by: by(Wants::List),
            stat_pending: self.queue.look(Request::stat(path)),
            list_pending: self.queue.look(Request::list(path)),
            subscribers: self.subscriptions.of(above.unwrap_or(path)),
            predictor: self.predictor.explain(path, paths),
            predictor_above: above.and_then(|p| self.predictor.explain(p, paths)),
        }
    }
}
