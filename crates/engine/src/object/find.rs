//! Searches: by number and identity (E-search), by a filter (P-search), restricted to what a principal may read.

use super::column::Column;
use super::layer::{ObjectState, ObjectsGuard};
use super::select::{FilterNode, Select, alike, column_of, unknown_names};
use super::table::Table as Columns;
use crate::Engine;
use esker_model::filter::Expr;
use esker_model::key::alias_index;
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, ObjectRead, Principal, Share, TagInfo,
};
use esker_model::record::VertexRecord;
use esker_model::visibility::{Access, ItemAccess, sees};
use esker_model::{Cancel, Error, Flow, Properties, Result, Value};
use esker_store::Table;
use roaring::RoaringBitmap;

/// Objects assembled per lock of the columns; bounds the time that writers wait.
const PIECE: usize = 512;

impl Engine {
    /// Writes the objects that changed since the last checkpoint, and drops their log; returns the bytes written.
    /// Commits do this themselves when the log has grown enough.
    pub fn checkpoint_objects(&self) -> Result<u64> {
        let _writer = crate::txn::lock(&self.writer);
        self.objects.checkpoint()
    }

    /// Returns the object with an identity that belongs to this engine, if the object is stored elsewhere: see `Op::MoveObject`.
    pub fn object_alias(&self, identity: &Identity) -> Result<Option<ObjectId>> {
        let mut id = None;
        let key = alias_index(&identity.hash());
        self.store.get_with(Table::Index, &key, &mut |value| {
            id = Some(super::identity_value(value));
        })?;
        id.transpose()
    }

    /// Returns the slots that match `filter` and that the principal may read. Caller holds the column lock. The plan is reported only
    /// if nothing is hidden: the order and the results of the terms depend on all objects.
    pub(super) fn matching(
        &self,
        columns: &Columns,
        filter: &Expr,
        principal: Option<&Principal>,
        report: &mut FindReport,
    ) -> RoaringBitmap {
        let clock = || self.clock.monotonic_micros();
        let node = FilterNode::new(columns, filter);
        let mut select = Select {
            table: columns,
            clock: &clock,
            plan: Vec::new(),
        };
        let plan = select.plan(&node);
        let slots = select.eval(&plan, None);
        if Principal::limited(principal).is_none() {
            report.plan = select.plan;
        }
        visible(columns, slots, principal)
    }

    /// Whether a search is expected to touch only a few objects through existing indexes, without waiting for a lock.
    pub fn finds_few(&self, find: &Find) -> bool {
        let everybody = Principal::limited(find.principal.as_ref()).is_none();
        if !everybody || find.explain || find.share.is_some() || find.after.is_some() {
            return false;
        }
        let Some(state) = self.objects.state_if_free() else {
            return false;
        };
        Select {
            table: &state.columns,
            clock: &|| 0,
            plan: Vec::new(),
        }
        .is_short(&FilterNode::new(&state.columns, &find.filter))
    }

    /// Returns the present result of a search; `None` if the report is complete without it.
    pub(super) fn evaluate(
        &self,
        find: &Find,
        report: &mut FindReport,
    ) -> Result<Option<(RoaringBitmap, ObjectsGuard<'_>)>> {
        let typed;
        let filter = if find.filter.names().contains(&"type") {
            typed = find.filter.clone().with_vertex_types(&self.schema_now())?;
            &typed
        } else {
            &find.filter
        };
        let state = self.objects.state();
        let columns = &state.columns;
        report.unknown = Self::unknown(columns, filter, find.principal.as_ref());
        if find.explain {
            if Principal::limited(find.principal.as_ref()).is_some() {
                // The plan depends on all objects, some of which may be hidden.
                return Ok(None);
            }
            let node = FilterNode::new(columns, filter);
            let mut select = Select {
                table: columns,
                clock: &|| 0,
                plan: Vec::new(),
            };
            let plan = select.plan(&node);
            select.explain(&plan, false);
            report.plan = select.plan;
            return Ok(None);
        }
        let slots = self.matching(columns, filter, find.principal.as_ref(), report);
        let mut slots = share_of(columns, slots, find.share)?;
        if let Some(after) = find.after {
            // Whether there is an object that the principal may not read must not be revealed.
            let seen = |slot: &u32| {
                let item = ItemAccess::Object(Some(access(columns)(*slot)));
                !columns.live.contains(*slot) || sees(find.principal.as_ref(), &item, None)
            };
            let Some(slot) = columns.slot_of(after).filter(seen) else {
                return Err(Error::Invalid(format!(
                    "there is no object {after} after which to continue"
                )));
            };
            slots.remove_range(0..=slot);
        }
        Ok(Some((slots, self.objects.register_snapshot(&state))))
    }

