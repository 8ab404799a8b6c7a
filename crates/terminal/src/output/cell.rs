//! One cell of a row, typed so that each output format can print it in its own way.

use super::json::{hex, properties_json, value_json};
use crate::zone;
use esker_model::{Properties, Value, Version};
use serde_json::Value as Json;

/// The value of one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value: null in JSON, empty elsewhere.
    Empty,
    /// A plain text.
    Text(String),
    /// A number of items.
    Count(u64),
    /// A truth value.
    Bool(bool),
    /// A version of the database.
    Version(Version),
    /// A value of an attribute or property.
    Value(Value),
    /// Several attributes or properties.
    Properties(Properties),
    /// Any other object or list: the text in a table, JSON in every other format.
    Json(Json, String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Cell {
    /// Whether a table may cut the cell: numbers and times stay whole.
    pub fn may_be_cut(&self) -> bool {
        match self {
            Self::Empty | Self::Text(_) | Self::Properties(_) | Self::Json(..) => true,
            Self::Value(value) => matches!(value, Value::String(_)),
            Self::Count(_) | Self::Bool(_) | Self::Version(_) => false,
        }
    }

    /// Returns the cell as one line of text for a table.
    pub fn table_text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Json(_, text) => one_line(text),
            Self::Count(n) => crate::units::count(*n),
            Self::Bool(b) => b.to_string(),
            Self::Version(version) => zone::version(*version),
            Self::Value(value) => value_text(value),
            Self::Properties(properties) => properties
                .iter()
                .map(|(name, value)| format!("{}={}", quote(name), value_text(value)))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    /// Returns the cell as CSV text: lists, properties and objects as JSON, text unchanged.
    pub fn csv_text(&self) -> String {
        match self {
            Self::Empty | Self::Value(Value::Null) => String::new(),
            Self::Text(text) | Self::Value(Value::String(text)) => text.clone(),
            Self::Count(n) => n.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::Version(version) => version.to_string(),
            Self::Value(_) | Self::Properties(_) | Self::Json(..) => match self.json() {
                Json::String(text) => text,
                json => json.to_string(),
            },
        }
    }

    /// Returns the cell as a JSON value.
    pub fn json(&self) -> Json {
        match self {
            Self::Empty => Json::Null,
            Self::Text(text) => text.as_str().into(),
            Self::Count(n) => (*n).into(),
            Self::Bool(b) => (*b).into(),
            Self::Version(version) => version.to_string().into(),
            Self::Value(value) => value_json(value),
            Self::Properties(properties) => properties_json(properties),
            Self::Json(json, _) => json.clone(),
        }
    }

    /// Whether a table aligns the cell to the right.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Count(_) | Self::Value(Value::I64(_) | Value::F64(_))
        )
    }
}

/// Returns a value as one line of text; strings that are one plain word are not quoted.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::I64(n) => n.to_string(),
        // Debug formatting keeps the point: `1.0` is not an integer.
        Value::F64(x) => format!("{x:?}"),
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => hex(bytes),
        Value::Timestamp(nanos) => zone::time(*nanos),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(value_text).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Quotes a text that is empty or has blanks, quotes, commas, brackets or control characters.
pub fn quote(text: &str) -> String {
    let plain = !text.is_empty()
        && !text
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "\"'=,[]".contains(c));
    if plain {
        text.to_owned()
    } else {
        Json::from(text).to_string()
    }
}

/// Escapes line breaks and other control characters, so that a row stays on its line and no file name can move the cursor.
fn one_line(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control();
            escaped
                .then(|| c.escape_default())
                .into_iter()
                .flatten()
                .chain((!escaped).then_some(c))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_never_reaches_the_terminal() {
        assert_eq!(Cell::from("a\x1b[2Jb\n").table_text(), "a\\u{1b}[2Jb\\n");
        assert_eq!(
            Cell::Value("a\x1b[2J".into()).table_text(),
            "\"a\\u001b[2J\""
        );
    }

    #[test]
    fn properties_read_as_they_are_typed() {
        let p = Properties::new().with("a", 1).with("b", "two words");
        assert_eq!(
            Cell::Properties(p.clone()).table_text(),
            "a=1 b=\"two words\""
        );
        assert_eq!(Cell::Properties(p).csv_text(), r#"{"a":1,"b":"two words"}"#);
    }
}
