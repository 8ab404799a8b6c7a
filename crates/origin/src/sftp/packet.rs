//! The packets of SFTP version 3 that requests need, as bytes.
//!
//! Servers implement an Internet draft (draft-ietf-secsh-filexfer-02): a length, a kind, a number that pairs a reply with its
//! request, and big-endian fields. Names are bytes, as on the wire.

use crate::unix::{kind, owner};
use esker_site_cache::entry::{Attributes, Kind};

/// Maximum size of a packet in bytes; the draft requires 34,000, OpenSSH sends up to 256 KiB.
pub(crate) const PACKET_MAX: usize = 1 << 20;
/// Maximum length of a handle, from the draft.
const HANDLE_MAX: usize = 256;
/// Maximum number of a server's extensions that are read.
const EXTENSIONS_MAX: usize = 64;

const INIT: u8 = 1;
const VERSION: u8 = 2;
const CLOSE: u8 = 4;
const LSTAT: u8 = 7;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const READLINK: u8 = 19;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const NAME: u8 = 104;
const ATTRS: u8 = 105;

const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
const HAS_MODE: u32 = 4;
const HAS_TIMES: u32 = 8;
const HAS_MORE: u32 = 1 << 31;

/// A request without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Attributes of a path; of a link, its own.
    Lstat(Box<[u8]>),
    /// Opens a directory for reading.
    OpenDir(Box<[u8]>),
    /// Reads the next names of an open directory.
    ReadDir(Box<[u8]>),
    /// Closes an open directory.
    Close(Box<[u8]>),
    /// Reads the target of a link.
    ReadLink(Box<[u8]>),
}

impl Request {
    /// Appends the packet, with its length, to `out`.
    pub(crate) fn encode(&self, id: u32, out: &mut Vec<u8>) {
        let (kind, bytes) = match self {
            Self::Lstat(path) => (LSTAT, path),
            Self::OpenDir(path) => (OPENDIR, path),
            Self::ReadDir(handle) => (READDIR, handle),
            Self::Close(handle) => (CLOSE, handle),
            Self::ReadLink(path) => (READLINK, path),
        };
        // Kind, number, length of the one field, and the field.
        out.extend((9 + bytes.len() as u32).to_be_bytes());
        out.push(kind);
        out.extend(id.to_be_bytes());
        out.extend((bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Encodes the first packet of a connection: the highest version that is supported here.
pub(crate) fn hello() -> [u8; 9] {
    [0, 0, 0, 5, INIT, 0, 0, 0, 3]
}

/// A directory entry, or the target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name as the server sends it.
    pub(crate) name: Box<[u8]>,
    /// Attributes reported with the name.
    pub(crate) attributes: Attributes,
}

/// A reply without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplyPacket {
    /// Status code and the server's message.
    Status(u32, Box<[u8]>),
    /// Handle of an open directory.
    Handle(Box<[u8]>),
    /// Directory entries or a link's target.
    Names(Vec<Name>),
    /// Attributes of a path.
    Attributes(Attributes),
}

/// The first packet of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Greeting {
    /// The protocol version of the server.
    pub(crate) version: u32,
    /// Names of the supported extensions.
    pub(crate) extensions: Vec<Box<str>>,
}

/// Description of an invalid packet.
pub(crate) type PacketError = &'static str;

/// Reader of consecutive fields; a truncated field is an error.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PacketError> {
        let (first, rest) = self
            .0
            .split_at_checked(count)
            .ok_or("a packet that ends in the middle of a field")?;
        self.0 = rest;
        Ok(first)
    }

    fn byte(&mut self) -> Result<u8, PacketError> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    fn u32(&mut self) -> Result<u32, PacketError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }

    fn u64(&mut self) -> Result<u64, PacketError> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], PacketError> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn attributes(&mut self) -> Result<Attributes, PacketError> {
        let flags = self.u32()?;
        let mut attributes = Attributes::default();
        if flags & HAS_SIZE != 0 {
            attributes.size = Some(self.u64()?);
        }
        if flags & HAS_OWNER != 0 {
            let (user, group) = (self.u32()?, self.u32()?);
            attributes.more = Some(owner(user, group));
        }
        if flags & HAS_MODE != 0 {
            let mode = self.u32()?;
            attributes.mode = Some(mode & 0o7777);
            attributes.kind = kind(mode);
        }
        if flags & HAS_TIMES != 0 {
            let (_read, written) = (self.u32()?, self.u32()?);
            attributes.modified = Some(i64::from(written) * 1_000_000_000);
        }
        if flags & HAS_MORE != 0 {
            // Each pair takes at least eight bytes, so that a wrong count fails at the end of the packet.
            for _ in 0..self.u32()? {
                self.bytes()?;
                self.bytes()?;
            }
        }
        Ok(attributes)
    }
}

