//! Lookup keys of the dictionary: borrowed, decomposed terms with their hashes.

use crate::id::XSD;
use oxrdf::{BlankNodeRef, LiteralRef, NamedNodeRef, Term, TermRef};

/// A term in borrowed pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'a> {
    /// An IRI as one text.
    Iri(&'a str),
    /// A blank node's label.
    Blank(&'a str),
    /// A literal of type `xsd:string`.
    Plain(&'a str),
    /// A literal and its language tag.
    Lang(&'a str, &'a str),
    /// A literal and its datatype.
    Typed(&'a str, &'a str),
}

impl<'a> Key<'a> {
    /// Decomposes a term into pieces.
    pub fn of(term: TermRef<'a>) -> Self {
        match term {
            TermRef::NamedNode(n) => Self::Iri(n.as_str()),
            TermRef::BlankNode(n) => Self::Blank(n.as_str()),
            TermRef::Literal(l) => Self::of_literal(l),
        }
    }

    /// Decomposes a literal into pieces.
    pub fn of_literal(l: LiteralRef<'a>) -> Self {
        match l.language() {
            Some(lang) => Self::Lang(l.value(), lang),
            None => Self::typed(l.value(), l.datatype().as_str()),
        }
    }

    /// Returns the key of a literal with a datatype.
    pub fn typed(value: &'a str, datatype: &'a str) -> Self {
        if datatype.strip_prefix(XSD) == Some("string") {
            Self::Plain(value)
        } else {
            Self::Typed(value, datatype)
        }
    }

    /// Returns the total length of the pieces in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Iri(text) | Self::Blank(text) | Self::Plain(text) => text.len(),
            Self::Lang(text, more) | Self::Typed(text, more) => text.len() + more.len(),
        }
    }

    /// Returns the key as an owned term.
    pub fn to_term(self) -> Term {
        match self {
            Self::Iri(iri) => NamedNodeRef::new_unchecked(iri).into_owned().into(),
            Self::Blank(label) => BlankNodeRef::new_unchecked(label).into_owned().into(),
            Self::Plain(v) => LiteralRef::new_simple_literal(v).into_owned().into(),
            Self::Lang(v, l) => LiteralRef::new_language_tagged_literal_unchecked(v, l)
                .into_owned()
                .into(),
            Self::Typed(v, t) => LiteralRef::new_typed_literal(v, NamedNodeRef::new_unchecked(t))
                .into_owned()
                .into(),
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        match self {
            Self::Iri(iri) => hash(b'<', iri.as_bytes(), b""),
            Self::Blank(l) => hash(b'_', l.as_bytes(), b""),
            Self::Plain(v) => hash(b'"', v.as_bytes(), b""),
            Self::Lang(v, l) => hash(b'@', v.as_bytes(), l.as_bytes()),
            Self::Typed(v, t) => hash(b'^', v.as_bytes(), t.as_bytes()),
        }
    }
}

const K1: u64 = 0x9E37_79B9_7F4A_7C15;
const K2: u64 = 0xD6E8_FEB8_6659_FD93;

/// Hashes a term's pieces. Images contain these hashes, so this function must never change.
pub(crate) fn hash(kind: u8, text: &[u8], suffix: &[u8]) -> u64 {
    let h = bytes(u64::from(kind).wrapping_mul(K1), text);
    if suffix.is_empty() {
        h
    } else {
        bytes(h, suffix)
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

fn bytes(seed: u64, text: &[u8]) -> u64 {
    let mut h = seed ^ (text.len() as u64).wrapping_mul(K2);
    let mut chunks = text.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        h = fold(h ^ u64::from_le_bytes(word), K1);
    }
    let rest = chunks.remainder();
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    fold(fold(h ^ u64::from_le_bytes(word), K2), K1 ^ h)
}
