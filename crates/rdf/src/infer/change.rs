//! Incremental maintenance of the closure: each changed triple is followed. Changes of the schema, and changes above a limit, recompute the
//! closure of the graphs.

use super::bulk::{Limits, is_literal};
use super::rules::{Fact, FactView};
use super::{GraphRules, Layer};
use crate::dictionary::Dictionary;
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph, Quad, pack, unpack};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Steps that are always followed incrementally, and the divisor of a graph's size that gives the limit for large graphs.
const STEPS: usize = 20_000;
const PART: usize = 16;

/// A graph as queries see it, together with the shared schema.
struct VisibleGraph<'a> {
    graph: &'a Graph,
    shared_schema: &'a Graph,
    dictionary: &'a Dictionary,
}

impl VisibleGraph<'_> {
    fn both(&self) -> impl Iterator<Item = &Graph> {
        [self.graph, self.shared_schema].into_iter()
    }
}

impl FactView for VisibleGraph<'_> {
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

/// Marker: the closure must be recomputed.
struct Recompute;

impl GraphRules {
    /// Returns whether a fact belongs to the schema.
    fn is_schema(&self, (s, p, o): Fact) -> bool {
        let w = &self.rules.vocabulary;
        w.predicates(self.rules.owl).any(|x| x == p)
            || (self.rules.owl
                && ((p == w.kind && w.kinds().contains(&o))
                    || ([w.first, w.rest].contains(&p) && self.rules.lists.contains(&s))))
    }
}

/// One graph during a change.
struct GraphChange<'a> {
    graph_rules: &'a GraphRules,
    dictionary: &'a Dictionary,
    whole: Arc<Graph>,
    inferred: Arc<Graph>,
    /// Undo log: whether the fact is in the whole graph or in the inferred one, the fact, and whether it was added.
    done: Vec<(bool, Fact, bool)>,
    steps: usize,
}

impl GraphChange<'_> {
    fn visible(&self) -> VisibleGraph<'_> {
        VisibleGraph {
            graph: &self.whole,
            shared_schema: &self.graph_rules.shared_schema.closed,
            dictionary: self.dictionary,
        }
    }

    fn step(&mut self) -> Result<(), Recompute> {
        self.steps = self.steps.checked_sub(1).ok_or(Recompute)?;
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

    /// Undoes all changes.
    fn undo(&mut self) {
        for (whole, fact, add) in std::mem::take(&mut self.done).into_iter().rev() {
            self.put(whole, fact, !add);
        }
    }

    /// Adds all facts that follow from these facts, transitively.
    fn follow(&mut self, mut left: Vec<Fact>) -> Result<(), Recompute> {
        let mut out = Vec::new();
        while let Some(fact) = left.pop() {
            self.step()?;
            self.graph_rules
                .rules
                .follow(fact, &self.visible(), &mut out);
            for new in out.drain(..) {
                if self.visible().has(new.0, new.1, new.2) {
                    continue;
                }
                if self.graph_rules.is_schema(new) {
                    return Err(Recompute);
                }
                self.put_inferred(new, true);
                left.push(new);
            }
        }
        Ok(())
    }

    fn run(&mut self, adds: &[Fact], removes: &[Fact]) -> Result<(), Recompute> {
        if !removes.is_empty() {
            self.remove(removes)?;
        }
        let mut new = Vec::with_capacity(adds.len());
        for fact in adds {
            // An inferred fact becomes asserted; no new facts follow.
            if self.inferred.contains(fact.0, fact.1, fact.2) {
                self.put(false, *fact, false);
            } else {
                self.put(true, *fact, true);
                new.push(*fact);
            }
        }
        self.follow(new)
    }

    /// Removes asserted facts and the facts that no longer follow: over-deletion, then re-derivation.
    fn remove(&mut self, facts: &[Fact]) -> Result<(), Recompute> {
        let mut gone: HashSet<Fact> = facts.iter().copied().collect();
        let mut order = facts.to_vec();
        let mut at = 0;
        let mut out = Vec::new();
        while let Some(fact) = order.get(at).copied() {
            at += 1;
            self.step()?;
            self.graph_rules
                .rules
                .follow(fact, &self.visible(), &mut out);
            for new in out.drain(..) {
                if self.inferred.contains(new.0, new.1, new.2) && gone.insert(new) {
                    if self.graph_rules.is_schema(new) {
                        return Err(Recompute);
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
            let shared_schema = &self.graph_rules.shared_schema.closed;
            if shared_schema.contains(fact.0, fact.1, fact.2) {
                continue;
            }
            if self.graph_rules.rules.derivable(*fact, &self.visible()) {
                self.put_inferred(*fact, true);
                back.push(*fact);
            }
        }
        self.follow(back)
    }
}

impl Dataset {
    /// Applies changes to asserted quads in order and updates the inferred ones. Returns how many were added and removed.
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
            self.change_and_recompute(&anew, &list);
        }
        (added, removed)
    }

    /// Adds many quads at once, given as packed pairs by (graph, predicate).
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
        // Without limits this fails only if the dictionary has no room for the vocabulary, which it already contains.
        let _ = self.infer(kind, Limits::NONE);
        new
    }

    /// Applies changes to one graph incrementally. Returns `None`, with the graph unchanged, if the closure must be recomputed.
    fn change_graph(&mut self, g: Id, adds: &[Quad], removes: &[Quad]) -> Option<()> {
        let graph_rules = self.rules_of(g)?;
        let fact = |q: &Quad| (q.s, q.p, q.o);
        if adds
            .iter()
            .chain(removes)
            .any(|q| graph_rules.is_schema(fact(q)))
        {
            return None;
        }
        let steps = STEPS.max(self.graph(g).map_or(0, |x| x.len()) / PART);
        if adds.len() + removes.len() > steps {
            return None;
        }
        // Taken out of the dataset, so that they are unshared and change in place.
        let whole = self.take_graph(g);
        let layer = self.inferred.as_mut()?;
        let inferred = Arc::make_mut(layer).graphs.remove(&g).unwrap_or_default();
        let mut change = GraphChange {
            graph_rules: &graph_rules,
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

    /// Applies changes and recomputes the closure of these graphs; of all graphs if the default graph is among them, because they share its
    /// schema.
    fn change_and_recompute(&mut self, graphs: &BTreeSet<Id>, list: &[(Quad, bool)]) {
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
            kept.graph_rules.retain(|g, _| !graphs.contains(g));
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
            // Cannot fail without limits.
            let _ = self.close_graph(g, Limits::NONE);
        }
    }

    /// Removes a graph with everything inferred from it.
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
                layer.graph_rules.remove(&g);
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
        // Other graphs may have used its schema.
        self.change_and_recompute(&BTreeSet::from([UNBOUND]), &[]);
        true
    }
}
