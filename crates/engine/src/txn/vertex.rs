//! Vertices: one row for the current state, one row in `history` for each superseded part.
//!
//! The parts of a vertex (its static attributes, each user-defined attribute) have separate timelines, so that changes
//! with older versions are inserted into the past without touching what is newer.

use super::Txn;
use super::checks::{check_properties, check_row, check_static, check_tag_name};
use crate::names::file_kind;

use esker_model::key::{
    Counter, attribute_history, deleted_index, static_history, type_index, vertex as vertex_key,
};
use esker_model::limits::PROPERTIES_MAX;
use esker_model::object::ObjectId;
use esker_model::record::{AttributeRecord, StaticRecord, UserAttribute, VertexRecord};
use esker_model::schema::check_attribute_name;
use esker_model::{Error, Properties, Result, Value, Version, VertexId, VertexRef};
use esker_store::Table;

impl Txn<'_, '_> {
    pub(super) fn put_vertex(
        &mut self,
        vertex: VertexRef,
        key: String,
        attributes: Properties,
        at: Option<Version>,
    ) -> Result<()> {
        self.refuse_object(vertex, "put")?;
        self.put_static(vertex, key, attributes, at)
    }

    /// Stores the predefined attributes of a vertex of any type.
    pub(super) fn put_static(
        &mut self,
        vertex: VertexRef,
        key: String,
        attributes: Properties,
        at: Option<Version>,
    ) -> Result<()> {
        self.check_name(vertex, &key)?;
        check_static(self.schema, vertex.type_id, &attributes)?;
        let current = self.current_vertex(vertex.id)?;
        let Some(mut record) = current else {
            let version = self.version_after(at, Version::ZERO);
            return self.create_vertex(vertex, key, (attributes, false), version);
        };
        self.check_same(&record, vertex, &key)?;
        let version = self.version_after(at, record.static_version);
        if version < record.static_version {
            let put = StaticRecord {
                deleted: false,
                mentioned: false,
                attributes,
            };
            return self.put_past_static(vertex.id, record, version, put);
        }
        let same = !record.deleted && !record.mentioned && record.attributes == attributes;
        if version == record.static_version && same {
            self.effects.unchanged += 1;
            return Ok(());
        }
        if version > record.static_version {
            self.supersede_static(vertex.id, &record);
        }
        if record.deleted {
            self.count(Counter::Vertices(vertex.type_id), 1);
            self.effects.vertices_created += 1;
        }
        record.deleted = false;
        record.mentioned = false;
        record.attributes = attributes;
        record.static_version = version;
        self.store_vertex(vertex.id, record, version)
    }

    pub(crate) fn ensure_vertex(
        &mut self,
        vertex: VertexRef,
        key: String,
        at: Option<Version>,
    ) -> Result<()> {
        self.check_name(vertex, &key)?;
        let Some(record) = self.current_vertex(vertex.id)? else {
            self.refuse_object(vertex, "there is no such object")?;
            let version = self.version_after(at, Version::ZERO);
            return self.create_vertex(vertex, key, (Properties::new(), true), version);
        };
        if record.deleted {
            self.refuse_object(vertex, "the object was deleted")?;
        }
        self.check_same(&record, vertex, &key)?;
        let version = self.version_after(
            at,
            if record.deleted {
                record.static_version
            } else {
                Version::ZERO
            },
        );
        if record.deleted && version >= record.static_version {
            self.put_vertex(vertex, key, Properties::new(), Some(version))?;
            return self.mark_mentioned(vertex.id);
        }
        if !self.existed(vertex.id, &record, version)? {
            let mention = StaticRecord {
                deleted: false,
                mentioned: true,
                attributes: Properties::new(),
            };
            return self.put_past_static(vertex.id, record, version, mention);
        }
        self.effects.unchanged += 1;
        Ok(())
    }

