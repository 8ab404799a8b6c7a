//! Objects as rows.

use super::json::{properties_json, value_json};
use super::{Cell, quote, value_text};
use esker_model::object::{Found, ID_ATTRIBUTES};
use esker_model::{Properties, Value, Version};
use std::borrow::Cow;

/// A column of a list of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectColumn {
    /// The object's number.
    Id,
    /// The version at which the object was created.
    Created,
    /// The version of the object's last change.
    Modified,
    /// An attribute or a tag of this name.
    Value(Cow<'static, str>),
    /// All predefined attributes.
    Attributes,
    /// The predefined attributes other than the ID attributes.
    OtherAttributes,
    /// All tags of the object.
    Tags,
}

impl ObjectColumn {
    /// Returns the columns of a table for users.
    pub fn short() -> Vec<Self> {
        let mut columns = vec![Self::Id];
        columns.extend(ID_ATTRIBUTES.map(|name| Self::Value(Cow::Borrowed(name))));
        columns.extend([Self::Value(Cow::Borrowed("location")), Self::Tags]);
        columns
    }

    /// Returns all columns for programs: in JSON as a server returns objects, in tables with the ID attributes in columns of their own.
    pub fn all(json: bool) -> Vec<Self> {
        if json {
            return vec![
                Self::Id,
                Self::Created,
                Self::Modified,
                Self::Attributes,
                Self::Tags,
            ];
        }
        let mut columns = vec![Self::Id];
        columns.extend(ID_ATTRIBUTES.map(|name| Self::Value(Cow::Borrowed(name))));
        columns.extend([
            Self::Created,
            Self::Modified,
            Self::OtherAttributes,
            Self::Tags,
        ]);
        columns
    }

    /// Returns the selected columns, after the object's number.
    pub fn of_names(names: &[String]) -> Vec<Self> {
        let chosen = names.iter().map(|name| match name.as_str() {
            "id" => Self::Id,
            "created" => Self::Created,
            "modified" | "version" => Self::Modified,
            name => Self::Value(Cow::Owned(name.to_owned())),
        });
        let mut columns = vec![Self::Id];
        columns.extend(chosen.filter(|c| *c != Self::Id));
        columns
    }

    /// Returns the column's heading.
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Id => "id",
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Attributes | Self::OtherAttributes => "attributes",
            Self::Tags => "tags",
            Self::Value(name) => return name.clone(),
        })
    }

    /// Returns the column's cell for an object.
    pub fn cell(&self, found: &Found) -> Cell {
        match self {
            // The number is text because most JSON readers keep only 53 bits of a number.
            Self::Id => Cell::Text(found.id.to_string()),
            Self::Created => Cell::Version(found.created),
            Self::Modified => Cell::Version(found.modified),
            Self::Attributes => attributes_cell(&found.attributes),
            Self::OtherAttributes => attributes_cell(&other_attributes(&found.attributes)),
            Self::Tags => Cell::Json(properties_json(&found.tags), tags_text(&found.tags)),
            Self::Value(name) => match value_of(found, name) {
                None => Cell::Empty,
                Some(Value::I64(mode)) if name == "mode" => {
                    Cell::Json(value_json(&Value::I64(*mode)), mode_text(*mode))
                }
                // In a table, a tag without a value must look different from a missing tag.
                Some(Value::Null) => Cell::Json(serde_json::Value::Null, "yes".to_owned()),
                Some(Value::String(text)) => Cell::Text(text.clone()),
                Some(value) => Cell::Value(value.clone()),
            },
        }
    }

    /// Returns the column's value for Parquet, whose columns have one kind each.
    pub fn value(&self, found: &Found) -> Option<Value> {
        match self {
            Self::Id => i64::try_from(found.id.0).ok().map(Value::I64),
            Self::Created => time(found.created),
            Self::Modified => time(found.modified),
            Self::Attributes => Some(json_text(&found.attributes)),
            Self::OtherAttributes => Some(json_text(&other_attributes(&found.attributes))),
            Self::Tags => Some(json_text(&found.tags)),
            Self::Value(name) => value_of(found, name).cloned(),
        }
    }
}

fn time(version: Version) -> Option<Value> {
    let nanos = version.millis().checked_mul(1_000_000)?;
    i64::try_from(nanos).ok().map(Value::Timestamp)
}

/// Looks up a value by its exact name, else a predefined attribute regardless of case, as filters do.
fn value_of<'f>(found: &'f Found, name: &str) -> Option<&'f Value> {
    found.get(name).or_else(|| {
        let mut attributes = found.attributes.iter();
        attributes.find_map(|(n, value)| n.eq_ignore_ascii_case(name).then_some(value))
    })
}

fn other_attributes(attributes: &Properties) -> Properties {
    attributes
        .iter()
        .filter(|(name, _)| !ID_ATTRIBUTES.contains(name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

/// Formats tags for users: `Conf_0 energy=2.5`.
fn tags_text(tags: &Properties) -> String {
    let text = tags.iter().map(|(name, value)| match value {
        Value::Null => quote(name),
        value => format!("{}={}", quote(name), value_text(value)),
    });
    text.collect::<Vec<_>>().join(" ")
}

fn json_text(properties: &Properties) -> Value {
    Value::String(properties_json(properties).to_string())
}

fn attributes_cell(attributes: &Properties) -> Cell {
    Cell::Json(properties_json(attributes), attributes_text(attributes))
}

fn attributes_text(attributes: &Properties) -> String {
    let text = attributes
        .iter()
        .map(|(name, value)| format!("{}={}", quote(name), attribute_text(name, value)));
    text.collect::<Vec<_>>().join(" ")
}

/// Formats an attribute for users: modes in octal.
pub fn attribute_text(name: &str, value: &Value) -> String {
    match value {
        Value::I64(mode) if name == "mode" => mode_text(*mode),
        value => value_text(value),
    }
}

fn mode_text(mode: i64) -> String {
    format!("{mode:04o}")
}
