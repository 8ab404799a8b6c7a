//! SPARQL Query Results XML.

use super::{SolutionsBuilder, term, triple_term};
use crate::dictionary::triple;
use crate::xml::{Counted, reference};
use oxrdf::Term;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::io::{BufReader, Read};

/// Limit of nested elements: valid documents nest five deep, and two more for each triple term.
const DEPTH_MAX: usize = 5 + 2 * triple::NESTED_MAX;

/// The value being read.
#[derive(Default)]
struct Value {
    text: String,
    language: Option<String>,
    direction: Option<String>,
    datatype: Option<String>,
}

struct Xml<'t> {
    table: &'t mut SolutionsBuilder,
    path: Vec<String>,
    /// Variable of the binding being read.
    variable: Option<String>,
    value: Value,
    /// Parts of the triple terms that are being read, the innermost last.
    triples: Vec<[Option<Term>; 3]>,
    truth: Option<bool>,
    solutions: bool,
}

/// Reads solutions into a table, or returns a boolean.
pub(super) fn read(from: impl Read, table: &mut SolutionsBuilder) -> Result<Option<bool>, String> {
    let mut reader = Reader::from_reader(Counted::new(BufReader::new(from)));
    reader.config_mut().expand_empty_elements = true;
    let mut xml = Xml {
        table,
        path: Vec::new(),
        variable: None,
        value: Value::default(),
        triples: Vec::new(),
        truth: None,
        solutions: false,
    };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        reader.get_mut().begin();
        let event = reader.read_event_into(&mut buffer);
        match event.map_err(|e| format!("its answer is not XML: {e}"))? {
            Event::Start(tag) => xml.start(&tag)?,
            Event::End(_) => xml.end()?,
            Event::Text(text) => xml.value.text.push_str(&text.xml10_content()),
            Event::CData(text) => xml.value.text.push_str(&text.xml10_content()),
            Event::GeneralRef(name) => xml.value.text.push(reference(&name)?),
            Event::DocType(_) => return Err("its answer has a document type".into()),
            Event::Eof if !xml.path.is_empty() => {
                return Err("its answer ends within an element".into());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if xml.truth.is_none() && !xml.solutions {
        return Err("expected `results` or `boolean` in the answer".into());
    }
    Ok(xml.truth)
}

impl Xml<'_> {
    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        if self.path.len() >= DEPTH_MAX {
            return Err(format!("elements are nested more than {DEPTH_MAX} deep"));
        }
        let name = tag.local_name();
        let name: &str = name.as_ref();
        let parent = self.path.last().map(String::as_str);
        if parent.is_none() && name != "sparql" {
            return Err(format!("expected an element `sparql`, found `{name}`"));
        }
        self.value = Value::default();
        let mut variable = None;
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|e| e.to_string())?;
            let slot = match attribute.key.as_ref() {
                "name" => &mut variable,
                "xml:lang" => &mut self.value.language,
                "its:dir" => &mut self.value.direction,
                "datatype" => &mut self.value.datatype,
                _ => continue,
            };
            *slot = Some(crate::xml::attribute(&attribute.value)?);
        }
        match (parent, name) {
            (Some("sparql"), "head") => {
                self.table.named.get_or_insert_default();
            }
            (Some("sparql"), "results") => self.solutions = true,
            (Some("head"), "variable") => {
                let name = variable.ok_or("a variable has no name")?;
                self.table.name(name)?;
            }
            (Some("results"), "result") => self.table.row()?,
            (Some("result"), "binding") => self.variable = variable,
            (_, "triple") => self.triples.push([None, None, None]),
            _ => {}
        }
        self.path.push(name.to_owned());
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(name) = self.path.pop() else {
            return Ok(());
        };
        let value = std::mem::take(&mut self.value);
        match (self.path.last().map(String::as_str), name.as_str()) {
            (Some("sparql"), "boolean") => {
                self.truth = Some(match value.text.trim() {
                    "true" => true,
                    "false" => false,
                    other => return Err(format!("expected true or false, found `{other}`")),
                });
            }
            (Some(parent @ ("binding" | "subject" | "predicate" | "object")), kind) => {
                let term = match kind {
                    "triple" => triple_term(self.triples.pop().unwrap_or_default())?,
                    kind => {
                        let text = if kind == "literal" {
                            value.text
                        } else {
                            value.text.trim().to_owned()
                        };
                        let (language, direction) = (value.language, value.direction);
                        let (language, direction) = (language.as_deref(), direction.as_deref());
                        term(kind, text, language, direction, value.datatype)?
                    }
                };
                let part = match parent {
                    "subject" => 0,
                    "predicate" => 1,
                    "object" => 2,
                    _ => {
                        let variable = self.variable.as_deref().ok_or("a binding has no name")?;
                        return self.table.value(variable, term);
                    }
                };
                let parts = self.triples.last_mut();
                parts.ok_or("a part is outside of a triple")?[part] = Some(term);
            }
            _ => {}
        }
        Ok(())
    }
}
