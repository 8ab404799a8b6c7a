//! Transactions over several servers, as the servers tell each other.

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::namespace::record::{Lies, lies};
use esker_model::object::{Identity, ObjectId};
use esker_model::{EdgeTypeId, Op, Properties, Version, VertexId};
use esker_store::segment::CHECKSUM_BYTES;
use std::sync::Arc;

/// A transaction: who coordinates it, and which of its it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId {
    /// The coordinator.
    pub server: ServerId,
    /// How often it had been started.
    pub incarnation: u64,
    /// Counted since then.
    pub number: u64,
}

/// What one server is to do in a transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// In the order of the batch.
    pub ops: Vec<PartOp>,
}

/// One change of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct PartOp {
    /// Its place in the batch.
    pub index: u32,
    /// When it happened, if its source knows.
    pub at: Option<Version>,
    /// What.
    pub change: Change,
}

/// What can change on one server.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Anything about a vertex that is at home there; never an edge.
    Vertex(Op),
    /// One direction of an edge.
    Edge {
        /// In this direction.
        key: EdgeKey,
        /// Whether it is deleted.
        gone: bool,
        /// Exactly these.
        properties: Properties,
        /// Whether this is the direction that was asked for: the one that is counted and must exist to be deleted.
        asked: bool,
    },
    /// A partition of a vertex that splits comes here.
    Adopt(Adopt),
    /// Rows of the namespace.
    Names(super::NamesPart),
    /// ID attributes that hash to here are to name that object, which may be at home elsewhere; refused if they name another.
    Claim {
        /// The ID attributes.
        identity: Identity,
        /// The object that moves to them.
        object: ObjectId,
    },
    /// ID attributes that hash to here no longer name that object.
    Release {
        /// The ID attributes.
        identity: Identity,
        /// The object that has moved away from them.
        object: ObjectId,
    },
}

/// A partition that changes its server.
#[derive(Debug, Clone, PartialEq)]
pub struct Adopt {
    /// Whose edges.
    pub vertex: VertexId,
    /// How it has split then, as [`crate::placement::SplitState`] encodes it.
    pub splits: Vec<u8>,
    /// Rows that come with it; none if they lie in a file and the message does not bring them.
    pub rows: Vec<RawRow>,
    /// The file of entries that its rows make, on storage that all servers share.
    pub table: Option<TableFile>,
    /// How many edges of each type come.
    pub degrees: Vec<(EdgeTypeId, u64)>,
}

/// A file with the entries of a partition that changes its server: a sorted table that is passed on by its name.
///
/// It is read once, when the receiver prepares its part; what was given stays with the giver until the receiver has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// Who wrote it.
    pub giver: ServerId,
    /// How often that server had been started.
    pub incarnation: u64,
    /// Counted since then.
    pub number: u64,
    /// How many rows it has.
    pub rows: u64,
    /// How long it is.
    pub bytes: u64,
    /// Of all of it: [`esker_store::segment::checksum`].
    pub checksum: [u8; CHECKSUM_BYTES],
    /// The first and the last hash of the partition's names.
    pub hashes: (u64, u64),
}

impl TableFile {
    /// What it is called.
    pub fn name(&self) -> String {
        Self::name_of(self.giver, self.incarnation, self.number)
    }

    /// What a file is called that a server writes.
    pub fn name_of(giver: ServerId, incarnation: u64, number: u64) -> String {
        format!("split-{}-{incarnation:x}-{number:x}.table", giver.0)
    }

    /// Who wrote a file of that name, and how often that server had been started; `None` if it is another one's.
    pub fn parse_name(name: &str) -> Option<(ServerId, u64)> {
        let mut parts = name
            .strip_prefix("split-")?
            .strip_suffix(".table")?
            .split('-');
        let giver = ServerId(parts.next()?.parse().ok()?);
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (incarnation, number) = (number()?, number()?);
        let same = Self::name_of(giver, incarnation, number) == name;
        same.then_some((giver, incarnation))
    }
}

/// A row as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRow {
    /// Where.
    pub table: RawTable,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// Tables whose rows move with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawTable {
    /// What is now.
    Rows,
    /// What was superseded.
    History,
    /// Entries of directories.
    Names,
}

/// That a part can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The transaction's version is to be this one or later.
    pub floor: Version,
    /// By place in the batch: changes that must take at least this version, because what is stored is later than clocks
    /// are. Few.
    pub later: Vec<(u32, Version)>,
}

/// A transaction that is decided: it will be done everywhere, whatever happens.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Which.
    pub tx: TxId,
    /// Its version.
    pub version: Version,
    /// By place in the batch: changes that take another, later version.
    pub later: Vec<(u32, Version)>,
    /// What the receiver is to do, where it may have forgotten.
    pub part: Option<Arc<Part>>,
}

