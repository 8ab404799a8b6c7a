//! The metadata graph on disk, next to the RDF data: `rdf/meta`.
//!
//! The graph is derived, so losing the file loses no data: a damaged file, one with another layout, or one that does not
//! belong to this database's history is ignored and replaced. The file has its own terms; if the dictionary of the RDF data
//! is not empty, all numbers are translated when the file is read.
//!
//! ```text
//!  magic and format 8   position and version of the change feed 16   hash of the schema 32   whether there are names 1
//!  vertices 8: id 16, number 4, flags 1   the graph and its terms   blake3 of all of these 32
//! ```
//!
//! The file is valid if the store's feed has the same version at this position; later changes in the feed are then read
//! again.

use super::build::{Ids, MetaGraph, intern};
use super::vocabulary::Vocabulary;
use crate::engine::{Engine, FeedMark};
use esker_model::{Error, Result, Schema, Version, VertexId};
use esker_rdf::dictionary::Dictionary;
use esker_rdf::id::{Id, value};
use esker_rdf::quads::Graph;
use esker_rdf::{Dataset, Term};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::hash::BuildHasherDefault;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Magic number; changes whenever the mapping or this layout changes.
const MAGIC: &[u8; 8] = b"ESKMET\x00\x01";
const HEAD: usize = 8 + 16 + 32 + 1 + 8;
const VERTEX: usize = 16 + 4 + 1;
const HASH: usize = blake3::OUT_LEN;

const UNNAMED: u8 = 1;
const HOLDER: u8 = 2;

fn path(folder: &Path) -> PathBuf {
    folder.join("meta")
}

fn schema_hash(schema: &Schema) -> [u8; HASH] {
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    blake3::hash(&bytes).into()
}

/// Writes the graph as of a position in the feed. `own_dictionary` if the dictionary has only terms of this graph.
pub(super) fn write(
    folder: &Path,
    state: &MetaGraph,
    terms: &Dictionary,
    own_dictionary: bool,
    mark: FeedMark,
) -> Result<u64> {
    let mut data = Dataset::default();
    let mut numbers = None;
    if own_dictionary {
        data.dictionary = terms.clone();
        data.put_graph(state.vocabulary.graph, state.graph());
    } else {
        let mut of = Renumber::of(terms, state)?;
        let graph = of.graph(&state.graph());
        data.dictionary = std::mem::take(&mut of.to);
        data.put_graph(of.get(state.vocabulary.graph), Arc::new(graph));
        numbers = Some(of);
    }
    data.compact();
    let mut body = Vec::new();
    body.extend_from_slice(MAGIC);
    body.extend_from_slice(&mark.position.to_le_bytes());
    body.extend_from_slice(&mark.version.0.to_le_bytes());
    body.extend_from_slice(&schema_hash(&state.schema));
    body.push(u8::from(state.has_names));
    body.extend_from_slice(&(state.ids.len() as u64).to_le_bytes());
    for (vertex, id) in &state.ids {
        let number = numbers.as_ref().map_or(*id, |n| n.get(*id));
        let mut flags = 0;
        if state.unnamed.contains(vertex) {
            flags |= UNNAMED;
        }
        if state.holders.get(id) == Some(vertex) {
            flags |= HOLDER;
        }
        body.extend_from_slice(&vertex.0);
        body.extend_from_slice(&number.to_le_bytes());
        body.push(flags);
    }
    body.extend_from_slice(&data.encode());
    let hash = blake3::hash(&body);
    crate::modes::create_inside(folder).map_err(|e| io(folder, e))?;
    // The name is unique per process, and one process has the database open.
    let new = folder.join(format!("meta-{}.new", std::process::id()));
    let to = path(folder);
    File::create(&new)
        .and_then(|mut file| {
            file.write_all(&body)?;
            file.write_all(hash.as_bytes())
        })
        .and_then(|()| fs::rename(&new, &to))
        .map_err(|e| io(&to, e))?;
    Ok((body.len() + HASH) as u64)
}

fn io(path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("writing `{}`", path.display()), e)
}

/// Removes an invalid image.
pub(super) fn remove(folder: &Path) {
    // It is ignored even if the removal fails.
    let _ = fs::remove_file(path(folder));
}

