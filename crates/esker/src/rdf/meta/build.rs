//! The whole graph from all vertices and edges: reading is one thread's work, numbering another's.

use super::map::{Mapper, Sink};
use super::read::Source;
use super::terms::{IDS, iri};
use super::words::Words;
use crate::engine::Touched;
use esker_model::key::EdgeKey;
use esker_model::namespace::Inode;
use esker_model::{
    Edge, EdgeEvent, EdgeTypeId, Error, Flow, Result, Schema, Vertex, VertexId, VertexTypeId,
};
use esker_rdf::Dataset;
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use esker_rdf::quads::Graph;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces that wait between reading and numbering.
const WAITING: usize = 8;

/// Ids are hashes already.
#[derive(Debug, Default, Clone)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The end of an id: the beginning says a place, which many share.
        if let Some(last) = bytes.last_chunk() {
            self.0 ^= u64::from_le_bytes(*last).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_usize(&mut self, _: usize) {}
}

pub(super) type Ids = HashMap<VertexId, Id, BuildHasherDefault<AsItIs>>;

/// The graph as somebody sees it, and what is needed to keep it.
#[derive(Debug)]
pub(super) struct State {
    /// The place in the feed up to which it is.
    pub(super) place: u64,
    pub(super) schema: Arc<Schema>,
    pub(super) words: Words,
    pub(super) has_names: bool,
    /// The graph alone, without terms.
    pub(super) data: Dataset,
    /// Numbers of vertices' IRIs.
    pub(super) ids: Ids,
    /// Ends of edges that were never put.
    pub(super) unnamed: HashSet<VertexId>,
    /// Which vertex has an IRI, for files, where there is a namespace.
    pub(super) holders: HashMap<Id, VertexId>,
    /// Terms and the numbers that they must still have.
    pub(super) anchors: Vec<(String, Id)>,
    /// How many terms the dictionary had: an older one has the anchors, and not all terms of the graph.
    pub(super) terms: usize,
}

/// Triples by predicate.
#[derive(Default)]
struct Columns {
    all: BTreeMap<Id, Vec<u64>>,
}

impl Sink for Columns {
    fn put(&mut self, s: Id, p: Id, o: Id) {
        self.all
            .entry(p)
            .or_default()
            .push(u64::from(s) << 32 | u64::from(o));
    }
}

/// What reading gives to numbering.
enum Piece {
    Vertices(Vec<Vertex>, Vec<String>, Vec<Option<Inode>>),
    Edges(Vec<Edge>),
}

/// Makes the graph.
pub(super) fn build(source: Source<'_>, terms: &mut Dictionary, place: u64) -> Result<State> {
    let schema = source.schema()?;
    let has_names = source.has_names()?;
    let words = Words::new(&schema, terms).map_err(super::super::error)?;
    let mut state = State {
        place,
        data: Dataset::default(),
        ids: Ids::default(),
        unnamed: HashSet::new(),
        holders: HashMap::new(),
        anchors: Vec::new(),
        terms: 0,
        has_names,
        schema,
        words,
    };
    let mut columns = Columns::default();
    let types = state.vertices(source, terms, &mut columns)?;
    state.edges(source, &types, terms, &mut columns)?;
    drop(types);
    state.versions(source, terms, &mut columns)?;
    if !columns.all.is_empty() {
        let schema = Arc::clone(&state.schema);
        state
            .mapper(terms)
            .schema(&schema, &mut columns)
            .map_err(super::super::error)?;
    }
    let graph = Graph::from_pairs(columns.all);
    state.data.put_graph(state.words.graph, Arc::new(graph));
    state.anchor(terms);
    Ok(state)
}

