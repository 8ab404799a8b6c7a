//! Parsing of a block of lines without the dictionary: each distinct term once, quads in block-local term numbers. Blocks are parsed in
//! parallel; their terms are then interned one block after another.

use super::Part;
use super::lines::{self, Cut, Line};
use crate::dictionary::{Key, triple};
use crate::error::Error;
use crate::format::nesting::Nesting;
use crate::id::{self, Id, UNBOUND};
use oxrdf::{GraphName, Quad};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Result of the library for a line that has escapes or is invalid.
pub(super) type LibraryResult = Result<Option<Quad>, (u64, String)>;

/// A parsed block of lines.
pub(super) struct Block {
    /// The text of the lines.
    pub(super) text: String,
    /// Distinct terms except blank nodes and inline values, in the order of their first occurrence.
    terms: Vec<Piece>,
    hashes: Vec<u64>,
    /// Subject, predicate, object, graph.
    pub(super) quads: Vec<[BlockTerm; 4]>,
    /// Lines parsed by the library: the index of the next quad, the line within the block (from 0), and the result.
    pub(super) library_lines: Vec<(usize, u64, LibraryResult)>,
    pub(super) lines: u64,
}

/// A term of a quad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockTerm {
    /// The default graph.
    None,
    /// A value encoded in the id.
    Value(Id),
    /// Number of a term of the block.
    Term(u32),
}

/// Position of a term in the block's text.
#[derive(Debug, Clone, Copy)]
struct Piece {
    kind: TermKind,
    at: u32,
    len: u32,
    /// Position of the language or datatype.
    more: (u32, u32),
}

#[derive(Debug, Clone, Copy)]
enum TermKind {
    Iri,
    Blank,
    Plain,
    Lang,
    Typed,
}

impl Block {
    /// Parses lines. Bytes that are not UTF-8 are returned as they are.
    pub(super) fn parse(bytes: Vec<u8>, quads: bool, part: Option<Part>) -> Result<Self, Vec<u8>> {
        let text = String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)?;
        let mut parts = BlockTermTable {
            base: text.as_ptr() as usize,
            slots: vec![0; 1 << 12],
            terms: Vec::new(),
            keys: Vec::new(),
            hashes: Vec::new(),
        };
        let mut found: Vec<[BlockTerm; 4]> = Vec::with_capacity(text.len() / 128);
        let mut library_lines = Vec::new();
        let mut count = 0;
        let (mut last, mut last_term) = ("", BlockTerm::None);
        let mut other = None;
        for line in text.split_terminator('\n') {
            match lines::cut(line) {
                Cut::Empty => {}
                // A subject of another part, equal to that of the previous line.
                Cut::Quad(Line {
                    s: Key::Iri(iri),
                    g,
                    ..
                }) if other == Some(iri) && (g.is_none() || quads) => {}
                Cut::Quad(q)
                    if (q.g.is_none() || quads) && part.is_some_and(|p| !p.contains(&q.s)) =>
                {
                    if let Key::Iri(iri) = q.s {
                        other = Some(iri);
                    }
                }
                Cut::Quad(q) if q.g.is_none() || quads => {
                    // The subject is often equal to that of the previous line.
                    let s = match q.s {
                        Key::Iri(iri) if iri == last => last_term,
                        Key::Iri(iri) => {
                            last = iri;
                            last_term = parts.add_term(q.s);
                            last_term
                        }
                        key => parts.add_term(key),
                    };
                    let g = q.g.map_or(BlockTerm::None, |g| parts.add_term(g));
                    found.push([s, parts.add_term(q.p), parts.add_term(q.o), g]);
                }
                _ => library_lines.push((found.len(), count, by_library(line, quads))),
            }
            count += 1;
        }
        let BlockTermTable { terms, hashes, .. } = parts;
        Ok(Self {
            text,
            terms,
            hashes,
            quads: found,
            library_lines,
            lines: count,
        })
    }

    /// Returns the terms of the block with their hashes.
    pub(super) fn keys(&self) -> (Vec<Key<'_>>, &[u64]) {
        let text = |(at, len): (u32, u32)| {
            self.text
                .get(at as usize..(at + len) as usize)
                .unwrap_or_default()
        };
        let key = |piece: &Piece| {
            let body = text((piece.at, piece.len));
            match piece.kind {
                TermKind::Iri => Key::Iri(body),
                TermKind::Blank => Key::Blank(body),
                TermKind::Plain => Key::Plain(body),
                TermKind::Lang => Key::Lang(body, text(piece.more)),
                TermKind::Typed => Key::Typed(body, text(piece.more)),
            }
        };
        (self.terms.iter().map(key).collect(), &self.hashes)
    }
}

