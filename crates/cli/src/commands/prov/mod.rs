//! `esker import prov` and `esker export prov`: documents of W3C PROV, in and out.

mod bag;
mod export;
mod import;

pub(crate) use export::run as export;
pub(crate) use import::run as import;
