//! Values as JSON. `docs/book/json.md` is the specification.

use esker_model::{Properties, Value, Vertex};
use jiff::Timestamp;
use serde_json::{Map, Value as Json};

/// Returns a value as JSON: null, bool, i64, finite f64, string and list as JSON's own kinds, a timestamp as RFC 3339, bytes as base64,
/// and NaN and infinities, which JSON lacks, as strings. [`esker::lineage::write_json_value`] writes the same forms.
pub(crate) fn value_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => (*b).into(),
        Value::I64(n) => (*n).into(),
        Value::F64(x) => serde_json::Number::from_f64(*x)
            .map_or_else(|| Json::String(x.to_string()), Json::Number),
        Value::String(s) => s.as_str().into(),
        Value::Bytes(_) => {
            let mut quoted = String::new();
            esker::lineage::write_json_value(&mut quoted, value);
            quoted.trim_matches('"').into()
        }
        Value::Timestamp(nanos) => timestamp(*nanos).into(),
        Value::List(items) => items.iter().map(value_json).collect(),
    }
}

/// Formats a time as RFC 3339 in UTC, with as many digits of the second as needed.
pub(crate) fn timestamp(nanos: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanos))
        .map_or_else(|_| nanos.to_string(), |t| t.to_string())
}

/// Formats bytes as `0x` and two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns properties as an object, in the order of their names.
pub fn properties_json(properties: &Properties) -> Json {
    let pairs = properties
        .iter()
        .map(|(name, value)| (name.to_owned(), value_json(value)));
    Json::Object(pairs.collect())
}

/// Returns all attributes of a vertex as one object: the predefined ones, then the user-defined ones.
pub fn vertex_attributes_json(vertex: &Vertex) -> Json {
    let mut object = Map::new();
    for (name, value) in vertex.attributes.iter() {
        object.insert(name.to_owned(), value_json(value));
    }
    for attribute in &vertex.user {
        object
            .entry(attribute.name.as_str())
            .or_insert_with(|| value_json(&attribute.value));
    }
    Json::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_has_a_json_form() {
        let list = Value::List(vec![
            Value::Null,
            true.into(),
            i64::MIN.into(),
            0.5.into(),
            f64::NAN.into(),
            "x\n".into(),
            Value::Bytes(vec![0, 255]),
            Value::Timestamp(1_500_000_000),
        ]);
        assert_eq!(
            value_json(&list).to_string(),
            r#"[null,true,-9223372036854775808,0.5,"NaN","x\n","AP8=","1970-01-01T00:00:01.5Z"]"#
        );
    }
}
