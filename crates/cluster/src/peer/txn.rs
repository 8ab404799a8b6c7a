//! Data of distributed transactions in messages between servers.

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::namespace::record::{RowHome, row_home};
use esker_model::object::{Identity, ObjectId};
use esker_model::{EdgeTypeId, Op, Properties, Version, VertexId, wire_enum, wire_struct};
use esker_store::segment::CHECKSUM_BYTES;
use std::sync::Arc;

/// Id of a distributed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId {
    /// Server that coordinates the transaction.
    pub server: ServerId,
    /// Incarnation of the coordinator: how often it had been started.
    pub incarnation: u64,
    /// Number of the transaction within the incarnation.
    pub number: u64,
}

/// One server's part of a transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// Changes in the order of the batch.
    pub ops: Vec<PartOp>,
}

/// One change of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct PartOp {
    /// Index of the mutation in the batch.
    pub index: u32,
    /// Time of the change, if its source knows it.
    pub at: Option<Version>,
    /// The change on this server.
    pub change: Change,
}

/// The kinds of changes on one server.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Any change of a vertex whose home is that server; never an edge.
    Vertex(Op),
    /// One direction of an edge.
    Edge {
        /// Key of this direction.
        key: EdgeKey,
        /// Whether the edge is deleted.
        deleted: bool,
        /// Complete new properties.
        properties: Properties,
        /// Whether this is the requested direction, which is counted and must exist to be deleted; otherwise the inverse.
        requested: bool,
    },
    /// Receives a partition of a vertex that splits.
    Adopt(Adopt),
    /// Changes rows of the namespace.
    Names(super::NamesPart),
    /// Makes ID attributes that hash to the server name an object, whose home may be another server; refused if they
    /// name another one.
    Claim {
        /// ID attributes to claim.
        identity: Identity,
        /// Object that moves to them.
        object: ObjectId,
    },
    /// Makes ID attributes that hash to the server stop naming an object.
    Release {
        /// ID attributes to release.
        identity: Identity,
        /// Object that moved away from them.
        object: ObjectId,
    },
}

/// A partition that moves to another server.
#[derive(Debug, Clone, PartialEq)]
pub struct Adopt {
    /// Vertex whose edges move.
    pub vertex: VertexId,
    /// New splits of the vertex, encoded by [`crate::placement::SplitState`].
    pub splits: Vec<u8>,
    /// Rows of the partition; empty if they are in a file and the message does not include them.
    pub rows: Vec<RawRow>,
    /// File with the entries, on storage that all servers share.
    pub table: Option<TableFile>,
    /// Number of moving edges by type.
    pub degrees: Vec<(EdgeTypeId, u64)>,
}

/// A file with the entries of a moving partition: a sorted table that is passed on by its name.
///
/// The receiver reads it once, when it prepares its part; the giver keeps the entries until the receiver has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// Server that wrote the file.
    pub giver: ServerId,
    /// Incarnation of that server.
    pub incarnation: u64,
    /// Number of the file within the incarnation.
    pub number: u64,
    /// Number of rows in the file.
    pub rows: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Checksum of the file: [`esker_store::segment::checksum`].
    pub checksum: [u8; CHECKSUM_BYTES],
    /// First and last hash of the partition's names.
    pub hashes: (u64, u64),
}

impl TableFile {
    /// Returns the name of the file.
    pub fn name(&self) -> String {
        Self::name_of(self.giver, self.incarnation, self.number)
    }

    /// Builds the name of a file that a server writes.
    pub fn name_of(giver: ServerId, incarnation: u64, number: u64) -> String {
        format!("split-{}-{incarnation:x}-{number:x}.table", giver.0)
    }

    /// Parses the name of a file into its writer and the writer's incarnation; `None` for any other name.
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

/// A row as stored in the key-value store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRow {
    /// Table of the row.
    pub table: RawTable,
    /// Key of the row.
    pub key: Vec<u8>,
    /// Value of the row.
    pub value: Vec<u8>,
}

/// Tables whose rows move with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawTable {
    /// Current rows of edges.
    Rows,
    /// Superseded versions of edges.
    History,
    /// Entries of directories.
    Names,
}

/// A participant's vote that its part can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Lowest version at which the participant can commit.
    pub floor: Version,
    /// By index in the batch: changes that must take at least this version, because stored data is later than the clocks. Few.
    pub later: Vec<(u32, Version)>,
}

/// A decided transaction, which will be applied on all its servers whatever fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Id of the transaction.
    pub tx: TxId,
    /// Version of the transaction.
    pub version: Version,
    /// By index in the batch: changes that take another, later version.
    pub later: Vec<(u32, Version)>,
    /// The receiver's part, if the receiver may have forgotten it.
    pub part: Option<Arc<Part>>,
    /// Idempotency key that the receiver stores with its part; for the coordinator if another server decided.
    pub idempotency_key: Option<Vec<u8>>,
}

/// A transaction that its coordinator has prepared, and that the only other server decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegated {
    /// Id of the transaction.
    pub tx: TxId,
    /// All transactions of the coordinator below this number have ended everywhere.
    pub over: u64,
    /// Highest version that the client has seen.
    pub seen: Version,
    /// Incarnation of the receiver that may decide; a later one may have forgotten that it refused.
    pub incarnation: u64,
    /// The coordinator's vote that its part can be done.
    pub prepared: Prepared,
    /// The coordinator's part, which it applies once the transaction is decided.
    pub coordinators: Arc<Part>,
    /// Changes that the receiver prepares and applies.
    pub part: Arc<Part>,
    /// Idempotency key that the coordinator stores with its part.
    pub idempotency_key: Option<Vec<u8>>,
}

