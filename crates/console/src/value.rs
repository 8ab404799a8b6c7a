//! Values as JSON, in the format of `docs/book/json.md`.

use esker_model::{Properties, Value, Vertex};
use serde_json::{Map, Value as Json};

/// Converts a value: null, bool, i64, finite f64, string and list to their JSON equivalents; a timestamp to RFC 3339; bytes to base64;
/// NaN and infinities, which JSON lacks, to strings.
pub fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => (*b).into(),
        Value::I64(n) => (*n).into(),
        Value::F64(x) => serde_json::Number::from_f64(*x)
            .map_or_else(|| Json::String(x.to_string()), Json::Number),
        Value::String(s) => s.as_str().into(),
        Value::Bytes(_) | Value::Timestamp(_) => {
            let mut quoted = String::new();
            esker::lineage::write_json_value(&mut quoted, value);
            quoted.trim_matches('"').into()
        }
        Value::List(items) => items.iter().map(self::value).collect(),
    }
}

/// Converts properties to an object by name.
pub fn properties(properties: &Properties) -> Json {
    let pairs = properties.iter();
    Json::Object(pairs.map(|(n, v)| (n.to_owned(), value(v))).collect())
}

/// Converts all attributes of a vertex; a predefined attribute takes precedence over a tag of the same name.
pub fn attributes(vertex: &Vertex) -> Map<String, Json> {
    let mut object = Map::new();
    for (name, held) in vertex.attributes.iter() {
        object.insert(name.to_owned(), value(held));
    }
    for attribute in &vertex.user {
        object
            .entry(attribute.name.as_str())
            .or_insert_with(|| value(&attribute.value));
    }
    object
}

/// Formats a time in nanoseconds since 1970 in RFC 3339.
pub fn time(nanos: i64) -> String {
    match value(&Value::Timestamp(nanos)) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}
