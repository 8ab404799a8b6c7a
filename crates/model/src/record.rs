//! Rows: the values stored under the keys of [`crate::key`].
//!
//! ```text
//!  EdgeRecord       [flags 1][version 8][properties]
//!  VertexRecord     [flags 1][first 8][latest 8][static version 8][type 2][len][key]
//!                   [static attributes][count]([len][name][version 8][value])*
//!  StaticRecord     [flags 1][static attributes]            (history; the version is in the key)
//!  AttributeRecord  [flags 1][value]                        (history; the version is in the key)
//!  flags            0, or 1: deleted (removed) from that version on, or 2: only mentioned (vertices)
//! ```
//!
//! A vertex's current user-defined attributes are stored in its one row, each with its own version, so that reading a
//! vertex with all its attributes is one get. Superseded ones are in `history`, one row each.

#![deny(clippy::indexing_slicing)]

use crate::codec::{DecodeError, Reader, put_bytes, put_u16, put_u64, put_varint};
use crate::id::VertexTypeId;
use crate::value::{Properties, Value, ValueView};
use crate::version::Version;

const DELETED: u8 = 1;
const MENTIONED: u8 = 2;

fn flags(deleted: bool) -> u8 {
    if deleted { DELETED } else { 0 }
}

fn vertex_flags(deleted: bool, mentioned: bool) -> u8 {
    if deleted {
        DELETED
    } else if mentioned {
        MENTIONED
    } else {
        0
    }
}

/// Reads whether the vertex is deleted, and whether it was only mentioned.
fn read_vertex_flags(r: &mut Reader<'_>) -> Result<(bool, bool), DecodeError> {
    match r.u8("flags")? {
        0 => Ok((false, false)),
        DELETED => Ok((true, false)),
        MENTIONED => Ok((false, true)),
        _ => Err(r.error("flags that this version knows (0, 1 or 2)")),
    }
}

fn read_flags(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8("flags")? {
        0 => Ok(false),
        DELETED => Ok(true),
        _ => Err(r.error("flags that this version knows (0 or 1)")),
    }
}

/// One version of an edge.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeRecord {
    /// Whether the edge is deleted from this version on.
    pub deleted: bool,
    /// The version at which the edge took these properties.
    pub version: Version,
    /// Properties of the edge; empty for a deleted one.
    pub properties: Properties,
}

impl EdgeRecord {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(flags(self.deleted));
        put_u64(out, self.version.0);
        self.properties.encode(out);
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let deleted = read_flags(&mut r)?;
        let version = Version(r.u64("a version")?);
        let properties = Properties::decode(&mut r)?;
        r.finish()?;
        Ok(Self {
            deleted,
            version,
            properties,
        })
    }

    /// Decodes only the tombstone flag and the version: enough for a traversal without filters.
    pub fn decode_head(bytes: &[u8]) -> Result<(bool, Version), DecodeError> {
        let mut r = Reader::new(bytes);
        Ok((read_flags(&mut r)?, Version(r.u64("a version")?)))
    }
}

/// A user-defined attribute inside a vertex's row.
#[derive(Debug, Clone, PartialEq)]
pub struct UserAttribute {
    /// Name of the attribute.
    pub name: String,
    /// The version at which the attribute took this value.
    pub version: Version,
    /// Current value of the attribute.
    pub value: Value,
}

/// The current state of a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexRecord {
    /// Whether the vertex has been deleted since `static_version`.
    pub deleted: bool,
    /// Whether no insertion has set the attributes at `static_version`: the vertex was only mentioned, as the end of an
    /// edge for example. Such a row adds nothing to an earlier insertion, and is replaced by one that arrives later.
    pub mentioned: bool,
    /// The earliest version at which the vertex is known to have existed.
    pub first: Version,
    /// The newest version of any part of the vertex, removals included.
    pub latest: Version,
    /// The version at which the static attributes were set or the vertex was deleted.
    pub static_version: Version,
    /// Type of the vertex.
    pub type_id: VertexTypeId,
    /// External key of the vertex.
    pub key: String,
    /// Predefined attributes of the vertex.
    pub attributes: Properties,
    /// User-defined attributes, sorted by name.
    pub user: Vec<UserAttribute>,
}

