//! Rows of the table `names`: the namespace on disk. Their keys are those of [`crate::key::names`].

#![deny(clippy::indexing_slicing)]

use super::{Content, Inode, Kind, Name};
use crate::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use crate::id::VertexId;
pub use crate::key::names::{
    LOCATION_PREFIX, RowHome, child_key, children_prefix, decode_child_key, decode_dentry_key,
    decode_inode_history_prefix, dentries_prefix, dentry_key, inode_history_key,
    inode_history_prefix, is_dentry, is_path_named_key, located_vertex, location_key,
    path_named_key, removed_entry_key, row_home,
};
use crate::version::Version;

/// An entry of a directory, with its file's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dentry {
    /// Name of the entry.
    pub name: Name,
    /// Id of the file.
    pub id: VertexId,
    /// Attributes of the file; those of a file with several names are in its location record.
    pub inode: DentryInode,
}

/// Attributes of an inode, or the record that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DentryInode {
    /// The attributes are stored in the dentry.
    Inline(Inode),
    /// The attributes are stored in the location record of the id; the inode has this kind.
    Linked(Kind),
}

const LINKED: u8 = 1;

impl Dentry {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let linked = matches!(self.inode, DentryInode::Linked(_));
        out.push(if linked { LINKED } else { 0 });
        put_bytes(out, self.name.as_bytes());
        out.extend_from_slice(&self.id.0);
        match &self.inode {
            DentryInode::Inline(inode) => encode_inode(inode, out),
            DentryInode::Linked(kind) => put_varint(out, u64::from(kind.bits())),
        }
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let flags = r.u8("a dentry's flags")?;
        if flags > LINKED {
            return Err(r.error("a dentry's flags (0 or 1)"));
        }
        let name = name(&mut r)?;
        let id = VertexId(r.array("an inode's id")?);
        let inode = if flags == LINKED {
            let kind = Kind::of_mode(u32_of(&mut r, "a kind")?);
            DentryInode::Linked(kind.ok_or_else(|| r.error("the type bits of a mode"))?)
        } else {
            DentryInode::Inline(decode_inode(id, &mut r)?)
        };
        r.finish()?;
        Ok(Self { name, id, inode })
    }

    /// Decodes the attributes from an encoded row if it has the given name, without copying the name; `None` if it has
    /// another name or its attributes are in the location record.
    pub fn inode_of(row: &[u8], name: &[u8]) -> Result<Option<Inode>, DecodeError> {
        let mut r = Reader::new(row);
        let linked = r.u8("a dentry's flags")? != 0;
        if linked || r.bytes("a name")? != name {
            return Ok(None);
        }
        let id = VertexId(r.array("an inode's id")?);
        let inode = decode_inode(id, &mut r)?;
        r.finish()?;
        Ok(Some(inode))
    }

    /// Returns the name in an encoded row, without decoding the rest.
    pub fn name_of(row: &[u8]) -> Result<&[u8], DecodeError> {
        let mut r = Reader::new(row);
        r.u8("a dentry's flags")?;
        r.bytes("a name")
    }
}

/// Location of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocationRecord {
    /// Whether the inode was unlinked and has no name any more; the listed name was the last one.
    pub deleted: bool,
    /// Whether an entry was removed from this directory, so that the id computed for a new entry may be taken.
    pub departed: bool,
    /// Directory and name of each of its names.
    pub names: Vec<(VertexId, Name)>,
    /// Attributes of a file with several names, or the last attributes of an unlinked one.
    pub inode: Option<Inode>,
}

impl LocationRecord {
    /// Creates the record of an inode with one name.
    pub fn at(directory: VertexId, name: Name) -> Self {
        Self {
            names: vec![(directory, name)],
            ..Self::default()
        }
    }

    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(
            u8::from(self.deleted)
                | u8::from(self.departed) << 1
                | u8::from(self.inode.is_some()) << 2,
        );
        put_names(&self.names, out);
        if let Some(inode) = &self.inode {
            encode_inode(inode, out);
        }
    }

    /// Decodes the output of [`Self::encode`] for the inode with this id.
    pub fn decode(id: VertexId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let flags = r.u8("flags of a location record")?;
        if flags > 7 {
            return Err(r.error("flags of a location record (below 8)"));
        }
        let names = names(&mut r)?;
        let inode = (flags & 4 != 0)
            .then(|| decode_inode(id, &mut r))
            .transpose()?;
        r.finish()?;
        Ok(Self {
            deleted: flags & 1 != 0,
            departed: flags & 2 != 0,
            names,
            inode,
        })
    }
}

/// A superseded state of an inode, valid up to a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InodeHistory {
    /// Directory that contained the inode.
    pub directory: VertexId,
    /// Name of the inode in that directory.
    pub name: Name,
    /// Attributes of the inode, with the version at which it took them.
    pub inode: Inode,
    /// Directory and name of each further name of the inode.
    pub others: Vec<(VertexId, Name)>,
}

