//! Origins against real servers on loopback, started and stopped by the tests.
#![allow(clippy::unwrap_used, reason = "tests")]

mod battery;
mod dav;
mod esker;
mod ftp;
mod irods;
mod local;
mod s3;
mod servers;
mod sftp;
