//! PROV documents (W3C PROV, Recommendations of 2013-04-30) converted to the graph, and the graph to PROV documents.
//!
//! A [`Document`] is read from any encoding and converted to a batch ([`batch`]); [`Export`] converts stored statements, and everything
//! else in the graph, to a [`Document`].

mod export;
mod graph;
mod json;
mod lexer;
mod lineage;
mod links;
mod model;
mod names;
mod provn;
mod provn_write;
mod rdf;
mod rdf_write;
mod stored;
mod value;
mod xml;

pub use export::Export;
pub use graph::batch;
pub use lineage::{Lineage, lineage};
pub use links::{changes, check_schema};
pub use model::{Document, FORMS, Form, Kind, ProvError, Slot, Statement, Statements, Value};

use rdf::Syntax;

/// Encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The PROV-N notation.
    Provn,
    /// The PROV-JSON encoding.
    Json,
    /// The PROV-XML encoding.
    Xml,
    /// PROV-O as Turtle, or `TriG` with bundles as graphs.
    Turtle,
    /// PROV-O as N-Triples or N-Quads.
    NTriples,
    /// PROV-O as JSON-LD.
    JsonLd,
}

impl Encoding {
    /// Returns the name of the encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provn => "PROV-N",
            Self::Json => "PROV-JSON",
            Self::Xml => "PROV-XML",
            Self::Turtle => "PROV-O as Turtle",
            Self::NTriples => "PROV-O as N-Triples",
            Self::JsonLd => "PROV-O as JSON-LD",
        }
    }

    /// Guesses the encoding of a text from its beginning; `named` is the encoding by file name, which decides ambiguous cases.
    pub fn of_text(text: &str, named: Option<Self>) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let is_json = text.starts_with(['{', '[']);
        let ld = || {
            ["\"@graph\"", "\"@context\"", "\"@id\"", "\"@type\""]
                .iter()
                .any(|word| text.contains(word))
        };
        if is_json && matches!(named, None | Some(Self::Json)) {
            return Some(if text.starts_with('[') || ld() {
                Self::JsonLd
            } else {
                Self::Json
            });
        }
        if named.is_some() {
            return named;
        }
        // A PROV-N document, or a comment before one.
        if ["document", "//", "/*"]
            .iter()
            .any(|begin| text.starts_with(begin))
        {
            return Some(Self::Provn);
        }
        if text.starts_with("<?xml") || text.starts_with("<prov:") || text.starts_with("<document")
        {
            return Some(Self::Xml);
        }
        let turtle = ["@prefix", "@base", "PREFIX", "prefix", "<", "_:"];
        turtle
            .iter()
            .any(|begin| text.starts_with(begin))
            .then_some(Self::Turtle)
    }

    /// Returns the encoding for a file name, by its extension.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        Some(match ending.to_ascii_lowercase().as_str() {
            "provn" | "asn" => Self::Provn,
            "json" => Self::Json,
            "xml" | "provx" => Self::Xml,
            "ttl" | "trig" => Self::Turtle,
            "nt" | "nq" => Self::NTriples,
            "jsonld" => Self::JsonLd,
            _ => return None,
        })
    }
}

/// Returns the prefix of IRIs for a document's blank names.
fn skolem(text: &str) -> String {
    let hash = blake3::hash(text.as_bytes());
    let hash = hash.to_hex();
    format!("urn:esker:blank:{}:", hash.get(..16).unwrap_or_default())
}

/// Reads a document and normalizes it.
///
/// # Errors
/// Fails with the location if the text is not valid in this encoding.
pub fn read(text: &str, encoding: Encoding) -> Result<Document, ProvError> {
    match encoding {
        Encoding::Provn => provn::read(text),
        Encoding::Json => json::read(text),
        Encoding::Xml => xml::read(text),
        Encoding::Turtle => rdf::read(text, Syntax::TriG),
        Encoding::NTriples => rdf::read(text, Syntax::NQuads),
        Encoding::JsonLd => rdf::read(text, Syntax::JsonLd),
    }
}

/// Writes a document.
///
/// # Errors
/// Fails if the encoding cannot express the document.
pub fn write(document: &Document, encoding: Encoding) -> Result<String, ProvError> {
    match encoding {
        Encoding::Provn => Ok(provn_write::write(document)),
        Encoding::Json => Ok(json::write(document)),
        Encoding::Turtle => rdf_write::write(document),
        Encoding::Xml | Encoding::NTriples | Encoding::JsonLd => {
            let what = "is read only; PROV-N, PROV-JSON and Turtle are written";
            Err(ProvError::new(encoding.name(), what))
        }
    }
}
