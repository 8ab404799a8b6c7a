//! Chains that select nothing in any graph of a schema, because edges of a hop do not leave vertices of the types before it, or because a
//! value is compared with an attribute of another kind.

use super::{Filter, Start, Traversal};
use crate::error::{Error, Result};
use crate::filter::Expr;
use crate::{EdgeTypeId, Schema, VertexTypeId};

impl Traversal {
    /// Checks that a graph of this schema can have vertices that the chain selects. The traversal itself does not need it: it finds nothing.
    ///
    /// # Errors
    /// Fails with the hop and the edge types that can be there, with the condition, or if the schema lacks a name.
    pub fn check_possible(&self, schema: &Schema) -> Result<()> {
        // Each vertex of a working set has one of these types or specialises it.
        let mut types: Vec<VertexTypeId> = match &self.start {
            Start::Type(name) => vec![schema.vertex_type_id(name)?],
            Start::Vertices(names) => names
                .iter()
                .map(|name| name.resolve(schema).map(|vertex| vertex.type_id))
                .collect::<std::result::Result<_, _>>()?,
        };
        check_filters(schema, &types, &self.start_filters)?;
        for segment in &self.segments {
            let before = types.clone();
            for hop in &segment.hops {
                let edges = edge_types(schema, &hop.edge_types)?;
                let leave = |edge: &EdgeTypeId| leaves(schema, *edge, &types);
                if !edges.iter().any(leave) {
                    return Err(impossible(schema, &hop.text(), &edges, &types));
                }
                // A repeated hop also begins where later ones end.
                let followed = edges
                    .iter()
                    .filter(|edge| segment.repeat.is_some() || leave(edge));
                let mut next: Vec<VertexTypeId> = followed
                    .filter_map(|edge| schema.edge_type(*edge))
                    .map(|edge| edge.destination)
                    .collect();
                next.sort_unstable();
                next.dedup();
                types = next;
                check_filters(schema, &types, &hop.vertex_filters)?;
            }
            if segment.repeat.is_some() {
                types.extend(before);
            }
        }
        Ok(())
    }
}

/// Returns the edge types of a hop: all of the schema if it names none.
fn edge_types(schema: &Schema, names: &[String]) -> Result<Vec<EdgeTypeId>> {
    if names.is_empty() {
        return Ok(schema.edge_types().map(|(id, _)| id).collect());
    }
    let ids = names.iter().map(|name| schema.edge_type_id(name));
    Ok(ids.collect::<std::result::Result<_, _>>()?)
}

/// Whether an edge of this type may leave a vertex of one of these types, or of a type that specialises it.
fn leaves(schema: &Schema, edge: EdgeTypeId, types: &[VertexTypeId]) -> bool {
    let source = schema.edge_type(edge).map(|edge| edge.source);
    source.is_some_and(|source| {
        let related = |t: &VertexTypeId| schema.is_a(*t, source) || schema.is_a(source, *t);
        types.iter().any(related)
    })
}

fn impossible(schema: &Schema, hop: &str, edges: &[EdgeTypeId], types: &[VertexTypeId]) -> Error {
    let edge_name = |edge: EdgeTypeId| schema.edge_type(edge).map(|edge| edge.name.as_str());
    let inverse = edges
        .iter()
        .map(|edge| schema.inverse(*edge))
        .find(|edge| leaves(schema, *edge, types));
    let advice = inverse
        .and_then(edge_name)
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    let mut from: Vec<&str> = types
        .iter()
        .filter_map(|t| schema.vertex_type(*t))
        .map(|t| t.name.as_str())
        .collect();
    from.dedup();
    let possible: Vec<&str> = schema
        .edge_types()
        .filter(|(edge, _)| leaves(schema, *edge, types))
        .filter_map(|(edge, _)| edge_name(edge))
        .collect();
    Error::Invalid(format!(
        "no such edge leaves {}: {hop}{advice} (expected one of: {})",
        from.join(" or "),
        possible.join(", ")
    ))
}

fn check_filters(schema: &Schema, types: &[VertexTypeId], filters: &[Filter]) -> Result<()> {
    let [only] = types else { return Ok(()) };
    for filter in filters {
        match filter {
            Filter::Where(expr) => expr.check_kinds_of(schema, *only)?,
            Filter::Attribute {
                attribute,
                predicate,
            } => {
                let term = Expr::term(attribute.as_str(), predicate.test());
                term.check_kinds_of(schema, *only)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_find_nothing_in_any_graph_are_mistakes() {
        let schema = Schema::default();
        let check = |chain: &str| Traversal::parse(chain).unwrap().check_possible(&schema);
        for (chain, said) in [
            (
                r#"v("job:1").e("wasWrittenBy").v()"#,
                "no such edge leaves Job: e(\"wasWrittenBy\").v(); did you mean `write`? (expected one of: ",
            ),
            (
                "v(type=User).e(run).v().e(run).v()",
                "no such edge leaves Execution: e(\"run\").v(); did you mean `wasRunBy`?",
            ),
            (
                r#"v(type=File).va("size", EQ, "large")"#,
                "`size` holds numbers; 'large' matches none (expected 10 or 10MiB, without quotes)",
            ),
            (
                r#"v("job:1").e(write).v().va("mtime", EQ, "yesterday")"#,
                "`mtime` holds times; 'yesterday' matches none",
            ),
        ] {
            let refused = check(chain).map_err(|e| e.to_string()).unwrap_err();
            assert!(refused.starts_with(said), "{chain}: {refused}");
        }
        for chain in [
            "v(type=User).e(run).v().e(read).v().e(wasWrittenBy).v()",
            r#"v("file:/a").e("wasWrittenBy").v().e("read").repeat().return_fp()"#,
            r#"v("job:1", "user:1").e(run).v()"#,
            r#"v("file:/a").e().v().e().v()"#,
            r#"v(type=DataObject).va("links", EQ, "a tag of objects")"#,
            r#"v(type=File).va("mtime", EQ, "2026-03-01")"#,
            r#"v(type=Job).va("state", EQ, 5)"#,
        ] {
            check(chain).unwrap_or_else(|e| panic!("{chain}: {e}"));
        }
    }
}
