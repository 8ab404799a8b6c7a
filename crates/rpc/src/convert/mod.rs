//! Conversion of messages to the model's types and back.
//!
//! Received messages are checked here: type numbers out of range, a list of ids with half an id, both forms of a value at
//! once. The error names the field as the `.proto` files do, with the index in lists: `mutations[3].put_edge.source`. The
//! engine checks the meaning of a batch.

#![deny(clippy::indexing_slicing)]

mod admin;
mod graph;
mod ids;
mod mutation;
mod namespace;
mod object;
mod schema;
mod sharing;
mod travel;
mod value;

pub use admin::{counts_in, counts_out, degree_of_in, degree_out};
pub use graph::{
    diff_select_in, difference_out, edge_event_out, edge_out, scanned_out, select_in,
    vertex_event_out, vertex_out,
};
pub use ids::{
    as_of_in, edge_key_in, edge_key_out, edge_type_in, halves, ids_in, ids_out, number_in,
    range_in, type_in, vertex_id, vertex_ref_in, vertex_ref_out,
};
pub use mutation::{batch_in, batch_out, commit_in, commit_out, mutation_in, mutation_out};
pub use namespace::{
    at_path_in, at_path_out, changes_in, changes_out, cookie_in, cookie_out, directory_usage_in,
    directory_usage_out, entry_in, entry_out, file_change_in, file_change_out, inode_in, inode_out,
    looked_in, looked_out, open_in, outcome_in, outcomes_in, outcomes_out, partition_in,
    partition_out, path_in, path_out, route_in, route_out, space_by_in, space_by_out, space_in,
    space_out, usage_in, usage_out, walked_in, walked_out,
};
pub use object::{
    find_in, find_out, found_in, found_out, identity_in, identity_out, object_key_in,
    object_key_out, principal_in, principal_out, report_in, report_out, tag_info_in, tag_info_out,
    tag_report_in, tag_report_out, tag_where_in, tag_where_out,
};
pub use schema::{change_in, change_out, schema_in, schema_out};
pub use sharing::{share_call_in, share_call_out, share_in, share_out};
pub use travel::{budget_in, pieces, reason_in, reason_out, traversal_in};
pub use value::{properties_in, properties_out, value_in, value_out};

use esker_model::Error;
use std::fmt::Write as _;

/// Encoding of properties and values in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The model's own encoding, which takes a fifth of the time.
    #[default]
    Packed,
    /// Protobuf messages, for clients without the model's encoding.
    Typed,
}

/// Error for a message that violates its definition.
#[derive(Debug)]
pub struct Malformed {
    /// Path to the field, outermost name first.
    field: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Expected(String),
    /// The field is well-formed, but refers to something that does not exist.
    Model(Box<Error>),
}

/// Result of every decoder.
pub type Decoded<T> = Result<T, Malformed>;

impl Malformed {
    /// Error for a field with another value than expected.
    pub fn new(field: &str, expected: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            why: Why::Expected(expected.into()),
        }
    }

    /// Error for a well-formed field with an invalid meaning.
    pub fn model(error: impl Into<Error>) -> Self {
        Self {
            field: String::new(),
            why: Why::Model(Box::new(error.into())),
        }
    }

    /// Adds the enclosing field to the path.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        if self.field.is_empty() {
            outer.clone_into(&mut self.field);
        } else {
            self.field = format!("{outer}.{}", self.field);
        }
        self
    }

    #[must_use]
    fn item(self, outer: &str, index: usize) -> Self {
        let mut place = outer.to_owned();
        let _ = write!(place, "[{index}]");
        self.within(&place)
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        match malformed.why {
            Why::Model(error) => *error,
            Why::Expected(expected) => Self::Invalid(format!(
                "malformed message: `{}`: expected {expected}",
                malformed.field
            )),
        }
    }
}

/// Adds the field's path to errors.
pub trait At<T> {
    /// Adds `field` to the path of an error.
    fn at(self, field: &str) -> Decoded<T>;
}

impl<T> At<T> for Decoded<T> {
    fn at(self, field: &str) -> Self {
        self.map_err(|e| e.within(field))
    }
}

/// Returns the value of a mandatory field.
pub fn required<T>(value: Option<T>, field: &str) -> Decoded<T> {
    value.ok_or_else(|| Malformed::new(field, "a message, but it is absent"))
}

/// Decodes each item of a list.
pub fn list<T, M>(
    items: Vec<M>,
    field: &str,
    mut decode: impl FnMut(M) -> Decoded<T>,
) -> Decoded<Vec<T>> {
    let mut out = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        out.push(decode(item).map_err(|e| e.item(field, i))?);
    }
    Ok(out)
}
