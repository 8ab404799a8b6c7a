//! Checks that each response is the model's as of some version that its client could see: not before what it had
//! seen, one version for all parts of the response, and exactly the requested one if there is one.

use super::Findings;
use super::batches::Order;
use crate::compare::travelled;
use crate::model::GraphModel;
use crate::sim::client::Record;
use crate::sim::request::{ClientRequest, ClientResponse};
use esker_model::{
    DiffSelect, Edge, EdgeSelect, Traversal, Version, VersionRange, Versions, VertexSelect,
};

/// Records every response that no version explains.
pub fn check(order: &Order, records: &[Record], findings: &mut Findings) {
    let versions: Vec<Version> = order.applied.iter().map(|p| p.version).collect();
    let mut response = versions.clone();
    response.dedup();
    for record in records {
        if let (ClientRequest::Apply(_) | ClientRequest::Define(_) | ClientRequest::Applied(_), _) =
            (&record.request, &record.response)
        {
            continue;
        }
        match &record.response {
            Ok(answer) => {
                if let Err(why) = explained(&order.model, &response, record, answer) {
                    findings.push(why);
                }
            }
            Err(e) => findings.push(format!(
                "a question failed: {}: {:?}",
                e.message, record.request
            )),
        }
    }
}

fn explained(
    model: &GraphModel,
    versions: &[Version],
    record: &Record,
    answer: &ClientResponse,
) -> Result<(), String> {
    if let (ClientRequest::Travel(chain, _), ClientResponse::Travel(result)) =
        (&record.request, answer)
        && result.as_of < Version::MAX
        && chain.as_of.is_none_or(|t| t == Version::MAX)
        && chain.versions.is_none()
        && result.as_of < record.seen
        // A batch without effect has a version, too, of which an engine that is alone keeps nothing.
        && model.versions().iter().any(|v| *v > result.as_of && *v <= record.seen)
    {
        return Err(format!(
            "client {} had seen {:?} and was shown {:?}: {:?}",
            record.client, record.seen, result.as_of, record.request
        ));
    }
    // The state changes at versions only: that of what was seen, then each later one. The newest version in the
    // response comes first, since it is nearly always the right one.
    let shown = answer.newest().max(record.seen);
    let first = std::iter::once(shown);
    let later = versions.iter().copied().filter(|v| *v > record.seen);
    let mut nearest = None;
    for time in first.chain(later) {
        match is_as_of(model, time, &record.request, answer) {
            Ok(()) => return Ok(()),
            Err(why) => {
                nearest.get_or_insert((time, why));
            }
        }
    }
    let (time, why) = nearest.unwrap_or((shown, String::new()));
    Err(format!(
        "no time explains what client {} heard from server {} between {} and {} us, having seen {:?}: {:?}\n  as of {time:?}: {why}\n  told: {answer:?}",
        record.client, record.server, record.begin, record.end, record.seen, record.request
    ))
}

/// The part of a range that is visible at a version.
fn up_to(range: VersionRange, time: Version) -> VersionRange {
    let until = if range.until == Version::MAX {
        time.next()
    } else {
        range.until.min(time.next())
    };
    VersionRange {
        from: range.from.min(until),
        until,
    }
}

fn at(requested: Version, time: Version) -> Version {
    if requested == Version::MAX {
        time
    } else {
        requested
    }
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, wanted: &T) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    // Long responses differ in few places.
    let (got, wanted) = (format!("{got:?}"), format!("{wanted:?}"));
    let equal = got.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b);
    let from = equal.count().saturating_sub(120);
    let part = |text: &str| -> String { text.chars().skip(from).take(500).collect() };
    Err(format!(
        "they differ at {from}:\n    told:     …{}\n    expected: …{}",
        part(&got),
        part(&wanted)
    ))
}

/// Whether a response is the model's, if the present is that version.
pub fn is_as_of(
    model: &GraphModel,
    time: Version,
    request: &ClientRequest,
    answer: &ClientResponse,
) -> Result<(), String> {
    match (request, answer) {
        (ClientRequest::Vertices(ids, as_of), ClientResponse::Vertices(got)) => {
            let as_of = at(*as_of, time);
            let wanted: Vec<_> = ids.iter().map(|id| model.vertex(*id, as_of)).collect();
            same(got, &wanted)
        }
        (ClientRequest::Edges(keys, as_of), ClientResponse::Edges(got)) => {
            let as_of = at(*as_of, time);
            let wanted: Vec<_> = keys.iter().map(|k| model.edge_as_of(*k, as_of)).collect();
            same(got, &wanted)
        }
        (ClientRequest::Scan(frontier, select, most), ClientResponse::Scanned(got)) => {
            let mut wanted = scanned(model, time, frontier, select);
            wanted.truncate(*most);
            same(got, &wanted)
        }
        (ClientRequest::Type(select, most), ClientResponse::Type(got)) => {
            let mut wanted = model.vertices_of(&VertexSelect {
                as_of: at(select.as_of, time),
                ..*select
            });
            wanted.truncate(*most);
            same(got, &wanted)
        }
        (ClientRequest::VertexHistory(id, range), ClientResponse::VertexHistory(got)) => {
            same(got, &model.vertex_history(*id, up_to(*range, time)))
        }
        (ClientRequest::EdgeHistory(key, range), ClientResponse::EdgeHistory(got)) => {
            same(got, &model.edge_history(*key, up_to(*range, time)))
        }
        (ClientRequest::Diff(select, most), ClientResponse::Diff(got)) => {
            let mut wanted = model.diff(&DiffSelect {
                before: at(select.before, time),
                after: at(select.after, time),
                ..*select
            });
            wanted.truncate(*most);
            same(got, &wanted)
        }
        (ClientRequest::Travel(chain, _), ClientResponse::Travel(result)) => {
            let chain = as_of_then(chain, at(result.as_of, time));
            let wanted = model.travel(&chain).ok_or("the model refuses it")?;
            travelled(result, &wanted, &chain)
        }
        // Counters are compared when no client writes any more, since they are as of no single version.
        (ClientRequest::Degrees(_), ClientResponse::Degrees(_))
        | (ClientRequest::Top(..), ClientResponse::Top(_))
        | (ClientRequest::Counts, ClientResponse::Counts(_)) => Ok(()),
        _ => Err("a response of another kind than the request's".into()),
    }
}

fn scanned(
    model: &GraphModel,
    time: Version,
    frontier: &[esker_model::VertexId],
    select: &EdgeSelect,
) -> Vec<(usize, Edge)> {
    let versions = match select.versions {
        Versions::AsOf(as_of) => Versions::AsOf(at(as_of, time)),
        Versions::Range(range) => Versions::Range(up_to(range, time)),
    };
    let mut found = Vec::new();
    for (i, id) in frontier.iter().enumerate() {
        let edges = model.edges_of(*id, &select.types, versions);
        found.extend(edges.into_iter().map(|edge| (i, edge)));
    }
    found
}

/// The chain with that version as the present.
fn as_of_then(chain: &Traversal, time: Version) -> Traversal {
    let mut chain = chain.clone();
    match &mut chain.versions {
        Some(range) => {
            if range.until > time {
                range.until = time.next();
            }
            range.from = range.from.min(range.until);
        }
        None => chain.as_of = Some(at(chain.as_of.unwrap_or(Version::MAX), time)),
    }
    chain
}
