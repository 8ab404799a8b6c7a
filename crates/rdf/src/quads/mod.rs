//! Quads: for each graph and predicate, sorted columns of subjects and objects in both directions.

mod codec;
mod merge;
mod pairs;
mod patch;
mod predicate;

pub use pairs::Pairs;
pub(crate) use pairs::{pack, seek, sort, unpack};
pub use predicate::{Index, Predicate};

use crate::dictionary::Dictionary;
use crate::id::{Id, UNBOUND};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit of graph names in a message.
const SHOWN_MAX: usize = 5;

/// A quad of ids; graph 0 is the default graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quad {
    /// Term id of the subject.
    pub s: Id,
    /// Term id of the predicate.
    pub p: Id,
    /// Term id of the object.
    pub o: Id,
    /// Graph's term id, or 0.
    pub g: Id,
}

/// Triples of one graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    predicates: BTreeMap<Id, Predicate>,
    /// Ids of the predicates, ascending.
    list: Vec<Id>,
}

impl Graph {
    /// Returns the sorted pairs of a predicate.
    pub fn index(&self, p: Id) -> Option<&Index> {
        self.predicates.get(&p).map(Predicate::index)
    }

    /// Returns a predicate with its changes.
    pub fn predicate(&self, p: Id) -> Option<&Predicate> {
        self.predicates.get(&p)
    }

    /// Returns the ids of the predicates, ascending.
    pub fn predicates(&self) -> &[Id] {
        &self.list
    }

    /// Returns the number of triples.
    pub fn len(&self) -> usize {
        self.predicates.values().map(Predicate::len).sum()
    }

    /// Returns whether the graph has no triples.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether a triple exists.
    pub fn contains(&self, s: Id, p: Id, o: Id) -> bool {
        self.predicates.get(&p).is_some_and(|x| x.contains(s, o))
    }

    fn insert(&mut self, p: Id, predicate: Predicate) {
        if predicate.is_empty() {
            self.predicates.remove(&p);
        } else {
            self.predicates.insert(p, predicate);
        }
        self.relist();
    }

    fn relist(&mut self) {
        if self.list.len() != self.predicates.len() || !self.predicates.keys().eq(&self.list) {
            self.list = self.predicates.keys().copied().collect();
        }
    }

    /// Iterates over all triples, by predicate.
    pub fn triples(&self) -> impl Iterator<Item = (Id, Id, Id)> + '_ {
        self.predicates
            .iter()
            .flat_map(|(p, x)| x.index().so.iter().map(|(s, o)| (s, *p, o)))
    }

    /// Builds a graph from packed pairs by predicate, in any order: the subject in the upper half, the object in the lower one.
    pub fn from_pairs(all: BTreeMap<Id, Vec<u64>>) -> Self {
        let mut graph = Self::default();
        for (p, pairs) in all {
            graph
                .predicates
                .insert(p, Predicate::new(Index::build(pairs)));
        }
        graph.relist();
        graph
    }

    /// Returns the union of two graphs, which shares the predicates that only the first has.
    pub(crate) fn union_of(one: &Self, other: &Self) -> Self {
        let mut graph = one.clone();
        for (p, predicate) in &other.predicates {
            let pairs = |x: &Predicate| -> Vec<u64> {
                x.index().so.iter().map(|(s, o)| pack(s, o)).collect()
            };
            let whole = match one.predicates.get(p) {
                None => predicate.clone(),
                Some(known) => {
                    let mut all = pairs(known);
                    all.extend(pairs(predicate));
                    Predicate::new(Index::build(all))
                }
            };
            graph.predicates.insert(*p, whole);
        }
        graph.relist();
        graph
    }

    /// Returns this graph without the triples of another one; it shares the predicates that the other does not have.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut graph = self.clone();
        for (p, gone) in &other.predicates {
            let Some(known) = self.predicates.get(p) else {
                continue;
            };
            let (mut here, mut near, gone) = (0, 0, gone.index());
            let mut left = Vec::with_capacity(known.len());
            let so = &known.index().so;
            for s in so.keys() {
                let list = gone.so.get_near(*s, &mut near);
                let kept = so.get_near(*s, &mut here).iter();
                left.extend(
                    kept.filter(|o| list.binary_search(o).is_err())
                        .map(|o| pack(*s, *o)),
                );
            }
            graph.insert(*p, Predicate::new(Index::build(left)));
        }
        graph
    }

    /// Adds (`true`) or removes pairs of a predicate. Returns how many were added and removed.
    pub(crate) fn change(&mut self, p: Id, list: &[(u64, bool)]) -> (usize, usize) {
        if let Some(predicate) = self.predicates.get_mut(&p) {
            let done = predicate.change(list);
            if predicate.is_empty() {
                self.predicates.remove(&p);
                self.relist();
            }
            return done;
        }
        let mut predicate = Predicate::default();
        let done = predicate.change(list);
        self.insert(p, predicate);
        done
    }

    pub(crate) fn bytes(&self) -> usize {
        self.predicates.values().map(Predicate::bytes).sum()
    }

    /// Returns the union of several graphs.
    pub fn union<'a>(graphs: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut pairs: BTreeMap<Id, Vec<u64>> = BTreeMap::new();
        for graph in graphs {
            for (s, p, o) in graph.triples() {
                pairs.entry(p).or_default().push(pack(s, o));
            }
        }
        let mut union = Self::default();
        for (p, pairs) in pairs {
            union
                .predicates
                .insert(p, Predicate::new(Index::build(pairs)));
        }
        union.relist();
        union
    }
}