/// Returns the kind from an `ls -l` line, for names whose attributes lack it.
fn kind_of_line(line: &[u8]) -> Kind {
    match line.first() {
        Some(b'd') => Kind::Directory,
        Some(b'-') => Kind::File,
        Some(b'l') => Kind::Link,
        Some(b'c' | b'b' | b'p' | b's') => Kind::Other,
        _ => Kind::Unknown,
    }
}

/// Returns the number of bytes after the four-byte length of a packet.
pub(crate) fn length(head: [u8; 4]) -> Result<usize, PacketError> {
    let length = u32::from_be_bytes(head) as usize;
    if length > PACKET_MAX && head.iter().all(|b| (b' '..=b'~').contains(b)) {
        return Err(
            "text where SFTP should begin; something that the remote account runs at login (.bashrc, .profile) prints it",
        );
    }
    match length {
        0..5 => Err("a packet that is too short for any"),
        5..=PACKET_MAX => Ok(length),
        _ => Err("a packet longer than 1 MiB"),
    }
}

/// Parses the reply to [`hello`].
pub(crate) fn greeting(packet: &[u8]) -> Result<Greeting, PacketError> {
    let mut fields = Fields(packet);
    if fields.byte()? != VERSION {
        return Err("something other than its version first");
    }
    let mut greeting = Greeting {
        version: fields.u32()?,
        extensions: Vec::new(),
    };
    if greeting.version < 3 {
        return Err("a version of SFTP before 3");
    }
    while !fields.0.is_empty() && greeting.extensions.len() < EXTENSIONS_MAX {
        greeting
            .extensions
            .push(crate::error::printable(fields.bytes()?));
        fields.bytes()?;
    }
    Ok(greeting)
}

