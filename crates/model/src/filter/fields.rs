//! Named values of objects, vertices and edges.
//!
//! Built-in names ([`super::SPECIAL_NAMES`]) come first, then attributes and tags of exactly that name, then
//! predefined attributes whose name differs in case only, so that `Name` finds `name`.

use super::eval::{Fields, ValueRef};
use crate::graph::{Edge, Vertex};
use crate::object::{Found, OBJECT_TYPE, ObjectId};
use crate::schema::Schema;
use crate::value::{Properties, Value};
use crate::version::Version;
use std::borrow::Cow;

/// A vertex with the name of its type, as filters see it.
#[derive(Debug, Clone, Copy)]
pub struct VertexFields<'a> {
    /// The vertex to test.
    pub vertex: &'a Vertex,
    /// Name of its type, if known.
    pub type_name: Option<&'a str>,
}

/// An edge with the name of its type, as filters see it.
#[derive(Debug, Clone, Copy)]
pub struct EdgeFields<'a> {
    /// The edge to test.
    pub edge: &'a Edge,
    /// Name of its type, if known.
    pub type_name: Option<&'a str>,
}

impl<'a> VertexFields<'a> {
    /// Creates the fields of a vertex; the schema gives the name of its type.
    pub fn new(vertex: &'a Vertex, schema: &'a Schema) -> Self {
        let vertex_type = schema.vertex_type(vertex.type_id);
        Self {
            vertex,
            type_name: vertex_type.map(|t| t.name.as_str()),
        }
    }
}

impl<'a> EdgeFields<'a> {
    /// Creates the fields of an edge; the schema gives the name of its type.
    pub fn new(edge: &'a Edge, schema: &'a Schema) -> Self {
        let edge_type = schema.edge_type(edge.key.edge_type);
        Self {
            edge,
            type_name: edge_type.map(|t| t.name.as_str()),
        }
    }
}

/// A stored value, or one computed for a built-in name.
enum FieldValue<'a> {
    Stored(&'a Value),
    Computed(ValueRef<'a>),
}

impl<'a> FieldValue<'a> {
    fn as_ref(&self) -> ValueRef<'a> {
        match self {
            FieldValue::Stored(value) => ValueRef::from(*value),
            FieldValue::Computed(value) => *value,
        }
    }

    fn into_value(self) -> Cow<'a, Value> {
        match self {
            FieldValue::Stored(value) => Cow::Borrowed(value),
            FieldValue::Computed(value) => Cow::Owned(value.to_value()),
        }
    }
}

fn timestamp<'a>(version: Version) -> FieldValue<'a> {
    FieldValue::Computed(ValueRef::Timestamp(version.nanos()))
}

/// Returns the predefined attribute of that name, ignoring the case of ASCII letters.
fn in_any_case<'a>(attributes: &'a Properties, name: &str) -> Option<&'a Value> {
    let mut pairs = attributes.iter();
    let found = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

impl<'a> VertexFields<'a> {
    fn value_of(&self, name: &str) -> Option<FieldValue<'a>> {
        let vertex = self.vertex;
        let object = || ObjectId::of_vertex(vertex.id);
        match name {
            "type" => {
                return self
                    .type_name
                    .map(|t| FieldValue::Computed(ValueRef::String(t)));
            }
            "key" => return Some(FieldValue::Computed(ValueRef::String(&vertex.key))),
            "version" | "modified" => return Some(timestamp(vertex.version)),
            "id" => {
                if let Some(id) = object() {
                    return Some(FieldValue::Computed(ValueRef::I64(id.0 as i64)));
                }
            }
            // A vertex does not contain the time of an object's creation.
            "created" if object().is_some() => return None,
            _ => {}
        }
        vertex
            .attribute(name)
            .or_else(|| in_any_case(&vertex.attributes, name))
            .map(FieldValue::Stored)
    }
}

impl<'a> EdgeFields<'a> {
    fn value_of(&self, name: &str) -> Option<FieldValue<'a>> {
        match name {
            "type" => self
                .type_name
                .map(|t| FieldValue::Computed(ValueRef::String(t))),
            "version" => Some(timestamp(self.edge.version)),
            _ => self.edge.properties.get(name).map(FieldValue::Stored),
        }
    }
}

impl Fields for VertexFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.value_of(name).map(FieldValue::into_value)
    }

    fn passes(&self, name: &str, test: &mut dyn FnMut(ValueRef<'_>) -> bool) -> bool {
        self.value_of(name)
            .is_some_and(|value| test(value.as_ref()))
    }
}

impl Fields for EdgeFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.value_of(name).map(FieldValue::into_value)
    }

    fn passes(&self, name: &str, test: &mut dyn FnMut(ValueRef<'_>) -> bool) -> bool {
        self.value_of(name)
            .is_some_and(|value| test(value.as_ref()))
    }
}

/// Fields are those that the search selected.
impl Fields for Found {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        let made = match name {
            "id" => Value::I64(self.id.0 as i64),
            "key" => Value::String(self.id.to_string()),
            "type" => Value::from(OBJECT_TYPE),
            "created" => Value::Timestamp(self.created.nanos()),
            "modified" | "version" => Value::Timestamp(self.modified.nanos()),
            _ => {
                let stored = self.get(name);
                return stored
                    .or_else(|| in_any_case(&self.attributes, name))
                    .map(Cow::Borrowed);
            }
        };
        Some(Cow::Owned(made))
    }
}
