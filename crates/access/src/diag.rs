//! Looks up the user of the TCP socket with two given addresses in the kernel (netlink, `sock_diag(7)`).
//!
//! The kernel uses its connection hash table, so that the time does not depend on the number of sockets.
//!
//! ```text
//!  message  bytes 4, type 2, flags 2, number 4, port 4
//!  query    family 1, protocol 1, 0 0, states 4, [ports 2 2, source 16, destination 16, device 4, cookie 8]
//!  reply    family 1, state 1, timer 1, retransmissions 1, [as above], timeout 4, queues 4 4, user 4, inode 4
//! ```
//!
//! Integers are in host byte order, ports and addresses in network byte order.

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::net::{IpAddr, SocketAddr};

const HEAD_BYTES: usize = 16;
const ENDS_BYTES: usize = 48;
const QUERY_BYTES: usize = HEAD_BYTES + 8 + ENDS_BYTES;
const REPLY_BYTES: usize = HEAD_BYTES + 4 + ENDS_BYTES + 20;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
const FAMILIES: [u8; 2] = [2, 10];
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const LISTENS: u8 = 10;

/// The kernel's answer about a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The socket is in the requested state and belongs to this user.
    User(u32),
    /// No socket matches.
    Nobody,
}

/// Encodes the ports and addresses of both ends of a socket.
fn ends(near: SocketAddr, far: SocketAddr) -> [u8; 36] {
    let mut out = [0; 36];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = out.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    put(0, &near.port().to_be_bytes());
    put(2, &far.port().to_be_bytes());
    for (at, ip) in [(4, near.ip()), (20, far.ip())] {
        match ip {
            IpAddr::V4(ip) => put(at, &ip.octets()),
            IpAddr::V6(ip) => put(at, &ip.octets()),
        }
    }
    out
}

/// Returns the address in its IPv4-mapped IPv6 form.
fn mapped(end: SocketAddr) -> SocketAddr {
    match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    }
}

#[allow(clippy::host_endian_bytes, reason = "the kernel wants its own order")]
fn message(near: SocketAddr, far: SocketAddr, state: u8) -> Vec<u8> {
    let family = if near.is_ipv4() {
        FAMILIES[0]
    } else {
        FAMILIES[1]
    };
    let mut out = Vec::with_capacity(QUERY_BYTES);
    out.extend_from_slice(&(QUERY_BYTES as u32).to_ne_bytes());
    out.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&REQUEST.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[family, TCP, 0, 0]);
    out.extend_from_slice(&(1_u32 << state).to_ne_bytes());
    out.extend_from_slice(&ends(near, far));
    // Any device, any cookie.
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[0xff; 8]);
    out
}

/// Parses the kernel's reply; `None` if it says nothing of the requested socket.
#[allow(
    clippy::host_endian_bytes,
    reason = "the kernel answers in its own order"
)]
fn parse_reply(answer: &[u8], near: SocketAddr, far: SocketAddr, wanted: u8) -> Option<Owner> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != BY_FAMILY {
        // `NLMSG_ERROR`: no such socket (ENOENT), or the kernel does not support the query.
        const ERROR: u16 = 2;
        const NO_ENTRY: i32 = -2;
        let code = number(HEAD_BYTES)?.cast_signed();
        return (kind == ERROR && code == NO_ENTRY).then_some(Owner::Nobody);
    }
    if answer.len() < REPLY_BYTES {
        return None;
    }
    let state = *answer.get(HEAD_BYTES + 1)?;
    let at = HEAD_BYTES + 4;
    let said = answer.get(at..at + 36)?;
    // An IPv6 socket may have IPv4-mapped addresses.
    let same = match wanted {
        ESTABLISHED => said == ends(near, far) || said == ends(mapped(near), mapped(far)),
        // A socket that listens on all addresses matches each of them.
        _ => said.get(..2) == ends(near, far).get(..2),
    };
    let (user, inode) = (number(at + ENDS_BYTES + 12)?, number(at + ENDS_BYTES + 16)?);
    // The kernel returns a listening socket if there is no such connection.
    Some(if state == wanted && same && inode != 0 {
        Owner::User(user)
    } else {
        Owner::Nobody
    })
}

/// Returns the owner of the established socket with these two ends; `None` if the kernel does not support the query.
pub(crate) fn owner_of(near: SocketAddr, far: SocketAddr) -> Option<Owner> {
    query(near, far, ESTABLISHED)
}

/// Returns the owner of the socket that listens at an address; `None` if the kernel does not support the query.
pub(crate) fn listener_of(at: SocketAddr) -> Option<Owner> {
    let nobody = match at.ip() {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    };
    query(at, SocketAddr::new(nobody, 0), LISTENS)
}

fn query(near: SocketAddr, far: SocketAddr, state: u8) -> Option<Owner> {
    let family = AddressFamily::NETLINK;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    let message = message(near, far, state);
    sendto(&socket, &message, SendFlags::empty(), &kernel).ok()?;
    // The kernel queues its reply before `sendto` returns.
    let mut answer = [0; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
    parse_reply(answer.get(..length)?, near, far, state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    /// The reply agrees with `/proc/net/tcp` where the query is supported.
    #[test]
    fn the_kernel_reports_the_user_of_a_socket() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let near = client.local_addr().unwrap();
            let Some(owner) = owner_of(near, at) else {
                // Unsupported here: the lists in `/proc` are used instead.
                return;
            };
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(owner, Owner::User(own), "{address}");
            // A listener is not mistaken for a connection that does not exist.
            let other = SocketAddr::new(near.ip(), 1);
            assert_eq!(owner_of(at, other), Some(Owner::Nobody));
            assert_eq!(owner_of(other, at), Some(Owner::Nobody));
            // A connection is not mistaken for a listener.
            assert_eq!(listener_of(at), Some(Owner::User(own)), "{address}");
            assert_eq!(listener_of(near), Some(Owner::Nobody), "{address}");
            drop((client, listener));
        }
        // A socket that listens on all addresses of the machine.
        for address in ["0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let at = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), port);
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(listener_of(at), Some(Owner::User(own)), "{address}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let near: SocketAddr = "127.0.0.1:1".parse().unwrap();
            for state in [ESTABLISHED, LISTENS] {
                prop_assert!(!matches!(parse_reply(&bytes, near, near, state), Some(Owner::User(_))));
            }
        }
    }
}
