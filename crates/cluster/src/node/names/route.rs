//! Routing information for clients, so that they call the right server themselves (GIGA+'s rule: a client that calls
//! the wrong server is corrected).

use crate::node::Node;
use crate::peer::entries_vertex;
use crate::placement::Splits;
use esker_model::VertexId;
use esker_model::namespace::{NamePath, Route, hash_of};

/// Largest number of directories in one response.
const ROUTES_MAX: usize = 8;

impl Node {
    /// Number of paths of a call that are examined: a split sends half of them to other servers.
    pub const ROUTE_PATHS_MAX: usize = 64;

    /// Returns routes for paths that a client has used with this server: the servers of their directories' entries,
    /// as far as is known here, if some of the paths are on other servers. Directories whose path contains symbolic
    /// links are left out.
    pub fn routes<'p>(&self, paths: impl Iterator<Item = &'p NamePath>) -> Vec<Route> {
        let mut routes: Vec<(&[u8], Option<Route>)> = Vec::new();
        for path in paths.take(Self::ROUTE_PATHS_MAX) {
            let Some((parent, name)) = path.split() else {
                continue;
            };
            if routes.iter().any(|(of, _)| *of == parent) {
                continue;
            }
            let Some(directory) = self.own_names().cached_directory(parent) else {
                continue;
            };
            let home = self.entry_home(&self.state(), directory, hash_of(&name));
            if home == self.settings.id {
                continue;
            }
            routes.push((parent, self.route_of(parent, directory)));
            if routes.len() >= ROUTES_MAX {
                break;
            }
        }
        routes.into_iter().filter_map(|(_, route)| route).collect()
    }

    fn route_of(&self, path: &[u8], directory: VertexId) -> Option<Route> {
        let id = entries_vertex(directory);
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
