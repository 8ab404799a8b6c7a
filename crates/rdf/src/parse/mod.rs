//! Loading: files of RDF into a dataset, all or nothing.

mod lines;

use crate::dictionary::Key;
use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, pack};
use lines::{Cut, Line};
use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use oxrdfio::{RdfFormat, RdfParser};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// Bytes of lines that are read at a time.
const BLOCK: usize = 4 << 20;
/// Lines whose terms are looked up together.
const BATCH: usize = 256;
/// Predicates that are remembered.
const PREDICATES: usize = 32;
/// Bytes that a line may have.
const LINE_MAX: usize = 64 << 20;

/// What a load did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Quads that were read.
    pub read: u64,
    /// Quads that were new.
    pub new: u64,
    /// Lines that were passed over, with their reasons: the first ones.
    pub skipped: Vec<String>,
    /// How many were passed over.
    pub skipped_count: u64,
}

/// Skipped lines that are kept with their reasons.
const SKIPPED_MAX: usize = 100;

/// Adds files to a copy of a dataset.
pub struct Loader<'a> {
    data: Dataset,
    /// Pairs by graph and predicate.
    pairs: Vec<Vec<u64>>,
    places: HashMap<(Id, Id), usize>,
    last: ((Id, Id), usize),
    graph: Id,
    /// What stands before labels of blank nodes, so that files do not share them.
    blank: String,
    files: usize,
    lenient: bool,
    subject: (String, Id),
    predicates: Vec<(String, Id)>,
    ids: Vec<Id>,
    loaded: Loaded,
    tick: Option<Tick<'a>>,
}

/// Told now and then how many quads were read; false ends the load.
pub type Tick<'a> = Box<dyn FnMut(u64) -> bool + 'a>;

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}

