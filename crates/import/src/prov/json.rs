//! Reader and writer of PROV-JSON (W3C member submission of 2013-04-24).

use super::model::{
    Document, Kind, PROV, ProvError, Slot, Statement, Statements, Value, XSD, time,
};
use super::names::{Prefixes, Scope};
use super::provn::{check, is_name_type, no_time};
use super::skolem;
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

type Object = Map<String, Json>;

/// Reads a document.
///
/// # Errors
/// Fails with the location if the text is not PROV-JSON.
pub(super) fn read(text: &str) -> Result<Document, ProvError> {
    let json: Json = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|e| {
        let at = format!("line {}, column {}", e.line(), e.column());
        let what = e.to_string();
        let what = what
            .rsplit_once(" at line ")
            .map_or(what.as_str(), |(what, _)| what);
        ProvError::new(at, what)
    })?;
    let mut referred = HashSet::new();
    references(&json, &mut referred);
    let mut reader = JsonReader {
        blank: skolem(text),
        referred,
        document: Document::default(),
    };
    let top = object(&json, "the document")?;
    let scope = reader.container(top, None, &Scope::default())?;
    reader.document.prefixes = scope.declared();
    if let Some(bundles) = top.get("bundle") {
        for (id, inner) in object(bundles, "bundle")? {
            let at = format!("bundle/{id}");
            let inner = object(inner, &at)?;
            let mut within = scope.clone();
            declare(inner, &mut within, &at)?;
            let name = reader.name(&within, id, &at)?;
            reader.document.bundles.entry(name.clone()).or_default();
            reader.container(inner, Some(&name), &scope)?;
        }
    }
    Ok(reader.document.normal())
}

/// Collects local names by which statements refer to each other and that have no meaning outside the document.
fn references<'a>(json: &'a Json, to: &mut HashSet<&'a str>) {
    match json {
        Json::Object(object) => {
            for (name, value) in object {
                match value {
                    Json::String(stated)
                        if matches!(name.as_str(), "prov:generation" | "prov:usage") =>
                    {
                        to.insert(stated);
                    }
                    other => references(other, to),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| references(item, to)),
        _ => {}
    }
}

fn object<'a>(json: &'a Json, at: &str) -> Result<&'a Object, ProvError> {
    json.as_object()
        .ok_or_else(|| ProvError::new(at, format!("expected an object, found {}", kind_of(json))))
}

fn kind_of(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn declare(container: &Object, scope: &mut Scope, at: &str) -> Result<(), ProvError> {
    let Some(prefixes) = container.get("prefix") else {
        return Ok(());
    };
    let at = format!("{at}/prefix");
    for (prefix, iri) in object(prefixes, &at)? {
        let Json::String(iri) = iri else {
            let what = format!("expected an IRI, found {}", kind_of(iri));
            return Err(ProvError::new(format!("{at}/{prefix}"), what));
        };
        scope.declare(if prefix == "default" { "" } else { prefix }, iri);
    }
    Ok(())
}

struct JsonReader<'a> {
    /// Prefix of the IRIs of blank names.
    blank: String,
    referred: HashSet<&'a str>,
    document: Document,
}

