//! Merges boxes with equal lines to the same other boxes into one box with a count, so that every line remains correct. Then merges boxes
//! with equal lines to groups (`refine`): the parts that the tasks of an array wrote, and the tasks.

use super::selection::{SelectedVertex, Selection};
use super::{PictureBox, PictureRequest, SPLIT_MAX, refine};
use crate::label::{directory, last_part, pattern};
use esker_model::{EdgeTypeId, Version, VertexId, VertexTypeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Minimum number of members of a group.
const ALIKE_MIN: usize = 8;
/// Maximum number of groups into which boxes of one kind are divided; beyond it, a coarser criterion is used.
const PARTS_MAX: usize = 8;

/// Boxes and lines after grouping; lines refer to boxes by index.
pub(super) struct Grouped {
    pub(super) boxes: Vec<PictureBox>,
    pub(super) lines: Vec<GroupedLine>,
}

pub(super) struct GroupedLine {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) edge_type: EdgeTypeId,
    pub(super) version: Version,
    pub(super) count: u64,
    pub(super) concurrent: bool,
}

/// Relations of a vertex: neighbour, edge type, and whether the vertex is the one that data comes from.
type Ties = BTreeSet<(VertexId, EdgeTypeId, bool)>;

/// Members of a group with their common properties.
pub(super) struct Part {
    pub(super) by: &'static str,
    pub(super) label: String,
    pub(super) detail: String,
    pub(super) members: Vec<VertexId>,
}

pub(super) fn group(selection: &Selection, request: &PictureRequest) -> Grouped {
    let mut ties: HashMap<VertexId, Ties> = HashMap::new();
    for (from, to, edge_type) in selection.lines.keys() {
        ties.entry(*from)
            .or_default()
            .insert((*to, *edge_type, true));
        ties.entry(*to)
            .or_default()
            .insert((*from, *edge_type, false));
    }
    let mut alike: BTreeMap<
        (Vec<(VertexId, EdgeTypeId, bool)>, Option<VertexTypeId>),
        Vec<VertexId>,
    > = BTreeMap::new();
    for id in &selection.order {
        if *id == request.focus || request.open.contains_key(id) {
            continue;
        }
        if let (Some(ties), Some(one)) = (ties.get(id), selection.all.get(id)) {
            let ties = ties.iter().copied().collect();
            alike.entry((ties, one.type_id)).or_default().push(*id);
        }
    }
    let mut box_of: HashMap<VertexId, usize> = HashMap::new();
    let mut boxes: Vec<PictureBox> = Vec::new();
    let mut groups: Vec<(String, Part)> = Vec::new();
    for ((ties, type_id), members) in &alike {
        if members.len() < ALIKE_MIN {
            continue;
        }
        let root = digest(&format!("{ties:?}{type_id:?}"));
        for part in parts(selection, members) {
            let id = format!(
                "group:{}",
                digest(&format!("{root}{}{}", part.by, part.label))
            );
            if part.members.len() >= ALIKE_MIN || part.by == "type" {
                groups.push((id, part));
            }
        }
    }
    let taken: HashMap<VertexId, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(n, (_, part))| part.members.iter().map(move |m| (*m, n)))
        .collect();
    for part in refine::alike(selection, request, &taken, ALIKE_MIN) {
        let name = |m: &VertexId| selection.all.get(m).map(|one| one.key.as_str());
        let least = part.members.iter().filter_map(name).min();
        let id = digest(&format!("{}{}{least:?}", part.label, part.detail));
        groups.push((format!("group:{id}"), part));
    }
    let mut in_group: HashMap<VertexId, usize> = HashMap::new();
    for (number, (id, part)) in groups.iter_mut().enumerate() {
        if request.split.contains(id) {
            part.members
                .sort_by_key(|m| selection.all.get(m).map(|one| one.key.clone()));
            if part.members.len() <= SPLIT_MAX {
                part.members.clear();
            } else {
                part.members.drain(..SPLIT_MAX);
            }
        }
        for member in &part.members {
            in_group.insert(*member, number);
        }
    }
    let mut box_of_group: HashMap<usize, usize> = HashMap::new();
    for id in &selection.order {
        let Some(one) = selection.all.get(id) else {
            continue;
        };
        let number = match in_group.get(id) {
            None => {
                boxes.push(vertex_box(*id, one, request));
                boxes.len() - 1
            }
            Some(group) => *box_of_group.entry(*group).or_insert_with(|| {
                let (id, part) = &groups[*group];
                boxes.push(group_box(id, part, selection));
                boxes.len() - 1
            }),
        };
        box_of.insert(*id, number);
    }
    let mut lines: BTreeMap<(usize, usize, EdgeTypeId), GroupedLine> = BTreeMap::new();
    for ((from, to, edge_type), flow) in &selection.lines {
        let (Some(from), Some(to)) = (box_of.get(from), box_of.get(to)) else {
            continue;
        };
        let line = lines
            .entry((*from, *to, *edge_type))
            .or_insert(GroupedLine {
                from: *from,
                to: *to,
                edge_type: *edge_type,
                version: flow.version,
                count: 0,
                concurrent: true,
            });
        line.count += 1;
        line.version = line.version.max(flow.version);
        line.concurrent &= flow.concurrent;
    }
    Grouped {
        boxes,
        lines: lines.into_values().collect(),
    }
}

