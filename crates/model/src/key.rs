//! Keys of all rows. Their byte order is their logical order; no other module takes a key apart by offset.
//!
//! `docs/internals/keys.md` draws all of them. In short, with `id` a vertex's 16 bytes and `!v` a version stored as
//! its complement, so that the newest comes first:
//!
//! ```text
//!  table    key                                         value
//!  rows     [id][01]                                    the current state of the vertex (VertexRecord)
//!           [id][03][edge type 2][destination 16]       the current state of one edge (EdgeRecord)
//!  history  [id][01][!v 8]                              superseded static attributes, or their deletion
//!           [id][02][attribute name][00][!v 8]          a superseded user-defined attribute, or its removal
//!           [id][03][edge type 2][destination 16][!v 8] a superseded edge, or its deletion
//!  index    [01][vertex type 2][id]                     empty: the vertices of a type
//!           [02][id]                                    empty: vertices that were ever deleted
//!           [03][hash 16]                               the object with ID attributes of this hash
//!           [04][hash 16]                               the same of an object on another server
//!  counts   [id][edge type 2]                           exact degree (LEB128)
//!           [00 × 16][kind 1][type 2]                   totals by type (LEB128)
//!           [00 × 16][kind 1][key][measure 1]           space used by files, by directory, owner … (LEB128)
//!  names    [marker 1][id] …                            the namespace: see [`names`]
//!  meta     text                                        format, schema, idempotency keys, pending degree changes
//!           share/[share 8]                             a share of a lineage (SharedLineage)
//!           shared/[share 8][id]                        the owner of an item that the share opens
//! ```
//!
//! All rows of one vertex are one contiguous range of `rows`; its edges of one type are one range; the current version
//! of anything is one exact get, because a seek costs as much as three gets.

#![deny(clippy::indexing_slicing)]

pub mod names;

use crate::codec::{DecodeError, Reader};
use crate::id::{EdgeTypeId, VertexId, VertexTypeId};
use crate::sharing::ShareId;
use crate::version::Version;
use std::cmp::Ordering;

const STATIC: u8 = 1;
const ATTRIBUTE: u8 = 2;
const EDGE: u8 = 3;

/// Size of an edge's key in `rows`, in bytes.
pub const EDGE_KEY_BYTES: usize = 16 + 1 + 2 + 16;

/// Key of an edge, without its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeKey {
    /// Id of the vertex where the edge starts.
    pub source: VertexId,
    /// Type of the edge.
    pub edge_type: EdgeTypeId,
    /// Id of the vertex where the edge ends.
    pub destination: VertexId,
}

impl EdgeKey {
    /// Encodes the key of the edge in `rows`:
    ///
    /// ```text
    ///  0          16   17       19            35
    ///  +----------+----+--------+-------------+
    ///  | source   | 03 | type   | destination |
    ///  | 16 bytes | u8 | u16 BE | 16 bytes    |
    ///  +----------+----+--------+-------------+
    ///  |<- all edges ->|        |
    ///  |<- edges of a type ---->|
    /// ```
    pub fn encode(&self) -> [u8; EDGE_KEY_BYTES] {
        let mut key = [0; EDGE_KEY_BYTES];
        let (source, rest) = key.split_at_mut(16);
        source.copy_from_slice(&self.source.0);
        let (head, destination) = rest.split_at_mut(3);
        let [t0, t1] = self.edge_type.0.to_be_bytes();
        head.copy_from_slice(&[EDGE, t0, t1]);
        destination.copy_from_slice(&self.destination.0);
        key
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        let edge = Self::read(&mut r)?;
        r.finish()?;
        Ok(edge)
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let source = VertexId(r.array("a source vertex id")?);
        if r.u8("an edge marker")? != EDGE {
            return Err(r.error("an edge marker (03)"));
        }
        let edge_type = EdgeTypeId(r.u16("an edge type")?);
        let destination = VertexId(r.array("a destination vertex id")?);
        Ok(Self {
            source,
            edge_type,
            destination,
        })
    }

    /// Returns the destination from the output of [`Self::encode`], without decoding the rest.
    pub fn destination_of(key: &[u8]) -> Result<VertexId, DecodeError> {
        let destination = key.get(EDGE_KEY_BYTES - VertexId::BYTES..);
        destination
            .and_then(|id| id.try_into().ok().map(VertexId))
            .ok_or_else(|| Reader::new(key).error("a destination vertex id"))
    }

