//! Input bindings: solutions for a part of a query that were computed elsewhere.

use crate::dictionary::Key;
use crate::error::Result;
use crate::id::{Id, UNBOUND};
use crate::quads::Dataset;
use oxrdf::NamedNode;
use spargebra::algebra::GraphPattern;
use spargebra::term::NamedNodePattern;

/// Prefix of the endpoint IRI that refers to [`crate::Options::input_bindings`]; the index follows.
const GIVEN: &str = "urn:esker:given:";

/// Precomputed solutions of a part of a query, in term ids of the dataset on which the rest of the query runs.
#[derive(Debug, Clone, Default)]
pub struct InputBindings {
    /// Names of the variables.
    pub names: Vec<String>,
    /// Term ids of each solution.
    pub rows: Vec<Vec<Id>>,
}

impl InputBindings {
    /// Creates input bindings without solutions.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            names,
            rows: Vec::new(),
        }
    }

    /// Adds a solution; its terms are added to the dataset's dictionary.
    pub fn push<'k>(
        &mut self,
        data: &mut Dataset,
        row: impl IntoIterator<Item = Option<Key<'k>>>,
    ) -> Result<()> {
        let ids = row
            .into_iter()
            .map(|key| key.map_or(Ok(UNBOUND), |key| data.dictionary.intern(&key)))
            .collect::<Result<_>>()?;
        self.rows.push(ids);
        Ok(())
    }

    /// Returns the pattern that refers to item `n` of [`crate::Options::input_bindings`]. Its solutions bind the variables `names`.
    pub fn pattern(n: usize, names: &[String]) -> GraphPattern {
        GraphPattern::Service {
            name: NamedNode::new_unchecked(format!("{GIVEN}{n}")).into(),
            inner: Box::new(GraphPattern::Values {
                variables: names.iter().map(oxrdf::Variable::new_unchecked).collect(),
                bindings: Vec::new(),
            }),
            silent: false,
        }
    }

    /// Returns the index to which an endpoint's IRI refers.
    pub(crate) fn index_of(name: &NamedNodePattern) -> Option<usize> {
        match name {
            NamedNodePattern::NamedNode(n) => n.as_str().strip_prefix(GIVEN)?.parse().ok(),
            NamedNodePattern::Variable(_) => None,
        }
    }
}
