//! SPARQL Query Results XML.

use super::{SolutionsBuilder, term};
use crate::xml::{Counted, reference};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::io::{BufReader, Read};

/// Limit of nested elements; valid documents nest five deep.
const DEPTH_MAX: usize = 32;

/// The value being read.
#[derive(Default)]
struct Value {
    text: String,
    language: Option<String>,
    datatype: Option<String>,
}

struct Xml<'t> {
    table: &'t mut SolutionsBuilder,
    path: Vec<String>,
    /// Variable of the binding being read.
    variable: Option<String>,
    value: Value,
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
            (Some("binding"), kind) => {
                let text = if kind == "literal" {
                    value.text
                } else {
                    value.text.trim().to_owned()
                };
                let term = term(kind, text, value.language.as_deref(), value.datatype)?;
                let variable = self.variable.as_deref().ok_or("a binding has no name")?;
                self.table.value(variable, term)?;
            }
            _ => {}
        }
        Ok(())
    }
}