    /// Refuses user-defined attributes that no vertex of a type may have.
    pub(crate) fn check_attributes(
        &self,
        vertex: VertexRef,
        set: &Properties,
        remove: &[String],
    ) -> Result<()> {
        check_properties("a vertex's user-defined attributes", set, PROPERTIES_MAX)?;
        for name in set
            .iter()
            .map(|(n, _)| n)
            .chain(remove.iter().map(String::as_str))
        {
            check_attribute_name(name)?;
            if self.schema.attribute(vertex.type_id, name).is_some() {
                return Err(Error::Invalid(format!(
                    "`{name}` is a predefined attribute of {}: it changes with a new version of the vertex (`PutVertex`, `ChangeVertex`)",
                    self.schema
                        .vertex_type(vertex.type_id)
                        .map_or("its type", |t| t.name.as_str())
                )));
            }
        }
        if ObjectId::of_vertex(vertex.id).is_some() {
            set.iter().try_for_each(|(name, _)| check_tag_name(name))?;
        }
        Ok(())
    }

    pub(crate) fn set_attributes(
        &mut self,
        vertex: VertexRef,
        set: Properties,
        remove: Vec<String>,
        at: Option<Version>,
    ) -> Result<()> {
        self.check_attributes(vertex, &set, &remove)?;
        // On a deleted vertex, only changes dated before its deletion are allowed.
        let late = |r: &VertexRecord| at.is_some_and(|at| at < r.static_version);
        let record = self.current_vertex(vertex.id)?;
        let Some(mut record) = record.filter(|r| !r.deleted || late(r)) else {
            return Err(self.no_vertex(vertex));
        };
        let version = self.version_after(at, record.latest);
        let changes = set
            .into_iter()
            .map(|(n, v)| (n, Some(v)))
            .chain(remove.into_iter().map(|n| (n, None)));
        let mut changed = false;
        for (name, value) in changes {
            changed |= self.set_one(vertex.id, &mut record, name, value, version)?;
        }
        if record.user.len() > PROPERTIES_MAX {
            return Err(Error::Limit {
                what: "a vertex's number of user-defined attributes".into(),
                got: record.user.len() as u64,
                limit: PROPERTIES_MAX as u64,
            });
        }
        if !changed {
            self.effects.unchanged += 1;
            return Ok(());
        }
        self.store_vertex(vertex.id, record, version)
    }

    pub(crate) fn delete_vertex(&mut self, vertex: VertexRef, at: Option<Version>) -> Result<()> {
        let Some(mut record) = self.current_vertex(vertex.id)? else {
            return Err(self.no_vertex(vertex));
        };
        let version = self.version_after(
            at,
            if at.is_some() {
                Version::ZERO
            } else {
                record.latest
            },
        );
        if record.deleted && version > record.static_version {
            return Err(self.no_vertex(vertex));
        }
        if record.deleted && version == record.static_version {
            self.effects.unchanged += 1;
            return Ok(());
        }
        if let Some(object) = ObjectId::of_vertex(vertex.id) {
            if version < record.latest {
                return Err(Error::Invalid(
                    "an object can only be deleted now, not at a past time".into(),
                ));
            }
            self.forget_object(object, &record.attributes);
        }
        let names = self.attribute_names(vertex.id, &record, version)?;
        for name in names {
            self.set_one(vertex.id, &mut record, name, None, version)?;
        }
        self.mark_deleted(vertex.id);
        if version < record.static_version {
            let deleted = StaticRecord {
                deleted: true,
                mentioned: false,
                attributes: Properties::new(),
            };
            return self.put_past_static(vertex.id, record, version, deleted);
        }
        if version > record.static_version {
            self.supersede_static(vertex.id, &record);
        }
        self.count(Counter::Vertices(record.type_id), -1);
        record.deleted = true;
        record.mentioned = false;
        record.attributes = Properties::new();
        record.static_version = version;
        self.store_vertex(vertex.id, record, version)
    }

