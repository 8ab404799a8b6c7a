//! `OpenLineage` at the port: events in, and what became of them in the shapes that Marquez's API has.
//!
//! [`receive`] takes events (`OpenLineage` 2.0.2); the others answer from the graph. `docs/book/openlineage.md` has the paths.

mod data;
mod documents;
mod jobs;
mod known;
mod receive;
mod table;
mod walk;

pub(super) use documents::{parameter, schemas};
pub(super) use receive::receive;
pub(super) use table::ENDPOINTS;
pub(super) use walk::lineage;
