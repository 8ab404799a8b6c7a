//! A block of lines taken apart, away from the dictionary: each term once, quads in the block's own numbers. Many
//! blocks are taken apart at the same time; one after another they are then given the dictionary's numbers.

use super::Part;
use super::lines::{self, Cut, Line};
use crate::dictionary::Key;
use crate::id::{self, Id, UNBOUND};
use oxrdf::{GraphName, Quad};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What the library made of a line that has escapes or is wrong.
pub(super) type Odd = Result<Option<Quad>, (u64, String)>;

/// A block that was taken apart.
pub(super) struct Block {
    /// The lines.
    pub(super) text: String,
    /// Its different terms but blank nodes' and values', in the order in which they came.
    terms: Vec<Piece>,
    hashes: Vec<u64>,
    /// Subject, predicate, object, graph.
    pub(super) quads: Vec<[Place; 4]>,
    /// Lines for which the library was asked: before which quad, on which line of the block (from 0), and its answer.
    pub(super) odd: Vec<(usize, u64, Odd)>,
    pub(super) lines: u64,
}

/// A term of a quad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The default graph.
    None,
    /// A value that stands in its number.
    Value(Id),
    /// One of the block's terms.
    Term(u32),
}

/// Where a term stands in the block.
#[derive(Debug, Clone, Copy)]
struct Piece {
    kind: Kind,
    at: u32,
    len: u32,
    /// Language or datatype.
    more: (u32, u32),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Iri,
    Blank,
    Plain,
    Lang,
    Typed,
}

impl Block {
    /// Takes lines apart. Bytes that are not UTF-8 come back as they were.
    pub(super) fn parse(bytes: Vec<u8>, quads: bool, part: Option<Part>) -> Result<Self, Vec<u8>> {
        let text = String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)?;
        let mut parts = Parts {
            base: text.as_ptr() as usize,
            slots: vec![0; 1 << 12],
            terms: Vec::new(),
            keys: Vec::new(),
            hashes: Vec::new(),
        };
        let mut found: Vec<[Place; 4]> = Vec::with_capacity(text.len() / 128);
        let mut odd = Vec::new();
        let mut count = 0;
        let (mut last, mut last_place) = ("", Place::None);
        let mut other = None;
        for line in text.split_terminator('\n') {
            match lines::cut(line) {
                Cut::Empty => {}
                // Of another part, as the line before.
                Cut::Quad(Line {
                    s: Key::Iri(iri),
                    g,
                    ..
                }) if other == Some(iri) && (g.is_none() || quads) => {}
                Cut::Quad(q)
                    if (q.g.is_none() || quads) && part.is_some_and(|p| !p.holds(&q.s)) =>
                {
                    if let Key::Iri(iri) = q.s {
                        other = Some(iri);
                    }
                }
                Cut::Quad(q) if q.g.is_none() || quads => {
                    // The subject is often the line before's.
                    let s = match q.s {
                        Key::Iri(iri) if iri == last => last_place,
                        Key::Iri(iri) => {
                            last = iri;
                            last_place = parts.place(q.s);
                            last_place
                        }
                        key => parts.place(key),
                    };
                    let g = q.g.map_or(Place::None, |g| parts.place(g));
                    found.push([s, parts.place(q.p), parts.place(q.o), g]);
                }
                _ => odd.push((found.len(), count, by_library(line, quads))),
            }
            count += 1;
        }
        let Parts { terms, hashes, .. } = parts;
        Ok(Self {
            text,
            terms,
            hashes,
            quads: found,
            odd,
            lines: count,
        })
    }

    /// Its terms, with their hashes.
    pub(super) fn keys(&self) -> (Vec<Key<'_>>, &[u64]) {
        let text = |(at, len): (u32, u32)| {
            self.text
                .get(at as usize..(at + len) as usize)
                .unwrap_or_default()
        };
        let key = |piece: &Piece| {
            let body = text((piece.at, piece.len));
            match piece.kind {
                Kind::Iri => Key::Iri(body),
                Kind::Blank => Key::Blank(body),
                Kind::Plain => Key::Plain(body),
                Kind::Lang => Key::Lang(body, text(piece.more)),
                Kind::Typed => Key::Typed(body, text(piece.more)),
            }
        };
        (self.terms.iter().map(key).collect(), &self.hashes)
    }
}

/// The terms of a block while it is read.
struct Parts<'t> {
    base: usize,
    /// Open addressing: a term's number plus one.
    slots: Vec<u32>,
    terms: Vec<Piece>,
    keys: Vec<Key<'t>>,
    hashes: Vec<u64>,
}

