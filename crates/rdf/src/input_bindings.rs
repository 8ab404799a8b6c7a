//! Input bindings: solutions for a part of a query that were computed elsewhere. Also the encoding of a term as one text.

use crate::dictionary::{Head, Key, Parts};
use crate::error::Result;
use crate::id::{Id, UNBOUND, XSD};
use crate::quads::Dataset;
use oxrdf::NamedNode;
use spargebra::algebra::GraphPattern;
use spargebra::term::NamedNodePattern;

/// Prefix of the endpoint IRI that refers to [`crate::Options::input_bindings`]; the index follows.
const GIVEN: &str = "urn:esker:given:";

/// Precomputed solutions of a part of a query, in term ids of the dataset on which the rest of the query runs.
#[derive(Debug, Clone, Default)]
pub struct InputBindings {
    /// Names of the variables.
    pub names: Vec<String>,
    /// Term ids of each solution.
    pub rows: Vec<Vec<Id>>,
}

impl InputBindings {
    /// Creates input bindings without solutions.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            names,
            rows: Vec::new(),
        }
    }

    /// Adds a solution; its terms are added to the dataset's dictionary.
    pub fn push<'k>(
        &mut self,
        data: &mut Dataset,
        row: impl IntoIterator<Item = Option<Key<'k>>>,
    ) -> Result<()> {
        let ids = row
            .into_iter()
            .map(|key| key.map_or(Ok(UNBOUND), |key| data.dictionary.intern(&key)))
            .collect::<Result<_>>()?;
        self.rows.push(ids);
        Ok(())
    }

    /// Returns the pattern that refers to item `n` of [`crate::Options::input_bindings`]. Its solutions bind the variables `names`.
    pub fn pattern(n: usize, names: &[String]) -> GraphPattern {
        GraphPattern::Service {
            name: NamedNode::new_unchecked(format!("{GIVEN}{n}")).into(),
            inner: Box::new(GraphPattern::Values {
                variables: names.iter().map(oxrdf::Variable::new_unchecked).collect(),
                bindings: Vec::new(),
            }),
            silent: false,
        }
    }

    /// Returns the index to which an endpoint's IRI refers.
    pub(crate) fn index_of(name: &NamedNodePattern) -> Option<usize> {
        match name {
            NamedNodePattern::NamedNode(n) => n.as_str().strip_prefix(GIVEN)?.parse().ok(),
            NamedNodePattern::Variable(_) => None,
        }
    }
}

/// Separator between a datatype or language and the text: no IRI contains this character.
const END: char = '>';

impl<'a> Key<'a> {
    /// Appends the term as one text: its kind, then language or datatype up to `>`, then the rest.
    pub fn put(&self, to: &mut String) {
        let (kind, more, text) = match self {
            Self::Iri(iri) => ('<', None, iri),
            Self::Blank(label) => ('_', None, label),
            Self::Plain(text) => ('"', None, text),
            Self::Lang(text, lang) => ('@', Some(lang), text),
            Self::Typed(text, datatype) => ('^', Some(datatype), text),
        };
        to.push(kind);
        if let Some(more) = more {
            to.push_str(more);
            to.push(END);
        }
        to.push_str(text);
    }

    /// Parses a text written by [`Self::put`].
    pub fn take(text: &'a str) -> Option<Self> {
        let mut chars = text.chars();
        let kind = chars.next()?;
        let rest = chars.as_str();
        Some(match kind {
            '<' => Self::Iri(rest),
            '_' => Self::Blank(rest),
            '"' => Self::Plain(rest),
            '@' => {
                let (lang, text) = rest.split_once(END)?;
                Self::Lang(text, lang)
            }
            '^' => {
                let (datatype, text) = rest.split_once(END)?;
                Self::typed(text, datatype)
            }
            _ => return None,
        })
    }
}

impl Parts<'_> {
    /// Appends the term as [`Key::put`] does.
    pub fn put(&self, to: &mut String) {
        match self {
            Self::Inline(value) => {
                to.push('^');
                to.push_str(XSD);
                to.push_str(value.datatype());
                to.push(END);
                to.push_str(&value.text());
            }
            Self::Stored(Head::Iri(prefix), tail) => {
                to.push('<');
                to.push_str(prefix);
                to.push_str(tail);
            }
            Self::Stored(Head::Blank, tail) => Key::Blank(tail).put(to),
            Self::Stored(Head::Plain, tail) => Key::Plain(tail).put(to),
            Self::Stored(Head::Lang(lang), tail) => Key::Lang(tail, lang).put(to),
            Self::Stored(Head::Typed(datatype), tail) => Key::Typed(tail, datatype).put(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_the_same_after_its_way() {
        let keys = [
            Key::Iri("http://example.org/a"),
            Key::Iri(""),
            Key::Blank("b0"),
            Key::Plain(""),
            Key::Plain("a>b \"c\"\n"),
            Key::Lang("x>y", "de-AT"),
            Key::Typed("12", "http://www.w3.org/2001/XMLSchema#integer"),
            Key::Typed(">", "http://example.org/t"),
        ];
        let mut data = Dataset::default();
        for key in keys {
            let mut text = String::new();
            key.put(&mut text);
            assert_eq!(Key::take(&text), Some(key), "{text}");
            let id = data.dictionary.intern(&key).unwrap();
            let mut again = String::new();
            data.dictionary.parts(id).unwrap().put(&mut again);
            assert_eq!(again, text);
        }
    }

    #[test]
    fn other_texts_are_no_terms() {
        for text in ["", "x", "@de", "^http://example.org/t", "é"] {
            assert_eq!(Key::take(text), None, "{text}");
        }
    }
}
