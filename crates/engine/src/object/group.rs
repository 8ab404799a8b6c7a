//! Tagging all objects that match a filter, in one commit (SoMeta, section III-F). Objects that lack the tag have nothing to
//! supersede; together they take one entry of the log and one set in a column.

use super::find::access;
use super::layer::ObjectStore;
use super::log::BulkTag;
use crate::Engine;
use crate::read::vertex_record;
use crate::txn::{CommitKind, SideWrites, check_properties, check_tag_name, lock};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::object::{
    FindReport, ObjectWrite, Principal, TagChange, TagReport, TagWhere, object_type,
};
use esker_model::schema::check_attribute_name;
use esker_model::visibility::WRITE;
use esker_model::{Cancel, Error, Op, Properties, Result, Schema, Version, VertexRef};
use esker_store::Table;
use roaring::RoaringBitmap;

/// Prefix of the keys of `meta` for names that searches must not index.
pub(crate) const UNINDEXED: &[u8] = b"objects/unindexed/";

impl Engine {
    /// Tags objects at a version that the host specifies, with its own rows and idempotency key, as a part of a distributed operation.
    pub fn tag_where_at(
        &self,
        change: &TagWhere,
        version: Version,
        cancel: &dyn Cancel,
        side_writes: SideWrites,
    ) -> Result<TagReport> {
        self.tag_objects(change, Some(version), cancel, side_writes)
    }

    fn tag_objects(
        &self,
        asked: &TagWhere,
        version: Option<Version>,
        cancel: &dyn Cancel,
        side_writes: SideWrites,
    ) -> Result<TagReport> {
        let schema = self.schema_now();
        check_change(&schema, &asked.change)?;
        let mut writer = lock(&self.writer);
        // Objects do not change while the write lock is held.
        let group = self.group(asked)?;
        let mut report = TagReport {
            matches: group.matches,
            changed: group.changed,
            refused: group.refused,
            version: writer.clock.last(),
            applied: false,
        };
        if asked.dry_run {
            if Principal::limited(asked.principal.as_ref()).is_some() {
                // The newest version may be that of a hidden object.
                report.version = Version::ZERO;
            }
            return Ok(report);
        }
        if cancel.cancelled() {
            return Err(Error::Interrupted);
        }
        let (kind, now) = if let Some(version) = version {
            (CommitKind::Decided, version)
        } else {
            (
                CommitKind::Local,
                writer.clock.tick(self.clock.now_millis()),
            )
        };
        let group = self.without_later(group, now);
        let (ops, tags) = self.tag_changes(&schema, asked, group)?;
        let done = self.apply_group_tags(&mut writer, kind, ops, tags, now, side_writes)?;
        if let Some(version) = done {
            report.version = version;
            report.applied = true;
        } else {
            // The operation was applied before.
            (report.matches, report.changed, report.refused) = (0, 0, 0);
        }
        Ok(report)
    }

    /// Determines the objects to be tagged and their changes.
    fn group(&self, asked: &TagWhere) -> Result<TagPlan> {
        let state = self.objects.state();
        let columns = &state.columns;
        let mut plan = FindReport::default();
        let filter = asked.filter.clone().with_vertex_types(&self.schema_now())?;
        let mut slots = self.matching(columns, &filter, asked.principal.as_ref(), &mut plan);
        let matches = slots.len();
        if let Some(principal) = Principal::limited(asked.principal.as_ref()) {
            let access = access(columns);
            let may = |slot: &u32| access(*slot).allows(Some(principal), WRITE);
            slots = slots.iter().filter(may).collect();
        }
        let refused = matches - slots.len();
        let mut group = TagPlan {
            matches,
            refused,
            ..TagPlan::default()
        };
        let mut touched = RoaringBitmap::new();
        for (name, value) in asked.change.set.iter() {
            let column = columns.tag_column(name);
            let having = column.map(|c| c.slots_among(&slots)).unwrap_or_default();
            let new = &slots - &having;
            touched |= &new;
            group.new.push((name.to_owned(), value.clone(), new));
            if !asked.change.keep {
                let differs = |slot: &u32| {
                    let present = column.and_then(|c| c.get(*slot));
                    present.is_none_or(|v| v.to_value() != *value)
                };
                group.other |= having.iter().filter(differs).collect::<RoaringBitmap>();
            }
        }
        for name in &asked.change.remove {
            let column = columns.tag_column(name);
            group.other |= column.map(|c| c.slots_among(&slots)).unwrap_or_default();
        }
        group.changed = (&touched | &group.other).len();
        // An object whose row is rewritten anyway gets the tag there.
        for (_, _, new) in &mut group.new {
            *new -= &group.other;
            new.iter()
                .any(|slot| columns.tags_of(slot) >= PROPERTIES_MAX)
                .then(|| group.crowded = true);
        }
        group.ids = group.other.iter().map(|s| columns.id(s)).collect();
        Ok(group)
    }

    /// Moves objects with a later version than `version` (their data came from a machine whose clock is fast) to the ones that
    /// are changed individually.
    fn without_later(&self, mut group: TagPlan, version: Version) -> TagPlan {
        let state = self.objects.state();
        let columns = &state.columns;
        let mut later = RoaringBitmap::new();
        for (_, _, slots) in &group.new {
            later.extend(slots.iter().filter(|s| columns.latest(*s) >= version));
        }
        if !later.is_empty() {
            for (_, _, slots) in &mut group.new {
                *slots -= &later;
            }
            group.ids.extend(later.iter().map(|s| columns.id(s)));
        }
        group
    }

