//! Where data came from and what became of it, as a picture: inputs on the left, what was made from them on the right.
//!
//! ```text
//!  shown.rs    which boxes and lines: the focus, a level up and down, what was opened; by the engine's walks, version by version
//!  group.rs    boxes that hang together with just the same others become one with a count
//!  refine.rs   so do those whose neighbours are alike: tasks of an array, and what each wrote
//!  versions.rs when something of the picture changed: where the slider of times has marks
//!  layout      where everything is
//! ```
//!
//! A level is one execution with the data beyond it.

mod group;
mod refine;
mod shown;
mod versions;

#[cfg(test)]
mod tests;

use crate::layout::{Gaps, Size, draw};
use esker_model::{Cancel, GraphRead, Result, Version, VertexId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Levels that are shown on one side of the focus, at most.
pub const LEVELS_MAX: u32 = 16;
/// Vertices that may be opened, and groups that may be shown one by one.
pub const OPEN_MAX: usize = 256;
/// Members of a group that is shown one by one; the others stay a group.
pub const SPLIT_MAX: usize = 50;
/// Vertices that the walks look at.
const VERTICES_MAX: u64 = 20_000;
/// Edges that the walks look at.
const EDGES_MAX: u64 = 200_000;

/// Which sides of a vertex are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sides {
    /// What it was made from.
    pub up: bool,
    /// What was made from it.
    pub down: bool,
}

/// Which picture.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What it is of: data, an execution, an executable or a user.
    pub focus: VertexId,
    /// As it was then.
    pub as_of: Version,
    /// Levels to the left of the focus.
    pub up: u32,
    /// Levels to the right of it.
    pub down: u32,
    /// What else is opened.
    pub open: BTreeMap<VertexId, Sides>,
    /// Groups, by their ids, that are shown one by one.
    pub split: BTreeSet<String>,
}

/// The picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// The name of the vertex that it is of.
    pub focus: String,
    /// As of when; nothing means now.
    pub as_of: Option<String>,
    /// Of all.
    pub width: f64,
    /// Of all.
    pub height: f64,
    /// Vertices and groups of them.
    pub boxes: Vec<Shown>,
    /// How they hang together.
    pub lines: Vec<Line>,
    /// Where walks stopped before everything asked for was found.
    pub stopped: Vec<StoppedAt>,
    /// Always 0: what whoever asks may not see is not there. Pages of earlier releases look for it.
    pub left_out: u64,
    /// When something of the picture changed, oldest first.
    pub versions: Vec<Tick>,
    /// Whether there were more such times than `versions` has.
    pub versions_cut: bool,
    /// What working out places took, in microseconds.
    pub layout_micros: u64,
    /// What all took.
    pub micros: u64,
}

/// A box.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The vertex's name; a group's own id.
    pub id: String,
    /// `vertex` or `group`.
    pub kind: &'static str,
    /// The name of the type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it is something that ran.
    pub execution: bool,
    /// Short.
    pub label: String,
    /// A few words more.
    pub detail: String,
    /// The left side.
    pub x: f64,
    /// The upper side.
    pub y: f64,
    /// From left to right.
    pub w: f64,
    /// From top to bottom.
    pub h: f64,
    /// Its column.
    pub layer: u32,
    /// Whether the picture is of it.
    pub focus: bool,
    /// The version of it that is shown: which write of data; when an execution was changed last.
    pub version: Option<String>,
    /// Whether it is deleted by then.
    pub deleted: bool,
    /// Neighbours on the left that are not shown.
    pub up: u64,
    /// Neighbours on the right that are not shown.
    pub down: u64,
    /// How many vertices a group stands for.
    pub members: u64,
    /// What the members have in common: `array`, `directory`, `pattern`, `type`.
    pub by: Option<&'static str>,
}

/// A line from one box to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The box on the left.
    pub from: String,
    /// The box on the right.
    pub to: String,
    /// `read`, `write`, `exe`, …: the edge's type as the schema defines it.
    #[serde(rename = "type")]
    pub edge_type: String,
    /// Its bends.
    pub points: Vec<[f64; 2]>,
    /// The newest version of the edges that it stands for.
    pub version: String,
    /// How many edges it stands for.
    pub count: u64,
    /// Whether the edge only overlapped in time: it may be involved.
    pub concurrent: bool,
    /// Whether it leads to the left.
    pub back: bool,
}

/// Where a walk stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppedAt {
    /// Names of vertices that were not followed, as far as they were kept.
    pub vertices: Vec<String>,
    /// How many there were.
    pub vertices_left: u64,
    /// Why.
    pub reason: String,
}

/// A time at which something changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// Which version.
    pub version: String,
    /// What happened: `written`, `read`, `changed`, `deleted`, …
    pub what: &'static str,
}

/// How large boxes are: room for some thirty letters, and a second line of them.
const BOX: Size = Size {
    width: 216.0,
    height: 48.0,
};

/// Works a picture out.
///
/// # Errors
/// If the focus is not there, or is nothing that data comes from or goes to; or as reading fails.
pub fn picture(graph: &dyn GraphRead, ask: &Ask, cancel: &dyn Cancel) -> Result<Picture> {
    let begun = Instant::now();
    let schema = graph.schema()?;
    let seen = shown::look(graph, &schema, ask, cancel)?;
    let grouped = group::group(&seen, ask);
    let before = Instant::now();
    let sizes = vec![BOX; grouped.boxes.len()];
    let ends: Vec<(usize, usize)> = grouped.lines.iter().map(|l| (l.from, l.to)).collect();
    let drawing = draw(&sizes, &ends, Gaps::default());
    let layout_micros = micros(before);
    let shown = grouped.lines.iter().map(|l| (l.edge_type, l.version));
    let (versions, versions_cut) = versions::ticks(graph, seen.roles, ask, shown)?;

    let boxes = grouped
        .boxes
        .iter()
        .zip(&drawing.boxes)
        .map(|(one, place)| {
            let mut one = one.clone();
            (one.x, one.y, one.w, one.h) = (place.x, place.y, BOX.width, BOX.height);
            one.layer = place.layer;
            one
        });
    let boxes: Vec<Shown> = boxes.collect();
    let id = |number: usize| boxes.get(number).map_or("", |b| b.id.as_str()).to_owned();
    let lines = grouped
        .lines
        .iter()
        .zip(&drawing.lines)
        .map(|(line, drawn)| Line {
            from: id(line.from),
            to: id(line.to),
            edge_type: schema
                .edge_type(line.edge_type)
                .map_or_else(String::new, |t| t.name.clone()),
            points: drawn.points.clone(),
            version: line.version.to_string(),
            count: line.count,
            concurrent: line.concurrent,
            back: drawn.back,
        });
    Ok(Picture {
        focus: seen.focus_name.clone(),
        as_of: (ask.as_of != Version::MAX).then(|| ask.as_of.to_string()),
        width: drawing.width,
        height: drawing.height,
        lines: lines.collect(),
        boxes,
        stopped: seen.stopped,
        left_out: 0,
        versions,
        versions_cut,
        layout_micros,
        micros: micros(begun),
    })
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
