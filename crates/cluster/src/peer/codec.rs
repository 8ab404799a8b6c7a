//! Binary encoding of transaction parts, in a coordinator's store and on the wire.

use super::{Adopt, Change, Part, PartOp, RawRow, RawTable, TableFile};
use crate::vnode::ServerId;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u16, put_u32, put_u64, put_varint};
use esker_model::key::{Counter, EDGE_KEY_BYTES, EdgeKey};
use esker_model::object::{Identity, ObjectId};
use esker_model::{EdgeTypeId, Op, Properties, Version, VertexId, VertexRef, VertexTypeId};

impl Part {
    /// Encodes the part as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 * self.ops.len() + 8);
        self.put(&mut out);
        out
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let part = Self::take(&mut r)?;
        r.finish()?;
        Ok(part)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ops.len() as u64);
        for op in &self.ops {
            put_u32(out, op.index);
            // No change takes the last version, so it encodes `None`.
            put_u64(out, op.at.unwrap_or(Version::MAX).0);
            put_change(out, &op.change);
        }
    }

    pub(crate) fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(13, "a number of changes")?;
        let op = |r: &mut Reader<'_>| {
            Ok(PartOp {
                index: r.u32("a place")?,
                at: Some(Version(r.u64("a version")?)).filter(|v| *v != Version::MAX),
                change: take_change(r)?,
            })
        };
        let ops = (0..count).map(|_| op(r)).collect::<Result<_, _>>()?;
        Ok(Self { ops })
    }
}

fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Vertex(op) => put_op(out, op),
        Change::Edge {
            key,
            deleted,
            properties,
            requested,
        } => {
            out.push(16);
            out.extend_from_slice(&key.encode());
            out.push(u8::from(*deleted) | u8::from(*requested) << 1);
            properties.encode(out);
        }
        Change::Adopt(adopt) => {
            match &adopt.table {
                None => out.push(17),
                Some(table) => {
                    out.push(21);
                    put_table(out, table);
                }
            }
            out.extend_from_slice(&adopt.vertex.0);
            put_bytes(out, &adopt.splits);
            put_varint(out, adopt.rows.len() as u64);
            for row in &adopt.rows {
                out.push(match row.table {
                    RawTable::Rows => 0,
                    RawTable::History => 1,
                    RawTable::Names => 2,
                });
                put_bytes(out, &row.key);
                put_bytes(out, &row.value);
            }
            put_varint(out, adopt.degrees.len() as u64);
            for (edge_type, degree) in &adopt.degrees {
                put_u16(out, edge_type.0);
                put_u64(out, *degree);
            }
        }
        Change::Names(part) => {
            out.push(20);
            part.put(out);
        }
        Change::Claim { identity, object } => {
            out.push(18);
            put_identity(out, identity);
            put_u64(out, object.0);
        }
        Change::Release { identity, object } => {
            out.push(19);
            put_identity(out, identity);
            put_u64(out, object.0);
        }
    }
}

fn put_table(out: &mut Vec<u8>, table: &TableFile) {
    put_u32(out, table.giver.0);
    for n in [table.incarnation, table.number, table.rows, table.bytes] {
        put_u64(out, n);
    }
    out.extend_from_slice(&table.checksum);
    put_u64(out, table.hashes.0);
    put_u64(out, table.hashes.1);
}

fn take_table(r: &mut Reader<'_>) -> Result<TableFile, DecodeError> {
    Ok(TableFile {
        giver: ServerId(r.u32("a server")?),
        incarnation: r.u64("an incarnation")?,
        number: r.u64("a number")?,
        rows: r.u64("a number of rows")?,
        bytes: r.u64("a length")?,
        checksum: r.array("a checksum")?,
        hashes: (r.u64("a hash")?, r.u64("a hash")?),
    })
}

pub(super) fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    put_bytes(out, identity.name.as_bytes());
    put_bytes(out, identity.app.as_bytes());
    put_u64(out, identity.owner.cast_unsigned());
    put_u64(out, identity.step.cast_unsigned());
}

pub(super) fn take_identity(r: &mut Reader<'_>) -> Result<Identity, DecodeError> {
    Ok(Identity {
        name: r.str("an object's name")?.to_owned(),
        app: r.str("an object's application")?.to_owned(),
        owner: r.u64("an object's owner")?.cast_signed(),
        step: r.u64("an object's step")?.cast_signed(),
    })
}

pub(super) fn take_object(r: &mut Reader<'_>) -> Result<ObjectId, DecodeError> {
    let id = r.u64("an object's number")?;
    if id >> 63 != 0 {
        return Err(r.error("an object's number, below 2^63"));
    }
    Ok(ObjectId(id))
}

