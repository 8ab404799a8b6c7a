//! Rows of table `names`: the namespace on disk.
//!
//! ```text
//!  [01][directory 16][hash of name 8][n]   a dentry: name, id, inode attributes, small content (TableFS's schema)
//!  [02][id 16]                             whereabouts: where an inode is whose id does not tell, or that it is gone
//!  [03][id 16][!version 8]                 what an inode was: where, and its attributes
//!  [04][id of a path 16]                   a claim: the directory that names its files after that path
//!  [05][directory 16][directory 16]        a directory in a directory, with its name
//!  [06][directory 16][hash of name 8]      of a cluster: an entry of that hash has left, so an id made from its path may be taken
//! ```
//!
//! `n` counts names of one directory with one hash, from 0 without gaps.

#![deny(clippy::indexing_slicing)]

use super::{Content, Inode, Kind, Name};
use crate::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use crate::id::VertexId;
use crate::version::Version;

const DENTRY: u8 = 1;
const WHEREABOUTS: u8 = 2;
const PAST: u8 = 3;
const CLAIM: u8 = 4;
const CHILD: u8 = 5;
const LEFT: u8 = 6;

/// Bytes of a dentry's key.
pub const DENTRY_KEY_BYTES: usize = 1 + 16 + 8 + 1;

/// A dentry's key.
pub fn dentry_key(directory: VertexId, hash: u64, n: u8) -> [u8; DENTRY_KEY_BYTES] {
    let mut key = [DENTRY; DENTRY_KEY_BYTES];
    let (head, tail) = key.split_at_mut(17);
    head.copy_from_slice(&dentries_prefix(directory));
    let (middle, last) = tail.split_at_mut(8);
    middle.copy_from_slice(&hash.to_be_bytes());
    last.copy_from_slice(&[n]);
    key
}

/// All dentries of a directory.
pub fn dentries_prefix(directory: VertexId) -> [u8; 17] {
    marked(DENTRY, directory)
}

/// Hash and number of a dentry's key.
pub fn decode_dentry_key(key: &[u8]) -> Result<(VertexId, u64, u8), DecodeError> {
    let mut r = Reader::new(key);
    if r.u8("a dentry's marker")? != DENTRY {
        return Err(r.error("a dentry's marker (01)"));
    }
    let directory = VertexId(r.array("a directory's id")?);
    let (hash, n) = (r.u64("a hash")?, r.u8("a number")?);
    r.finish()?;
    Ok((directory, hash, n))
}

/// The key of whereabouts.
pub fn whereabouts_key(id: VertexId) -> [u8; 17] {
    marked(WHEREABOUTS, id)
}

/// The key of what an inode was.
pub fn past_key(id: VertexId, version: Version) -> [u8; 25] {
    let mut key = [0; 25];
    let (head, tail) = key.split_at_mut(17);
    head.copy_from_slice(&past_prefix(id));
    tail.copy_from_slice(&(!version.0).to_be_bytes());
    key
}

/// All that an inode was, newest first.
pub fn past_prefix(id: VertexId) -> [u8; 17] {
    marked(PAST, id)
}

/// Of which inode all states are meant, by what [`past_prefix`] made.
pub fn of_past(prefix: &[u8]) -> Option<VertexId> {
    let (marker, id) = prefix.split_first()?;
    (*marker == PAST).then_some(())?;
    id.try_into().ok().map(VertexId)
}

/// The key of a claim on a path, by the id of a directory there.
pub fn claim_key(path: VertexId) -> [u8; 17] {
    marked(CLAIM, path)
}

/// The key of a directory in a directory.
pub fn child_key(parent: VertexId, child: VertexId) -> [u8; 33] {
    let mut key = [0; 33];
    let (head, tail) = key.split_at_mut(17);
    head.copy_from_slice(&children_prefix(parent));
    tail.copy_from_slice(&child.0);
    key
}

/// All directories in a directory.
pub fn children_prefix(parent: VertexId) -> [u8; 17] {
    marked(CHILD, parent)
}

