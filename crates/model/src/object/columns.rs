//! Search results as columns: an array for each name, without an allocation for each object.

use super::{FindReport, ObjectId};
use crate::value::{Value, ValueView};

/// The result of a search, column by column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundColumns {
    /// Numbers of the objects.
    pub ids: Vec<ObjectId>,
    /// A column for each selected name, in the order of selection; each is as long as `ids`.
    pub columns: Vec<(String, Values)>,
    /// The report of the search.
    pub report: FindReport,
}

impl FoundColumns {
    /// Returns the column of a name.
    pub fn column(&self, name: &str) -> Option<&Values> {
        let found = self.columns.iter().find(|(n, _)| n == name);
        found.map(|(_, values)| values)
    }
}

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// All values are integers.
    I64(Vec<i64>),
    /// All values are doubles.
    F64(Vec<f64>),
    /// All values are times, in nanoseconds since 1970.
    Timestamp(Vec<i64>),
    /// All values are texts.
    Text(Texts),
    /// Values of several or other kinds, or missing for some objects.
    Mixed(Vec<Option<Value>>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Mixed(Vec::new())
    }
}

impl Values {
    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        match self {
            Self::I64(values) | Self::Timestamp(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text(texts) => texts.len(),
            Self::Mixed(values) => values.len(),
        }
    }

    /// Whether the column is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at an index; `None` where the object has none.
    pub fn get(&self, at: usize) -> Option<ValueView<'_>> {
        match self {
            Self::I64(values) => values.get(at).map(|v| ValueView::I64(*v)),
            Self::F64(values) => values.get(at).map(|v| ValueView::F64(*v)),
            Self::Timestamp(values) => values.get(at).map(|v| ValueView::Timestamp(*v)),
            Self::Text(texts) => texts.get(at).map(ValueView::Text),
            Self::Mixed(values) => values.get(at)?.as_ref().map(ValueView::from),
        }
    }

    /// Appends a value. The first value determines the kind of the column.
    pub fn push(&mut self, value: Option<&ValueView<'_>>) {
        if self.is_empty() {
            *self = match value {
                Some(ValueView::I64(_)) => Self::I64(Vec::new()),
                Some(ValueView::F64(_)) => Self::F64(Vec::new()),
                Some(ValueView::Timestamp(_)) => Self::Timestamp(Vec::new()),
                Some(ValueView::Text(_)) => Self::Text(Texts::default()),
                _ => Self::Mixed(Vec::new()),
            };
        }
        match (&mut *self, value) {
            (Self::I64(values), Some(ValueView::I64(v)))
            | (Self::Timestamp(values), Some(ValueView::Timestamp(v))) => values.push(*v),
            (Self::F64(values), Some(ValueView::F64(v))) => values.push(*v),
            (Self::Text(texts), Some(ValueView::Text(text))) => texts.push(text),
            (Self::Mixed(values), value) => values.push(value.map(ValueView::to_value)),
            (_, value) => {
                let mut all: Vec<Option<Value>> = (0..self.len())
                    .map(|at| self.get(at).map(|v| v.to_value()))
                    .collect();
                all.push(value.map(ValueView::to_value));
                *self = Self::Mixed(all);
            }
        }
    }
}

/// Texts stored one after the other in one buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    text: String,
    /// End offset of each text.
    ends: Vec<usize>,
}

impl Texts {
    /// Returns the number of texts.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends a text to the list.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Returns the text at an index.
    pub fn get(&self, at: usize) -> Option<&str> {
        let from = match at.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)?,
        };
        self.text.get(from..*self.ends.get(at)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values read back equal the values written, however kinds change in between.
    #[test]
    fn values_come_back() {
        let some = [
            Some(Value::I64(1)),
            Some(Value::I64(-2)),
            Some(Value::from("a")),
            Some(Value::from("")),
            None,
            Some(Value::F64(0.5)),
            Some(Value::Null),
            Some(Value::Bool(true)),
        ];
        for first in 0..some.len() {
            for second in 0..some.len() {
                for third in 0..some.len() {
                    let mut values = Values::default();
                    let given = [&some[first], &some[second], &some[third]];
                    for value in given {
                        values.push(value.as_ref().map(ValueView::from).as_ref());
                    }
                    assert_eq!(values.len(), 3);
                    for (at, value) in given.into_iter().enumerate() {
                        assert_eq!(values.get(at).map(|v| v.to_value()), *value);
                    }
                    assert_eq!(values.get(3), None);
                }
            }
        }
    }
}
