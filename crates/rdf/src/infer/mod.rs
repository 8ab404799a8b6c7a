//! Inference by materialization: triples that follow from a graph by the rules of RDFS or OWL 2 RL are stored in the graph and marked as
//! inferred.
//!
//! The graphs of a [`Dataset`] are what queries see: asserted and inferred triples in the same sorted columns. Beside them, a [`Layer`] has
//! the triples that are only inferred. A load computes the closure of all graphs set at a time ([`bulk`]); a small change follows each
//! triple ([`change`]): additions by the same rules, removals by over-deletion and re-derivation.
//!
//! Each graph is closed separately; a named graph also uses the schema of the default graph. Triples that follow from that schema alone are
//! only in the default graph.

mod bulk;
mod change;
mod lists;
mod order;
mod rule_application;
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod view;
mod vocabulary;

pub use bulk::Limits;
pub(crate) use view::Closures;

use crate::error::{Error, Result};
use crate::id::{Id, UNBOUND};
use crate::quads::{Dataset, Graph, Quad};
use bulk::ClosureBuilder;
use rules::{Fact, Rules};
use std::collections::BTreeMap;
use std::sync::Arc;
use vocabulary::Vocabulary;

/// Rule set for inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// RDFS: subclasses, subproperties, domains, ranges.
    Rdfs,
    /// OWL 2 RL, to the extent listed in docs/internals/rdf.md.
    OwlRl,
}

impl Inference {
    /// Returns the name on the command line.
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
            other => Err(Error::Corrupt(format!(
                "unknown rules of inference {other}"
            ))),
        }
    }
}

/// Inferred triples of a dataset, with the rules.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) kind: Inference,
    /// Triples that are inferred and not asserted.
    pub(crate) graphs: BTreeMap<Id, Arc<Graph>>,
    /// Rules of graphs that have a schema of their own, compiled when needed.
    graph_rules: BTreeMap<Id, Arc<GraphRules>>,
    /// Rules of all other named graphs.
    common: Option<Arc<GraphRules>>,
    /// Schema that named graphs share.
    shared_schema: Option<Arc<SharedSchema>>,
}

/// Compiled rules of a graph.
#[derive(Debug)]
struct GraphRules {
    rules: Rules,
    shared_schema: Arc<SharedSchema>,
}

/// Schema of the default graph, as named graphs see it.
#[derive(Debug, Default)]
struct SharedSchema {
    asserted: Vec<Fact>,
    /// The schema and everything that follows from it.
    closed: Graph,
}

impl Layer {
    pub(crate) const fn new(kind: Inference) -> Self {
        Self {
            kind,
            graphs: BTreeMap::new(),
            graph_rules: BTreeMap::new(),
            common: None,
            shared_schema: None,
        }
    }

    const fn owl(&self) -> bool {
        matches!(self.kind, Inference::OwlRl)
    }

    /// Returns the size of the columns in bytes.
    fn bytes(&self) -> usize {
        self.graphs.values().map(|g| g.bytes()).sum()
    }
}

impl Dataset {
    /// Returns the rule set of the dataset, if inference is on.
    pub fn inference(&self) -> Option<Inference> {
        self.inferred.as_ref().map(|l| l.kind)
    }

    /// Returns the triples of a graph that are inferred and not asserted.
    pub fn inferred_graph(&self, g: Id) -> Option<&Graph> {
        self.inferred.as_ref()?.graphs.get(&g).map(|x| &**x)
    }

    /// Returns the number of triples that are inferred and not asserted.
    pub fn inferred_len(&self) -> usize {
        self.inferred
            .as_ref()
            .map_or(0, |l| l.graphs.values().map(|g| g.len()).sum())
    }

    /// Returns the size in bytes of the columns that mark inferred triples.
    pub fn inferred_bytes(&self) -> usize {
        self.inferred.as_ref().map_or(0, |l| l.bytes())
    }

    /// Returns whether a quad is asserted.
    pub fn is_asserted(&self, q: &Quad) -> bool {
        self.graph(q.g).is_some_and(|g| g.contains(q.s, q.p, q.o))
            && !self
                .inferred_graph(q.g)
                .is_some_and(|g| g.contains(q.s, q.p, q.o))
    }

    /// Returns the number of asserted triples in a graph.
    pub fn asserted_len(&self, g: Id) -> usize {
        let all = self.graph(g).map_or(0, |x| x.len());
        all - self.inferred_graph(g).map_or(0, Graph::len)
    }

    /// Returns a copy without inference, which has only the asserted quads.
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

