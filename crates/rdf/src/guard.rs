//! Who may see and change which graphs: the host decides, the engine asks.

use crate::error::Result;
use crate::id::Id;
use crate::quads::Dataset;
use oxrdf::Term;
use std::fmt;

/// The rights of whoever sent an update and may not see or change all.
pub trait Guard: fmt::Debug + Sync {
    /// The data as they see it: what an update's patterns are matched with, and what graphs it may name as present.
    fn view(&self, data: &Dataset) -> Result<Dataset>;

    /// Refuses a change of the graph of that name, or of the default one. It is asked before the engine looks whether the change
    /// would change anything, because that would tell what the graph holds.
    fn check_change(&self, data: &Dataset, graph: Option<&Term>) -> Result<()>;
}

/// Whether that names a graph that the host derives from other data: `derived` itself, or with `?` behind it. No update changes those, and
/// nothing is inferred from them.
pub(crate) fn is_derived(derived: &str, iri: &str) -> bool {
    !derived.is_empty()
        && iri
            .strip_prefix(derived)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
}

/// The same for a graph of the data.
pub(crate) fn is_derived_graph(derived: &str, data: &Dataset, g: Id) -> bool {
    !derived.is_empty()
        && matches!(data.dictionary.term(g), Some(Term::NamedNode(n)) if is_derived(derived, n.as_str()))
}
