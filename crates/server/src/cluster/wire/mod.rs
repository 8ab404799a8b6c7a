//! Conversion of requests and responses between the servers of a cluster to messages and back.
//!
//! As in `esker_rpc::convert`, a malformed message is refused with the name of the field, without a panic. Only the form of another
//! server's message is checked; there is no defence against a server that sends wrong data.

#![deny(clippy::indexing_slicing)]

mod read;
#[cfg(test)]
mod tests;
mod travel;
mod txn;

use esker_cluster::ServerId;
use esker_cluster::peer::{
    ApplyOptions, CommitPosition, NamesCall, NamesReply, ObjectCall, ObjectReply, PeerRequest,
    PeerResponse, Request, Response,
};
use esker_model::{Commit, Error, Schema, Version, VertexId};
use esker_rpc::convert::{self, At as _, Decoded, Malformed, required};
use esker_rpc::failure::{failure_in, failure_out};
use esker_rpc::proto;
use esker_rpc::proto::peer_answer::Outcome;
use esker_rpc::proto::peer_question::Request as PeerMessage;

/// Encodes a request as a message.
pub(crate) fn request_out(question: PeerRequest) -> proto::PeerQuestion {
    let request = match question.request {
        Request::Hello { decided } => PeerMessage::Hello(txn::decided_list_out(decided)),
        Request::Prepare {
            tx,
            over,
            seen,
            part,
        } => PeerMessage::Prepare(proto::Prepare {
            tx: Some(txn::id_out(tx)),
            over,
            part: Some(txn::part_out(&part)),
            seen: seen.0,
        }),
        Request::Commit(decided) => PeerMessage::Commit(txn::decided_out(decided)),
        Request::Apply { batch, seen, how } => PeerMessage::Apply(proto::PeerApply {
            batch: Some(proto::ApplyRequest {
                hold: how.retained,
                again_at: how.acknowledged_at.map(|v| v.0),
                ..convert::batch_out(&batch, false)
            }),
            seen: seen.0,
        }),
        Request::Abort { tx } => PeerMessage::Abort(txn::id_out(tx)),
        Request::Define { changes } => PeerMessage::Define(proto::DefineRequest {
            changes: changes.iter().map(convert::change_out).collect(),
        }),
        Request::Schema => PeerMessage::Schema(proto::SchemaRequest {}),
        Request::Splits { of } => PeerMessage::Splits(id_list_out(&of)),
        Request::Read(read) => read::read_out(read),
        Request::Travel(call) => PeerMessage::Travel(travel::call_out(call)),
        Request::Objects(call) => PeerMessage::Objects(proto::PeerObjects {
            objects: call.encode(),
        }),
        Request::Names(call) => PeerMessage::Names(proto::PeerNames {
            names: call.encode(),
        }),
        Request::Ping => PeerMessage::Ping(proto::Nothing {}),
        Request::Persist => PeerMessage::Persist(proto::Nothing {}),
        Request::Pause { id } => PeerMessage::Hold(id),
        Request::Copy { id, version, to } => PeerMessage::Copy(proto::PeerCopy {
            id,
            version: version.0,
            to,
        }),
        Request::Resume { id } => PeerMessage::Release(id),
    };
    proto::PeerQuestion {
        from: question.from.0,
        incarnation: question.incarnation,
        clock: question.clock.0,
        newest: question.newest.0,
        request: Some(request),
    }
}