impl JsonReader<'_> {
    fn container(
        &mut self,
        container: &Object,
        bundle: Option<&str>,
        outer: &Scope,
    ) -> Result<Scope, ProvError> {
        let above = bundle.map_or_else(String::new, |b| format!("bundle {b}: "));
        let mut scope = outer.clone();
        declare(container, &mut scope, &above)?;
        for (keyword, group) in container {
            if keyword == "prefix" || (keyword == "bundle" && bundle.is_none()) {
                continue;
            }
            let at = format!("{above}{keyword}");
            let Some(kind) = Kind::of(keyword) else {
                let what = "is not a kind of statement: expected entity, activity, agent, used, wasGeneratedBy …";
                return Err(ProvError::new(at, what));
            };
            for (id, stated) in object(group, &at)? {
                let at = format!("{at}/{id}");
                let one = std::slice::from_ref(stated);
                let all = stated.as_array().map_or(one, Vec::as_slice);
                for stated in all {
                    let stated = object(stated, &at)?;
                    let id = self.id(kind, id, &scope, &at)?;
                    for statement in self.statements(kind, id.as_ref(), stated, &scope, &at)? {
                        let to = match bundle {
                            Some(bundle) => {
                                self.document.bundles.entry(bundle.to_owned()).or_default()
                            }
                            None => &mut self.document.statements,
                        };
                        to.push(statement);
                    }
                }
            }
        }
        Ok(scope)
    }

    fn id(
        &self,
        kind: Kind,
        id: &str,
        scope: &Scope,
        at: &str,
    ) -> Result<Option<String>, ProvError> {
        if id.starts_with("_:") && !kind.is_element() && !self.referred.contains(id) {
            return Ok(None);
        }
        self.name(scope, id, at).map(Some)
    }

    fn name(&self, scope: &Scope, name: &str, at: &str) -> Result<String, ProvError> {
        match name.strip_prefix("_:") {
            Some(label) => Ok(format!("{}{label}", self.blank)),
            None => scope.expand(name).map_err(|e| ProvError::new(at, e)),
        }
    }

    /// Returns the statement; several if a collection has several members.
    fn statements(
        &self,
        kind: Kind,
        id: Option<&String>,
        stated: &Object,
        scope: &Scope,
        at: &str,
    ) -> Result<Vec<Statement>, ProvError> {
        let mut all = vec![Statement::new(kind, id.cloned())];
        for (name, value) in stated {
            let at = format!("{at}/{name}");
            let iri = self.name(scope, name, &at)?;
            let values = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            let arguments = kind.form().arguments;
            let local = iri.strip_prefix(PROV);
            let index = arguments
                .iter()
                .position(|(argument, _)| Some(*argument) == local);
            let Some(index) = index else {
                for value in values {
                    let value = self.value(value, scope, &at)?;
                    for statement in &mut all {
                        statement.attributes.push((iri.clone(), value.clone()));
                    }
                }
                continue;
            };
            let is_time = arguments
                .get(index)
                .is_some_and(|(_, slot)| *slot == Slot::Time);
            let mut filled = Vec::new();
            for value in values {
                let Some(text) = text_of(value) else {
                    let what = format!("expected a name or a time, found {}", kind_of(value));
                    return Err(ProvError::new(at, what));
                };
                filled.push(if is_time {
                    time(text).ok_or_else(|| ProvError::new(&at, no_time(text)))?
                } else {
                    self.name(scope, text, &at)?
                });
            }
            if filled.len() != 1 && (kind != Kind::Membership || filled.is_empty()) {
                let what = format!("expected one value, found {}", filled.len());
                return Err(ProvError::new(at, what));
            }
            let before = std::mem::take(&mut all);
            for stated in filled {
                for statement in &before {
                    let mut statement = statement.clone();
                    if let Some(slot) = statement.arguments.get_mut(index) {
                        *slot = Some(stated.clone());
                    }
                    all.push(statement);
                }
            }
        }
        for statement in &all {
            check(statement).map_err(|e| ProvError::new(at, e))?;
        }
        Ok(all)
    }

    fn value(&self, value: &Json, scope: &Scope, at: &str) -> Result<Value, ProvError> {
        Ok(match value {
            Json::String(text) => Value::string(text.as_str()),
            Json::Bool(stated) => Value::xsd(stated.to_string(), "boolean"),
            Json::Number(n) => match n.as_i64() {
                Some(n) => Value::integer(n),
                None if n.is_u64() => Value::xsd(n.to_string(), "integer"),
                None => Value::xsd(n.to_string(), "double"),
            },
            Json::Object(typed) => {
                let text = match typed.get("$") {
                    Some(Json::String(text)) => text.clone(),
                    Some(stated @ (Json::Number(_) | Json::Bool(_))) => stated.to_string(),
                    _ => {
                        let what = "expected a value such as {\"$\": \"1\", \"type\": \"xsd:int\"}";
                        return Err(ProvError::new(at, what));
                    }
                };
                if let Some(Json::String(language)) = typed.get("lang") {
                    return Ok(Value::tagged(text, language));
                }
                let Some(Json::String(datatype)) = typed.get("type") else {
                    return Ok(Value::string(text));
                };
                let datatype = self.name(scope, datatype, at)?;
                match self.name(scope, &text, at) {
                    Ok(name) if is_name_type(&datatype) => Value::Name(name),
                    _ => Value::typed(text, datatype),
                }
            }
            other => {
                let what = format!("expected a value, found {}", kind_of(other));
                return Err(ProvError::new(at, what));
            }
        })
    }
}

