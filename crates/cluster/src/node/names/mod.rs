//! The namespace of a cluster: directories that split over servers, and changes that concern several servers.
//!
//! `row_owner` decides which rows are here, `fetch` gets remote rows, `change` applies changes (each once, however
//! often they arrive: `calls`), `queries` answers clients, `route` tells clients which server to call, `merge` adds
//! subtrees, `lease` grants leases on answers, `split` moves halves of partitions to other servers (`table_transfer`:
//! as sorted tables, in files of `table`). The engine decides what a change does to rows.

mod answer;
mod calls;
mod change;
pub(crate) mod cluster_flags;
mod fetch;
mod graph;
mod lease;
mod merge;
mod queries;
mod route;
pub(crate) mod row_owner;
mod split;
mod table;
mod table_transfer;

pub(crate) use table::ranges_of;
