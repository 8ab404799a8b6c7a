//! Objects: SoMeta's flat namespace (section II). An object is a vertex of type `Object`. Its name is a number that is
//! never reused; it is found by its four ID attributes or by its tags.
//!
//! ```text
//!  object id     63        47                            0
//!                +---------+-----------------------------+
//!                | prefix  | sequence                    |      prefix: the first 16 bits of the identity's hash (of the
//!                | 15 bits | 48 bits                     |      ID attributes that it was created with), without the last
//!                +---------+-----------------------------+      sequence: when it was created, and more bits of that hash
//!  vertex id     [object id shifted left by one, 8 bytes][mark of objects, 8 bytes]
//! ```
//!
//! The hash of the ID attributes selects the object's virtual node (SoMeta's equation 1), so a client that knows the
//! ID attributes or the number knows the virtual node. An object whose ID attributes change stays where it is, with its
//! tags, edges and history; a row at the virtual node of the new ID attributes says which object they name now.

mod api;
mod columns;
mod find;

pub use api::{ObjectRead, ObjectWrite};
pub use columns::{FoundColumns, Texts, Values};
pub use find::{
    Find, FindReport, Found, PlanStep, Principal, Share, TagChange, TagInfo, TagReport, TagWhere,
};

use crate::id::{VertexId, VertexRef, VertexTypeId};
use crate::schema::Schema;
use std::fmt;

/// Name of the vertex type of objects.
pub const OBJECT_TYPE: &str = "Object";

/// Names of the four ID attributes, which are predefined attributes of the type `Object`.
pub const ID_ATTRIBUTES: [&str; 4] = ["name", "app", "owner", "step"];

/// Mode of an object created without one: readable by everybody, writable by its owner.
pub const MODE_DEFAULT: i64 = 0o644;

/// Number of bits of an object id behind its prefix.
pub const SEQUENCE_BITS: u32 = 48;

/// Second half of the vertex id of each object.
const MARK: [u8; 8] = *b"\xE5\xCEob\x1Eect";

/// Number of an object, below 2^63. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// Builds a number from its parts.
    pub const fn new(prefix: Prefix, sequence: u64) -> Self {
        Self((prefix.0 as u64) << SEQUENCE_BITS | (sequence & ((1 << SEQUENCE_BITS) - 1)))
    }

    /// Returns the prefix, which selects the virtual node where the object was created.
    pub const fn prefix(self) -> Prefix {
        Prefix((self.0 >> SEQUENCE_BITS) as u16)
    }

    /// Returns the sequence part, which distinguishes the objects of one prefix.
    pub const fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }

    /// Returns the id of the object's vertex.
    pub fn vertex(self) -> VertexId {
        let mut id = [0; 16];
        let (head, tail) = id.split_at_mut(8);
        head.copy_from_slice(&(self.0 << 1).to_be_bytes());
        tail.copy_from_slice(&MARK);
        VertexId(id)
    }

    /// Returns the object to which a vertex id belongs; `None` for other vertices.
    pub fn of_vertex(id: VertexId) -> Option<Self> {
        let (head, tail) = id.0.split_first_chunk::<8>()?;
        let head = u64::from_be_bytes(*head);
        (*tail == MARK && head & 1 == 0).then_some(Self(head >> 1))
    }

    /// Parses the external key of an object's vertex: decimal digits and nothing else, as [`fmt::Display`] writes them.
    pub fn of_key(key: &str) -> Option<Self> {
        let plain =
            key.bytes().all(|b| b.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
        let id = plain.then(|| key.parse::<u64>().ok()).flatten()?;
        (id >> 63 == 0).then_some(Self(id))
    }
}

/// Formats as decimal digits.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first 15 bits of an identity's hash, which select the virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub u16);

impl Prefix {
    /// Number of different prefixes.
    pub const COUNT: usize = 1 << 15;

    /// Returns a vertex id with this prefix, from which the home of an object can be computed before the object is
    /// created.
    pub fn home_vertex(self) -> VertexId {
        ObjectId::new(self, 0).vertex()
    }
}

