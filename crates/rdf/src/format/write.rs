//! Writer of quads as a document.

use super::RdfFormat;
use super::rdfxml::RdfXmlWriter;
use oxjsonld::{JsonLdSerializer, WriterJsonLdSerializer};
use oxrdf::{GraphNameRef, QuadRef, TripleRef};
use oxttl::nquads::WriterNQuadsSerializer;
use oxttl::ntriples::WriterNTriplesSerializer;
use oxttl::trig::WriterTriGSerializer;
use oxttl::turtle::WriterTurtleSerializer;
use oxttl::{NQuadsSerializer, NTriplesSerializer, TriGSerializer, TurtleSerializer};
use std::io::{self, Write};

/// A document being written.
#[expect(
    missing_debug_implementations,
    reason = "the writers of the libraries have none"
)]
pub struct DocumentWriter<W: Write>(Writer<W>);

enum Writer<W: Write> {
    NQuads(WriterNQuadsSerializer<W>),
    NTriples(WriterNTriplesSerializer<W>),
    RdfXml(RdfXmlWriter<W>),
    TriG(WriterTriGSerializer<W>),
    Turtle(WriterTurtleSerializer<W>),
    JsonLd(Box<WriterJsonLdSerializer<W>>),
}

impl<W: Write> DocumentWriter<W> {
    /// Starts a document in a format.
    pub fn new(to: W, format: RdfFormat) -> Self {
        Self(match format {
            RdfFormat::NQuads => Writer::NQuads(NQuadsSerializer::new().for_writer(to)),
            RdfFormat::NTriples => Writer::NTriples(NTriplesSerializer::new().for_writer(to)),
            RdfFormat::RdfXml => Writer::RdfXml(RdfXmlWriter::new(to)),
            RdfFormat::TriG => Writer::TriG(TriGSerializer::new().for_writer(to)),
            // Turtle is a subset of N3.
            RdfFormat::Turtle | RdfFormat::N3 => {
                Writer::Turtle(TurtleSerializer::new().for_writer(to))
            }
            RdfFormat::JsonLd { .. } => {
                Writer::JsonLd(Box::new(JsonLdSerializer::new().for_writer(to)))
            }
        })
    }

    /// Writes a triple.
    ///
    /// # Errors
    /// Fails if the sink fails, or the format cannot express the triple.
    pub fn triple<'a>(&mut self, triple: impl Into<TripleRef<'a>>) -> io::Result<()> {
        self.quad(triple.into().in_graph(GraphNameRef::DefaultGraph))
    }

    /// Writes a quad.
    ///
    /// # Errors
    /// Fails if the sink fails, or the format cannot express the quad.
    pub fn quad<'a>(&mut self, quad: impl Into<QuadRef<'a>>) -> io::Result<()> {
        let quad = quad.into();
        if !quad.graph_name.is_default_graph() && !self.has_graphs() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this format has no names of graphs: N-Quads, TriG and JSON-LD have",
            ));
        }
        let triple = TripleRef::from(quad);
        match &mut self.0 {
            Writer::NQuads(to) => to.serialize_quad(quad),
            Writer::NTriples(to) => to.serialize_triple(triple),
            Writer::RdfXml(to) => to.triple(triple),
            Writer::TriG(to) => to.serialize_quad(quad),
            Writer::Turtle(to) => to.serialize_triple(triple),
            Writer::JsonLd(to) => to.serialize_quad(quad),
        }
    }

    fn has_graphs(&self) -> bool {
        matches!(
            self.0,
            Writer::NQuads(_) | Writer::TriG(_) | Writer::JsonLd(_)
        )
    }

    /// Ends the document and returns the sink.
    ///
    /// # Errors
    /// Fails if the sink fails.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Writer::NQuads(to) => Ok(to.finish()),
            Writer::NTriples(to) => Ok(to.finish()),
            Writer::RdfXml(to) => to.finish(),
            Writer::TriG(to) => to.finish(),
            Writer::Turtle(to) => to.finish(),
            Writer::JsonLd(to) => to.finish(),
        }
    }
}
