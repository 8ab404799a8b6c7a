//! Inferred triples in the view of a principal that may not see all graphs.

use super::bulk::Limits;
use super::vocabulary::Vocabulary;
use super::{Layer, SharedSchema};
use crate::error::Result;
use crate::guard::is_derived_graph;
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Cached closures of named graphs by their own schema only, for principals that may not see the default graph. Each belongs to one state
/// of its graph.
#[derive(Debug, Default)]
pub(crate) struct Closures(Mutex<BTreeMap<Id, Closure>>);

#[derive(Debug)]
struct Closure {
    /// The graph as closed with the default graph's schema.
    of: Weak<Graph>,
    whole: Arc<Graph>,
    inferred: Option<Arc<Graph>>,
}

impl Dataset {
    /// Returns the asserted triples of a graph.
    pub fn asserted_graph(&self, g: Id) -> Option<Arc<Graph>> {
        let graph = self.graph(g)?;
        Some(match self.inferred_graph(g) {
            Some(inferred) => Arc::new(graph.without(inferred)),
            None => Arc::clone(graph),
        })
    }

    /// Restricts the dataset to the view of a principal that may not see the graphs `hidden`: these are removed, the graph `shown` asserts
    /// exactly the given triples, inferred triples follow only from visible ones, and the order of answers and dumps depends only on the
    /// terms ([`Self::make_view`]). Nothing is inferred from the host's derived graphs ([`crate::Options::derived`]). On failure the
    /// dataset must be dropped.
    pub fn hide(
        &mut self,
        hidden: &[Id],
        shown: Option<(Id, Arc<Graph>)>,
        derived: &str,
        limits: Limits<'_>,
    ) -> Result<()> {
        self.make_view();
        let alone = hidden.contains(&UNBOUND) && self.has_shared_schema(limits)?;
        for g in hidden {
            self.put_graph(*g, Arc::default());
        }
        let Some(layer) = &mut self.inferred else {
            if let Some((g, graph)) = shown {
                self.put_graph(g, graph);
            }
            return Ok(());
        };
        let layer = Arc::make_mut(layer);
        for g in hidden {
            layer.graphs.remove(g);
        }
        if alone {
            *layer = Layer {
                graphs: std::mem::take(&mut layer.graphs),
                shared_schema: Some(Arc::new(SharedSchema::default())),
                ..Layer::new(layer.kind)
            };
            let closed = |g: &Id| !is_derived_graph(derived, self, *g);
            let graphs: Vec<Id> = self.names().filter(closed).collect();
            for g in graphs {
                self.close_by_own_schema(g, limits)?;
            }
        }
        match shown {
            Some((g, graph)) => self.recompute_closure(g, graph, limits),
            None => Ok(()),
        }
    }

    /// Returns whether named graphs use a shared schema.
    fn has_shared_schema(&self, limits: Limits<'_>) -> Result<bool> {
        let Some(layer) = &self.inferred else {
            return Ok(false);
        };
        limits.check()?;
        if let Some(shared_schema) = &layer.shared_schema {
            return Ok(!shared_schema.asserted.is_empty());
        }
        let vocabulary = Vocabulary::find(&self.dictionary);
        let graph = self.graph(UNBOUND);
        Ok(graph.is_some_and(|g| !vocabulary.schema_of(g, layer.owl()).is_empty()))
    }

    /// Recomputes the closure of a graph from its asserted triples.
    fn recompute_closure(&mut self, g: Id, asserted: Arc<Graph>, limits: Limits<'_>) -> Result<()> {
        self.put_graph(g, asserted);
        if let Some(layer) = &mut self.inferred {
            Arc::make_mut(layer).graphs.remove(&g);
        }
        self.close_graph(g, limits)
    }

    /// Recomputes the closure of a named graph by its own schema only.
    fn close_by_own_schema(&mut self, g: Id, limits: Limits<'_>) -> Result<()> {
        let (Some(graph), Some(asserted)) = (self.graph(g).cloned(), self.asserted_graph(g)) else {
            return Ok(());
        };
        let closures = Arc::clone(&self.closures);
        let lock = || closures.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&g)
            && known.of.ptr_eq(&Arc::downgrade(&graph))
        {
            let (whole, inferred) = (known.whole.clone(), known.inferred.clone());
            self.put_graph(g, whole);
            if let Some(layer) = &mut self.inferred {
                let graphs = &mut Arc::make_mut(layer).graphs;
                match inferred {
                    Some(inferred) => drop(graphs.insert(g, inferred)),
                    None => drop(graphs.remove(&g)),
                }
            }
            return Ok(());
        }
        self.recompute_closure(g, asserted, limits)?;
        let inferred = self.inferred.as_ref();
        let closure = Closure {
            of: Arc::downgrade(&graph),
            whole: self.graph(g).cloned().unwrap_or_default(),
            inferred: inferred.and_then(|layer| layer.graphs.get(&g).cloned()),
        };
        let mut all = lock();
        all.retain(|_, closure| closure.of.strong_count() > 0);
        all.insert(g, closure);
        Ok(())
    }
}
