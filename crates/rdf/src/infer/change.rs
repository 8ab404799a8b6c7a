//! The closure under changes: each triple is followed. What is said about classes and properties, and what is too much
//! to be followed one by one, closes the graphs anew.

use super::bulk::{Limits, is_literal};
use super::rules::{Fact, View};
use super::{Layer, Made};
use crate::dictionary::Dictionary;
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph, Quad, pack, unpack};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Steps that are always followed one by one, and the part of a graph's triples that are.
const STEPS: usize = 20_000;
const PART: usize = 16;

/// A graph as queries see it, and what it sees besides.
struct Seen<'a> {
    graph: &'a Graph,
    besides: &'a Graph,
    dictionary: &'a Dictionary,
}

impl Seen<'_> {
    fn both(&self) -> impl Iterator<Item = &Graph> {
        [self.graph, self.besides].into_iter()
    }
}

impl View for Seen<'_> {
    fn has(&self, s: Id, p: Id, o: Id) -> bool {
        self.both().any(|g| g.contains(s, p, o))
    }

    fn objects(&self, p: Id, s: Id, to: &mut Vec<Id>) {
        for predicate in self.both().filter_map(|g| g.predicate(p)) {
            predicate.objects(s, to);
        }
    }

    fn subjects(&self, p: Id, o: Id, to: &mut Vec<Id>) {
        for predicate in self.both().filter_map(|g| g.predicate(p)) {
            predicate.subjects(o, to);
        }
    }

    fn is_literal(&self, id: Id) -> bool {
        is_literal(self.dictionary, id)
    }

    fn predicates(&self) -> Vec<Id> {
        let mut list: Vec<Id> = self
            .both()
            .flat_map(|g| g.predicates().iter().copied())
            .collect();
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// Why triples are not followed one by one.
struct Anew;

impl Made {
    /// Whether a fact says something about classes or properties.
    fn is_schema(&self, (s, p, o): Fact) -> bool {
        let w = &self.rules.words;
        w.predicates(self.rules.owl).any(|x| x == p)
            || (self.rules.owl
                && ((p == w.kind && w.kinds().contains(&o))
                    || ([w.first, w.rest].contains(&p) && self.rules.lists.contains(&s))))
    }
}

/// One graph while it changes.
struct Change<'a> {
    made: &'a Made,
    dictionary: &'a Dictionary,
    whole: Arc<Graph>,
    inferred: Arc<Graph>,
    /// What was done, to be undone: whether to the whole graph or to what is inferred of it.
    done: Vec<(bool, Fact, bool)>,
    steps: usize,
}

