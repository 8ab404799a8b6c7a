//! Loading of RDF files into a dataset, all or nothing.

mod blank_nodes;
mod block;
mod lines;
mod part;
pub(crate) mod rdfxml;

pub use part::Part;

use crate::dictionary::Key;
use crate::error::{Error, Result};
use crate::format::{Quads, RdfFormat};
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, pack};
use blank_nodes::BlankNodeNumbers;
use block::{Block, BlockTerm, LibraryResult, ParserThreads, by_library, number};
use lines::{Cut, Line};
use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Read;

/// Bytes of lines that are read at a time.
const BLOCK: usize = 1 << 20;
/// Terms that are looked up at a time.
const BATCH: usize = 256;
/// Limit of a line's length in bytes.
const LINE_MAX: usize = 64 << 20;

/// Statistics of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Number of quads that were read.
    pub read: u64,
    /// Number of quads that were new.
    pub new: u64,
    /// Messages about the first skipped lines.
    pub skipped: Vec<String>,
    /// Number of skipped lines.
    pub skipped_count: u64,
}

/// Limit of messages about skipped lines.
const SKIPPED_MAX: usize = 100;

/// Loads files into a copy of a dataset.
pub struct Loader<'a> {
    data: Dataset,
    /// Pairs by graph and predicate.
    pairs: Vec<Vec<u64>>,
    places: HashMap<(Id, Id), usize>,
    last: ((Id, Id), usize),
    graph: Id,
    /// Prefix of blank node labels, so that files do not share blank nodes.
    blank: String,
    files: usize,
    lenient: bool,
    ids: Vec<Id>,
    threads: usize,
    part: Option<Part>,
    loaded: Loaded,
    tick: Option<Tick<'a>>,
}

/// Progress callback with the number of quads read; `false` cancels the load.
pub type Tick<'a> = Box<dyn FnMut(u64) -> bool + 'a>;

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}

impl<'a> Loader<'a> {
    /// Creates a loader for a copy of `data`. Blank nodes get labels that begin with `blank`.
    pub fn new(data: Dataset, blank: &str, lenient: bool) -> Self {
        Self {
            data,
            pairs: Vec::new(),
            places: HashMap::new(),
            last: ((UNBOUND, UNBOUND), usize::MAX),
            graph: UNBOUND,
            blank: blank.to_owned(),
            files: 0,
            lenient,
            ids: Vec::new(),
            threads: 0,
            part: None,
            loaded: Loaded::default(),
            tick: None,
        }
    }

    /// Sets the progress callback.
    pub fn on_tick(&mut self, tick: Tick<'a>) {
        self.tick = Some(tick);
    }

    fn tick(&mut self) -> Result<()> {
        let go_on = self.tick.as_mut().is_none_or(|tick| tick(self.loaded.read));
        if go_on {
            Ok(())
        } else {
            Err(Error::Stopped("interrupted"))
        }
    }

    /// Reads a file. Triples without a graph go to `graph`, or to the default graph.
    pub fn read(
        &mut self,
        name: &str,
        from: &mut dyn Read,
        format: RdfFormat,
        graph: Option<&str>,
        base: Option<&str>,
    ) -> Result<()> {
        self.files += 1;
        self.graph = match graph {
            Some(iri) => self.data.dictionary.intern(&Key::Iri(iri))?,
            None => UNBOUND,
        };
        match format {
            RdfFormat::NTriples | RdfFormat::NQuads => {
                self.lines(name, from, format == RdfFormat::NQuads)
            }
            format => self.documents(name, from, format, base),
        }
    }

    /// Returns the dataset with everything that was read.
    pub fn finish(mut self) -> (Dataset, Loaded) {
        let groups: BTreeMap<(Id, Id), Vec<u64>> = self
            .places
            .iter()
            .map(|(key, at)| (*key, std::mem::take(&mut self.pairs[*at])))
            .collect();
        self.loaded.new = self.data.add_sorted(groups) as u64;
        (self.data, self.loaded)
    }

    /// Sets the number of threads that parse lines in addition to the calling one.
    pub fn on_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// Skips triples whose subjects belong to other parts.
    pub fn keep(&mut self, part: Part) {
        self.part = Some(part);
    }

