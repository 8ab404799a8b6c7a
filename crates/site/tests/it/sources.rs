//! Clients at other addresses than this process's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// An address of this machine that is not loopback: there the kernel does not say whose a connection is, so that what comes there is known by
/// its address.
pub(crate) fn outside() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.77:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

/// Connects from 127.0.0.`last`.
pub(crate) async fn connect(last: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    socket.connect(to).await
}
