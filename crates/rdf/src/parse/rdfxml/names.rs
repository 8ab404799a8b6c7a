//! XML names: namespaces in scope, and valid characters.

use std::collections::HashMap;
use std::rc::Rc;

/// The namespace of `xml:`.
pub(super) const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Namespaces in scope by prefix. The default namespace has an empty prefix.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    bound: HashMap<String, Vec<Rc<str>>>,
    /// Declarations in order, each with the depth of its element.
    declared: Vec<(usize, String)>,
}

impl Namespaces {
    /// Binds a prefix within the element at a depth.
    pub(super) fn declare(&mut self, depth: usize, prefix: &str, iri: &str) {
        let bound = self.bound.entry(prefix.to_owned()).or_default();
        bound.push(iri.into());
        self.declared.push((depth, prefix.to_owned()));
    }

    /// Removes the declarations of the element at a depth.
    pub(super) fn close(&mut self, depth: usize) {
        while let Some((_, prefix)) = self.declared.pop_if(|(at, _)| *at >= depth) {
            if let Some(bound) = self.bound.get_mut(&prefix) {
                bound.pop();
                if bound.is_empty() {
                    self.bound.remove(&prefix);
                }
            }
        }
    }

    /// Returns the namespace of a prefix.
    pub(super) fn get(&self, prefix: &str) -> Option<Rc<str>> {
        if prefix == "xml" {
            return Some(XML.into());
        }
        let iri = self.bound.get(prefix)?.last()?;
        // `xmlns=""` removes the default namespace.
        (!iri.is_empty()).then(|| Rc::clone(iri))
    }

    /// Splits the name of an element or attribute into namespace and local part. The default namespace does not apply to attributes.
    pub(super) fn split<'n>(
        &self,
        name: &'n str,
        element: bool,
    ) -> Result<(Option<Rc<str>>, &'n str), String> {
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        if !is_nc_name(local) || (prefix.is_empty() && name.contains(':')) {
            return Err(format!("`{name}` is not a name of XML"));
        }
        if prefix.is_empty() && !element {
            return Ok((None, local));
        }
        match self.get(prefix) {
            None if !prefix.is_empty() => Err(format!("the prefix of `{name}` is not declared")),
            iri => Ok((iri, local)),
        }
    }
}

/// Returns whether a text is an XML name without a colon (`NCName`).
pub(crate) fn is_nc_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(begins_name) && chars.all(in_name)
}

/// Returns whether an `NCName` may begin with a character.
pub(crate) fn begins_name(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

/// Returns whether an `NCName` may contain a character after its first.
pub(crate) fn in_name(c: char) -> bool {
    begins_name(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