    fn lines(&mut self, name: &str, from: &mut dyn Read, quads: bool) -> Result<()> {
        std::thread::scope(|scope| {
            let mut workers = ParserThreads::start(scope, self.threads, quads, self.part);
            let mut line = 0;
            let mut rest: Vec<u8> = Vec::new();
            loop {
                let mut buffer = Vec::with_capacity(BLOCK + rest.len());
                buffer.append(&mut rest);
                let got = Read::take(&mut *from, BLOCK as u64)
                    .read_to_end(&mut buffer)
                    .map_err(|e| data_error(format!("{name}:{line}"), e.to_string()))?;
                if got > 0 {
                    let whole = buffer
                        .iter()
                        .rposition(|b| *b == b'\n')
                        .map_or(0, |i| i + 1);
                    rest = buffer.split_off(whole);
                    if rest.len() > LINE_MAX {
                        return Err(data_error(
                            format!("{name}:{}", line + 1),
                            format!("a line is longer than {LINE_MAX} bytes"),
                        ));
                    }
                }
                let done = if buffer.is_empty() {
                    None
                } else {
                    workers.submit(buffer)
                };
                if let Some(parsed) = done {
                    self.block(name, parsed, &mut line, quads)?;
                    self.tick()?;
                }
                if got == 0 {
                    break;
                }
            }
            while let Some(parsed) = workers.take() {
                self.block(name, parsed, &mut line, quads)?;
                self.tick()?;
            }
            Ok(())
        })
    }

    fn block(
        &mut self,
        name: &str,
        parsed: std::result::Result<Block, Vec<u8>>,
        line: &mut u64,
        quads: bool,
    ) -> Result<()> {
        let block = match parsed {
            Ok(block) => block,
            Err(bytes) => return self.not_utf8(name, &bytes, line, quads),
        };
        self.number_terms(&block)?;
        let ids = std::mem::take(&mut self.ids);
        let mut library_lines = block.library_lines.iter().peekable();
        for i in 0..=block.quads.len() {
            while let Some((_, at, said)) = library_lines.next_if(|(before, ..)| *before == i) {
                self.add_library_line(name, *line + at + 1, said)?;
            }
            if let Some(quad) = block.quads.get(i) {
                let [s, p, o, g] = quad.map(|place| number(place, &ids));
                let g = if quad[3] == BlockTerm::None {
                    self.graph
                } else {
                    g
                };
                self.push(s, p, o, g);
            }
        }
        self.ids = ids;
        *line += block.lines;
        Ok(())
    }

    /// Maps a block's terms to ids: known terms are looked up in batches, new ones are interned one by one.
    fn number_terms(&mut self, block: &Block) -> Result<()> {
        let (keys, hashes) = block.keys();
        let mut ids = std::mem::take(&mut self.ids);
        ids.clear();
        let mut known = Vec::with_capacity(BATCH);
        for (keys, hashes) in keys.chunks(BATCH).zip(hashes.chunks(BATCH)) {
            self.data.dictionary.find_many(keys, hashes, &mut known);
            for ((key, hash), id) in keys.iter().zip(hashes).zip(&known) {
                ids.push(match key {
                    Key::Blank(_) => self.number(key)?,
                    _ if *id == UNBOUND => self.data.dictionary.intern_hashed(key, *hash)?,
                    _ => *id,
                });
            }
        }
        self.ids = ids;
        Ok(())
    }

    /// Processes a block in which some line is not UTF-8.
    fn not_utf8(&mut self, name: &str, block: &[u8], line: &mut u64, quads: bool) -> Result<()> {
        for row in block.split(|b| *b == b'\n') {
            *line += 1;
            match std::str::from_utf8(row) {
                Ok(row) => match lines::cut(row) {
                    Cut::Empty => {}
                    Cut::Quad(q) if q.g.is_none() || quads => self.add(q)?,
                    _ => self.add_library_line(name, *line, &by_library(row, quads))?,
                },
                Err(e) => self.skip(
                    format!("{name}:{line}:{}", e.valid_up_to() + 1),
                    "the line is not UTF-8".into(),
                )?,
            }
        }
        *line -= u64::from(block.last() == Some(&b'\n'));
        Ok(())
    }

    /// Adds a line that the library has parsed, or skips it.
    fn add_library_line(&mut self, name: &str, line: u64, said: &LibraryResult) -> Result<()> {
        match said {
            Ok(None) => Ok(()),
            Ok(Some(quad)) => self.add_quad(quad),
            Err((column, message)) => self.skip(format!("{name}:{line}:{column}"), message.clone()),
        }
    }

    fn skip(&mut self, place: String, message: String) -> Result<()> {
        if !self.lenient {
            return Err(data_error(place, message));
        }
        self.loaded.skipped_count += 1;
        if self.loaded.skipped.len() < SKIPPED_MAX {
            self.loaded.skipped.push(format!("{place}: {message}"));
        }
        Ok(())
    }