/// Decodes a request from a message.
pub(crate) fn request_in(question: proto::PeerQuestion) -> Decoded<PeerRequest> {
    let request = match required(question.request, "request")? {
        PeerMessage::Hello(list) => Request::Hello {
            decided: txn::decided_list_in(list).at("hello")?,
        },
        PeerMessage::Prepare(m) => txn::prepare_in(m).at("prepare")?,
        PeerMessage::Commit(m) => Request::Commit(txn::decided_in(m).at("commit")?),
        // Servers send types as numbers, so that no names need a lookup.
        PeerMessage::Apply(m) => {
            let batch = required(m.batch, "apply.batch")?;
            let how = applying_in(&batch);
            Request::Apply {
                how,
                batch: convert::batch_in(batch, &Schema::empty())
                    .at("apply.batch")?
                    .0,
                seen: Version(m.seen),
            }
        }
        PeerMessage::Abort(tx) => Request::Abort { tx: txn::id_in(tx) },
        PeerMessage::Define(m) => Request::Define {
            changes: convert::list(m.changes, "define.changes", convert::change_in)?,
        },
        PeerMessage::Schema(_) => Request::Schema,
        PeerMessage::Splits(m) => Request::Splits {
            of: convert::ids_in(&m.ids, "splits.ids")?,
        },
        PeerMessage::Travel(m) => Request::Travel(travel::call_in(m).at("travel")?),
        PeerMessage::Objects(m) => Request::Objects(
            ObjectCall::decode(&m.objects).map_err(|e| Malformed::new("objects", e.expected))?,
        ),
        PeerMessage::Names(m) => Request::Names(
            NamesCall::decode(&m.names).map_err(|e| Malformed::new("names", e.expected))?,
        ),
        PeerMessage::Ping(_) => Request::Ping,
        PeerMessage::Persist(_) => Request::Persist,
        PeerMessage::Hold(id) => Request::Pause { id },
        PeerMessage::Copy(m) => Request::Copy {
            id: m.id,
            version: Version(m.version),
            to: m.to,
        },
        PeerMessage::Release(id) => Request::Resume { id },
        read => Request::Read(read::read_in(read)?),
    };
    Ok(PeerRequest {
        from: ServerId(question.from),
        incarnation: question.incarnation,
        clock: Version(question.clock),
        newest: Version(question.newest),
        request,
    })
}

/// Encodes a response as a message.
pub(crate) fn answer_out(answer: PeerResponse) -> proto::PeerAnswer {
    let outcome = match answer.outcome {
        Err(e) => Outcome::Failure(failure_out(&e)),
        Ok(response) => response_out(response),
    };
    proto::PeerAnswer {
        incarnation: answer.incarnation,
        clock: answer.clock.0,
        newest: answer.newest.0,
        moves: answer.moves,
        persisted: answer.persisted,
        outcome: Some(outcome),
    }
}

fn response_out(response: Response) -> Outcome {
    match response {
        Response::Undelivered {
            decided,
            incarnation,
            over,
        } => Outcome::Undelivered(proto::Undelivered {
            decided: txn::decided_list_out(decided).decided,
            incarnation,
            over,
        }),
        Response::Batch(commit, held) => Outcome::AppliedBatch(applied_out(&commit, held)),
        Response::Prepared(prepared) => Outcome::Prepared(txn::prepared_out(prepared)),
        Response::Moved(splits) => Outcome::Moved(splits_out(splits)),
        Response::Over => Outcome::Over(proto::Nothing {}),
        Response::Committed {
            vertices_created,
            edges_created,
            unchanged,
        } => Outcome::Committed(proto::Committed {
            vertices_created,
            edges_created,
            unchanged,
        }),
        Response::Unknown => Outcome::Unknown(proto::Nothing {}),
        Response::Done => Outcome::Done(proto::Nothing {}),
        Response::Copied { bytes } => Outcome::Copied(bytes),
        Response::Schema(changes) => Outcome::Schema(proto::DefineRequest {
            changes: changes.iter().map(convert::change_out).collect(),
        }),
        Response::Splits(splits) => Outcome::Splits(splits_out(splits)),
        Response::Travel(reply) => Outcome::Travel(travel::reply_out(reply)),
        Response::Objects(reply) => Outcome::Objects(proto::PeerObjects {
            objects: reply.encode(),
        }),
        Response::Names(reply) => Outcome::Names(proto::PeerNames {
            names: reply.encode(),
        }),
        read => read::response_out(read),
    }
}