impl VertexRecord {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(vertex_flags(self.deleted, self.mentioned));
        put_u64(out, self.first.0);
        put_u64(out, self.latest.0);
        put_u64(out, self.static_version.0);
        put_u16(out, self.type_id.0);
        put_bytes(out, self.key.as_bytes());
        self.attributes.encode(out);
        put_varint(out, self.user.len() as u64);
        for a in &self.user {
            put_bytes(out, a.name.as_bytes());
            put_u64(out, a.version.0);
            a.value.encode(out);
        }
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (deleted, mentioned) = read_vertex_flags(&mut r)?;
        let first = Version(r.u64("a first version")?);
        let latest = Version(r.u64("a latest version")?);
        let static_version = Version(r.u64("a version")?);
        let type_id = VertexTypeId(r.u16("a vertex type")?);
        let key = r.str("an external key")?.to_owned();
        let attributes = Properties::decode(&mut r)?;
        let count = r.count(10, "a count of user-defined attributes")?;
        let mut user = Vec::with_capacity(count);
        for _ in 0..count {
            user.push(UserAttribute {
                name: r.str("an attribute's name")?.to_owned(),
                version: Version(r.u64("a version")?),
                value: Value::decode(&mut r)?,
            });
        }
        r.finish()?;
        Ok(Self {
            deleted,
            mentioned,
            first,
            latest,
            static_version,
            type_id,
            key,
            attributes,
            user,
        })
    }
}

/// The current state of a vertex, borrowed from its encoded row without copying.
#[derive(Debug)]
pub struct VertexView<'a> {
    /// Whether the vertex is deleted; see [`VertexRecord::deleted`].
    pub deleted: bool,
    /// Earliest known version; see [`VertexRecord::first`].
    pub first: Version,
    /// Newest version of any part; see [`VertexRecord::latest`].
    pub latest: Version,
    /// Version of the static attributes; see [`VertexRecord::static_version`].
    pub static_version: Version,
    /// Type of the vertex.
    pub type_id: VertexTypeId,
    /// External key of the vertex.
    pub key: &'a str,
    /// Predefined attributes, sorted by name.
    pub attributes: Vec<(&'a str, ValueView<'a>)>,
    /// User-defined attributes with their versions, sorted by name.
    pub user: Vec<(&'a str, Version, ValueView<'a>)>,
}

impl<'a> VertexView<'a> {
    /// Decodes the output of [`VertexRecord::encode`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (deleted, _) = read_vertex_flags(&mut r)?;
        let first = Version(r.u64("a first version")?);
        let latest = Version(r.u64("a latest version")?);
        let static_version = Version(r.u64("a version")?);
        let type_id = VertexTypeId(r.u16("a vertex type")?);
        let key = r.str("an external key")?;
        let count = r.count(2, "a property count")?;
        let mut attributes = Vec::with_capacity(count);
        for _ in 0..count {
            attributes.push((r.str("a property's name")?, ValueView::decode(&mut r)?));
        }
        let count = r.count(10, "a count of user-defined attributes")?;
        let mut user = Vec::with_capacity(count);
        for _ in 0..count {
            let name = r.str("an attribute's name")?;
            let version = Version(r.u64("a version")?);
            user.push((name, version, ValueView::decode(&mut r)?));
        }
        r.finish()?;
        Ok(Self {
            deleted,
            first,
            latest,
            static_version,
            type_id,
            key,
            attributes,
            user,
        })
    }
}

/// Superseded static attributes of a vertex, or its deletion.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticRecord {
    /// Whether the vertex is deleted from this version on.
    pub deleted: bool,
    /// Whether no insertion set them; see [`VertexRecord::mentioned`].
    pub mentioned: bool,
    /// The superseded attribute values.
    pub attributes: Properties,
}

impl StaticRecord {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(vertex_flags(self.deleted, self.mentioned));
        self.attributes.encode(out);
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (deleted, mentioned) = read_vertex_flags(&mut r)?;
        let attributes = Properties::decode(&mut r)?;
        r.finish()?;
        Ok(Self {
            deleted,
            mentioned,
            attributes,
        })
    }
}

/// A superseded value of a user-defined attribute, or its removal (`None`).
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeRecord(pub Option<Value>);

impl AttributeRecord {
    /// Appends the encoded row.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(flags(self.0.is_none()));
        if let Some(value) = &self.0 {
            value.encode(out);
        }
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let value = if read_flags(&mut r)? {
            None
        } else {
            Some(Value::decode(&mut r)?)
        };
        r.finish()?;
        Ok(Self(value))
    }
}
