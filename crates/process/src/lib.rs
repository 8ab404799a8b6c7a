//! Parts of each process that uses a database, with or without a network: idempotency keys ([`producer`]), scans that
//! continue after an interruption ([`resume`]), and the users of this machine ([`user`]).

pub mod producer;
pub mod resume;
pub mod user;
