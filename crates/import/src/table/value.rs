//! Values as JSON and as the text of a cell.
//!
//! The conversion to JSON and back is lossless: `null`, `true`, integers (i64), numbers with a point or exponent (f64), strings and arrays
//! are themselves; types that JSON lacks are an object with one member that names the kind:
//!
//! ```text
//!  {"timestamp":"2026-03-01T12:00:00.123456789Z"}   {"bytes":"AAEC"}   {"f64":"NaN"}
//! ```

use esker_model::limits::LIST_DEPTH_MAX;
use esker_model::{Value, ValueKind, Version};
use jiff::Timestamp;
use serde_json::{Map, Number, Value as Json};

/// Converts a value to JSON.
pub fn value_to_json(value: &Value) -> Json {
    let tagged = |kind: &str, text: String| {
        let mut map = Map::new();
        map.insert(kind.to_owned(), Json::String(text));
        Json::Object(map)
    };
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => Json::Bool(*v),
        Value::I64(v) => Json::Number((*v).into()),
        Value::F64(v) => match Number::from_f64(*v) {
            Some(n) => Json::Number(n),
            None => tagged("f64", v.to_string()),
        },
        Value::String(v) => Json::String(v.clone()),
        Value::Bytes(v) => tagged("bytes", base64(v)),
        Value::Timestamp(v) => tagged("timestamp", timestamp(*v)),
        Value::List(items) => Json::Array(items.iter().map(value_to_json).collect()),
    }
}

/// Converts JSON to a value.
///
/// # Errors
/// Returns a message for objects that are no tagged value, and for integers beyond 64 bits.
pub fn value_from_json(json: &Json) -> Result<Value, String> {
    from_json_at_depth(json, 0)
}

fn from_json_at_depth(json: &Json, depth: usize) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(v) => Value::Bool(*v),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(v), _) => Value::I64(v),
            (None, Some(v)) if !n.is_u64() => Value::F64(v),
            _ => {
                return Err(format!(
                    "{n} does not fit 64 bits with a sign; write it as a string or as {n}.0"
                ));
            }
        },
        Json::String(v) => Value::String(v.clone()),
        Json::Array(items) => {
            if depth >= LIST_DEPTH_MAX {
                return Err(format!("lists nest deeper than {LIST_DEPTH_MAX}"));
            }
            let items = items.iter().map(|i| from_json_at_depth(i, depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Json::Object(map) => {
            let mut members = map.iter();
            match (members.next(), members.next()) {
                (Some((kind, Json::String(text))), None) => match kind.as_str() {
                    "timestamp" => Value::Timestamp(timestamp_from_text(text)?),
                    "bytes" => Value::Bytes(base64_decode(text)?),
                    "f64" => Value::F64(text.parse().map_err(|_| no("a number", text))?),
                    _ => return Err(no_object()),
                },
                _ => return Err(no_object()),
            }
        }
    })
}

fn no_object() -> String {
    "an object is not a value; expected a number, string, list, true, false, null or \
     {\"timestamp\": …}, {\"bytes\": …}, {\"f64\": …}"
        .to_owned()
}

fn no(expected: &str, text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("`{shown}` is not {expected}")
}

/// Parses the text of a cell: as the declared kind, else as the inferred one (or as text, if `infer` is off). An empty cell has no value.
pub(super) fn value_from_cell(
    text: &str,
    kind: Option<ValueKind>,
    infer: bool,
) -> Result<Option<Value>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.trim();
    let value = match kind {
        Some(ValueKind::Bool) => match number.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Value::Bool(true),
            "false" | "0" | "no" => Value::Bool(false),
            _ => return Err(no("a truth value (true or false)", text)),
        },
        Some(ValueKind::I64) => Value::I64(
            number
                .parse()
                .map_err(|_| no("an integer of 64 bits", text))?,
        ),
        Some(ValueKind::F64) => Value::F64(number.parse().map_err(|_| no("a number", text))?),
        Some(ValueKind::Bytes) => Value::Bytes(base64_decode(number)?),
        Some(ValueKind::Timestamp) => Value::Timestamp(timestamp_from_text(number)?),
        Some(ValueKind::List) => {
            let json: Json = serde_json::from_str(text)
                .map_err(|e| format!("{}: {e}", no("a list in JSON", text)))?;
            match value_from_json(&json)? {
                list @ Value::List(_) => list,
                _ => return Err(no("a list in JSON", text)),
            }
        }
        Some(ValueKind::Any) | None if infer => looks_like(text),
        Some(ValueKind::Any | ValueKind::String) | None => Value::String(text.to_owned()),
    };
    Ok(Some(value))
}

/// Infers numbers and booleans only if writing them gives the same text again: `007` and `1e5x` stay text.
fn looks_like(text: &str) -> Value {
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(v) = text.parse::<i64>()
        && v.to_string() == text
    {
        return Value::I64(v);
    }
    let mut bytes = text.bytes();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if bytes.all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'))
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.contains(['.', 'e', 'E'])
        && !(digits.ends_with('.') || digits.contains(".e") || digits.contains(".E"))
        && !(digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
        && let Ok(v) = text.parse::<f64>()
        && v.is_finite()
    {
        return Value::F64(v);
    }
    Value::String(text.to_owned())
}

/// Formats nanoseconds since 1970 as RFC 3339.
pub(super) fn timestamp(nanos: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanos))
        .map_or_else(|_| format!("@{nanos}ns"), |t| t.to_string())
}

fn timestamp_from_text(text: &str) -> Result<i64, String> {
    let expected =
        "a time: expected RFC 3339 (2026-03-01T12:00:00Z), a date (2026-03-01) or @SECONDS";
    if let Ok(t) = text.parse::<Timestamp>() {
        return i64::try_from(t.as_nanosecond())
            .map_err(|_| no("a time between 1677 and 2262", text));
    }
    let at = version_from_text(text).map_err(|_| no(expected, text))?;
    match i64::try_from(i128::from(at.millis()) * 1_000_000) {
        Ok(nanos) => Ok(nanos),
        Err(_) => Err(no("a time between 1677 and 2262", text)),
    }
}

/// Parses a version in a table: the output of `Version`'s `Display`, RFC 3339, a date (its beginning, UTC), `@SECONDS` or `#VERSION`. An
/// inexact time means its beginning, where [`Version::parse_as_of`] takes its end.
///
/// # Errors
/// Fails if the text has none of these forms.
pub fn version_from_text(text: &str) -> Result<Version, String> {
    let text = text.trim();
    let is_date = text.len() == 10 && !text.starts_with(['@', '#']);
    let exact = text.starts_with('#') || text.contains('~');
    let midnight;
    let moment = if is_date {
        midnight = format!("{text}T00:00:00Z");
        &midnight
    } else {
        text
    };
    let version = Version::parse_as_of(moment).map_err(|e| e.to_string())?;
    Ok(if exact {
        version
    } else {
        Version::new(version.millis(), 0)
    })
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |g, i| {
            g << 8 | u32::from(*chunk.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            let digit = BASE64[(group >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

fn base64_decode(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.trim_end_matches('=');
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return Err(no("base64", text));
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut group, mut bits) = (0_u32, 0);
    for b in digits.bytes() {
        let digit = BASE64
            .iter()
            .position(|d| *d == b)
            .ok_or_else(|| no("base64", text))?;
        group = (group << 6 | digit as u32) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((group >> bits) as u8);
        }
    }
    Ok(out)
}