impl Change<'_> {
    fn seen(&self) -> Seen<'_> {
        Seen {
            graph: &self.whole,
            besides: &self.made.besides.closed,
            dictionary: self.dictionary,
        }
    }

    fn step(&mut self) -> Result<(), Anew> {
        self.steps = self.steps.checked_sub(1).ok_or(Anew)?;
        Ok(())
    }

    fn put(&mut self, whole: bool, (s, p, o): Fact, add: bool) {
        let graph = if whole {
            &mut self.whole
        } else {
            &mut self.inferred
        };
        let (added, removed) = Arc::make_mut(graph).change(p, &[(pack(s, o), add)]);
        if added + removed > 0 {
            self.done.push((whole, (s, p, o), add));
        }
    }

    fn put_inferred(&mut self, fact: Fact, add: bool) {
        self.put(true, fact, add);
        self.put(false, fact, add);
    }

    /// Makes everything as it was.
    fn undo(&mut self) {
        for (whole, fact, add) in std::mem::take(&mut self.done).into_iter().rev() {
            self.put(whole, fact, !add);
        }
    }

    /// What follows from facts that are there already, and all that follows from that.
    fn follow(&mut self, mut left: Vec<Fact>) -> Result<(), Anew> {
        let mut out = Vec::new();
        while let Some(fact) = left.pop() {
            self.step()?;
            self.made.rules.follow(fact, &self.seen(), &mut out);
            for new in out.drain(..) {
                if self.seen().has(new.0, new.1, new.2) {
                    continue;
                }
                if self.made.is_schema(new) {
                    return Err(Anew);
                }
                self.put_inferred(new, true);
                left.push(new);
            }
        }
        Ok(())
    }

    fn run(&mut self, adds: &[Fact], removes: &[Fact]) -> Result<(), Anew> {
        if !removes.is_empty() {
            self.remove(removes)?;
        }
        let mut new = Vec::with_capacity(adds.len());
        for fact in adds {
            // What was inferred is asserted now; nothing new follows.
            if self.inferred.contains(fact.0, fact.1, fact.2) {
                self.put(false, *fact, false);
            } else {
                self.put(true, *fact, true);
                new.push(*fact);
            }
        }
        self.follow(new)
    }

    /// Takes asserted facts away, and what followed from them and from nothing else.
    fn remove(&mut self, facts: &[Fact]) -> Result<(), Anew> {
        let mut gone: HashSet<Fact> = facts.iter().copied().collect();
        let mut order = facts.to_vec();
        let mut at = 0;
        let mut out = Vec::new();
        while let Some(fact) = order.get(at).copied() {
            at += 1;
            self.step()?;
            self.made.rules.follow(fact, &self.seen(), &mut out);
            for new in out.drain(..) {
                if self.inferred.contains(new.0, new.1, new.2) && gone.insert(new) {
                    if self.made.is_schema(new) {
                        return Err(Anew);
                    }
                    order.push(new);
                }
            }
        }
        for fact in &order {
            self.put_inferred(*fact, false);
        }
        let mut back = Vec::new();
        for fact in &order {
            self.step()?;
            let besides = &self.made.besides.closed;
            if besides.contains(fact.0, fact.1, fact.2) {
                continue;
            }
            if self.made.rules.derivable(*fact, &self.seen()) {
                self.put_inferred(*fact, true);
                back.push(*fact);
            }
        }
        self.follow(back)
    }
}

impl Dataset {
    /// Does changes to asserted quads, in their order, and to what follows from them. How many were added and taken
    /// away.
    pub(crate) fn change_inferring(&mut self, changes: &[(Quad, bool)]) -> (usize, usize) {
        let mut last: HashMap<Quad, bool> = HashMap::with_capacity(changes.len());
        let mut graphs: BTreeMap<Id, (Vec<Quad>, Vec<Quad>)> = BTreeMap::new();
        for (quad, add) in changes {
            last.insert(*quad, *add);
        }
        for (quad, _) in changes {
            let Some(add) = last.remove(quad) else {
                continue;
            };
            if self.is_asserted(quad) == add {
                continue;
            }
            let (adds, removes) = graphs.entry(quad.g).or_default();
            if add { adds } else { removes }.push(*quad);
        }
        let added = graphs.values().map(|g| g.0.len()).sum();
        let removed = graphs.values().map(|g| g.1.len()).sum();
        let mut anew = BTreeSet::new();
        for (g, (adds, removes)) in &graphs {
            if self.change_graph(*g, adds, removes).is_none() {
                anew.insert(*g);
            }
        }
        if !anew.is_empty() {
            let list = graphs
                .iter()
                .filter(|(g, _)| anew.contains(g))
                .flat_map(|(_, (adds, removes))| {
                    let removes = removes.iter().map(|q| (*q, false));
                    removes.chain(adds.iter().map(|q| (*q, true)))
                })
                .collect::<Vec<_>>();
            self.change_anew(&anew, &list);
        }
        (added, removed)
    }

    /// Adds many quads at once, as (graph, predicate) to packed pairs.
    pub(crate) fn add_inferring(&mut self, groups: BTreeMap<(Id, Id), Vec<u64>>) -> usize {
        let few = groups.values().map(Vec::len).sum::<usize>() <= STEPS;
        if few {
            let list: Vec<(Quad, bool)> = groups
                .into_iter()
                .flat_map(|((g, p), pairs)| {
                    pairs.into_iter().map(move |pair| {
                        let (s, o) = unpack(pair);
                        (Quad { s, p, o, g }, true)
                    })
                })
                .collect();
            return self.change_inferring(&list).0;
        }
        let kind = self.inference();
        *self = self.asserted();
        let new = self.add_sorted(groups);
        // Without limits it fails only where the dictionary has no room for words, which it has already.
        let _ = self.infer(kind, Limits::NONE);
        new
    }

