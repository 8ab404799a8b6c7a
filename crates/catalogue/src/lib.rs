//! Records for data catalogues: what an object, a file, a directory or the outputs of a run is, in the formats of catalogues.
//!
//! [`collect`] reads the facts of one item into a [`Record`]. Each format is a function from a record to a document: `DataCite` 4.6
//! ([`datacite`]), schema.org ([`schema_org`]), Croissant 1.0 ([`croissant`]), DCAT-AP 3 ([`dcat`]), an HTML page ([`landing`]) and
//! Signposting's links ([`signposting`]). [`oai`] is a provider of OAI-PMH 2.0, by which catalogues harvest many records.
//!
//! Unknown facts are left out. A format that demands an unknown fact gets the standard's value for it (`(:unkn)` in `DataCite`), and
//! [`Record::missing`] names the fields that a steward should add.

mod agent;
mod collect;
pub mod croissant;
pub mod datacite;
pub mod dcat;
mod field;
mod format;
mod identifier;
mod json;
pub mod landing;
mod markup;
pub mod oai;
mod record;
pub mod schema_org;
pub mod signposting;
mod time;

pub use agent::Agent;
pub use collect::{Collector, FILES_MAX, RELATED_MAX};
pub use field::{Field, Overrides};
pub use format::Format;
pub use identifier::{License, encoded, is_sha256, is_url};
pub use record::{ColumnKind, FilePart, ItemKind, Record, Related, RunFacts};