    fn unknown(
        columns: &Columns,
        filter: &Expr,
        principal: Option<&Principal>,
    ) -> Vec<(String, Option<(String, u64)>)> {
        let seen = VisibleSlots::new(columns, principal);
        let mut unknown: Vec<&str> = unknown_names(columns, filter);
        // A name that only hidden objects have counts as unknown.
        if principal.is_some() {
            let hidden = filter.names().into_iter().filter(|name| {
                let here = |column: &Column| seen.count(column) > 0;
                column_of(columns, name).is_some_and(|c| !here(c))
                    && !alike(columns, name).is_some_and(here)
            });
            unknown.extend(hidden);
        }
        if unknown.is_empty() {
            return Vec::new();
        }
        let mut known: Vec<&Column> = columns.columns.iter().collect();
        known.retain(|column| seen.count(column) > 0);
        if seen.slots.is_some() {
            // The order of columns reveals which object, possibly a hidden one, had a name first.
            known.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let suggest = |name: &str| {
            let names = known.iter().map(|column| &*column.name);
            let nearest = esker_model::schema::nearest(name, names)?;
            let column = known.iter().find(|c| *c.name == *nearest)?;
            let objects = seen.count(column);
            Some((nearest, objects))
        };
        unknown
            .into_iter()
            .map(|name| (name.to_owned(), suggest(name)))
            .collect()
    }
}

/// The objects that a principal may read.
struct VisibleSlots {
    /// `None` for all objects.
    slots: Option<RoaringBitmap>,
}

impl VisibleSlots {
    fn new(columns: &Columns, principal: Option<&Principal>) -> Self {
        let all = || visible(columns, columns.live.clone(), principal);
        Self {
            slots: Principal::limited(principal).map(|_| all()),
        }
    }

    /// Number of these objects with a value in a column.
    fn count(&self, column: &Column) -> u64 {
        match &self.slots {
            None => column.count(),
            Some(slots) => slots.intersection_len(&column.slots()),
        }
    }
}

/// Returns a function from slots to access rights, based on the columns.
pub(super) fn access(columns: &Columns) -> impl Fn(u32) -> Access + '_ {
    let (owner, gid, mode) = (
        columns.column("owner"),
        columns.column("gid"),
        columns.column("mode"),
    );
    let int = |column: Option<&Column>, slot| column.and_then(|c| c.ints.get(slot));
    move |slot| Access::new(int(owner, slot), int(gid, slot), int(mode, slot))
}

/// Returns the slots of objects that the principal sees.
fn visible(
    columns: &Columns,
    slots: RoaringBitmap,
    principal: Option<&Principal>,
) -> RoaringBitmap {
    if Principal::limited(principal).is_none() {
        return slots;
    }
    let access = access(columns);
    let seen = |slot: &u32| {
        // Shares show objects in the graph alone.
        sees(principal, &ItemAccess::Object(Some(access(*slot))), None)
    };
    slots.iter().filter(seen).collect()
}

/// Names of attributes and tags that a search returns.
struct SelectedNames<'q> {
    names: Option<&'q [String]>,
    /// Columns of these names, in the order in which an object lists them.
    columns: Vec<u32>,
}

impl<'q> SelectedNames<'q> {
    fn new(columns: &Columns, names: Option<&'q [String]>) -> Self {
        let mut wanted = Self {
            names,
            columns: Vec::new(),
        };
        if names.is_some() {
            let all = (0..).zip(&columns.columns);
            let mut some: Vec<_> = all.filter(|(_, c)| wanted.has(&c.name)).collect();
            some.sort_by_key(|(_, c)| (!c.predefined, &c.name));
            wanted.columns = some.into_iter().map(|(number, _)| number).collect();
        }
        wanted
    }

    fn has(&self, column: &str) -> bool {
        self.names.is_none_or(|names| {
            let alike = |n: &String| n == column || n.eq_ignore_ascii_case(column);
            names.iter().any(alike)
        })
    }
}

fn found(columns: &Columns, slot: u32, wanted: &SelectedNames<'_>) -> Found {
    let shape;
    let numbers = match wanted.names {
        None => {
            shape = columns.shape(columns.shape_of_slot(slot));
            &shape[..]
        }
        Some(_) => &wanted.columns[..],
    };
    let (mut attributes, mut tags) = (Vec::with_capacity(numbers.len()), Vec::new());
    for (at, number) in numbers.iter().enumerate() {
        let Some(column) = columns.columns.get(*number as usize) else {
            continue;
        };
        let Some(value) = column.get(slot) else {
            continue;
        };
        let pair = (String::from(&*column.name), value.to_value());
        if column.predefined {
            attributes.push(pair);
        } else {
            if tags.capacity() == 0 {
                tags.reserve_exact(numbers.len() - at);
            }
            tags.push(pair);
        }
    }
    Found {
        id: columns.id(slot),
        created: columns.first(slot),
        modified: columns.latest(slot),
        attributes: Properties::from_sorted(attributes),
        tags: Properties::from_sorted(tags),
    }
}

