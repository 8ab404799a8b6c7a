//! FTP and GridFTP: vsftpd, ProFTPD and globus-gridftp-server from Debian, and servers that no one should meet.

mod battery;
mod death;
mod hostile;
mod relay;
mod servers;
mod tree;
