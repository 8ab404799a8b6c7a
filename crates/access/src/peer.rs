//! User of the process at the other end of a local connection, as reported by the kernel.
//!
//! For loopback connections, the kernel is queried for the other end (`diag`); where it does not support that, `/proc/net/tcp` and
//! `tcp6` list both ends. Only an established end of an open socket counts: the kernel lists others as user 0's.

pub use esker_process::user::{is_mapped, overflow_user, own_user};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

/// Kernel's code of an established connection.
const ESTABLISHED: &str = "01";

/// Formats an address as the kernel does: each four bytes as a host-order integer in hexadecimal digits.
#[allow(
    clippy::host_endian_bytes,
    reason = "the kernel prints the bytes as it has them"
)]
fn printed(address: SocketAddr, out: &mut String) {
    let mut words = |bytes: &[u8]| {
        for word in bytes.chunks_exact(4) {
            let word = <[u8; 4]>::try_from(word).map_or(0, u32::from_ne_bytes);
            let _ = write!(out, "{word:08X}");
        }
    };
    match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    }
    let _ = write!(out, ":{:04X}", address.port());
}

/// Returns an IPv4 address in its IPv4-mapped IPv6 form.
fn mapped(address: SocketAddr) -> Option<SocketAddr> {
    match address.ip() {
        IpAddr::V4(ip) => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())),
        IpAddr::V6(_) => None,
    }
}

/// Finds the user of the socket at `near` that is connected with `far` in the text of such a list.
fn listed(list: &str, near: SocketAddr, far: SocketAddr) -> Option<u32> {
    let mut wanted = String::new();
    printed(near, &mut wanted);
    wanted.push(' ');
    printed(far, &mut wanted);
    wanted.push(' ');
    wanted.push_str(ESTABLISHED);
    wanted.push(' ');
    let at = list.lines().find_map(|line| {
        let (_, rest) = line.split_once(": ")?;
        rest.strip_prefix(wanted.as_str())
    })?;
    // Queues, timers, retransmissions; user, time-out, inode.
    let mut words = at.split_ascii_whitespace().skip(3);
    let user = words.next()?.parse().ok()?;
    let inode: u64 = words.nth(1)?.parse().ok()?;
    (inode != 0).then_some(user)
}

/// Returns the user who opened the other end of a connection: `peer` is its address, `here` that of this end. `None` for
/// connections from other machines, and where the kernel does not say.
pub fn user_of(peer: SocketAddr, here: SocketAddr) -> Option<u32> {
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    let (peer, here) = (plain(peer), plain(here));
    if !peer.ip().is_loopback() || !here.ip().is_loopback() {
        return None;
    }
    #[cfg(target_os = "linux")]
    if let Some(owner) = crate::diag::owner_of(peer, here) {
        use crate::diag::Owner;
        return match owner {
            Owner::User(user) => Some(user),
            Owner::Nobody => None,
        };
    }
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    if peer.is_ipv4()
        && let Some(user) = listed(&read("/proc/net/tcp"), peer, here)
    {
        return Some(user);
    }
    let six = read("/proc/net/tcp6");
    // An IPv6 socket may have opened it with IPv4-mapped addresses.
    match (mapped(peer), mapped(here)) {
        (Some(peer), Some(here)) => listed(&six, peer, here),
        _ => listed(&six, peer, here),
    }
}

/// Returns the user whose process serves this process's loopback connection: `server` is the server's address, `here` that of this
/// end. `None` for servers on other machines, and where the kernel does not say.
pub fn server_user(server: SocketAddr, here: SocketAddr) -> Option<u32> {
    if let Some(user) = user_of(server, here) {
        return Some(user);
    }
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    let (server, here) = (plain(server), plain(here));
    if !server.ip().is_loopback() || !here.ip().is_loopback() {
        return None;
    }
    // Until it is accepted, the owner of the listening socket is expected to serve it.
    #[cfg(target_os = "linux")]
    if let Some(crate::diag::Owner::User(user)) = crate::diag::listener_of(server) {
        return Some(user);
    }
    None
}

/// Whether the kernel reports the users of loopback connections; tested once on a connection of this process. A process that is to
/// hand over connections must call this before.
pub fn kernel_knows_users() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(try_kernel)
}

fn try_kernel() -> bool {
    let try_out = || -> std::io::Result<bool> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let here = listener.local_addr()?;
        let client = std::net::TcpStream::connect(here)?;
        Ok(user_of(client.local_addr()?, here) == Some(own_user()))
    };
    is_mapped(own_user()) && try_out().unwrap_or(false)
}

/// Returns the name in `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
pub fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host, with or without a port, is this machine for every resolver.
pub fn is_this_machine(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Default user id that the kernel shows for users without an id in this namespace; it identifies no user.
const OVERFLOW_USER: u32 = 65_534;

/// Whether a process of `user` belongs to this process's user or to root. Users without an id here do not, even where this process
/// has none.
pub fn is_own_or_root(user: u32) -> bool {
    user == 0 || user == own_user() && user != OVERFLOW_USER
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_reports_the_user_of_a_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let here = server.local_addr().unwrap();
            assert_eq!(user_of(peer, here), Some(own_user()));
            // Seen from the other end, the user is that of this end.
            assert_eq!(user_of(here, peer), Some(own_user()));
            let gone = SocketAddr::new(peer.ip(), 1);
            assert_eq!(user_of(gone, here), None);
            // The lists in `/proc` agree.
            let list = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
            let lists = list("/proc/net/tcp") + &list("/proc/net/tcp6");
            assert_eq!(listed(&lists, peer, here), Some(own_user()));
            // A closed connection has no user.
            drop(client);
            esker_testkit::wait::wait_until("somebody who has hung up is known", || {
                user_of(peer, here).is_none()
            });
        }
    }

    #[test]
    fn a_server_is_known_before_it_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let here = client.local_addr().unwrap();
        assert_eq!(server_user(at, here), Some(own_user()));
        let accepted = listener.accept().unwrap();
        assert_eq!(server_user(at, here), Some(own_user()));
        drop((listener, client, accepted));
        assert!(kernel_knows_users());
    }

    #[test]
    fn other_machines_are_not_looked_up() {
        let far: SocketAddr = "10.0.0.1:7".parse().unwrap();
        assert_eq!(user_of(far, "127.0.0.1:7".parse().unwrap()), None);
        assert_eq!(user_of("127.0.0.1:7".parse().unwrap(), far), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn only_open_established_ends_count() {
        let near: SocketAddr = "127.0.0.1:40000".parse().unwrap();
        let far: SocketAddr = "127.0.0.1:7400".parse().unwrap();
        let line = |state: &str, user: u32, inode: u32| {
            format!(
                "  sl  local\n   3: 0100007F:9C40 0100007F:1CE8 {state} 00000000:00000000 00:00000000 00000000  {user}        0 {inode} 1 0\n"
            )
        };
        assert_eq!(listed(&line("01", 1001, 77), near, far), Some(1001));
        // A closed end is listed as user 0's.
        assert_eq!(listed(&line("06", 0, 0), near, far), None);
        assert_eq!(listed(&line("01", 0, 0), near, far), None);
        assert_eq!(listed(&line("01", 1001, 77), far, near), None);
    }

    proptest! {
        #[test]
        fn any_list_is_read(list in "(\\PC{0,30}: \\PC{0,60}\n){0,4}") {
            let near: SocketAddr = "127.0.0.1:1".parse().unwrap();
            prop_assert_eq!(listed(&list, near, near), None);
        }
    }
}