/// Decodes an older version of an object from its row.
fn found_then(id: ObjectId, row: &[u8], wanted: &SelectedNames<'_>) -> Result<Option<Found>> {
    let record = VertexRecord::decode(row).map_err(|e| Error::corrupt("a stored object", e))?;
    if record.deleted {
        return Ok(None);
    }
    let tags = record.user.into_iter().map(|a| (a.name, a.value));
    let wanted_only = |pairs: &mut dyn Iterator<Item = (String, Value)>| -> Properties {
        pairs.filter(|(name, _)| wanted.has(name)).collect()
    };
    Ok(Some(Found {
        id,
        created: record.first,
        modified: record.latest,
        attributes: wanted_only(&mut record.attributes.into_iter()),
        tags: wanted_only(&mut { tags }),
    }))
}

/// Assembles some results of a search, as of its snapshot.
fn piece(
    state: &ObjectState,
    watch: &ObjectsGuard<'_>,
    slots: &[u32],
    names: Option<&[String]>,
) -> Result<Vec<Found>> {
    let wanted = &SelectedNames::new(&state.columns, names);
    let mut piece = Vec::with_capacity(slots.len());
    for slot in slots {
        match state.before(*slot, watch.point) {
            None => piece.push(found(&state.columns, *slot, wanted)),
            Some(row) => {
                piece.extend(found_then(state.columns.id(*slot), row, wanted)?);
            }
        }
    }
    Ok(piece)
}

fn share_of(
    columns: &Columns,
    slots: RoaringBitmap,
    share: Option<Share>,
) -> Result<RoaringBitmap> {
    let Some(share) = share else {
        return Ok(slots);
    };
    if share.rank >= share.of {
        return Err(Error::Invalid(format!(
            "share {} of {}: expected a number from 0 to one less than the number of shares",
            share.rank, share.of
        )));
    }
    Ok(slots
        .iter()
        .filter(|slot| share.has(columns.id(*slot)))
        .collect())
}

impl ObjectRead for Engine {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>> {
        let state = self.objects.state();
        let columns = &state.columns;
        let access = access(columns);
        let slot_of = |key: &ObjectKey| match key {
            ObjectKey::Id(id) => columns.slot_of(*id),
            ObjectKey::Identity(identity) => columns.with_identity(&identity.hash()),
        };
        let seen = |slot: &u32| {
            let item = ItemAccess::Object(Some(access(*slot)));
            columns.live.contains(*slot) && sees(principal, &item, None)
        };
        let all = SelectedNames::new(columns, None);
        let one = |key: &ObjectKey| {
            let slot = slot_of(key).filter(seen)?;
            Some(found(columns, slot, &all))
        };
        Ok(keys.iter().map(one).collect())
    }

    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        let mut report = FindReport {
            complete: true,
            ..FindReport::default()
        };
        let Some((slots, watch)) = self.evaluate(find, &mut report)? else {
            return Ok(report);
        };
        let most = find.limit.unwrap_or(u64::MAX);
        if find.count {
            report.matches = slots.len().min(most);
            report.complete = slots.len() <= most;
            return Ok(report);
        }
        let mut rest = slots.iter();
        let mut some = Vec::with_capacity(PIECE);
        while report.matches < most {
            if cancel.cancelled() {
                report.complete = false;
                return Ok(report);
            }
            some.clear();
            let room = usize::try_from(most - report.matches).unwrap_or(PIECE);
            some.extend(rest.by_ref().take(PIECE.min(room)));
            if some.is_empty() {
                return Ok(report);
            }
            let piece = piece(&self.objects.state(), &watch, &some, find.select.as_deref())?;
            let mut piece = piece.into_iter();
            while let Some(found) = piece.next() {
                report.matches += 1;
                if sink(found).is_break() {
                    report.complete = piece.len() == 0 && rest.next().is_none();
                    return Ok(report);
                }
            }
        }
        report.complete = rest.next().is_none();
        Ok(report)
    }

    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>> {
        let state = self.objects.state();
        let seen = VisibleSlots::new(&state.columns, principal);
        let all = seen.slots.is_none();
        let info = |column: &Column| TagInfo {
            name: String::from(&*column.name),
            predefined: column.predefined,
            objects: seen.count(column),
            // The number of distinct values of hidden objects must not be revealed.
            distinct: column.distinct().filter(|_| all),
            indexed: column.indexed,
            bytes: if all { column.bytes() } else { (0, 0) },
        };
        let mut tags: Vec<_> = state.columns.columns.iter().map(info).collect();
        tags.retain(|tag| tag.objects > 0);
        tags.sort_by(|a, b| (!a.predefined, &a.name).cmp(&(!b.predefined, &b.name)));
        Ok(tags)
    }
}
