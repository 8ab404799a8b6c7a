//! JSON objects in requests: checks of their keys and of the kinds of their values.

use super::ApiError;
use super::json::value_in;
use esker_model::namespace::names_a_path;
use esker_model::object::{Identity, ObjectId, Principal};
use esker_model::schema::nearest;
use esker_model::{Properties, Schema, VertexName, VertexRef, VertexTypeId};
use serde_json::{Map, Value as Json};
use std::cell::RefCell;

/// Suggests the nearest known name, if one is similar, and lists all of them.
pub(super) fn advice<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    nearest(name, known).map_or_else(
        || format!("expected {all}"),
        |near| format!("did you mean `{near}`? (expected one of: {all})"),
    )
}

/// Parses a request's body, which must be one object with some of the known keys.
pub(super) fn parse(text: &str, known: &[&str]) -> Result<Map<String, Json>, ApiError> {
    let body: Json = serde_json::from_str(text)
        .map_err(|e| ApiError::bad(format!("the body is not JSON: {e}")))?;
    let Json::Object(body) = body else {
        let message = format!(
            "the body: expected a JSON object with some of {}",
            known.join(", ")
        );
        return Err(ApiError::bad(message));
    };
    if let Some(key) = body.keys().find(|k| !known.contains(&k.as_str())) {
        let advice = advice(key, known.iter().copied());
        return Err(ApiError::bad(format!("unknown key `{key}`; {advice}")));
    }
    Ok(body)
}

/// Parses the number of an object, as `8123` or `object:8123`.
pub(super) fn object_id(text: &str) -> Result<ObjectId, ApiError> {
    let key = match text.split_once(':') {
        Some((kind, key)) if kind.eq_ignore_ascii_case("object") => key,
        _ => text,
    };
    ObjectId::of_key(key).ok_or_else(|| {
        ApiError::bad(format!(
            "`{text}` is not an object's number; expected one below 2^63, as in 8123 or object:8123"
        ))
    })
}

/// Reader of one JSON object's fields.
pub(super) struct Fields<'a> {
    pub(super) object: &'a Map<String, Json>,
    pub(super) schema: &'a Schema,
    /// Collects names that may be paths of files.
    pub(super) paths: Option<&'a RefCell<Vec<VertexName>>>,
}

impl<'a> Fields<'a> {
    pub(super) fn text(&self, key: &str) -> Result<&'a str, ApiError> {
        self.optional_text(key)?
            .ok_or_else(|| ApiError::bad(format!("`{key}` is missing")))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'a str>, ApiError> {
        match self.object.get(key) {
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::bad(format!("`{key}`: expected a string"))),
            None => Ok(None),
        }
    }

    pub(super) fn vertex(&self, key: &str) -> Result<(VertexRef, String), ApiError> {
        let name = VertexName::parse(self.text(key)?)?;
        let vertex = name.resolve(self.schema)?;
        let key = name.key.clone();
        if let Some(paths) = self.paths.filter(|_| names_a_path(self.schema, &name)) {
            paths.borrow_mut().push(name);
        }
        Ok((vertex, key))
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Json>>, ApiError> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(object)),
            Some(_) => Err(ApiError::bad(format!("`{key}`: expected an object"))),
        }
    }

    /// Reads names and values, of the kinds that the schema declares for a type.
    pub(super) fn properties(
        &self,
        key: &str,
        of: Option<VertexTypeId>,
    ) -> Result<Properties, ApiError> {
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
                ApiError::bad(format!("`{key}.{name}`: expected {expected}; got {value}"))
            })?;
            Ok((name.clone(), value))
        };
        object.iter().map(pair).collect()
    }

    pub(super) fn names(&self, key: &str) -> Result<Vec<String>, ApiError> {
        Ok(self.optional_names(key)?.unwrap_or_default())
    }

    pub(super) fn optional_names(&self, key: &str) -> Result<Option<Vec<String>>, ApiError> {
        let bad = || ApiError::bad(format!("`{key}`: expected a list of strings"));
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

    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                ApiError::bad(format!(
                    "`{key}`: expected a whole number from 0; got {value}"
                ))
            }),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| {
                ApiError::bad(format!("`{key}`: expected a whole number; got {value}"))
            }),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, ApiError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(_) => Err(ApiError::bad(format!("`{key}`: expected true or false"))),
        }
    }

    /// Reads the keys `uid` and `gids`.
    pub(super) fn principal(&self) -> Result<Option<Principal>, ApiError> {
        let gids = match self.object.get("gids") {
            None | Some(Json::Null) => None,
            Some(Json::Array(items)) => items.iter().map(Json::as_i64).collect::<Option<Vec<_>>>(),
            Some(_) => {
                let message = "`gids`: expected a list of whole numbers".into();
                return Err(ApiError::bad(message));
            }
        };
        match (self.integer("uid")?, gids) {
            (Some(uid), gids) => Ok(Some(Principal {
                uid,
                gids: gids.unwrap_or_default(),
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(ApiError::bad("`gids` needs `uid`".into())),
        }
    }

    /// Reads the keys `name`, `app`, `owner`, `step`.
    pub(super) fn identity(&self) -> Result<Identity, ApiError> {
        Ok(Identity {
            name: self.text("name")?.to_owned(),
            app: self.optional_text("app")?.unwrap_or_default().to_owned(),
            owner: self
                .integer("owner")?
                .ok_or_else(|| ApiError::bad("`owner` is missing".into()))?,
            step: self.integer("step")?.unwrap_or_default(),
        })
    }

    /// Reads these keys from an object under `key`.
    pub(super) fn identity_at(&self, key: &str) -> Result<Identity, ApiError> {
        let object = self
            .object(key)?
            .ok_or_else(|| ApiError::bad(format!("`{key}` is missing")))?;
        let known = esker_model::object::ID_ATTRIBUTES;
        if let Some(name) = object.keys().find(|k| !known.contains(&k.as_str())) {
            let advice = advice(name, known.iter().copied());
            return Err(ApiError::bad(format!(
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
        .map_err(|e| e.in_key(key))
    }
}
