//! Origins: clients that read metadata from remote servers (SMURF, section III-B).
//!
//! A request is for the attributes of one path, or for a directory's attributes and children. Each protocol implements
//! [`Session`], one connection with many requests in flight; a [`Pool`] opens as many connections as are useful, distributes
//! requests over them, retries those that a broken connection left open, and fails in bounded time.
//!
//! Suggested reading order: [`request`], [`origin_url`], [`session`], [`pool`], then a protocol.

mod children;
pub mod credentials;
pub mod dav;
pub mod error;
pub mod esker;
pub mod ftp;
mod http;
pub mod irods;
pub mod local;
mod open;
pub mod origin_url;
pub mod pool;
pub mod request;
pub mod s3;
pub mod session;
pub mod sftp;
pub mod stream;
mod unix;

pub use error::{Error, Result};
pub use open::open;
pub use origin_url::{OriginUrl, Scheme};
pub use pool::{Pool, Settings};
pub use request::{DirEntry, MetadataRequest, Notification, PathMetadata};
pub use session::{Connect, Session};
