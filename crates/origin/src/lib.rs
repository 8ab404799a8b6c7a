//! Origins: far servers that are asked for metadata (SMURF, section III-B).
//!
//! A request is about one path: its attributes, or those and what stands in it. Each protocol is a [`Session`], one
//! connection that takes many questions at once; a [`Pool`] keeps as many connections as pay, deals questions out among
//! them, asks again what a broken connection left open, and gives up in bounded time.
//!
//! Suggested reading order: [`question`], [`place`], [`session`], [`pool`], then a protocol.

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
pub mod place;
pub mod pool;
pub mod question;
pub mod s3;
pub mod session;
pub mod sftp;
pub mod stream;
mod unix;

pub use error::{Error, Result};
pub use open::open;
pub use place::{Place, Scheme};
pub use pool::{Pool, Settings};
pub use question::{Found, Named, Question, Told};
pub use session::{Connect, Session};
