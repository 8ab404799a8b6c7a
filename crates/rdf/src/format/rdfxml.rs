//! Writer of RDF/XML: consecutive triples of one subject share an element.

use crate::parse::rdfxml::names::{begins_name, in_name};
use crate::xml::escape;
use oxrdf::{NamedOrBlankNode, NamedOrBlankNodeRef, TermRef, TripleRef};
use std::io::{self, Write};

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// Names in the RDF namespace that cannot be properties.
const SYNTAX: [&str; 15] = [
    "annotation",
    "annotationNodeID",
    "version",
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
        self.begin();
        if self.subject.as_ref().map(NamedOrBlankNode::as_ref) != Some(triple.subject) {
            self.end_subject();
            self.begin_subject(triple.subject)?;
            self.subject = Some(triple.subject.into_owned());
        }
        self.property(triple)?;
        self.flush()
    }

    fn begin_subject(&mut self, subject: NamedOrBlankNodeRef<'_>) -> io::Result<()> {
        self.out.push_str("\n\t<rdf:Description");
        match subject {
            NamedOrBlankNodeRef::NamedNode(n) => self.attribute("rdf:about", n.as_str())?,
            NamedOrBlankNodeRef::BlankNode(n) => self.node_id(n.as_str())?,
        }
        self.out.push('>');
        Ok(())
    }

    /// Writes the property element of a triple.
    fn property(&mut self, triple: TripleRef<'_>) -> io::Result<()> {
        let predicate = triple.predicate.as_str();
        let (namespace, local) = split(predicate).ok_or_else(|| {
            cannot(&format!(
                "the property <{predicate}>: its IRI ends in no name"
            ))
        })?;
        if namespace == RDF && SYNTAX.contains(&local) {
            return Err(cannot(&format!("the property rdf:{local}")));
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
                    if let Some(direction) = l.direction() {
                        self.attribute("xmlns:its", "http://www.w3.org/2005/11/its")?;
                        self.attribute("its:version", "2.0")?;
                        self.attribute("its:dir", &direction.to_string())?;
                        self.attribute("rdf:version", "1.2")?;
                    }
                } else if l.datatype() != oxrdf::vocab::xsd::STRING {
                    self.attribute("rdf:datatype", l.datatype().as_str())?;
                }
                self.out.push('>');
                self.escaped(l.value(), false)?;
                self.end_property(&name);
            }
            TermRef::Triple(inner) => {
                self.attribute("rdf:version", "1.2")?;
                self.attribute("rdf:parseType", "Triple")?;
                self.out.push('>');
                self.begin_subject(inner.subject.as_ref())?;
                self.property(inner.as_ref())?;
                self.out.push_str("</rdf:Description>");
                self.end_property(&name);
            }
        }
        Ok(())
    }

    fn end_property(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
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
