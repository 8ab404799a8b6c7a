//! Rows that a node keeps in its engine's `meta` table.
//!
//! ```text
//!  cluster/incarnation                 u64: how often the node was started
//!  cluster/decided/<server><incarnation><number>  a transaction, of that coordinator, that was decided here and that some
//!                                      server has not acknowledged: version, changes with versions of their own, the
//!                                      coordinator's idempotency key, the parts of other servers
//!  cluster/done/<server><incarnation><number>  a part of another server's transaction that was done here and must not be
//!                                      done again; goes once that server knows that all have done it
//!  cluster/split/<vertex id>           how a vertex with edges here has split (placement::SplitState)
//! ```

use crate::peer::{Part, TxId};
use crate::vnode::ServerId;
use esker_model::codec::{DecodeError, Reader, put_varint};
use esker_model::wire::Wire;
use esker_model::{Version, VertexId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const INCARNATION: &[u8] = b"cluster/incarnation";
pub(crate) const DECIDED: &[u8] = b"cluster/decided/";
pub(crate) const DONE: &[u8] = b"cluster/done/";
pub(crate) const SPLIT: &[u8] = b"cluster/split/";

/// First byte of a decision: the format of its parts.
const FORMAT: u8 = 3;
const EXPECTED: &str = "a decision of format 3 (another release of Esker wrote this one: start the server with that release, and stop it \
                        while all servers run, so that the decision is delivered)";

pub(crate) fn decided_key(tx: TxId) -> Vec<u8> {
    transaction_key(DECIDED, tx)
}

pub(crate) fn done_key(tx: TxId) -> Vec<u8> {
    transaction_key(DONE, tx)
}

fn transaction_key(prefix: &[u8], tx: TxId) -> Vec<u8> {
    [
        prefix,
        &tx.server.0.to_be_bytes(),
        &tx.incarnation.to_be_bytes(),
        &tx.number.to_be_bytes(),
    ]
    .concat()
}

/// Parses the transaction id in the key of a row, after its prefix.
pub(crate) fn parse_transaction_key(prefix: &[u8], key: &[u8]) -> Result<TxId, DecodeError> {
    let mut r = Reader::new(key.get(prefix.len()..).unwrap_or_default());
    let tx = TxId {
        server: ServerId(r.u32("a server")?),
        incarnation: r.u64("an incarnation")?,
        number: r.u64("a number")?,
    };
    r.finish()?;
    Ok(tx)
}

pub(crate) fn split_key(id: VertexId) -> Vec<u8> {
    [SPLIT, &id.0].concat()
}

/// The part of a decided transaction that is kept until all participants have acknowledged it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) version: Version,
    pub(crate) later: Vec<(u32, Version)>,
    /// Idempotency key that the coordinator stores with its part, if another server decided.
    pub(crate) idempotency_key: Option<Vec<u8>>,
    pub(crate) parts: BTreeMap<ServerId, Arc<Part>>,
}

impl Decision {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        self.version.put(&mut out);
        self.later.put(&mut out);
        self.idempotency_key.put(&mut out);
        put_varint(&mut out, self.parts.len() as u64);
        for (server, part) in &self.parts {
            server.put(&mut out);
            part.put(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        if r.u8(EXPECTED)? != FORMAT {
            return Err(r.error(EXPECTED));
        }
        let (version, later) = Wire::take(&mut r)?;
        let idempotency_key = Wire::take(&mut r)?;
        let count = r.count(2, "a number of parts")?;
        let parts = (0..count).map(|_| Wire::take(&mut r));
        let parts = parts.collect::<Result<_, _>>()?;
        r.finish()?;
        Ok(Self {
            version,
            later,
            idempotency_key,
            parts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Adopt, Change, PartOp, RawRow, RawTable, TableFile};
    use esker_model::key::EdgeKey;
    use esker_model::object::{Identity, ObjectId};
    use esker_model::{EdgeTypeId, Op, Properties, VertexRef, VertexTypeId};

    fn identity(step: i64) -> Identity {
        Identity {
            name: "energy".into(),
            app: "vpic".into(),
            owner: 1001,
            step,
        }
    }

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
            Change::Vertex(Op::CreateObject {
                identity: identity(7),
                attributes: set.clone(),
                tags: Properties::new().with("run", "r1"),
            }),
            Change::Vertex(Op::MoveObject {
                object: ObjectId(8),
                from: identity(7),
                to: identity(-8),
            }),
            Change::Claim {
                identity: identity(-8),
                object: ObjectId(8),
            },
            Change::Release {
                identity: identity(7),
                object: ObjectId((1 << 63) - 1),
            },
            Change::Edge {
                key,
                deleted: true,
                properties: Properties::new(),
                requested: true,
            },
            Change::Edge {
                key,
                deleted: false,
                properties: set,
                requested: false,
            },
            Change::Adopt(Adopt {
                vertex: vertex.id,
                splits: vec![1, 2, 3],
                rows: vec![RawRow {
                    table: RawTable::History,
                    key: vec![1],
                    value: vec![],
                }],
                table: None,
                degrees: vec![(EdgeTypeId(9), 12)],
            }),
            Change::Adopt(Adopt {
                vertex: vertex.id,
                splits: vec![4],
                rows: vec![],
                table: Some(TableFile {
                    giver: ServerId(5),
                    incarnation: 3,
                    number: 17,
                    rows: 9_000,
                    bytes: 1 << 20,
                    checksum: [7; 8],
                    hashes: (1 << 63, u64::MAX),
                }),
                degrees: vec![],
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
            idempotency_key: Some(b"key".to_vec()),
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

    /// Truncated or changed bytes are refused or decode as another decision; nothing panics.
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
