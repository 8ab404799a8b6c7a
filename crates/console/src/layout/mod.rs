//! Layered drawings: boxes in columns, lines from left to right, after Sugiyama, Tagawa and Toda (1981).
//!
//! ```text
//!  layers.rs   columns: lines reversed until there is no cycle, longest paths, sources moved next to their successors
//!  order.rs    order in the column: medians and exchanges of neighbours, the order with the fewest crossings is kept
//!  place.rs    heights: each column moved close to its neighbours by isotonic regression, keeping order and distance
//! ```
//!
//! The layout is deterministic.

mod layers;
mod order;
mod position;

/// Size of a box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Horizontal extent of the box.
    pub width: f64,
    /// Vertical extent of the box.
    pub height: f64,
}

/// Distances between boxes and lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gaps {
    /// Distance between adjacent columns.
    pub columns: f64,
    /// Distance between boxes of a column.
    pub rows: f64,
    /// Distance between lines that pass through a column.
    pub lines: f64,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            columns: 72.0,
            rows: 16.0,
            lines: 10.0,
        }
    }
}

/// Position of a box: its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxPosition {
    /// Distance from the left border.
    pub x: f64,
    /// Distance from the top border.
    pub y: f64,
    /// Column of the box, from 0.
    pub layer: u32,
}

/// Route of a line, from the right side of one box to the left side of another.
#[derive(Debug, Clone, PartialEq)]
pub struct LineRoute {
    /// `[x, y]` of each bend, ends included; empty if it leads from a box to itself.
    pub points: Vec<[f64; 2]>,
    /// Whether it leads from right to left: it closes a cycle.
    pub back: bool,
}

/// Layout of boxes and lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Positions of the boxes, in input order.
    pub boxes: Vec<BoxPosition>,
    /// Routes of the lines, in input order.
    pub lines: Vec<LineRoute>,
    /// Total width of the drawing.
    pub width: f64,
    /// Total height of the drawing.
    pub height: f64,
}

/// A box, or a bend where a long line passes through a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutItem {
    Box(usize),
    /// Bend of the line with this number.
    Bend(usize),
}

/// Columns of items, and lines between items of adjacent columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) items: Vec<LayoutItem>,
    /// Items of each column, in order.
    pub(crate) stacks: Vec<Vec<usize>>,
    /// Left neighbours of each item.
    pub(crate) left: Vec<Vec<usize>>,
    /// Right neighbours of each item.
    pub(crate) right: Vec<Vec<usize>>,
}

/// Lays out boxes and the lines (from, to) between them.
///
/// # Panics
/// Panics if a line names a box that does not exist.
pub fn draw(sizes: &[Size], lines: &[(usize, usize)], gaps: Gaps) -> Drawing {
    let layered = layers::layers(sizes.len(), lines);
    let (mut columns, ways) = columns(sizes.len(), lines, &layered);
    order::order(&mut columns);
    let middles = position::positions(&columns, sizes, gaps);
    assemble(sizes, lines, &layered, &columns, &ways, &middles, gaps)
}

/// Returns the columns, and the items through which each line passes, from left to right.
fn columns(
    boxes: usize,
    lines: &[(usize, usize)],
    layered: &layers::Layered,
) -> (Columns, Vec<Vec<usize>>) {
    let count = layered.layer.iter().max().map_or(0, |last| last + 1);
    let mut out = Columns {
        items: (0..boxes).map(LayoutItem::Box).collect(),
        stacks: vec![Vec::new(); count],
        left: vec![Vec::new(); boxes],
        right: vec![Vec::new(); boxes],
    };
    for (item, layer) in layered.layer.iter().enumerate() {
        out.stacks[*layer].push(item);
    }
    let mut ways = Vec::with_capacity(lines.len());
    for (number, (from, to)) in lines.iter().enumerate() {
        let (from, to) = if layered.back[number] {
            (*to, *from)
        } else {
            (*from, *to)
        };
        let mut way = vec![from];
        if from != to {
            for layer in layered.layer[from] + 1..layered.layer[to] {
                let bend = out.items.len();
                out.items.push(LayoutItem::Bend(number));
                out.left.push(Vec::new());
                out.right.push(Vec::new());
                out.stacks[layer].push(bend);
                way.push(bend);
            }
            way.push(to);
            for pair in way.windows(2) {
                if let [a, b] = pair {
                    out.right[*a].push(*b);
                    out.left[*b].push(*a);
                }
            }
        }
        ways.push(way);
    }
    (out, ways)
}

