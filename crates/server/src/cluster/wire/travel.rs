//! Messages of traversal steps. Edges are sent in columns, as there are many of them.

use super::{splits_in, splits_out};
use esker_cluster::ServerId;
use esker_cluster::peer::{
    ChainPosition, HopAt, PathEntry, Reached, RemainingBudget, StepDone, TraversalBegin,
    TraversalCall, TraversalId, TraversalReply, Visited,
};
use esker_model::traversal::StopReason;
use esker_model::{EdgeKey, EdgeTypeId, Version};
use esker_rpc::convert::{
    self, At as _, Decoded, Malformed, halves, ids_in, list, number_in, required, vertex_id,
};
use esker_rpc::proto;
use esker_rpc::proto::travel_answer::Reply;
use esker_rpc::proto::travel_call::Call;

fn id_out(travel: TraversalId) -> proto::TravelId {
    proto::TravelId {
        server: travel.server.0,
        incarnation: travel.incarnation,
        number: travel.number,
    }
}

fn id_in(travel: proto::TravelId) -> TraversalId {
    TraversalId {
        server: ServerId(travel.server),
        incarnation: travel.incarnation,
        number: travel.number,
    }
}

fn id_of(travel: Option<proto::TravelId>) -> Decoded<TraversalId> {
    required(travel, "travel").map(id_in)
}

fn hop_out(hop: HopAt) -> proto::HopAt {
    proto::HopAt {
        travel: Some(id_out(hop.travel)),
        step: hop.step,
        from: hop.from.0,
        to: hop.to.0,
    }
}

fn hop_in(hop: Option<proto::HopAt>) -> Decoded<HopAt> {
    let hop = required(hop, "hop")?;
    Ok(HopAt {
        travel: id_of(hop.travel).at("hop")?,
        step: hop.step,
        from: ChainPosition(hop.from),
        to: ChainPosition(hop.to),
    })
}

#[derive(Default)]
struct Columns(proto::EdgeColumns);

impl Columns {
    fn push(&mut self, edge: EdgeKey, version: Version) {
        let (source, destination) = (halves(edge.source), halves(edge.destination));
        let ends = [source.0, source.1, destination.0, destination.1];
        self.0.ends.extend(ends);
        self.0.types.push(edge.edge_type.0.into());
        self.0.versions.push(version.0);
    }
}

/// Decodes edges with their versions.
fn columns_in(columns: Option<proto::EdgeColumns>) -> Decoded<Vec<(EdgeKey, Version)>> {
    let columns = columns.unwrap_or_default();
    let (ends, rest) = columns.ends.as_chunks::<4>();
    let count = ends.len();
    if !rest.is_empty() || columns.types.len() != count || columns.versions.len() != count {
        return Err(Malformed::new("ends", "columns of the same length"));
    }
    let mut edges = Vec::with_capacity(count);
    let rows = ends.iter().zip(columns.types).zip(columns.versions);
    for (([sh, sl, dh, dl], number), version) in rows {
        let key = EdgeKey {
            source: vertex_id(*sh, *sl),
            edge_type: EdgeTypeId(number_in(number, "types")?),
            destination: vertex_id(*dh, *dl),
        };
        edges.push((key, Version(version)));
    }
    Ok(edges)
}

fn reached_out(reached: &[Reached]) -> proto::EdgeColumns {
    let mut columns = Columns::default();
    for r in reached {
        columns.push(r.edge, r.version);
    }
    columns.0
}

fn reached_in(columns: Option<proto::EdgeColumns>) -> Decoded<Vec<Reached>> {
    let edges = columns_in(columns).at("reached")?;
    let reached = |(edge, version)| Reached { edge, version };
    Ok(edges.into_iter().map(reached).collect())
}

fn begin_out(begin: &TraversalBegin) -> proto::TravelBegin {
    proto::TravelBegin {
        travel: Some(id_out(begin.travel)),
        request: Some(convert::budget_out(&begin.traversal, &begin.budget)),
        now: begin.now.0,
        starts: convert::ids_out(&begin.starts),
        principal: convert::principal_out(begin.principal.as_ref()),
    }
}

fn begin_in(begin: proto::TravelBegin) -> Decoded<TraversalBegin> {
    let request = required(begin.request, "request")?;
    Ok(TraversalBegin {
        travel: id_of(begin.travel)?,
        traversal: convert::traversal_in(&request).at("request.chain")?,
        now: Version(begin.now),
        starts: ids_in(&begin.starts, "starts")?,
        principal: convert::principal_in(begin.principal),
        budget: convert::budget_in(&request),
    })
}

