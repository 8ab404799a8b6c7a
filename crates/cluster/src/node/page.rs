//! Limits of the pages in which servers answer each other's scans and searches.

use esker_model::{Difference, Edge, Value, Vertex};

/// Default of the largest number of edges, vertices or differences in a page.
pub const PAGE_ROWS: u32 = 1 << 14;
/// Approximate size at which a page ends, in bytes.
pub(crate) const PAGE_BYTES: usize = 1 << 20;
/// Bytes of a row in a page beside the names and texts of its values.
const ROW_BYTES: usize = 32;
const VALUE_BYTES: usize = 12;

/// Returns the approximate size of a row with these named values, in bytes.
pub(crate) fn row_size<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>) -> usize {
    let each = |(name, value): (&str, &Value)| name.len() + VALUE_BYTES + value_size(value);
    ROW_BYTES + values.map(each).sum::<usize>()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.iter().map(|v| VALUE_BYTES + value_size(v)).sum(),
        _ => 0,
    }
}

/// Returns the approximate size of a difference, in bytes.
pub(crate) fn difference_size(difference: &Difference) -> usize {
    let vertex = |v: &Vertex| {
        let user = v.user.iter().map(|a| (a.name.as_str(), &a.value));
        v.key.len() + row_size(v.attributes.iter().chain(user))
    };
    let edge = |e: &Edge| row_size(e.properties.iter());
    match difference {
        Difference::Vertex(before, after) => {
            [before, after].into_iter().flatten().map(vertex).sum()
        }
        Difference::Edge(before, after) => [before, after].into_iter().flatten().map(edge).sum(),
    }
}
