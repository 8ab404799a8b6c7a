//! Parts of each process that uses a database, with or without a network: idempotency keys ([`producer`]) and the users of
//! this machine ([`user`]).

pub mod producer;
pub mod user;