fn take_change(r: &mut Reader<'_>) -> Result<Change, DecodeError> {
    let kind = r.u8("a kind of change")?;
    match kind {
        16 => {
            let key = EdgeKey::decode(r.take(EDGE_KEY_BYTES, "an edge's key")?)?;
            let flags = r.u8("flags of an edge")?;
            let properties = Properties::decode(r)?;
            Ok(Change::Edge {
                key,
                deleted: flags & 1 != 0,
                properties,
                requested: flags & 2 != 0,
            })
        }
        17 | 21 => {
            let table = (kind == 21).then(|| take_table(r)).transpose()?;
            let vertex = VertexId(r.array("a vertex id")?);
            let splits = r.bytes("a split state")?.to_vec();
            let count = r.count(3, "a number of rows")?;
            let row = |r: &mut Reader<'_>| {
                let table = match r.u8("a table, 0 to 2")? {
                    0 => RawTable::Rows,
                    1 => RawTable::History,
                    2 => RawTable::Names,
                    _ => return Err(r.error("a table, 0 to 2")),
                };
                Ok(RawRow {
                    table,
                    key: r.bytes("a key")?.to_vec(),
                    value: r.bytes("a value")?.to_vec(),
                })
            };
            let rows = (0..count).map(|_| row(r)).collect::<Result<_, _>>()?;
            let count = r.count(10, "a number of degrees")?;
            let degrees = (0..count).map(|_| {
                Ok((
                    EdgeTypeId(r.u16("an edge type")?),
                    r.u64("a number of edges")?,
                ))
            });
            Ok(Change::Adopt(Adopt {
                vertex,
                splits,
                rows,
                table,
                degrees: degrees.collect::<Result<_, DecodeError>>()?,
            }))
        }
        18 => Ok(Change::Claim {
            identity: take_identity(r)?,
            object: take_object(r)?,
        }),
        19 => Ok(Change::Release {
            identity: take_identity(r)?,
            object: take_object(r)?,
        }),
        20 => super::NamesPart::take(r).map(Change::Names),
        _ => take_op(r, kind).map(Change::Vertex),
    }
}

pub(super) fn put_counter(out: &mut Vec<u8>, counter: &Counter) {
    put_bytes(out, &counter.encode());
}

pub(super) fn take_counter(r: &mut Reader<'_>) -> Result<Counter, DecodeError> {
    Counter::decode(r.bytes("a counter's key")?)
}

fn put_vertex(out: &mut Vec<u8>, kind: u8, vertex: VertexRef) {
    out.push(kind);
    put_u16(out, vertex.type_id.0);
    out.extend_from_slice(&vertex.id.0);
}

fn put_names(out: &mut Vec<u8>, names: &[String]) {
    put_varint(out, names.len() as u64);
    for name in names {
        put_bytes(out, name.as_bytes());
    }
}

fn take_names(r: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let count = r.count(1, "a number of names")?;
    (0..count)
        .map(|_| r.str("a name").map(str::to_owned))
        .collect()
}

fn put_op(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::PutVertex {
            vertex,
            key,
            attributes,
        } => {
            put_vertex(out, 0, *vertex);
            put_bytes(out, key.as_bytes());
            attributes.encode(out);
        }
        Op::EnsureVertex { vertex, key } => {
            put_vertex(out, 1, *vertex);
            put_bytes(out, key.as_bytes());
        }
        Op::ChangeVertex {
            vertex,
            set,
            remove,
        } => {
            put_vertex(out, 2, *vertex);
            set.encode(out);
            put_names(out, remove);
        }
        Op::SetAttributes {
            vertex,
            set,
            remove,
        } => {
            put_vertex(out, 3, *vertex);
            set.encode(out);
            put_names(out, remove);
        }
        Op::DeleteVertex { vertex } => put_vertex(out, 4, *vertex),
        // Edges are changed one direction at a time, so these never occur in a part.
        Op::PutEdge { .. } | Op::DeleteEdge { .. } => out.push(u8::MAX),
        Op::CreateObject {
            identity,
            attributes,
            tags,
        } => {
            out.push(5);
            put_identity(out, identity);
            attributes.encode(out);
            tags.encode(out);
        }
        Op::MoveObject { object, from, to } => {
            out.push(6);
            put_u64(out, object.0);
            put_identity(out, from);
            put_identity(out, to);
        }
    }
}

fn take_op(r: &mut Reader<'_>, kind: u8) -> Result<Op, DecodeError> {
    match kind {
        0..=4 => {}
        5 => {
            return Ok(Op::CreateObject {
                identity: take_identity(r)?,
                attributes: Properties::decode(r)?,
                tags: Properties::decode(r)?,
            });
        }
        6 => {
            return Ok(Op::MoveObject {
                object: take_object(r)?,
                from: take_identity(r)?,
                to: take_identity(r)?,
            });
        }
        _ => return Err(r.error("a kind of change (0 to 6, 16 to 21)")),
    }
    let type_id = VertexTypeId(r.u16("a vertex type")?);
    let id = VertexId(r.array("a vertex id")?);
    let vertex = VertexRef { id, type_id };
    Ok(match kind {
        0 => Op::PutVertex {
            vertex,
            key: r.str("a key")?.to_owned(),
            attributes: Properties::decode(r)?,
        },
        1 => Op::EnsureVertex {
            vertex,
            key: r.str("a key")?.to_owned(),
        },
        2 => Op::ChangeVertex {
            vertex,
            set: Properties::decode(r)?,
            remove: take_names(r)?,
        },
        3 => Op::SetAttributes {
            vertex,
            set: Properties::decode(r)?,
            remove: take_names(r)?,
        },
        _ => Op::DeleteVertex { vertex },
    })
}