impl<'t> Parts<'t> {
    fn place(&mut self, key: Key<'t>) -> Place {
        if let Key::Typed(value, datatype) = key
            && let Some(id) = id::inline(value, datatype)
        {
            return Place::Value(id);
        }
        let hash = key.hash();
        if self.terms.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(n) = self.slots[at].checked_sub(1) {
            if self.hashes[n as usize] == hash && self.keys[n as usize] == key {
                return Place::Term(n);
            }
            at = (at + 1) & mask;
        }
        let n = self.terms.len() as u32;
        self.slots[at] = n + 1;
        self.hashes.push(hash);
        self.keys.push(key);
        self.terms.push(self.piece(key));
        Place::Term(n)
    }

    fn piece(&self, key: Key<'t>) -> Piece {
        let place = |text: &str| {
            (
                (text.as_ptr() as usize - self.base) as u32,
                text.len() as u32,
            )
        };
        // A type that is not written in the line (that of plain texts) has no place; it is not kept.
        let (kind, body, more) = match key {
            Key::Iri(body) => (Kind::Iri, body, (0, 0)),
            Key::Blank(body) => (Kind::Blank, body, (0, 0)),
            Key::Plain(body) => (Kind::Plain, body, (0, 0)),
            Key::Lang(body, lang) => (Kind::Lang, body, place(lang)),
            Key::Typed(body, datatype) => (Kind::Typed, body, place(datatype)),
        };
        let (at, len) = place(body);
        Piece {
            kind,
            at,
            len,
            more,
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        self.slots = vec![0; size];
        for (n, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = n as u32 + 1;
        }
    }
}

/// A line with escapes, or a wrong one: the column (from 1) and what is wrong.
pub(super) fn by_library(line: &str, quads: bool) -> Odd {
    let said =
        |e: oxttl::TurtleSyntaxError| (e.location().start.column + 1, e.message().to_owned());
    if quads {
        let all = oxttl::NQuadsParser::new().for_slice(line.as_bytes());
        one(all.map(|q| q.map_err(said)))
    } else {
        let all = oxttl::NTriplesParser::new().for_slice(line.as_bytes());
        one(all.map(|t| t.map(|t| t.in_graph(GraphName::DefaultGraph)).map_err(said)))
    }
}

/// The one statement of a line. The library gives one before it has seen what follows.
fn one(mut all: impl Iterator<Item = Result<Quad, (u64, String)>>) -> Odd {
    let Some(first) = all.next().transpose()? else {
        return Ok(None);
    };
    match all.next().transpose()? {
        None => Ok(Some(first)),
        Some(_) => Err((1, "expected one statement on a line".to_owned())),
    }
}

/// What comes out of a block: taken apart, or bytes that are not UTF-8.
type Parsed = Result<Block, Vec<u8>>;

/// Threads that take blocks apart; what they give comes out in the order in which it went in.
pub(super) struct Workers {
    to: Option<SyncSender<(Vec<u8>, SyncSender<Parsed>)>>,
    waiting: VecDeque<Receiver<Parsed>>,
    most: usize,
    quads: bool,
    part: Option<Part>,
}

impl Workers {
    /// So many threads of a scope; none: blocks are taken apart where they are given.
    pub(super) fn start<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        threads: usize,
        quads: bool,
        part: Option<Part>,
    ) -> Self {
        let (to, from) = sync_channel::<(Vec<u8>, SyncSender<Parsed>)>(threads * 2);
        let from = Arc::new(Mutex::new(from));
        for _ in 0..threads {
            let from = Arc::clone(&from);
            scope.spawn(move || {
                loop {
                    let next = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((bytes, back)) = next else {
                        return;
                    };
                    // Nobody waits for it any more if the load has failed.
                    let _ = back.send(Block::parse(bytes, quads, part));
                }
            });
        }
        Self {
            to: (threads > 0).then_some(to),
            waiting: VecDeque::new(),
            most: threads * 2,
            quads,
            part,
        }
    }

    /// Gives a block, and takes one that is done if enough are under way.
    pub(super) fn give(&mut self, bytes: Vec<u8>) -> Option<Parsed> {
        let Some(to) = &self.to else {
            return Some(Block::parse(bytes, self.quads, self.part));
        };
        let (back, result) = sync_channel(1);
        if let Err(unsent) = to.send((bytes, back)) {
            return Some(Block::parse(unsent.0.0, self.quads, self.part));
        }
        self.waiting.push_back(result);
        (self.waiting.len() >= self.most).then(|| self.take())?
    }

    /// The next block that was given, once it is done.
    pub(super) fn take(&mut self) -> Option<Parsed> {
        self.waiting.pop_front()?.recv().ok()
    }
}

/// The number that stands for a term in what was read, given those of the block's terms.
pub(super) fn number(place: Place, ids: &[Id]) -> Id {
    match place {
        Place::None => UNBOUND,
        Place::Value(id) => id,
        Place::Term(n) => ids.get(n as usize).copied().unwrap_or(UNBOUND),
    }
}
