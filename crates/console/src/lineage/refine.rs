//! Groups boxes whose neighbours are not equal but similar, by partition refinement (Paige and Tarjan, "Three Partition Refinement
//! Algorithms", 1987), here in rounds, because pictures are small.
//!
//! The initial classes are determined by names (the directory and the pattern of a path, the array of a task, the name of a run); they are
//! divided by their lines until all members of a class have lines to the same classes.

use super::PictureRequest;
use super::group::Part;
use super::selection::{SelectedVertex, Selection};
use crate::label::{directory, last_part, pattern};
use esker_model::VertexId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Name of a class: criterion, label and detail.
type Name = (&'static str, String, String);
/// Maximum number of rounds: chains of up to this many levels are distinguished from their ends.
const ROUNDS_MAX: usize = 64;

/// Returns the array of a task: 4100 of `4100_17`.
fn array(key: &str) -> Option<&str> {
    let (job, task) = key.rsplit_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(job) && digits(task)).then_some(job)
}

fn name(one: &SelectedVertex) -> Name {
    if one.key.contains('/') {
        let directory = directory(&one.key).to_owned();
        return ("pattern", pattern(last_part(&one.key)), directory);
    }
    if one.execution
        && let Some(job) = array(&one.key)
    {
        return ("array", format!("{job}_#"), pattern(&one.label.label));
    }
    ("pattern", pattern(&one.label.label), String::new())
}

/// Returns classes with at least `least` members, of boxes in no group yet. `taken` has the group of each box that is in one.
pub(super) fn alike(
    selection: &Selection,
    request: &PictureRequest,
    taken: &HashMap<VertexId, usize>,
    least: usize,
) -> Vec<Part> {
    let mut beside: HashMap<VertexId, Vec<(VertexId, u32, bool)>> = HashMap::new();
    for (from, to, edge_type) in selection.lines.keys() {
        let number = u32::from(edge_type.0);
        beside.entry(*from).or_default().push((*to, number, true));
        beside.entry(*to).or_default().push((*from, number, false));
    }
    // The focus, opened vertices, and members of classes too small for a group remain single.
    let mut alone: BTreeSet<VertexId> = request.open.keys().copied().collect();
    alone.insert(request.focus);
    loop {
        let classes = stable(selection, &beside, taken, &alone);
        let mut members: BTreeMap<u32, Vec<VertexId>> = BTreeMap::new();
        for id in &selection.order {
            if !alone.contains(id)
                && !taken.contains_key(id)
                && let Some(class) = classes.get(id)
            {
                members.entry(*class).or_default().push(*id);
            }
        }
        let small: Vec<VertexId> = members
            .values()
            .filter(|all| all.len() < least)
            .flatten()
            .copied()
            .collect();
        if !small.is_empty() {
            alone.extend(small);
            continue;
        }
        let parts = members.into_values().filter_map(|members| {
            let (by, label, detail) = name(selection.all.get(members.first()?)?);
            Some(Part {
                by,
                label,
                detail,
                members,
            })
        });
        return parts.collect();
    }
}

/// Returns the coarsest classes in which all members have lines to the same classes.
fn stable(
    selection: &Selection,
    beside: &HashMap<VertexId, Vec<(VertexId, u32, bool)>>,
    taken: &HashMap<VertexId, usize>,
    alone: &BTreeSet<VertexId>,
) -> HashMap<VertexId, u32> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Seed {
        Alone(VertexId),
        Group(usize),
        Called(u32, Name),
    }
    let seeds = selection.all.iter().map(|(id, one)| {
        let seed = match taken.get(id) {
            _ if alone.contains(id) => Seed::Alone(*id),
            Some(group) => Seed::Group(*group),
            None => Seed::Called(one.type_id.map_or(u32::MAX, |t| u32::from(t.0)), name(one)),
        };
        (*id, seed)
    });
    let mut classes = numbered(&seeds.collect::<Vec<_>>());
    for _ in 0..ROUNDS_MAX {
        let count = classes.values().max().copied();
        let signed = classes.iter().map(|(id, class)| {
            let ties = beside.get(id).map(Vec::as_slice).unwrap_or_default();
            let ties: BTreeSet<(u32, u32, bool)> = ties
                .iter()
                .filter_map(|(other, edge, out)| Some((*classes.get(other)?, *edge, *out)))
                .collect();
            // A group is not divided further.
            let ties = if taken.contains_key(id) {
                BTreeSet::new()
            } else {
                ties
            };
            (*id, (*class, ties))
        });
        let signed: Vec<_> = signed.collect();
        classes = numbered(&signed);
        if classes.values().max().copied() == count {
            break;
        }
    }
    classes
}

/// Numbers the distinct values in their order.
fn numbered<T: Ord>(all: &[(VertexId, T)]) -> HashMap<VertexId, u32> {
    let different: BTreeSet<&T> = all.iter().map(|(_, one)| one).collect();
    let numbers: BTreeMap<&T, u32> = different.into_iter().zip(0..).collect();
    all.iter()
        .map(|(id, one)| (*id, numbers.get(one).copied().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_know_their_array() {
        assert_eq!(array("4100_17"), Some("4100"));
        for other in ["4100", "_17", "4100_", "a_1", "4100_17_x"] {
            assert_eq!(array(other), None, "{other}");
        }
    }
}