impl InodeHistory {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.directory.0);
        put_bytes(out, self.name.as_bytes());
        encode_inode(&self.inode, out);
        // Rows of inodes with one name, and all rows of earlier releases, end here.
        if !self.others.is_empty() {
            put_names(&self.others, out);
        }
    }

    /// Decodes the output of [`Self::encode`] for the inode with this id.
    pub fn decode(id: VertexId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let directory = VertexId(r.array("a directory's id")?);
        let name = name(&mut r)?;
        let inode = decode_inode(id, &mut r)?;
        let others = if r.remaining() > 0 {
            names(&mut r)?
        } else {
            Vec::new()
        };
        r.finish()?;
        Ok(Self {
            directory,
            name,
            inode,
            others,
        })
    }
}

fn put_names(names: &[(VertexId, Name)], out: &mut Vec<u8>) {
    put_varint(out, names.len() as u64);
    for (directory, name) in names {
        out.extend_from_slice(&directory.0);
        put_bytes(out, name.as_bytes());
    }
}

fn names(r: &mut Reader<'_>) -> Result<Vec<(VertexId, Name)>, DecodeError> {
    let count = r.count(18, "a count of names")?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let directory = VertexId(r.array("a directory's id")?);
        names.push((directory, name(r)?));
    }
    Ok(names)
}

fn name(r: &mut Reader<'_>) -> Result<Name, DecodeError> {
    let bytes = r.bytes("a name")?;
    Name::new(bytes).map_err(|_| r.error("a name of 1 to 255 bytes"))
}

fn u32_of(r: &mut Reader<'_>, what: &'static str) -> Result<u32, DecodeError> {
    let value = r.varint(what)?;
    u32::try_from(value).map_err(|_| r.error("a number of 32 bits"))
}

const TRACKED: u8 = 1;
const XATTRS: u8 = 2;
const DEVICE: u8 = 4;
const BLOCKS: u8 = 8;
const CONTENT_SHIFT: u8 = 4;

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Encodes the attributes of an inode:
///
/// ```text
///  [flags][version 8][mode][uid][gid][links][size]([blocks])[mtime][ctime][atime][btime]([rdev])([content])([xattrs])
/// ```
/// `ctime`, `atime` and `btime` are stored as differences from `mtime`, which are mostly zero.
fn encode_inode(inode: &Inode, out: &mut Vec<u8>) {
    let (content, bytes): (u8, &[u8]) = match &inode.content {
        Content::None => (0, &[]),
        Content::Symlink(target) => (1, target),
        Content::Inline(data) => (2, data),
        Content::Object(path) => (3, path),
    };
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.push(
        flag(inode.tracked, TRACKED)
            | flag(!inode.xattrs.is_empty(), XATTRS)
            | flag(inode.rdev != 0, DEVICE)
            | flag(inode.blocks != 0, BLOCKS)
            | content << CONTENT_SHIFT,
    );
    put_u64(out, inode.version.0);
    for n in [inode.mode, inode.uid, inode.gid, inode.links] {
        put_varint(out, u64::from(n));
    }
    put_varint(out, inode.size);
    if inode.blocks != 0 {
        put_varint(out, inode.blocks);
    }
    put_varint(out, zigzag(inode.mtime));
    for time in [inode.ctime, inode.atime, inode.btime] {
        put_varint(out, zigzag(time.wrapping_sub(inode.mtime)));
    }
    if inode.rdev != 0 {
        put_varint(out, inode.rdev);
    }
    if content != 0 {
        put_bytes(out, bytes);
    }
    if !inode.xattrs.is_empty() {
        put_varint(out, inode.xattrs.len() as u64);
        for (name, value) in &inode.xattrs {
            put_bytes(out, name);
            put_bytes(out, value);
        }
    }
}

fn decode_inode(id: VertexId, r: &mut Reader<'_>) -> Result<Inode, DecodeError> {
    let flags = r.u8("an inode's flags")?;
    let version = Version(r.u64("a version")?);
    let mode = u32_of(r, "a mode")?;
    let uid = u32_of(r, "an owner")?;
    let gid = u32_of(r, "a group")?;
    let links = u32_of(r, "a count of links")?;
    let size = r.varint("a size")?;
    let blocks = if flags & BLOCKS != 0 {
        r.varint("a count of blocks")?
    } else {
        0
    };
    let mtime = unzigzag(r.varint("a time")?);
    let mut time = || Ok::<_, DecodeError>(mtime.wrapping_add(unzigzag(r.varint("a time")?)));
    let (ctime, atime, btime) = (time()?, time()?, time()?);
    let rdev = if flags & DEVICE != 0 {
        r.varint("a device")?
    } else {
        0
    };
    let content = match flags >> CONTENT_SHIFT {
        0 => Content::None,
        1 => Content::Symlink(r.bytes("a symbolic link's target")?.to_vec()),
        2 => Content::Inline(r.bytes("content")?.to_vec()),
        3 => Content::Object(r.bytes("a path")?.to_vec()),
        _ => return Err(r.error("a kind of content (0 to 3)")),
    };
    let mut xattrs = Vec::new();
    if flags & XATTRS != 0 {
        for _ in 0..r.count(2, "a count of attributes")? {
            let name = r.bytes("an attribute's name")?.to_vec();
            xattrs.push((name, r.bytes("an attribute's value")?.to_vec()));
        }
    }
    Ok(Inode {
        id,
        version,
        mode,
        uid,
        gid,
        links,
        size,
        blocks,
        rdev,
        atime,
        mtime,
        ctime,
        btime,
        content,
        xattrs,
        tracked: flags & TRACKED != 0,
    })
}