impl Change {
    /// Returns the vertex whose rows the change writes.
    pub fn vertex(&self) -> VertexId {
        match self {
            Self::Vertex(op) => op.home_vertex(),
            Self::Edge { key, .. } => key.source,
            Self::Adopt(adopt) => adopt.vertex,
            Self::Names(_) => VertexId::default(),
            Self::Claim { identity, .. } | Self::Release { identity, .. } => {
                identity.prefix().home_vertex()
            }
        }
    }

    /// Calls `add` for everything for which reads must wait while the change is prepared: the vertices that it
    /// writes, and the pseudo-vertices of ID attributes ([`identity_vertex`]) whose meaning it changes.
    pub fn touches(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Names(part) => {
                for row in &part.rows {
                    if let Ok(RowHome::Entry(directory, _)) = row_home(&row.key) {
                        add(entries_vertex(directory));
                    }
                }
            }
            Self::Vertex(Op::CreateObject { identity, .. })
            | Self::Claim { identity, .. }
            | Self::Release { identity, .. } => add(identity_vertex(identity)),
            Self::Vertex(Op::MoveObject { object, from, .. }) => {
                add(object.vertex());
                add(identity_vertex(from));
            }
            Self::Vertex(Op::DeleteVertex { vertex }) => {
                add(vertex.id);
                // The ID attributes of the object are not known yet; its prefix covers all of them.
                if let Some(object) = ObjectId::of_vertex(vertex.id) {
                    add(object.prefix().home_vertex());
                }
            }
            change => add(change.vertex()),
        }
    }

    /// Calls `add` for everything that must not be pending (see [`Self::touches`]) before the change is tried.
    pub fn depends_on(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Vertex(Op::CreateObject { identity, .. }) | Self::Claim { identity, .. } => {
                add(identity_vertex(identity));
                add(identity.prefix().home_vertex());
            }
            change => change.touches(add),
        }
    }

    /// Calls `add` for everything that only one transaction at a time may have prepared: ID attributes that it claims
    /// or releases, an object that it moves or deletes. Such changes are refused when they are prepared; nothing may
    /// change between that and the decision.
    pub fn exclusive(&self, add: &mut dyn FnMut(VertexId)) {
        match self {
            Self::Names(part) => part.rows.iter().for_each(|row| add(row_lock(&row.key))),
            Self::Vertex(Op::CreateObject { .. } | Op::MoveObject { .. })
            | Self::Claim { .. }
            | Self::Release { .. } => self.touches(add),
            Self::Vertex(Op::DeleteVertex { vertex }) if is_object(vertex.id) => add(vertex.id),
            Self::Vertex(_) | Self::Edge { .. } | Self::Adopt(_) => {}
        }
    }

    /// Whether a server that has forgotten the change must not apply it a second time, because later changes may have
    /// built on it.
    pub fn must_not_repeat(&self) -> bool {
        matches!(
            self,
            Self::Vertex(Op::CreateObject { .. } | Op::MoveObject { .. })
                | Self::Claim { .. }
                | Self::Release { .. }
                | Self::Names(_)
        )
    }

    /// Whether the change is a partition that comes as a table: its giver keeps the rows until the receiver has them on disk.
    pub fn is_table(&self) -> bool {
        matches!(self, Self::Adopt(adopt) if adopt.table.is_some())
    }

    /// Whether the change concerns the namespace.
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

    /// Whether the change excludes all other namespace operations.
    pub fn is_structure(&self) -> bool {
        matches!(self, Self::Names(part) if part.structure)
    }
}

/// Returns the pseudo-vertex under which the entries of a directory are partitioned. They split like edges of a
/// vertex, from the same home shard, but independently of the directory's edges.
pub fn entries_vertex(directory: VertexId) -> VertexId {
    let mut id = directory;
    for (byte, mark) in id.0.iter_mut().skip(8).zip(b"dentries") {
        *byte ^= mark;
    }
    id
}

/// Returns the pseudo-vertex by which a namespace row is locked for one transaction.
pub fn row_lock(key: &[u8]) -> VertexId {
    VertexId::of_bytes("row of the namespace", &[key])
}

/// Whether the id is that of an object's vertex.
pub(crate) fn is_object(id: VertexId) -> bool {
    ObjectId::of_vertex(id).is_some()
}

/// Returns the pseudo-vertex of ID attributes; no vertex has that id except with a probability of 2^-128.
pub fn identity_vertex(identity: &Identity) -> VertexId {
    VertexId(identity.hash())
}

wire_struct!(TxId {
    server,
    incarnation,
    number
});
wire_struct!(Part { ops });
wire_struct!(PartOp { index, at, change });
wire_enum!(Change {
    0 Vertex(op),
    1 Edge { key, deleted, properties, requested },
    2 Adopt(adopt),
    3 Names(part),
    4 Claim { identity, object },
    5 Release { identity, object },
});
wire_struct!(Adopt {
    vertex,
    splits,
    rows,
    table,
    degrees
});
wire_struct!(TableFile {
    giver,
    incarnation,
    number,
    rows,
    bytes,
    checksum,
    hashes
});
wire_struct!(RawRow { table, key, value });
wire_enum!(RawTable {
    0 Rows,
    1 History,
    2 Names,
});
wire_struct!(Prepared { floor, later });
wire_struct!(Decided {
    tx,
    version,
    later,
    part,
    idempotency_key
});
wire_struct!(Delegated {
    tx,
    over,
    seen,
    incarnation,
    prepared,
    coordinators,
    part,
    idempotency_key
});
