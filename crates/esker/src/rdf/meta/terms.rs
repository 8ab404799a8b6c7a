//! Terms of the metadata graph: IRIs of vertices and of schema definitions, literals of values.

use esker_model::iri::escape;
pub(super) use esker_model::iri::vertex;
use esker_model::{Value, Version, VertexId};
use std::fmt::Write as _;

/// IRI of the metadata graph; with `?as_of=TIME` appended, the graph of the past.
pub const GRAPH: &str = "urn:esker:meta";
/// Separator before the time in the IRI of a past graph.
pub(super) const AS_OF: &str = "?as_of=";

pub(super) const TYPES: &str = "urn:esker:types/";
pub(super) const ATTRIBUTES: &str = "urn:esker:attributes/";
pub(super) const EDGES: &str = "urn:esker:edges/";
pub(super) const LISTS: &str = "urn:esker:lists/";
pub(super) const TERMS: &str = "urn:esker:terms/";
/// Prefix of vertices of which only the id is known.
pub(super) const IDS: &str = "urn:esker:ids/";

pub(super) const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
pub(super) const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
pub(super) const OWL: &str = "http://www.w3.org/2002/07/owl#";
pub(super) const PROV: &str = "http://www.w3.org/ns/prov#";
pub(super) const DCTERMS: &str = "http://purl.org/dc/terms/";
pub(super) const ORG: &str = "http://www.w3.org/ns/org#";
const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A literal: its text and its datatype (empty for a string).
pub(super) type Literal = (String, String);

/// An IRI from a prefix and an escaped text.
pub(super) fn iri(prefix: &str, text: &str) -> String {
    let mut to = String::with_capacity(prefix.len() + text.len() + 8);
    to.push_str(prefix);
    escape(text, &mut to);
    to
}

/// IRI of a vertex whose name was taken by another vertex.
pub(super) fn displaced(prefix: &str, key: &str, id: VertexId) -> String {
    format!("{}?id={id}", vertex(prefix, key))
}

/// IRI of an earlier version of a vertex.
pub(super) fn version(vertex: &str, version: Version) -> String {
    let joint = if vertex.contains('?') { '&' } else { '?' };
    format!("{vertex}{joint}version={version}")
}

/// Literal of a version's time.
pub(super) fn time(version: Version) -> Literal {
    let text = version.to_string();
    // The order within a millisecond is not part of the time.
    let text = text.split('~').next().unwrap_or_default().to_owned();
    // Years after 9999 cannot be written as `xsd:dateTime`.
    let is_time = !text.starts_with(['#', 'n']);
    let datatype = if is_time {
        format!("{XSD}dateTime")
    } else {
        String::new()
    };
    (text, datatype)
}

/// Literals of a value: one per element of a list, none for null.
pub(super) fn literals(value: &Value, to: &mut Vec<Literal>) {
    let typed = |text: String, datatype: &str| (text, format!("{XSD}{datatype}"));
    match value {
        Value::Null => {}
        Value::Bool(b) => to.push(typed(b.to_string(), "boolean")),
        Value::I64(n) => to.push(typed(n.to_string(), "integer")),
        Value::F64(n) => to.push(typed(double(*n), "double")),
        Value::String(s) => to.push((s.clone(), String::new())),
        Value::Bytes(bytes) => {
            let text = bytes.iter().fold(String::new(), |mut text, b| {
                let _ = write!(text, "{b:02X}");
                text
            });
            to.push(typed(text, "hexBinary"));
        }
        Value::Timestamp(nanos) => to.push(typed(date_time(*nanos), "dateTime")),
        Value::List(items) => items.iter().for_each(|item| literals(item, to)),
    }
}

/// A list as a JSON literal, which keeps order, repetitions and nulls.
pub(super) fn list(items: &[Value]) -> Literal {
    let mut text = String::new();
    json(items, &mut text);
    (text, format!("{RDF}JSON"))
}

fn json(items: &[Value], to: &mut String) {
    to.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            to.push(',');
        }
        match item {
            Value::Null => to.push_str("null"),
            Value::List(items) => json(items, to),
            Value::F64(n) if !n.is_finite() => quoted(&double(*n), to),
            Value::Bool(_) | Value::I64(_) | Value::F64(_) => {
                let mut one = Vec::new();
                literals(item, &mut one);
                one.iter().for_each(|(text, _)| to.push_str(text));
            }
            other => {
                let mut one = Vec::new();
                literals(other, &mut one);
                one.iter().for_each(|(text, _)| quoted(text, to));
            }
        }
    }
    to.push(']');
}