/// Parses a reply; returns the number of its request.
pub(crate) fn reply(packet: &[u8]) -> Result<(u32, ReplyPacket), PacketError> {
    let mut fields = Fields(packet);
    let kind = fields.byte()?;
    let id = fields.u32()?;
    let reply = match kind {
        STATUS => {
            let code = fields.u32()?;
            // Old servers omit the message.
            let words = fields.bytes().unwrap_or_default();
            ReplyPacket::Status(code, words[..words.len().min(800)].into())
        }
        HANDLE => {
            let handle = fields.bytes()?;
            if handle.len() > HANDLE_MAX {
                return Err("a handle longer than 256 bytes");
            }
            ReplyPacket::Handle(handle.into())
        }
        NAME => {
            let count = fields.u32()? as usize;
            // A name takes at least 12 bytes: the count must fit the packet before memory is reserved.
            if count > fields.0.len() / 12 {
                return Err("more names than its packet holds");
            }
            let mut names = Vec::with_capacity(count);
            for _ in 0..count {
                let name = fields.bytes()?.into();
                let line = fields.bytes()?;
                let mut attributes = fields.attributes()?;
                if attributes.kind == Kind::Unknown {
                    attributes.kind = kind_of_line(line);
                }
                names.push(Name { name, attributes });
            }
            ReplyPacket::Names(names)
        }
        ATTRS => ReplyPacket::Attributes(fields.attributes()?),
        _ => return Err("a kind of packet that was not requested"),
    };
    Ok((id, reply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn field(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend((bytes.len() as u32).to_be_bytes());
        out.extend(bytes);
    }

    fn put(attributes: &Attributes, out: &mut Vec<u8>) {
        let mut flags = HAS_MORE;
        flags |= if attributes.size.is_some() {
            HAS_SIZE
        } else {
            0
        };
        flags |= if attributes.more.is_some() {
            HAS_OWNER
        } else {
            0
        };
        flags |= if attributes.mode.is_some() {
            HAS_MODE
        } else {
            0
        };
        flags |= if attributes.modified.is_some() {
            HAS_TIMES
        } else {
            0
        };
        out.extend(flags.to_be_bytes());
        out.extend(attributes.size.iter().flat_map(|n| n.to_be_bytes()));
        for (_, number) in attributes.more.iter().flat_map(|m| m.iter()) {
            out.extend(number.parse::<u32>().unwrap().to_be_bytes());
        }
        if let Some(mode) = attributes.mode {
            let bits = match attributes.kind {
                Kind::Directory => 0o040_000,
                Kind::File => 0o100_000,
                Kind::Link => 0o120_000,
                Kind::Other => 0o060_000,
                Kind::Unknown => 0,
            };
            out.extend((bits | mode).to_be_bytes());
        }
        if let Some(time) = attributes.modified {
            let seconds = ((time / 1_000_000_000) as u32).to_be_bytes();
            out.extend(seconds.iter().chain(&seconds));
        }
        out.extend(1_u32.to_be_bytes());
        field(b"x@y", out);
        field(b"", out);
    }

    fn attributes() -> impl Strategy<Value = Attributes> {
        let kind = prop_oneof![
            Just(Kind::File),
            Just(Kind::Directory),
            Just(Kind::Link),
            Just(Kind::Other)
        ];
        let mode = option::of((kind, 0_u32..0o10000));
        (
            option::of(any::<u64>()),
            option::of(any::<(u32, u32)>()),
            mode,
            option::of(any::<u32>()),
        )
            .prop_map(|(size, owned, mode, time)| Attributes {
                kind: mode.map_or(Kind::Unknown, |(kind, _)| kind),
                size,
                modified: time.map(|t| i64::from(t) * 1_000_000_000),
                mode: mode.map(|(_, mode)| mode),
                more: owned.map(|(user, group)| owner(user, group)),
            })
    }

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..most)
    }

    #[test]
    fn text_at_log_in_is_told_from_packets() {
        assert!(length(*b"Welc").unwrap_err().contains(".bashrc"));
        assert!(length([0, 0x20, 0, 0]).unwrap_err().contains("1 MiB"));
        assert!(length([0, 0, 0, 4]).is_err());
        assert_eq!(length([0, 0x10, 0, 0]), Ok(PACKET_MAX));
    }

    #[test]
    fn requests_are_as_the_draft_says() {
        let mut out = Vec::new();
        Request::Lstat(b"/a"[..].into()).encode(0x0102_0304, &mut out);
        assert_eq!(out, b"\0\0\0\x0b\x07\x01\x02\x03\x04\0\0\0\x02/a");
    }

    proptest! {
        /// Random server output yields a reply or an error and takes no more memory than was sent.
        #[test]
        fn any_bytes_are_a_reply_or_an_error(packet in bytes(400), kind in 100_u8..107) {
            let _ = greeting(&packet);
            let _ = reply(&packet);
            let mut likely = vec![kind];
            likely.extend(&packet);
            if let Ok((_, ReplyPacket::Names(names))) = reply(&likely) {
                prop_assert!(names.len() * 12 <= packet.len());
            }
        }

        /// Names and attributes survive a round trip, and no prefix of a packet is a valid packet.
        #[test]
        fn names_come_back(entries in proptest::collection::vec((bytes(40), attributes()), 0..8), id: u32) {
            let mut packet = vec![NAME];
            packet.extend(id.to_be_bytes());
            packet.extend((entries.len() as u32).to_be_bytes());
            for (name, attributes) in &entries {
                field(name, &mut packet);
                field(b"", &mut packet);
                put(attributes, &mut packet);
            }
            let wanted = entries.into_iter().map(|(name, attributes)| Name { name: name.into(), attributes });
            prop_assert_eq!(reply(&packet), Ok((id, ReplyPacket::Names(wanted.collect()))));
            for cut in 0..packet.len() {
                prop_assert!(reply(&packet[..cut]).is_err());
            }
        }
    }
}
