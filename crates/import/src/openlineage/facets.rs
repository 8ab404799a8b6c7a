//! Facets as values of the graph: JSON, split into parts where necessary.

use crate::secrets::{MARK, is_secret_name, redacted};
use esker_model::iri::unescape;
use esker_model::{Properties, Value};
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;

/// Prefix of attribute and property names that are facets.
pub const PREFIX: &str = "openlineage.";
/// Separator between a facet's name and the number of its second, third … part: a value of the graph has at most a megabyte.
pub const PARTS: char = '#';

/// Size of a part in bytes.
const PART_BYTES: usize = (1 << 20) - 64;

/// Returns whether a facet contains settings or environment variables, by its name.
fn holds_settings(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["environment", "properties", "variables", "config"]
        .iter()
        .any(|word| name.contains(word))
}

/// Redacts the secrets in strings; with `settings`, also all values whose names are those of secrets.
fn without_secrets(value: &mut Json, settings: bool) {
    match value {
        Json::String(text) => {
            if let std::borrow::Cow::Owned(other) = redacted(text) {
                *text = other;
            }
        }
        Json::Array(items) => {
            for item in items {
                without_secrets(item, settings);
            }
        }
        Json::Object(object) => {
            for (name, item) in object.iter_mut() {
                match item {
                    Json::String(text) if settings && is_secret_name(name) => MARK.clone_into(text),
                    item => without_secrets(item, settings),
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn is_deleted(facet: &Json) -> bool {
    facet.get("_deleted") == Some(&Json::Bool(true))
}

/// Encodes a facet's name for use in an attribute's name, escaping reserved characters and the separator.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || matches!(c, '=' | '%' | PARTS) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn decoded(name: &str) -> String {
    unescape(name).unwrap_or_else(|| name.to_owned())
}

/// Returns facets as attributes to set, and the names of attributes to remove.
pub(super) fn attributes(facets: &Map<String, Json>) -> (Properties, Vec<String>) {
    let (mut set, mut remove) = (Properties::new(), Vec::new());
    for (plain, facet) in facets {
        let name = encoded(plain);
        if is_deleted(facet) {
            remove.push(format!("{PREFIX}{name}"));
            continue;
        }
        let settings = holds_settings(plain);
        let mut facet = facet.clone();
        if settings {
            without_secrets(&mut facet, settings);
        }
        let text = facet.to_string();
        let mut rest = text.as_str();
        let mut part = 1;
        while part == 1 || !rest.is_empty() {
            let mut end = rest.len().min(PART_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (head, tail) = rest.split_at(end);
            let name = match part {
                1 => format!("{PREFIX}{name}"),
                part => format!("{PREFIX}{name}{PARTS}{part}"),
            };
            set.set(name, Value::String(head.to_owned()));
            rest = tail;
            part += 1;
        }
    }
    (set, remove)
}

/// Restores facets from attributes or properties.
pub fn joined<'a>(values: impl Iterator<Item = (&'a str, &'a Value)>) -> Map<String, Json> {
    let mut parts: Vec<(&str, u32, &str)> = Vec::new();
    for (name, value) in values {
        let (Some(name), Value::String(text)) = (name.strip_prefix(PREFIX), value) else {
            continue;
        };
        let numbered = name
            .rsplit_once(PARTS)
            .and_then(|(name, part)| Some((name, part.parse().ok()?)));
        let (name, part) = numbered.unwrap_or((name, 1));
        parts.push((name, part, text));
    }
    parts.sort_unstable();
    let mut out = Map::new();
    for of_one in parts.chunk_by(|a, b| a.0 == b.0) {
        // Parts left from an earlier, longer text come after the end of this one.
        let mut text = String::new();
        for (name, _, part) in of_one {
            text.push_str(part);
            if let Ok(facet @ Json::Object(_)) = serde_json::from_str(&text) {
                out.insert(decoded(name), facet);
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_facet_of_any_size_comes_back() {
        let large = "é".repeat(2_000_000);
        let facets = json!({
            "small": {"_producer": "p", "n": 1.5, "list": [1, {"a": null}]},
            "large": {"plan": large},
            "gone": {"_deleted": true},
            "a=b#2 100%\u{1}é": {"x": "y"},
        });
        let facets = facets.as_object().unwrap();
        let (set, remove) = attributes(facets);
        assert_eq!(remove, ["openlineage.gone"]);
        assert_eq!(set.iter().count(), 6);
        let back = joined(set.iter());
        assert_eq!(back.get("small"), facets.get("small"));
        assert_eq!(back.get("large"), facets.get("large"));
        assert_eq!(back.get("a=b#2 100%\u{1}é"), Some(&json!({"x": "y"})));
        assert_eq!(back.len(), 3);
    }

    #[test]
    fn only_settings_are_searched_for_secrets() {
        let facets = json!({
            "spark_properties": {"properties": {"db.password": "hunter2", "cores": "4"}},
            "ml": {"tokenizer": "bert", "token": "the"},
        });
        let (set, _) = attributes(facets.as_object().unwrap());
        let back = Json::Object(joined(set.iter()));
        assert_eq!(back["spark_properties"]["properties"]["db.password"], MARK);
        assert_eq!(back["spark_properties"]["properties"]["cores"], "4");
        assert_eq!(back["ml"], facets["ml"]);
    }
}
