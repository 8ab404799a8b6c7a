//! The namespace of a cluster: directories that split over servers, changes that concern several.
//!
//! `place` says which rows lie here, `fetch` gets those that do not, `change` applies changes (once, however often
//! they arrive: `calls`), `ask` answers questions, `route` tells clients
//! whom to ask, `merge` takes subtrees in, `lease` promises them that answers stay what they are, `split`
//! moves halves of partitions to other servers (`give`: as sorted tables, in files of `table`). What a change does is the engine's affair (`esker_engine`, `names::apart`).

mod answer;
mod ask;
mod calls;
mod change;
mod fetch;
mod give;
mod graph;
pub(crate) mod known;
mod lease;
mod merge;
pub(crate) mod place;
mod route;
mod split;
mod table;

pub(crate) use calls::{Asked, Calls};
pub(crate) use give::Giving;
pub(crate) use split::Counts;
pub(crate) use table::ranges_of;
