//! Triple terms: a term is stored as the ids of its parts. Their nesting is limited, because programs follow it recursively.

use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use oxrdf::{NamedOrBlankNode, Term, Triple};

/// Limit of triple terms within triple terms.
pub(crate) const NESTED_MAX: usize = 64;

/// Characters of an id: seven bits each.
const DIGITS: usize = 5;

/// Encodes the ids of a triple term's parts as text.
pub(crate) fn tail(parts: [Id; 3]) -> String {
    let digit = |id: Id, i: usize| char::from((id >> (7 * i) & 0x7f) as u8);
    parts
        .into_iter()
        .flat_map(|id| (0..DIGITS).map(move |i| digit(id, i)))
        .collect()
}

/// Decodes a text of [`tail`].
pub(crate) fn ids(tail: &str) -> Option<[Id; 3]> {
    let bytes: &[u8; 3 * DIGITS] = tail.as_bytes().try_into().ok()?;
    let mut ids = [UNBOUND; 3];
    for (id, digits) in ids.iter_mut().zip(bytes.chunks_exact(DIGITS)) {
        let number = digits
            .iter()
            .rev()
            .fold(0u64, |n, b| n << 7 | u64::from(*b));
        *id = Id::try_from(number).ok()?;
    }
    Some(ids)
}

/// Fails if a triple term with this object would be nested too deeply. `parts` returns the parts of a triple term.
pub(crate) fn check_depth(mut object: Id, parts: impl Fn(Id) -> Option<[Id; 3]>) -> Result<()> {
    let mut depth = 1;
    while let Some([_, _, inner]) = parts(object) {
        depth += 1;
        if depth > NESTED_MAX {
            return Err(Error::Nested(NESTED_MAX));
        }
        object = inner;
    }
    Ok(())
}

/// Returns a triple term of three terms; `None` if they form no triple.
pub fn term(subject: Term, predicate: Term, object: Term) -> Option<Term> {
    let subject: NamedOrBlankNode = match subject {
        Term::NamedNode(n) => n.into(),
        Term::BlankNode(n) => n.into(),
        Term::Literal(_) | Term::Triple(_) => return None,
    };
    let Term::NamedNode(predicate) = predicate else {
        return None;
    };
    Some(Triple::new(subject, predicate, object).into())
}

/// Kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An IRI.
    Iri,
    /// A blank node.
    Blank,
    /// A literal.
    Literal,
    /// A triple term.
    Triple,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{INLINE, LOCAL};

    #[test]
    fn ids_come_back() {
        for parts in [[1, 2, 3], [LOCAL, INLINE, Id::MAX], [0x7f, 0x80, UNBOUND]] {
            assert_eq!(ids(&tail(parts)), Some(parts));
        }
        for text in [
            "",
            "x",
            "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}0000000000",
            "é0000000000000",
        ] {
            assert_eq!(ids(text), None, "{text:?}");
        }
    }
}
