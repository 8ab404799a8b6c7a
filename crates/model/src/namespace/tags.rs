//! Tags of a file as extended attributes: `user.esker.NAME`, whose value is the tag's value as text.

use crate::traversal::parse_nanos;
use crate::value::Value;
use jiff::Timestamp;
use std::fmt::Write as _;

/// Prefix of the names of extended attributes that are tags.
pub const TAG_PREFIX: &[u8] = b"user.esker.";

/// Formats a tag's value as the value of an extended attribute. [`value_of`] parses it again, except lists, which it
/// returns as text; and what it parsed is formatted as the same bytes.
pub fn text_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => b"null".to_vec(),
        Value::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => bytes.clone(),
        Value::String(text) if value_of(text.as_bytes()) == *value => text.clone().into_bytes(),
        other => to_text(other).into_bytes(),
    }
}

fn to_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::I64(n) => n.to_string(),
        // `Debug` keeps the point: `1.0` is not an integer.
        Value::F64(x) => format!("{x:?}"),
        Value::String(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Bytes(bytes) => {
            let mut text = String::from("0x");
            for byte in bytes {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        Value::Timestamp(nanos) => Timestamp::from_nanosecond(i128::from(*nanos))
            .map_or_else(|_| nanos.to_string(), |t| t.to_string()),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(to_text).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Parses a value by its form: `true`, `42`, `0.5`, `2026-03-01T12:00:00Z`, `null`, a text in quotes that would be something else without
/// them. Any other UTF-8 is a text, among it numbers and times that [`text_of`] formats in another way (`1.50`), so that programs read what they
/// have set. Anything else is bytes.
pub fn value_of(bytes: &[u8]) -> Value {
    let value = parsed(bytes);
    let same = match &value {
        Value::String(text) if text.as_bytes() == bytes => true,
        value => text_of(value) == bytes,
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !same => Value::String(text.to_owned()),
        _ => value,
    }
}

fn parsed(bytes: &[u8]) -> Value {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Value::Bytes(bytes.to_vec());
    };
    match text {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Some(inner) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'))
        && let Some(inner) = unquoted(inner)
    {
        return Value::String(inner);
    }
    // `007`, `+5` and `inf` are names more often than numbers, so they are not parsed as numbers.
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && (digits == "0" || digits.starts_with("0.") || !digits.starts_with('0'));
    if plain {
        if let Ok(n) = text.parse() {
            return Value::I64(n);
        }
        let number =
            digits.contains(['.', 'e', 'E']) && digits.ends_with(|c: char| c.is_ascii_digit());
        if number && let Ok(x) = text.parse::<f64>() {
            return Value::F64(x);
        }
        if text.contains('T')
            && text.parse::<Timestamp>().is_ok()
            && let Some(nanos) = parse_nanos(text)
        {
            return Value::Timestamp(nanos);
        }
    }
    Value::String(text.to_owned())
}

/// Removes the backslashes before quotes and backslashes; `None` if another character is escaped or a quote is not.
fn unquoted(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => out.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_come_back_from_their_texts() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::I64(-5),
            Value::F64(0.5),
            Value::F64(1e300),
            Value::Timestamp(1_500_000_001),
            Value::from("plain"),
            Value::from("42"),
            Value::from("null"),
            Value::from("\"quoted\\"),
            Value::from("007"),
            Value::from(""),
            Value::Bytes(vec![0xff, 0]),
        ] {
            assert_eq!(value_of(&text_of(&value)), value, "{value:?}");
        }
        assert_eq!(text_of(&Value::from("plain")), b"plain");
        assert_eq!(text_of(&Value::from("42")), b"\"42\"");
        assert_eq!(value_of(b"2026-03-01"), Value::from("2026-03-01"));
        assert_eq!(value_of(b"\"half"), Value::from("\"half"));
        assert_eq!(value_of(b"\"42\""), Value::from("42"));
        assert_eq!(value_of(b"1.50"), Value::from("1.50"));
    }

    proptest! {
        /// A program reads the bytes that it has set.
        #[test]
        fn bytes_come_back_from_their_values(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                "-?[0-9.eE+]{0,8}".prop_map(String::into_bytes),
                "[\"\\\\0-9a]{0,10}".prop_map(String::into_bytes),
                "[0-9]{4}-0[1-9]-1[0-9]T0[0-9]:00:00(\\.[0-9]{1,9})?(Z|\\+01:00)".prop_map(String::into_bytes),
            ],
        ) {
            prop_assert_eq!(text_of(&value_of(&bytes)), bytes);
        }
    }
}
