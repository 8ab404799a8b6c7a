//! Number and size of objects by owner and application, for quotas.

use super::table::Table as Columns;
use crate::Engine;
use esker_model::value::ValueView;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects counted per lock of the columns; bounds the time that writers wait.
const PIECE: usize = 4_096;

/// Number of objects and bytes of their metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectUsage {
    /// Number of objects with this owner and application.
    pub objects: u64,
    /// Bytes of their keys, attributes and tags, as they are encoded in rows.
    pub bytes: u64,
}

/// Usage by owner and application.
pub type ObjectUsages = BTreeMap<(i64, Arc<str>), ObjectUsage>;

impl Engine {
    /// Counts all objects by owner and application. Writers can continue between pieces, so that the sums are those of no single
    /// moment.
    pub fn object_usage(&self) -> ObjectUsages {
        let (mut sums, mut row) = (ObjectUsages::new(), Vec::new());
        let mut from = 0;
        loop {
            let state = self.objects.state();
            let columns = &state.columns;
            let mut slots = columns.live.range(from..);
            let mut last = None;
            for slot in slots.by_ref().take(PIECE) {
                last = Some(slot);
                row.clear();
                columns.encode(slot, &mut row);
                let usage = sums.entry(owner_and_app(columns, slot)).or_default();
                usage.objects += 1;
                usage.bytes += row.len() as u64;
            }
            let next = last.and_then(|slot| slot.checked_add(1));
            match next.filter(|_| slots.next().is_some()) {
                Some(next) => from = next,
                None => return sums,
            }
        }
    }
}

fn owner_and_app(columns: &Columns, slot: u32) -> (i64, Arc<str>) {
    let value = |name| columns.column(name).and_then(|column| column.get(slot));
    let owner = match value("owner") {
        Some(ValueView::I64(owner)) => owner,
        _ => 0,
    };
    match value("app") {
        Some(ValueView::Text(app)) => (owner, app.into()),
        _ => (owner, Arc::default()),
    }
}
