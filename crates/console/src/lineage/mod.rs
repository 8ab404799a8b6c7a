//! Lineage and impact of a vertex as a picture: inputs on the left, derived data on the right.
//!
//! ```text
//!  shown.rs    boxes and lines: the focus, levels up and down, opened vertices; by the engine's traversals, version by version
//!  group.rs    merges boxes with lines to the same others into one with a count
//!  refine.rs   merges boxes whose neighbours are alike: tasks of an array, and what each wrote
//!  versions.rs times of changes in the picture: the marks of the time slider
//!  layout      positions of boxes and lines
//! ```
//!
//! A level is one execution with the data beyond it.

mod group;
mod refine;
mod selection;
mod versions;

#[cfg(test)]
mod tests;

use crate::layout::{Gaps, Size, draw};
use esker_model::{Cancel, GraphRead, Result, Version, VertexId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Maximum number of levels on one side of the focus.
pub const LEVELS_MAX: u32 = 16;
/// Maximum number of opened vertices, and of split groups.
pub const OPEN_MAX: usize = 256;
/// Maximum number of members of a split group shown as boxes; the rest stays a group.
pub const SPLIT_MAX: usize = 50;
/// Maximum number of vertices that the traversals visit.
const VERTICES_MAX: u64 = 20_000;
/// Maximum number of edges that the traversals visit.
const EDGES_MAX: u64 = 200_000;

/// Sides of a vertex that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenSides {
    /// Whether its inputs are shown.
    pub up: bool,
    /// Whether data derived from it is shown.
    pub down: bool,
}

/// Request for a picture.
#[derive(Debug, Clone)]
pub struct PictureRequest {
    /// Vertex at the centre: data, an execution, an executable or a user.
    pub focus: VertexId,
    /// Version as of which the picture is drawn.
    pub as_of: Version,
    /// Number of levels to the left of the focus.
    pub up: u32,
    /// Number of levels to the right of the focus.
    pub down: u32,
    /// Further opened vertices, with their sides.
    pub open: BTreeMap<VertexId, OpenSides>,
    /// Ids of groups whose members are shown as boxes.
    pub split: BTreeSet<String>,
}

/// Picture of a lineage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Name of the vertex at the centre.
    pub focus: String,
    /// Version as of which it is drawn; `None` for now.
    pub as_of: Option<String>,
    /// Total width of the picture.
    pub width: f64,
    /// Total height of the picture.
    pub height: f64,
    /// Vertices and groups of them.
    pub boxes: Vec<PictureBox>,
    /// Lines between the boxes.
    pub lines: Vec<Line>,
    /// Traversals that stopped before they found everything requested.
    pub stopped: Vec<StoppedAt>,
    /// Number of vertices that would be in the picture if the principal could see them ([`count_hidden`]); 0 if the host tells no numbers.
    pub left_out: u64,
    /// Times of changes in the picture, oldest first.
    pub versions: Vec<Tick>,
    /// Whether `versions` was truncated.
    pub versions_cut: bool,
    /// Time of the layout, in microseconds.
    pub layout_micros: u64,
    /// Total time, in microseconds.
    pub micros: u64,
}

/// A box of the picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PictureBox {
    /// Name of the vertex, or id of the group.
    pub id: String,
    /// Either `vertex` or `group`.
    pub kind: &'static str,
    /// Name of the type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it is an execution.
    pub execution: bool,
    /// Short label for display.
    pub label: String,
    /// Short description for display.
    pub detail: String,
    /// Left side of the box.
    pub x: f64,
    /// Upper side of the box.
    pub y: f64,
    /// Width of the box.
    pub w: f64,
    /// Height of the box.
    pub h: f64,
    /// Column of the box.
    pub layer: u32,
    /// Whether it is the focus of the picture.
    pub focus: bool,
    /// Shown version: the write of data, or the last change of an execution.
    pub version: Option<String>,
    /// Whether it is deleted as of then.
    pub deleted: bool,
    /// Number of left neighbours that are not shown.
    pub up: u64,
    /// Number of right neighbours that are not shown.
    pub down: u64,
    /// Number of vertices in the group.
    pub members: u64,
    /// Common property of the members: `array`, `directory`, `pattern`, `type`.
    pub by: Option<&'static str>,
}

/// A line from one box to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Id of the box on the left.
    pub from: String,
    /// Id of the box on the right.
    pub to: String,
    /// Edge type as defined by the schema: `read`, `write`, `exe` and others.
    #[serde(rename = "type")]
    pub edge_type: String,
    /// Bends of the line.
    pub points: Vec<[f64; 2]>,
    /// Newest version of its edges.
    pub version: String,
    /// Number of its edges.
    pub count: u64,
    /// Whether the edge only overlapped in time: it may be involved.
    pub concurrent: bool,
    /// Whether it leads to the left.
    pub back: bool,
}

/// Vertices at which a traversal stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppedAt {
    /// Names of vertices that were not followed, as far as they were kept.
    pub vertices: Vec<String>,
    /// Number of such vertices.
    pub vertices_left: u64,
    /// Reason why it stopped.
    pub reason: String,
}

/// Time of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// Version of the change.
    pub version: String,
    /// Kind of change: `written`, `read`, `changed`, `deleted` and others.
    pub what: &'static str,
}

/// Size of a box: room for about thirty characters, in two lines.
const BOX: Size = Size {
    width: 216.0,
    height: 48.0,
};

/// Computes a picture.
///
/// # Errors
/// Fails if the focus does not exist, or takes no part in lineage; passes on read errors.
pub fn picture(
    graph: &dyn GraphRead,
    request: &PictureRequest,
    cancel: &dyn Cancel,
) -> Result<Picture> {
    let begun = Instant::now();
    let schema = graph.schema()?;
    let selection = selection::select(graph, &schema, request, cancel)?;
    let grouped = group::group(&selection, request);
    let before = Instant::now();
    let sizes = vec![BOX; grouped.boxes.len()];
    let ends: Vec<(usize, usize)> = grouped.lines.iter().map(|l| (l.from, l.to)).collect();
    let drawing = draw(&sizes, &ends, Gaps::default());
    let layout_micros = micros(before);
    let shown = grouped.lines.iter().map(|l| (l.edge_type, l.version));
    let (versions, versions_cut) = versions::ticks(graph, selection.roles, request, shown)?;

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
    let boxes: Vec<PictureBox> = boxes.collect();
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
        focus: selection.focus_name.clone(),
        as_of: (request.as_of != Version::MAX).then(|| request.as_of.to_string()),
        width: drawing.width,
        height: drawing.height,
        lines: lines.collect(),
        boxes,
        stopped: selection.stopped,
        left_out: 0,
        versions,
        versions_cut,
        layout_micros,
        micros: micros(begun),
    })
}

/// Returns the number of vertices of a picture that a principal cannot see: `all` is the whole graph, `visible` the principal's view.
///
/// # Errors
/// As [`picture`].
pub fn count_hidden(
    all: &dyn GraphRead,
    visible: &dyn GraphRead,
    request: &PictureRequest,
    cancel: &dyn Cancel,
) -> Result<u64> {
    let schema = all.schema()?;
    let selection = selection::select(all, &schema, request, cancel)?;
    let stored = all.read_vertices(&selection.order, request.as_of)?;
    let stored: Vec<VertexId> = stored.into_iter().flatten().map(|v| v.id).collect();
    let seen = visible.read_vertices(&stored, request.as_of)?;
    Ok(seen.iter().filter(|vertex| vertex.is_none()).count() as u64)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