/// Returns a short hash of a text for use in a URL.
fn digest(text: &str) -> String {
    // FNV-1a: collisions only have to be unlikely.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Divides similar vertices: by directory and name pattern, if that gives few parts; else by directory; else not at all.
fn parts(selection: &Selection, members: &[VertexId]) -> Vec<Part> {
    let key = |id: &VertexId| selection.all.get(id).map_or("", |one| one.key.as_str());
    let divided = |by: &dyn Fn(&str) -> (String, String)| {
        let mut parts: BTreeMap<(String, String), Vec<VertexId>> = BTreeMap::new();
        for member in members {
            parts.entry(by(key(member))).or_default().push(*member);
        }
        parts
    };
    let by_pattern = divided(&|key| {
        (
            directory(key).to_owned(),
            // A name without a path is matched by its pattern: tasks of an array.
            pattern(last_part(key)),
        )
    });
    // A part with a single member has no pattern.
    let large = by_pattern.values().filter(|m| m.len() >= ALIKE_MIN);
    if by_pattern.len() <= PARTS_MAX && large.count() > 0 {
        return named(by_pattern, "pattern");
    }
    let by_directory = divided(&|key| (directory(key).to_owned(), String::new()));
    if by_directory.len() <= PARTS_MAX {
        return named(by_directory, "directory");
    }
    let common = members
        .iter()
        .map(key)
        .fold(None, |common: Option<&str>, key| {
            Some(common.map_or(directory(key), |common| shared(common, key)))
        });
    let type_name = members.first().and_then(|m| selection.all.get(m));
    let type_name = type_name.map_or("", |one| one.label.type_name.as_str());
    vec![Part {
        by: "type",
        label: match common {
            Some(common) if !common.is_empty() => format!("{common}/…"),
            _ => type_name.to_owned(),
        },
        detail: format!("in {} directories", by_directory.len()),
        members: members.to_vec(),
    }]
}

fn named(parts: BTreeMap<(String, String), Vec<VertexId>>, by: &'static str) -> Vec<Part> {
    let parts = parts.into_iter().map(|((directory, pattern), members)| {
        let (label, detail) = match (directory.is_empty(), pattern.is_empty()) {
            (_, true) => (last_part(&directory).to_owned() + "/", directory),
            (true, false) => (pattern, String::new()),
            (false, false) => (pattern, directory),
        };
        Part {
            by,
            label,
            detail,
            members,
        }
    });
    parts.collect()
}

/// Returns the common ancestor of a directory and a path.
fn shared<'a>(directory: &'a str, path: &str) -> &'a str {
    let (mut end, mut at) = (0, 0);
    for (a, b) in directory.split('/').zip(path.split('/')) {
        if a != b {
            break;
        }
        end = at + a.len();
        at = end + 1;
    }
    directory.get(..end).unwrap_or("")
}

fn vertex_box(id: VertexId, one: &SelectedVertex, request: &PictureRequest) -> PictureBox {
    PictureBox {
        id: one.label.name.clone(),
        kind: "vertex",
        type_name: one.label.type_name.clone(),
        execution: one.execution,
        label: one.label.label.clone(),
        detail: one.label.detail.clone(),
        x: 0.0,
        y: 0.0,
        w: 0.0,
        h: 0.0,
        layer: 0,
        focus: id == request.focus,
        version: one.version.map(|v| v.to_string()),
        deleted: one.deleted,
        up: one.up,
        down: one.down,
        members: 1,
        by: None,
    }
}

fn group_box(id: &str, part: &Part, selection: &Selection) -> PictureBox {
    let members = part.members.iter().filter_map(|m| selection.all.get(m));
    let first = members.clone().next();
    PictureBox {
        id: id.to_owned(),
        kind: "group",
        type_name: first.map_or_else(String::new, |one| one.label.type_name.clone()),
        execution: first.is_some_and(|one| one.execution),
        label: part.label.clone(),
        detail: part.detail.clone(),
        x: 0.0,
        y: 0.0,
        w: 0.0,
        h: 0.0,
        layer: 0,
        focus: false,
        version: None,
        deleted: false,
        up: members.clone().map(|one| one.up).sum(),
        down: members.map(|one| one.down).sum(),
        members: part.members.len() as u64,
        by: Some(part.by),
    }
}