    fn create_vertex(
        &mut self,
        vertex: VertexRef,
        key: String,
        (attributes, mentioned): (Properties, bool),
        version: Version,
    ) -> Result<()> {
        self.overlay
            .put(Table::Index, type_index(vertex.type_id, vertex.id), []);
        self.count(Counter::Vertices(vertex.type_id), 1);
        self.effects.vertices_created += 1;
        if file_kind(self.schema, vertex.type_id).is_some() {
            self.names.note_vertices();
        }
        let record = VertexRecord {
            deleted: false,
            mentioned,
            first: version,
            latest: version,
            static_version: version,
            type_id: vertex.type_id,
            key,
            attributes,
            user: Vec::new(),
        };
        self.store_vertex(vertex.id, record, version)
    }

    /// Sets (or, with `None`, removes) one attribute at a version: as the current value if nothing newer is stored, else
    /// in the past. Returns whether anything changed.
    fn set_one(
        &mut self,
        id: VertexId,
        record: &mut VertexRecord,
        name: String,
        value: Option<Value>,
        version: Version,
    ) -> Result<bool> {
        let place = record.user.binary_search_by(|a| a.name.as_str().cmp(&name));
        let newest = match place {
            Ok(i) => record.user.get(i).map(|a| a.version),
            Err(_) if version > record.latest && value.is_some() => None,
            // Removed before, possibly at a later version than this change.
            Err(_) => self.newest_in_history(id, &name)?,
        };
        if let Some(value) = &value
            && let Some(deleted) = self.ended_by_deletion(id, record, &name, version)?
        {
            let key = attribute_history(id, &name, deleted);
            let ended = self.put_past(key, |out| AttributeRecord(None).encode(out))?;
            let key = attribute_history(id, &name, version);
            let set = AttributeRecord(Some(value.clone()));
            return Ok(self.put_past(key, |out| set.encode(out))? || ended);
        }
        if newest.is_some_and(|newest| version < newest) {
            let key = attribute_history(id, &name, version);
            return self.put_past(key, |out| AttributeRecord(value).encode(out));
        }
        if let Ok(i) = place {
            let old = record.user.get(i).cloned();
            if let Some(old) = old {
                if old.version == version && Some(&old.value) == value.as_ref() {
                    return Ok(false);
                }
                if old.version < version {
                    let key = attribute_history(id, &name, old.version);
                    self.put_past(key, |out| AttributeRecord(Some(old.value)).encode(out))?;
                }
            }
        }
        if place.is_err() && value.is_some() && newest == Some(version) {
            // Removed at this very version; the last write wins.
            self.overlay
                .remove(Table::History, attribute_history(id, &name, version));
        }
        match (place, value) {
            (Ok(i), Some(value)) => {
                record.user[i] = UserAttribute {
                    name,
                    version,
                    value,
                }
            }
            (Err(i), Some(value)) => {
                record.user.insert(
                    i,
                    UserAttribute {
                        name,
                        version,
                        value,
                    },
                );
            }
            (place, None) => {
                if let Ok(i) = place {
                    record.user.remove(i);
                } else if newest.is_none() {
                    return Ok(false); // the attribute had no value
                }
                let key = attribute_history(id, &name, version);
                return self.put_past(key, |out| AttributeRecord(None).encode(out));
            }
        }
        Ok(true)
    }

    fn supersede_static(&mut self, id: VertexId, record: &VertexRecord) {
        let mut value = Vec::new();
        StaticRecord {
            deleted: record.deleted,
            mentioned: record.mentioned,
            attributes: record.attributes.clone(),
        }
        .encode(&mut value);
        self.overlay.put(
            Table::History,
            static_history(id, record.static_version),
            value,
        );
    }

