//! RDF formats: their names, reading a document as quads, writing quads as a document.

pub(crate) mod nesting;
mod rdfxml;
mod read;
mod write;

pub use oxjsonld::JsonLdProfileSet;
pub use read::{DocumentError, Quads};
pub use write::DocumentWriter;

use oxjsonld::JsonLdProfile;

/// A format of RDF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RdfFormat {
    /// Notation 3, restricted to triples.
    N3,
    /// The N-Quads format.
    NQuads,
    /// The N-Triples format.
    NTriples,
    /// The RDF/XML format.
    RdfXml,
    /// The `TriG` format.
    TriG,
    /// The Turtle format.
    Turtle,
    /// The JSON-LD format.
    JsonLd {
        /// Profile of the document.
        profile: JsonLdProfileSet,
    },
}

const JSON_LD: RdfFormat = RdfFormat::JsonLd {
    profile: JsonLdProfileSet::empty(),
};

/// File name extensions.
const ENDINGS: [(&str, RdfFormat); 10] = [
    ("json", JSON_LD),
    ("jsonld", JSON_LD),
    ("n3", RdfFormat::N3),
    ("nq", RdfFormat::NQuads),
    ("nt", RdfFormat::NTriples),
    ("rdf", RdfFormat::RdfXml),
    ("trig", RdfFormat::TriG),
    ("ttl", RdfFormat::Turtle),
    ("txt", RdfFormat::NTriples),
    ("xml", RdfFormat::RdfXml),
];

/// Media subtypes of `application/` and `text/`, without `x-`.
const SUBTYPES: [(&str, RdfFormat); 14] = [
    ("activity+json", JSON_LD),
    ("json", JSON_LD),
    ("jsonld", JSON_LD),
    ("ld+json", JSON_LD),
    ("n-quads", RdfFormat::NQuads),
    ("n-triples", RdfFormat::NTriples),
    ("n3", RdfFormat::N3),
    ("nquads", RdfFormat::NQuads),
    ("ntriples", RdfFormat::NTriples),
    ("plain", RdfFormat::NTriples),
    ("rdf+xml", RdfFormat::RdfXml),
    ("trig", RdfFormat::TriG),
    ("turtle", RdfFormat::Turtle),
    ("xml", RdfFormat::RdfXml),
];

impl RdfFormat {
    /// Returns the format of a file name extension, given without its dot.
    #[must_use]
    pub fn from_extension(ending: &str) -> Option<Self> {
        let mut all = ENDINGS.iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(ending))?;
        Some(found.1)
    }

    /// Returns the format of a media type with parameters. `None` if it names a character set other than UTF-8.
    #[must_use]
    pub fn from_media_type(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let known = ["application", "text"];
        known.iter().find(|k| k.eq_ignore_ascii_case(kind.trim()))?;
        let subtype = subtype.trim();
        let subtype = subtype.strip_prefix("x-").unwrap_or(subtype);
        let mut all = SUBTYPES.iter();
        let mut format = all.find(|(s, _)| s.eq_ignore_ascii_case(subtype))?.1;
        for parameter in parts.filter(|p| !p.trim().is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches('"');
            match (name.trim(), &mut format) {
                ("charset", _) => {
                    let utf8 = ["ascii", "utf8", "utf-8"];
                    utf8.iter().find(|c| c.eq_ignore_ascii_case(value))?;
                }
                ("profile", Self::JsonLd { profile }) => {
                    let iris = value.split(' ');
                    for known in iris.filter_map(JsonLdProfile::from_iri) {
                        *profile |= known;
                    }
                }
                _ => {}
            }
        }
        Some(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_say_formats() {
        let of = RdfFormat::from_media_type;
        assert_eq!(of("text/turtle; charset=UTF-8"), Some(RdfFormat::Turtle));
        assert_eq!(of("application/x-turtle"), Some(RdfFormat::Turtle));
        assert_eq!(of("application/rdf+xml"), Some(RdfFormat::RdfXml));
        assert_eq!(of("Application/LD+JSON;profile=\"a b\""), Some(JSON_LD));
        let streaming =
            of("application/ld+json ; profile = http://www.w3.org/ns/json-ld#streaming");
        let profile = JsonLdProfile::Streaming.into();
        assert_eq!(streaming, Some(RdfFormat::JsonLd { profile }));
        for none in [
            "text/turtle; charset=latin1",
            "text/csv",
            "image/xml",
            "turtle",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
