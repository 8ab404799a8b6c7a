//! Helpers for documents in JSON.

use serde_json::{Map, Value as Json};

/// An object whose absent values are left out.
#[derive(Debug, Default)]
pub(crate) struct Object(Map<String, Json>);

impl Object {
    /// Makes a document of JSON-LD with a context and a type.
    pub(crate) fn document(context: impl IntoValue, name: &str) -> Self {
        let mut object = Self::default();
        object.set("@context", context);
        object.set("@type", name);
        object
    }

    /// Makes an object with a type of JSON-LD.
    pub(crate) fn typed(name: &str) -> Self {
        let mut object = Self::default();
        object.set("@type", name);
        object
    }

    /// Sets a value; `None`, an empty list and an empty object are left out.
    pub(crate) fn set(&mut self, name: &str, value: impl IntoValue) {
        if let Some(value) = value.into_value() {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Returns the object as a value.
    pub(crate) fn done(self) -> Json {
        Json::Object(self.0)
    }
}

/// Values that may be absent.
pub(crate) trait IntoValue {
    /// Returns the value unless it is absent.
    fn into_value(self) -> Option<Json>;
}

impl IntoValue for Json {
    fn into_value(self) -> Option<Json> {
        let absent = match &self {
            Self::Null => true,
            Self::Array(items) => items.is_empty(),
            Self::Object(members) => members.is_empty(),
            _ => false,
        };
        (!absent).then_some(self)
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Option<Json> {
        Some(self.into())
    }
}

impl IntoValue for String {
    fn into_value(self) -> Option<Json> {
        Some(self.into())
    }
}

impl IntoValue for Vec<Json> {
    fn into_value(self) -> Option<Json> {
        Json::Array(self).into_value()
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<Json> {
        self.and_then(T::into_value)
    }
}