fn visited_out(visited: &Visited) -> proto::Visited {
    let (high, low) = halves(visited.vertex);
    let mut columns = Columns::default();
    for parent in &visited.parents {
        columns.push(parent.edge, parent.version);
    }
    proto::Visited {
        place: visited.position.0,
        high,
        low,
        step: visited.step,
        from: visited.parents.iter().map(|p| p.from.0).collect(),
        edges: (!visited.parents.is_empty()).then_some(columns.0),
    }
}

fn visited_in(visited: proto::Visited) -> Decoded<Visited> {
    let edges = columns_in(visited.edges).at("edges")?;
    if edges.len() != visited.from.len() {
        return Err(Malformed::new("from", "one for each edge"));
    }
    let parents = visited.from.into_iter().zip(edges);
    Ok(Visited {
        position: ChainPosition(visited.place),
        vertex: vertex_id(visited.high, visited.low),
        step: visited.step,
        parents: parents
            .map(|(from, (edge, version))| PathEntry {
                from: ChainPosition(from),
                edge,
                version,
            })
            .collect(),
    })
}

fn stopped_out(stopped: Option<StopReason>) -> i32 {
    stopped.map_or(0, |reason| convert::reason_out(reason).into())
}

fn stopped_in(stopped: i32) -> Decoded<Option<StopReason>> {
    match stopped {
        0 => Ok(None),
        reason => convert::reason_in(reason).map(Some).at("stopped"),
    }
}

pub(super) fn call_out(call: TraversalCall) -> proto::TravelCall {
    let call = match call {
        TraversalCall::Begin(begin) => Call::Begin(begin_out(&begin)),
        TraversalCall::Step {
            hop,
            whole,
            next,
            left,
        } => Call::Step(proto::TravelStep {
            hop: Some(hop_out(hop)),
            whole,
            next: next.map(|place| place.0),
            millis: left.millis,
            edges: left.edges,
        }),
        TraversalCall::Expand {
            hop,
            vertices,
            left,
            credit,
            number,
        } => Call::Expand(proto::TravelExpand {
            hop: Some(hop_out(hop)),
            vertices: convert::ids_out(&vertices),
            millis: left.millis,
            edges: left.edges,
            credit,
            number,
        }),
        TraversalCall::Reach { hop, reached } => Call::Reach(proto::TravelReach {
            hop: Some(hop_out(hop)),
            reached: Some(reached_out(&reached)),
        }),
        TraversalCall::Continue {
            hop,
            number,
            reached,
            credit,
        } => Call::Go(proto::TravelGo {
            hop: Some(hop_out(hop)),
            number,
            reached: Some(reached_out(&reached)),
            credit,
        }),
        TraversalCall::Credit {
            travel,
            number,
            credit,
            stopped,
            failed,
        } => Call::Credit(proto::TravelCredit {
            travel: Some(id_out(travel)),
            number,
            credit,
            stopped: stopped_out(stopped),
            failed,
        }),
        TraversalCall::MoreCredit { travel, number } => Call::MoreCredit(proto::TravelMoreCredit {
            travel: Some(id_out(travel)),
            number,
        }),
        TraversalCall::Alive { travel } => Call::Alive(id_out(travel)),
        TraversalCall::Collect { travel, from } => Call::Collect(proto::TravelCollect {
            travel: Some(id_out(travel)),
            from,
        }),
        TraversalCall::End { travel } => Call::Finish(id_out(travel)),
    };
    proto::TravelCall { call: Some(call) }
}

