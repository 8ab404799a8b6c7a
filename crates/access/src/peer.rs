//! Whose a connection of this machine is: the kernel knows by which user its other end was opened.
//!
//! For connections over loopback it is asked for that end (`diag`), or, where it cannot be asked so, `/proc/net/tcp` and `tcp6` list
//! both. Only an end that is established and belongs to an open socket counts: others are listed as user 0's.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

/// An established connection, as the kernel lists it.
const ESTABLISHED: &str = "01";

/// How the kernel prints an address: each four bytes as a number of this machine, in hexadecimal digits.
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

/// The same address as the other version writes it.
fn mapped(address: SocketAddr) -> Option<SocketAddr> {
    match address.ip() {
        IpAddr::V4(ip) => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())),
        IpAddr::V6(_) => None,
    }
}

/// The user of the socket at `near` that is connected with `far`, in such a list.
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

/// The user who opened the other end of a connection: `peer` is its address, `here` that of this end. None for
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
    // A socket of version 6 may have opened it in the form of version 4.
    match (mapped(peer), mapped(here)) {
        (Some(peer), Some(here)) => listed(&six, peer, here),
        _ => listed(&six, peer, here),
    }
}

/// The user whose process serves a connection of this process to a server over loopback: `server` is the server's address, `here`
/// that of this end. None for servers on other machines, and where the kernel does not say.
pub fn server_user(server: SocketAddr, here: SocketAddr) -> Option<u32> {
    if let Some(user) = user_of(server, here) {
        return Some(user);
    }
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    let (server, here) = (plain(server), plain(here));
    if !server.ip().is_loopback() || !here.ip().is_loopback() {
        return None;
    }
    // The server has not accepted it yet: whoever listens will.
    #[cfg(target_os = "linux")]
    if let Some(crate::diag::Owner::User(user)) = crate::diag::listener_of(server) {
        return Some(user);
    }
    None
}

/// Whether the kernel says whose connections over loopback are: it is asked about one of this process, once. A process that is to give up
/// connections asks before.
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

/// The number by which the kernel shows all users that have none here: in user namespaces, of file servers. Two processes that are
/// shown so may be of two users.
pub fn overflow_user() -> u32 {
    static KNOWN: OnceLock<u32> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let said = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        let said = said.ok().and_then(|text| text.trim().parse().ok());
        said.unwrap_or(65_534)
    })
}

/// Whether a number names one user: it is not [`overflow_user`], or that is this process's own user on a system where all users have
/// a number, as for a process of `nobody`.
pub fn is_mapped(user: u32) -> bool {
    user != overflow_user() || (user == own_user() && all_are_mapped())
}

/// Whether all users of the system have a number here.
fn all_are_mapped() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers: Vec<u64> = map
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers == [0, 0, u64::from(u32::MAX)]
}

/// The name in `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
pub fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a host, with its port if it has one, is this machine by any resolver.
pub fn is_this_machine(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// This process's user.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user that the kernel names where a user of this machine has no number in this namespace: nobody in particular.
const OVERFLOW_USER: u32 = 65_534;

/// Whether a process of that user is one of this process's user, or of root. Users without a number here are not, even where this
/// process has none.
pub fn is_own_or_root(user: u32) -> bool {
    user == 0 || user == own_user() && user != OVERFLOW_USER
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_knows_whose_a_connection_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let here = server.local_addr().unwrap();
            assert_eq!(user_of(peer, here), Some(own_user()));
            // The other way round it is this end's.
            assert_eq!(user_of(here, peer), Some(own_user()));
            let gone = SocketAddr::new(peer.ip(), 1);
            assert_eq!(user_of(gone, here), None);
            // As the lists say it, too.
            let list = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
            let lists = list("/proc/net/tcp") + &list("/proc/net/tcp6");
            assert_eq!(listed(&lists, peer, here), Some(own_user()));
            // One that has hung up is nobody's any more.
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
        assert_eq!(overflow_user(), 65_534);
        assert!(is_mapped(0) && is_mapped(own_user()));
        assert!(!is_mapped(overflow_user()) || own_user() == overflow_user());
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
