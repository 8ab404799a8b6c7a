//! Objects: created and moved by their ID attributes; each combination of these exists once in a database (SoMeta, section II-C).
//!
//! Whether an identity is taken is one look-up in the columns' hash table. An object keeps its number, and so its location, when
//! its identity changes; if the new identity belongs to another location, a row there names the object (an alias).

use super::Txn;
use super::checks::{check_not_special, check_properties, check_row, check_static};
use crate::object::{NewObject, identity_value};
use esker_model::key::{Counter, alias_index, identity_index};
use esker_model::limits::{PROPERTIES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use esker_model::object::{
    ID_ATTRIBUTES, Identity, OBJECT_TYPE, ObjectId, object_ref, object_type, prefix_of,
};
use esker_model::{Error, Properties, Result, Value, Version, VertexRef, VertexTypeId};
use esker_store::Table;

impl Txn<'_, '_> {
    /// Creates an object at a version.
    pub(super) fn create_object(
        &mut self,
        identity: &Identity,
        attributes: &Properties,
        tags: &Properties,
        at: Option<Version>,
    ) -> Result<()> {
        let type_id = check_object(self.schema, identity, attributes, tags)?;
        let hash = identity.hash();
        // Objects of this group may have taken or released an identity.
        let known = self.overlay.has_writes();
        if known {
            self.refuse_taken(identity, &hash, None)?;
        } else if let Some(id) = self.overlay.new_objects().with_identity(&hash) {
            return Err(taken_by(identity, id));
        }
        let version = self.version_after(at, Version::ZERO);
        let millis = self.version.millis();
        let id = match self.objects.new_id_of(&hash, millis, !known) {
            Ok(id) => id,
            Err(id) => return Err(taken_by(identity, id)),
        };
        let objects = self.objects;
        let new_objects = self.overlay.new_objects();
        let object = NewObject {
            id,
            hash: &hash,
            version,
            identity,
            attributes,
            tags,
        };
        let bytes = new_objects.add(|| objects.spare_columns(type_id), object);
        if bytes > ROW_BYTES_MAX {
            let row = new_objects.row(id).unwrap_or_default();
            check_row("an object with its tags", row.len())?;
        }
        let key = identity_index(&hash);
        if known && self.overlay.wrote(Table::Index, &key) {
            // The last write wins.
            self.overlay.put(Table::Index, key, id.0.to_be_bytes());
        }
        self.count(Counter::Vertices(type_id), 1);
        self.effects.vertices_created += 1;
        Ok(())
    }

    /// Changes the ID attributes of an object, with all parts of the move: for a database that is not distributed.
    pub(super) fn move_object(
        &mut self,
        object: ObjectId,
        from: &Identity,
        to: &Identity,
        at: Option<Version>,
    ) -> Result<()> {
        self.claim_identity(to, object)?;
        self.move_attributes(object, from, to, at)?;
        if from != to {
            self.release_identity(from, object);
        }
        Ok(())
    }

    /// Applies the part of a move that changes the object's own row.
    pub(super) fn move_attributes(
        &mut self,
        object: ObjectId,
        from: &Identity,
        to: &Identity,
        at: Option<Version>,
    ) -> Result<()> {
        let vertex = object_ref(self.schema, object).ok_or_else(no_type)?;
        let record = self.current_vertex(vertex.id)?;
        let Some(record) = record.filter(|r| !r.deleted) else {
            return Err(self.no_vertex(vertex));
        };
        let present = identity_of(&record.attributes);
        if present.as_ref() != Some(from) {
            let present = present.map_or_else(|| "none".to_owned(), |i| i.to_string());
            return Err(Error::Invalid(format!(
                "object {object} does not have the ID attributes from which it was to be moved ({from}); it has: {present}"
            )));
        }
        let version = self.version_after(at, record.static_version);
        let attributes = with_identity(record.attributes, to);
        // The previous row in `index` needs no removal: it is derived from the object.
        let old = from.hash();
        self.put_static(vertex, record.key, attributes, Some(version))?;
        if from != to {
            self.overlay.remove(Table::Index, identity_index(&old));
            let new = identity_index(&to.hash());
            self.overlay.put(Table::Index, new, object.0.to_be_bytes());
        }
        Ok(())
    }

    /// Reserves an identity for an object; refused if another object has it.
    pub(super) fn claim_identity(&mut self, identity: &Identity, object: ObjectId) -> Result<()> {
        check_identity(identity)?;
        let hash = identity.hash();
        self.refuse_taken(identity, &hash, Some(object))?;
        if prefix_of(&hash) != object.prefix() {
            self.overlay
                .put(Table::Index, alias_index(&hash), object.0.to_be_bytes());
        }
        Ok(())
    }

    /// Releases an identity that belongs to another location than the object.
    pub(super) fn release_identity(&mut self, identity: &Identity, object: ObjectId) {
        let hash = identity.hash();
        if prefix_of(&hash) != object.prefix() {
            self.overlay.remove(Table::Index, alias_index(&hash));
        }
    }

    fn refuse_taken(
        &self,
        identity: &Identity,
        hash: &[u8; 16],
        by_other_than: Option<ObjectId>,
    ) -> Result<()> {
        let mut taken = None;
        let mut note = |value: &[u8]| taken = Some(identity_value(value));
        self.overlay
            .get_with(Table::Index, &identity_index(hash), &mut note)?;
        match taken.transpose()? {
            Some(id) if Some(id) != by_other_than => Err(taken_by(identity, id)),
            _ => Ok(()),
        }
    }

    /// Releases the ID attributes of a deleted object.
    pub(super) fn forget_object(&mut self, object: ObjectId, attributes: &Properties) {
        if let Some(identity) = identity_of(attributes) {
            let hash = identity.hash();
            self.overlay.remove(Table::Index, identity_index(&hash));
            self.release_identity(&identity, object);
        }
    }

    /// Refuses changes of an object that are reserved to the object operations.
    pub(super) fn refuse_object(&self, vertex: VertexRef, what: &str) -> Result<()> {
        if object_type(self.schema) == Some(vertex.type_id) {
            return Err(Error::Invalid(format!(
                "{what}: an object gets its number and its ID attributes from `esker object create` and `esker object move`"
            )));
        }
        Ok(())
    }

    /// Refuses ID attributes among predefined attributes to be changed individually.
    pub(super) fn refuse_id_attributes<'n>(
        &self,
        vertex: VertexRef,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<()> {
        if object_type(self.schema) != Some(vertex.type_id) {
            return Ok(());
        }
        match names.into_iter().find(|n| ID_ATTRIBUTES.contains(n)) {
            Some(name) => Err(Error::Invalid(format!(
                "`{name}` is one of the ID attributes of an object (name, app, owner, step): change it with `esker object move`"
            ))),
            None => Ok(()),
        }
    }
}

fn taken_by(identity: &Identity, id: ObjectId) -> Error {
    Error::Invalid(format!(
        "an object with these ID attributes exists already: {identity}; it is object {id}"
    ))
}

fn no_type() -> Error {
    Error::Invalid(format!(
        "this database has a vertex type `{OBJECT_TYPE}` of its own, so it cannot hold objects: export it, and import it \
         under another name"
    ))
}

/// Checks of a new object that are independent of stored data; returns the type of objects.
pub(crate) fn check_object(
    schema: &esker_model::Schema,
    identity: &Identity,
    attributes: &Properties,
    tags: &Properties,
) -> Result<VertexTypeId> {
    let type_id = object_type(schema).ok_or_else(no_type)?;
    check_identity(identity)?;
    check_static(schema, type_id, attributes)?;
    let mut names = attributes.iter().map(|(name, _)| name);
    if let Some(name) = names.find(|name| ID_ATTRIBUTES.contains(name)) {
        return Err(Error::Invalid(format!(
            "`{name}` is one of the ID attributes: it is given once, as such"
        )));
    }
    check_properties("an object's tags", tags, PROPERTIES_MAX)?;
    for (name, _) in tags.iter() {
        check_not_special(name)?;
        if schema.attribute(type_id, name).is_some() {
            return Err(Error::Invalid(format!(
                "`{name}` is a predefined attribute of objects, not a tag: give it as an attribute"
            )));
        }
    }
    Ok(type_id)
}

/// Refuses ID attributes that are invalid for every object.
pub(crate) fn check_identity(identity: &Identity) -> Result<()> {
    if identity.name.is_empty() {
        return Err(Error::Invalid(
            "an object's name is empty; expected at least one character".into(),
        ));
    }
    for (what, text) in [("name", &identity.name), ("app", &identity.app)] {
        if text.len() > VALUE_BYTES_MAX {
            return Err(Error::Limit {
                what: format!("an object's `{what}`, in bytes,"),
                got: text.len() as u64,
                limit: VALUE_BYTES_MAX as u64,
            });
        }
    }
    Ok(())
}

fn with_identity(mut attributes: Properties, identity: &Identity) -> Properties {
    attributes.set("name", identity.name.as_str());
    attributes.set("app", identity.app.as_str());
    attributes.set("owner", identity.owner);
    attributes.set("step", identity.step);
    attributes
}

/// Returns the ID attributes among predefined ones.
pub(crate) fn identity_of(attributes: &Properties) -> Option<Identity> {
    let text = |name| match attributes.get(name) {
        Some(Value::String(s)) => Some(s.clone()),
        _ => None,
    };
    let number = |name| match attributes.get(name) {
        Some(Value::I64(n)) => Some(*n),
        _ => None,
    };
    Some(Identity {
        name: text("name")?,
        app: text("app")?,
        owner: number("owner")?,
        step: number("step")?,
    })
}
