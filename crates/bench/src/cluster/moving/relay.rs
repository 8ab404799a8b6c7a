//! A relay between a server and etcd that can drop all traffic: connections are not refused, but nothing arrives.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which an idle connection checks whether the relay still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Default)]
struct RelayState {
    cut: AtomicBool,
    over: AtomicBool,
}

/// Forwards bytes to an address until dropped.
pub(super) struct Relay {
    port: u16,
    state: Arc<RelayState>,
}

impl Relay {
    /// Listens on a free loopback port.
    pub(super) fn to(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let state = Arc::<RelayState>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || accept(&listener, address, &shared));
        Ok(Self { port, state })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Drops all traffic, or forwards it again.
    pub(super) fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Release);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Release);
    }
}

fn accept(listener: &TcpListener, to: SocketAddr, state: &Arc<RelayState>) {
    while !state.over.load(Ordering::Acquire) {
        let Ok((from, _)) = listener.accept() else {
            std::thread::sleep(POLL_INTERVAL / 5);
            continue;
        };
        // If etcd does not accept, the connection is closed, as without a relay.
        let Ok(to) = TcpStream::connect(to) else {
            continue;
        };
        let ways = [(from.try_clone(), to.try_clone()), (Ok(to), Ok(from))];
        for way in ways {
            if let (Ok(from), Ok(to)) = way {
                let state = Arc::clone(state);
                std::thread::spawn(move || forward(from, to, &state));
            }
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, state: &RelayState) {
    // If setting the timeouts fails, the connection may outlive the relay, which is harmless.
    let _ = from.set_nonblocking(false);
    let _ = from.set_read_timeout(Some(POLL_INTERVAL));
    let mut piece = [0; 4096];
    while !state.over.load(Ordering::Acquire) {
        let n = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        while state.cut.load(Ordering::Acquire) && !state.over.load(Ordering::Acquire) {
            std::thread::sleep(POLL_INTERVAL / 5);
        }
        if to.write_all(piece.get(..n).unwrap_or_default()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
