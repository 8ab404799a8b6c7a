//! Lookup keys of the dictionary: borrowed, decomposed terms with their hashes.

use super::triple;
use crate::error::{Error, Result};
use crate::id::{self, Id, XSD};
use oxrdf::{BaseDirection, BlankNodeRef, Literal, LiteralRef, NamedNodeRef, Term, TermRef};
use std::fmt::Write as _;

/// A term in borrowed pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'a> {
    /// An IRI as one text.
    Iri(&'a str),
    /// A blank node's label.
    Blank(&'a str),
    /// A literal of type `xsd:string`.
    Plain(&'a str),
    /// A literal and its language tag, which a base direction may follow: `ar--rtl`.
    Lang(&'a str, &'a str),
    /// A literal and its datatype.
    Typed(&'a str, &'a str),
    /// A triple term: its subject, predicate and object as [`Self::put_parts`] writes them.
    Triple(&'a str),
    /// A triple term by the ids of its parts ([`super::triple::tail`]); valid in one dictionary only.
    TripleIds(&'a str),
}

/// Appends a term's text ([`Key::put`]).
fn put(term: TermRef<'_>, to: &mut String) {
    Key::with(term, |key| key.put(to));
}

/// Separator between a language tag and a base direction.
const DIRECTION: &str = "--";

impl<'a> Key<'a> {
    /// Calls a function with the pieces of a term. Pieces that are not texts of the term are written to a buffer first: those of triple terms, and
    /// language tags with a direction.
    pub fn with<T>(term: TermRef<'_>, run: impl FnOnce(&Key<'_>) -> T) -> T {
        let mut buffer = String::new();
        match term {
            TermRef::NamedNode(n) => run(&Key::Iri(n.as_str())),
            TermRef::BlankNode(n) => run(&Key::Blank(n.as_str())),
            TermRef::Literal(l) => match (l.language(), l.direction()) {
                (Some(lang), None) => run(&Key::Lang(l.value(), lang)),
                (Some(lang), Some(direction)) => {
                    buffer = format!("{lang}{DIRECTION}{direction}");
                    run(&Key::Lang(l.value(), &buffer))
                }
                (None, _) => run(&Key::typed(l.value(), l.datatype().as_str())),
            },
            TermRef::Triple(t) => {
                let parts = [
                    t.subject.as_ref().into(),
                    t.predicate.as_ref().into(),
                    t.object.as_ref(),
                ];
                Key::put_parts(&mut buffer, |i, to| put(parts[i], to));
                run(&Key::Triple(&buffer))
            }
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

    /// Returns the id of a value that its id encodes.
    pub(crate) fn inline(&self) -> Option<Id> {
        match self {
            Self::Typed(value, datatype) => id::inline(value, datatype),
            _ => None,
        }
    }

    /// Returns the total length of the pieces in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Iri(text)
            | Self::Blank(text)
            | Self::Plain(text)
            | Self::Triple(text)
            | Self::TripleIds(text) => text.len(),
            Self::Lang(text, more) | Self::Typed(text, more) => text.len() + more.len(),
        }
    }

    /// Returns the key as an owned term; `None` for triple terms, which are made of the terms of their parts ([`super::Dictionary::term`]).
    pub fn to_term(self) -> Option<Term> {
        Some(match self {
            Self::Iri(iri) => NamedNodeRef::new_unchecked(iri).into_owned().into(),
            Self::Blank(label) => BlankNodeRef::new_unchecked(label).into_owned().into(),
            Self::Plain(v) => LiteralRef::new_simple_literal(v).into_owned().into(),
            Self::Lang(v, l) => literal(v, l).into(),
            Self::Typed(v, t) => LiteralRef::new_typed_literal(v, NamedNodeRef::new_unchecked(t))
                .into_owned()
                .into(),
            Self::Triple(_) | Self::TripleIds(_) => return None,
        })
    }

    pub(crate) fn hash(&self) -> u64 {
        match self {
            Self::Iri(iri) => hash(b'<', iri.as_bytes(), b""),
            Self::Blank(l) => hash(b'_', l.as_bytes(), b""),
            Self::Plain(v) => hash(b'"', v.as_bytes(), b""),
            Self::Lang(v, l) => hash(b'@', v.as_bytes(), l.as_bytes()),
            Self::Typed(v, t) => hash(b'^', v.as_bytes(), t.as_bytes()),
            Self::Triple(parts) | Self::TripleIds(parts) => hash(b'(', parts.as_bytes(), b""),
        }
    }
}

/// Splits a language tag from the base direction that may follow it.
pub(crate) fn split_tag(tag: &str) -> (&str, Option<&str>) {
    match tag.split_once(DIRECTION) {
        Some((language, direction)) => (language, Some(direction)),
        None => (tag, None),
    }
}

/// Returns a literal with a language tag, which a base direction may follow.
fn literal(value: &str, tag: &str) -> Literal {
    let (language, direction) = match split_tag(tag) {
        (language, Some("ltr")) => (language, BaseDirection::Ltr),
        (language, Some("rtl")) => (language, BaseDirection::Rtl),
        _ => return Literal::new_language_tagged_literal_unchecked(value, tag),
    };
    Literal::new_directional_language_tagged_literal_unchecked(value, language, direction)
}

/// Separator between a datatype or language and the text: no IRI contains this character.
pub(super) const END: char = '>';

impl<'a> Key<'a> {
    /// Appends the term as one text: its kind, then language or datatype up to `>`, then the rest.
    pub fn put(&self, to: &mut String) {
        let (kind, more, text) = match self {
            Self::Iri(iri) => ('<', None, iri),
            Self::Blank(label) => ('_', None, label),
            Self::Plain(text) => ('"', None, text),
            Self::Lang(text, lang) => ('@', Some(lang), text),
            Self::Typed(text, datatype) => ('^', Some(datatype), text),
            Self::Triple(text) | Self::TripleIds(text) => ('(', None, text),
        };
        to.push(kind);
        if let Some(more) = more {
            to.push_str(more);
            to.push(END);
        }
        to.push_str(text);
    }

    /// Parses a text written by [`Self::put`].
    pub fn take(text: &'a str) -> Option<Self> {
        let mut chars = text.chars();
        let kind = chars.next()?;
        let rest = chars.as_str();
        Some(match kind {
            '<' => Self::Iri(rest),
            '_' => Self::Blank(rest),
            '"' => Self::Plain(rest),
            '@' => {
                let (lang, text) = rest.split_once(END)?;
                Self::Lang(text, lang)
            }
            '^' => {
                let (datatype, text) = rest.split_once(END)?;
                Self::typed(text, datatype)
            }
            '(' => {
                Self::parts(rest)?;
                Self::Triple(rest)
            }
            _ => return None,
        })
    }

    /// Appends the parts of a triple term, each behind the length of its text. `put` appends the text of a part: 0 is the subject, 1 the
    /// predicate, 2 the object.
    pub(crate) fn put_parts(to: &mut String, mut put: impl FnMut(usize, &mut String)) {
        for i in 0..3 {
            let mut part = String::new();
            put(i, &mut part);
            let _ = write!(to, "{}:{part}", part.len());
        }
    }

    /// Returns the parts of a triple term from the text of a [`Self::Triple`]; `None` if they form no triple.
    pub(crate) fn parts(text: &'a str) -> Option<[Self; 3]> {
        let mut rest = text;
        let mut part = || {
            let (len, after) = rest.split_once(':')?;
            let (part, after) = after.split_at_checked(len.parse().ok()?)?;
            rest = after;
            Some(part)
        };
        let (s, p, o) = (part()?, part()?, part()?);
        let is_triple = s.starts_with(['<', '_']) && p.starts_with('<') && rest.is_empty();
        if !is_triple {
            return None;
        }
        let object = match o.strip_prefix('(') {
            // The caller reads its parts, within the limit of nested terms.
            Some(inner) => Self::Triple(inner),
            None => Self::take(o)?,
        };
        Some([Self::take(s)?, Self::take(p)?, object])
    }

    /// Returns the subjects and predicates of a triple term and of the triple terms within it, from the outermost on, and the innermost
    /// object. `text` is that of a [`Self::Triple`].
    ///
    /// # Errors
    /// Fails if the text is no triple, or the terms are nested too deeply.
    pub(crate) fn levels(text: &'a str) -> Result<(Vec<[Self; 2]>, Self)> {
        let mut outer = Vec::new();
        let mut inner = Self::Triple(text);
        while let Self::Triple(text) = inner {
            if outer.len() == triple::NESTED_MAX {
                return Err(Error::Nested(triple::NESTED_MAX));
            }
            let parts = Self::parts(text)
                .ok_or_else(|| Error::Corrupt("a triple term has not three parts".into()))?;
            let [s, p, o] = parts;
            outer.push([s, p]);
            inner = o;
        }
        Ok((outer, inner))
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