/// Converts columns and heights to a drawing with its origin at 0, 0.
fn assemble(
    sizes: &[Size],
    lines: &[(usize, usize)],
    layered: &layers::Layered,
    columns: &Columns,
    ways: &[Vec<usize>],
    middles: &[f64],
    gaps: Gaps,
) -> Drawing {
    let mut left = Vec::with_capacity(columns.stacks.len());
    let mut widths = Vec::with_capacity(columns.stacks.len());
    let mut x = 0.0;
    for column in &columns.stacks {
        let boxes = column.iter().filter_map(|item| sizes.get(*item));
        let width = boxes.map(|size| size.width).fold(0.0, f64::max);
        left.push(x);
        widths.push(width);
        x += width + gaps.columns;
    }
    let mut boxes: Vec<BoxPosition> = sizes
        .iter()
        .enumerate()
        .map(|(number, size)| {
            let layer = layered.layer[number];
            BoxPosition {
                x: left[layer],
                y: middles[number] - size.height / 2.0,
                layer: u32::try_from(layer).unwrap_or(u32::MAX),
            }
        })
        .collect();
    let mut drawn: Vec<LineRoute> = ways
        .iter()
        .enumerate()
        .map(|(number, way)| {
            let (mut points, back) = (Vec::new(), layered.back[number]);
            if lines[number].0 == lines[number].1 {
                return LineRoute { points, back };
            }
            for (place, item) in way.iter().enumerate() {
                let y = middles[*item];
                let layer = match columns.items[*item] {
                    LayoutItem::Box(number) => layered.layer[number],
                    LayoutItem::Bend(_) => layered.layer[way[0]] + place,
                };
                let (near, far) = match sizes.get(*item) {
                    Some(size) => (left[layer], left[layer] + size.width),
                    None => (left[layer], left[layer] + widths[layer]),
                };
                if place > 0 {
                    points.push([near, y]);
                }
                if place + 1 < way.len() {
                    points.push([far, y]);
                }
            }
            if back {
                points.reverse();
            }
            LineRoute { points, back }
        })
        .collect();
    let tops = boxes.iter().map(|b| b.y);
    let bends = drawn.iter().flat_map(|l| l.points.iter().map(|p| p[1]));
    let top = tops.chain(bends).fold(f64::INFINITY, f64::min);
    let top = if top.is_finite() { top } else { 0.0 };
    let mut height = 0.0_f64;
    for (placed, size) in boxes.iter_mut().zip(sizes) {
        placed.y -= top;
        height = height.max(placed.y + size.height);
    }
    for point in drawn.iter_mut().flat_map(|l| &mut l.points) {
        point[1] -= top;
        height = height.max(point[1]);
    }
    Drawing {
        boxes,
        lines: drawn,
        width: (x - gaps.columns).max(0.0),
        height,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Size = Size {
        width: 200.0,
        height: 40.0,
    };

    #[test]
    fn a_chain_is_a_straight_line() {
        let drawing = draw(&[SIZE; 3], &[(0, 1), (1, 2)], Gaps::default());
        let layers: Vec<u32> = drawing.boxes.iter().map(|b| b.layer).collect();
        assert_eq!(layers, [0, 1, 2]);
        assert!(drawing.boxes.iter().all(|b| b.y == 0.0), "{drawing:?}");
        assert_eq!(drawing.lines[0].points, [[200.0, 20.0], [272.0, 20.0]]);
        assert_eq!((drawing.width, drawing.height), (744.0, 40.0));
    }

    #[test]
    fn what_closes_a_cycle_goes_back() {
        let drawing = draw(&[SIZE; 2], &[(0, 1), (1, 0), (1, 1)], Gaps::default());
        let back: Vec<bool> = drawing.lines.iter().map(|l| l.back).collect();
        assert_eq!(back, [false, true, false]);
        assert!(drawing.lines[2].points.is_empty());
        let points = &drawing.lines[1].points;
        assert!(
            points[0][0] > points[1][0],
            "from right to left: {points:?}"
        );
    }

    #[test]
    fn a_source_is_next_to_its_successor() {
        // 0 → 1 → 2, and 3 → 2.
        let drawing = draw(&[SIZE; 4], &[(0, 1), (1, 2), (3, 2)], Gaps::default());
        assert_eq!(drawing.boxes[3].layer, 1);
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let drawing = draw(&[], &[], Gaps::default());
        assert_eq!((drawing.width, drawing.height), (0.0, 0.0));
    }

    #[test]
    fn lines_that_need_not_cross_do_not() {
        // Two trees, their leaves given alternately.
        let lines: Vec<(usize, usize)> = (2..12).map(|leaf| (leaf % 2, leaf)).collect();
        let drawing = draw(&[SIZE; 12], &lines, Gaps::default());
        let mut leaves: Vec<(f64, usize)> = (2..12).map(|n| (drawing.boxes[n].y, n % 2)).collect();
        leaves.sort_by(|a, b| a.0.total_cmp(&b.0));
        let changes = leaves.windows(2).filter(|w| w[0].1 != w[1].1).count();
        assert_eq!(changes, 1, "{leaves:?}");
    }

    proptest! {
        #[test]
        fn boxes_never_overlap_and_lines_end_at_boxes(
            boxes in 1_usize..40,
            ends in prop::collection::vec((0_usize..40, 0_usize..40), 0..120),
        ) {
            let lines: Vec<_> = ends.into_iter().map(|(a, b)| (a % boxes, b % boxes)).collect();
            let sizes: Vec<Size> = (0..boxes)
                .map(|n| Size { width: 100.0 + (n % 3) as f64 * 20.0, height: 30.0 + (n % 4) as f64 * 10.0 })
                .collect();
            let drawing = draw(&sizes, &lines, Gaps::default());
            for (a, (one, size)) in drawing.boxes.iter().zip(&sizes).enumerate() {
                prop_assert!(one.x >= 0.0 && one.y >= -1e-6);
                prop_assert!(one.x + size.width <= drawing.width + 1e-6);
                prop_assert!(one.y + size.height <= drawing.height + 1e-6);
                for (other, other_size) in drawing.boxes.iter().zip(&sizes).skip(a + 1) {
                    let apart = one.layer != other.layer
                        || one.y + size.height <= other.y + 1e-6
                        || other.y + other_size.height <= one.y + 1e-6;
                    prop_assert!(apart, "{one:?} {other:?}");
                }
            }
            for (line, (from, to)) in drawing.lines.iter().zip(&lines) {
                if from == to {
                    continue;
                }
                let (first, last) = (line.points[0], line.points[line.points.len() - 1]);
                let middle = |n: usize| drawing.boxes[n].y + sizes[n].height / 2.0;
                prop_assert!((first[1] - middle(*from)).abs() < 1e-6);
                prop_assert!((last[1] - middle(*to)).abs() < 1e-6);
                let forward = drawing.boxes[*from].layer < drawing.boxes[*to].layer;
                prop_assert_eq!(forward, !line.back);
            }
            prop_assert_eq!(&draw(&sizes, &lines, Gaps::default()), &drawing);
        }
    }
}
