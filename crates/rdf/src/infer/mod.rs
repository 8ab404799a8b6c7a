//! Inference by materialisation: what follows from a graph by the rules of RDFS or OWL 2 RL stands in it, and is told
//! apart.
//!
//! The graphs of a [`Dataset`] are what queries see: asserted and inferred triples in the same sorted columns. Beside
//! them a [`Layer`] holds those that are inferred only. A load closes all graphs set by set ([`bulk`]); a small change
//! follows each triple ([`change`]): what is added by the same rules, what is taken away by over-deletion and
//! re-derivation.
//!
//! Each graph is closed by itself; to a named graph also what the default graph says about classes and properties
//! counts. What follows from that alone stands in the default graph only.

mod bulk;
mod change;
mod fire;
mod lists;
mod order;
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use bulk::Limits;
pub(crate) use view::Closures;

use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph, Quad};
use bulk::Work;
use rules::{Fact, Rules};
use std::collections::BTreeMap;
use std::sync::Arc;
use words::Words;

/// Which rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// RDFS: subclasses, subproperties, domains, ranges.
    Rdfs,
    /// OWL 2 RL, as far as docs/internals/rdf.md lists it.
    OwlRl,
}

impl Inference {
    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdfs => "rdfs",
            Self::OwlRl => "owl-rl",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Rdfs => 1,
            Self::OwlRl => 2,
        }
    }

    pub(crate) fn of_code(code: u8) -> Result<Self> {
        match code {
            1 => Ok(Self::Rdfs),
            2 => Ok(Self::OwlRl),
            other => Err(Error::Corrupt(format!("no rules of inference are {other}"))),
        }
    }
}

/// What is inferred.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) kind: Inference,
    /// Triples that are inferred and not asserted.
    pub(crate) graphs: BTreeMap<Id, Arc<Graph>>,
    /// The rules of graphs that say something about classes and properties, made when they are needed.
    made: BTreeMap<Id, Arc<Made>>,
    /// Those of all other named graphs.
    common: Option<Arc<Made>>,
    /// What named graphs see besides themselves.
    besides: Option<Arc<Besides>>,
}

/// A graph's rules.
#[derive(Debug)]
struct Made {
    rules: Rules,
    besides: Arc<Besides>,
}

/// What the default graph says about classes and properties, as other graphs see it.
#[derive(Debug, Default)]
struct Besides {
    asserted: Vec<Fact>,
    /// That and what follows from it.
    closed: Graph,
}

impl Layer {
    pub(crate) const fn new(kind: Inference) -> Self {
        Self {
            kind,
            graphs: BTreeMap::new(),
            made: BTreeMap::new(),
            common: None,
            besides: None,
        }
    }

    const fn owl(&self) -> bool {
        matches!(self.kind, Inference::OwlRl)
    }

    /// Bytes of its columns.
    fn bytes(&self) -> usize {
        self.graphs.values().map(|g| g.bytes()).sum()
    }
}

impl Dataset {
    /// By which rules its graphs are closed.
    pub fn inference(&self) -> Option<Inference> {
        self.inferred.as_ref().map(|l| l.kind)
    }

    /// The triples of a graph that are inferred and not asserted.
    pub fn inferred_graph(&self, g: Id) -> Option<&Graph> {
        self.inferred.as_ref()?.graphs.get(&g).map(|x| &**x)
    }

    /// How many triples are inferred and not asserted.
    pub fn inferred_len(&self) -> usize {
        self.inferred
            .as_ref()
            .map_or(0, |l| l.graphs.values().map(|g| g.len()).sum())
    }

    /// Bytes of what tells inferred triples from others.
    pub fn inferred_bytes(&self) -> usize {
        self.inferred.as_ref().map_or(0, |l| l.bytes())
    }

    /// Whether that quad was asserted.
    pub fn is_asserted(&self, q: &Quad) -> bool {
        self.graph(q.g).is_some_and(|g| g.contains(q.s, q.p, q.o))
            && !self
                .inferred_graph(q.g)
                .is_some_and(|g| g.contains(q.s, q.p, q.o))
    }

    /// Asserted triples of a graph.
    pub fn asserted_len(&self, g: Id) -> usize {
        let all = self.graph(g).map_or(0, |x| x.len());
        all - self.inferred_graph(g).map_or(0, Graph::len)
    }

