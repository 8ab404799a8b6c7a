//! Reader of documents as quads.

use super::RdfFormat;
use super::nesting::Bounded;
use crate::parse::rdfxml::RdfXml;
use oxiri::Iri;
use oxjsonld::{JsonLdParseError, JsonLdParser, ReaderJsonLdParser};
use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use oxttl::n3::{N3Quad, N3Term, ReaderN3Parser};
use oxttl::nquads::ReaderNQuadsParser;
use oxttl::ntriples::ReaderNTriplesParser;
use oxttl::trig::ReaderTriGParser;
use oxttl::turtle::ReaderTurtleParser;
use oxttl::{N3Parser, NQuadsParser, NTriplesParser, TriGParser, TurtleParseError, TurtleParser};
use std::io::{BufReader, Read};

/// An error in a document, with its position.
#[derive(Debug)]
pub struct DocumentError {
    /// Line and column, from 1, if known.
    pub at: Option<(u64, u64)>,
    /// Description of the error.
    pub message: String,
    /// Whether the source failed, so that no more quads follow.
    pub io: bool,
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Iterator over the quads of a document.
#[expect(
    missing_debug_implementations,
    reason = "the parsers of the libraries have none"
)]
pub struct Quads<R: Read>(Parser<R>);

enum Parser<R: Read> {
    N3(Box<ReaderN3Parser<Bounded<R>>>),
    NQuads(Box<ReaderNQuadsParser<Bounded<R>>>),
    NTriples(Box<ReaderNTriplesParser<Bounded<R>>>),
    RdfXml(Box<RdfXml<BufReader<R>>>),
    TriG(Box<ReaderTriGParser<Bounded<R>>>),
    Turtle(Box<ReaderTurtleParser<Bounded<R>>>),
    JsonLd(Box<ReaderJsonLdParser<R>>),
}

impl<R: Read> Quads<R> {
    /// Starts reading a document. Relative IRIs are resolved against `base`.
    ///
    /// # Errors
    /// Fails if `base` is not an IRI.
    pub fn of(from: R, format: RdfFormat, base: Option<&str>) -> Result<Self, String> {
        let iri = base.map(|base| Iri::parse(base.to_owned())).transpose();
        let iri = iri.map_err(|e| e.to_string())?;
        let text = |e: oxiri::IriParseError| e.to_string();
        Ok(Self(match format {
            RdfFormat::N3 => {
                let mut parser = N3Parser::new();
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::N3(Box::new(parser.for_reader(Bounded::new(from))))
            }
            RdfFormat::NQuads => {
                Parser::NQuads(Box::new(NQuadsParser::new().for_reader(Bounded::new(from))))
            }
            RdfFormat::NTriples => Parser::NTriples(Box::new(
                NTriplesParser::new().for_reader(Bounded::new(from)),
            )),
            RdfFormat::RdfXml => Parser::RdfXml(Box::new(RdfXml::new(BufReader::new(from), iri))),
            RdfFormat::TriG => {
                let mut parser = TriGParser::new();
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::TriG(Box::new(parser.for_reader(Bounded::new(from))))
            }
            RdfFormat::Turtle => {
                let mut parser = TurtleParser::new();
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::Turtle(Box::new(parser.for_reader(Bounded::new(from))))
            }
            RdfFormat::JsonLd { profile } => {
                let mut parser = JsonLdParser::new().with_profile(profile);
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::JsonLd(Box::new(parser.for_reader(from)))
            }
        }))
    }
}

impl<R: Read> Iterator for Quads<R> {
    type Item = Result<Quad, DocumentError>;

    fn next(&mut self) -> Option<Self::Item> {
        let default = GraphName::DefaultGraph;
        Some(match &mut self.0 {
            Parser::N3(all) => all.next()?.map_err(turtle).and_then(plain),
            Parser::NQuads(all) => all.next()?.map_err(turtle),
            Parser::NTriples(all) => all.next()?.map_err(turtle).map(|t| t.in_graph(default)),
            Parser::RdfXml(all) => {
                let triple = all.next()?.map_err(|wrong| DocumentError {
                    at: Some(wrong.at),
                    message: wrong.message,
                    io: wrong.io,
                });
                triple.map(|t| t.in_graph(default))
            }
            Parser::TriG(all) => all.next()?.map_err(turtle),
            Parser::Turtle(all) => all.next()?.map_err(turtle).map(|t| t.in_graph(default)),
            Parser::JsonLd(all) => all.next()?.map_err(json_ld),
        })
    }
}

fn turtle(e: TurtleParseError) -> DocumentError {
    match e {
        TurtleParseError::Syntax(e) => {
            let at = e.location().start;
            DocumentError {
                at: Some((at.line + 1, at.column + 1)),
                message: e.to_string(),
                io: false,
            }
        }
        TurtleParseError::Io(e) => failed(&e),
    }
}

fn json_ld(e: JsonLdParseError) -> DocumentError {
    match e {
        JsonLdParseError::Syntax(e) => DocumentError {
            at: e.location().map(|l| (l.start.line + 1, l.start.column + 1)),
            message: e.to_string(),
            io: false,
        },
        JsonLdParseError::Io(e) => failed(&e),
    }
}

fn failed(e: &std::io::Error) -> DocumentError {
    DocumentError {
        at: None,
        message: e.to_string(),
        io: true,
    }
}

/// Converts an N3 statement to an RDF quad, if possible.
fn plain(quad: N3Quad) -> Result<Quad, DocumentError> {
    let no = || DocumentError {
        at: None,
        message: "a statement of N3 states more than a triple can".into(),
        io: false,
    };
    let subject: NamedOrBlankNode = match quad.subject {
        N3Term::NamedNode(n) => n.into(),
        N3Term::BlankNode(n) => n.into(),
        _ => return Err(no()),
    };
    let N3Term::NamedNode(predicate) = quad.predicate else {
        return Err(no());
    };
    let object: Term = match quad.object {
        N3Term::NamedNode(n) => n.into(),
        N3Term::BlankNode(n) => n.into(),
        N3Term::Literal(l) => l.into(),
        N3Term::Triple(_) | N3Term::Variable(_) => return Err(no()),
    };
    Ok(Quad::new(subject, predicate, object, quad.graph_name))
}
