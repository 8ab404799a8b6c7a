//! Whether each answer is the model's as of some time that its client could be shown: not before what it had seen, the same
//! time for all parts of the answer, exactly the time that it asked for.

use super::Findings;
use super::batches::Order;
use crate::compare::travelled;
use crate::model::GraphModel;
use crate::sim::ask::{Ask, Told};
use crate::sim::client::Record;
use esker_model::{Edge, EdgeSelect, Traversal, Version, VersionRange, Versions, VertexSelect};

/// Notes every answer that no time explains.
pub fn check(order: &Order, records: &[Record], findings: &mut Findings) {
    let versions: Vec<Version> = order.placed.iter().map(|p| p.version).collect();
    let mut told = versions.clone();
    told.dedup();
    for record in records {
        if let (Ask::Apply(_) | Ask::Define(_) | Ask::Applied(_), _) = (&record.ask, &record.told) {
            continue;
        }
        match &record.told {
            Ok(answer) => {
                if let Err(why) = explained(&order.model, &told, record, answer) {
                    findings.push(why);
                }
            }
            Err(e) => findings.push(format!("a question failed: {}: {:?}", e.said, record.ask)),
        }
    }
}

fn explained(
    model: &GraphModel,
    versions: &[Version],
    record: &Record,
    answer: &Told,
) -> Result<(), String> {
    if let (Ask::Travel(chain, _), Told::Travel(result)) = (&record.ask, answer)
        && result.as_of < Version::MAX
        && chain.as_of.is_none_or(|t| t == Version::MAX)
        && chain.versions.is_none()
        && result.as_of < record.seen
    {
        return Err(format!(
            "client {} had seen {:?} and was shown {:?}: {:?}",
            record.client, record.seen, result.as_of, record.ask
        ));
    }
    // The state changes at versions only: that of what was seen, then each later one. What the answer itself shows comes
    // first, for that is nearly always it.
    let shown = answer.newest().max(record.seen);
    let first = std::iter::once(shown);
    let later = versions.iter().copied().filter(|v| *v > record.seen);
    let mut nearest = None;
    for time in first.chain(later) {
        match is_as_of(model, time, &record.ask, answer) {
            Ok(()) => return Ok(()),
            Err(why) => {
                nearest.get_or_insert((time, why));
            }
        }
    }
    let (time, why) = nearest.unwrap_or((shown, String::new()));
    Err(format!(
        "no time explains what client {} heard from server {} between {} and {} us, having seen {:?}: {:?}\n  as of {time:?}: {why}\n  told: {answer:?}",
        record.client, record.server, record.begin, record.end, record.seen, record.ask
    ))
}

/// What a range shows at a time.
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

fn at(asked: Version, time: Version) -> Version {
    if asked == Version::MAX { time } else { asked }
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, wanted: &T) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    // Long answers differ in few places.
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

/// Whether an answer is the model's, if now is that time.
pub fn is_as_of(model: &GraphModel, time: Version, ask: &Ask, answer: &Told) -> Result<(), String> {
    match (ask, answer) {
        (Ask::Vertices(ids, as_of), Told::Vertices(got)) => {
            let as_of = at(*as_of, time);
            let wanted: Vec<_> = ids.iter().map(|id| model.vertex(*id, as_of)).collect();
            same(got, &wanted)
        }
        (Ask::Edges(keys, as_of), Told::Edges(got)) => {
            let as_of = at(*as_of, time);
            let wanted: Vec<_> = keys.iter().map(|k| model.edge_as_of(*k, as_of)).collect();
            same(got, &wanted)
        }
        (Ask::Scan(frontier, select, most), Told::Scanned(got)) => {
            let mut wanted = scanned(model, time, frontier, select);
            wanted.truncate(*most);
            same(got, &wanted)
        }
        (Ask::Type(select, most), Told::Type(got)) => {
            let mut wanted = model.vertices_of(&VertexSelect {
                as_of: at(select.as_of, time),
                ..*select
            });
            wanted.truncate(*most);
            same(got, &wanted)
        }
        (Ask::VertexHistory(id, range), Told::VertexHistory(got)) => {
            same(got, &model.vertex_history(*id, up_to(*range, time)))
        }
        (Ask::EdgeHistory(key, range), Told::EdgeHistory(got)) => {
            same(got, &model.edge_history(*key, up_to(*range, time)))
        }
        (Ask::Diff(before, after), Told::Diff(got)) => {
            same(got, &model.diff(at(*before, time), at(*after, time)))
        }
        (Ask::Travel(chain, _), Told::Travel(result)) => {
            let chain = as_of_then(chain, at(result.as_of, time));
            let wanted = model.travel(&chain).ok_or("the model refuses it")?;
            travelled(result, &wanted, &chain)
        }
        // What is counted is compared once nobody writes any more: it is of no one time.
        (Ask::Degrees(_), Told::Degrees(_))
        | (Ask::Top(..), Told::Top(_))
        | (Ask::Counts, Told::Counts(_)) => Ok(()),
        _ => Err("an answer to something else".into()),
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

/// The same chain, where now is that time.
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