/// Table of a block's terms during parsing.
struct BlockTermTable<'t> {
    base: usize,
    /// Open-addressing hash table: a term's number plus one.
    slots: Vec<u32>,
    terms: Vec<Piece>,
    keys: Vec<Key<'t>>,
    hashes: Vec<u64>,
}

impl<'t> BlockTermTable<'t> {
    fn add_term(&mut self, key: Key<'t>) -> BlockTerm {
        if let Key::Typed(value, datatype) = key
            && let Some(id) = id::inline(value, datatype)
        {
            return BlockTerm::Value(id);
        }
        let hash = key.hash();
        if self.terms.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(n) = self.slots[at].checked_sub(1) {
            if self.hashes[n as usize] == hash && self.keys[n as usize] == key {
                return BlockTerm::Term(n);
            }
            at = (at + 1) & mask;
        }
        let n = self.terms.len() as u32;
        self.slots[at] = n + 1;
        self.hashes.push(hash);
        self.keys.push(key);
        self.terms.push(self.piece(key));
        BlockTerm::Term(n)
    }

    fn piece(&self, key: Key<'t>) -> Piece {
        let position = |text: &str| {
            (
                (text.as_ptr() as usize - self.base) as u32,
                text.len() as u32,
            )
        };
        // A datatype that is not in the text (that of plain literals) has no position and is not stored.
        let (kind, body, more) = match key {
            Key::Iri(body) => (TermKind::Iri, body, (0, 0)),
            Key::Blank(body) => (TermKind::Blank, body, (0, 0)),
            // No line that is parsed here has a triple term: they go to the library.
            Key::Plain(body) | Key::Triple(body) | Key::TripleIds(body) => {
                (TermKind::Plain, body, (0, 0))
            }
            Key::Lang(body, lang) => (TermKind::Lang, body, position(lang)),
            Key::Typed(body, datatype) => (TermKind::Typed, body, position(datatype)),
        };
        let (at, len) = position(body);
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

/// Parses a line with escapes, or an invalid one, with the library. An error has the column (from 1) and a description.
pub(super) fn by_library(line: &str, quads: bool) -> LibraryResult {
    if Nesting::default().read(line.as_bytes()).is_err() {
        return Err((1, Error::Nested(triple::NESTED_MAX).to_string()));
    }
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

/// Returns the only statement of a line. The library returns a statement before it reads what follows.
fn one(mut all: impl Iterator<Item = Result<Quad, (u64, String)>>) -> LibraryResult {
    let Some(first) = all.next().transpose()? else {
        return Ok(None);
    };
    match all.next().transpose()? {
        None => Ok(Some(first)),
        Some(_) => Err((1, "expected one statement on a line".to_owned())),
    }
}

/// Result of a block: parsed, or bytes that are not UTF-8.
type Parsed = Result<Block, Vec<u8>>;

/// Parser threads; results are returned in the order of submission.
pub(super) struct ParserThreads {
    to: Option<SyncSender<(Vec<u8>, SyncSender<Parsed>)>>,
    waiting: VecDeque<Receiver<Parsed>>,
    most: usize,
    quads: bool,
    part: Option<Part>,
}

impl ParserThreads {
    /// Starts `threads` threads of a scope; with 0, blocks are parsed on submission.
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
                    // The receiver is gone if the load has failed.
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

    /// Submits a block; returns a finished one if enough are in progress.
    pub(super) fn submit(&mut self, bytes: Vec<u8>) -> Option<Parsed> {
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

    /// Returns the next submitted block, after waiting for its result.
    pub(super) fn take(&mut self) -> Option<Parsed> {
        self.waiting.pop_front()?.recv().ok()
    }
}

/// Returns the id of a term, given the ids of the block's terms.
pub(super) fn number(term: BlockTerm, ids: &[Id]) -> Id {
    match term {
        BlockTerm::None => UNBOUND,
        BlockTerm::Value(id) => id,
        BlockTerm::Term(n) => ids.get(n as usize).copied().unwrap_or(UNBOUND),
    }
}
