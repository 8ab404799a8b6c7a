//! Reads from one consistent snapshot: vertices, edges, histories, differences.

mod diff;
mod edges;
mod history;
mod source;
mod vertices;

pub(crate) use diff::diff;
pub(crate) use edges::{prefetch_ranges, read_edges, scan_edges, scan_one};
pub(crate) use history::{edge_history, vertex_history};
pub(crate) use source::Source;
pub(crate) use vertices::{
    attributes_as_of, decode_attribute_event, exists, past_of_vertex, read_vertex, read_vertices,
    scan_type_index, scan_vertices, vertex_record,
};

use esker_model::codec::DecodeError;
use esker_model::{Error, Result};

/// Error for a row of `table` that cannot be decoded.
pub(crate) fn corrupt(table: &str, e: DecodeError) -> Error {
    Error::corrupt(format!("a row of table `{table}`"), e)
}

/// Keeps the first error in a sink, which can only break.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<Error>);

impl FirstError {
    /// Returns the value, or stores the error and breaks.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> std::ops::ControlFlow<(), T> {
        match result {
            Ok(value) => std::ops::ControlFlow::Continue(value),
            Err(e) => {
                self.0 = Some(e);
                std::ops::ControlFlow::Break(())
            }
        }
    }

    /// Returns the stored error, if any.
    pub(crate) fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