    /// Encodes the key in `history` of this edge at a version.
    pub fn history(&self, version: Version) -> Vec<u8> {
        let mut key = self.encode().to_vec();
        key.extend_from_slice(&(!version.0).to_be_bytes());
        key
    }

    /// Decodes an edge and its version from a key of `history`.
    pub fn decode_history(key: &[u8]) -> Result<(Self, Version), DecodeError> {
        let mut r = Reader::new(key);
        let edge = Self::read(&mut r)?;
        let version = Version(!r.u64("an inverted version")?);
        r.finish()?;
        Ok((edge, version))
    }

    /// Returns the key of the inverse edge, which is stored at the destination.
    #[must_use]
    pub fn reversed(&self, inverse: EdgeTypeId) -> Self {
        Self {
            source: self.destination,
            edge_type: inverse,
            destination: self.source,
        }
    }
}

/// Encodes a vertex's key in `rows`: `[id][01]`.
pub fn vertex(id: VertexId) -> [u8; 17] {
    with_marker(id, STATIC)
}

/// Returns the vertex from the output of [`vertex`]; `None` for other keys of `rows`.
pub fn vertex_of(key: &[u8]) -> Option<VertexId> {
    let (marker, id) = key.split_last()?;
    (*marker == STATIC).then_some(())?;
    id.try_into().ok().map(VertexId)
}

/// Returns the vertex to which all rows of a range of `rows` belong, and whether the vertex's own row can be among
/// them; `None` if there may be several vertices.
pub fn single_vertex(from: &[u8], until: Option<&[u8]>) -> Option<(VertexId, bool)> {
    let (id, rest) = from.split_first_chunk()?;
    let marker = rest.first()?;
    let is_single = until?.first_chunk() == Some(id);
    is_single.then_some((VertexId(*id), *marker <= STATIC))
}

/// Returns the position of a key of `rows` among all keys: its first eight bytes as a number.
pub fn position(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|head| u64::from_be_bytes(*head))
}

/// Returns a key of `history` without its version: the same for all versions of one edge, attribute or static record.
pub fn without_version(key: &[u8]) -> &[u8] {
    key.split_last_chunk::<8>().map_or(&[], |(part, _)| part)
}

/// Returns the version in a key of `history`, without decoding the rest.
pub fn version_of(key: &[u8]) -> Option<Version> {
    let inverted = key.last_chunk().copied();
    inverted.map(|version| Version(!u64::from_be_bytes(version)))
}

fn with_marker(id: VertexId, marker: u8) -> [u8; 17] {
    let mut key = [marker; 17];
    if let Some(head) = key.first_chunk_mut() {
        *head = id.0;
    }
    key
}

/// Encodes the prefix of all edges of a vertex, in `rows` and in `history`: `[id][03]`.
pub fn edges_prefix(id: VertexId) -> [u8; 17] {
    with_marker(id, EDGE)
}

/// Encodes the prefix of a vertex's edges of one type, in `rows` and in `history`: `[id][03][type]`.
pub fn edges_of_type_prefix(id: VertexId, edge_type: EdgeTypeId) -> [u8; 19] {
    let mut key = [0; 19];
    let (head, tail) = key.split_at_mut(17);
    head.copy_from_slice(&edges_prefix(id));
    tail.copy_from_slice(&edge_type.0.to_be_bytes());
    key
}

/// Returns the range `[from, until)` of all keys in `history` about a vertex itself, without its edges.
pub fn vertex_history_range(id: VertexId) -> ([u8; 17], [u8; 17]) {
    (with_marker(id, STATIC), with_marker(id, EDGE))
}

/// Encodes a superseded static record's key in `history`: `[id][01][!version]`.
pub fn static_history(id: VertexId, version: Version) -> Vec<u8> {
    let mut key = vertex(id).to_vec();
    key.extend_from_slice(&(!version.0).to_be_bytes());
    key
}

/// Encodes the prefix of all versions of one attribute in `history`: `[id][02][name][00]`.
pub fn attribute_history_prefix(id: VertexId, name: &str) -> Vec<u8> {
    let mut key = with_marker(id, ATTRIBUTE).to_vec();
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key
}