    fn put_past_static(
        &mut self,
        id: VertexId,
        mut record: VertexRecord,
        version: Version,
        past: StaticRecord,
    ) -> Result<()> {
        if !past.deleted {
            match self.successor_in_history(id, version)? {
                Some((key, true)) => self.overlay.remove(Table::History, key),
                None if record.mentioned => {
                    return self.replace_mention(id, record, version, past);
                }
                Some(_) | None => {}
            }
        }
        let changed = self.put_past(static_history(id, version), |out| past.encode(out))?;
        if !changed {
            self.effects.unchanged += 1;
        }
        if version < record.first && !past.deleted {
            record.first = version;
        }
        self.store_vertex(id, record, Version::ZERO)
    }

    /// Replaces a current record that was only a mention by attributes known from an earlier version on.
    fn replace_mention(
        &mut self,
        id: VertexId,
        mut record: VertexRecord,
        version: Version,
        known: StaticRecord,
    ) -> Result<()> {
        // An event stored at that version (a deletion, possibly in the same batch) is replaced.
        let before = static_history(id, version);
        if self
            .overlay
            .get_with(Table::History, &before, &mut |_| {})?
        {
            self.overlay.remove(Table::History, before);
        }
        let mention = std::mem::replace(&mut record.static_version, version);
        record.mentioned = known.mentioned;
        record.attributes = known.attributes;
        record.first = record.first.min(version);
        if record.latest == mention {
            let current = record.user.iter().map(|a| a.version).max();
            let past = self.newest_attribute_event(id)?;
            record.latest = current.max(past).unwrap_or(version);
        }
        self.store_vertex(id, record, version)
    }

    /// Marks the insertion just made as a mere mention.
    fn mark_mentioned(&mut self, id: VertexId) -> Result<()> {
        match self.current_vertex(id)? {
            Some(mut record) => {
                record.mentioned = true;
                self.store_vertex(id, record, Version::ZERO)
            }
            None => Ok(()),
        }
    }

    /// Puts a row into `history`; returns false if an equal row is already there.
    fn put_past(&mut self, key: Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> Result<bool> {
        let mut value = Vec::new();
        encode(&mut value);
        if self.overlay.get(Table::History, &key)?.as_ref() == Some(&value) {
            return Ok(false);
        }
        self.overlay.put(Table::History, key, value);
        Ok(true)
    }

    pub(super) fn store_vertex(
        &mut self,
        id: VertexId,
        mut record: VertexRecord,
        version: Version,
    ) -> Result<()> {
        record.latest = record.latest.max(version);
        let mut value = Vec::with_capacity(64 + record.key.len());
        record.encode(&mut value);
        check_row("a vertex with its attributes", value.len())?;
        self.overlay.put(Table::Rows, vertex_key(id), value);
        Ok(())
    }

    fn mark_deleted(&mut self, id: VertexId) {
        self.overlay.put(Table::Index, deleted_index(id), []);
        self.effects.deleted.push(id);
    }

    pub(crate) fn current_vertex(&self, id: VertexId) -> Result<Option<VertexRecord>> {
        let mut record = None;
        self.overlay
            .get_with(Table::Rows, &vertex_key(id), &mut |value| {
                record = Some(VertexRecord::decode(value));
            })?;
        record
            .transpose()
            .map_err(|e| Error::corrupt("a vertex in table `rows`", e))
    }

    pub(super) fn no_vertex(&self, vertex: VertexRef) -> Error {
        Error::NoVertex {
            name: self.name_of(vertex),
            hint: String::new(),
        }
    }
}

impl Txn<'_, '_> {
    fn check_same(&self, record: &VertexRecord, vertex: VertexRef, key: &str) -> Result<()> {
        let same_type = record.type_id == vertex.type_id;
        if same_type && record.key == key {
            return Ok(());
        }
        // A file keeps the key under which its vertex was created.
        if same_type
            && let Some(kind) = file_kind(self.schema, vertex.type_id)
            && [&record.key, key]
                .into_iter()
                .any(|k| VertexId::of(kind.type_name(), k) != vertex.id)
        {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "vertex id {} of `{key}` is taken by `{}`: two names share a 128-bit hash",
            vertex.id, record.key
        )))
    }
}
