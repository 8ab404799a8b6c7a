//! A document as quads.

use super::RdfFormat;
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

/// What is wrong with a document, and where: line and column from 1.
#[derive(Debug)]
pub struct Wrong {
    /// Line and column, where they are known.
    pub at: Option<(u64, u64)>,
    /// What is wrong.
    pub message: String,
    /// Whether the source failed, so that nothing follows.
    pub io: bool,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// The quads of a document, as they come.
#[expect(
    missing_debug_implementations,
    reason = "the parsers of the libraries have none"
)]
pub struct Quads<R: Read>(Parser<R>);

enum Parser<R: Read> {
    N3(Box<ReaderN3Parser<R>>),
    NQuads(Box<ReaderNQuadsParser<R>>),
    NTriples(Box<ReaderNTriplesParser<R>>),
    RdfXml(Box<RdfXml<BufReader<R>>>),
    TriG(Box<ReaderTriGParser<R>>),
    Turtle(Box<ReaderTurtleParser<R>>),
    JsonLd(Box<ReaderJsonLdParser<R>>),
}

impl<R: Read> Quads<R> {
    /// Reads a document. Relative IRIs belong to `base`.
    ///
    /// # Errors
    /// If the base is no IRI.
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
                Parser::N3(Box::new(parser.for_reader(from)))
            }
            RdfFormat::NQuads => Parser::NQuads(Box::new(NQuadsParser::new().for_reader(from))),
            RdfFormat::NTriples => {
                Parser::NTriples(Box::new(NTriplesParser::new().for_reader(from)))
            }
            RdfFormat::RdfXml => Parser::RdfXml(Box::new(RdfXml::new(BufReader::new(from), iri))),
            RdfFormat::TriG => {
                let mut parser = TriGParser::new();
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::TriG(Box::new(parser.for_reader(from)))
            }
            RdfFormat::Turtle => {
                let mut parser = TurtleParser::new();
                if let Some(base) = base {
                    parser = parser.with_base_iri(base).map_err(text)?;
                }
                Parser::Turtle(Box::new(parser.for_reader(from)))
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
    type Item = Result<Quad, Wrong>;

    fn next(&mut self) -> Option<Self::Item> {
        let default = GraphName::DefaultGraph;
        Some(match &mut self.0 {
            Parser::N3(all) => all.next()?.map_err(turtle).and_then(plain),
            Parser::NQuads(all) => all.next()?.map_err(turtle),
            Parser::NTriples(all) => all.next()?.map_err(turtle).map(|t| t.in_graph(default)),
            Parser::RdfXml(all) => {
                let triple = all.next()?.map_err(|wrong| Wrong {
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

fn turtle(e: TurtleParseError) -> Wrong {
    match e {
        TurtleParseError::Syntax(e) => {
            let at = e.location().start;
            Wrong {
                at: Some((at.line + 1, at.column + 1)),
                message: e.to_string(),
                io: false,
            }
        }
        TurtleParseError::Io(e) => failed(&e),
    }
}

fn json_ld(e: JsonLdParseError) -> Wrong {
    match e {
        JsonLdParseError::Syntax(e) => Wrong {
            at: e.location().map(|l| (l.start.line + 1, l.start.column + 1)),
            message: e.to_string(),
            io: false,
        },
        JsonLdParseError::Io(e) => failed(&e),
    }
}

fn failed(e: &std::io::Error) -> Wrong {
    Wrong {
        at: None,
        message: e.to_string(),
        io: true,
    }
}

/// A statement of N3 that RDF can say.
fn plain(quad: N3Quad) -> Result<Quad, Wrong> {
    let no = || Wrong {
        at: None,
        message: "a statement of N3 says more than a triple can".into(),
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
        N3Term::Variable(_) => return Err(no()),
    };
    Ok(Quad::new(subject, predicate, object, quad.graph_name))
}
