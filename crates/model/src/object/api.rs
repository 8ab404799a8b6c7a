//! API traits for objects, in addition to [`GraphRead`] and [`GraphWrite`]. Creating and moving objects are mutations
//! ([`crate::Op::CreateObject`], [`crate::Op::MoveObject`]), and so are changes of the tags of single objects
//! ([`crate::Op::SetAttributes`]) and of predefined attributes ([`crate::Op::ChangeVertex`]).

use super::{Find, FindReport, Found, ObjectKey, Principal, TagInfo, TagReport, TagWhere};
use crate::error::Result;
use crate::graph::{Cancel, Flow};
use crate::graph_read::{GraphRead, GraphWrite};

/// Read access to objects.
pub trait ObjectRead: GraphRead {
    /// Looks up objects by number or by all their ID attributes (E-search); the result keeps the order of `keys`.
    /// `None` where there is no such object or the principal may not read it.
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>>;

    /// Searches objects by a filter (P-search). A name in the filter that no object has is not an error: the report
    /// lists it.
    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport>;

    /// Returns all attribute and tag names of objects that the principal may read, sorted by name, predefined ones
    /// first.
    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>>;
}

/// Changes of many objects at once.
pub trait ObjectWrite: ObjectRead + GraphWrite {
    /// Changes the tags of all objects that match a filter, atomically (in a cluster, atomically on each server).
    fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport>;

    /// Allows or forbids an index on a name. Returns false if nothing changed. The first search that can use an index
    /// builds it.
    fn set_index(&self, name: &str, on: bool) -> Result<bool>;
}
