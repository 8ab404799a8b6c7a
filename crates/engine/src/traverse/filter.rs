//! Conditions on vertices and edges, with resolved names.

use esker_model::filter::{EdgeFields, Expr, Prepared, PreparedTest, ValueRef, VertexFields};
use esker_model::traversal::Filter;
use esker_model::{Edge, EdgeTypeId, Result, Schema, Vertex, VertexTypeId};
use std::collections::BTreeMap;
use std::fmt;

/// The name of a vertex's key in conditions.
const KEY: &str = "key";

/// A condition on a vertex.
#[derive(Debug, Clone)]
pub(crate) struct VertexFilter {
    condition: Condition<VertexTypeId>,
    filter: Filter,
    /// Whether the condition uses the key, which for a file is its present path.
    uses_key: bool,
}

/// A condition on an edge.
#[derive(Debug, Clone)]
pub(crate) struct EdgeFilter {
    condition: Condition<EdgeTypeId>,
    filter: Filter,
}

/// A condition on a vertex or an edge with type ids `T`.
#[derive(Debug, Clone)]
enum Condition<T> {
    /// A test of the attribute with exactly that name.
    Attribute(String, PreparedTest),
    /// A condition with special names or in the filter language.
    Where {
        condition: Prepared,
        /// Names of all types, if the condition uses them.
        types: BTreeMap<T, String>,
    },
}

impl<T: Ord> Condition<T> {
    /// `special`: names with a special meaning in `va(attribute, …)` and `ea(attribute, …)`. `bind`: resolves a condition against
    /// the schema. `types`: all types and their names.
    fn new(
        filter: &Filter,
        special: &[&str],
        bind: impl FnOnce(Expr) -> Result<Expr>,
        types: impl Iterator<Item = (T, String)>,
    ) -> Result<Self> {
        let expr = match filter {
            Filter::Attribute {
                attribute,
                predicate,
            } if !special.contains(&attribute.as_str()) => {
                let test = PreparedTest::new(&predicate.test());
                return Ok(Self::Attribute(attribute.clone(), test));
            }
            Filter::Attribute {
                attribute,
                predicate,
            } => Expr::term(attribute.as_str(), predicate.test()),
            Filter::Where(expr) => expr.clone(),
        };
        let asks = expr.names().contains(&"type");
        Ok(Self::Where {
            condition: Prepared::new(&bind(expr)?),
            types: types.filter(|_| asks).collect(),
        })
    }
}

impl VertexFilter {
    pub(crate) fn new(schema: &Schema, filter: &Filter) -> Result<Self> {
        let bind = |expr: Expr| expr.with_vertex_types(schema);
        let uses_key = match filter {
            Filter::Attribute { attribute, .. } => attribute == KEY,
            Filter::Where(expr) => expr.names().contains(&KEY),
        };
        let types = schema.vertex_types().map(|(id, t)| (id, t.name.clone()));
        Ok(Self {
            condition: Condition::new(filter, &["type", KEY, "version"], bind, types)?,
            filter: filter.clone(),
            uses_key,
        })
    }

    /// Whether the filter uses the vertex's key.
    pub(crate) fn uses_key(&self) -> bool {
        self.uses_key
    }

    pub(crate) fn matches(&self, vertex: &Vertex) -> bool {
        match &self.condition {
            Condition::Attribute(name, test) => vertex
                .attribute(name)
                .is_some_and(|value| test.matches(ValueRef::from(value))),
            Condition::Where { condition, types } => {
                let type_name = types.get(&vertex.type_id).map(String::as_str);
                condition.matches(&VertexFields { vertex, type_name })
            }
        }
    }
}

impl EdgeFilter {
    pub(crate) fn new(schema: &Schema, filter: &Filter) -> Result<Self> {
        let bind = |expr: Expr| expr.with_edge_types(schema);
        let types = schema.edge_types().map(|(id, t)| (id, t.name.clone()));
        Ok(Self {
            condition: Condition::new(filter, &["type", "version"], bind, types)?,
            filter: filter.clone(),
        })
    }

    pub(crate) fn matches(&self, edge: &Edge) -> bool {
        match &self.condition {
            Condition::Attribute(name, test) => edge
                .properties
                .get(name)
                .is_some_and(|value| test.matches(ValueRef::from(value))),
            Condition::Where { condition, types } => {
                let type_name = types.get(&edge.key.edge_type).map(String::as_str);
                condition.matches(&EdgeFields { edge, type_name })
            }
        }
    }
}

/// Formats the filter as in a chain.
impl fmt::Display for VertexFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va({})", self.filter)
    }
}

/// Formats the filter as in a chain.
impl fmt::Display for EdgeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ea({})", self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::Traversal;

    #[test]
    fn a_filter_asks_for_the_key_by_its_name_only() {
        let schema = Schema::default();
        for (chain, asks) in [
            (r#"v("job:1").va("key", EQ, "1")"#, true),
            (r#"v("job:1").va("key LIKE '/a/%'")"#, true),
            (r#"v("job:1").va("NOT (size > 1 OR key = '/a')")"#, true),
            (r#"v("job:1").va("keyboard", EQ, "1")"#, false),
            (r#"v("job:1").va("keyword = 'key'")"#, false),
            (r#"v("job:1").va("name = 'key'")"#, false),
        ] {
            let chain = Traversal::parse_at(chain, 0).unwrap_or_else(|e| panic!("{chain}: {e}"));
            let [filter] = &chain.start_filters[..] else {
                panic!("{chain}")
            };
            let filter = VertexFilter::new(&schema, filter).unwrap();
            assert_eq!(filter.uses_key(), asks, "{chain}");
        }
    }
}
