//! Dictionary: terms to ids and back.
//!
//! A term is stored once: the number of its *head* (the shared part: an IRI prefix, a language, a datatype) and the rest of its text. Ids
//! are dense and never reused. The dictionary is a list of segments; copies share all segments but the last, so that a snapshot is cheap
//! and does not block the writer.

mod codec;
mod heads;
mod key;
mod segment;
pub(crate) mod triple;

pub use heads::Head;
pub use key::Key;
pub(crate) use key::split_tag;

use crate::error::{Error, Result};
use crate::id::{self, Id, LOCAL, UNBOUND};
use heads::{BLANK, Heads, PLAIN};
use oxrdf::{Term, TermRef};
use segment::Segment;
use std::cmp::Ordering;
use std::sync::Arc;
use triple::Kind;

/// Limit of terms in a shared last segment that a writer copies; a larger one is left as it is, and a new segment begins.
const COPIED_MAX: usize = 2048;

/// All terms of a database.
#[derive(Debug, Clone)]
pub struct Dictionary {
    heads: Arc<Heads>,
    segments: Vec<Arc<Segment>>,
    /// Number of the language or datatype of the latest new term: the next one often has the same.
    recent: u32,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            heads: Arc::default(),
            segments: vec![Arc::new(Segment::new(1))],
            recent: PLAIN,
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
        if let Some(id) = key.inline() {
            return Some(id);
        }
        if let Key::Triple(text) = key {
            let (outer, inner) = Key::levels(text).ok()?;
            return outer
                .iter()
                .rev()
                .try_fold(self.find(&inner)?, |o, [s, p]| {
                    let tail = triple::tail([self.find(s)?, self.find(p)?, o]);
                    self.find(&Key::TripleIds(&tail))
                });
        }
        self.find_hashed(key, key.hash())
    }

    /// Looks up a term as [`Self::find`] does, with a precomputed hash; the term must be neither an inline value nor a [`Key::Triple`].
    pub(crate) fn find_hashed(&self, key: &Key<'_>, hash: u64) -> Option<Id> {
        self.segments
            .iter()
            .find_map(|s| s.find(key, hash, &self.heads))
    }

    /// Looks up a term as [`Self::find`] does.
    pub fn find_term(&self, term: TermRef<'_>) -> Option<Id> {
        Key::with(term, |key| self.find(key))
    }

    /// Returns the id of a term as [`Self::intern`] does.
    pub fn intern_term(&mut self, term: TermRef<'_>) -> Result<Id> {
        Key::with(term, |key| self.intern(key))
    }

    /// Returns the id of a term and adds the term if it is new.
    pub fn intern(&mut self, key: &Key<'_>) -> Result<Id> {
        if let Some(id) = key.inline() {
            return Ok(id);
        }
        if let Key::Triple(text) = key {
            let (outer, inner) = Key::levels(text)?;
            let inner = self.intern(&inner)?;
            return outer.iter().rev().try_fold(inner, |o, [s, p]| {
                let parts = [self.intern(s)?, self.intern(p)?, o];
                self.intern_triple(parts)
            });
        }
        self.intern_hashed(key, key.hash())
    }

    /// Interns a term like [`Self::intern`], with a precomputed hash; the term must be neither an inline value nor a [`Key::Triple`].
    pub(crate) fn intern_hashed(&mut self, key: &Key<'_>, hash: u64) -> Result<Id> {
        match self.find_hashed(key, hash) {
            Some(id) => Ok(id),
            None => self.add_hashed(key, hash),
        }
    }

    /// Adds a term that is not stored yet, as [`Self::intern_hashed`] does.
    pub(crate) fn add_hashed(&mut self, key: &Key<'_>, hash: u64) -> Result<Id> {
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
            Key::Triple(text) | Key::TripleIds(text) => (self.suffix(b'(', ""), text),
        };
        let heads = &self.heads;
        let last = last(&mut self.segments, heads);
        if last.first as usize + last.len() >= LOCAL as usize {
            return Err(Error::Full);
        }
        last.add(head, tail, hash, heads)
    }

    /// Returns the number of the head with a language or datatype.
    fn suffix(&mut self, kind: u8, text: &str) -> u32 {
        match (kind, self.heads.get(self.recent)) {
            (b'@', Head::Lang(recent)) | (b'^', Head::Typed(recent)) if **recent == *text => {
                return self.recent;
            }
            _ => {}
        }
        if let Some(n) = self.heads.of_suffix(kind, text) {
            self.recent = n;
            return n;
        }
        let head = match kind {
            b'@' => Head::Lang(text.into()),
            b'(' => Head::Triple,
            _ => Head::Typed(text.into()),
        };
        Arc::make_mut(&mut self.heads).add(head)
    }

    /// Returns the ids of the subject, predicate and object of a triple term; `None` for other terms.
    pub fn triple(&self, id: Id) -> Option<[Id; 3]> {
        self.parts(id)?.triple()
    }

    /// Returns the id of a triple term with these parts, and adds the term if it is new. The parts must form a triple.
    ///
    /// # Errors
    /// Fails if the term would be nested too deeply, or the dictionary is full.
    pub(crate) fn intern_triple(&mut self, parts: [Id; 3]) -> Result<Id> {
        triple::check_depth(parts[2], |id| self.triple(id))?;
        self.intern(&Key::TripleIds(&triple::tail(parts)))
    }

    /// Fails if a triple term of a decoded dictionary has parts that do not precede it, form no triple, or are nested too deeply.
    pub(super) fn check_triples(&self) -> Result<()> {
        if !self.heads.list().contains(&Head::Triple) {
            return Ok(());
        }
        let wrong =
            |id: Id| Error::Corrupt(format!("the triple term {id} of the dictionary is wrong"));
        for id in 1..=self.len() as Id {
            let Some(parts @ Parts::Stored(Head::Triple, _)) = self.parts(id) else {
                continue;
            };
            let [s, p, o] = parts.triple().ok_or_else(|| wrong(id))?;
            let is_before = |part: Id| match part {
                UNBOUND => false,
                part if part >= id::INLINE => id::value(part).is_some(),
                part => part < id && part < LOCAL,
            };
            let kind = |part: Id| self.parts(part).map(|p| p.kind());
            let is_triple = [s, p, o].into_iter().all(is_before)
                && matches!(kind(s), Some(Kind::Iri | Kind::Blank))
                && kind(p) == Some(Kind::Iri);
            if !is_triple {
                return Err(wrong(id));
            }
            triple::check_depth(o, |id| self.triple(id)).map_err(|_| wrong(id))?;
        }
        Ok(())
    }

    /// Merges all segments into one.
    pub fn compact(&mut self) {
        merge(&mut self.segments, &self.heads, true);
    }

    /// Looks up many terms by key and hash; 0 for terms not found. None may be an inline value. Faster than single lookups: memory accesses
    /// of one batch overlap.
    pub(crate) fn find_many(&self, keys: &[Key<'_>], hashes: &[u64], ids: &mut Vec<Id>) {
        ids.clear();
        let find = |key: &Key<'_>, hash: u64| self.find_hashed(key, hash).unwrap_or(UNBOUND);
        self.prefetch(hashes);
        ids.extend(keys.iter().zip(hashes).map(|(key, hash)| find(key, *hash)));
    }

    /// Loads what look-ups of these hashes read into the processor's caches.
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
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
    }

    /// Makes room for new terms.
    pub(crate) fn reserve(&mut self, terms: usize) {
        last(&mut self.segments, &self.heads).reserve(terms, &self.heads);
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

    /// Compares two terms ([`Parts::order`]); an id without a term comes first.
    pub(crate) fn order(&self, a: Id, b: Id) -> Ordering {
        match (self.parts(a), self.parts(b)) {
            (Some(a), Some(b)) => a.order(&b, &|a, b| self.order(a, b)),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    /// Returns the term with an id.
    pub fn term(&self, id: Id) -> Option<Term> {
        self.parts(id)?.to_term(&|part| self.term(part))
    }

    /// Appends a term's text ([`Key::put`]); returns `false` if the id has no term.
    pub fn put(&self, id: Id, to: &mut String) -> bool {
        self.parts(id)
            .is_some_and(|parts| parts.put(to, &|part, to| self.put(part, to)))
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
    /// Returns the kind of the term.
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Stored(Head::Iri(_), _) => Kind::Iri,
            Self::Stored(Head::Blank, _) => Kind::Blank,
            Self::Stored(Head::Triple, _) => Kind::Triple,
            Self::Stored(Head::Plain | Head::Lang(_) | Head::Typed(_), _) | Self::Inline(_) => {
                Kind::Literal
            }
        }
    }

    /// Returns the ids of a triple term's parts; `None` for other terms.
    pub(crate) fn triple(&self) -> Option<[Id; 3]> {
        match self {
            Self::Stored(Head::Triple, tail) => triple::ids(tail),
            _ => None,
        }
    }

    /// Compares two terms in a total order by content: blank nodes, IRIs, integers, strings, language-tagged strings, booleans, dates,
    /// other literals, triple terms; within a kind by value or text, triple terms by their parts, which `parts` compares.
    pub fn order(&self, other: &Parts<'_>, parts: &dyn Fn(Id, Id) -> Ordering) -> Ordering {
        let kind = |parts: &Parts<'_>| match parts {
            Parts::Stored(Head::Blank, _) => 0,
            Parts::Stored(Head::Iri(_), _) => 1,
            Parts::Inline(id::Inline::Integer(_)) => 2,
            Parts::Stored(Head::Plain, _) => 3,
            Parts::Stored(Head::Lang(_), _) => 4,
            Parts::Inline(id::Inline::Boolean(_)) => 5,
            Parts::Inline(id::Inline::Date(_)) => 6,
            Parts::Stored(Head::Typed(_), _) => 7,
            Parts::Stored(Head::Triple, _) => 8,
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
                (Parts::Stored(Head::Triple, a), Parts::Stored(Head::Triple, b)) => {
                    match (triple::ids(a), triple::ids(b)) {
                        (Some(a), Some(b)) => {
                            let mut each = a.into_iter().zip(b).map(|(a, b)| parts(a, b));
                            each.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
                        }
                        (a, b) => a.is_some().cmp(&b.is_some()),
                    }
                }
                (Parts::Stored(_, a), Parts::Stored(_, b)) => a.cmp(b),
                _ => Ordering::Equal,
            })
    }

    /// Appends the term as [`Key::put`] does; `part` appends the parts of a triple term. Returns `false` if a part has no term.
    pub(crate) fn put(&self, to: &mut String, part: &dyn Fn(Id, &mut String) -> bool) -> bool {
        match self {
            Self::Inline(value) => {
                to.push('^');
                to.push_str(id::XSD);
                to.push_str(value.datatype());
                to.push(key::END);
                to.push_str(&value.text());
            }
            Self::Stored(Head::Iri(prefix), tail) => {
                to.push('<');
                to.push_str(prefix);
                to.push_str(tail);
            }
            Self::Stored(Head::Blank, tail) => Key::Blank(tail).put(to),
            Self::Stored(Head::Plain, tail) => Key::Plain(tail).put(to),
            Self::Stored(Head::Lang(lang), tail) => Key::Lang(tail, lang).put(to),
            Self::Stored(Head::Typed(datatype), tail) => Key::Typed(tail, datatype).put(to),
            Self::Stored(Head::Triple, tail) => {
                let Some(ids) = triple::ids(tail) else {
                    return false;
                };
                to.push('(');
                let mut whole = true;
                Key::put_parts(to, |i, to| whole &= part(ids[i], to));
                return whole;
            }
        }
        true
    }

    /// Returns the pieces as an owned term. `term` returns the terms of a triple term's parts.
    pub fn to_term(self, term: &dyn Fn(Id) -> Option<Term>) -> Option<Term> {
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
                    Some(oxrdf::NamedNode::new_unchecked(iri).into())
                }
                Head::Blank => Key::Blank(tail).to_term(),
                Head::Plain => Key::Plain(tail).to_term(),
                Head::Lang(lang) => Key::Lang(tail, lang).to_term(),
                Head::Typed(datatype) => Key::Typed(tail, datatype).to_term(),
                Head::Triple => {
                    let [s, p, o] = triple::ids(tail)?;
                    triple::term(term(s)?, term(p)?, term(o)?)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;
