//! What clients are told of where entries lie, so that they ask the right server themselves (GIGA+'s rule: who asked the wrong
//! one is told how it is).

use crate::node::Node;
use crate::peer::entries_of;
use crate::placement::Splits;
use esker_model::VertexId;
use esker_model::namespace::{NamePath, Route, hash_of};

/// So many directories are told of.
const TOLD_MAX: usize = 8;

impl Node {
    /// Paths of a call that are worth looking at: what splits sends half of them elsewhere.
    pub const ROUTES_LOOKED_AT: usize = 64;

    /// For paths that a client asked this server about: where the entries of their directories lie, as far as is known here, if some
    /// of the paths lie elsewhere. Nothing for a directory whose path leads through symbolic links.
    pub fn routes<'p>(&self, paths: impl Iterator<Item = &'p NamePath>) -> Vec<Route> {
        let mut told: Vec<(&[u8], Option<Route>)> = Vec::new();
        for path in paths.take(Self::ROUTES_LOOKED_AT) {
            let Some((parent, name)) = path.split() else {
                continue;
            };
            if told.iter().any(|(of, _)| *of == parent) {
                continue;
            }
            let Some(directory) = self.engine.directory_known(parent) else {
                continue;
            };
            let home = self.entry_home(&self.state(), directory, hash_of(&name));
            if home == self.settings.id {
                continue;
            }
            told.push((parent, self.route_of(parent, directory)));
            if told.len() >= TOLD_MAX {
                break;
            }
        }
        told.into_iter().filter_map(|(_, route)| route).collect()
    }

    fn route_of(&self, path: &[u8], directory: VertexId) -> Option<Route> {
        let id = entries_of(directory);
        let whole = Splits::default();
        let state = self.state();
        let splits = state.splits_of(id).unwrap_or(&whole);
        let mut ranges = Vec::new();
        let mut next = Some(0);
        while let Some(hash) = next {
            let (partition, (first, last)) = self.entries_in(directory, splits, hash);
            ranges.push((first, self.server_of(id, partition).0));
            next = last.checked_add(1);
        }
        Route::new(NamePath::parse(path).ok()?, ranges)
    }
}
