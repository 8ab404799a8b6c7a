//! Finds the metadata graphs that a request names.

use super::terms::{AS_OF, GRAPH};
use crate::rdf::decoded;
use esker_model::{Error, Result, Version};
use esker_rdf::{Graphs, Query, Update};

/// The metadata graphs that a request may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedGraphs {
    /// Whether the present graph is included.
    pub(super) now: bool,
    /// Graphs of the past: IRI in the request and version.
    pub(super) past: Vec<(String, Version)>,
}

impl RequestedGraphs {
    /// The graphs that a query names, and the present one if the query ranges over all named graphs.
    pub fn of_query(query: &Query, graphs: Option<&Graphs>) -> Result<Self> {
        let mut requested = Self::default();
        let text = query.to_string();
        requested.named_in(&text)?;
        requested.now |= text.contains("GRAPH ?") || text.contains("GRAPH $");
        requested.chosen(graphs)?;
        Ok(requested)
    }

    /// The graphs that an update names.
    pub fn of_update(update: &Update, graphs: Option<&Graphs>) -> Result<Self> {
        let mut requested = Self::default();
        requested.named_in(&update.to_string())?;
        requested.chosen(graphs)?;
        Ok(requested)
    }

    /// The graph that a request names outside of its text.
    pub fn of_graph(iri: &str) -> Result<Self> {
        let mut requested = Self::default();
        requested.add(iri)?;
        Ok(requested)
    }

    /// The present graph only.
    pub const fn present() -> Self {
        Self {
            now: true,
            past: Vec::new(),
        }
    }

    /// Whether a text can name such a graph at all; most texts cannot and need no parsing.
    pub fn is_possible(text: &str, graphs: Option<&Graphs>) -> bool {
        let bytes = text.as_bytes();
        let says = |at: usize, word: &[u8]| {
            let found = bytes.get(at..at + word.len());
            found.is_some_and(|w| w.eq_ignore_ascii_case(word))
        };
        // Tests first letters, so that a long text is scanned once.
        let named = |at: usize| match bytes[at] | 0x20 {
            b'g' => says(at, b"graph"),
            b'f' => says(at, b"from"),
            b'w' => says(at, b"with"),
            b'u' => says(at, b"using"),
            b'c' => says(at, b"copy"),
            b'a' => says(at, b"add"),
            b'm' => says(at, b"move"),
            b'|' => says(at, b"\\u"),
            _ => false,
        };
        graphs.is_some_and(|g| !g.default.is_empty() || !g.named.is_empty())
            || (0..bytes.len()).any(named)
    }

    /// Whether no graph is included.
    pub fn is_empty(&self) -> bool {
        !self.now && self.past.is_empty()
    }

    fn chosen(&mut self, graphs: Option<&Graphs>) -> Result<()> {
        let Some(graphs) = graphs else { return Ok(()) };
        graphs
            .default
            .iter()
            .chain(&graphs.named)
            .try_for_each(|iri| self.add(iri))
    }

    /// Finds IRIs in the library's notation; a match within a string only builds an unused graph.
    fn named_in(&mut self, text: &str) -> Result<()> {
        let mut rest = text;
        let begin = format!("<{GRAPH}");
        while let Some(at) = rest.find(&begin) {
            rest = &rest[at + 1..];
            let iri = rest.split('>').next().unwrap_or_default();
            self.add(iri)?;
        }
        Ok(())
    }

    fn add(&mut self, iri: &str) -> Result<()> {
        if iri == GRAPH {
            self.now = true;
        } else if let Some(time) = past(iri)?
            && !self.past.iter().any(|(known, _)| known == iri)
        {
            self.past.push((iri.to_owned(), time));
        }
        Ok(())
    }
}

/// The version in the IRI of a past graph; `None` if the IRI is not that of a metadata graph.
fn past(iri: &str) -> Result<Option<Version>> {
    let Some(rest) = iri.strip_prefix(GRAPH).filter(|r| r.starts_with('?')) else {
        return Ok(None);
    };
    let Some(time) = rest.strip_prefix(AS_OF) else {
        return Err(Error::Invalid(format!(
            "<{iri}>: expected <{GRAPH}> or <{GRAPH}{AS_OF}TIME>, as in <{GRAPH}{AS_OF}2026-03-01T12:00:00Z>"
        )));
    };
    Version::parse_as_of(&decoded(time))
        .map(Some)
        .map_err(|e| Error::Invalid(format!("<{iri}>: {e}")))
}

/// Whether an IRI is that of a metadata graph, present or past.
pub fn is_meta(iri: &str) -> bool {
    iri.strip_prefix(GRAPH)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
}

/// Refuses a metadata graph as the target of writes.
pub fn check_target(iri: &str) -> Result<()> {
    if is_meta(iri) {
        return Err(Error::Invalid(format!(
            "<{iri}> is the metadata graph: it follows the database and is not written to; write to a graph of your own"
        )));
    }
    Ok(())
}