/// Reads in a thread of its own and numbers in this one.
fn piped(
    read: impl FnOnce(&mut dyn FnMut(Piece) -> Flow) -> Result<()> + Send,
    mut number: impl FnMut(Piece) -> Result<()>,
) -> Result<()> {
    let (give, take) = sync_channel(WAITING);
    let outcome = Mutex::new(Ok(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let give = give;
            let read = read(&mut |piece| match give.send(piece) {
                Ok(()) => Flow::Continue(()),
                Err(_) => Flow::Break(()),
            });
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = read;
        });
        // Ends when reading ends; what goes wrong here ends reading.
        let numbered = take.iter().try_for_each(&mut number);
        drop(take);
        numbered
    })?;
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn mapper<'a>(&'a mut self, terms: &'a mut Dictionary) -> Mapper<'a> {
        Mapper {
            words: &mut self.words,
            terms,
            scratch: Vec::new(),
        }
    }

    fn vertices(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        to: &mut Columns,
    ) -> Result<Vec<(VertexId, VertexTypeId)>> {
        let (schema, words, has_names) =
            (Arc::clone(&self.schema), self.words.clone(), self.has_names);
        let read = move |give: &mut dyn FnMut(Piece) -> Flow| {
            let mut failed = Ok(());
            let about = |some: &[Vertex]| {
                let names = source.names(&schema, &words, has_names, some)?;
                Ok((names, source.inodes(has_names, some)?))
            };
            source.vertices(&schema, &mut |some| match about(&some) {
                Ok((names, inodes)) => give(Piece::Vertices(some, names, inodes)),
                Err(e) => {
                    failed = Err(e);
                    Flow::Break(())
                }
            })?;
            failed
        };
        let mut types = Vec::new();
        piped(read, |piece| {
            let Piece::Vertices(vertices, names, inodes) = piece else {
                return Ok(());
            };
            for ((vertex, name), inode) in vertices.iter().zip(names).zip(inodes) {
                let s = self.number(terms, vertex, &name)?;
                types.push((vertex.id, vertex.type_id));
                let mut mapper = self.mapper(terms);
                mapper
                    .vertex(s, vertex, to)
                    .and_then(|()| inode.map_or(Ok(()), |inode| mapper.inode(s, &inode, to)))
                    .map_err(super::super::error)?;
            }
            Ok(())
        })?;
        Ok(types)
    }

    /// A vertex's IRI gets a number, which is remembered.
    pub(super) fn number(
        &mut self,
        terms: &mut Dictionary,
        vertex: &Vertex,
        name: &str,
    ) -> Result<Id> {
        let s = intern(terms, name)?;
        self.ids.insert(vertex.id, s);
        if self.has_names && self.words.is_file(vertex.type_id) {
            self.holders.insert(s, vertex.id);
        }
        Ok(s)
    }

    /// The number of an edge's end; one that nothing else is known of is named by its id.
    pub(super) fn end(&mut self, terms: &mut Dictionary, id: VertexId) -> Result<Id> {
        if let Some(known) = self.ids.get(&id) {
            return Ok(*known);
        }
        let number = intern(terms, &unnamed(id))?;
        self.ids.insert(id, number);
        self.unnamed.insert(id);
        Ok(number)
    }

    fn edges(
        &mut self,
        source: Source<'_>,
        types: &[(VertexId, VertexTypeId)],
        terms: &mut Dictionary,
        to: &mut Columns,
    ) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let leaving = source.leaving(&schema, &self.words)?;
        // Each asks for what can leave it, in the order of the store's rows.
        let mut groups: BTreeMap<&[EdgeTypeId], Vec<VertexId>> = BTreeMap::new();
        for (id, type_id) in types {
            match leaving.get(type_id).map_or(&[][..], Vec::as_slice) {
                [] => {}
                // One range with all of them is read faster than several.
                [_, _, ..] => groups.entry(&[]).or_default().push(*id),
                one => groups.entry(one).or_default().push(*id),
            }
        }
        let read = |give: &mut dyn FnMut(Piece) -> Flow| {
            for (types, mut of) in groups {
                of.sort_unstable();
                let mut flow = Flow::Continue(());
                source.edges(&of, types, &mut |some| {
                    flow = give(Piece::Edges(some));
                    flow
                })?;
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        };
        piped(read, |piece| {
            let Piece::Edges(edges) = piece else {
                return Ok(());
            };
            for edge in &edges {
                // Inverses are not mapped, and an edge without direction has a row at either end.
                if self.words.forward(&schema, edge.key) != Some(edge.key) {
                    continue;
                }
                let s = self.end(terms, edge.key.source)?;
                let o = self.end(terms, edge.key.destination)?;
                self.mapper(terms)
                    .edge(s, o, edge, to)
                    .map_err(super::super::error)?;
            }
            Ok(())
        })
    }

    fn versions(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        to: &mut Columns,
    ) -> Result<()> {
        for (i, of) in source.with_past()?.into_iter().enumerate() {
            if i % 64 == 0 {
                source.go_on()?;
            }
            let id = match of {
                Touched::Vertex(id) => id,
                Touched::Edge(key) => {
                    let known = |id| self.ids.contains_key(id);
                    // Each has a row at either end; what leaves a vertex that was never put is not in the graph.
                    if self.words.forward(&self.schema, key) == Some(key)
                        && known(&key.source)
                        && !self.unnamed.contains(&key.source)
                    {
                        let events = source.edge_events(key)?;
                        self.edge_versions_of(terms, &key, &events, to)?;
                    }
                    continue;
                }
            };
            let Some(s) = self.ids.get(&id).copied() else {
                continue;
            };
            let events = source.events(id)?;
            self.versions_of(terms, s, &events, to)?;
        }
        Ok(())
    }

    pub(super) fn versions_of(
        &mut self,
        terms: &mut Dictionary,
        s: Id,
        events: &[esker_model::VertexEvent],
        to: &mut impl Sink,
    ) -> Result<()> {
        let Some(esker_rdf::Term::NamedNode(name)) = terms.term(s) else {
            return Ok(());
        };
        self.mapper(terms)
            .versions(s, name.as_str(), events, to)
            .map_err(super::super::error)
    }

    /// Earlier versions of an edge; there is nothing where it was only ever one.
    pub(super) fn edge_versions_of(
        &mut self,
        terms: &mut Dictionary,
        key: &EdgeKey,
        events: &[EdgeEvent],
        to: &mut impl Sink,
    ) -> Result<()> {
        let events: Vec<&EdgeEvent> = events.iter().filter(|e| !e.archived).rev().collect();
        let Some(words) = self.words.edge(key.edge_type).cloned() else {
            return Ok(());
        };
        if events.len() < 2 {
            return Ok(());
        }
        let s = self.end(terms, key.source)?;
        let o = self.end(terms, key.destination)?;
        self.mapper(terms)
            .edge_versions(s, o, &words, key, &events, to)
            .map_err(super::super::error)
    }

    /// Remembers what must still hold of the dictionary when the graph is brought up to date.
    pub(super) fn anchor(&mut self, terms: &Dictionary) {
        let last = self.ids.values().max().copied();
        self.terms = terms.len();
        self.anchors = [Some(self.words.graph), last]
            .into_iter()
            .flatten()
            .filter_map(|id| match terms.term(id)? {
                esker_rdf::Term::NamedNode(n) => Some((n.into_string(), id)),
                _ => None,
            })
            .collect();
    }

    /// Whether these are the terms that it was made with, or more: data that was dropped or read again has others, and a snapshot that was taken
    /// before the graph was brought up to date has fewer.
    pub(super) fn fits(&self, terms: &Dictionary) -> bool {
        let is_anchored = |(text, id): &(String, Id)| terms.find(&Key::Iri(text)) == Some(*id);
        terms.len() >= self.terms && self.anchors.iter().all(is_anchored)
    }

    /// The graph.
    pub(super) fn graph(&self) -> Arc<Graph> {
        self.data
            .graph(self.words.graph)
            .cloned()
            .unwrap_or_default()
    }
}

/// The IRI of a vertex of which only the id is known.
fn unnamed(id: VertexId) -> String {
    iri(IDS, &id.to_string())
}

pub(super) fn intern(terms: &mut Dictionary, name: &str) -> Result<Id> {
    terms
        .intern(&Key::Iri(name))
        .map_err(|e: esker_rdf::Error| -> Error { super::super::error(e) })
}
