//! `esker import prov` and `esker export prov`: import and export of W3C PROV documents.

mod bag;
mod export;
mod import;

pub(crate) use export::run as export;
pub(crate) use import::run as import;