/// Returns the text of a string, typed or not.
fn text_of(value: &Json) -> Option<&str> {
    match value {
        Json::String(text) => Some(text),
        Json::Object(typed) => typed.get("$")?.as_str(),
        _ => None,
    }
}

/// Writes a document as PROV-JSON.
pub(super) fn write(document: &Document) -> String {
    let names = Prefixes::of(document);
    let mut top = container(&document.statements, &names);
    let prefixes: Object = names
        .declared()
        .map(|(prefix, iri)| (prefix.to_owned(), json!(iri)))
        .collect();
    if !prefixes.is_empty() {
        top.insert("prefix".into(), Json::Object(prefixes));
    }
    if !document.bundles.is_empty() {
        let bundles = document.bundles.iter();
        let bundles: Object = bundles
            .map(|(id, inner)| (names.plain(id), Json::Object(container(inner, &names))))
            .collect();
        top.insert("bundle".into(), Json::Object(bundles));
    }
    let mut text = format!("{:#}", Json::Object(top));
    text.push('\n');
    text
}

fn container(statements: &Statements, names: &Prefixes) -> Object {
    let mut groups = Object::new();
    for (number, statement) in statements.iter().enumerate() {
        let form = statement.kind.form();
        let mut stated = Object::new();
        for (argument, (name, slot)) in statement.arguments.iter().zip(form.arguments) {
            if let Some(argument) = argument {
                let text = if *slot == Slot::Time {
                    argument.clone()
                } else {
                    names.plain(argument)
                };
                stated.insert(format!("prov:{name}"), Json::String(text));
            }
        }
        for of_one in statement.attributes.chunk_by(|a, b| a.0 == b.0) {
            let mut values: Vec<Json> = of_one.iter().map(|(_, v)| value(v, names)).collect();
            let name = of_one.first().map(|(name, _)| names.plain(name));
            let values = match (values.len(), values.pop()) {
                (1, Some(value)) => value,
                (_, last) => {
                    values.extend(last);
                    Json::Array(values)
                }
            };
            stated.insert(name.unwrap_or_default(), values);
        }
        let id = match &statement.id {
            Some(id) => names.plain(id),
            None => format!("_:id{}", number + 1),
        };
        let group = groups
            .entry(form.keyword)
            .or_insert_with(|| Json::Object(Object::new()));
        let Json::Object(group) = group else { continue };
        match group.get_mut(&id) {
            None => drop(group.insert(id, Json::Object(stated))),
            Some(Json::Array(all)) => all.push(Json::Object(stated)),
            Some(one) => *one = json!([one.take(), stated]),
        }
    }
    groups
}

fn value(value: &Value, names: &Prefixes) -> Json {
    match value {
        Value::Name(iri) => json!({"$": names.plain(iri), "type": "prov:QUALIFIED_NAME"}),
        Value::Literal {
            text,
            datatype,
            language,
        } => {
            if !language.is_empty() {
                json!({"$": text, "lang": language})
            } else if datatype.is_empty() {
                json!(text)
            } else if let Some(local) = datatype.strip_prefix(XSD) {
                json!({"$": text, "type": format!("xsd:{local}")})
            } else {
                json!({"$": text, "type": names.plain(datatype)})
            }
        }
    }
}
