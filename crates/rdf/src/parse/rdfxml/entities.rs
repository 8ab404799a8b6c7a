//! Entities declared by a document, with limits: the total expansion stays proportional to the bytes read, so that a short document cannot
//! fill the memory.

use crate::xml::{attribute_with, character_reference};
use std::collections::HashMap;

/// Limit of declared entities.
const DECLARED_MAX: usize = 10_000;
/// Limit of their values in total, in bytes.
const VALUES_MAX: usize = 1 << 20;
/// Limit of nested references in the values of entities.
const DEPTH_MAX: usize = 16;
/// Bytes of expansion allowed for every document.
const USED_FREE: u64 = 8 << 20;
/// Bytes of expansion allowed for each byte read.
const USED_PER_BYTE: u64 = 10;

#[derive(Debug)]
enum Entity {
    /// The value, with unexpanded references to other entities.
    Text(String),
    /// Reason for which the entity cannot be used.
    Unusable(&'static str),
}

/// Entities of one document.
#[derive(Debug, Default)]
pub(super) struct Entities {
    declared: HashMap<String, Entity>,
    /// Total length of the values in bytes.
    values: usize,
    /// Expanded bytes, plus one for each reference.
    used: u64,
    /// Bytes of the document read so far.
    pub(super) read: u64,
}

impl Entities {
    /// Reads the declarations of a document type: the text between `<!DOCTYPE` and its `>`.
    pub(super) fn declare(&mut self, doctype: &str) -> Result<(), String> {
        let Some(mut rest) = internal_subset(doctype) else {
            return Ok(());
        };
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else {
                return Err("the document type has no end: expected `]`".into());
            };
            if first == ']' {
                return Ok(());
            }
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = after(comment, "-->")?;
            } else if let Some(instruction) = rest.strip_prefix("<?") {
                rest = after(instruction, "?>")?;
            } else if let Some(entity) = rest.strip_prefix("<!ENTITY") {
                rest = self.entity(entity)?;
            } else if rest.starts_with("<!") {
                rest = after_declaration(rest)?;
            } else {
                return Err(
                    "the document type contains something other than declarations; parameter \
                     entities are not supported: write what they stand for into the document"
                        .into(),
                );
            }
        }
    }

    /// Reads a declaration after `<!ENTITY` and returns the rest.
    fn entity<'d>(&mut self, text: &'d str) -> Result<&'d str, String> {
        let text = text.trim_start();
        if text.starts_with('%') {
            // Parameter entities cannot be referenced here.
            return after_declaration(text);
        }
        let end = text
            .find(char::is_whitespace)
            .ok_or("an entity's declaration has no value")?;
        let (name, value) = text.split_at(end);
        let value = value.trim_start();
        let (entity, rest) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (value, rest) = value[1..]
                    .split_once(quote)
                    .ok_or_else(|| format!("the value of the entity `{name}` has no end"))?;
                let text = characters(value)?;
                self.values += text.len();
                let entity = if text.contains('<') {
                    Entity::Unusable("has elements in it, which is not supported")
                } else {
                    Entity::Text(text)
                };
                (entity, rest)
            }
            _ => (
                Entity::Unusable("is outside of the document, and nothing is fetched"),
                value,
            ),
        };
        if self.declared.len() >= DECLARED_MAX || self.values > VALUES_MAX {
            return Err(format!(
                "the document declares too many entities: at most {DECLARED_MAX} of {VALUES_MAX} bytes together are read"
            ));
        }
        // The first declaration of a name is binding.
        self.declared.entry(name.to_owned()).or_insert(entity);
        after_declaration(rest)
    }

    /// Appends the expansion of a reference (without `&` and `;`).
    pub(super) fn resolve(&mut self, name: &str, to: &mut String) -> Result<(), String> {
        self.resolve_at(name, 0, to)
    }

    fn resolve_at(&mut self, name: &str, depth: usize, to: &mut String) -> Result<(), String> {
        if let Some(c) = character_reference(name)? {
            to.push(c);
            return Ok(());
        }
        let value = match self.declared.get(name) {
            Some(Entity::Text(_)) if depth >= DEPTH_MAX => {
                return Err(format!(
                    "the entity `{name}` contains itself, or is nested more than {DEPTH_MAX} deep in others"
                ));
            }
            Some(Entity::Text(value)) => value.clone(),
            Some(Entity::Unusable(why)) => return Err(format!("the entity `{name}` {why}")),
            None => return Err(format!("the entity `{name}` is not declared")),
        };
        // A reference with an empty expansion also takes time.
        self.used += 1 + value.len() as u64;
        let most = USED_FREE + self.read.saturating_mul(USED_PER_BYTE);
        if self.used > most {
            return Err(format!(
                "the entities of this document stand for more than {most} bytes: at most {USED_FREE} and {USED_PER_BYTE} \
                 for each byte read are taken"
            ));
        }
        let mut rest = value.as_str();
        while let Some((before, reference)) = rest.split_once('&') {
            to.push_str(before);
            let (name, behind) = reference
                .split_once(';')
                .ok_or_else(|| format!("a `&` in the entity `{name}` begins no reference"))?;
            self.resolve_at(name, depth + 1, to)?;
            rest = behind;
        }
        to.push_str(rest);
        Ok(())
    }

    /// Returns an attribute's value with references expanded.
    pub(super) fn attribute(&mut self, raw: &str) -> Result<String, String> {
        attribute_with(raw, |name, to| self.resolve(name, to))
    }
}

/// Expands the numeric character references of a value.
fn characters(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, number)) = rest.split_once("&#") {
        text.push_str(before);
        let (number, behind) = number
            .split_once(';')
            .ok_or("a `&#` in an entity's value begins no character")?;
        text.extend(character_reference(&format!("#{number}"))?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns the text after the `[` of a document type.
fn internal_subset(doctype: &str) -> Option<&str> {
    let mut quote = None;
    for (at, c) in doctype.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => return doctype.get(at + 1..),
            _ => {}
        }
    }
    None
}

fn after<'d>(text: &'d str, end: &str) -> Result<&'d str, String> {
    match text.split_once(end) {
        Some((_, rest)) => Ok(rest),
        None => Err(format!("the document type has no `{end}` where one is due")),
    }
}

/// Returns the text after the `>` of a declaration.
fn after_declaration(text: &str) -> Result<&str, String> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '>') => return Ok(text.get(at + 1..).unwrap_or_default()),
            _ => {}
        }
    }
    Err("a declaration in the document type has no `>`".into())
}
