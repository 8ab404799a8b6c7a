//! Parts of each process that uses a database, with or without a network: idempotency keys ([`producer`]), the users of
//! this machine ([`user`]), and their names and groups ([`accounts`]).

pub mod accounts;
pub mod name_service;
pub mod producer;
pub mod user;
