//! Canonical form of XML literals: Exclusive XML Canonicalization 1.0 with comments.

use super::names::{Namespaces, XML};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// Writer of the content of a property with an XML literal.
#[derive(Debug, Default)]
pub(super) struct Canonical {
    text: String,
    /// Namespaces declared in the output.
    written: Namespaces,
    open: usize,
}

impl Canonical {
    /// Returns the number of open elements.
    pub(super) fn depth(&self) -> usize {
        self.open
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Starts an element. `attributes` excludes namespace declarations.
    pub(super) fn start(
        &mut self,
        name: &str,
        attributes: &[(String, String)],
        names: &Namespaces,
    ) -> Result<(), String> {
        self.open += 1;
        let prefix = |name: &str| name.split_once(':').map_or("", |(p, _)| p).to_owned();
        let mut used: BTreeMap<String, Rc<str>> = BTreeMap::new();
        let (iri, _) = names.split(name, true)?;
        used.insert(prefix(name), iri.unwrap_or_else(|| "".into()));
        let mut sorted = Vec::with_capacity(attributes.len());
        for (name, value) in attributes {
            let (iri, local) = names.split(name, false)?;
            let iri = iri.unwrap_or_else(|| "".into());
            if !iri.is_empty() {
                used.insert(prefix(name), Rc::clone(&iri));
            }
            sorted.push(((iri, local), name, value));
        }
        sorted.sort();
        let _ = write!(self.text, "<{name}");
        for (prefix, iri) in used {
            let before = self.written.get(&prefix);
            if &*iri == XML || before.unwrap_or_default() == iri {
                continue;
            }
            if prefix.is_empty() {
                self.text.push_str(" xmlns=\"");
            } else {
                let _ = write!(self.text, " xmlns:{prefix}=\"");
            }
            self.value(&iri);
            self.written.declare(self.open, &prefix, &iri);
        }
        for (_, name, value) in sorted {
            let _ = write!(self.text, " {name}=\"");
            self.value(value);
        }
        self.text.push('>');
        Ok(())
    }

    fn value(&mut self, value: &str) {
        for c in value.chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '"' => self.text.push_str("&quot;"),
                '\t' => self.text.push_str("&#x9;"),
                '\n' => self.text.push_str("&#xA;"),
                '\r' => self.text.push_str("&#xD;"),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    pub(super) fn end(&mut self, name: &str) {
        let _ = write!(self.text, "</{name}>");
        self.written.close(self.open);
        self.open = self.open.saturating_sub(1);
    }

    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '\r' => self.text.push_str("&#xD;"),
                c => self.text.push(c),
            }
        }
    }

    pub(super) fn comment(&mut self, text: &str) {
        let _ = write!(self.text, "<!--{text}-->");
    }

    pub(super) fn instruction(&mut self, text: &str) {
        let (target, content) = text
            .split_once(|c: char| c.is_ascii_whitespace())
            .unwrap_or((text, ""));
        let content = content.trim_start();
        let space = if content.is_empty() { "" } else { " " };
        let _ = write!(self.text, "<?{target}{space}{content}?>");
    }
}
