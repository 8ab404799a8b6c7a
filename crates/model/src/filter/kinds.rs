//! Conditions that no value of an attribute can satisfy, because it holds values of another kind.

use super::{Expr, Term, Test, time_bounds};
use crate::error::{Error, Result};
use crate::object::object_type;
use crate::schema::Schema;
use crate::traversal::value_text;
use crate::value::{Value, ValueKind};
use crate::{VertexTypeId, caret};

impl Expr {
    /// Checks that values are compared only with attributes that hold such values. `kind_of` returns the kind of an attribute; `None` for a
    /// name whose values may have any kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the name, the value and what the attribute holds.
    pub fn check_kinds(&self, kind_of: &dyn Fn(&str) -> Option<ValueKind>) -> Result<()> {
        let mut wrong = None;
        self.each_term(&mut |term: &Term| {
            if let Some(kind) = kind_of(&term.name)
                && let Some(operand) = misfit(&term.test, kind)
            {
                wrong.get_or_insert_with(|| (term.name.clone(), operand, kind));
            }
        });
        let Some((name, operand, kind)) = wrong else {
            return Ok(());
        };
        let (holds, example) = match kind {
            ValueKind::Bool => ("true or false", "true"),
            ValueKind::I64 | ValueKind::F64 => ("numbers", "10 or 10MiB, without quotes"),
            ValueKind::Timestamp => ("times", "'2026-03-01' or 30d ago"),
            ValueKind::Bytes => ("bytes", "x'00ff'"),
            ValueKind::List => ("lists", "a list, or CONTAINS with an item"),
            ValueKind::String | ValueKind::Any => ("text", "'text' in quotes"),
        };
        Err(Error::Invalid(format!(
            "`{name}` holds {holds}; {operand} matches none (expected {example})"
        )))
    }

    /// Checks kinds as [`Self::check_kinds`] does, for objects.
    ///
    /// # Errors
    /// As [`Self::check_kinds`].
    pub fn check_kinds_of_objects(&self, schema: &Schema) -> Result<()> {
        object_type(schema).map_or(Ok(()), |objects| self.check_kinds_of(schema, objects))
    }

    /// Checks kinds as [`Self::check_kinds`] does, for vertices of a type and of the types that specialise it.
    ///
    /// # Errors
    /// As [`Self::check_kinds`].
    pub fn check_kinds_of(&self, schema: &Schema, vertex_type: VertexTypeId) -> Result<()> {
        let types = schema.specialisations(vertex_type);
        self.check_kinds(&|name| match name {
            "created" | "modified" | "version" => Some(ValueKind::Timestamp),
            "id" | "key" | "type" => None,
            name => {
                // A specialisation may define an attribute that another type's vertices have as a tag of any kind.
                let kind = |t: &VertexTypeId| schema.attribute(*t, name).map(|a| a.kind);
                let first = types.first().and_then(kind)?;
                types
                    .iter()
                    .all(|t| kind(t) == Some(first))
                    .then_some(first)
            }
        })
    }
}

/// Returns the operand of a test that no value of this kind satisfies, as text.
fn misfit(test: &Test, kind: ValueKind) -> Option<String> {
    let shown = |value: &Value| match value {
        Value::String(text) => format!("'{}'", caret::excerpt(text)),
        value => value_text(value),
    };
    let wrong = |value: &Value| (!fits(value, kind)).then(|| shown(value));
    let is_text = matches!(kind, ValueKind::String | ValueKind::Any);
    match test {
        Test::Exists | Test::Contains(_) => None,
        Test::Compare(_, value) => wrong(value),
        Test::Between(low, high) => wrong(low).or_else(|| wrong(high)),
        Test::In(values) => values.iter().find_map(wrong),
        Test::Like(_) => (!is_text).then(|| "LIKE".to_owned()),
        Test::Matches(_) => (!is_text).then(|| "MATCHES".to_owned()),
        Test::Not(inner) => misfit(inner, kind),
    }
}

/// Whether an attribute of this kind may equal a value, or come before or after it.
fn fits(value: &Value, kind: ValueKind) -> bool {
    match (kind, value) {
        (ValueKind::Any, _)
        | (_, Value::Null)
        | (ValueKind::I64 | ValueKind::F64, Value::I64(_) | Value::F64(_))
        | (ValueKind::Timestamp, Value::Timestamp(_)) => true,
        (ValueKind::Timestamp, Value::String(text)) => time_bounds(text).is_some(),
        (kind, value) => kind.name() == value.kind_name(),
    }
}
