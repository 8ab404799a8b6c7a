//! Messages of distributed transactions.

use esker_cluster::ServerId;
use esker_cluster::peer::{Decided, Part, Prepared, Request, TxId};
use esker_model::Version;
use esker_rpc::convert::{self, At as _, Decoded, Malformed, required};
use esker_rpc::proto;
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
        seen: Version(m.seen),
        part: part_in(&required(m.part, "part")?).at("part")?,
    })
}

pub(super) fn part_out(part: &Part) -> proto::Part {
    proto::Part { ops: part.encode() }
}

pub(super) fn part_in(part: &proto::Part) -> Decoded<Arc<Part>> {
    match Part::decode(&part.ops) {
        Ok(part) => Ok(Arc::new(part)),
        Err(e) => Err(Malformed::new("ops", e.expected)),
    }
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
        part: decided.part.as_deref().map(part_out),
    }
}

pub(super) fn decided_in(decided: proto::Decided) -> Decoded<Decided> {
    Ok(Decided {
        tx: id_in(required(decided.tx, "tx")?),
        version: Version(decided.version),
        later: later_in(decided.later),
        part: decided.part.as_ref().map(part_in).transpose().at("part")?,
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