    /// Recomputes the closure of all graphs by these rules, or removes all inferred triples. On failure the dataset is unchanged.
    pub fn infer(&mut self, kind: Option<Inference>, limits: Limits<'_>) -> Result<()> {
        let mut data = self.asserted();
        if let Some(kind) = kind {
            Vocabulary::intern(&mut data.dictionary)?;
            data.inferred = Some(Arc::new(Layer::new(kind)));
            let graphs: Vec<Id> = std::iter::once(UNBOUND).chain(data.names()).collect();
            for g in graphs {
                data.close_graph(g, limits)?;
            }
        }
        *self = data;
        Ok(())
    }

    /// Computes the closure of one graph that has no inferred triples yet. The default graph must be closed first.
    fn close_graph(&mut self, g: Id, limits: Limits<'_>) -> Result<()> {
        let Some(graph) = self.graph(g).cloned() else {
            return Ok(());
        };
        let Some(owl) = self.inferred.as_ref().map(|l| l.owl()) else {
            return Ok(());
        };
        let vocabulary = Vocabulary::find(&self.dictionary);
        let shared_schema = self.shared_schema(g, &vocabulary, owl, limits)?;
        let mut work = ClosureBuilder::new(
            &graph,
            &shared_schema.asserted,
            &self.dictionary,
            vocabulary,
            limits,
        );
        let rules = work.close(owl)?;
        let inferred = Graph::from_pairs(work.finish(Some(&shared_schema.closed)));
        let whole = Graph::union_of(&graph, &inferred);
        let own = g == UNBOUND || !vocabulary.schema_of(&whole, owl).is_empty();
        let Some(layer) = &mut self.inferred else {
            return Ok(());
        };
        let layer = Arc::make_mut(layer);
        let graph_rules = Arc::new(GraphRules {
            rules,
            shared_schema,
        });
        if own {
            layer.graph_rules.insert(g, graph_rules);
        } else if layer.common.is_none() {
            layer.common = Some(graph_rules);
        }
        if !inferred.is_empty() {
            layer.graphs.insert(g, Arc::new(inferred));
            self.put_graph(g, Arc::new(whole));
        }
        Ok(())
    }

    /// Returns the schema that a graph shares.
    fn shared_schema(
        &mut self,
        g: Id,
        vocabulary: &Vocabulary,
        owl: bool,
        limits: Limits<'_>,
    ) -> Result<Arc<SharedSchema>> {
        if g == UNBOUND {
            return Ok(Arc::default());
        }
        if let Some(known) = self.inferred.as_ref().and_then(|l| l.shared_schema.clone()) {
            return Ok(known);
        }
        let mut asserted = match self.graph(UNBOUND) {
            Some(graph) => vocabulary.schema_of(graph, owl),
            None => Vec::new(),
        };
        if let Some(inferred) = self.inferred_graph(UNBOUND) {
            asserted.retain(|(s, p, o)| !inferred.contains(*s, *p, *o));
        }
        let empty = Graph::default();
        let mut work =
            ClosureBuilder::new(&empty, &asserted, &self.dictionary, *vocabulary, limits);
        work.close(owl)?;
        let closed = Graph::from_pairs(work.finish(None));
        let shared_schema = Arc::new(SharedSchema { asserted, closed });
        if let Some(layer) = &mut self.inferred {
            Arc::make_mut(layer).shared_schema = Some(shared_schema.clone());
        }
        Ok(shared_schema)
    }

    /// Returns the rules of a graph; they are compiled again if the dataset was read from an image.
    fn rules_of(&mut self, g: Id) -> Option<Arc<GraphRules>> {
        let layer = self.inferred.as_ref()?;
        if let Some(graph_rules) = layer.graph_rules.get(&g) {
            return Some(graph_rules.clone());
        }
        let owl = layer.owl();
        let common = layer.common.clone();
        let vocabulary = Vocabulary::find(&self.dictionary);
        let graph = self.graph(g).cloned().unwrap_or_default();
        let own = g == UNBOUND || !vocabulary.schema_of(&graph, owl).is_empty();
        if let (false, Some(graph_rules)) = (own, common) {
            return Some(graph_rules);
        }
        let shared_schema = self.shared_schema(g, &vocabulary, owl, Limits::NONE).ok()?;
        // The graph is already closed: this only reads the schema and derives nothing new.
        let all: Vec<Fact> = shared_schema.closed.triples().collect();
        let work = ClosureBuilder::new(&graph, &all, &self.dictionary, vocabulary, Limits::NONE);
        let rules = schema::compile(&work, &vocabulary, owl);
        let graph_rules = Arc::new(GraphRules {
            rules,
            shared_schema,
        });
        let layer = Arc::make_mut(self.inferred.as_mut()?);
        if own {
            layer.graph_rules.insert(g, graph_rules.clone());
        } else {
            layer.common = Some(graph_rules.clone());
        }
        Some(graph_rules)
    }
}