/// Encodes a superseded attribute's key in `history`: `[id][02][name][00][!version]`.
pub fn attribute_history(id: VertexId, name: &str, version: Version) -> Vec<u8> {
    let mut key = attribute_history_prefix(id, name);
    key.extend_from_slice(&(!version.0).to_be_bytes());
    key
}

/// A decoded key of the table `rows`. The order is that of the encoded keys: a vertex, then the edges that leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKey {
    /// Key of a vertex row.
    Vertex(VertexId),
    /// Key of an edge row.
    Edge(EdgeKey),
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |key: &Self| match key {
            Self::Vertex(id) => (*id, None),
            Self::Edge(edge) => (edge.source, Some((edge.edge_type, edge.destination))),
        };
        parts(self).cmp(&parts(other))
    }
}

impl RowKey {
    /// Encodes the key as the bytes that `rows` is ordered by.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Vertex(id) => vertex(*id).to_vec(),
            Self::Edge(edge) => edge.encode().to_vec(),
        }
    }

    /// Decodes any key of `rows`.
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        match key.get(16) {
            Some(&STATIC) => {
                let mut r = Reader::new(key);
                let id = VertexId(r.array("a vertex id")?);
                r.u8("a marker")?;
                r.finish()?;
                Ok(Self::Vertex(id))
            }
            _ => EdgeKey::decode(key).map(Self::Edge),
        }
    }

    /// Returns the row to which a key of `history` belongs, without decoding its version or an attribute's name.
    pub fn of_history(key: &[u8]) -> Option<Self> {
        if key.get(16) == Some(&EDGE) {
            let edge = key.get(..EDGE_KEY_BYTES)?;
            return EdgeKey::decode(edge).ok().map(Self::Edge);
        }
        key.first_chunk().map(|id| Self::Vertex(VertexId(*id)))
    }
}

/// A decoded key of the table `history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryKey {
    /// Key of superseded static attributes of a vertex.
    Static(VertexId, Version),
    /// Key of a superseded user-defined attribute, with the attribute's name.
    Attribute(VertexId, String, Version),
    /// Key of a superseded edge.
    Edge(EdgeKey, Version),
}

impl HistoryKey {
    /// Decodes any key of `history`.
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        let id = VertexId(r.array("a vertex id")?);
        match r.u8("a marker")? {
            STATIC => {
                let version = Version(!r.u64("an inverted version")?);
                r.finish()?;
                Ok(Self::Static(id, version))
            }
            ATTRIBUTE => {
                let name_len = r.remaining().checked_sub(9);
                let name = r.take(
                    name_len.ok_or_else(|| r.error("an attribute's name, 00 and a version"))?,
                    "an attribute's name",
                )?;
                let name = std::str::from_utf8(name)
                    .map_err(|_| r.error("an attribute's name in UTF-8"))?
                    .to_owned();
                if r.u8("00 after the name")? != 0 {
                    return Err(r.error("00 after the name"));
                }
                let version = Version(!r.u64("an inverted version")?);
                Ok(Self::Attribute(id, name, version))
            }
            EDGE => EdgeKey::decode_history(key).map(|(e, v)| Self::Edge(e, v)),
            _ => Err(r.error("a marker (01, 02 or 03)")),
        }
    }
}

/// Encodes the key in `index` that lists a vertex under its type: `[01][type][id]`.
pub fn type_index(type_id: VertexTypeId, id: VertexId) -> [u8; 19] {
    let mut key = [0; 19];
    let (head, tail) = key.split_at_mut(3);
    head.copy_from_slice(&type_index_prefix(type_id));
    tail.copy_from_slice(&id.0);
    key
}

/// Encodes the prefix of a type's vertices in `index`: `[01][type]`.
pub fn type_index_prefix(type_id: VertexTypeId) -> [u8; 3] {
    let [a, b] = type_id.0.to_be_bytes();
    [1, a, b]
}

/// Decodes the vertex from a key made by [`type_index`].
pub fn decode_type_index(key: &[u8]) -> Result<VertexId, DecodeError> {
    match IndexKey::decode(key)? {
        IndexKey::Type(_, id) => Ok(id),
        _ => Err(Reader::new(key).error("an index marker (01)")),
    }
}

/// Encodes the key in `index` that marks a vertex as having been deleted at some time: `[02][id]`.
pub fn deleted_index(id: VertexId) -> [u8; 17] {
    let mut key = [2; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = id.0;
    }
    key
}

