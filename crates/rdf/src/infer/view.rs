//! What is inferred, as it shows to somebody who may not see all graphs.

use super::bulk::Limits;
use super::words::Words;
use super::{Besides, Layer};
use crate::error::Result;
use crate::guard::is_derived_graph;
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Closures of named graphs by what they say about classes and properties themselves, for those who may not see the default graph.
/// Each belongs to one state of its graph.
#[derive(Debug, Default)]
pub(crate) struct Closures(Mutex<BTreeMap<Id, Closure>>);

#[derive(Debug)]
struct Closure {
    /// The graph as it was closed with the default graph's schema.
    of: Weak<Graph>,
    whole: Arc<Graph>,
    inferred: Option<Arc<Graph>>,
}

impl Dataset {
    /// The triples of a graph that are asserted.
    pub fn asserted_graph(&self, g: Id) -> Option<Arc<Graph>> {
        let graph = self.graph(g)?;
        Some(match self.inferred_graph(g) {
            Some(inferred) => Arc::new(graph.without(inferred)),
            None => Arc::clone(graph),
        })
    }

    /// Makes it what somebody sees who may not see the graphs `hidden`: those are not there, the graph `shown` asserts the triples that
    /// are given here and no others, nothing follows from what is not seen, and the order of answers and dumps follows from what the terms
    /// say ([`Self::make_view`]). From the host's own graphs ([`crate::Options::derived`]) nothing is inferred. If it fails, the dataset
    /// is of no use.
    pub fn hide(
        &mut self,
        hidden: &[Id],
        shown: Option<(Id, Arc<Graph>)>,
        derived: &str,
        limits: Limits<'_>,
    ) -> Result<()> {
        self.make_view();
        let alone = hidden.contains(&UNBOUND) && self.has_schema_besides(limits)?;
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
                besides: Some(Arc::new(Besides::default())),
                ..Layer::new(layer.kind)
            };
            let closed = |g: &Id| !is_derived_graph(derived, self, *g);
            let graphs: Vec<Id> = self.names().filter(closed).collect();
            for g in graphs {
                self.close_alone(g, limits)?;
            }
        }
        match shown {
            Some((g, graph)) => self.close_again(g, graph, limits),
            None => Ok(()),
        }
    }

    /// Whether named graphs are closed by more than they say themselves.
    fn has_schema_besides(&self, limits: Limits<'_>) -> Result<bool> {
        let Some(layer) = &self.inferred else {
            return Ok(false);
        };
        limits.check()?;
        if let Some(besides) = &layer.besides {
            return Ok(!besides.asserted.is_empty());
        }
        let words = Words::find(&self.dictionary);
        let graph = self.graph(UNBOUND);
        Ok(graph.is_some_and(|g| !words.schema_of(g, layer.owl()).is_empty()))
    }

    /// Closes a graph of which nothing is inferred.
    fn close_again(&mut self, g: Id, asserted: Arc<Graph>, limits: Limits<'_>) -> Result<()> {
        self.put_graph(g, asserted);
        if let Some(layer) = &mut self.inferred {
            Arc::make_mut(layer).graphs.remove(&g);
        }
        self.close_graph(g, limits)
    }

    /// Closes a named graph by what it says itself.
    fn close_alone(&mut self, g: Id, limits: Limits<'_>) -> Result<()> {
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
        self.close_again(g, asserted, limits)?;
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
