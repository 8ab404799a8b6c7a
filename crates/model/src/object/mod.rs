//! Objects: SoMeta's flat namespace (section II). An object is a vertex of type `Object`, named by a number that is never
//! given twice, and found by its four ID attributes or by what its tags say.
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
//! So the object's vertex lies where its ID attributes hash to (SoMeta's equation 1): whoever knows them knows the virtual
//! node, and whoever knows the number does, too. An object whose ID attributes change stays where it is, and so do its
//! tags, edges and history; a row where the new ones hash to says which object they name now.

mod api;
mod columns;
mod find;

pub use api::{ObjectRead, ObjectWrite};
pub use columns::{FoundColumns, Texts, Values};
pub use find::{
    Asker, Find, FindReport, Found, PlanStep, Share, TagChange, TagInfo, TagReport, TagWhere,
};

use crate::id::{VertexId, VertexRef, VertexTypeId};
use crate::schema::Schema;
use std::fmt;

/// The name of the vertex type of objects.
pub const OBJECT_TYPE: &str = "Object";

/// The four ID attributes, by their names as predefined attributes of the type `Object`.
pub const ID_ATTRIBUTES: [&str; 4] = ["name", "app", "owner", "step"];

/// Who may read an object that was created without saying so: everybody; its owner may change it.
pub const MODE_DEFAULT: i64 = 0o644;

/// Bits of an object id behind its prefix.
pub const SEQUENCE_BITS: u32 = 48;

/// The second half of each object's vertex id.
const MARK: [u8; 8] = *b"\xE5\xCEob\x1Eect";

/// The number of an object, below 2^63. Unique for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// From its parts.
    pub const fn new(prefix: Prefix, sequence: u64) -> Self {
        Self((prefix.0 as u64) << SEQUENCE_BITS | (sequence & ((1 << SEQUENCE_BITS) - 1)))
    }

    /// Where it was created.
    pub const fn prefix(self) -> Prefix {
        Prefix((self.0 >> SEQUENCE_BITS) as u16)
    }

    /// What tells it from others of its prefix.
    pub const fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }

    /// The id of its vertex.
    pub fn vertex(self) -> VertexId {
        let mut id = [0; 16];
        let (head, tail) = id.split_at_mut(8);
        head.copy_from_slice(&(self.0 << 1).to_be_bytes());
        tail.copy_from_slice(&MARK);
        VertexId(id)
    }

    /// The object whose vertex that is.
    pub fn of_vertex(id: VertexId) -> Option<Self> {
        let (head, tail) = id.0.split_first_chunk::<8>()?;
        let head = u64::from_be_bytes(*head);
        (*tail == MARK && head & 1 == 0).then_some(Self(head >> 1))
    }

    /// Reads it as the external key of a vertex: decimal digits without anything else, as [`fmt::Display`] writes them.
    pub fn of_key(key: &str) -> Option<Self> {
        let plain =
            key.bytes().all(|b| b.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
        let id = plain.then(|| key.parse::<u64>().ok()).flatten()?;
        (id >> 63 == 0).then_some(Self(id))
    }
}

/// Decimal digits.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first 15 bits of an identity's hash: which virtual node it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub u16);

impl Prefix {
    /// How many there are.
    pub const COUNT: usize = 1 << 15;

    /// A vertex id of that prefix, for whoever wants to know the home of an object that is yet to be created.
    pub fn place(self) -> VertexId {
        ObjectId::new(self, 0).vertex()
    }
}

/// The four ID attributes (SoMeta, section II-D): together they name one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The object's name; at least one byte.
    pub name: String,
    /// The application that made it; may be empty.
    pub app: String,
    /// The user id of its owner.
    pub owner: i64,
    /// The time step; 0 where there is none.
    pub step: i64,
}

impl Identity {
    /// 128 bits of BLAKE3 over all four: what they are known by where they need to be short.
    pub fn hash(&self) -> [u8; 16] {
        let mut bytes = Vec::with_capacity(40 + self.name.len() + self.app.len());
        bytes.extend_from_slice(b"esker object\0");
        bytes.extend_from_slice(&self.owner.to_be_bytes());
        bytes.extend_from_slice(&self.step.to_be_bytes());
        bytes.extend_from_slice(&(self.name.len() as u64).to_be_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(self.app.as_bytes());
        // At once: in pieces it takes twice as long.
        let whole = blake3::hash(&bytes);
        let mut hash = [0; 16];
        hash.copy_from_slice(&whole.as_bytes()[..16]);
        hash
    }

    /// Where an object that is created with this identity belongs.
    pub fn prefix(&self) -> Prefix {
        prefix_of(&self.hash())
    }
}

/// The prefix that an identity's hash begins with.
pub fn prefix_of(hash: &[u8; 16]) -> Prefix {
    Prefix(u16::from_be_bytes([hash[0], hash[1]]) >> 1)
}

/// As people read it.
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

/// What an object is asked for by (SoMeta's E-search).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    /// Its number.
    Id(ObjectId),
    /// All its ID attributes.
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

/// The vertex type of objects in a schema; `None` in that of a database which has a type of its own of that name.
pub fn object_type(schema: &Schema) -> Option<VertexTypeId> {
    let id = schema.vertex_type_id(OBJECT_TYPE).ok()?;
    schema.vertex_type(id).filter(|t| t.builtin).map(|_| id)
}

/// An object as a vertex of that schema.
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