    /// Follows the changes of one graph. Nothing if it must be closed anew; it is as it was then.
    fn change_graph(&mut self, g: Id, adds: &[Quad], removes: &[Quad]) -> Option<()> {
        let made = self.rules_of(g)?;
        let fact = |q: &Quad| (q.s, q.p, q.o);
        if adds.iter().chain(removes).any(|q| made.is_schema(fact(q))) {
            return None;
        }
        let steps = STEPS.max(self.graph(g).map_or(0, |x| x.len()) / PART);
        if adds.len() + removes.len() > steps {
            return None;
        }
        // Taken out, so that nobody else has them and they change in place.
        let whole = self.take_graph(g);
        let layer = self.inferred.as_mut()?;
        let inferred = Arc::make_mut(layer).graphs.remove(&g).unwrap_or_default();
        let mut change = Change {
            made: &made,
            dictionary: &self.dictionary,
            whole,
            inferred,
            done: Vec::new(),
            steps,
        };
        let adds: Vec<Fact> = adds.iter().map(fact).collect();
        let removes: Vec<Fact> = removes.iter().map(fact).collect();
        let done = change.run(&adds, &removes);
        if done.is_err() {
            change.undo();
        }
        let (whole, inferred) = (change.whole, change.inferred);
        self.put_graph(g, whole);
        let layer = self.inferred.as_mut()?;
        if !inferred.is_empty() {
            Arc::make_mut(layer).graphs.insert(g, inferred);
        }
        done.ok()
    }

    /// Changes graphs and closes them anew; all, if the default graph is among them, for its schema is theirs.
    fn change_anew(&mut self, graphs: &BTreeSet<Id>, list: &[(Quad, bool)]) {
        let Some(layer) = self.inferred.clone() else {
            return;
        };
        let all = graphs.contains(&UNBOUND);
        for (g, inferred) in &layer.graphs {
            if (all || graphs.contains(g))
                && let Some(graph) = self.graph(*g)
            {
                let asserted = graph.without(inferred);
                self.put_graph(*g, Arc::new(asserted));
            }
        }
        let mut kept = Layer::new(layer.kind);
        if !all {
            kept = (*layer).clone();
            kept.graphs.retain(|g, _| !graphs.contains(g));
            kept.made.retain(|g, _| !graphs.contains(g));
        }
        self.inferred = None;
        self.change(list);
        self.inferred = Some(Arc::new(kept));
        let close: Vec<Id> = if all {
            std::iter::once(UNBOUND).chain(self.names()).collect()
        } else {
            graphs.iter().copied().collect()
        };
        for g in close {
            // Without limits it does not fail.
            let _ = self.close_graph(g, Limits::NONE);
        }
    }

    /// Takes a graph away with all that is inferred of it.
    pub(crate) fn clear_inferring(&mut self, g: Id) -> bool {
        let list: Vec<(Quad, bool)> = match self.graph(g) {
            Some(graph) if g == UNBOUND => graph
                .triples()
                .map(|(s, p, o)| (Quad { s, p, o, g }, false))
                .collect(),
            Some(_) => Vec::new(),
            None => return false,
        };
        if g != UNBOUND {
            if let Some(layer) = &mut self.inferred {
                let layer = Arc::make_mut(layer);
                layer.graphs.remove(&g);
                layer.made.remove(&g);
            }
            return self.remove_graph(g);
        }
        if list.is_empty() {
            return false;
        }
        if let Some(layer) = &mut self.inferred {
            let layer = Arc::make_mut(layer);
            layer.graphs.remove(&UNBOUND);
        }
        self.remove_graph(UNBOUND);
        // The other graphs may have seen its schema.
        self.change_anew(&BTreeSet::from([UNBOUND]), &[]);
        true
    }
}