    /// The same without inference: asserted quads only.
    #[must_use]
    pub fn asserted(&self) -> Self {
        let mut data = self.clone();
        let Some(layer) = data.inferred.take() else {
            return data;
        };
        for (g, inferred) in &layer.graphs {
            if let Some(graph) = self.graph(*g) {
                data.put_graph(*g, Arc::new(graph.without(inferred)));
            }
        }
        data
    }

    /// Closes all graphs anew by these rules, or forgets what was inferred. Nothing is changed if it fails.
    pub fn infer(&mut self, kind: Option<Inference>, limits: Limits<'_>) -> Result<()> {
        let mut data = self.asserted();
        if let Some(kind) = kind {
            Words::intern(&mut data.dictionary)?;
            data.inferred = Some(Arc::new(Layer::new(kind)));
            let graphs: Vec<Id> = std::iter::once(UNBOUND).chain(data.names()).collect();
            for g in graphs {
                data.close_graph(g, limits)?;
            }
        }
        *self = data;
        Ok(())
    }

    /// Closes one graph, of which nothing is inferred yet. The default graph comes first.
    fn close_graph(&mut self, g: Id, limits: Limits<'_>) -> Result<()> {
        let Some(graph) = self.graph(g).cloned() else {
            return Ok(());
        };
        let Some(owl) = self.inferred.as_ref().map(|l| l.owl()) else {
            return Ok(());
        };
        let words = Words::find(&self.dictionary);
        let besides = self.besides(g, &words, owl, limits)?;
        let mut work = Work::new(&graph, &besides.asserted, &self.dictionary, words, limits);
        let rules = work.close(owl)?;
        let inferred = Graph::from_pairs(work.finish(Some(&besides.closed)));
        let whole = Graph::union_of(&graph, &inferred);
        let own = g == UNBOUND || !words.schema_of(&whole, owl).is_empty();
        let Some(layer) = &mut self.inferred else {
            return Ok(());
        };
        let layer = Arc::make_mut(layer);
        let made = Arc::new(Made { rules, besides });
        if own {
            layer.made.insert(g, made);
        } else if layer.common.is_none() {
            layer.common = Some(made);
        }
        if !inferred.is_empty() {
            layer.graphs.insert(g, Arc::new(inferred));
            self.put_graph(g, Arc::new(whole));
        }
        Ok(())
    }

    /// What a graph sees besides itself.
    fn besides(
        &mut self,
        g: Id,
        words: &Words,
        owl: bool,
        limits: Limits<'_>,
    ) -> Result<Arc<Besides>> {
        if g == UNBOUND {
            return Ok(Arc::default());
        }
        if let Some(known) = self.inferred.as_ref().and_then(|l| l.besides.clone()) {
            return Ok(known);
        }
        let mut asserted = match self.graph(UNBOUND) {
            Some(graph) => words.schema_of(graph, owl),
            None => Vec::new(),
        };
        if let Some(inferred) = self.inferred_graph(UNBOUND) {
            asserted.retain(|(s, p, o)| !inferred.contains(*s, *p, *o));
        }
        let empty = Graph::default();
        let mut work = Work::new(&empty, &asserted, &self.dictionary, *words, limits);
        work.close(owl)?;
        let closed = Graph::from_pairs(work.finish(None));
        let besides = Arc::new(Besides { asserted, closed });
        if let Some(layer) = &mut self.inferred {
            Arc::make_mut(layer).besides = Some(besides.clone());
        }
        Ok(besides)
    }

    /// The rules of a graph, which are found again if the dataset was read from an image.
    fn rules_of(&mut self, g: Id) -> Option<Arc<Made>> {
        let layer = self.inferred.as_ref()?;
        if let Some(made) = layer.made.get(&g) {
            return Some(made.clone());
        }
        let owl = layer.owl();
        let common = layer.common.clone();
        let words = Words::find(&self.dictionary);
        let graph = self.graph(g).cloned().unwrap_or_default();
        let own = g == UNBOUND || !words.schema_of(&graph, owl).is_empty();
        if let (false, Some(made)) = (own, common) {
            return Some(made);
        }
        let besides = self.besides(g, &words, owl, Limits::NONE).ok()?;
        // What is there is closed already: this reads the schema and finds nothing new.
        let all: Vec<Fact> = besides.closed.triples().collect();
        let work = Work::new(&graph, &all, &self.dictionary, words, Limits::NONE);
        let rules = schema::compile(&work, &words, owl);
        let made = Arc::new(Made { rules, besides });
        let layer = Arc::make_mut(self.inferred.as_mut()?);
        if own {
            layer.made.insert(g, made.clone());
        } else {
            layer.common = Some(made.clone());
        }
        Some(made)
    }
}