/// The directory of a key made by [`child_key`].
pub fn decode_child_key(key: &[u8]) -> Result<VertexId, DecodeError> {
    let mut r = Reader::new(key);
    r.take(17, "a directory's id")?;
    let child = VertexId(r.array("a directory's id")?);
    r.finish()?;
    Ok(child)
}

/// The key that says that an entry of that hash has left a directory. It lies with the entries of that hash.
pub fn left_key(directory: VertexId, hash: u64) -> [u8; 25] {
    let mut key = [0; 25];
    let (head, tail) = key.split_at_mut(17);
    head.copy_from_slice(&lefts_prefix(directory));
    tail.copy_from_slice(&hash.to_be_bytes());
    key
}

/// All that has left a directory.
pub fn lefts_prefix(directory: VertexId) -> [u8; 17] {
    marked(LEFT, directory)
}

/// What all keys of whereabouts begin with.
pub const WHEREABOUTS_PREFIX: [u8; 1] = [WHEREABOUTS];

/// Whether that is the key of a dentry.
pub fn is_dentry(key: &[u8]) -> bool {
    key.first() == Some(&DENTRY)
}

/// Whether that is the key of a claim on a path.
pub fn is_claim(key: &[u8]) -> bool {
    key.first() == Some(&CLAIM)
}

/// What decides where a row lies, where a namespace is spread over many servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// With the entries of that hash of a directory.
    Entry(VertexId, u64),
    /// Where that vertex is at home.
    Home(VertexId),
    /// Where it was written.
    Anywhere,
}

/// Where a row lies, by its key.
pub fn lies(key: &[u8]) -> Result<Lies, DecodeError> {
    let mut r = Reader::new(key);
    let marker = r.u8("a row's marker")?;
    let id = VertexId(r.array("an id")?);
    Ok(match marker {
        DENTRY if id == VertexId::default() => Lies::Home(super::root()),
        DENTRY | LEFT => Lies::Entry(id, r.u64("a hash")?),
        WHEREABOUTS | CLAIM | CHILD => Lies::Home(id),
        PAST => Lies::Anywhere,
        _ => return Err(r.error("a row's marker (01 to 06)")),
    })
}

fn marked(marker: u8, id: VertexId) -> [u8; 17] {
    let mut key = [marker; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = id.0;
    }
    key
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dentry {
    /// Its name.
    pub name: Name,
    /// What it names.
    pub id: VertexId,
    /// Its attributes; those of a file with several names lie in its whereabouts.
    pub inode: DentryInode,
}

/// An inode's attributes, or where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DentryInode {
    /// Here.
    Here(Inode),
    /// In the whereabouts of the id; of this kind.
    Elsewhere(Kind),
}

const LINKED: u8 = 1;

impl Dentry {
    /// Appends the row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let linked = matches!(self.inode, DentryInode::Elsewhere(_));
        out.push(if linked { LINKED } else { 0 });
        put_bytes(out, self.name.as_bytes());
        out.extend_from_slice(&self.id.0);
        match &self.inode {
            DentryInode::Here(inode) => encode_inode(inode, out),
            DentryInode::Elsewhere(kind) => put_varint(out, u64::from(kind.bits())),
        }
    }

    /// Reads what [`Self::encode`] wrote.
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
            DentryInode::Elsewhere(kind.ok_or_else(|| r.error("the type bits of a mode"))?)
        } else {
            DentryInode::Here(decode_inode(id, &mut r)?)
        };
        r.finish()?;
        Ok(Self { name, id, inode })
    }

    /// The attributes in an encoded row whose name is that one, without making anything of the name; `None` if it is another
    /// one, or if they lie elsewhere.
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

    /// The name in an encoded row, without reading the rest.
    pub fn name_of(row: &[u8]) -> Result<&[u8], DecodeError> {
        let mut r = Reader::new(row);
        r.u8("a dentry's flags")?;
        r.bytes("a name")
    }
}

/// Where an inode is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whereabouts {
    /// It was unlinked, and has no name any more: the one listed was the last.
    pub gone: bool,
    /// Of a directory: something that was in it left it, so a new entry's id may be taken.
    pub departed: bool,
    /// Directory and name, of each of its names.
    pub names: Vec<(VertexId, Name)>,
    /// Attributes of a file with several names; the last ones of one that is gone.
    pub inode: Option<Inode>,
}

