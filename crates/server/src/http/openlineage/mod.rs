//! `OpenLineage`: receives events and answers queries in the formats of Marquez's API.
//!
//! [`receive`] accepts events (`OpenLineage` 2.0.2); the other modules answer from the graph. `docs/book/openlineage.md` lists the paths.

mod data;
mod documents;
mod graph_view;
mod jobs;
mod lineage;
mod receive;
mod table;

pub(super) use documents::{parameter, schemas};
pub(super) use lineage::lineage;
pub(super) use receive::receive;
pub(super) use table::ENDPOINTS;
