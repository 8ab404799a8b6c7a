//! Clients at other addresses than this process's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// Returns an address of this machine that is not loopback: the kernel does not report the user of its connections, so clients are
/// identified by address.
pub(crate) fn outside() -> Option<IpAddr> {
    // Sends nothing: the kernel selects the source address.
    let local = || -> std::io::Result<IpAddr> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("192.0.2.77:9")?;
        Ok(socket.local_addr()?.ip())
    };
    let address = local().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if address.is_loopback() {
        println!("skipped: this machine has no address but those of loopback");
        return None;
    }
    Some(address)
}

/// Connects from the loopback address 127.0.0.`last`.
pub(crate) async fn connect(last: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    socket.connect(to).await
}