    fn documents(
        &mut self,
        name: &str,
        from: &mut dyn Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<()> {
        let quads = Quads::of(from, format, base).map_err(|e| {
            let base = base.unwrap_or_default();
            data_error(
                name.to_owned(),
                format!("the base IRI {base} is wrong: {e}"),
            )
        })?;
        let mut unnamed = BlankNodeNumbers::default();
        for quad in quads {
            match quad {
                Ok(mut quad) => {
                    unnamed.renumber(&mut quad);
                    self.add_quad(&quad)?;
                }
                Err(wrong) if wrong.io => {
                    return Err(data_error(name.to_owned(), wrong.message));
                }
                Err(wrong) => {
                    let place = match wrong.at {
                        Some((line, column)) => format!("{name}:{line}:{column}"),
                        None => name.to_owned(),
                    };
                    // The library resumes at the next statement if the format allows it.
                    let said = wrong.message;
                    self.skip(place, if said.contains("LoadDocumentCallback") {
                        "a JSON-LD context is not in the file, and nothing is fetched: write it into the file".into()
                    } else {
                        said
                    })?;
                }
            }
            if self.loaded.read.is_multiple_of(1 << 16) {
                self.tick()?;
            }
        }
        Ok(())
    }

    /// Adds a quad in the type of the libraries.
    pub fn add_quad(&mut self, quad: &Quad) -> Result<()> {
        let subject = subject_key(&quad.subject);
        if self.part.is_some_and(|part| !part.contains(&subject)) {
            return Ok(());
        }
        let (s, p) = (
            self.number(&subject)?,
            self.number(&Key::Iri(quad.predicate.as_str()))?,
        );
        let o = self.object(&quad.object)?;
        let g = match &quad.graph_name {
            GraphName::NamedNode(n) => self.number(&Key::Iri(n.as_str()))?,
            GraphName::BlankNode(n) => self.number(&Key::Blank(n.as_str()))?,
            GraphName::DefaultGraph => self.graph,
        };
        self.push(s, p, o, g);
        Ok(())
    }

    fn object(&mut self, object: &Term) -> Result<Id> {
        match object {
            Term::Triple(t) => {
                let parts = [
                    self.number(&subject_key(&t.subject))?,
                    self.number(&Key::Iri(t.predicate.as_str()))?,
                    self.object(&t.object)?,
                ];
                self.data.dictionary.intern_triple(parts)
            }
            other => Key::with(other.as_ref(), |key| self.number(key)),
        }
    }

    fn add(&mut self, q: Line<'_>) -> Result<()> {
        if self.part.is_some_and(|part| !part.contains(&q.s)) {
            return Ok(());
        }
        let (s, p, o) = (self.number(&q.s)?, self.number(&q.p)?, self.number(&q.o)?);
        let g = match &q.g {
            Some(g) => self.number(g)?,
            None => self.graph,
        };
        self.push(s, p, o, g);
        Ok(())
    }

    fn push(&mut self, s: Id, p: Id, o: Id, g: Id) {
        self.loaded.read += 1;
        if self.last.0 != (g, p) || self.last.1 == usize::MAX {
            let next = self.pairs.len();
            let at = *self.places.entry((g, p)).or_insert(next);
            if at == next {
                self.pairs.push(Vec::new());
            }
            self.last = ((g, p), at);
        }
        self.pairs[self.last.1].push(pack(s, o));
    }

    fn number(&mut self, key: &Key<'_>) -> Result<Id> {
        match key {
            Key::Blank(label) => {
                let (blank, file) = (&self.blank, self.files);
                let mut own = format!("{blank}{file}x{label}");
                // JSON-LD allows labels that no other format can express.
                if label.contains(':') || BlankNode::new(&*own).is_err() {
                    own = format!("{blank}{file}y{}", plain_label(label));
                }
                self.data.dictionary.intern(&Key::Blank(&own))
            }
            key => self.data.dictionary.intern(key),
        }
    }
}

fn subject_key(subject: &NamedOrBlankNode) -> Key<'_> {
    match subject {
        NamedOrBlankNode::NamedNode(n) => Key::Iri(n.as_str()),
        NamedOrBlankNode::BlankNode(n) => Key::Blank(n.as_str()),
    }
}

/// Encodes a label injectively in letters, digits and underscores.
fn plain_label(label: &str) -> String {
    let mut out = String::with_capacity(label.len() + 8);
    for c in label.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else {
            let _ = write!(out, "_{:x}_", c as u32);
        }
    }
    out
}

fn data_error(place: String, message: String) -> Error {
    Error::Data { place, message }
}
