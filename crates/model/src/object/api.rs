//! The traits of the objects' door, beside [`GraphRead`] and [`GraphWrite`]. Creating and moving objects are mutations
//! ([`crate::Op::CreateObject`], [`crate::Op::MoveObject`]), and so are tags of single objects
//! ([`crate::Op::SetAttributes`]) and predefined attributes ([`crate::Op::ChangeVertex`]).

use super::{Asker, Find, FindReport, Found, ObjectKey, TagInfo, TagReport, TagWhere};
use crate::error::Result;
use crate::graph::{Cancel, Flow, GraphRead, GraphWrite};

/// Looking for objects.
pub trait ObjectRead: GraphRead {
    /// Objects by number or by all their ID attributes (E-search), in the order asked for: `None` where there is none, or
    /// none that the asker may read.
    fn read_objects(&self, keys: &[ObjectKey], asker: Option<&Asker>)
    -> Result<Vec<Option<Found>>>;

    /// Objects by what holds of them (P-search). A name that no object has is no error: the report says so.
    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport>;

    /// All names that objects which the asker may read have values under: by name, predefined ones first.
    fn tags(&self, asker: Option<&Asker>) -> Result<Vec<TagInfo>>;
}

/// Changing many objects.
pub trait ObjectWrite: ObjectRead + GraphWrite {
    /// Changes the tags of all objects that a filter holds of, all or nothing (each server of a cluster its own).
    fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport>;

    /// Lets searches use an index on a name, or forbids it; false if that is so already. An index is built by the first
    /// search that wants it.
    fn set_index(&self, name: &str, on: bool) -> Result<bool>;
}