impl Whereabouts {
    /// Of something with one name.
    pub fn at(directory: VertexId, name: Name) -> Self {
        Self {
            names: vec![(directory, name)],
            ..Self::default()
        }
    }

    /// Appends the row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(
            u8::from(self.gone)
                | u8::from(self.departed) << 1
                | u8::from(self.inode.is_some()) << 2,
        );
        put_varint(out, self.names.len() as u64);
        for (directory, name) in &self.names {
            out.extend_from_slice(&directory.0);
            put_bytes(out, name.as_bytes());
        }
        if let Some(inode) = &self.inode {
            encode_inode(inode, out);
        }
    }

    /// Reads what [`Self::encode`] wrote for that id.
    pub fn decode(id: VertexId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let flags = r.u8("flags of whereabouts")?;
        if flags > 7 {
            return Err(r.error("flags of whereabouts (below 8)"));
        }
        let count = r.count(18, "a count of names")?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let directory = VertexId(r.array("a directory's id")?);
            names.push((directory, name(&mut r)?));
        }
        let inode = (flags & 4 != 0)
            .then(|| decode_inode(id, &mut r))
            .transpose()?;
        r.finish()?;
        Ok(Self {
            gone: flags & 1 != 0,
            departed: flags & 2 != 0,
            names,
            inode,
        })
    }
}

/// What an inode was, up to a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Where it was.
    pub directory: VertexId,
    /// Under which name.
    pub name: Name,
    /// Its attributes; its version is when it took them.
    pub inode: Inode,
}

impl Past {
    /// Appends the row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.directory.0);
        put_bytes(out, self.name.as_bytes());
        encode_inode(&self.inode, out);
    }

    /// Reads what [`Self::encode`] wrote for that id.
    pub fn decode(id: VertexId, row: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(row);
        let directory = VertexId(r.array("a directory's id")?);
        let name = name(&mut r)?;
        let inode = decode_inode(id, &mut r)?;
        r.finish()?;
        Ok(Self {
            directory,
            name,
            inode,
        })
    }
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

/// ```text
///  [flags][version 8][mode][uid][gid][links][size]([blocks])[mtime][ctime][atime][btime]([rdev])([content])([xattrs])
/// ```
/// `ctime`, `atime` and `btime` are told by how far they lie from `mtime`: mostly nothing.
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

/// Appends an inode with its id, as it travels.
pub fn put_inode(inode: &Inode, out: &mut Vec<u8>) {
    out.extend_from_slice(&inode.id.0);
    encode_inode(inode, out);
}

/// Reads what [`put_inode`] wrote.
pub fn take_inode(r: &mut Reader<'_>) -> Result<Inode, DecodeError> {
    let id = VertexId(r.array("an inode's id")?);
    decode_inode(id, r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Name> {
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
        fn rows_come_back(name in names(), inode in inodes(), gone in any::<bool>(), departed in any::<bool>(), linked in any::<bool>()) {
            let id = inode.id;
            let state = if linked { DentryInode::Elsewhere(Kind::Fifo) } else { DentryInode::Here(inode.clone()) };
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
            let place = Whereabouts { gone, departed, names: vec![(id, name.clone()); 2], inode: linked.then(|| inode.clone()) };
            let mut row = Vec::new();
            place.encode(&mut row);
            prop_assert_eq!(Whereabouts::decode(id, &row).unwrap(), place);
            let past = Past { directory: id, name, inode };
            let mut row = Vec::new();
            past.encode(&mut row);
            prop_assert_eq!(Past::decode(id, &row).unwrap(), past);
        }

        #[test]
        fn nothing_that_is_damaged_panics(row in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Dentry::decode(&row), Dentry::inode_of(&row, &[]));
            let _ = Whereabouts::decode(VertexId::default(), &row);
            let _ = Past::decode(VertexId::default(), &row);
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
            inode: DentryInode::Here(inode),
        }
        .encode(&mut row);
        assert!(row.len() <= 61, "{}", row.len());
    }
}
