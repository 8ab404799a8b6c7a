//! FTP and `GridFTP`: vsftpd, `ProFTPD` and globus-gridftp-server from Debian, and hostile servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod battery;
mod clear_text;
mod disconnect;
mod hostile;
mod relay;
mod servers;
mod tree;
