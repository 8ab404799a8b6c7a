//! Quads: for each graph and predicate sorted columns of subjects and objects in both directions.

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

/// Names of graphs that a message has.
const SHOWN_MAX: usize = 5;

/// A quad in numbers: subject, predicate, object, graph (0: the default one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quad {
    /// Subject.
    pub s: Id,
    /// Predicate.
    pub p: Id,
    /// Object.
    pub o: Id,
    /// Graph.
    pub g: Id,
}

/// One graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    predicates: BTreeMap<Id, Predicate>,
    /// The numbers of its predicates, ascending.
    list: Vec<Id>,
}

impl Graph {
    /// The pairs of a predicate.
    pub fn index(&self, p: Id) -> Option<&Index> {
        self.predicates.get(&p).map(Predicate::index)
    }

    /// A predicate.
    pub fn predicate(&self, p: Id) -> Option<&Predicate> {
        self.predicates.get(&p)
    }

    /// The predicates, ascending.
    pub fn predicates(&self) -> &[Id] {
        &self.list
    }

    /// Triples.
    pub fn len(&self) -> usize {
        self.predicates.values().map(Predicate::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether that triple is there.
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

    /// All triples, by predicate.
    pub fn triples(&self) -> impl Iterator<Item = (Id, Id, Id)> + '_ {
        self.predicates
            .iter()
            .flat_map(|(p, x)| x.index().so.iter().map(|(s, o)| (s, *p, o)))
    }

    /// Of pairs by predicate, in any order: the subject in the upper half, the object in the lower one.
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

    /// Both graphs as one, which shares the predicates that only the first has.
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

    /// This graph without the triples of another one; it shares the predicates that the other has not.
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

    /// Changes pairs of a predicate, each added (true) or taken away. How many were.
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

    /// Several graphs as one.
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

/// All graphs with their dictionary. A copy is cheap, shares all, and is not changed with the original.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The terms.
    pub dictionary: Dictionary,
    default: Arc<Graph>,
    named: BTreeMap<Id, Arc<Graph>>,
    /// Which triples of the graphs are inferred only.
    pub(crate) inferred: Option<Arc<crate::infer::Layer>>,
    pub(crate) closures: Arc<crate::infer::Closures>,
    view: bool,
}

impl Dataset {
    /// Makes it what somebody sees who may not see all: the order of answers and dumps then follows from what the terms say.
    /// Else it follows from their numbers, which tell which term the dictionary had first, in a graph that is not seen as well.
    pub fn make_view(&mut self) {
        self.view = true;
    }

    /// Whether [`Self::make_view`] was called.
    pub const fn is_view(&self) -> bool {
        self.view
    }

    /// A graph, 0 being the default one.
    pub fn graph(&self, g: Id) -> Option<&Arc<Graph>> {
        if g == UNBOUND {
            Some(&self.default)
        } else {
            self.named.get(&g)
        }
    }

    /// The names of the named graphs, ascending.
    pub fn names(&self) -> impl Iterator<Item = Id> + '_ {
        self.named.keys().copied()
    }

    /// The first named graphs by their names, for messages that name one which is not there.
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

    /// Quads.
    pub fn len(&self) -> usize {
        self.default.len() + self.named.values().map(|g| g.len()).sum::<usize>()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the columns.
    pub fn quad_bytes(&self) -> usize {
        std::iter::once(&self.default)
            .chain(self.named.values())
            .flat_map(|g| g.predicates.values())
            .map(Predicate::bytes)
            .sum()
    }

    /// All quads: the default graph first, by predicate.
    pub fn quads(&self) -> impl Iterator<Item = Quad> + '_ {
        std::iter::once((UNBOUND, &self.default))
            .chain(self.named.iter().map(|(g, x)| (*g, x)))
            .flat_map(|(g, graph)| graph.triples().map(move |(s, p, o)| Quad { s, p, o, g }))
    }

    /// Does changes in their order: quads that are added (true) or taken away. How many were.
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
            // A graph that lost its last triple is gone: no empty graphs are kept, which the standard allows.
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

    /// Adds many quads at once, as (graph, predicate) to packed pairs of subject and object.
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

    /// Takes a graph away. Whether it was there.
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

    /// A graph, which is not there afterwards.
    pub(crate) fn take_graph(&mut self, g: Id) -> Arc<Graph> {
        if g == UNBOUND {
            std::mem::take(&mut self.default)
        } else {
            self.named.remove(&g).unwrap_or_default()
        }
    }

    /// Makes one graph the same as another. What is inferred is not looked at.
    pub fn put_graph(&mut self, g: Id, graph: Arc<Graph>) {
        if g == UNBOUND {
            self.default = graph;
        } else if graph.is_empty() {
            self.named.remove(&g);
        } else {
            self.named.insert(g, graph);
        }
    }

    /// Sorts what changed into the columns.
    pub fn settle(&mut self) {
        self.dictionary.settle();
        if let Some(layer) = &mut self.inferred {
            for graph in Arc::make_mut(layer).graphs.values_mut() {
                Arc::make_mut(graph)
                    .predicates
                    .values_mut()
                    .for_each(Predicate::settle);
            }
        }
        let graphs = std::iter::once(&mut self.default).chain(self.named.values_mut());
        for graph in graphs {
            Arc::make_mut(graph)
                .predicates
                .values_mut()
                .for_each(Predicate::settle);
        }
    }
}
