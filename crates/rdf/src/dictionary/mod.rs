//! Dictionary: terms to ids and back.
//!
//! A term is stored once: the number of its *head* (the shared part: an IRI prefix, a language, a datatype) and the rest of its text. Ids
//! are dense and never reused. The dictionary is a list of segments; copies share all segments but the last, so that a snapshot is cheap
//! and does not block the writer.

mod codec;
mod heads;
mod key;
mod segment;

pub use heads::Head;
pub use key::Key;

use crate::error::{Error, Result};
use crate::id::{self, Id, LOCAL, UNBOUND};
use heads::{BLANK, Heads, PLAIN};
use oxrdf::{Term, TermRef};
use segment::Segment;
use std::cmp::Ordering;
use std::sync::Arc;

/// Limit of terms in a shared last segment that a writer copies; a larger one is left as it is, and a new segment begins.
const COPIED_MAX: usize = 2048;

/// All terms of a database.
#[derive(Debug, Clone)]
pub struct Dictionary {
    heads: Arc<Heads>,
    segments: Vec<Arc<Segment>>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            heads: Arc::default(),
            segments: vec![Arc::new(Segment::new(1))],
        }
    }
}

/// A term in pieces borrowed from the dictionary.
#[derive(Debug, Clone, Copy)]
pub enum Parts<'a> {
    /// Head and remaining text.
    Stored(&'a Head, &'a str),
    /// A value encoded in the term id.
    Inline(id::Inline),
}

impl Dictionary {
    /// Returns the number of stored terms.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|s| s.len()).sum()
    }

    /// Returns whether no term is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.heads.bytes() + self.segments.iter().map(|s| s.bytes()).sum::<usize>()
    }

    /// Returns the id of a stored term.
    pub fn find(&self, key: &Key<'_>) -> Option<Id> {
        if let Key::Typed(value, datatype) = key
            && let Some(id) = id::inline(value, datatype)
        {
            return Some(id);
        }
        let hash = key.hash();
        self.segments
            .iter()
            .find_map(|s| s.find(key, hash, &self.heads))
    }

    /// Looks up a term as [`Self::find`] does.
    pub fn find_term(&self, term: TermRef<'_>) -> Option<Id> {
        self.find(&Key::of(term))
    }

    /// Returns the id of a term and adds the term if it is new.
    pub fn intern(&mut self, key: &Key<'_>) -> Result<Id> {
        if let Key::Typed(value, datatype) = key
            && let Some(id) = id::inline(value, datatype)
        {
            return Ok(id);
        }
        self.intern_hashed(key, key.hash())
    }

    /// Interns a term like [`Self::intern`], with a precomputed hash; the term must not be an inline value.
    pub(crate) fn intern_hashed(&mut self, key: &Key<'_>, hash: u64) -> Result<Id> {
        for segment in &self.segments {
            if let Some(id) = segment.find(key, hash, &self.heads) {
                return Ok(id);
            }
        }
        let (head, tail) = match *key {
            Key::Iri(iri) => {
                let (head, cut) = match self.heads.of_iri(iri) {
                    Some(found) => found,
                    None => Arc::make_mut(&mut self.heads).add_iri(iri),
                };
                (head, iri.get(cut..).unwrap_or_default())
            }
            Key::Blank(label) => (BLANK, label),
            Key::Plain(value) => (PLAIN, value),
            Key::Lang(value, lang) => (self.suffix(b'@', lang), value),
            Key::Typed(value, datatype) => (self.suffix(b'^', datatype), value),
        };
        let heads = &self.heads;
        let last = last(&mut self.segments, heads);
        if last.first as usize + last.len() >= LOCAL as usize {
            return Err(Error::Full);
        }
        last.add(head, tail, hash, heads)
    }

    fn suffix(&mut self, kind: u8, text: &str) -> u32 {
        if let Some(n) = self.heads.of_suffix(kind, text) {
            return n;
        }
        let head = if kind == b'@' {
            Head::Lang(text.into())
        } else {
            Head::Typed(text.into())
        };
        Arc::make_mut(&mut self.heads).add(head)
    }

    /// Merges all segments into one.
    pub fn compact(&mut self) {
        merge(&mut self.segments, &self.heads, true);
    }

    /// Looks up many terms by key and hash; 0 for terms not found. None may be an inline value. Faster than single lookups: memory accesses
    /// of one batch overlap.
    pub(crate) fn find_many(&self, keys: &[Key<'_>], hashes: &[u64], ids: &mut Vec<Id>) {
        ids.clear();
        let find = |key: &Key<'_>, hash: u64| {
            self.segments
                .iter()
                .find_map(|s| s.find(key, hash, &self.heads))
                .unwrap_or(UNBOUND)
        };
        if let [segment] = self.segments.as_slice() {
            let slots: Vec<Option<u32>> = hashes.iter().map(|h| segment.first_slot(*h)).collect();
            let places: Vec<Option<usize>> = slots
                .iter()
                .map(|s| segment.start((*s)? as usize))
                .collect();
            let mut touched = 0u8;
            for place in &places {
                touched |= place
                    .and_then(|p| segment.heap.get(p))
                    .copied()
                    .unwrap_or(0);
            }
            std::hint::black_box(touched);
        }
        ids.extend(keys.iter().zip(hashes).map(|(key, hash)| find(key, *hash)));
    }

    /// Returns the pieces of the term with an id.
    pub fn parts(&self, id: Id) -> Option<Parts<'_>> {
        if let Some(value) = id::value(id) {
            return Some(Parts::Inline(value));
        }
        let i = self
            .segments
            .partition_point(|s| s.first <= id)
            .checked_sub(1)?;
        let segment = self.segments.get(i)?;
        let (head, tail) = segment.record((id - segment.first) as usize)?;
        Some(Parts::Stored(self.heads.get(head), tail))
    }

    /// Returns the term with an id.
    pub fn term(&self, id: Id) -> Option<Term> {
        Some(self.parts(id)?.to_term())
    }
}