/// Prefix of all keys made by [`deleted_index`].
pub const DELETED_INDEX_PREFIX: [u8; 1] = [2];

/// Encodes the key in `index` of the object with ID attributes of a hash: `[03][hash]`.
pub fn identity_index(hash: &[u8; 16]) -> [u8; 17] {
    with_hash(3, hash)
}

/// Encodes the key in `index` that maps ID attributes, by their hash, to an object on another server: `[04][hash]`.
pub fn alias_index(hash: &[u8; 16]) -> [u8; 17] {
    with_hash(4, hash)
}

fn with_hash(marker: u8, hash: &[u8; 16]) -> [u8; 17] {
    let mut key = [marker; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = *hash;
    }
    key
}

/// A decoded key of the table `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKey {
    /// Key that lists a vertex under its type.
    Type(VertexTypeId, VertexId),
    /// Key that marks a vertex as having been deleted at some time.
    Deleted(VertexId),
    /// Key of the object with ID attributes of this hash.
    Identity([u8; 16]),
    /// Key of an object on another server, by the hash of its ID attributes.
    Alias([u8; 16]),
}

impl IndexKey {
    /// Decodes any key of `index`.
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        let key = match r.u8("an index marker")? {
            1 => {
                let type_id = VertexTypeId(r.u16("a vertex type")?);
                Self::Type(type_id, VertexId(r.array("a vertex id")?))
            }
            2 => Self::Deleted(VertexId(r.array("a vertex id")?)),
            3 => Self::Identity(r.array("a hash")?),
            4 => Self::Alias(r.array("a hash")?),
            _ => return Err(r.error("an index marker (01 to 04)")),
        };
        r.finish()?;
        Ok(key)
    }
}

/// Prefix, in `meta`, of all keys made by [`share`].
pub const SHARES_PREFIX: &[u8] = b"share/";

/// Encodes the key of a share in `meta`: `share/[share]`.
pub fn share(id: ShareId) -> Vec<u8> {
    [SHARES_PREFIX, &id.0.to_be_bytes()].concat()
}

/// Decodes the output of [`share`].
pub fn decode_share(key: &[u8]) -> Result<ShareId, DecodeError> {
    let mut r = Reader::new(key.strip_prefix(SHARES_PREFIX).unwrap_or_default());
    let id = ShareId(r.u64("the number of a share")?);
    r.finish()?;
    Ok(id)
}

/// Encodes the prefix of all items of a share in `meta`: `shared/[share]`.
pub fn shared_items_prefix(id: ShareId) -> Vec<u8> {
    [b"shared/".as_slice(), &id.0.to_be_bytes()].concat()
}

/// Encodes the key in `meta` of an item that a share opens: `shared/[share][id]`. One exact get answers whether it does.
pub fn shared_item(share: ShareId, item: VertexId) -> Vec<u8> {
    let mut key = shared_items_prefix(share);
    key.extend_from_slice(&item.0);
    key
}

/// Identity of a counter in the table `counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Number of edges of a type that leave a vertex.
    Degree(VertexId, EdgeTypeId),
    /// Number of vertices of a type.
    Vertices(VertexTypeId),
    /// Number of edges of a type.
    Edges(EdgeTypeId),
    /// Space used by a group of files.
    Space(SpaceKey, Measure),
}

/// Group of files whose space is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceKey {
    /// Files in a directory itself, not in the directories below it.
    Directory(VertexId),
    /// Files of an owner (user id).
    User(u32),
    /// Files of a group (group id).
    Group(u32),
    /// Files of a kind: the type bits of a mode.
    Kind(u32),
    /// Files whose names have this ending behind the last dot.
    Ending([u8; 8]),
    /// Files last changed on a day, in days since 1970.
    Day(i32),
}

/// Quantity that is summed up over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Measure {
    /// Number of files of all kinds except directories.
    Files = 0,
    /// Number of directories.
    Directories = 1,
    /// Bytes of content.
    Bytes = 2,
    /// Allocated blocks of 512 bytes.
    Blocks = 3,
    /// Time of the latest addition or removal, in nanoseconds since 1970: a maximum, not a sum.
    Changed = 4,
}

impl Measure {
    const ALL: [Self; 5] = [
        Self::Files,
        Self::Directories,
        Self::Bytes,
        Self::Blocks,
        Self::Changed,
    ];
}

