//! Conditions on vertices and edges, with their names looked up once.

use esker_model::traversal::{Filter, Predicate};
use esker_model::{Edge, EdgeTypeId, Error, Result, Schema, Value, Version, Vertex, VertexTypeId};
use std::fmt;

/// A condition on a vertex.
#[derive(Debug, Clone)]
pub(crate) struct VertexFilter {
    what: VertexField,
    filter: Filter,
}

#[derive(Debug, Clone)]
enum VertexField {
    /// `type`: one of these, specialisations included.
    Type(Vec<VertexTypeId>),
    Key,
    Version,
    Attribute,
}

/// A condition on an edge.
#[derive(Debug, Clone)]
pub(crate) struct EdgeFilter {
    what: EdgeField,
    filter: Filter,
}

#[derive(Debug, Clone)]
enum EdgeField {
    Type(Vec<EdgeTypeId>),
    Version,
    Property,
}

impl VertexFilter {
    pub(crate) fn new(schema: &Schema, filter: &Filter) -> Result<Self> {
        let what = match filter.attribute.as_str() {
            "type" => {
                let mut all = Vec::new();
                for name in type_names(filter)? {
                    all.extend(schema.specialisations(schema.vertex_type_id(name)?));
                }
                VertexField::Type(all)
            }
            "key" => VertexField::Key,
            "version" => VertexField::Version,
            _ => VertexField::Attribute,
        };
        Ok(Self {
            what,
            filter: filter.clone(),
        })
    }

    pub(crate) fn holds(&self, vertex: &Vertex) -> bool {
        let predicate = &self.filter.predicate;
        match &self.what {
            VertexField::Type(types) => types.contains(&vertex.type_id),
            VertexField::Key => predicate.holds(&Value::String(vertex.key.clone())),
            VertexField::Version => version_holds(predicate, vertex.version),
            VertexField::Attribute => vertex
                .attribute(&self.filter.attribute)
                .is_some_and(|v| holds(predicate, v)),
        }
    }
}

impl EdgeFilter {
    pub(crate) fn new(schema: &Schema, filter: &Filter) -> Result<Self> {
        let what = match filter.attribute.as_str() {
            "type" => EdgeField::Type(
                type_names(filter)?
                    .into_iter()
                    .map(|n| schema.edge_type_id(n))
                    .collect::<Result<_, _>>()?,
            ),
            "version" => EdgeField::Version,
            _ => EdgeField::Property,
        };
        Ok(Self {
            what,
            filter: filter.clone(),
        })
    }

    pub(crate) fn holds(&self, edge: &Edge) -> bool {
        let predicate = &self.filter.predicate;
        match &self.what {
            EdgeField::Type(types) => types.contains(&edge.key.edge_type),
            EdgeField::Version => version_holds(predicate, edge.version),
            EdgeField::Property => edge
                .properties
                .get(&self.filter.attribute)
                .is_some_and(|v| holds(predicate, v)),
        }
    }
}

/// Versions are compared as the moments they stand for.
fn version_holds(predicate: &Predicate, version: Version) -> bool {
    holds(predicate, &Value::Timestamp(version.nanos()))
}

/// Whether a value fulfils a predicate. Against a moment, text is read as a time: a date is the whole day, a second the
/// whole second, as in `--as-of`.
fn holds(predicate: &Predicate, value: &Value) -> bool {
    let Value::Timestamp(_) = value else {
        return predicate.holds(value);
    };
    let during = |x: &Value| Predicate::Range(first_moment(x), last_moment(x));
    match predicate {
        Predicate::Eq(x) => during(x).holds(value),
        Predicate::In(xs) => xs.iter().any(|x| during(x).holds(value)),
        Predicate::Range(low, high) => {
            Predicate::Range(first_moment(low), last_moment(high)).holds(value)
        }
    }
}

fn first_moment(value: &Value) -> Value {
    moment(value, |text| Version::parse_since(text).map(Version::nanos))
}

fn last_moment(value: &Value) -> Value {
    const REST_OF_MILLISECOND: i64 = 999_999;
    let last = |v: Version| v.nanos().saturating_add(REST_OF_MILLISECOND);
    moment(value, |text| Version::parse_as_of(text).map(last))
}

fn moment<E>(value: &Value, parse: impl Fn(&str) -> Result<i64, E>) -> Value {
    match value {
        Value::String(text) => parse(text).map_or_else(|_| value.clone(), Value::Timestamp),
        other => other.clone(),
    }
}

fn type_names(filter: &Filter) -> Result<Vec<&str>> {
    let values: Vec<&Value> = match &filter.predicate {
        Predicate::Eq(x) => vec![x],
        Predicate::In(xs) => xs.iter().collect(),
        Predicate::Range(..) => {
            return Err(Error::Invalid(
                "`type` has no order: filter it with EQ or IN".into(),
            ));
        }
    };
    values
        .into_iter()
        .map(|v| match v {
            Value::String(name) => Ok(name.as_str()),
            other => Err(Error::Invalid(format!(
                "`type` is compared with a type's name in quotes; got {}",
                other.kind_name()
            ))),
        })
        .collect()
}

/// As the chain writes it.
impl fmt::Display for VertexFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va({})", self.filter)
    }
}

/// As the chain writes it.
impl fmt::Display for EdgeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ea({})", self.filter)
    }
}
