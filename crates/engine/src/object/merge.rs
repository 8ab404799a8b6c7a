//! Objects' rows among others, in the order of their keys.

use super::table::Table as Columns;
use esker_model::key::{type_index, type_index_prefix, vertex as vertex_key};
use esker_model::object::ObjectId;
use esker_model::{Result, VertexId, VertexTypeId};
use esker_store::{Cursor, KeyRange, Table};

/// The key of an object's row in a table.
pub(super) fn key_of(table: Table, type_id: VertexTypeId, id: ObjectId, key: &mut Vec<u8>) {
    key.clear();
    match table {
        Table::Index => key.extend_from_slice(&type_index(type_id, id.vertex())),
        _ => key.extend_from_slice(&vertex_key(id.vertex())),
    }
}

/// The objects with a slot below `slots` that have a row in a range of a table, in the order of their ids.
pub(super) fn objects_within(
    columns: &Columns,
    table: Table,
    range: &KeyRange,
    slots: u32,
) -> Vec<ObjectId> {
    if columns.slots() == 0 || !may_lie_within(columns, table, range) {
        return Vec::new();
    }
    let mut key = Vec::new();
    let mut inside = |id: ObjectId| {
        key_of(table, columns.type_id, id, &mut key);
        key >= range.from && range.until.as_ref().is_none_or(|until| key < *until)
    };
    if table == Table::Rows
        && let Some((from, until)) = few(range)
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

/// The first halves of the ids that a narrow range of rows can hold.
fn few(range: &KeyRange) -> Option<(u64, u64)> {
    let head = |key: &[u8]| key.first_chunk().map(|head| u64::from_be_bytes(*head));
    let (from, until) = (head(&range.from)?, head(range.until.as_ref()?)?);
    (until.checked_sub(from)? < 64).then_some((from, until))
}

/// Decides at a glance for nearly all ranges that are read: the edges of one vertex.
fn may_lie_within(columns: &Columns, table: Table, range: &KeyRange) -> bool {
    match table {
        Table::Rows => {
            let (Some(from), Some(marker)) = (range.from.get(..16), range.from.get(16)) else {
                return true;
            };
            let same = range.until.as_ref().and_then(|u| u.get(..16)) == Some(from);
            let object = from
                .try_into()
                .ok()
                .map(VertexId)
                .and_then(ObjectId::of_vertex);
            !same || (object.is_some() && *marker <= 1)
        }
        Table::Index => {
            let listed = KeyRange::prefix(&type_index_prefix(columns.type_id));
            let before = range.until.as_ref().is_some_and(|u| *u <= listed.from);
            let behind = listed.until.as_ref().is_some_and(|u| range.from >= *u);
            !before && !behind
        }
        _ => false,
    }
}

/// Makes an object's key and value; false if it has none at that moment.
pub(super) type Row<'s> = Box<dyn Fn(ObjectId, &mut Vec<u8>, &mut Vec<u8>) -> bool + 's>;

/// A cursor over the rows below and those of objects.
pub(super) struct Mixed<'s> {
    below: Box<dyn Cursor + 's>,
    /// Whether there is a row below that was not given yet; `None` before it was asked.
    more: Option<bool>,
    ids: std::vec::IntoIter<ObjectId>,
    row: Row<'s>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether `key` and `value` are an object's row that was not given yet.
    ready: bool,
    /// Whether the present row is an object's.
    own: bool,
}

impl<'s> Mixed<'s> {
    pub(super) fn new(below: Box<dyn Cursor + 's>, ids: Vec<ObjectId>, row: Row<'s>) -> Self {
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

impl Cursor for Mixed<'_> {
    fn advance(&mut self) -> Result<bool> {
        // What was given last is done with.
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