pub(super) fn call_in(call: proto::TravelCall) -> Decoded<TraversalCall> {
    Ok(match required(call.call, "call")? {
        Call::Begin(m) => TraversalCall::Begin(begin_in(m).at("begin")?),
        Call::Step(m) => TraversalCall::Step {
            hop: hop_in(m.hop).at("step")?,
            whole: m.whole,
            next: m.next.map(ChainPosition),
            left: RemainingBudget {
                millis: m.millis,
                edges: m.edges,
            },
        },
        Call::Expand(m) => TraversalCall::Expand {
            hop: hop_in(m.hop).at("expand")?,
            vertices: ids_in(&m.vertices, "expand.vertices")?,
            left: RemainingBudget {
                millis: m.millis,
                edges: m.edges,
            },
            credit: m.credit,
            number: m.number,
        },
        Call::Reach(m) => TraversalCall::Reach {
            hop: hop_in(m.hop).at("reach")?,
            reached: reached_in(m.reached).at("reach")?,
        },
        Call::Go(m) => TraversalCall::Continue {
            hop: hop_in(m.hop).at("go")?,
            number: m.number,
            reached: reached_in(m.reached).at("go")?,
            credit: m.credit,
        },
        Call::Credit(m) => TraversalCall::Credit {
            travel: id_of(m.travel).at("credit")?,
            number: m.number,
            credit: m.credit,
            stopped: stopped_in(m.stopped).at("credit")?,
            failed: m.failed,
        },
        Call::MoreCredit(m) => TraversalCall::MoreCredit {
            travel: id_of(m.travel).at("more_credit")?,
            number: m.number,
        },
        Call::Alive(travel) => TraversalCall::Alive {
            travel: id_in(travel),
        },
        Call::Collect(m) => TraversalCall::Collect {
            travel: id_of(m.travel).at("collect")?,
            from: m.from,
        },
        Call::Finish(travel) => TraversalCall::End {
            travel: id_in(travel),
        },
    })
}

fn done_out(step: u32, done: &StepDone) -> proto::StepDone {
    proto::StepDone {
        frontier: done.frontier,
        edges: done.edges,
        selected: done.selected,
        reached: done.reached,
        leads_on: done.leads_on,
        cached: done.cached,
        vertices_micros: done.vertices_micros,
        edges_micros: done.edges_micros,
        prefetch_micros: done.prefetch_micros,
        wait_micros: done.wait_micros,
        stopped: stopped_out(done.stopped),
        step,
    }
}

fn done_in(done: &proto::StepDone) -> Decoded<(u32, StepDone)> {
    let step = StepDone {
        frontier: done.frontier,
        edges: done.edges,
        selected: done.selected,
        reached: done.reached,
        leads_on: done.leads_on,
        cached: done.cached,
        vertices_micros: done.vertices_micros,
        edges_micros: done.edges_micros,
        prefetch_micros: done.prefetch_micros,
        wait_micros: done.wait_micros,
        stopped: stopped_in(done.stopped)?,
    };
    Ok((done.step, step))
}

pub(super) fn reply_out(reply: TraversalReply) -> proto::TravelAnswer {
    let reply = match reply {
        TraversalReply::Started(count) => Reply::Started(count),
        TraversalReply::Stepped(done) => Reply::Stepped(done_out(0, &done)),
        TraversalReply::Expanded { done, splits } => Reply::Expanded(proto::TravelExpanded {
            done: Some(done_out(0, &done)),
            splits: Some(splits_out(splits)),
        }),
        TraversalReply::Reached { new, leads_on } => {
            Reply::Reached(proto::TravelReached { new, leads_on })
        }
        TraversalReply::Credit(credit) => Reply::Credit(credit),
        TraversalReply::Collected {
            visited,
            more,
            steps,
        } => Reply::Collected(proto::TravelCollected {
            visited: visited.iter().map(visited_out).collect(),
            more,
            steps: steps.iter().map(|(n, done)| done_out(*n, done)).collect(),
        }),
        TraversalReply::Unknown => Reply::Unknown(proto::Nothing {}),
        TraversalReply::Done => Reply::Done(proto::Nothing {}),
    };
    proto::TravelAnswer { reply: Some(reply) }
}

pub(super) fn reply_in(answer: proto::TravelAnswer) -> Decoded<TraversalReply> {
    Ok(match required(answer.reply, "reply")? {
        Reply::Started(count) => TraversalReply::Started(count),
        Reply::Stepped(m) => TraversalReply::Stepped(done_in(&m).at("stepped")?.1),
        Reply::Expanded(m) => TraversalReply::Expanded {
            done: done_in(&required(m.done, "expanded.done")?)
                .at("expanded.done")?
                .1,
            splits: splits_in(m.splits.unwrap_or_default()).at("expanded.splits")?,
        },
        Reply::Reached(m) => TraversalReply::Reached {
            new: m.new,
            leads_on: m.leads_on,
        },
        Reply::Credit(credit) => TraversalReply::Credit(credit),
        Reply::Collected(m) => TraversalReply::Collected {
            visited: list(m.visited, "collected.visited", visited_in)?,
            more: m.more,
            steps: list(m.steps, "collected.steps", |m| done_in(&m))?,
        },
        Reply::Unknown(_) => TraversalReply::Unknown,
        Reply::Done(_) => TraversalReply::Done,
    })
}
