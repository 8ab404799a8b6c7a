//! Reading one consistent moment of the store: vertices, edges, histories, differences.

mod diff;
mod edges;
mod history;
mod source;
mod vertices;

pub(crate) use diff::diff;
pub(crate) use edges::{ranges_ahead, read_edges, scan_edges, scan_one};
pub(crate) use history::{edge_history, vertex_history};
pub(crate) use source::Source;
pub(crate) use vertices::{
    attributes_as_of, decode_attribute_event, exists, past_of_vertex, read_vertex, read_vertices,
    scan_type_index, scan_vertices, vertex_record,
};

use esker_model::codec::DecodeError;
use esker_model::{Error, Result};

/// A row of that table that does not decode.
pub(crate) fn corrupt(table: &str, e: DecodeError) -> Error {
    Error::corrupt(format!("a row of table `{table}`"), e)
}

/// Keeps the first error of a sink that can only break.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<Error>);

impl FirstError {
    /// The value, or a break with the error kept.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> std::ops::ControlFlow<(), T> {
        match result {
            Ok(value) => std::ops::ControlFlow::Continue(value),
            Err(e) => {
                self.0 = Some(e);
                std::ops::ControlFlow::Break(())
            }
        }
    }

    /// The error, if there was one.
    pub(crate) fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