/// The four ID attributes (SoMeta, section II-D), which together identify one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Name of the object; at least one byte.
    pub name: String,
    /// Application that made the object; may be empty.
    pub app: String,
    /// User id of the owner.
    pub owner: i64,
    /// Time step; 0 for an object without time steps.
    pub step: i64,
}

impl Identity {
    /// Returns 128 bits of BLAKE3 over all four attributes, a short stand-in for them.
    pub fn hash(&self) -> [u8; 16] {
        let mut bytes = Vec::with_capacity(40 + self.name.len() + self.app.len());
        bytes.extend_from_slice(b"esker object\0");
        bytes.extend_from_slice(&self.owner.to_be_bytes());
        bytes.extend_from_slice(&self.step.to_be_bytes());
        bytes.extend_from_slice(&(self.name.len() as u64).to_be_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(self.app.as_bytes());
        // One call for the whole buffer: in pieces hashing takes twice as long.
        let whole = blake3::hash(&bytes);
        let mut hash = [0; 16];
        hash.copy_from_slice(&whole.as_bytes()[..16]);
        hash
    }

    /// Returns the prefix of an object that is created with this identity.
    pub fn prefix(&self) -> Prefix {
        prefix_of(&self.hash())
    }
}

/// Returns the prefix from an identity's hash.
pub fn prefix_of(hash: &[u8; 16]) -> Prefix {
    Prefix(u16::from_be_bytes([hash[0], hash[1]]) >> 1)
}

/// Formats the four attributes for messages.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            app,
            owner,
            step,
        } = self;
        write!(f, "name `{name}`, app `{app}`, owner {owner}, step {step}")
    }
}

/// Key by which an object is looked up (SoMeta's E-search).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    /// Number of the object.
    Id(ObjectId),
    /// All ID attributes of the object.
    Identity(Identity),
}

impl From<ObjectId> for ObjectKey {
    fn from(id: ObjectId) -> Self {
        Self::Id(id)
    }
}

impl From<Identity> for ObjectKey {
    fn from(identity: Identity) -> Self {
        Self::Identity(identity)
    }
}

/// Returns the vertex type of objects in a schema; `None` if the database has a type of its own of that name.
pub fn object_type(schema: &Schema) -> Option<VertexTypeId> {
    let id = schema.vertex_type_id(OBJECT_TYPE).ok()?;
    schema.vertex_type(id).filter(|t| t.builtin).map(|_| id)
}

/// Returns the vertex reference of an object under that schema.
pub fn object_ref(schema: &Schema, id: ObjectId) -> Option<VertexRef> {
    let type_id = object_type(schema)?;
    Some(VertexRef {
        id: id.vertex(),
        type_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_lies_where_its_identity_hashes_to() {
        let identity = Identity {
            name: "energy".into(),
            app: "vpic".into(),
            owner: 1001,
            step: 7,
        };
        let hash = identity.hash();
        let id = ObjectId::new(identity.prefix(), 123_456_789);
        assert!(id.0 < 1 << 63);
        assert_eq!(id.prefix(), identity.prefix());
        assert_eq!(id.sequence(), 123_456_789);
        let vertex = id.vertex();
        // 15 bits of the hash are the first 15 bits of the vertex id.
        assert_eq!(
            u16::from_be_bytes([vertex.0[0], vertex.0[1]]) >> 1,
            u16::from_be_bytes([hash[0], hash[1]]) >> 1
        );
        assert_eq!(ObjectId::of_vertex(vertex), Some(id));
        assert_eq!(VertexId::of("Object", &id.to_string()), vertex);
        assert_eq!(ObjectId::of_vertex(VertexId::of("file", "7")), None);
    }

    #[test]
    fn keys_of_objects_have_one_form() {
        assert_eq!(ObjectId::of_key("17"), Some(ObjectId(17)));
        assert_eq!(ObjectId::of_key("0"), Some(ObjectId(0)));
        for bad in ["", "017", "+17", "1 7", "9223372036854775808", "x"] {
            assert_eq!(ObjectId::of_key(bad), None, "{bad}");
        }
    }
}
