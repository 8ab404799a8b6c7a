//! Conversion of values and properties, in packed and typed form.

use super::{At as _, Decoded, Form, Malformed};
use crate::proto;
use crate::proto::value::Kind;
use bytes::Bytes;
use esker_model::codec::Reader;
use esker_model::limits::LIST_DEPTH_MAX;
use esker_model::{Properties, Value};

/// Encodes a value as a message.
pub fn value_out(value: &Value) -> proto::Value {
    let kind = match value {
        Value::Null => Kind::Null(proto::NullValue::NullValue.into()),
        Value::Bool(v) => Kind::Bool(*v),
        Value::I64(v) => Kind::I64(*v),
        Value::F64(v) => Kind::F64(*v),
        Value::String(v) => Kind::String(v.clone()),
        Value::Bytes(v) => Kind::Bytes(v.clone()),
        Value::Timestamp(v) => Kind::Timestamp(*v),
        Value::List(items) => Kind::List(proto::ValueList {
            values: items.iter().map(value_out).collect(),
        }),
    };
    proto::Value { kind: Some(kind) }
}

/// Decodes a value from a message.
pub fn value_in(value: proto::Value) -> Decoded<Value> {
    at_depth(value, 0)
}

fn at_depth(value: proto::Value, depth: usize) -> Decoded<Value> {
    Ok(match value.kind {
        None => return Err(Malformed::new("kind", "one of its fields to be set")),
        Some(Kind::Null(_)) => Value::Null,
        Some(Kind::Bool(v)) => Value::Bool(v),
        Some(Kind::I64(v)) => Value::I64(v),
        Some(Kind::F64(v)) => Value::F64(v),
        Some(Kind::String(v)) => Value::String(v),
        Some(Kind::Bytes(v)) => Value::Bytes(v),
        Some(Kind::Timestamp(v)) => Value::Timestamp(v),
        Some(Kind::List(_)) if depth >= LIST_DEPTH_MAX => {
            return Err(Malformed::new("list", "lists nested at most 8 deep"));
        }
        Some(Kind::List(items)) => {
            Value::List(super::list(items.values, "values", |v| at_depth(v, depth + 1)).at("list")?)
        }
    })
}

/// Encodes a value in the model's own encoding.
pub(super) fn packed_out(value: &Value) -> Bytes {
    let mut out = Vec::new();
    value.encode(&mut out);
    out.into()
}

/// Encodes properties; `None` for an empty set.
pub fn properties_out(properties: &Properties, form: Form) -> Option<proto::Properties> {
    if properties.is_empty() {
        return None;
    }
    Some(match form {
        Form::Packed => {
            let mut packed = Vec::with_capacity(64);
            properties.encode(&mut packed);
            proto::Properties {
                packed: packed.into(),
                ..Default::default()
            }
        }
        Form::Typed => proto::Properties {
            fields: properties
                .iter()
                .map(|(n, v)| (n.to_owned(), value_out(v)))
                .collect(),
            ..Default::default()
        },
    })
}

/// Decodes properties; absent ones are empty.
pub fn properties_in(properties: Option<proto::Properties>) -> Decoded<Properties> {
    let Some(proto::Properties { packed, fields }) = properties else {
        return Ok(Properties::new());
    };
    if !fields.is_empty() {
        if !packed.is_empty() {
            return Err(Malformed::new("fields", "one of `packed` and `fields`"));
        }
        return fields
            .into_iter()
            .map(|(name, value)| {
                let value = value_in(value).at(&format!("fields[\"{name}\"]"))?;
                Ok((name, value))
            })
            .collect();
    }
    if packed.is_empty() {
        return Ok(Properties::new());
    }
    let mut r = Reader::new(&packed);
    let properties = Properties::decode(&mut r);
    properties
        .and_then(|p| r.finish().map(|()| p))
        .map_err(|e| Malformed::new("packed", format!("{} at byte {}", e.expected, e.at)))
}
