//! Writer of RDF/XML: consecutive triples of one subject share an element.

use crate::parse::rdfxml::names::{begins_name, in_name};
use crate::xml::escape;
use oxrdf::{NamedOrBlankNode, NamedOrBlankNodeRef, TermRef, TripleRef};
use std::io::{self, Write};

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// Names in the RDF namespace that cannot be properties.
const SYNTAX: [&str; 12] = [
    "RDF",
    "Description",
    "ID",
    "about",
    "aboutEach",
    "aboutEachPrefix",
    "bagID",
    "datatype",
    "li",
    "nodeID",
    "parseType",
    "resource",
];

/// A document being written.
pub(super) struct RdfXmlWriter<W> {
    to: W,
    begun: bool,
    subject: Option<NamedOrBlankNode>,
    /// Buffered output.
    out: String,
}

impl<W: Write> RdfXmlWriter<W> {
    pub(super) fn new(to: W) -> Self {
        Self {
            to,
            begun: false,
            subject: None,
            out: String::new(),
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.out
                .push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rdf:RDF xmlns:rdf=\"");
            self.out.push_str(RDF);
            self.out.push_str("\">");
        }
    }

    fn end_subject(&mut self) {
        if self.subject.take().is_some() {
            self.out.push_str("\n\t</rdf:Description>");
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(self.out.as_bytes())?;
        self.out.clear();
        Ok(())
    }

    pub(super) fn triple(&mut self, triple: TripleRef<'_>) -> io::Result<()> {
        let predicate = triple.predicate.as_str();
        let (namespace, local) = split(predicate).ok_or_else(|| {
            cannot(&format!(
                "the property <{predicate}>: its IRI ends in no name"
            ))
        })?;
        if namespace == RDF && SYNTAX.contains(&local) {
            return Err(cannot(&format!("the property rdf:{local}")));
        }
        self.begin();
        if self.subject.as_ref().map(NamedOrBlankNode::as_ref) != Some(triple.subject) {
            self.end_subject();
            self.out.push_str("\n\t<rdf:Description");
            match triple.subject {
                NamedOrBlankNodeRef::NamedNode(n) => self.attribute("rdf:about", n.as_str())?,
                NamedOrBlankNodeRef::BlankNode(n) => self.node_id(n.as_str())?,
            }
            self.out.push('>');
            self.subject = Some(triple.subject.into_owned());
        }
        let name = if namespace == RDF {
            format!("rdf:{local}")
        } else {
            local.to_owned()
        };
        self.out.push_str("\n\t\t<");
        self.out.push_str(&name);
        if namespace != RDF {
            self.attribute("xmlns", namespace)?;
        }
        match triple.object {
            TermRef::NamedNode(n) => {
                self.attribute("rdf:resource", n.as_str())?;
                self.out.push_str("/>");
            }
            TermRef::BlankNode(n) => {
                self.node_id(n.as_str())?;
                self.out.push_str("/>");
            }
            TermRef::Literal(l) => {
                if let Some(language) = l.language() {
                    self.attribute("xml:lang", language)?;
                } else if l.datatype() != oxrdf::vocab::xsd::STRING {
                    self.attribute("rdf:datatype", l.datatype().as_str())?;
                }
                self.out.push('>');
                self.escaped(l.value(), false)?;
                self.out.push_str("</");
                self.out.push_str(&name);
                self.out.push('>');
            }
        }
        self.flush()
    }

    fn attribute(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        self.escaped(value, true)?;
        self.out.push('"');
        Ok(())
    }

    /// Blank node labels may begin with digits, XML names may not.
    fn node_id(&mut self, label: &str) -> io::Result<()> {
        let plain = label.starts_with(|c| begins_name(c) && c != '_');
        let label = if plain && label.chars().all(in_name) {
            label.to_owned()
        } else {
            format!("_{label}")
        };
        self.attribute("rdf:nodeID", &label)
    }

    fn escaped(&mut self, text: &str, attribute: bool) -> io::Result<()> {
        escape(text, attribute, &mut self.out)
            .map_err(|c| cannot(&format!("the character U+{:04X}", c as u32)))
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.begin();
        self.end_subject();
        self.out.push_str("\n</rdf:RDF>\n");
        self.flush()?;
        Ok(self.to)
    }
}

fn cannot(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("RDF/XML cannot express {what}; Turtle and N-Triples can"),
    )
}

/// Splits an IRI into a namespace and the longest XML name at its end.
fn split(iri: &str) -> Option<(&str, &str)> {
    let mut begin = None;
    for (at, c) in iri.char_indices().rev() {
        if begins_name(c) {
            begin = Some(at);
        } else if !in_name(c) {
            break;
        }
    }
    begin.filter(|at| *at > 0).map(|at| iri.split_at(at))
}