/// Decodes a response from a message.
pub(crate) fn answer_in(answer: proto::PeerAnswer) -> Decoded<PeerResponse> {
    let outcome: Result<Response, Error> = match required(answer.outcome, "outcome")? {
        Outcome::Failure(failure) => Err(failure_in(failure)),
        Outcome::Undelivered(m) => Ok(Response::Undelivered {
            incarnation: m.incarnation,
            over: m.over,
            decided: txn::decided_list_in(proto::DecidedList { decided: m.decided })
                .at("undelivered")?,
        }),
        Outcome::AppliedBatch(m) => {
            let held = m.held.map(held_in);
            Ok(Response::Batch(convert::commit_in(&m), held))
        }
        Outcome::Prepared(m) => Ok(Response::Prepared(txn::prepared_in(m))),
        Outcome::Moved(m) => Ok(Response::Moved(splits_in(m).at("moved")?)),
        Outcome::Over(_) => Ok(Response::Over),
        Outcome::Committed(m) => Ok(Response::Committed {
            vertices_created: m.vertices_created,
            edges_created: m.edges_created,
            unchanged: m.unchanged,
        }),
        Outcome::Unknown(_) => Ok(Response::Unknown),
        Outcome::Done(_) => Ok(Response::Done),
        Outcome::Copied(bytes) => Ok(Response::Copied { bytes }),
        Outcome::Schema(m) => Ok(Response::Schema(convert::list(
            m.changes,
            "schema.changes",
            convert::change_in,
        )?)),
        Outcome::Splits(m) => Ok(Response::Splits(splits_in(m).at("splits")?)),
        Outcome::Travel(m) => Ok(Response::Travel(travel::reply_in(m).at("travel")?)),
        Outcome::Objects(m) => Ok(Response::Objects(
            ObjectReply::decode(&m.objects).map_err(|e| Malformed::new("objects", e.expected))?,
        )),
        Outcome::Names(m) => Ok(Response::Names(
            NamesReply::decode(&m.names).map_err(|e| Malformed::new("names", e.expected))?,
        )),
        read => Ok(read::response_in(read)?),
    };
    Ok(PeerResponse {
        incarnation: answer.incarnation,
        clock: Version(answer.clock),
        newest: Version(answer.newest),
        moves: answer.moves,
        persisted: answer.persisted,
        outcome,
    })
}

/// The durability that a client accepts for its batch.
pub(crate) fn applying_in(request: &proto::ApplyRequest) -> ApplyOptions {
    ApplyOptions {
        retained: request.hold,
        acknowledged_at: request.again_at.map(Version),
    }
}

/// Encodes the outcome of a batch, with the commit position until which its client has to keep it.
pub(crate) fn applied_out(commit: &Commit, held: Option<CommitPosition>) -> proto::ApplyReply {
    proto::ApplyReply {
        held: held.map(held_out),
        ..convert::commit_out(commit)
    }
}

pub(crate) fn held_out(held: CommitPosition) -> proto::Held {
    proto::Held {
        server: held.server.0,
        incarnation: held.incarnation,
        number: held.number,
    }
}

fn held_in(held: proto::Held) -> CommitPosition {
    CommitPosition {
        server: ServerId(held.server),
        incarnation: held.incarnation,
        number: held.number,
    }
}

fn id_list_out(ids: &[VertexId]) -> proto::IdList {
    proto::IdList {
        ids: convert::ids_out(ids),
    }
}

fn splits_out(splits: Vec<(VertexId, Vec<u8>)>) -> proto::SplitList {
    let (ids, rows): (Vec<_>, Vec<_>) = splits.into_iter().unzip();
    proto::SplitList {
        ids: convert::ids_out(&ids),
        rows,
    }
}

fn splits_in(list: proto::SplitList) -> Decoded<Vec<(VertexId, Vec<u8>)>> {
    let ids = convert::ids_in(&list.ids, "ids")?;
    if ids.len() != list.rows.len() {
        return Err(Malformed::new("rows", "one for each vertex"));
    }
    Ok(ids.into_iter().zip(list.rows).collect())
}

/// Error for a message of a kind that does not belong here.
fn unexpected_message(field: &str) -> Malformed {
    Malformed::new(field, "a message that this build knows")
}
