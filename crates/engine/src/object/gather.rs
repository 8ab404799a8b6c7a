//! Search results as columns, copied directly from the object columns.

use super::column::Column;
use super::layer::{ObjectState, ObjectsGuard};
use super::select::column_of;
use crate::Engine;
use esker_model::object::{Find, FindReport, FoundColumns, Values};
use esker_model::record::VertexRecord;
use esker_model::value::ValueView;
use esker_model::{Cancel, Error, Result};

/// Objects copied per lock of the columns; bounds the time that writers wait.
const PIECE: usize = 1 << 14;

impl Engine {
    /// Searches for objects and returns the result as columns: one for each selected name, none if none is selected.
    /// Names have the same meaning as in filters.
    pub fn find_columns(&self, find: &Find, cancel: &dyn Cancel) -> Result<FoundColumns> {
        let names = find.select.as_deref().unwrap_or_default();
        let named = |name: &String| (name.clone(), Values::default());
        let mut out = FoundColumns {
            ids: Vec::new(),
            columns: names.iter().map(named).collect(),
            report: FindReport {
                complete: true,
                ..FindReport::default()
            },
        };
        let Some((slots, watch)) = self.evaluate(find, &mut out.report)? else {
            return Ok(out);
        };
        let most = find.limit.unwrap_or(u64::MAX);
        out.report.complete = slots.len() <= most;
        out.report.matches = slots.len().min(most);
        if find.count {
            return Ok(out);
        }
        let mut left = usize::try_from(out.report.matches).unwrap_or(usize::MAX);
        out.ids.reserve(left);
        let mut rest = slots.iter();
        let mut some = Vec::with_capacity(PIECE.min(left));
        while left > 0 {
            if cancel.cancelled() {
                out.report.complete = false;
                out.report.matches = out.ids.len() as u64;
                return Ok(out);
            }
            some.clear();
            some.extend(rest.by_ref().take(PIECE.min(left)));
            left = left.saturating_sub(some.len().max(1));
            gather(&self.objects.state(), &watch, &some, &mut out)?;
        }
        Ok(out)
    }
}

/// Adds some results of a search, as of its snapshot.
fn gather(
    state: &ObjectState,
    watch: &ObjectsGuard<'_>,
    slots: &[u32],
    out: &mut FoundColumns,
) -> Result<()> {
    let columns = &state.columns;
    out.ids.extend(slots.iter().map(|slot| columns.id(*slot)));
    if out.columns.is_empty() {
        return Ok(());
    }
    // Rows of objects that have changed since the snapshot.
    let mut before: Vec<Option<VertexRecord>> = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        if let Some(row) = state.before(*slot, watch.point) {
            let record =
                VertexRecord::decode(row).map_err(|e| Error::corrupt("a stored object", e))?;
            before.resize(at, None);
            before.push(Some(record));
        }
    }
    for (name, values) in &mut out.columns {
        let column = column_of(columns, name);
        if before.is_empty() {
            match column {
                Some(column) => fill(column, slots, values),
                None => slots.iter().for_each(|_| values.push(None)),
            }
            continue;
        }
        for (at, slot) in slots.iter().enumerate() {
            match before.get(at).and_then(Option::as_ref) {
                Some(record) => {
                    let value = value_of(record, column.map_or(name, |c| &c.name));
                    values.push(value.as_ref());
                }
                None => values.push(column.and_then(|c| c.get(*slot)).as_ref()),
            }
        }
    }
    Ok(())
}

/// Adds the values of slots in a column.
fn fill(column: &Column, slots: &[u32], values: &mut Values) {
    let mut rest = slots;
    let one = |values: &mut Values, rest: &mut &[u32]| {
        if let Some((slot, more)) = rest.split_first() {
            values.push(column.get(*slot).as_ref());
            *rest = more;
        }
    };
    // The first value determines the kind of the result column.
    if values.is_empty() {
        one(values, &mut rest);
    }
    match values {
        Values::I64(all) => take(&mut rest, |s| column.ints.get(s), |v| all.push(v)),
        Values::Timestamp(all) => take(&mut rest, |s| column.times.get(s), |v| all.push(v)),
        Values::F64(all) => take(
            &mut rest,
            |s| column.floats.get(s),
            |v| all.push(f64::from_bits(v)),
        ),
        Values::Text(all) => take(
            &mut rest,
            |s| column.texts.get(s),
            |word| all.push(column.dictionary.get(word)),
        ),
        Values::Mixed(_) => {}
    }
    while !rest.is_empty() {
        one(values, &mut rest);
    }
}

/// Copies values until a slot has none of the kind.
fn take<T>(slots: &mut &[u32], get: impl Fn(u32) -> Option<T>, mut put: impl FnMut(T)) {
    while let Some((slot, rest)) = slots.split_first() {
        let Some(value) = get(*slot) else { return };
        put(value);
        *slots = rest;
    }
}

/// Returns the value of an older version of an object under a name.
fn value_of<'r>(record: &'r VertexRecord, name: &str) -> Option<ValueView<'r>> {
    let tag = || {
        record
            .user
            .iter()
            .find(|a| a.name == name)
            .map(|a| &a.value)
    };
    record
        .attributes
        .get(name)
        .or_else(tag)
        .map(ValueView::from)
}
