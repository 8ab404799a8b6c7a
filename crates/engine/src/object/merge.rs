//! Merges the rows of objects with other rows in key order.

use super::table::Table as Columns;
use esker_model::key::{
    position, single_vertex, type_index, type_index_prefix, vertex as vertex_key,
};
use esker_model::object::ObjectId;
use esker_model::{Result, VertexTypeId};
use esker_store::{Cursor, KeyRange, Table};

/// Appends the key of an object's row in a table.
pub(super) fn key_of(table: Table, type_id: VertexTypeId, id: ObjectId, key: &mut Vec<u8>) {
    key.clear();
    match table {
        Table::Index => key.extend_from_slice(&type_index(type_id, id.vertex())),
        _ => key.extend_from_slice(&vertex_key(id.vertex())),
    }
}

/// Returns the objects with a slot below `slots` that have a row in a range of a table, in the order of their ids.
pub(super) fn objects_within(
    columns: &Columns,
    table: Table,
    range: &KeyRange,
    slots: u32,
) -> Vec<ObjectId> {
    if columns.slots() == 0 || !may_overlap(columns, table, range) {
        return Vec::new();
    }
    let mut key = Vec::new();
    let mut inside = |id: ObjectId| {
        key_of(table, columns.type_id, id, &mut key);
        key >= range.from && range.until.as_ref().is_none_or(|until| key < *until)
    };
    if table == Table::Rows
        && let Some((from, until)) = narrow_range(range)
    {
        let near = (from..=until).map(|head| ObjectId(head >> 1));
        let there = |id: &ObjectId| columns.slot_of(*id).is_some_and(|slot| slot < slots);
        let mut ids: Vec<_> = near.filter(there).filter(|id| inside(*id)).collect();
        ids.dedup();
        return ids;
    }
    let all = columns.ids.iter().take(slots as usize).copied();
    let mut ids: Vec<_> = all.filter(|id| inside(*id)).collect();
    ids.sort_unstable();
    ids
}

/// Returns the first halves of the ids in a narrow range of rows.
fn narrow_range(range: &KeyRange) -> Option<(u64, u64)> {
    let (from, until) = (position(&range.from)?, position(range.until.as_ref()?)?);
    (until.checked_sub(from)? < 64).then_some((from, until))
}

/// Excludes cheaply nearly all ranges that are read: the edges of one vertex.
fn may_overlap(columns: &Columns, table: Table, range: &KeyRange) -> bool {
    match table {
        Table::Rows => match single_vertex(&range.from, range.until.as_deref()) {
            Some((id, has_own_row)) => has_own_row && ObjectId::of_vertex(id).is_some(),
            None => true,
        },
        Table::Index => {
            let listed = KeyRange::prefix(&type_index_prefix(columns.type_id));
            let before = range.until.as_ref().is_some_and(|u| *u <= listed.from);
            let behind = listed.until.as_ref().is_some_and(|u| range.from >= *u);
            !before && !behind
        }
        _ => false,
    }
}

/// Encodes an object's key and value; returns false if the snapshot does not have the object.
pub(super) type RowEncoder<'s> = Box<dyn Fn(ObjectId, &mut Vec<u8>, &mut Vec<u8>) -> bool + 's>;

/// A cursor that merges rows of the store with those of objects.
pub(super) struct ObjectMergeCursor<'s> {
    below: Box<dyn Cursor + 's>,
    /// Whether `below` is at a row that was not returned yet; `None` before it was advanced.
    more: Option<bool>,
    ids: std::vec::IntoIter<ObjectId>,
    row: RowEncoder<'s>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether `key` and `value` are an object's row that was not returned yet.
    ready: bool,
    /// Whether the present row is an object's.
    own: bool,
}

impl<'s> ObjectMergeCursor<'s> {
    pub(super) fn new(
        below: Box<dyn Cursor + 's>,
        ids: Vec<ObjectId>,
        row: RowEncoder<'s>,
    ) -> Self {
        Self {
            below,
            more: None,
            ids: ids.into_iter(),
            row,
            key: Vec::new(),
            value: Vec::new(),
            ready: false,
            own: false,
        }
    }
}

impl Cursor for ObjectMergeCursor<'_> {
    fn advance(&mut self) -> Result<bool> {
        // Consume the row returned last.
        if self.own {
            self.ready = false;
        } else if self.more == Some(true) {
            self.more = None;
        }
        while !self.ready {
            let Some(id) = self.ids.next() else { break };
            self.ready = (self.row)(id, &mut self.key, &mut self.value);
        }
        let more = match self.more {
            Some(more) => more,
            None => self.below.advance()?,
        };
        self.more = Some(more);
        self.own = self.ready && (!more || self.key.as_slice() < self.below.key());
        Ok(self.own || more)
    }

    fn key(&self) -> &[u8] {
        if self.own {
            &self.key
        } else {
            self.below.key()
        }
    }

    fn value(&self) -> &[u8] {
        if self.own {
            &self.value
        } else {
            self.below.value()
        }
    }
}
