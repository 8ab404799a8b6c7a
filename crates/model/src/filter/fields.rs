//! What objects, vertices and edges have under which name.
//!
//! Names with a meaning of their own ([`super::SPECIAL_NAMES`]) come first, then attributes and tags of exactly that name,
//! then predefined attributes whose name differs in case only, so that `Name` finds `name`.

use super::eval::{Fields, ValueRef};
use crate::graph::{Edge, Vertex};
use crate::object::{Found, OBJECT_TYPE, ObjectId};
use crate::schema::Schema;
use crate::value::{Properties, Value};
use crate::version::Version;
use std::borrow::Cow;

/// A vertex, in the words of a schema.
#[derive(Debug, Clone, Copy)]
pub struct VertexFields<'a> {
    /// The vertex.
    pub vertex: &'a Vertex,
    /// The name of its type, if anybody knows.
    pub type_name: Option<&'a str>,
}

/// An edge, in the words of a schema.
#[derive(Debug, Clone, Copy)]
pub struct EdgeFields<'a> {
    /// The edge.
    pub edge: &'a Edge,
    /// The name of its type, if anybody knows.
    pub type_name: Option<&'a str>,
}

impl<'a> VertexFields<'a> {
    /// A vertex of a database with that schema.
    pub fn new(vertex: &'a Vertex, schema: &'a Schema) -> Self {
        let vertex_type = schema.vertex_type(vertex.type_id);
        Self {
            vertex,
            type_name: vertex_type.map(|t| t.name.as_str()),
        }
    }
}

impl<'a> EdgeFields<'a> {
    /// An edge of a database with that schema.
    pub fn new(edge: &'a Edge, schema: &'a Schema) -> Self {
        let edge_type = schema.edge_type(edge.key.edge_type);
        Self {
            edge,
            type_name: edge_type.map(|t| t.name.as_str()),
        }
    }
}

/// A value that is there, or one made for the occasion.
enum Under<'a> {
    Stored(&'a Value),
    Made(ValueRef<'a>),
}

impl<'a> Under<'a> {
    fn as_ref(&self) -> ValueRef<'a> {
        match self {
            Under::Stored(value) => ValueRef::from(*value),
            Under::Made(value) => *value,
        }
    }

    fn into_value(self) -> Cow<'a, Value> {
        match self {
            Under::Stored(value) => Cow::Borrowed(value),
            Under::Made(value) => Cow::Owned(value.to_value()),
        }
    }
}

fn moment<'a>(version: Version) -> Under<'a> {
    Under::Made(ValueRef::Timestamp(version.nanos()))
}

/// The predefined attribute of that name, upper and lower case of ASCII letters being the same.
fn in_any_case<'a>(attributes: &'a Properties, name: &str) -> Option<&'a Value> {
    let mut pairs = attributes.iter();
    let found = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

impl<'a> VertexFields<'a> {
    fn under(&self, name: &str) -> Option<Under<'a>> {
        let vertex = self.vertex;
        let object = || ObjectId::of_vertex(vertex.id);
        match name {
            "type" => return self.type_name.map(|t| Under::Made(ValueRef::String(t))),
            "key" => return Some(Under::Made(ValueRef::String(&vertex.key))),
            "version" | "modified" => return Some(moment(vertex.version)),
            "id" => {
                if let Some(id) = object() {
                    return Some(Under::Made(ValueRef::I64(id.0 as i64)));
                }
            }
            // What this was made from does not say when.
            "created" if object().is_some() => return None,
            _ => {}
        }
        vertex
            .attribute(name)
            .or_else(|| in_any_case(&vertex.attributes, name))
            .map(Under::Stored)
    }
}

impl<'a> EdgeFields<'a> {
    fn under(&self, name: &str) -> Option<Under<'a>> {
        match name {
            "type" => self.type_name.map(|t| Under::Made(ValueRef::String(t))),
            "version" => Some(moment(self.edge.version)),
            _ => self.edge.properties.get(name).map(Under::Stored),
        }
    }
}

impl Fields for VertexFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.under(name).map(Under::into_value)
    }

    fn passes(&self, name: &str, test: &mut dyn FnMut(ValueRef<'_>) -> bool) -> bool {
        self.under(name).is_some_and(|value| test(value.as_ref()))
    }
}

impl Fields for EdgeFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.under(name).map(Under::into_value)
    }

    fn passes(&self, name: &str, test: &mut dyn FnMut(ValueRef<'_>) -> bool) -> bool {
        self.under(name).is_some_and(|value| test(value.as_ref()))
    }
}

/// What a search gave, as far as it was selected.
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
