//! Builds the complete metadata graph from all vertices and edges: one thread reads, another one assigns numbers.

use super::map::{Mapper, Sink};
use super::read::Source;
use super::terms::{IDS, iri};
use super::vocabulary::Vocabulary;
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

/// Capacity of the queue between the reading and the numbering thread, in pieces.
const WAITING: usize = 8;

/// Hasher for ids, which are hashes already.
#[derive(Debug, Default, Clone)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The last bytes of the id: many ids share the first ones, which encode the shard.
        if let Some(last) = bytes.last_chunk() {
            self.0 ^= u64::from_le_bytes(*last).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_usize(&mut self, _: usize) {}
}

pub(super) type Ids = HashMap<VertexId, Id, BuildHasherDefault<IdHasher>>;

/// The metadata graph as one principal sees it, and the state needed to update it.
#[derive(Debug)]
pub(super) struct MetaGraph {
    /// Position in the change feed up to which the graph is complete.
    pub(super) position: u64,
    pub(super) schema: Arc<Schema>,
    pub(super) vocabulary: Vocabulary,
    pub(super) has_names: bool,
    /// The graph's triples, without terms.
    pub(super) data: Dataset,
    /// Term numbers of the vertices' IRIs.
    pub(super) ids: Ids,
    /// Endpoints of edges without a vertex row.
    pub(super) unnamed: HashSet<VertexId>,
    /// Vertex that has an IRI; only for files, and only if there is a namespace.
    pub(super) holders: HashMap<Id, VertexId>,
    /// Terms that the dictionary must have with these numbers.
    pub(super) anchors: Vec<(String, Id)>,
    /// Size of the dictionary. An older copy of the dictionary has the anchors, but not all terms of the graph.
    pub(super) terms: usize,
}

/// Triples by predicate: pairs of subject and object.
#[derive(Default)]
struct TripleColumns {
    all: BTreeMap<Id, Vec<u64>>,
}

impl Sink for TripleColumns {
    fn put(&mut self, s: Id, p: Id, o: Id) {
        self.all
            .entry(p)
            .or_default()
            .push(u64::from(s) << 32 | u64::from(o));
    }
}

/// Input of the numbering thread.
enum SourcePiece {
    Vertices(Vec<Vertex>, Vec<String>, Vec<Option<Inode>>),
    Edges(Vec<Edge>),
}

/// Builds the graph from `source`.
pub(super) fn build(
    source: Source<'_>,
    terms: &mut Dictionary,
    position: u64,
) -> Result<MetaGraph> {
    let schema = source.schema()?;
    let has_names = source.has_names()?;
    let vocabulary = Vocabulary::new(&schema, terms).map_err(super::super::error)?;
    let mut state = MetaGraph {
        position,
        data: Dataset::default(),
        ids: Ids::default(),
        unnamed: HashSet::new(),
        holders: HashMap::new(),
        anchors: Vec::new(),
        terms: 0,
        has_names,
        schema,
        vocabulary,
    };
    let mut columns = TripleColumns::default();
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
    state
        .data
        .put_graph(state.vocabulary.graph, Arc::new(graph));
    state.anchor(terms);
    Ok(state)
}