impl Change {
    /// The vertex whose rows it changes.
    pub fn vertex(&self) -> VertexId {
        match self {
            Self::Vertex(op) => vertex_of(op),
            Self::Edge { key, .. } => key.source,
            Self::Adopt(adopt) => adopt.vertex,
            Self::Names(_) => VertexId::default(),
            Self::Claim { identity, .. } | Self::Release { identity, .. } => {
                identity.prefix().place()
            }
        }
    }

    /// What reads wait for while it is prepared: the vertices that it changes, and what stands for ID attributes
    /// ([`stands_for`]) whose meaning it changes.
    pub fn touches(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Names(part) => {
                for row in &part.rows {
                    if let Ok(Lies::Entry(directory, _)) = lies(&row.key) {
                        add(entries_of(directory));
                    }
                }
            }
            Self::Vertex(Op::CreateObject { identity, .. })
            | Self::Claim { identity, .. }
            | Self::Release { identity, .. } => add(stands_for(identity)),
            Self::Vertex(Op::MoveObject { object, from, .. }) => {
                add(object.vertex());
                add(stands_for(from));
            }
            Self::Vertex(Op::DeleteVertex { vertex }) => {
                add(vertex.id);
                // Nobody knows yet which ID attributes the object had.
                if let Some(object) = ObjectId::of_vertex(vertex.id) {
                    add(object.prefix().place());
                }
            }
            change => add(change.vertex()),
        }
    }

    /// What must not be pending (as [`Self::touches`] says) for it to be tried.
    pub fn depends_on(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Vertex(Op::CreateObject { identity, .. }) | Self::Claim { identity, .. } => {
                add(stands_for(identity));
                add(identity.prefix().place());
            }
            change => change.touches(add),
        }
    }

    /// What only one transaction at a time may have prepared: ID attributes that it gives or takes, an object that it moves
    /// or deletes. What is refused of these is refused when it is prepared; nothing may come between that and the decision.
    pub fn alone(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Names(part) => part.rows.iter().for_each(|row| add(row_lock(&row.key))),
            Self::Vertex(Op::CreateObject { .. } | Op::MoveObject { .. })
            | Self::Claim { .. }
            | Self::Release { .. } => self.touches(add),
            Self::Vertex(Op::DeleteVertex { vertex }) if is_object(vertex.id) => add(vertex.id),
            Self::Vertex(_) | Self::Edge { .. } | Self::Adopt(_) => {}
        }
    }

    /// Whether it must not be done a second time by who has forgotten that it did it: others may have built on it.
    pub fn is_once(&self) -> bool {
        matches!(
            self,
            Self::Vertex(Op::CreateObject { .. } | Op::MoveObject { .. })
                | Self::Claim { .. }
                | Self::Release { .. }
                | Self::Names(_)
        )
    }

    /// Whether it is a partition that comes as a table: its giver keeps the rows until the receiver has them on its disk.
    pub fn is_table(&self) -> bool {
        matches!(self, Self::Adopt(adopt) if adopt.table.is_some())
    }

    /// Whether it concerns the namespace.
    pub fn is_names(&self) -> bool {
        match self {
            Self::Names(_) => true,
            Self::Adopt(adopt) => {
                let named = |row: &RawRow| row.table == RawTable::Names;
                adopt.table.is_some() || adopt.rows.iter().any(named)
            }
            _ => false,
        }
    }

    /// Whether nothing else of the namespace may be under way.
    pub fn is_structure(&self) -> bool {
        matches!(self, Self::Names(part) if part.structure)
    }
}

/// What the entries of a directory are known by where vertices' edges are: they split as those do, from the same home, and
/// have nothing to do with the directory's edges.
pub fn entries_of(directory: VertexId) -> VertexId {
    let mut id = directory;
    for (byte, mark) in id.0.iter_mut().skip(8).zip(b"dentries") {
        *byte ^= mark;
    }
    id
}

/// What a row of the namespace is known by among what only one transaction may have.
pub fn row_lock(key: &[u8]) -> VertexId {
    VertexId::of_bytes("row of the namespace", &[key])
}

/// Whether that is the vertex of an object.
pub(crate) fn is_object(id: VertexId) -> bool {
    ObjectId::of_vertex(id).is_some()
}

/// What ID attributes are known by where vertices are: no vertex has that id but by a chance of 2^-128.
pub fn stands_for(identity: &Identity) -> VertexId {
    VertexId(identity.hash())
}

/// The vertex that an operation is about; of an edge, its source.
pub fn vertex_of(op: &Op) -> VertexId {
    match op {
        Op::PutVertex { vertex, .. }
        | Op::EnsureVertex { vertex, .. }
        | Op::ChangeVertex { vertex, .. }
        | Op::SetAttributes { vertex, .. }
        | Op::DeleteVertex { vertex } => vertex.id,
        Op::PutEdge { source, .. } | Op::DeleteEdge { source, .. } => source.id,
        Op::CreateObject { identity, .. } => identity.prefix().place(),
        Op::MoveObject { object, .. } => object.vertex(),
    }
}
