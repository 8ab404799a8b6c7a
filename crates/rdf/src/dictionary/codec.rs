//! Encoding of a dictionary in an image, including its hash tables, so that opening computes nothing.

use super::heads::{Head, Heads};
use super::segment::Segment;
use super::{Arc, Dictionary};
use crate::codec::{Reader, put_bytes, put_column, put_u32, put_u64};
use crate::error::{Error, Result};

impl Dictionary {
    /// Appends the encoded dictionary to `to`.
    pub fn encode(&self, to: &mut Vec<u8>) {
        put_u64(self.heads.list().len() as u64, to);
        for head in self.heads.list() {
            let (kind, text): (u8, &str) = match head {
                Head::Iri(t) => (b'<', t),
                Head::Blank => (b'_', ""),
                Head::Plain => (b'"', ""),
                Head::Lang(t) => (b'@', t),
                Head::Typed(t) => (b'^', t),
                Head::Triple => (b'(', ""),
            };
            to.push(kind);
            put_bytes(text.as_bytes(), to);
        }
        put_u64(self.segments.len() as u64, to);
        for s in &self.segments {
            put_u32(s.first, to);
            put_bytes(&s.heap, to);
            put_u64(s.bases.len() as u64, to);
            for base in &s.bases {
                put_u64(*base, to);
            }
            put_column(&s.starts, to);
            put_column(&s.slots, to);
            put_bytes(&s.tags, to);
        }
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(from: &mut Reader<'_>) -> Result<Self> {
        let mut heads = Heads::default();
        let fixed = heads.list().len();
        for i in 0..from.len(9)? {
            let kind = from.u8()?;
            let text = from.text()?;
            let head = match kind {
                b'<' => Head::Iri(text.into()),
                b'_' => Head::Blank,
                b'"' => Head::Plain,
                b'@' => Head::Lang(text.into()),
                b'^' => Head::Typed(text.into()),
                b'(' => Head::Triple,
                other => return Err(Error::Corrupt(format!("unknown kind of term {other}"))),
            };
            if i < fixed {
                if *heads.get(i as u32) != head {
                    return Err(Error::Corrupt(
                        "the dictionary's first heads are wrong".into(),
                    ));
                }
            } else {
                heads.add(head);
            }
        }
        let mut segments = Vec::new();
        let mut next = 1;
        for _ in 0..from.len(32)? {
            let first = from.u32()?;
            let heap = from.bytes()?.to_vec();
            let mut bases = Vec::new();
            for _ in 0..from.len(8)? {
                bases.push(from.u64()?);
            }
            let (starts, slots) = (from.column()?, from.column()?);
            let tags = from.bytes()?.to_vec();
            let whole = first == next
                && bases.len() == starts.len().div_ceil(64)
                && (slots.len().is_power_of_two() && slots.contains(&0) || slots.is_empty())
                && slots.len() >= starts.len()
                && tags.len() == slots.len()
                && bases.iter().all(|b| *b <= heap.len() as u64);
            if !whole {
                return Err(Error::Corrupt(
                    "a segment of the dictionary is inconsistent".into(),
                ));
            }
            next = first + starts.len() as u32;
            segments.push(Arc::new(Segment {
                first,
                heap,
                bases,
                starts,
                slots,
                tags,
            }));
        }
        if segments.is_empty() {
            segments.push(Arc::new(Segment::new(1)));
        }
        let dictionary = Self {
            recent: 0,
            heads: Arc::new(heads),
            segments,
        };
        dictionary.check_triples()?;
        Ok(dictionary)
    }
}
