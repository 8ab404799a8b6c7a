//! A segment of terms with consecutive ids: their bytes in one heap, and a hash table over them.

use super::heads::{Head, Heads};
use super::key::{Key, hash};
use crate::error::{Error, Result};

/// Terms per absolute position in the heap.
const BLOCK: usize = 64;
/// Limit of a term's length in bytes, so that offsets within a block fit into 32 bits.
pub(crate) const TERM_BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    /// Id of the first term.
    pub(crate) first: u32,
    pub(crate) heap: Vec<u8>,
    pub(crate) bases: Vec<u64>,
    pub(crate) starts: Vec<u32>,
    /// Open-addressing hash table: the index of a term plus one. The size is a power of two.
    pub(crate) slots: Vec<u32>,
    pub(crate) tags: Vec<u8>,
}

impl Segment {
    pub(crate) fn new(first: u32) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.heap.len() + self.bases.len() * 8 + self.starts.len() * 4 + self.slots.len() * 5
    }

    pub(crate) fn start(&self, i: usize) -> Option<usize> {
        let base = *self.bases.get(i / BLOCK)? as usize;
        Some(base + *self.starts.get(i)? as usize)
    }

    /// Returns the head's number and the remaining text of a term.
    pub(crate) fn record(&self, i: usize) -> Option<(u32, &str)> {
        let from = self.start(i)?;
        let to = self.start(i + 1).unwrap_or(self.heap.len());
        let (head, used) = varint(self.heap.get(from..to)?)?;
        let tail = std::str::from_utf8(self.heap.get(from + used..to)?).ok()?;
        Some((head, tail))
    }

    /// Returns a record like [`Self::record`], without UTF-8 validation: for comparisons.
    fn raw(&self, i: usize) -> Option<(u32, &[u8])> {
        let from = self.start(i)?;
        let to = self.start(i + 1).unwrap_or(self.heap.len());
        let (head, used) = varint(self.heap.get(from..to)?)?;
        Some((head, self.heap.get(from + used..to)?))
    }

    pub(crate) fn find(&self, key: &Key<'_>, hash: u64, heads: &Heads) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let tag = (hash >> 56) as u8;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if self.tags[at] == tag {
                let i = slot - 1;
                if self
                    .raw(i as usize)
                    .is_some_and(|(head, tail)| is(heads.get(head), tail, key))
                {
                    return Some(self.first + i);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the first candidate for a hash.
    pub(crate) fn first_slot(&self, hash: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let tag = (hash >> 56) as u8;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at].checked_sub(1)?;
            if self.tags[at] == tag {
                return Some(slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns this segment merged with the following one.
    pub(crate) fn joined(&self, next: &Self, heads: &Heads) -> Self {
        let mut joined = Self {
            first: self.first,
            heap: Vec::with_capacity(self.heap.len() + next.heap.len()),
            ..Self::default()
        };
        for part in [self, next] {
            for i in 0..part.len() {
                let from = part.start(i).unwrap_or_default();
                let to = part.start(i + 1).unwrap_or(part.heap.len());
                if joined.starts.len().is_multiple_of(BLOCK) {
                    joined.bases.push(joined.heap.len() as u64);
                }
                let base = joined.bases.last().copied().unwrap_or_default();
                joined.starts.push((joined.heap.len() as u64 - base) as u32);
                joined
                    .heap
                    .extend_from_slice(part.heap.get(from..to).unwrap_or_default());
            }
        }
        let size = (joined.len() * 2).next_power_of_two().max(64);
        joined.rehash(size, joined.len(), heads);
        joined
    }

    /// Adds a term that is not stored yet.
    pub(crate) fn add(&mut self, head: u32, tail: &str, hash: u64, heads: &Heads) -> Result<u32> {
        if tail.len() > TERM_BYTES_MAX {
            return Err(Error::Long(tail.len(), TERM_BYTES_MAX));
        }
        let i = self.starts.len();
        if i.is_multiple_of(BLOCK) {
            self.bases.push(self.heap.len() as u64);
        }
        let base = self.bases.last().copied().unwrap_or_default();
        self.starts.push((self.heap.len() as u64 - base) as u32);
        put_varint(head, &mut self.heap);
        self.heap.extend_from_slice(tail.as_bytes());
        if (i + 1) * 10 > self.slots.len() * 6 {
            self.grow(heads);
        }
        self.insert_slot(i as u32, hash);
        Ok(self.first + i as u32)
    }

    /// Makes room for more terms in the hash table.
    pub(crate) fn reserve(&mut self, terms: usize, heads: &Heads) {
        let size = ((self.len() + terms + 1) * 10 / 6 + 1).next_power_of_two();
        if size > self.slots.len().max(64) {
            self.rehash(size, self.len(), heads);
        }
    }

    fn insert_slot(&mut self, i: u32, hash: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = i + 1;
        self.tags[at] = (hash >> 56) as u8;
    }

    /// Doubles the hash table. The caller inserts the term that is being added.
    fn grow(&mut self, heads: &Heads) {
        let size = (self.slots.len() * 2).max(64);
        self.rehash(size, self.starts.len().saturating_sub(1), heads);
    }

    /// Rebuilds the hash table from recomputed hashes.
    fn rehash(&mut self, size: usize, terms: usize, heads: &Heads) {
        self.slots = vec![0; size];
        self.tags = vec![0; size];
        let mut text = Vec::new();
        for i in 0..terms {
            let Some((head, tail)) = self.raw(i) else {
                continue;
            };
            let hash = match heads.get(head) {
                Head::Iri(prefix) => {
                    text.clear();
                    text.extend_from_slice(prefix.as_bytes());
                    text.extend_from_slice(tail);
                    hash(b'<', &text, b"")
                }
                Head::Blank => hash(b'_', tail, b""),
                Head::Plain => hash(b'"', tail, b""),
                Head::Lang(l) => hash(b'@', tail, l.as_bytes()),
                Head::Typed(t) => hash(b'^', tail, t.as_bytes()),
                Head::Triple => hash(b'(', tail, b""),
            };
            self.insert_slot(i as u32, hash);
        }
    }
}

fn is(head: &Head, tail: &[u8], key: &Key<'_>) -> bool {
    match (head, key) {
        (Head::Iri(prefix), Key::Iri(iri)) => {
            let (p, iri) = (prefix.as_bytes(), iri.as_bytes());
            iri.len() == p.len() + tail.len() && iri.ends_with(tail) && iri.starts_with(p)
        }
        (Head::Blank, Key::Blank(v))
        | (Head::Plain, Key::Plain(v))
        | (Head::Triple, Key::TripleIds(v)) => v.as_bytes() == tail,
        (Head::Lang(l), Key::Lang(v, lang)) => &**l == *lang && v.as_bytes() == tail,
        (Head::Typed(t), Key::Typed(v, datatype)) => &**t == *datatype && v.as_bytes() == tail,
        _ => false,
    }
}

pub(crate) fn put_varint(mut n: u32, to: &mut Vec<u8>) {
    while n >= 0x80 {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

pub(crate) fn varint(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut n = 0u32;
    for (i, b) in bytes.iter().take(5).enumerate() {
        n |= u32::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            return Some((n, i + 1));
        }
    }
    None
}
