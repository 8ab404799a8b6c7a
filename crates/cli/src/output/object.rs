//! Objects as rows.

use super::json::{properties_json, value_json};
use super::{Cell, quote, value_text};
use esker_model::object::{Found, ID_ATTRIBUTES};
use esker_model::{Properties, Value, Version};
use std::borrow::Cow;

/// A column of a list of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectColumn {
    /// Its number.
    Id,
    /// When it was created.
    Created,
    /// When it changed last.
    Modified,
    /// An attribute or a tag.
    Value(Cow<'static, str>),
    /// Its predefined attributes.
    Attributes,
    /// The same but for the ID attributes.
    Others,
    /// Its tags.
    Tags,
}

impl ObjectColumn {
    /// What a person sees of each object.
    pub(crate) fn short() -> Vec<Self> {
        let mut columns = vec![Self::Id];
        columns.extend(ID_ATTRIBUTES.map(|name| Self::Value(Cow::Borrowed(name))));
        columns.extend([Self::Value(Cow::Borrowed("location")), Self::Tags]);
        columns
    }

    /// All that there is, for programs: in JSON as a server gives it, in tables of fixed columns with the ID attributes in
    /// columns of their own.
    pub(crate) fn all(json: bool) -> Vec<Self> {
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
        columns.extend([Self::Created, Self::Modified, Self::Others, Self::Tags]);
        columns
    }

    /// Those that were chosen, behind the number.
    pub(crate) fn of_names(names: &[String]) -> Vec<Self> {
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

    /// Its heading.
    pub(crate) fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Id => "id",
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Attributes | Self::Others => "attributes",
            Self::Tags => "tags",
            Self::Value(name) => return name.clone(),
        })
    }

    /// What it shows of an object.
    pub(crate) fn cell(&self, found: &Found) -> Cell {
        match self {
            // As text: most readers of JSON keep no more than 53 bits of a number.
            Self::Id => Cell::Text(found.id.to_string()),
            Self::Created => Cell::Version(found.created),
            Self::Modified => Cell::Version(found.modified),
            Self::Attributes => attributes_cell(&found.attributes),
            Self::Others => attributes_cell(&others(&found.attributes)),
            Self::Tags => Cell::Json(properties_json(&found.tags), tags_text(&found.tags)),
            Self::Value(name) => match value_of(found, name) {
                None => Cell::Empty,
                Some(Value::I64(mode)) if name == "mode" => {
                    Cell::Json(value_json(&Value::I64(*mode)), mode_text(*mode))
                }
                // In a table a tag without a value has to look different from no tag.
                Some(Value::Null) => Cell::Json(serde_json::Value::Null, "yes".to_owned()),
                Some(Value::String(text)) => Cell::Text(text.clone()),
                Some(value) => Cell::Value(value.clone()),
            },
        }
    }

    /// The same for Parquet, whose columns have one kind each.
    pub(crate) fn value(&self, found: &Found) -> Option<Value> {
        match self {
            Self::Id => i64::try_from(found.id.0).ok().map(Value::I64),
            Self::Created => time(found.created),
            Self::Modified => time(found.modified),
            Self::Attributes => Some(json_text(&found.attributes)),
            Self::Others => Some(json_text(&others(&found.attributes))),
            Self::Tags => Some(json_text(&found.tags)),
            Self::Value(name) => value_of(found, name).cloned(),
        }
    }
}

fn time(version: Version) -> Option<Value> {
    let nanos = version.millis().checked_mul(1_000_000)?;
    i64::try_from(nanos).ok().map(Value::Timestamp)
}

/// By exact name, else a predefined attribute by its name in any case, as filters have it.
fn value_of<'f>(found: &'f Found, name: &str) -> Option<&'f Value> {
    found.get(name).or_else(|| {
        let mut attributes = found.attributes.iter();
        attributes.find_map(|(n, value)| n.eq_ignore_ascii_case(name).then_some(value))
    })
}

fn others(attributes: &Properties) -> Properties {
    attributes
        .iter()
        .filter(|(name, _)| !ID_ATTRIBUTES.contains(name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

/// Tags for people: `Conf_0 energy=2.5`.
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

/// An attribute for people: modes in octal.
pub(crate) fn attribute_text(name: &str, value: &Value) -> String {
    match value {
        Value::I64(mode) if name == "mode" => mode_text(*mode),
        value => value_text(value),
    }
}

fn mode_text(mode: i64) -> String {
    format!("{mode:04o}")
}