    /// Returns the changes of single objects, and the tags of many.
    fn tag_changes(
        &self,
        schema: &Schema,
        asked: &TagWhere,
        group: TagPlan,
    ) -> Result<(Vec<Op>, Vec<GroupTag>)> {
        if group.crowded {
            return Err(Error::Limit {
                what: "an object's number of tags".into(),
                got: PROPERTIES_MAX as u64 + 1,
                limit: PROPERTIES_MAX as u64,
            });
        }
        let type_id = object_type(schema).ok_or_else(|| Error::Invalid("no objects".into()))?;
        let change = &asked.change;
        let ops: Vec<Op> = group
            .ids
            .iter()
            .map(|id| {
                let vertex = VertexRef {
                    id: id.vertex(),
                    type_id,
                };
                Ok(Op::SetAttributes {
                    vertex,
                    set: self.lacking(vertex, change)?,
                    remove: change.remove.clone(),
                })
            })
            .collect::<Result<_>>()?;
        let tags = group
            .new
            .into_iter()
            .filter(|(.., slots)| !slots.is_empty());
        let tags = tags.map(|(name, value, slots)| (name, Some(value), slots));
        Ok((ops, tags.collect()))
    }

    /// Returns the tags that `tag add` sets on an object that has some of them.
    fn lacking(&self, vertex: VertexRef, change: &TagChange) -> Result<Properties> {
        if !change.keep {
            return Ok(change.set.clone());
        }
        let record = vertex_record(&*self.objects as &ObjectStore, vertex.id)?;
        let has = |name: &str| {
            record
                .as_ref()
                .is_some_and(|r| r.user.iter().any(|a| a.name == name))
        };
        let set = change.set.iter().filter(|(name, _)| !has(name));
        Ok(set.map(|(n, v)| (n.to_owned(), v.clone())).collect())
    }

    /// Loads the names that are not indexed.
    pub(crate) fn load_unindexed(&self) -> Result<()> {
        let mut names = Vec::new();
        let all = esker_store::KeyRange::prefix(UNINDEXED);
        esker_store::Read::scan(&*self.store, Table::Meta, &all, &mut |key, _| {
            let name = key.get(UNINDEXED.len()..).unwrap_or_default();
            names.extend(std::str::from_utf8(name).map(str::to_owned));
            esker_model::Flow::Continue(())
        })?;
        self.objects.with_columns(|columns| {
            for name in names {
                columns.set_indexed(&name, false);
            }
        });
        Ok(())
    }
}

/// Planned changes of a tagging operation.
#[derive(Debug, Default)]
struct TagPlan {
    matches: u64,
    changed: u64,
    refused: u64,
    /// Tags to add to objects that lack them.
    new: Vec<(String, esker_model::Value, RoaringBitmap)>,
    /// Objects with values that are superseded.
    other: RoaringBitmap,
    ids: Vec<esker_model::object::ObjectId>,
    /// Whether an object would exceed the maximum number of tags.
    crowded: bool,
}

/// A tag for many objects: name, value, slots.
pub(crate) type GroupTag = (String, Option<esker_model::Value>, RoaringBitmap);

impl BulkTag {
    pub(crate) fn at(version: Version, (name, value, slots): GroupTag) -> Self {
        Self {
            name,
            value,
            version,
            slots,
        }
    }
}

fn check_change(schema: &Schema, change: &TagChange) -> Result<()> {
    check_properties("an object's tags", &change.set, PROPERTIES_MAX)?;
    let set: Vec<&str> = change.set.iter().map(|(name, _)| name).collect();
    let type_id = object_type(schema);
    let removed = change.remove.iter().map(String::as_str);
    for name in set.iter().copied().chain(removed) {
        check_attribute_name(name)?;
        if type_id.is_some_and(|t| schema.attribute(t, name).is_some()) {
            return Err(Error::Invalid(format!(
                "`{name}` is a predefined attribute of objects, not a tag: change it with `esker object update`"
            )));
        }
    }
    set.iter().try_for_each(|name| check_tag_name(name))?;
    if let Some(name) = set
        .into_iter()
        .find(|n| change.remove.iter().any(|r| r == n))
    {
        return Err(Error::Invalid(format!(
            "`{name}` is both set and removed: expected one of them"
        )));
    }
    Ok(())
}

impl ObjectWrite for Engine {
    fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport> {
        let side_writes = SideWrites {
            idempotency_key: change.idempotency_key.clone(),
            ..SideWrites::default()
        };
        self.tag_objects(change, None, cancel, side_writes)
    }

    fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        check_attribute_name(name)?;
        let _writer = lock(&self.writer);
        let key = [UNINDEXED, name.as_bytes()].concat();
        let changed = self
            .objects
            .with_columns(|columns| columns.set_indexed(name, on));
        if changed {
            let mut batch = esker_store::WriteBatch::default();
            if on {
                batch.remove(Table::Meta, key);
            } else {
                batch.put(Table::Meta, key, []);
            }
            self.store.commit(batch, self.settings.durability)?;
        }
        if on {
            self.objects.build_index(name);
        }
        Ok(changed)
    }
}
