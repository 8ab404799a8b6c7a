//! Parts of each process that uses a database, with or without a network: idempotency keys ([`producer`]), scans that
//! continue after an interruption ([`resume`]), texts received from other processes ([`text`]), and the users of this
//! machine ([`user`]).

pub mod producer;
pub mod resume;
pub mod text;
pub mod user;
