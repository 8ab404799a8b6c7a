//! Transactions.

use esker_cluster::ServerId;
use esker_cluster::peer::{
    Adopt, Change, Decided, Part, PartOp, Prepared, RawRow, RawTable, Request, TxId,
};
use esker_model::{EdgeTypeId, Mutation, Schema, Version};
use esker_rpc::convert::{self, At as _, Decoded, Form, Malformed, halves, required, vertex_id};
use esker_rpc::proto;
use esker_rpc::proto::part_op::Change as Message;
use esker_rpc::proto::raw_row::Table;
use std::sync::Arc;

pub(super) fn id_out(tx: TxId) -> proto::TxId {
    proto::TxId {
        server: tx.server.0,
        incarnation: tx.incarnation,
        number: tx.number,
    }
}

pub(super) fn id_in(tx: proto::TxId) -> TxId {
    TxId {
        server: ServerId(tx.server),
        incarnation: tx.incarnation,
        number: tx.number,
    }
}

pub(super) fn prepare_in(m: proto::Prepare) -> Decoded<Request> {
    Ok(Request::Prepare {
        tx: id_in(required(m.tx, "tx")?),
        over: m.over,
        part: part_in(required(m.part, "part")?).at("part")?,
    })
}

/// Whoever sent it may hold it still, to send it again.
pub(super) fn part_out(part: Arc<Part>) -> proto::Part {
    let part = Arc::unwrap_or_clone(part);
    proto::Part {
        ops: part.ops.into_iter().map(op_out).collect(),
    }
}

pub(super) fn part_in(part: proto::Part) -> Decoded<Arc<Part>> {
    let ops = convert::list(part.ops, "ops", op_in)?;
    Ok(Arc::new(Part { ops }))
}

fn op_out(op: PartOp) -> proto::PartOp {
    let change = match op.change {
        Change::Vertex(op) => {
            Message::Vertex(convert::mutation_out(&Mutation { version: None, op }))
        }
        Change::Edge {
            key,
            gone,
            properties,
            asked,
        } => Message::Edge(proto::PartEdge {
            key: Some(convert::edge_key_out(key)),
            gone,
            properties: convert::properties_out(&properties, Form::Packed),
            asked,
        }),
        Change::Adopt(adopt) => Message::Adopt(adopt_out(adopt)),
    };
    proto::PartOp {
        index: op.index,
        at: op.at.map(|v| v.0),
        change: Some(change),
    }
}

fn op_in(op: proto::PartOp) -> Decoded<PartOp> {
    let change = match required(op.change, "change")? {
        // Servers number types: there is no name to look up.
        Message::Vertex(m) => {
            Change::Vertex(convert::mutation_in(m, &Schema::empty()).at("vertex")?.op)
        }
        Message::Edge(m) => Change::Edge {
            key: convert::edge_key_in(required(m.key, "edge.key")?).at("edge.key")?,
            gone: m.gone,
            properties: convert::properties_in(m.properties).at("edge.properties")?,
            asked: m.asked,
        },
        Message::Adopt(m) => Change::Adopt(adopt_in(m).at("adopt")?),
    };
    Ok(PartOp {
        index: op.index,
        at: op.at.map(Version),
        change,
    })
}

fn adopt_out(adopt: Adopt) -> proto::Adopt {
    let (high, low) = halves(adopt.vertex);
    let degree = |(edge_type, count): (EdgeTypeId, u64)| proto::Count {
        r#type: edge_type.0.into(),
        count,
    };
    proto::Adopt {
        high,
        low,
        splits: adopt.splits,
        rows: adopt.rows.into_iter().map(row_out).collect(),
        degrees: adopt.degrees.into_iter().map(degree).collect(),
    }
}

fn adopt_in(adopt: proto::Adopt) -> Decoded<Adopt> {
    Ok(Adopt {
        vertex: vertex_id(adopt.high, adopt.low),
        splits: adopt.splits,
        rows: convert::list(adopt.rows, "rows", row_in)?,
        degrees: convert::list(adopt.degrees, "degrees", |c| {
            Ok((EdgeTypeId(convert::number_in(c.r#type, "type")?), c.count))
        })?,
    })
}

pub(super) fn row_out(row: RawRow) -> proto::RawRow {
    let table = match row.table {
        RawTable::Rows => Table::Rows,
        RawTable::History => Table::History,
    };
    proto::RawRow {
        table: table.into(),
        key: row.key,
        value: row.value,
    }
}

pub(super) fn row_in(row: proto::RawRow) -> Decoded<RawRow> {
    let table = match Table::try_from(row.table) {
        Ok(Table::Rows) => RawTable::Rows,
        Ok(Table::History) => RawTable::History,
        Ok(Table::Unspecified) | Err(_) => {
            return Err(Malformed::new("table", "a table (1 or 2)"));
        }
    };
    Ok(RawRow {
        table,
        key: row.key,
        value: row.value,
    })
}

fn later_out(later: Vec<(u32, Version)>) -> Vec<proto::Later> {
    let message = |(index, version): (u32, Version)| proto::Later {
        index,
        version: version.0,
    };
    later.into_iter().map(message).collect()
}

fn later_in(later: Vec<proto::Later>) -> Vec<(u32, Version)> {
    let pair = |m: proto::Later| (m.index, Version(m.version));
    later.into_iter().map(pair).collect()
}

pub(super) fn prepared_out(prepared: Prepared) -> proto::Prepared {
    proto::Prepared {
        floor: prepared.floor.0,
        later: later_out(prepared.later),
    }
}

pub(super) fn prepared_in(prepared: proto::Prepared) -> Prepared {
    Prepared {
        floor: Version(prepared.floor),
        later: later_in(prepared.later),
    }
}

pub(super) fn decided_out(decided: Decided) -> proto::Decided {
    proto::Decided {
        tx: Some(id_out(decided.tx)),
        version: decided.version.0,
        later: later_out(decided.later),
        part: decided.part.map(part_out),
    }
}

pub(super) fn decided_in(decided: proto::Decided) -> Decoded<Decided> {
    Ok(Decided {
        tx: id_in(required(decided.tx, "tx")?),
        version: Version(decided.version),
        later: later_in(decided.later),
        part: decided.part.map(part_in).transpose().at("part")?,
    })
}

pub(super) fn decided_list_out(decided: Vec<Decided>) -> proto::DecidedList {
    proto::DecidedList {
        decided: decided.into_iter().map(decided_out).collect(),
    }
}

pub(super) fn decided_list_in(list: proto::DecidedList) -> Decoded<Vec<Decided>> {
    convert::list(list.decided, "decided", decided_in)
}
