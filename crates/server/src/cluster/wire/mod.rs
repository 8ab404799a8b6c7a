//! Questions and answers between the servers of a cluster, into messages and back.
//!
//! As in `esker_rpc::convert`: what is malformed is refused with the name of the field, and nothing panics. What another
//! server says is checked for its form alone; a server that lies is not guarded against.

#![deny(clippy::indexing_slicing)]

mod read;
#[cfg(test)]
mod tests;
mod travel;
mod txn;

use esker_cluster::ServerId;
use esker_cluster::peer::{
    Answer, Applying, Held, NamesCall, NamesReply, ObjectCall, ObjectReply, Question, Request,
    Response,
};
use esker_model::{Commit, Error, Schema, Version, VertexId};
use esker_rpc::convert::{self, At as _, Decoded, Malformed, required};
use esker_rpc::failure::{failure_in, failure_out};
use esker_rpc::proto;
use esker_rpc::proto::peer_answer::Outcome;
use esker_rpc::proto::peer_question::Request as Asked;

/// A question as a message.
pub(crate) fn question_out(question: Question) -> proto::PeerQuestion {
    let request = match question.request {
        Request::Hello { decided } => Asked::Hello(txn::decided_list_out(decided)),
        Request::Prepare {
            tx,
            over,
            seen,
            part,
        } => Asked::Prepare(proto::Prepare {
            tx: Some(txn::id_out(tx)),
            over,
            part: Some(txn::part_out(&part)),
            seen: seen.0,
        }),
        Request::Commit(decided) => Asked::Commit(txn::decided_out(decided)),
        Request::Apply { batch, seen, how } => Asked::Apply(proto::PeerApply {
            batch: Some(proto::ApplyRequest {
                hold: how.hold,
                again_at: how.again_at.map(|v| v.0),
                ..convert::batch_out(&batch, false)
            }),
            seen: seen.0,
        }),
        Request::Abort { tx } => Asked::Abort(txn::id_out(tx)),
        Request::Define { changes } => Asked::Define(proto::DefineRequest {
            changes: changes.iter().map(convert::change_out).collect(),
        }),
        Request::Schema => Asked::Schema(proto::SchemaRequest {}),
        Request::Splits { of } => Asked::Splits(id_list_out(&of)),
        Request::Read(read) => read::read_out(read),
        Request::Travel(call) => Asked::Travel(travel::call_out(call)),
        Request::Objects(call) => Asked::Objects(proto::PeerObjects {
            objects: call.encode(),
        }),
        Request::Names(call) => Asked::Names(proto::PeerNames {
            names: call.encode(),
        }),
        Request::Ping => Asked::Ping(proto::Nothing {}),
        Request::Persist => Asked::Persist(proto::Nothing {}),
        Request::Hold { id } => Asked::Hold(id),
        Request::Copy { id, version, to } => Asked::Copy(proto::PeerCopy {
            id,
            version: version.0,
            to,
        }),
        Request::Release { id } => Asked::Release(id),
    };
    proto::PeerQuestion {
        from: question.from.0,
        incarnation: question.incarnation,
        clock: question.clock.0,
        newest: question.newest.0,
        request: Some(request),
    }
}

/// A question out of a message.
pub(crate) fn question_in(question: proto::PeerQuestion) -> Decoded<Question> {
    let request = match required(question.request, "request")? {
        Asked::Hello(list) => Request::Hello {
            decided: txn::decided_list_in(list).at("hello")?,
        },
        Asked::Prepare(m) => txn::prepare_in(m).at("prepare")?,
        Asked::Commit(m) => Request::Commit(txn::decided_in(m).at("commit")?),
        // Servers number types: there is no name to look up.
        Asked::Apply(m) => {
            let batch = required(m.batch, "apply.batch")?;
            let how = how_in(&batch);
            Request::Apply {
                how,
                batch: convert::batch_in(batch, &Schema::empty())
                    .at("apply.batch")?
                    .0,
                seen: Version(m.seen),
            }
        }
        Asked::Abort(tx) => Request::Abort { tx: txn::id_in(tx) },
        Asked::Define(m) => Request::Define {
            changes: convert::list(m.changes, "define.changes", convert::change_in)?,
        },
        Asked::Schema(_) => Request::Schema,
        Asked::Splits(m) => Request::Splits {
            of: convert::ids_in(&m.ids, "splits.ids")?,
        },
        Asked::Travel(m) => Request::Travel(travel::call_in(m).at("travel")?),
        Asked::Objects(m) => Request::Objects(
            ObjectCall::decode(&m.objects).map_err(|e| Malformed::new("objects", e.expected))?,
        ),
        Asked::Names(m) => Request::Names(
            NamesCall::decode(&m.names).map_err(|e| Malformed::new("names", e.expected))?,
        ),
        Asked::Ping(_) => Request::Ping,
        Asked::Persist(_) => Request::Persist,
        Asked::Hold(id) => Request::Hold { id },
        Asked::Copy(m) => Request::Copy {
            id: m.id,
            version: Version(m.version),
            to: m.to,
        },
        Asked::Release(id) => Request::Release { id },
        read => Request::Read(read::read_in(read)?),
    };
    Ok(Question {
        from: ServerId(question.from),
        incarnation: question.incarnation,
        clock: Version(question.clock),
        newest: Version(question.newest),
        request,
    })
}

/// An answer as a message.
pub(crate) fn answer_out(answer: Answer) -> proto::PeerAnswer {
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

/// An answer out of a message.
pub(crate) fn answer_in(answer: proto::PeerAnswer) -> Decoded<Answer> {
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
    Ok(Answer {
        incarnation: answer.incarnation,
        clock: Version(answer.clock),
        newest: Version(answer.newest),
        moves: answer.moves,
        persisted: answer.persisted,
        outcome,
    })
}

/// What a client makes of its batch.
pub(crate) fn how_in(request: &proto::ApplyRequest) -> Applying {
    Applying {
        hold: request.hold,
        again_at: request.again_at.map(Version),
    }
}

/// What became of a batch, and what its client has to keep it for.
pub(crate) fn applied_out(commit: &Commit, held: Option<Held>) -> proto::ApplyReply {
    proto::ApplyReply {
        held: held.map(held_out),
        ..convert::commit_out(commit)
    }
}

pub(crate) fn held_out(held: Held) -> proto::Held {
    proto::Held {
        server: held.server.0,
        incarnation: held.incarnation,
        number: held.number,
    }
}

fn held_in(held: proto::Held) -> Held {
    Held {
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

/// A message of a kind that does not belong where it stands.
fn stray(field: &str) -> Malformed {
    Malformed::new(field, "a message that this build knows")
}