/// Reads the graph as of an earlier position in this store's feed; `None` if there is no valid file.
pub(super) fn read(
    folder: &Path,
    schema: Arc<Schema>,
    engine: &Engine,
    terms: &mut Dictionary,
) -> Result<Option<MetaGraph>> {
    let Ok(bytes) = fs::read(path(folder)) else {
        return Ok(None);
    };
    let Some((body, hash)) = bytes.len().checked_sub(HASH).map(|n| bytes.split_at(n)) else {
        return Ok(None);
    };
    let Some((head, rest)) = body.split_at_checked(HEAD) else {
        return Ok(None);
    };
    let number = |at: usize| -> u64 {
        let bytes = head.get(at..at + 8).and_then(|b| b.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let mark = FeedMark {
        position: number(8),
        version: Version(number(16)),
    };
    if head.get(..8) != Some(MAGIC)
        || head.get(24..56) != Some(&schema_hash(&schema)[..])
        || engine.feed_mark(mark.position) != Some(mark)
    {
        return Ok(None);
    }
    let vertices = usize::try_from(number(57)).unwrap_or(usize::MAX);
    let Some((vertices, columns)) = vertices
        .checked_mul(VERTEX)
        .and_then(|n| rest.split_at_checked(n))
    else {
        return Ok(None);
    };
    let (right, decoded) = std::thread::scope(|scope| {
        let right = scope.spawn(|| blake3::hash(body).as_bytes() == hash);
        let decoded = Dataset::decode(columns);
        (right.join().unwrap_or(false), decoded)
    });
    let (true, Ok(mut data)) = (right, decoded) else {
        return Ok(None);
    };
    let found = data
        .names()
        .next()
        .and_then(|name| Some((name, Arc::clone(data.graph(name)?))));
    let graph = found.map(|(_, graph)| graph).unwrap_or_default();
    let mut numbers = None;
    let graph = if terms.is_empty() {
        *terms = std::mem::take(&mut data.dictionary);
        graph
    } else {
        let of = Renumber::into(&data.dictionary, terms)?;
        let graph = Arc::new(of.graph(&graph));
        numbers = Some(of);
        graph
    };
    let vocabulary = Vocabulary::new(&schema, terms).map_err(crate::rdf::error)?;
    let count = vertices.len() / VERTEX;
    let mut ids = Ids::with_capacity_and_hasher(count, BuildHasherDefault::default());
    let (mut unnamed, mut holders) = (HashSet::new(), HashMap::new());
    for entry in vertices.chunks_exact(VERTEX) {
        let (Some(id), Some(number), Some(flags)) = (
            entry.first_chunk(),
            entry.get(16..20).and_then(|n| n.try_into().ok()),
            entry.get(20),
        ) else {
            continue;
        };
        let vertex = VertexId(*id);
        let number = u32::from_le_bytes(number);
        let number = numbers.as_ref().map_or(number, |n| n.get(number));
        ids.insert(vertex, number);
        if flags & UNNAMED != 0 {
            unnamed.insert(vertex);
        }
        if flags & HOLDER != 0 {
            holders.insert(number, vertex);
        }
    }
    let mut state = MetaGraph {
        position: mark.position,
        schema,
        has_names: head.get(56) == Some(&1),
        data: Dataset::default(),
        ids,
        unnamed,
        holders,
        anchors: Vec::new(),
        terms: 0,
        vocabulary,
    };
    state.data.put_graph(state.vocabulary.graph, graph);
    state.anchor(terms);
    Ok(Some(state))
}

/// Translation of term numbers from one dictionary to another.
#[derive(Default)]
struct Renumber {
    /// New number by old number; 0 for unused terms.
    numbers: Vec<Id>,
    to: Dictionary,
}

impl Renumber {
    /// Copies the terms that a graph uses into a new dictionary.
    fn of(terms: &Dictionary, state: &MetaGraph) -> Result<Self> {
        let mut used = vec![false; terms.len() + 1];
        let mut mark = |id: Id| {
            if let Some(used) = used.get_mut(id as usize) {
                *used = true;
            }
        };
        mark(state.vocabulary.graph);
        state.ids.values().copied().for_each(&mut mark);
        for (s, p, o) in state.graph().triples() {
            [s, p, o].into_iter().for_each(&mut mark);
        }
        let mut all = Self {
            numbers: vec![0; used.len()],
            ..Self::default()
        };
        for (id, number) in (0..).zip(&mut all.numbers) {
            if used[id as usize]
                && let Some(term) = terms.term(id)
            {
                *number = add(&mut all.to, &term)?;
            }
        }
        Ok(all)
    }

    /// Adds all terms of one dictionary to another one.
    fn into(from: &Dictionary, to: &mut Dictionary) -> Result<Self> {
        let mut numbers = vec![0; from.len() + 1];
        for (id, number) in (0..).zip(&mut numbers) {
            if let Some(term) = from.term(id) {
                *number = add(to, &term)?;
            }
        }
        Ok(Self {
            numbers,
            to: Dictionary::default(),
        })
    }

    fn get(&self, id: Id) -> Id {
        if value(id).is_some() {
            return id;
        }
        self.numbers.get(id as usize).copied().unwrap_or(0)
    }

    fn graph(&self, of: &Graph) -> Graph {
        let mut all: BTreeMap<Id, Vec<u64>> = BTreeMap::new();
        for p in of.predicates() {
            let Some(index) = of.index(*p) else { continue };
            let pairs = index
                .so
                .iter()
                .map(|(s, o)| u64::from(self.get(s)) << 32 | u64::from(self.get(o)));
            all.entry(self.get(*p)).or_default().extend(pairs);
        }
        Graph::from_pairs(all)
    }
}

fn add(to: &mut Dictionary, term: &Term) -> Result<Id> {
    match term {
        Term::NamedNode(name) => intern(to, name.as_str()),
        other => to.intern_term(other.as_ref()).map_err(crate::rdf::error),
    }
}
