//! Objects on the command line: by number or by ID attributes.

use crate::args::{IdentityArgs, ObjectNames};
use esker::Database;
use esker_model::object::{Found, Identity, ObjectId, ObjectKey, ObjectRead as _, object_ref};
use esker_model::{Schema, VertexRef};
use esker_terminal::exit::usage;

/// Error of a database whose objects cannot exist, because its own type has their type's name.
pub(crate) const NO_OBJECTS: &str =
    "this database has a type `Object` of its own, so it cannot hold objects: use another database";

/// Parses `NUMBER` or `object:NUMBER`.
pub(crate) fn parse_id(text: &str) -> anyhow::Result<ObjectId> {
    let digits = match text.split_once(':') {
        Some((prefix, digits)) if prefix.eq_ignore_ascii_case("object") => digits,
        _ => text,
    };
    ObjectId::of_key(digits).ok_or_else(|| {
        usage(format!(
            "`{text}` is not an object's number: expected digits as `esker object create` and \
             `esker find` print them, or --name, --app, --owner and --step"
        ))
    })
}

/// Returns the name of an object's vertex.
pub(crate) fn object_name(id: ObjectId) -> String {
    format!("object:{id}")
}

impl IdentityArgs {
    /// Whether any of the four attributes was given.
    fn is_given(&self) -> bool {
        self.name.is_some() || self.app.is_some() || self.owner.is_some() || self.step.is_some()
    }

    /// Returns all four attributes, or an error with the missing one.
    fn complete(&self) -> anyhow::Result<Identity> {
        let missing = |option: &str, given: &str| {
            usage(format!(
                "{option} is missing: all four ID attributes (name, app, owner, step) name an object; `esker find T \
                 \"{given}\"` searches by some of them"
            ))
        };
        let filter = self.as_filter();
        Ok(Identity {
            name: self
                .name
                .clone()
                .ok_or_else(|| missing("--name", &filter))?,
            app: self.app.clone().ok_or_else(|| missing("--app", &filter))?,
            owner: self.owner.ok_or_else(|| missing("--owner", &filter))?,
            step: self.step.ok_or_else(|| missing("--step", &filter))?,
        })
    }

    /// Returns the given attributes as the text of a filter.
    fn as_filter(&self) -> String {
        let text = |name: &str, value: &Option<String>| {
            let value = value.as_ref()?.replace('\'', "''");
            Some(format!("{name} = '{value}'"))
        };
        let number = |name: &str, value: Option<i64>| Some(format!("{name} = {}", value?));
        let terms = [
            text("name", &self.name),
            text("app", &self.app),
            number("owner", self.owner),
            number("step", self.step),
        ];
        terms
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" AND ")
    }
}

impl ObjectNames {
    /// Returns the keys to look up.
    pub(crate) fn keys(&self) -> anyhow::Result<Vec<ObjectKey>> {
        let ids = self
            .ids
            .iter()
            .map(|text| parse_id(text).map(ObjectKey::Id));
        let mut keys: Vec<ObjectKey> = ids.collect::<Result<_, _>>()?;
        if self.identity.is_given() {
            keys.push(ObjectKey::Identity(self.identity.complete()?));
        }
        if keys.is_empty() {
            return Err(usage(
                "no object is named: give an ID, or --name, --app, --owner and --step",
            ));
        }
        Ok(keys)
    }

    /// Reads the objects, all of which must exist.
    pub(crate) fn resolve(&self, database: &Database) -> anyhow::Result<Vec<Found>> {
        let keys = self.keys()?;
        let found = database.read_objects(&keys, None)?;
        let each = keys.iter().zip(found);
        each.map(|(key, found)| found.ok_or_else(|| missing(key)))
            .collect()
    }
}

/// Returns the error that an object does not exist.
pub(crate) fn missing(key: &ObjectKey) -> anyhow::Error {
    match key {
        ObjectKey::Id(id) => anyhow::anyhow!("no object `{id}`"),
        ObjectKey::Identity(identity) => anyhow::anyhow!("no object with {identity}"),
    }
}

/// Returns the vertex of an object.
pub(super) fn vertex(schema: &Schema, id: ObjectId) -> anyhow::Result<VertexRef> {
    object_ref(schema, id).ok_or_else(|| usage(NO_OBJECTS))
}
