//! Objects of JSON that a request brings: their keys known, their values of the kind that is expected.

use super::Refused;
use super::json::value_in;
use esker_model::namespace::names_a_path;
use esker_model::object::{Asker, Identity, ObjectId};
use esker_model::schema::nearest;
use esker_model::{Properties, Schema, VertexName, VertexRef, VertexTypeId};
use serde_json::{Map, Value as Json};
use std::cell::RefCell;

/// A name as a person wrote it against those that there are.
pub(super) fn advice<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    nearest(name, known.clone()).map_or_else(
        || format!("expected {}", known.collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    )
}

/// The body of a request, which is one object with some of these keys.
pub(super) fn parse(text: &str, known: &[&str]) -> Result<Map<String, Json>, Refused> {
    let body: Json = serde_json::from_str(text)
        .map_err(|e| Refused::bad(format!("the body is not JSON: {e}")))?;
    let Json::Object(body) = body else {
        let message = format!(
            "the body: expected a JSON object with some of {}",
            known.join(", ")
        );
        return Err(Refused::bad(message));
    };
    if let Some(key) = body.keys().find(|k| !known.contains(&k.as_str())) {
        let advice = advice(key, known.iter().copied());
        return Err(Refused::bad(format!("unknown key `{key}`; {advice}")));
    }
    Ok(body)
}

/// The number of an object, as `8123` or `object:8123`.
pub(super) fn object_id(text: &str) -> Result<ObjectId, Refused> {
    let key = match text.split_once(':') {
        Some((kind, key)) if kind.eq_ignore_ascii_case("object") => key,
        _ => text,
    };
    ObjectId::of_key(key).ok_or_else(|| {
        Refused::bad(format!(
            "`{text}` is no object's number; expected one below 2^63, as in 8123 or object:8123"
        ))
    })
}

/// One object, read key by key.
pub(super) struct Fields<'a> {
    pub(super) object: &'a Map<String, Json>,
    pub(super) schema: &'a Schema,
    /// Takes note of names that may be paths of files.
    pub(super) paths: Option<&'a RefCell<Vec<VertexName>>>,
}

impl<'a> Fields<'a> {
    pub(super) fn text(&self, key: &str) -> Result<&'a str, Refused> {
        self.optional_text(key)?
            .ok_or_else(|| Refused::bad(format!("`{key}` is missing")))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'a str>, Refused> {
        match self.object.get(key) {
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refused::bad(format!("`{key}`: expected a string"))),
            None => Ok(None),
        }
    }

    pub(super) fn vertex(&self, key: &str) -> Result<(VertexRef, String), Refused> {
        let name = VertexName::parse(self.text(key)?)?;
        let vertex = name.resolve(self.schema)?;
        let key = name.key.clone();
        if let Some(paths) = self.paths.filter(|_| names_a_path(self.schema, &name)) {
            paths.borrow_mut().push(name);
        }
        Ok((vertex, key))
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Json>>, Refused> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(object)),
            Some(_) => Err(Refused::bad(format!("`{key}`: expected an object"))),
        }
    }

    /// Names and values; of the kinds that the schema declares for a type.
    pub(super) fn properties(
        &self,
        key: &str,
        of: Option<VertexTypeId>,
    ) -> Result<Properties, Refused> {
        let Some(object) = self.object(key)? else {
            return Ok(Properties::new());
        };
        let pair = |(name, value): (&String, &Json)| {
            let kind = of.and_then(|t| self.schema.attribute(t, name));
            let kind = kind.map(|a| a.kind);
            let value = value_in(value, kind).ok_or_else(|| {
                let expected = match kind {
                    Some(kind) => format!("a value of kind {}", kind.name()),
                    None => "null, true, false, a number, a string or a list".to_owned(),
                };
                Refused::bad(format!("`{key}.{name}`: expected {expected}; got {value}"))
            })?;
            Ok((name.clone(), value))
        };
        object.iter().map(pair).collect()
    }

    pub(super) fn names(&self, key: &str) -> Result<Vec<String>, Refused> {
        Ok(self.optional_names(key)?.unwrap_or_default())
    }

    pub(super) fn optional_names(&self, key: &str) -> Result<Option<Vec<String>>, Refused> {
        let bad = || Refused::bad(format!("`{key}`: expected a list of strings"));
        match self.object.get(key) {
            None => Ok(None),
            Some(Json::Array(items)) => items
                .iter()
                .map(|i| i.as_str().map(str::to_owned).ok_or_else(bad))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(bad()),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Refused> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                Refused::bad(format!(
                    "`{key}`: expected a whole number from 0; got {value}"
                ))
            }),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, Refused> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| {
                Refused::bad(format!("`{key}`: expected a whole number; got {value}"))
            }),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Refused> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(_) => Err(Refused::bad(format!("`{key}`: expected true or false"))),
        }
    }

    /// The keys `uid` and `gids`.
    pub(super) fn asker(&self) -> Result<Option<Asker>, Refused> {
        let gids = match self.object.get("gids") {
            None | Some(Json::Null) => None,
            Some(Json::Array(items)) => items.iter().map(Json::as_i64).collect::<Option<Vec<_>>>(),
            Some(_) => {
                let message = "`gids`: expected a list of whole numbers".into();
                return Err(Refused::bad(message));
            }
        };
        match (self.integer("uid")?, gids) {
            (Some(uid), gids) => Ok(Some(Asker {
                uid,
                gids: gids.unwrap_or_default(),
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Refused::bad("`gids` needs `uid`".into())),
        }
    }

    /// The keys `name`, `app`, `owner`, `step`.
    pub(super) fn identity(&self) -> Result<Identity, Refused> {
        Ok(Identity {
            name: self.text("name")?.to_owned(),
            app: self.optional_text("app")?.unwrap_or_default().to_owned(),
            owner: self
                .integer("owner")?
                .ok_or_else(|| Refused::bad("`owner` is missing".into()))?,
            step: self.integer("step")?.unwrap_or_default(),
        })
    }

    /// The same inside an object.
    pub(super) fn identity_at(&self, key: &str) -> Result<Identity, Refused> {
        let object = self
            .object(key)?
            .ok_or_else(|| Refused::bad(format!("`{key}` is missing")))?;
        let known = esker_model::object::ID_ATTRIBUTES;
        if let Some(name) = object.keys().find(|k| !known.contains(&k.as_str())) {
            let advice = advice(name, known.iter().copied());
            return Err(Refused::bad(format!(
                "unknown key `{name}` of `{key}`; {advice}"
            )));
        }
        let schema = self.schema;
        Fields {
            object,
            schema,
            paths: None,
        }
        .identity()
        .map_err(|e| e.within(key))
    }
}