/// Runs `read` in a separate thread and `number` in this one.
fn piped(
    read: impl FnOnce(&mut dyn FnMut(SourcePiece) -> Flow) -> Result<()> + Send,
    mut number: impl FnMut(SourcePiece) -> Result<()>,
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
        // Ends when reading ends; an error here ends reading.
        let numbered = take.iter().try_for_each(&mut number);
        drop(take);
        numbered
    })?;
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl MetaGraph {
    pub(super) fn mapper<'a>(&'a mut self, terms: &'a mut Dictionary) -> Mapper<'a> {
        Mapper {
            vocabulary: &mut self.vocabulary,
            terms,
            scratch: Vec::new(),
        }
    }

    fn vertices(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        to: &mut TripleColumns,
    ) -> Result<Vec<(VertexId, VertexTypeId)>> {
        let (schema, vocabulary, has_names) = (
            Arc::clone(&self.schema),
            self.vocabulary.clone(),
            self.has_names,
        );
        let read = move |give: &mut dyn FnMut(SourcePiece) -> Flow| {
            let mut failed = Ok(());
            let about = |some: &[Vertex]| {
                let names = source.names(&schema, &vocabulary, has_names, some)?;
                Ok((names, source.inodes(has_names, some)?))
            };
            source.vertices(&schema, &mut |some| match about(&some) {
                Ok((names, inodes)) => give(SourcePiece::Vertices(some, names, inodes)),
                Err(e) => {
                    failed = Err(e);
                    Flow::Break(())
                }
            })?;
            failed
        };
        let mut types = Vec::new();
        piped(read, |piece| {
            let SourcePiece::Vertices(vertices, names, inodes) = piece else {
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

    /// Assigns a number to a vertex's IRI and stores it.
    pub(super) fn number(
        &mut self,
        terms: &mut Dictionary,
        vertex: &Vertex,
        name: &str,
    ) -> Result<Id> {
        let s = intern(terms, name)?;
        self.ids.insert(vertex.id, s);
        if self.has_names && self.vocabulary.is_file(vertex.type_id) {
            self.holders.insert(s, vertex.id);
        }
        Ok(s)
    }

    /// Number of an endpoint of an edge. A vertex without a row is named by its id.
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
        to: &mut TripleColumns,
    ) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let leaving = source.leaving(&schema, &self.vocabulary)?;
        // Vertices grouped by the edge types that can leave them, in the order of the store's rows.
        let mut groups: BTreeMap<&[EdgeTypeId], Vec<VertexId>> = BTreeMap::new();
        for (id, type_id) in types {
            match leaving.get(type_id).map_or(&[][..], Vec::as_slice) {
                [] => {}
                // Scanning one range with all edge types is faster than scanning several.
                [_, _, ..] => groups.entry(&[]).or_default().push(*id),
                one => groups.entry(one).or_default().push(*id),
            }
        }
        let read = |give: &mut dyn FnMut(SourcePiece) -> Flow| {
            for (types, mut of) in groups {
                of.sort_unstable();
                let mut flow = Flow::Continue(());
                source.edges(&of, types, &mut |some| {
                    flow = give(SourcePiece::Edges(some));
                    flow
                })?;
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        };
        piped(read, |piece| {
            let SourcePiece::Edges(edges) = piece else {
                return Ok(());
            };
            for edge in &edges {
                // Inverse edges are not mapped, and a symmetric edge has a row at both ends.
                if self.vocabulary.forward(&schema, edge.key) != Some(edge.key) {
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
        to: &mut TripleColumns,
    ) -> Result<()> {
        for (i, of) in source.with_history()?.into_iter().enumerate() {
            if i % 64 == 0 {
                source.check_stop()?;
            }
            let id = match of {
                Touched::Vertex(id) => id,
                Touched::Edge(key) => {
                    let known = |id| self.ids.contains_key(id);
                    // An edge has a row at both ends; edges that leave a vertex without a row are not in the graph.
                    if self.vocabulary.forward(&self.schema, key) == Some(key)
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

    /// Adds the earlier versions of an edge; none if it has only one version.
    pub(super) fn edge_versions_of(
        &mut self,
        terms: &mut Dictionary,
        key: &EdgeKey,
        events: &[EdgeEvent],
        to: &mut impl Sink,
    ) -> Result<()> {
        let events: Vec<&EdgeEvent> = events.iter().filter(|e| !e.archived).rev().collect();
        let Some(vocabulary) = self.vocabulary.edge(key.edge_type).cloned() else {
            return Ok(());
        };
        if events.len() < 2 {
            return Ok(());
        }
        let s = self.end(terms, key.source)?;
        let o = self.end(terms, key.destination)?;
        self.mapper(terms)
            .edge_versions(s, o, &vocabulary, key, &events, to)
            .map_err(super::super::error)
    }

    /// Stores what the dictionary must still contain when the graph is updated.
    pub(super) fn anchor(&mut self, terms: &Dictionary) {
        let last = self.ids.values().max().copied();
        self.terms = terms.len();
        self.anchors = [Some(self.vocabulary.graph), last]
            .into_iter()
            .flatten()
            .filter_map(|id| match terms.term(id)? {
                esker_rdf::Term::NamedNode(n) => Some((n.into_string(), id)),
                _ => None,
            })
            .collect();
    }

    /// Whether `terms` is the dictionary of this graph, possibly extended. Data that was dropped or reloaded has
    /// another dictionary,
    /// and a snapshot older than the last update of the graph lacks terms.
    pub(super) fn fits(&self, terms: &Dictionary) -> bool {
        let is_anchored = |(text, id): &(String, Id)| terms.find(&Key::Iri(text)) == Some(*id);
        terms.len() >= self.terms && self.anchors.iter().all(is_anchored)
    }

    /// The metadata graph itself.
    pub(super) fn graph(&self) -> Arc<Graph> {
        self.data
            .graph(self.vocabulary.graph)
            .cloned()
            .unwrap_or_default()
    }
}

/// IRI of a vertex of which only the id is known.
fn unnamed(id: VertexId) -> String {
    iri(IDS, &id.to_string())
}

pub(super) fn intern(terms: &mut Dictionary, name: &str) -> Result<Id> {
    terms
        .intern(&Key::Iri(name))
        .map_err(|e: esker_rdf::Error| -> Error { super::super::error(e) })
}
