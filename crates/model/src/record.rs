//! Row values: what lies under the keys of [`crate::key`].
//!
//! ```text
//!  EdgeRecord       [flags 1][version 8][properties]
//!  VertexRecord     [flags 1][first 8][latest 8][static version 8][type 2][len][key]
//!                   [static attributes][count]([len][name][version 8][value])*
//!  StaticRecord     [flags 1][static attributes]            (history; the version is in the key)
//!  AttributeRecord  [flags 1][value]                        (history; the version is in the key)
//!  flags            0, or 1: gone (deleted, removed) from that version on, or 2: only mentioned (vertices)
//! ```
//!
//! A vertex's current user-defined attributes lie inside its one row, each with its own version, so that
//! reading a vertex with all its attributes is one get; superseded ones lie in `history`, one row each.

#![deny(clippy::indexing_slicing)]

use crate::codec::{DecodeError, Reader, put_bytes, put_u16, put_u64, put_varint};
use crate::id::VertexTypeId;
use crate::value::{Properties, Value, ValueView};
use crate::version::Version;

const GONE: u8 = 1;
const MENTIONED: u8 = 2;

fn flags(gone: bool) -> u8 {
    if gone { GONE } else { 0 }
}

fn vertex_flags(gone: bool, mentioned: bool) -> u8 {
    if gone {
        GONE
    } else if mentioned {
        MENTIONED
    } else {
        0
    }
}

/// Whether it is gone, and whether it was only mentioned.
fn read_vertex_flags(r: &mut Reader<'_>) -> Result<(bool, bool), DecodeError> {
    match r.u8("flags")? {
        0 => Ok((false, false)),
        GONE => Ok((true, false)),
        MENTIONED => Ok((false, true)),
        _ => Err(r.error("flags that this version knows (0, 1 or 2)")),
    }
}

fn read_flags(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8("flags")? {
        0 => Ok(false),
        GONE => Ok(true),
        _ => Err(r.error("flags that this version knows (0 or 1)")),
    }
}

/// One version of an edge.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeRecord {
    /// Deleted from this version on.
    pub gone: bool,
    /// When it took these properties.
    pub version: Version,
    /// Its properties; none once gone.
    pub properties: Properties,
}

impl EdgeRecord {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(flags(self.gone));
        put_u64(out, self.version.0);
        self.properties.encode(out);
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let gone = read_flags(&mut r)?;
        let version = Version(r.u64("a version")?);
        let properties = Properties::decode(&mut r)?;
        r.finish()?;
        Ok(Self {
            gone,
            version,
            properties,
        })
    }

    /// Only whether it is gone and since when: all that a traversal without filters needs.
    pub fn decode_head(bytes: &[u8]) -> Result<(bool, Version), DecodeError> {
        let mut r = Reader::new(bytes);
        Ok((read_flags(&mut r)?, Version(r.u64("a version")?)))
    }
}

/// A user-defined attribute inside a vertex's row.
#[derive(Debug, Clone, PartialEq)]
pub struct UserAttribute {
    /// Its name.
    pub name: String,
    /// When it took its value.
    pub version: Version,
    /// Its value.
    pub value: Value,
}

/// A vertex as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexRecord {
    /// Deleted since `static_version`.
    pub gone: bool,
    /// Nobody has put it at `static_version`: something that led to it only made sure that it is there. It says nothing
    /// that an earlier insertion would not say, and gives way to one that arrives later.
    pub mentioned: bool,
    /// The earliest version at which it is known to have existed.
    pub first: Version,
    /// The version of the newest event of any of its parts, removals included.
    pub latest: Version,
    /// When it took its static attributes, or was deleted.
    pub static_version: Version,
    /// Its type.
    pub type_id: VertexTypeId,
    /// Its external key.
    pub key: String,
    /// Predefined attributes.
    pub attributes: Properties,
    /// User-defined attributes, sorted by name.
    pub user: Vec<UserAttribute>,
}

impl VertexRecord {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(vertex_flags(self.gone, self.mentioned));
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

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (gone, mentioned) = read_vertex_flags(&mut r)?;
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
            gone,
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

/// A vertex as it is now, read where it lies: nothing is copied.
#[derive(Debug)]
pub struct VertexView<'a> {
    /// See [`VertexRecord::gone`].
    pub gone: bool,
    /// See [`VertexRecord::first`].
    pub first: Version,
    /// See [`VertexRecord::latest`].
    pub latest: Version,
    /// See [`VertexRecord::static_version`].
    pub static_version: Version,
    /// Its type.
    pub type_id: VertexTypeId,
    /// Its external key.
    pub key: &'a str,
    /// Predefined attributes, by name.
    pub attributes: Vec<(&'a str, ValueView<'a>)>,
    /// User-defined attributes, by name.
    pub user: Vec<(&'a str, Version, ValueView<'a>)>,
}

impl<'a> VertexView<'a> {
    /// Reads what [`VertexRecord::encode`] wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (gone, _) = read_vertex_flags(&mut r)?;
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
            gone,
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

/// Superseded static attributes, or the deletion of the vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticRecord {
    /// Deleted from this version on.
    pub gone: bool,
    /// Nobody put it; see [`VertexRecord::mentioned`].
    pub mentioned: bool,
    /// What they were.
    pub attributes: Properties,
}

impl StaticRecord {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(vertex_flags(self.gone, self.mentioned));
        self.attributes.encode(out);
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let (gone, mentioned) = read_vertex_flags(&mut r)?;
        let attributes = Properties::decode(&mut r)?;
        r.finish()?;
        Ok(Self {
            gone,
            mentioned,
            attributes,
        })
    }
}

/// A superseded value of a user-defined attribute, or (`None`) its removal.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeRecord(pub Option<Value>);

impl AttributeRecord {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(flags(self.0.is_none()));
        if let Some(value) = &self.0 {
            value.encode(out);
        }
    }

    /// Reads what [`Self::encode`] wrote.
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
