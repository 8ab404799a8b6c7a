//! Rows that a node keeps in its engine's `meta` table.
//!
//! ```text
//!  cluster/incarnation                 u64: how often the node was started
//!  cluster/decided/<incarnation><number>  a transaction that is decided and that some server has not acknowledged:
//!                                      version, changes with versions of their own, the parts by server
//!  cluster/split/<vertex id>           how a vertex with edges here has split (placement::SplitState)
//! ```

use crate::peer::{Adopt, Change, Part, PartOp, RawRow, RawTable};
use crate::vnode::ServerId;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u16, put_u32, put_u64, put_varint};
use esker_model::key::EdgeKey;
use esker_model::{EdgeTypeId, Op, Properties, Version, VertexId, VertexRef, VertexTypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const INCARNATION: &[u8] = b"cluster/incarnation";
pub(crate) const DECIDED: &[u8] = b"cluster/decided/";
pub(crate) const SPLIT: &[u8] = b"cluster/split/";

pub(crate) fn decided_key(incarnation: u64, number: u64) -> Vec<u8> {
    [DECIDED, &incarnation.to_be_bytes(), &number.to_be_bytes()].concat()
}

pub(crate) fn split_key(id: VertexId) -> Vec<u8> {
    [SPLIT, &id.0].concat()
}

/// What stays of a decided transaction until all have acknowledged it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) version: Version,
    pub(crate) later: Vec<(u32, Version)>,
    pub(crate) parts: BTreeMap<ServerId, Arc<Part>>,
}

impl Decision {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        put_u64(&mut out, self.version.0);
        put_later(&mut out, &self.later);
        put_varint(&mut out, self.parts.len() as u64);
        for (server, part) in &self.parts {
            put_u32(&mut out, server.0);
            put_part(&mut out, part);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        if r.u8("the format of a decision, 1")? != 1 {
            return Err(r.error("the format of a decision, 1"));
        }
        let version = Version(r.u64("a version")?);
        let later = take_later(&mut r)?;
        let mut parts = BTreeMap::new();
        for _ in 0..r.count(5, "a number of parts")? {
            let server = ServerId(r.u32("a server")?);
            parts.insert(server, Arc::new(take_part(&mut r)?));
        }
        r.finish()?;
        Ok(Self {
            version,
            later,
            parts,
        })
    }
}

fn put_later(out: &mut Vec<u8>, later: &[(u32, Version)]) {
    put_varint(out, later.len() as u64);
    for (index, version) in later {
        put_u32(out, *index);
        put_u64(out, version.0);
    }
}

fn take_later(r: &mut Reader<'_>) -> Result<Vec<(u32, Version)>, DecodeError> {
    let count = r.count(12, "a number of versions")?;
    (0..count)
        .map(|_| Ok((r.u32("a place")?, Version(r.u64("a version")?))))
        .collect()
}

fn put_part(out: &mut Vec<u8>, part: &Part) {
    put_varint(out, part.ops.len() as u64);
    for op in &part.ops {
        put_u32(out, op.index);
        // No change takes the last version, so it stands for none.
        put_u64(out, op.at.unwrap_or(Version::MAX).0);
        put_change(out, &op.change);
    }
}

fn take_part(r: &mut Reader<'_>) -> Result<Part, DecodeError> {
    let count = r.count(13, "a number of changes")?;
    let op = |r: &mut Reader<'_>| {
        Ok(PartOp {
            index: r.u32("a place")?,
            at: Some(Version(r.u64("a version")?)).filter(|v| *v != Version::MAX),
            change: take_change(r)?,
        })
    };
    let ops = (0..count).map(|_| op(r)).collect::<Result<_, _>>()?;
    Ok(Part { ops })
}

fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Vertex(op) => put_op(out, op),
        Change::Edge {
            key,
            gone,
            properties,
            asked,
        } => {
            out.push(16);
            out.extend_from_slice(&key.encode());
            out.push(u8::from(*gone) | u8::from(*asked) << 1);
            properties.encode(out);
        }
        Change::Adopt(adopt) => {
            out.push(17);
            out.extend_from_slice(&adopt.vertex.0);
            put_bytes(out, &adopt.splits);
            put_varint(out, adopt.rows.len() as u64);
            for row in &adopt.rows {
                out.push(match row.table {
                    RawTable::Rows => 0,
                    RawTable::History => 1,
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
    }
}

fn take_change(r: &mut Reader<'_>) -> Result<Change, DecodeError> {
    let kind = r.u8("a kind of change")?;
    match kind {
        16 => {
            let key = EdgeKey::decode(r.take(esker_model::key::EDGE_KEY_BYTES, "an edge's key")?)?;
            let flags = r.u8("flags of an edge")?;
            let properties = Properties::decode(r)?;
            Ok(Change::Edge {
                key,
                gone: flags & 1 != 0,
                properties,
                asked: flags & 2 != 0,
            })
        }
        17 => {
            let vertex = VertexId(r.array("a vertex id")?);
            let splits = r.bytes("a split state")?.to_vec();
            let count = r.count(3, "a number of rows")?;
            let row = |r: &mut Reader<'_>| {
                let table = match r.u8("a table, 0 or 1")? {
                    0 => RawTable::Rows,
                    1 => RawTable::History,
                    _ => return Err(r.error("a table, 0 or 1")),
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
                degrees: degrees.collect::<Result<_, DecodeError>>()?,
            }))
        }
        _ => take_op(r, kind).map(Change::Vertex),
    }
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
        // Edges are changed one direction at a time: these are never part of a part.
        Op::PutEdge { .. } | Op::DeleteEdge { .. } => out.push(u8::MAX),
    }
}

fn take_op(r: &mut Reader<'_>, kind: u8) -> Result<Op, DecodeError> {
    if kind > 4 {
        return Err(r.error("a kind of change (0 to 4, 16 or 17)"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decision() -> Decision {
        let vertex = VertexRef {
            id: VertexId([7; 16]),
            type_id: VertexTypeId(3),
        };
        let set = Properties::new().with("n", 5_i64);
        let key = EdgeKey {
            source: VertexId([1; 16]),
            edge_type: EdgeTypeId(9),
            destination: VertexId([2; 16]),
        };
        let changes = vec![
            Change::Vertex(Op::PutVertex {
                vertex,
                key: "k".into(),
                attributes: set.clone(),
            }),
            Change::Vertex(Op::EnsureVertex {
                vertex,
                key: "k".into(),
            }),
            Change::Vertex(Op::ChangeVertex {
                vertex,
                set: set.clone(),
                remove: vec!["a".into(), "b".into()],
            }),
            Change::Vertex(Op::SetAttributes {
                vertex,
                set: set.clone(),
                remove: vec![],
            }),
            Change::Vertex(Op::DeleteVertex { vertex }),
            Change::Edge {
                key,
                gone: true,
                properties: Properties::new(),
                asked: true,
            },
            Change::Edge {
                key,
                gone: false,
                properties: set,
                asked: false,
            },
            Change::Adopt(Adopt {
                vertex: vertex.id,
                splits: vec![1, 2, 3],
                rows: vec![RawRow {
                    table: RawTable::History,
                    key: vec![1],
                    value: vec![],
                }],
                degrees: vec![(EdgeTypeId(9), 12)],
            }),
        ];
        let op = |(index, change)| PartOp {
            index,
            at: (index == 2).then_some(Version(77)),
            change,
        };
        let ops = (0..).zip(changes).map(op).collect();
        Decision {
            version: Version(99),
            later: vec![(4, Version(100))],
            parts: [
                (ServerId(2), Arc::new(Part { ops })),
                (ServerId(5), Arc::default()),
            ]
            .into(),
        }
    }

    #[test]
    fn a_decision_comes_back() {
        let bytes = decision().encode();
        assert_eq!(Decision::decode(&bytes), Ok(decision()));
    }

    /// Whatever is cut off or changed is refused or is another decision; nothing panics.
    #[test]
    fn damaged_decisions_are_refused() {
        let bytes = decision().encode();
        for end in 0..bytes.len() {
            assert!(Decision::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let _ = Decision::decode(&bytes);
            }
        }
    }
}
