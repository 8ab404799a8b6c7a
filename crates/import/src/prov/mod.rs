//! PROV documents (W3C PROV, Recommendations of 2013-04-30) turned into the graph, and the graph into PROV documents.
//!
//! A document is read into a [`Document`] from any of its encodings, and that becomes a batch ([`batch`]); what the graph has of documents, and all else
//! in it, becomes a [`Document`] again ([`Export`]).

mod export;
mod graph;
mod json;
mod lexer;
mod links;
mod model;
mod names;
mod provn;
mod provn_write;
mod rdf;
mod rdf_write;
mod stored;
mod value;
mod walk;
mod xml;

pub use export::Export;
pub use graph::batch;
pub use links::{changes, known};
pub use model::{Document, FORMS, Form, Kind, ProvError, Slot, Statement, Statements, Value};
pub use walk::{Found, walk};

use rdf::Syntax;

/// What documents are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// PROV-N
    Provn,
    /// PROV-JSON
    Json,
    /// PROV-XML
    Xml,
    /// PROV-O as Turtle, or `TriG` with bundles as graphs.
    Turtle,
    /// PROV-O as N-Triples or N-Quads.
    NTriples,
    /// PROV-O as JSON-LD.
    JsonLd,
}

impl Encoding {
    /// What it is called.
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

    /// What a text is written in, by how it begins; `named` is what its name says, which counts where both may be.
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
        // A document of PROV-N, or a remark above one.
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

    /// What a file with that name is written in, by its ending.
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

/// What names begin with that a document leaves to whoever reads it.
fn skolem(text: &str) -> String {
    let hash = blake3::hash(text.as_bytes());
    let hash = hash.to_hex();
    format!("urn:esker:blank:{}:", hash.get(..16).unwrap_or_default())
}

/// Reads a document, into its normal form.
///
/// # Errors
/// If it is none in that encoding, with where and what.
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
/// If it cannot be said in that encoding.
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