/// Appends an inode with its id, for messages between servers.
pub fn put_inode(inode: &Inode, out: &mut Vec<u8>) {
    out.extend_from_slice(&inode.id.0);
    encode_inode(inode, out);
}

/// Decodes the output of [`put_inode`].
pub fn take_inode(r: &mut Reader<'_>) -> Result<Inode, DecodeError> {
    let id = VertexId(r.array("an inode's id")?);
    decode_inode(id, r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_name() -> impl Strategy<Value = Name> {
        prop::collection::vec(1_u8.., 1..20).prop_map(|b| {
            let bytes: Vec<u8> = b
                .into_iter()
                .map(|b| if b == b'/' { b'_' } else { b })
                .collect();
            Name::new(&bytes).unwrap_or_else(|_| Name::new(b"x").unwrap())
        })
    }

    fn contents() -> impl Strategy<Value = Content> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..9);
        prop_oneof![
            Just(Content::None),
            bytes().prop_map(Content::Symlink),
            bytes().prop_map(Content::Inline),
            bytes().prop_map(Content::Object),
        ]
    }

    prop_compose! {
        fn inodes()(
            id in any::<[u8; 16]>(), version in any::<u64>(), n in any::<[u32; 4]>(), sizes in any::<[u64; 3]>(),
            times in any::<[i64; 4]>(), content in contents(), tracked in any::<bool>(),
            xattrs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..4), prop::collection::vec(any::<u8>(), 0..4)), 0..3),
        ) -> Inode {
            let ([mode, uid, gid, links], [size, blocks, rdev], [atime, mtime, ctime, btime]) = (n, sizes, times);
            Inode { id: VertexId(id), version: Version(version), mode, uid, gid, links, size, blocks, rdev, atime, mtime, ctime, btime, content, xattrs, tracked }
        }
    }

    proptest! {
        #[test]
        fn rows_come_back(name in any_name(), inode in inodes(), deleted in any::<bool>(), departed in any::<bool>(), linked in any::<bool>()) {
            let id = inode.id;
            let state = if linked { DentryInode::Linked(Kind::Fifo) } else { DentryInode::Inline(inode.clone()) };
            let dentry = Dentry { name: name.clone(), id, inode: state };
            let mut row = Vec::new();
            dentry.encode(&mut row);
            prop_assert_eq!(Dentry::name_of(&row).unwrap(), name.as_bytes());
            let here = (!linked).then(|| inode.clone());
            prop_assert_eq!(Dentry::inode_of(&row, name.as_bytes()).unwrap(), here);
            prop_assert_eq!(Dentry::inode_of(&row, b"/").unwrap(), None);
            for end in 0..row.len() {
                prop_assert!(Dentry::decode(row.get(..end).unwrap()).is_err());
            }
            prop_assert_eq!(Dentry::decode(&row).unwrap(), dentry);
            let place = LocationRecord { deleted, departed, names: vec![(id, name.clone()); 2], inode: linked.then(|| inode.clone()) };
            let mut row = Vec::new();
            place.encode(&mut row);
            prop_assert_eq!(LocationRecord::decode(id, &row).unwrap(), place);
            let others = if linked { vec![(id, name.clone()); 2] } else { Vec::new() };
            let past = InodeHistory { directory: id, name, inode, others };
            let mut row = Vec::new();
            past.encode(&mut row);
            prop_assert_eq!(InodeHistory::decode(id, &row).unwrap(), past);
        }

        #[test]
        fn nothing_that_is_damaged_panics(row in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Dentry::decode(&row), Dentry::inode_of(&row, &[]));
            let _ = LocationRecord::decode(VertexId::default(), &row);
            let _ = InodeHistory::decode(VertexId::default(), &row);
            let _ = decode_dentry_key(&row);
            let _ = decode_child_key(&row);
        }
    }

    #[test]
    fn an_empty_file_is_small() {
        let inode = Inode {
            id: VertexId([9; 16]),
            version: Version(1 << 60),
            mode: 0o100_644,
            uid: 1000,
            gid: 1000,
            links: 1,
            size: 0,
            blocks: 0,
            rdev: 0,
            atime: 1_763_800_000_000_000_000,
            mtime: 1_763_800_000_000_000_000,
            ctime: 1_763_800_000_000_000_000,
            btime: 1_763_800_000_000_000_000,
            content: Content::None,
            xattrs: Vec::new(),
            tracked: false,
        };
        let mut row = Vec::new();
        Dentry {
            name: Name::new(b"file.00000001").unwrap(),
            id: inode.id,
            inode: DentryInode::Inline(inode),
        }
        .encode(&mut row);
        assert!(row.len() <= 61, "{}", row.len());
    }
}
