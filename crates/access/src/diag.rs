//! One question to the kernel: whose is the socket with these two ends? (netlink, `sock_diag(7)`.)
//!
//! It looks the socket up where connections are looked up, so that a machine with many answers as fast as one with few.
//!
//! ```text
//!  message  bytes 4, type 2, flags 2, number 4, port 4
//!  asked    family 1, protocol 1, 0 0, states 4, [ports 2 2, source 16, destination 16, device 4, cookie 8]
//!  told     family 1, state 1, timer 1, retransmissions 1, [the same], timeout 4, queues 4 4, user 4, inode 4
//! ```
//!
//! Numbers are this machine's, ports and addresses the network's.

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::net::{IpAddr, SocketAddr};

const HEAD_BYTES: usize = 16;
const ENDS_BYTES: usize = 48;
const ASKED_BYTES: usize = HEAD_BYTES + 8 + ENDS_BYTES;
const TOLD_BYTES: usize = HEAD_BYTES + 4 + ENDS_BYTES + 20;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
const FAMILIES: [u8; 2] = [2, 10];
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const LISTENS: u8 = 10;

/// What the kernel says of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It is in the state that was asked for, and that user's.
    User(u32),
    /// There is none that is.
    Nobody,
}

/// Ports and addresses of a socket: its own end, and the other.
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

/// The same end as version 6 writes it.
fn mapped(end: SocketAddr) -> SocketAddr {
    match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    }
}

#[allow(clippy::host_endian_bytes, reason = "the kernel wants its own order")]
fn question(near: SocketAddr, far: SocketAddr, state: u8) -> Vec<u8> {
    let family = if near.is_ipv4() {
        FAMILIES[0]
    } else {
        FAMILIES[1]
    };
    let mut out = Vec::with_capacity(ASKED_BYTES);
    out.extend_from_slice(&(ASKED_BYTES as u32).to_ne_bytes());
    out.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&REQUEST.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[family, TCP, 0, 0]);
    out.extend_from_slice(&(1_u32 << state).to_ne_bytes());
    out.extend_from_slice(&ends(near, far));
    // No device, and whatever cookie.
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[0xff; 8]);
    out
}

/// What an answer says of the socket that was asked for; none if it says nothing.
#[allow(
    clippy::host_endian_bytes,
    reason = "the kernel answers in its own order"
)]
fn told(answer: &[u8], near: SocketAddr, far: SocketAddr, wanted: u8) -> Option<Owner> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != BY_FAMILY {
        // `NLMSG_ERROR`: there is no such socket (ENOENT), or the kernel cannot be asked.
        const ERROR: u16 = 2;
        const NO_ENTRY: i32 = -2;
        let code = number(HEAD_BYTES)?.cast_signed();
        return (kind == ERROR && code == NO_ENTRY).then_some(Owner::Nobody);
    }
    if answer.len() < TOLD_BYTES {
        return None;
    }
    let state = *answer.get(HEAD_BYTES + 1)?;
    let at = HEAD_BYTES + 4;
    let said = answer.get(at..at + 36)?;
    // A socket of version 6 may have the ends of one of version 4.
    let same = match wanted {
        ESTABLISHED => said == ends(near, far) || said == ends(mapped(near), mapped(far)),
        // One that listens at all addresses is found for each.
        _ => said.get(..2) == ends(near, far).get(..2),
    };
    let (user, inode) = (number(at + ENDS_BYTES + 12)?, number(at + ENDS_BYTES + 16)?);
    // A port that is listened at is found instead of a connection that is not there.
    Some(if state == wanted && same && inode != 0 {
        Owner::User(user)
    } else {
        Owner::Nobody
    })
}

/// Whose the established socket with these two ends is; none if the kernel cannot be asked so.
pub(crate) fn owner_of(near: SocketAddr, far: SocketAddr) -> Option<Owner> {
    ask(near, far, ESTABLISHED)
}

/// Whose the socket is that listens at that address; none if the kernel cannot be asked so.
pub(crate) fn listener_of(at: SocketAddr) -> Option<Owner> {
    let nobody = match at.ip() {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    };
    ask(at, SocketAddr::new(nobody, 0), LISTENS)
}

fn ask(near: SocketAddr, far: SocketAddr, state: u8) -> Option<Owner> {
    let family = AddressFamily::NETLINK;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    let question = question(near, far, state);
    sendto(&socket, &question, SendFlags::empty(), &kernel).ok()?;
    // The kernel answers before `sendto` comes back.
    let mut answer = [0; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
    told(answer.get(..length)?, near, far, state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    /// The kernel's answer is that of its lists, where it can be asked.
    #[test]
    fn the_kernel_says_whose_a_socket_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let near = client.local_addr().unwrap();
            let Some(owner) = owner_of(near, at) else {
                // Not here: the lists are read instead.
                return;
            };
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(owner, Owner::User(own), "{address}");
            // The listener is not taken for a connection that is not there.
            let other = SocketAddr::new(near.ip(), 1);
            assert_eq!(owner_of(at, other), Some(Owner::Nobody));
            assert_eq!(owner_of(other, at), Some(Owner::Nobody));
            // And a connection not for a listener.
            assert_eq!(listener_of(at), Some(Owner::User(own)), "{address}");
            assert_eq!(listener_of(near), Some(Owner::Nobody), "{address}");
            drop((client, listener));
        }
        // One that listens at all addresses of the machine.
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
                prop_assert!(!matches!(told(&bytes, near, near, state), Some(Owner::User(_))));
            }
        }
    }
}
