//! Log records of updates. A record contains its terms in full, so that it can be replayed on any image that has all earlier records.

use crate::codec::{Reader, put_bytes, put_u32, put_u64};
use crate::dictionary::{Head, Key, Parts};
use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND, XSD};
use crate::quads::{Dataset, Quad};
use std::collections::HashMap;

/// One change of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Adds a quad, if absent.
    Add(Quad),
    /// Removes a quad, if present.
    Remove(Quad),
    /// Removes all quads of a graph.
    Clear(Id),
}

/// Encodes changes, in order, as a record.
pub fn encode(data: &Dataset, changes: &[Change]) -> Vec<u8> {
    let mut numbers: HashMap<Id, u32> = HashMap::new();
    let mut terms = Vec::new();
    let mut body = Vec::new();
    let mut put = |id: Id, body: &mut Vec<u8>| {
        let next = numbers.len() as u32 + 1;
        let n = if id == UNBOUND {
            0
        } else {
            *numbers.entry(id).or_insert_with(|| {
                put_term(data, id, &mut terms);
                next
            })
        };
        put_u32(n, body);
    };
    for change in changes {
        match change {
            Change::Add(q) | Change::Remove(q) => {
                body.push(if matches!(change, Change::Add(_)) {
                    b'+'
                } else {
                    b'-'
                });
                for id in [q.s, q.p, q.o, q.g] {
                    put(id, &mut body);
                }
            }
            Change::Clear(g) => {
                body.push(b'0');
                put(*g, &mut body);
            }
        }
    }
    let mut to = Vec::with_capacity(terms.len() + body.len() + 16);
    put_u64(numbers.len() as u64, &mut to);
    to.extend_from_slice(&terms);
    put_u64(changes.len() as u64, &mut to);
    to.extend_from_slice(&body);
    to
}

fn put_term(data: &Dataset, id: Id, to: &mut Vec<u8>) {
    let mut write = |kind: u8, text: &[&str], suffix: &str| {
        to.push(kind);
        put_bytes(text.concat().as_bytes(), to);
        put_bytes(suffix.as_bytes(), to);
    };
    match data.dictionary.parts(id) {
        Some(parts @ Parts::Stored(Head::Triple, _)) => {
            let mut text = String::new();
            parts.put(&mut text, &|part, to| data.dictionary.put(part, to));
            write(b'(', &[text.get(1..).unwrap_or_default()], "");
        }
        Some(Parts::Inline(v)) => {
            write(b'^', &[&v.text()], &format!("{XSD}{}", v.datatype()));
        }
        Some(Parts::Stored(head, tail)) => match head {
            Head::Iri(prefix) => write(b'<', &[prefix, tail], ""),
            Head::Blank => write(b'_', &[tail], ""),
            Head::Plain => write(b'"', &[tail], ""),
            Head::Lang(lang) => write(b'@', &[tail], lang),
            Head::Typed(datatype) => write(b'^', &[tail], datatype),
            Head::Triple => {}
        },
        None => write(b'?', &[], ""),
    }
}

/// Applies the changes of a record.
pub fn replay(data: &mut Dataset, record: &[u8]) -> Result<()> {
    let mut from = Reader::new(record);
    let mut ids = vec![(UNBOUND, b' ')];
    for _ in 0..from.len(17)? {
        let kind = from.u8()?;
        let (text, suffix) = (from.text()?, from.text()?);
        let key = match kind {
            b'<' => Key::Iri(text),
            b'_' => Key::Blank(text),
            b'"' => Key::Plain(text),
            b'@' => Key::Lang(text, suffix),
            b'^' => Key::Typed(text, suffix),
            b'(' => Key::Triple(text),
            other => return Err(Error::Corrupt(format!("unknown kind of term {other}"))),
        };
        ids.push((data.dictionary.intern(&key)?, kind));
    }
    let mut quads: Vec<(Quad, bool)> = Vec::new();
    // Returns the id of a term that must be of one of `kinds`; graphs include the default graph.
    let id = |n: u32, place: &str, kinds: &[u8]| -> Result<Id> {
        let (id, kind) = ids
            .get(n as usize)
            .ok_or_else(|| Error::Corrupt(format!("the record has no term {n}")))?;
        if !kinds.contains(kind) {
            return Err(Error::Corrupt(format!(
                "term {n} of the record is not valid as {place}"
            )));
        }
        Ok(*id)
    };
    for _ in 0..from.len(5)? {
        match from.u8()? {
            sign @ (b'+' | b'-') => {
                let (s, p, o, g) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
                let quad = Quad {
                    s: id(s, "subject", b"<_")?,
                    p: id(p, "predicate", b"<")?,
                    o: id(o, "object", b"<_\"@^(")?,
                    g: id(g, "graph", b"<_ ")?,
                };
                quads.push((quad, sign == b'+'));
            }
            b'0' => {
                data.change(&std::mem::take(&mut quads));
                data.clear(id(from.u32()?, "graph", b"<_ ")?);
            }
            other => return Err(Error::Corrupt(format!("unknown kind of change {other}"))),
        }
    }
    if !from.is_empty() {
        return Err(Error::Corrupt(
            "bytes follow the last change of a record".into(),
        ));
    }
    data.change(&quads);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quads(data: &Dataset) -> Vec<String> {
        let term = |id: Id| data.dictionary.term(id).map(|t| t.to_string());
        let mut all: Vec<String> = data
            .quads()
            .map(|q| {
                format!(
                    "{:?} {:?} {:?} {:?}",
                    term(q.s),
                    term(q.p),
                    term(q.o),
                    term(q.g)
                )
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_record_does_the_same_elsewhere() {
        let mut data = Dataset::default();
        let mut id = |key: Key<'_>| data.dictionary.intern(&key).unwrap();
        let (a, p, g) = (
            id(Key::Iri("http://a/x")),
            id(Key::Iri("http://a/p")),
            id(Key::Iri("http://g")),
        );
        let objects = [
            id(Key::Plain("x\n")),
            id(Key::Lang("x", "en")),
            id(Key::Typed("7", "http://www.w3.org/2001/XMLSchema#integer")),
            id(Key::Typed("x", "http://t")),
            id(Key::Blank("b")),
        ];
        let mut changes = Vec::new();
        for o in objects {
            for g in [UNBOUND, g] {
                changes.push(Change::Add(Quad { s: a, p, o, g }));
            }
        }
        changes.push(Change::Clear(g));
        changes.push(Change::Add(Quad {
            s: a,
            p,
            o: objects[0],
            g,
        }));
        changes.push(Change::Remove(Quad {
            s: a,
            p,
            o: objects[1],
            g: UNBOUND,
        }));
        let record = encode(&data, &changes);
        let mut other = Dataset::default();
        other.dictionary.intern(&Key::Iri("http://other")).unwrap();
        replay(&mut other, &record).unwrap();
        assert_eq!(quads(&other).len(), 5);
        replay(&mut data, &record).unwrap();
        assert_eq!(quads(&other), quads(&data));
        for cut in 0..record.len() {
            assert!(replay(&mut Dataset::default(), &record[..cut]).is_err());
        }
    }
}
