//! Ports for servers that tests start as other processes.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// First port and number of ports, below those that the system gives to outgoing connections: such a connection could take a port between
/// the call of [`free_port`] and the start of the server.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Returns a port that no server uses at any address of this machine. Calls in one process return different ports.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests of other processes begin elsewhere.
    let start = SystemTime::now().duration_since(UNIX_EPOCH);
    let start = start.map_or(0, |t| {
        t.as_nanos() / 1_000 + u128::from(std::process::id()) * 61
    });
    let _ = NEXT.compare_exchange(
        0,
        (start % u128::from(COUNT)) as u16 + 1,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    loop {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}