/// Days may be negative (before 1970): with the sign bit flipped, byte order is numeric order.
const SIGN: u32 = 1 << 31;

impl SpaceKey {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Directory(id) => {
                out.push(3);
                out.extend_from_slice(&id.0);
            }
            Self::User(n) => put_marked(out, 4, *n),
            Self::Group(n) => put_marked(out, 5, *n),
            Self::Kind(n) => put_marked(out, 6, *n),
            Self::Ending(text) => {
                out.push(7);
                out.extend_from_slice(text);
            }
            Self::Day(day) => put_marked(out, 8, day.cast_unsigned() ^ SIGN),
        }
    }

    fn take(kind: u8, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            3 => Self::Directory(VertexId(r.array("a directory's id")?)),
            4 => Self::User(r.u32("an owner")?),
            5 => Self::Group(r.u32("a group")?),
            6 => Self::Kind(r.u32("a kind of file")?),
            7 => Self::Ending(r.array("an ending")?),
            8 => Self::Day((r.u32("a day")? ^ SIGN).cast_signed()),
            _ => return Err(r.error("a kind of total (1 to 8)")),
        })
    }
}

fn put_marked(out: &mut Vec<u8>, marker: u8, n: u32) {
    out.push(marker);
    out.extend_from_slice(&n.to_be_bytes());
}

impl Counter {
    /// Merges two changes of this counter into one.
    #[must_use]
    pub fn combine(&self, a: i64, b: i64) -> i64 {
        match self {
            Self::Space(_, Measure::Changed) => a.max(b),
            _ => a + b,
        }
    }

    /// Returns the prefix, in `counts`, of all sums of the same kind as `key`.
    pub fn space_prefix(key: &SpaceKey) -> Vec<u8> {
        let mut out = vec![0; 16];
        key.put(&mut out);
        out.truncate(17);
        out
    }

    /// Encodes the key: `[id][edge type]`, or `[00 × 16][1 or 2][type]` for totals by type, `[00 × 16][3 to
    /// 8][key][measure]` for space.
    pub fn encode(&self) -> Vec<u8> {
        let total = |kind: u8, type_id: u16| {
            let mut key = vec![0; 16];
            key.push(kind);
            key.extend_from_slice(&type_id.to_be_bytes());
            key
        };
        match self {
            Self::Degree(id, t) => {
                let mut key = id.0.to_vec();
                key.extend_from_slice(&t.0.to_be_bytes());
                key
            }
            Self::Vertices(t) => total(1, t.0),
            Self::Edges(t) => total(2, t.0),
            Self::Space(space, measure) => {
                let mut key = vec![0; 16];
                space.put(&mut key);
                key.push(*measure as u8);
                key
            }
        }
    }

    /// Appends the part of [`Self::encode`] that follows the sixteen zero bytes; nothing for degrees, whose keys do not
    /// begin with zeros.
    pub fn put_total(&self, out: &mut Vec<u8>) {
        match self {
            Self::Degree(..) => {}
            Self::Space(space, measure) => {
                space.put(out);
                out.push(*measure as u8);
            }
            Self::Vertices(VertexTypeId(t)) | Self::Edges(EdgeTypeId(t)) => {
                out.push(if matches!(self, Self::Vertices(_)) {
                    1
                } else {
                    2
                });
                out.extend_from_slice(&t.to_be_bytes());
            }
        }
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        let id = VertexId(r.array("a vertex id")?);
        let counter = if r.remaining() == 2 {
            Self::Degree(id, EdgeTypeId(r.u16("an edge type")?))
        } else {
            if id != VertexId::default() {
                return Err(r.error("16 zero bytes before a total"));
            }
            match r.u8("a kind of total")? {
                1 => Self::Vertices(VertexTypeId(r.u16("a type")?)),
                2 => Self::Edges(EdgeTypeId(r.u16("a type")?)),
                kind => {
                    let space = SpaceKey::take(kind, &mut r)?;
                    let measure = r.u8("a measure")?;
                    let known = Measure::ALL.into_iter().find(|m| *m as u8 == measure);
                    Self::Space(space, known.ok_or_else(|| r.error("a measure (0 to 4)"))?)
                }
            }
        };
        r.finish()?;
        Ok(counter)
    }

    /// Returns the prefix of all degrees of a vertex in `counts`.
    pub fn degrees_prefix(id: VertexId) -> [u8; 16] {
        id.0
    }
}
