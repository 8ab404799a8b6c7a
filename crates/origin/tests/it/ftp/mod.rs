//! FTP and `GridFTP`: vsftpd, `ProFTPD` and globus-gridftp-server from Debian, and servers that no one should meet.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod battery;
mod clear;
mod death;
mod hostile;
mod relay;
mod servers;
mod tree;
