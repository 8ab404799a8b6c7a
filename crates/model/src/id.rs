//! Ids and names of vertices and types.
//!
//! A vertex is named `type:key` (`user:1001`, `file:/scratch/a.h5`); its id is a hash of both, so that an
//! insert needs no look-up and no coordination.

use crate::file_home;
use crate::limits::VERTEX_KEY_BYTES_MAX;
use crate::object::{OBJECT_TYPE, ObjectId};
use crate::schema::{Schema, SchemaError};
use std::fmt;

/// Id of a vertex: the first 128 bits of BLAKE3 over the type's lower-case name, a zero byte and the key. In the id of
/// a file or directory named by its path, the first 16 bits are its home ([`Self::home_bits`]), so that its vertex and
/// its directory entry end up on the same vnode.
///
/// The high bits choose the vnode. The hash is BLAKE3 because keys are paths that users choose, and nobody can
/// construct two paths with the same id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VertexId(pub [u8; 16]);

impl VertexId {
    /// Size of an id in keys, in bytes.
    pub const BYTES: usize = 16;

    /// Computes the id of the vertex with this type and key. The id of an object comes from its number
    /// ([`crate::object`]).
    pub fn of(type_name: &str, key: &str) -> Self {
        if type_name.eq_ignore_ascii_case(OBJECT_TYPE)
            && let Some(object) = ObjectId::of_key(key)
        {
            return object.vertex();
        }
        Self::of_bytes(type_name, &[key.as_bytes()])
    }

    /// Computes the id for a key that need not be UTF-8, given in pieces.
    pub fn of_bytes(type_name: &str, key: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut lower = [0_u8; 64];
        match lower.get_mut(..type_name.len()) {
            Some(buffer) => {
                buffer.copy_from_slice(type_name.as_bytes());
                buffer.make_ascii_lowercase();
                hasher.update(buffer);
            }
            None => {
                hasher.update(type_name.to_ascii_lowercase().as_bytes());
            }
        }
        hasher.update(&[0]);
        for piece in key {
            hasher.update(piece);
        }
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        let id = Self(id);
        match key {
            [path] if path.first() == Some(&b'/') && file_home::names_files(type_name) => {
                id.with_home(file_home::of_path(path))
            }
            _ => id,
        }
    }

    /// Returns the home of the vertex ([`crate::file_home`]): among `2^k` vnodes the one whose number is the lowest `k`
    /// bits, for each `k` up to 16. They are the id's first bits, the first one lowest, so that each vnode is a range
    /// of ids.
    pub fn home_bits(self) -> u16 {
        let [first, second, ..] = self.0;
        u16::from_be_bytes([first, second]).reverse_bits()
    }

    /// Returns this id with another home.
    #[must_use]
    pub fn with_home(self, home: u16) -> Self {
        let [first, second] = home.reverse_bits().to_be_bytes();
        let mut id = self.0;
        id[0] = first;
        id[1] = second;
        Self(id)
    }
}

impl fmt::Debug for VertexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the id as 32 hexadecimal digits.
impl fmt::Display for VertexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Number of a vertex type in the schema of one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexTypeId(pub u16);

/// Number of an edge type in the schema of one database. An edge type and its inverse have different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeTypeId(pub u16);

/// Reference to a vertex: its id, and the type from which the id was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexRef {
    /// Id of the vertex; its rows are stored under it.
    pub id: VertexId,
    /// Type of the vertex; the ends of edges are checked against it.
    pub type_id: VertexTypeId,
}

/// A vertex name `type:key` as a user writes it, split but not yet looked up in a schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VertexName {
    /// Name of the type, as written.
    pub type_name: String,
    /// The external key: a path, a user id, a job id.
    pub key: String,
}

impl VertexName {
    /// Splits `type:key` at the first colon.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let error = |reason| NameError {
            text: text.to_owned(),
            reason,
        };
        let Some((type_name, key)) = text.split_once(':') else {
            return Err(error("there is no colon"));
        };
        if type_name.is_empty() {
            return Err(error("the type before the colon is empty"));
        }
        check_key(key).map_err(error)?;
        Ok(Self {
            type_name: type_name.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Looks the type up in the schema and computes the vertex's id.
    pub fn resolve(&self, schema: &Schema) -> Result<VertexRef, SchemaError> {
        let type_id = schema.vertex_type_id(&self.type_name)?;
        Ok(VertexRef {
            id: VertexId::of(&self.type_name, &self.key),
            type_id,
        })
    }
}

/// Checks that a string can be an external key. The error is the reason why not.
pub fn check_key(key: &str) -> Result<(), &'static str> {
    if key.is_empty() {
        return Err("the key after the colon is empty");
    }
    if key.len() > VERTEX_KEY_BYTES_MAX {
        return Err("the key is longer than 4,096 bytes");
    }
    if key.contains('\0') {
        return Err("the key holds a NUL byte");
    }
    Ok(())
}

/// Formats as `type:key`, the type in lower case.
impl fmt::Display for VertexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.type_name.to_ascii_lowercase(), self.key)
    }
}

/// The error for a text that is not a vertex name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no vertex: {reason}; expected TYPE:KEY, as in file:/scratch/a.h5 or user:1001"
)]
pub struct NameError {
    /// The text that was given.
    pub text: String,
    /// Description of the problem.
    pub reason: &'static str,
}
