//! Conditions on `type` under a schema: `type = 'DataObject'` matches files too, because `File` specialises it.

use super::{Comparison, Expr, Term, Test};
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::value::Value;

impl Expr {
    /// Resolves type names for the vertices of a schema: a type includes all types that specialise it, and an unknown
    /// name is an error.
    pub fn with_vertex_types(self, schema: &Schema) -> Result<Self> {
        self.with_types(&|name| {
            let all = schema.specialisations(schema.vertex_type_id(name)?);
            let names = all.into_iter().filter_map(|id| schema.vertex_type(id));
            Ok(names.map(|t| Value::from(t.name.as_str())).collect())
        })
    }

    /// Resolves type names for the edges of a schema; edge types have no specialisations.
    pub fn with_edge_types(self, schema: &Schema) -> Result<Self> {
        self.with_types(&|name| {
            let edge_type = schema.edge_type(schema.edge_type_id(name)?);
            Ok(edge_type
                .into_iter()
                .map(|t| Value::from(t.name.as_str()))
                .collect())
        })
    }

    fn with_types(self, names: &dyn Fn(&str) -> Result<Vec<Value>>) -> Result<Self> {
        let all = |parts: Vec<Self>| {
            parts
                .into_iter()
                .map(|part| part.with_types(names))
                .collect::<Result<Vec<_>>>()
        };
        Ok(match self {
            Self::And(parts) => Self::And(all(parts)?),
            Self::Or(parts) => Self::Or(all(parts)?),
            Self::Not(inner) => Self::Not(Box::new(inner.with_types(names)?)),
            Self::Term(Term { name, test }) if name == "type" => {
                Self::term(name, test.with_types(names)?)
            }
            other => other,
        })
    }
}

impl Test {
    fn with_types(self, names: &dyn Fn(&str) -> Result<Vec<Value>>) -> Result<Self> {
        let one_of = |values: &[Value]| {
            let mut all = Vec::new();
            for value in values {
                match value {
                    Value::String(name) => all.extend(names(name)?),
                    other => {
                        return Err(Error::Invalid(format!(
                            "`type` is compared with a type's name in quotes; got {}",
                            other.kind_name()
                        )));
                    }
                }
            }
            Ok(Self::In(all))
        };
        Ok(match &self {
            Self::Compare(Comparison::Eq, x) => one_of(std::slice::from_ref(x))?,
            Self::Compare(Comparison::Ne, x) => one_of(std::slice::from_ref(x))?.negated(),
            Self::In(xs) => one_of(xs)?,
            Self::Compare(..) | Self::Between(..) => {
                return Err(Error::Invalid(
                    "`type` has no order: filter it with EQ or IN".into(),
                ));
            }
            Self::Not(inner) => inner.as_ref().clone().with_types(names)?.negated(),
            Self::Exists | Self::Like(_) | Self::Matches(_) | Self::Contains(_) => self,
        })
    }
}