impl<'a> Loader<'a> {
    /// Adds to a copy of that. Blank nodes get labels that begin with `blank`.
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
            subject: (String::new(), UNBOUND),
            predicates: vec![(String::new(), UNBOUND); PREDICATES],
            ids: Vec::new(),
            loaded: Loaded::default(),
            tick: None,
        }
    }

    /// Who is told how many quads were read.
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

    /// Reads a file. Triples without a graph go to `graph`, or to the default one.
    pub fn read(
        &mut self,
        name: &str,
        from: &mut dyn Read,
        format: RdfFormat,
        graph: Option<&str>,
        base: Option<&str>,
    ) -> Result<()> {
        self.files += 1;
        self.subject.1 = UNBOUND;
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

    /// The dataset with what was read.
    pub fn finish(mut self) -> (Dataset, Loaded) {
        let groups: BTreeMap<(Id, Id), Vec<u64>> = self
            .places
            .iter()
            .map(|(key, at)| (*key, std::mem::take(&mut self.pairs[*at])))
            .collect();
        self.loaded.new = self.data.add_sorted(groups) as u64;
        (self.data, self.loaded)
    }

    fn lines(&mut self, name: &str, from: &mut dyn Read, quads: bool) -> Result<()> {
        let mut buffer = Vec::with_capacity(BLOCK + 4096);
        let mut line = 0;
        loop {
            let before = buffer.len();
            let got = Read::take(&mut *from, BLOCK as u64)
                .read_to_end(&mut buffer)
                .map_err(|e| data_error(format!("{name}:{line}"), e.to_string()))?;
            let whole = if got == 0 {
                buffer.len()
            } else {
                buffer
                    .iter()
                    .rposition(|b| *b == b'\n')
                    .map_or(0, |i| i + 1)
            };
            if whole == 0 && got > 0 {
                if buffer.len() > LINE_MAX {
                    return Err(data_error(
                        format!("{name}:{}", line + 1),
                        format!("a line is longer than {LINE_MAX} bytes"),
                    ));
                }
                continue;
            }
            self.block(name, &buffer[..whole], &mut line, quads)?;
            self.tick()?;
            buffer.drain(..whole);
            if got == 0 && before == 0 && buffer.is_empty() {
                return Ok(());
            }
        }
    }

    fn block(&mut self, name: &str, block: &[u8], line: &mut u64, quads: bool) -> Result<()> {
        match std::str::from_utf8(block) {
            Ok(text) => {
                let mut rows = text.split_terminator('\n');
                loop {
                    let first = *line;
                    let some: Vec<&str> = rows.by_ref().take(BATCH).collect();
                    if some.is_empty() {
                        break;
                    }
                    *line += some.len() as u64;
                    self.batch(name, &some, first, quads)?;
                }
            }
            Err(_) => {
                // Somewhere a line is not UTF-8: it is found.
                for row in block.split(|b| *b == b'\n') {
                    *line += 1;
                    match std::str::from_utf8(row) {
                        Ok(row) => self.line(name, row, *line, quads)?,
                        Err(e) => self.skip(
                            format!("{name}:{line}:{}", e.valid_up_to() + 1),
                            "the line is not UTF-8".into(),
                        )?,
                    }
                }
                *line -= u64::from(block.last() == Some(&b'\n'));
            }
        }
        Ok(())
    }

    /// Lines whose terms are looked up together; the terms that are new then, one by one.
    fn batch(&mut self, name: &str, rows: &[&str], first: u64, quads: bool) -> Result<()> {
        let cuts: Vec<Cut<'_>> = rows.iter().map(|row| lines::cut(row)).collect();
        let mut ids = std::mem::take(&mut self.ids);
        let mut last = "";
        // The subject is often the line before's.
        let mut known = Vec::with_capacity(cuts.len());
        let mut wanted: Vec<Key<'_>> = Vec::with_capacity(cuts.len() * 2);
        for cut in &cuts {
            let Cut::Quad(q) = cut else {
                known.push((usize::MAX, usize::MAX));
                continue;
            };
            let s = match q.s {
                Key::Iri(iri) if iri != last => {
                    last = iri;
                    wanted.push(q.s);
                    wanted.len() - 1
                }
                _ => usize::MAX,
            };
            let o = if matches!(q.o, Key::Blank(_)) {
                usize::MAX
            } else {
                wanted.push(q.o);
                wanted.len() - 1
            };
            known.push((s, o));
        }
        self.data.dictionary.find_many(&wanted, &mut ids);
        for ((i, cut), (s, o)) in cuts.iter().enumerate().zip(known) {
            let at = |n: usize| ids.get(n).copied().unwrap_or(UNBOUND);
            match cut {
                Cut::Empty => {}
                Cut::Quad(q) if q.g.is_none() || quads => {
                    self.subject_known(q, at(s));
                    self.add_known(*q, at(o))?;
                }
                _ => self.odd_line(name, rows[i], first + i as u64 + 1, quads)?,
            }
        }
        self.ids = ids;
        Ok(())
    }

    /// Remembers a subject's number, if it is known.
    fn subject_known(&mut self, q: &Line<'_>, id: Id) {
        if let Key::Iri(iri) = q.s
            && id != UNBOUND
        {
            iri.clone_into(&mut self.subject.0);
            self.subject.1 = id;
        }
    }

    fn line(&mut self, name: &str, row: &str, line: u64, quads: bool) -> Result<()> {
        match lines::cut(row) {
            Cut::Empty => Ok(()),
            Cut::Quad(q) if q.g.is_none() || quads => self.add(q),
            _ => self.odd_line(name, row, line, quads),
        }
    }

    /// A line with escapes, or a wrong one.
    fn odd_line(&mut self, name: &str, row: &str, line: u64, quads: bool) -> Result<()> {
        let parsed = if quads {
            oxttl::NQuadsParser::new()
                .for_slice(row.as_bytes())
                .next()
                .map(|q| q.map_err(|e| (e.location().start.column, e.message().to_owned())))
        } else {
            oxttl::NTriplesParser::new()
                .for_slice(row.as_bytes())
                .next()
                .map(|t| {
                    t.map(|t| t.in_graph(GraphName::DefaultGraph))
                        .map_err(|e| (e.location().start.column, e.message().to_owned()))
                })
        };
        match parsed {
            None => Ok(()),
            Some(Ok(quad)) => self.add_quad(&quad),
            Some(Err((column, message))) => {
                self.skip(format!("{name}:{line}:{}", column + 1), message)
            }
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
        let mut parser = RdfParser::from_format(format);
        if let Some(base) = base {
            parser = parser.with_base_iri(base).map_err(|e| {
                data_error(
                    name.to_owned(),
                    format!("the base IRI {base} is wrong: {e}"),
                )
            })?;
        }
        for quad in parser.for_reader(from) {
            match quad {
                Ok(quad) => self.add_quad(&quad)?,
                Err(oxrdfio::RdfParseError::Syntax(e)) => {
                    let place = match e.location() {
                        Some(l) => format!("{name}:{}:{}", l.start.line + 1, l.start.column + 1),
                        None => name.to_owned(),
                    };
                    // The library goes on at the next statement where the format allows it.
                    self.skip(place, e.to_string())?;
                }
                Err(oxrdfio::RdfParseError::Io(e)) => {
                    return Err(data_error(name.to_owned(), e.to_string()));
                }
            }
            if self.loaded.read.is_multiple_of(1 << 16) {
                self.tick()?;
            }
        }
        Ok(())
    }

    /// Adds a quad as the libraries give it.
    pub fn add_quad(&mut self, quad: &Quad) -> Result<()> {
        let s: Term = match &quad.subject {
            NamedOrBlankNode::NamedNode(n) => n.clone().into(),
            NamedOrBlankNode::BlankNode(n) => n.clone().into(),
        };
        let g: Option<Term> = match &quad.graph_name {
            GraphName::NamedNode(n) => Some(n.clone().into()),
            GraphName::BlankNode(n) => Some(n.clone().into()),
            GraphName::DefaultGraph => None,
        };
        self.add(Line {
            s: Key::of(s.as_ref()),
            p: Key::Iri(quad.predicate.as_str()),
            o: Key::of(quad.object.as_ref()),
            g: g.as_ref().map(|g| Key::of(g.as_ref())),
        })
    }

    fn add(&mut self, q: Line<'_>) -> Result<()> {
        self.add_known(q, UNBOUND)
    }

    /// Adds a quad whose object's number may be known.
    fn add_known(&mut self, q: Line<'_>, object: Id) -> Result<()> {
        let s = match q.s {
            Key::Iri(iri) if self.subject.1 != UNBOUND && self.subject.0 == iri => self.subject.1,
            Key::Iri(iri) => {
                let id = self.data.dictionary.intern(&q.s)?;
                iri.clone_into(&mut self.subject.0);
                self.subject.1 = id;
                id
            }
            key => self.number(&key)?,
        };
        let p = match q.p {
            Key::Iri(iri) => self.predicate(iri)?,
            key => self.number(&key)?,
        };
        let o = if object == UNBOUND {
            self.number(&q.o)?
        } else {
            object
        };
        let g = match &q.g {
            Some(g) => self.number(g)?,
            None => self.graph,
        };
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
        Ok(())
    }

    /// A predicate's number: there are few, so the last ones are remembered.
    fn predicate(&mut self, iri: &str) -> Result<Id> {
        let slot = iri.len() % PREDICATES;
        let (known, id) = &self.predicates[slot];
        if known == iri {
            return Ok(*id);
        }
        let id = self.data.dictionary.intern(&Key::Iri(iri))?;
        self.predicates[slot] = (iri.to_owned(), id);
        Ok(id)
    }

    fn number(&mut self, key: &Key<'_>) -> Result<Id> {
        match key {
            Key::Blank(label) => {
                let label = format!("{}{}x{label}", self.blank, self.files);
                self.data.dictionary.intern(&Key::Blank(&label))
            }
            key => self.data.dictionary.intern(key),
        }
    }
}

fn data_error(place: String, message: String) -> Error {
    Error::Data { place, message }
}