fn quoted(text: &str, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(to, "\\u{:04x}", u32::from(c));
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

/// The canonical form of doubles in XML Schema: `1.5E2`.
fn double(n: f64) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "INF" } else { "-INF" }.into();
    }
    let text = format!("{n:E}");
    match text.split_once('E') {
        Some((digits, power)) if !digits.contains('.') => format!("{digits}.0E{power}"),
        _ => text,
    }
}

/// Nanoseconds since 1970 as `xsd:dateTime`.
fn date_time(nanos: i64) -> String {
    let rest = nanos.rem_euclid(1_000_000_000);
    let seconds = nanos.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (y, m, d) = civil(days);
    let mut text = format!(
        "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    if rest > 0 {
        let digits = format!("{rest:09}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Converts days since 1970-01-01 to a date of the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * of_year + 2) / 153;
    let d = of_year - (153 * mp + 2) / 5 + 1;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    (year_of_era + era * 400 + i64::from(m <= 2), m, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_iris() {
        assert_eq!(
            vertex("file", "/a b/ü?#%"),
            "urn:esker:file:/a%20b/ü%3F%23%25"
        );
        let stays = "urn:esker:job:a-b._~/:@!$&'()*+,;=1";
        assert_eq!(vertex("job", "a-b._~/:@!$&'()*+,;=1"), stays);
        for odd in [
            "\u{0}\u{7f}\u{e000}\u{fffd}\u{202e}<>\"{}|\\^`",
            "日本語/файл",
            "\u{10ffff}",
        ] {
            let name = vertex("file", odd);
            esker_rdf::check_iri(&name).unwrap();
        }
        let at = version("urn:esker:file:/a", Version::new(1_700_000_000_123, 4));
        assert_eq!(at, "urn:esker:file:/a?version=2023-11-14T22:13:20.123Z~4");
        esker_rdf::check_iri(&at).unwrap();
    }

    fn all(value: &Value) -> Vec<String> {
        let mut to = Vec::new();
        literals(value, &mut to);
        to.into_iter()
            .map(|(text, t)| format!("{text}^{}", t.strip_prefix(XSD).unwrap_or(&t)))
            .collect()
    }

    #[test]
    fn values_are_literals_of_their_kind() {
        assert_eq!(all(&Value::Null), [""; 0]);
        assert_eq!(all(&Value::Bool(true)), ["true^boolean"]);
        assert_eq!(all(&Value::I64(-7)), ["-7^integer"]);
        assert_eq!(all(&Value::F64(150.0)), ["1.5E2^double"]);
        assert_eq!(all(&Value::F64(3.0)), ["3.0E0^double"]);
        assert_eq!(all(&Value::F64(f64::NEG_INFINITY)), ["-INF^double"]);
        assert_eq!(all(&Value::String("x\n".into())), ["x\n^"]);
        assert_eq!(all(&Value::Bytes(vec![0, 255])), ["00FF^hexBinary"]);
        assert_eq!(
            all(&Value::Timestamp(1_500_000_000_120_000_000)),
            ["2017-07-14T02:40:00.12Z^dateTime"]
        );
        assert_eq!(
            all(&Value::Timestamp(-1)),
            ["1969-12-31T23:59:59.999999999Z^dateTime"]
        );
        let items = vec![
            Value::I64(1),
            Value::String("a\"\\\n".into()),
            Value::List(vec![Value::Null, Value::F64(f64::NAN)]),
            Value::Timestamp(0),
        ];
        assert_eq!(
            list(&items).0,
            r#"[1,"a\"\\\u000a",[null,"NaN"],"1970-01-01T00:00:00Z"]"#
        );
        assert_eq!(
            all(&Value::List(items)),
            [
                "1^integer",
                "a\"\\\n^",
                "NaN^double",
                "1970-01-01T00:00:00Z^dateTime"
            ]
        );
        assert_eq!(
            time(Version::new(1_700_000_000_123, 4)).0,
            "2023-11-14T22:13:20.123Z"
        );
    }
}
