//! Access control of graphs: the engine asks the host about rights.

use crate::error::Result;
use crate::id::Id;
use crate::quads::Dataset;
use oxrdf::Term;
use std::fmt;

/// Rights of a principal that may not see or change everything.
pub trait Guard: fmt::Debug + Sync {
    /// Returns the data visible to the principal: an update's patterns match only this, and only graphs in it exist for the update.
    fn view(&self, data: &Dataset) -> Result<Dataset>;

    /// Refuses a change of the named graph, or of the default graph. Called before the engine checks whether the change has any effect,
    /// because that would reveal the contents of the graph.
    fn check_change(&self, data: &Dataset, graph: Option<&Term>) -> Result<()>;
}

/// Returns whether an IRI names a graph that the host derives from other data: `derived` itself, or continued by `?`. No update changes
/// such graphs, and nothing is inferred from them.
pub(crate) fn is_derived(derived: &str, iri: &str) -> bool {
    !derived.is_empty()
        && iri
            .strip_prefix(derived)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
}

/// Returns whether a graph of the data is derived ([`is_derived`]).
pub(crate) fn is_derived_graph(derived: &str, data: &Dataset, g: Id) -> bool {
    !derived.is_empty()
        && matches!(data.dictionary.term(g), Some(Term::NamedNode(n)) if is_derived(derived, n.as_str()))
}