/// Returns the unshared segment to which new terms are added.
fn last<'s>(segments: &'s mut Vec<Arc<Segment>>, heads: &Heads) -> &'s mut Segment {
    let (shared, next) = segments.last().map_or((false, 1), |s| {
        (
            Arc::strong_count(s) > 1 && s.len() > COPIED_MAX,
            s.first + s.len() as u32,
        )
    });
    if shared || segments.is_empty() {
        merge(segments, heads, false);
        segments.push(Arc::new(Segment::new(next)));
    }
    let at = segments.len() - 1;
    Arc::make_mut(&mut segments[at])
}

/// Merges segments from the end while the previous one is not much larger, which keeps their number small; or merges all.
fn merge(segments: &mut Vec<Arc<Segment>>, heads: &Heads, all: bool) {
    while let [.., a, b] = segments.as_slice() {
        if !all && a.len() > 2 * b.len() {
            return;
        }
        let joined = Arc::new(a.joined(b, heads));
        segments.truncate(segments.len() - 2);
        segments.push(joined);
    }
}

impl Parts<'_> {
    /// Compares two terms in a total order by content: blank nodes, IRIs, integers, strings, language-tagged strings, booleans, dates,
    /// other literals; within a kind by value or text.
    pub fn order(&self, other: &Parts<'_>) -> Ordering {
        let kind = |parts: &Parts<'_>| match parts {
            Parts::Stored(Head::Blank, _) => 0,
            Parts::Stored(Head::Iri(_), _) => 1,
            Parts::Inline(id::Inline::Integer(_)) => 2,
            Parts::Stored(Head::Plain, _) => 3,
            Parts::Stored(Head::Lang(_), _) => 4,
            Parts::Inline(id::Inline::Boolean(_)) => 5,
            Parts::Inline(id::Inline::Date(_)) => 6,
            Parts::Stored(Head::Typed(_), _) => 7,
        };
        let number = |value: &id::Inline| match value {
            id::Inline::Integer(n) | id::Inline::Date(n) => *n,
            id::Inline::Boolean(b) => i64::from(*b),
        };
        kind(self)
            .cmp(&kind(other))
            .then_with(|| match (self, other) {
                (Parts::Inline(a), Parts::Inline(b)) => number(a).cmp(&number(b)),
                (Parts::Stored(Head::Iri(p), a), Parts::Stored(Head::Iri(q), b)) if p == q => {
                    a.cmp(b)
                }
                (Parts::Stored(Head::Iri(p), a), Parts::Stored(Head::Iri(q), b)) => {
                    p.bytes().chain(a.bytes()).cmp(q.bytes().chain(b.bytes()))
                }
                (Parts::Stored(Head::Lang(p), a), Parts::Stored(Head::Lang(q), b)) => {
                    (a, p).cmp(&(b, q))
                }
                (Parts::Stored(Head::Typed(p), a), Parts::Stored(Head::Typed(q), b)) => {
                    (p, a).cmp(&(q, b))
                }
                (Parts::Stored(_, a), Parts::Stored(_, b)) => a.cmp(b),
                _ => Ordering::Equal,
            })
    }

    /// Returns the pieces as an owned term.
    pub fn to_term(self) -> Term {
        match self {
            Parts::Inline(value) => {
                let datatype = format!("{}{}", id::XSD, value.datatype());
                Key::Typed(&value.text(), &datatype).to_term()
            }
            Parts::Stored(head, tail) => match head {
                Head::Iri(prefix) => {
                    let mut iri = String::with_capacity(prefix.len() + tail.len());
                    iri.push_str(prefix);
                    iri.push_str(tail);
                    oxrdf::NamedNode::new_unchecked(iri).into()
                }
                Head::Blank => Key::Blank(tail).to_term(),
                Head::Plain => Key::Plain(tail).to_term(),
                Head::Lang(lang) => Key::Lang(tail, lang).to_term(),
                Head::Typed(datatype) => Key::Typed(tail, datatype).to_term(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