/// All graphs with their dictionary. A copy is cheap, shares its contents, and is independent of later changes.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Dictionary of all terms.
    pub dictionary: Dictionary,
    default: Arc<Graph>,
    named: BTreeMap<Id, Arc<Graph>>,
    /// Triples of the graphs that are only inferred.
    pub(crate) inferred: Option<Arc<crate::infer::Layer>>,
    pub(crate) closures: Arc<crate::infer::Closures>,
    view: bool,
}

impl Dataset {
    /// Makes the dataset a view for principals that may not see everything: the order of answers and dumps then depends only on the terms.
    /// Otherwise it depends on their ids, which reveal the order in which terms were interned, even from hidden graphs.
    pub fn make_view(&mut self) {
        self.view = true;
    }

    /// Returns whether [`Self::make_view`] was called.
    pub const fn is_view(&self) -> bool {
        self.view
    }

    /// Returns a graph; 0 is the default graph.
    pub fn graph(&self, g: Id) -> Option<&Arc<Graph>> {
        if g == UNBOUND {
            Some(&self.default)
        } else {
            self.named.get(&g)
        }
    }

    /// Returns the names of the named graphs, ascending by id.
    pub fn names(&self) -> impl Iterator<Item = Id> + '_ {
        self.named.keys().copied()
    }

    /// Returns the first graph names in alphabetical order, for messages about an unknown graph.
    pub fn show_names(&self) -> String {
        let mut some = BTreeSet::new();
        for name in self.names().filter_map(|g| self.dictionary.term(g)) {
            some.insert(name.to_string());
            if some.len() > SHOWN_MAX {
                some.pop_last();
            }
        }
        if some.is_empty() {
            "; there are no named graphs".into()
        } else {
            let some: Vec<String> = some.into_iter().collect();
            format!("; there are {}", some.join(", "))
        }
    }

    /// Returns the number of quads.
    pub fn len(&self) -> usize {
        self.default.len() + self.named.values().map(|g| g.len()).sum::<usize>()
    }

    /// Returns whether there are no quads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the columns in bytes.
    pub fn quad_bytes(&self) -> usize {
        std::iter::once(&self.default)
            .chain(self.named.values())
            .flat_map(|g| g.predicates.values())
            .map(Predicate::bytes)
            .sum()
    }

    /// Iterates over all quads: the default graph first, each graph by predicate.
    pub fn quads(&self) -> impl Iterator<Item = Quad> + '_ {
        std::iter::once((UNBOUND, &self.default))
            .chain(self.named.iter().map(|(g, x)| (*g, x)))
            .flat_map(|(g, graph)| graph.triples().map(move |(s, p, o)| Quad { s, p, o, g }))
    }

    /// Adds (`true`) or removes quads in order. Returns how many were added and removed.
    pub fn change(&mut self, changes: &[(Quad, bool)]) -> (usize, usize) {
        if self.inferred.is_some() {
            return self.change_inferring(changes);
        }
        let mut groups: BTreeMap<(Id, Id), Vec<(u64, bool)>> = BTreeMap::new();
        for (q, add) in changes {
            groups
                .entry((q.g, q.p))
                .or_default()
                .push((pack(q.s, q.o), *add));
        }
        let (mut added, mut removed) = (0, 0);
        for ((g, p), list) in groups {
            if self.graph(g).is_none() && !list.iter().any(|c| c.1) {
                continue;
            }
            let graph = self.graph_mut(g);
            let mut predicate = graph.predicates.remove(&p).unwrap_or_default();
            let (a, r) = predicate.change(&list);
            added += a;
            removed += r;
            if !predicate.is_empty() {
                graph.predicates.insert(p, predicate);
            }
            graph.relist();
            // A graph that lost its last triple is removed: empty graphs are not stored, as the standard allows.
            if g != UNBOUND && graph.is_empty() {
                self.named.remove(&g);
            }
        }
        (added, removed)
    }

    fn graph_mut(&mut self, g: Id) -> &mut Graph {
        if g == UNBOUND {
            Arc::make_mut(&mut self.default)
        } else {
            Arc::make_mut(self.named.entry(g).or_default())
        }
    }

    /// Adds many quads at once, given as packed pairs of subject and object by (graph, predicate).
    pub(crate) fn add_sorted(&mut self, groups: BTreeMap<(Id, Id), Vec<u64>>) -> usize {
        if self.inferred.is_some() {
            return self.add_inferring(groups);
        }
        let before = self.len();
        for ((g, p), mut pairs) in groups {
            let graph = self.graph_mut(g);
            if let Some(old) = graph.predicates.remove(&p) {
                pairs.extend(old.index().so.iter().map(|(s, o)| pack(s, o)));
            }
            graph.insert(p, Predicate::new(Index::build(pairs)));
        }
        self.len() - before
    }

    /// Removes a graph and returns whether it existed.
    pub fn clear(&mut self, g: Id) -> bool {
        if self.inferred.is_some() {
            return self.clear_inferring(g);
        }
        self.remove_graph(g)
    }

    pub(crate) fn remove_graph(&mut self, g: Id) -> bool {
        if g == UNBOUND {
            !std::mem::take(&mut self.default).is_empty()
        } else {
            self.named.remove(&g).is_some()
        }
    }

    /// Removes and returns a graph.
    pub(crate) fn take_graph(&mut self, g: Id) -> Arc<Graph> {
        if g == UNBOUND {
            std::mem::take(&mut self.default)
        } else {
            self.named.remove(&g).unwrap_or_default()
        }
    }

    /// Replaces a graph. Inferred triples are not updated.
    pub fn put_graph(&mut self, g: Id, graph: Arc<Graph>) {
        if g == UNBOUND {
            self.default = graph;
        } else if graph.is_empty() {
            self.named.remove(&g);
        } else {
            self.named.insert(g, graph);
        }
    }

    /// Merges all pending changes into the sorted columns.
    pub fn compact(&mut self) {
        self.dictionary.compact();
        if let Some(layer) = &mut self.inferred {
            for graph in Arc::make_mut(layer).graphs.values_mut() {
                Arc::make_mut(graph)
                    .predicates
                    .values_mut()
                    .for_each(Predicate::compact);
            }
        }
        let graphs = std::iter::once(&mut self.default).chain(self.named.values_mut());
        for graph in graphs {
            Arc::make_mut(graph)
                .predicates
                .values_mut()
                .for_each(Predicate::compact);
        }
    }
}
