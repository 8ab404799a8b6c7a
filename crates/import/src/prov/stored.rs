//! Storage of statements in the graph: each is one attribute or property, named `prov.` and a hash of the statement, as JSON.
//!
//! So the statements of several documents form their union, in any order, and a document that is imported again adds nothing.

use super::model::{Kind, Statement, Value};
use serde_json::{Map, Value as Json, json};

/// Prefix of attribute and property names that are statements.
const PREFIX: &str = "prov.";
/// Attribute of a vertex created by a document: the IRI that names the vertex.
pub(super) const MARK: &str = "prov";
/// Attribute of a bundle's vertex.
pub(super) const BUNDLE: &str = "prov.bundle";
/// Number of digits of the hash.
const DIGITS: usize = 20;

/// Encodes a statement as a name and a text.
pub(super) fn encode(bundle: Option<&str>, statement: &Statement) -> (String, String) {
    let value = |value: &Value| match value {
        Value::Name(iri) => json!({ "name": iri }),
        Value::Literal {
            text,
            datatype,
            language,
        } => {
            if !language.is_empty() {
                json!({"text": text, "language": language})
            } else if datatype.is_empty() {
                json!(text)
            } else {
                json!({"text": text, "type": datatype})
            }
        }
    };
    let mut object = Map::new();
    object.insert("statement".into(), json!(statement.kind.form().keyword));
    if let Some(bundle) = bundle {
        object.insert("in".into(), json!(bundle));
    }
    if let Some(id) = &statement.id {
        object.insert("id".into(), json!(id));
    }
    for ((name, _), argument) in statement
        .kind
        .form()
        .arguments
        .iter()
        .zip(&statement.arguments)
    {
        if let Some(argument) = argument {
            object.insert((*name).to_owned(), json!(argument));
        }
    }
    if !statement.attributes.is_empty() {
        let all = statement.attributes.iter();
        let all: Vec<Json> = all
            .map(|(name, stated)| json!([name, value(stated)]))
            .collect();
        object.insert("attributes".into(), Json::Array(all));
    }
    let text = Json::Object(object).to_string();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let name = format!("{PREFIX}{}", hash.get(..DIGITS).unwrap_or_default());
    (name, text)
}

/// Returns whether an attribute or property is a statement, by its name.
pub(super) fn is_statement(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|hash| hash.len() == DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Decodes a statement and its bundle. `None` if the text is not a statement.
pub(super) fn decode(text: &str) -> Option<(Option<String>, Statement)> {
    let object: Map<String, Json> = serde_json::from_str(text).ok()?;
    let string = |name: &str| Some(object.get(name)?.as_str()?.to_owned());
    let kind = Kind::of(object.get("statement")?.as_str()?)?;
    let mut statement = Statement::new(kind, string("id"));
    for ((name, _), argument) in kind.form().arguments.iter().zip(&mut statement.arguments) {
        *argument = string(name);
    }
    if let Some(Json::Array(all)) = object.get("attributes") {
        for pair in all {
            let name = pair.get(0)?.as_str()?.to_owned();
            let value = match pair.get(1)? {
                Json::String(text) => Value::string(text.as_str()),
                Json::Object(stated) => {
                    let part = |name: &str| Some(stated.get(name)?.as_str()?.to_owned());
                    if let Some(iri) = part("name") {
                        Value::Name(iri)
                    } else if let Some(language) = part("language") {
                        Value::tagged(part("text")?, &language)
                    } else {
                        Value::typed(part("text")?, part("type")?)
                    }
                }
                _ => return None,
            };
            statement.attributes.push((name, value));
        }
    }
    statement.tidy();
    Some((string("in"), statement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_back() {
        let mut statement = Statement::new(Kind::Usage, Some("urn:use".into()));
        statement.arguments = vec![
            Some("urn:a".into()),
            None,
            Some("2026-01-01T00:00:00Z".into()),
        ];
        let values = [
            Value::string("é\n\""),
            Value::integer(7),
            Value::tagged("x", "en"),
            Value::Name("urn:n".into()),
        ];
        let attributes = values
            .into_iter()
            .map(|value| ("urn:attribute".to_owned(), value));
        statement.attributes.extend(attributes);
        statement.tidy();
        for bundle in [None, Some("urn:b")] {
            let (name, text) = encode(bundle, &statement);
            assert!(is_statement(&name), "{name}");
            let back = decode(&text).unwrap();
            assert_eq!(back, (bundle.map(str::to_owned), statement.clone()));
        }
        assert!(!is_statement(BUNDLE) && !is_statement(MARK));
    }
}
