//! Results as Arrow columns: consumers of the `PyCapsule` interface share the memory.

use crate::error::raise_text;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use esker::lineage::write_json_value;
use esker_model::object::Values;
use esker_model::{ErrorKind, Properties, Value, Version};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Name of such a capsule in the interface.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// A table of Arrow columns, shared with its consumers without a copy.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Columns {
    batch: RecordBatch,
}

#[pymethods]
impl Columns {
    /// Implements the Arrow `PyCapsule` interface: a stream of one record batch. `requested_schema` is ignored, as the interface
    /// allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = std::iter::once(Ok::<_, ArrowError>(self.batch.clone()));
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        // The consumer empties the stream; an unused one is released with the capsule.
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Arrow types of the columns, as text.
    #[getter]
    fn types(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema
            .fields()
            .iter()
            .map(|f| f.data_type().to_string())
            .collect()
    }

    /// Returns at most `count` rows from `start` on, and the columns with these numbers, over the same memory.
    ///
    /// # Errors
    ///
    /// `ValueError` if there is no column of a number.
    fn part(&self, start: usize, count: usize, columns: Vec<usize>) -> PyResult<Self> {
        let start = start.min(self.batch.num_rows());
        let count = count.min(self.batch.num_rows() - start);
        let batch = self.batch.project(&columns);
        let batch = batch.map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(Self {
            batch: batch.slice(start, count),
        })
    }

    /// Returns at most `count` rows from `start` on, as tuples.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        count: usize,
    ) -> PyResult<Vec<Bound<'py, pyo3::types::PyTuple>>> {
        let end = start.saturating_add(count).min(self.batch.num_rows());
        let row = |at: usize| {
            let cells: PyResult<Vec<_>> = self
                .batch
                .columns()
                .iter()
                .map(|c| {
                    crate::value::to_python(py, &crate::arrays::cell(c, at).unwrap_or(Value::Null))
                })
                .collect();
            pyo3::types::PyTuple::new(py, cells?)
        };
        (start..end).map(row).collect()
    }
}

/// A builder of a table with columns of equal length.
#[derive(Default)]
pub(crate) struct Table {
    names: Vec<String>,
    arrays: Vec<ArrayRef>,
}

impl Table {
    pub(crate) fn add(&mut self, name: impl Into<String>, array: ArrayRef) -> &mut Self {
        self.names.push(name.into());
        self.arrays.push(array);
        self
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, texts: &[Option<T>]) -> &mut Self {
        let texts: StringArray = texts
            .iter()
            .map(|t| t.as_ref().map(AsRef::as_ref))
            .collect();
        self.add(name, Arc::new(texts))
    }

    pub(crate) fn versions(&mut self, name: &str, versions: &[Option<Version>]) -> &mut Self {
        // The logical part is in the nanoseconds below the millisecond, so that the column has the complete version.
        let whole = |v: Version| v.nanos().saturating_add(v.logical().into());
        let nanos: Vec<_> = versions.iter().map(|v| v.map(whole)).collect();
        self.add(
            name,
            Arc::new(TimestampNanosecondArray::from(nanos).with_timezone("UTC")),
        )
    }

    pub(crate) fn finish(&mut self, py: Python<'_>) -> PyResult<Columns> {
        let fields: Vec<Field> = self
            .names
            .iter()
            .zip(&self.arrays)
            .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
            .collect();
        let arrays = std::mem::take(&mut self.arrays);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let batch = batch.map_err(|e| raise_text(py, ErrorKind::Invalid, e.to_string()))?;
        Ok(Columns { batch })
    }
}

/// Converts a column of a search result. Numbers are moved; texts are copied once.
pub(crate) fn of_values(values: Values) -> ArrayRef {
    match values {
        Values::I64(numbers) => Arc::new(Int64Array::from(numbers)),
        Values::F64(numbers) => Arc::new(Float64Array::from(numbers)),
        Values::Timestamp(nanos) => {
            Arc::new(TimestampNanosecondArray::from(nanos).with_timezone("UTC"))
        }
        Values::Text(texts) => {
            let each = (0..texts.len()).map(|at| texts.get(at));
            Arc::new(each.collect::<StringArray>())
        }
        Values::Mixed(values) => of_mixed(&values),
    }
}

/// Converts values to a column: of their common kind, of doubles for integers and doubles, else of texts (other kinds
/// as JSON).
pub(crate) fn of_mixed(values: &[Option<Value>]) -> ArrayRef {
    let some = || {
        values
            .iter()
            .flatten()
            .filter(|v| !matches!(v, Value::Null))
    };
    let all = |is: fn(&Value) -> bool| some().all(is);
    let each = || values.iter().map(Option::as_ref);
    if some().next().is_none() {
        let mut out = StringBuilder::new();
        values.iter().for_each(|_| out.append_null());
        return Arc::new(out.finish());
    }
    if all(|v| matches!(v, Value::I64(_))) {
        let mut out = Int64Builder::with_capacity(values.len());
        each().for_each(|v| match v {
            Some(Value::I64(n)) => out.append_value(*n),
            _ => out.append_null(),
        });
        return Arc::new(out.finish());
    }
    if all(|v| matches!(v, Value::I64(_) | Value::F64(_))) {
        let mut out = Float64Builder::with_capacity(values.len());
        each().for_each(|v| match v {
            Some(Value::F64(x)) => out.append_value(*x),
            Some(Value::I64(n)) => out.append_value(*n as f64),
            _ => out.append_null(),
        });
        return Arc::new(out.finish());
    }
    if all(|v| matches!(v, Value::Bool(_))) {
        let mut out = BooleanBuilder::with_capacity(values.len());
        each().for_each(|v| match v {
            Some(Value::Bool(b)) => out.append_value(*b),
            _ => out.append_null(),
        });
        return Arc::new(out.finish());
    }
    if all(|v| matches!(v, Value::Timestamp(_))) {
        let nanos: Vec<_> = each()
            .map(|v| match v {
                Some(Value::Timestamp(n)) => Some(*n),
                _ => None,
            })
            .collect();
        return Arc::new(TimestampNanosecondArray::from(nanos).with_timezone("UTC"));
    }
    if all(|v| matches!(v, Value::Bytes(_))) {
        let mut out = BinaryBuilder::new();
        each().for_each(|v| match v {
            Some(Value::Bytes(b)) => out.append_value(b),
            _ => out.append_null(),
        });
        return Arc::new(out.finish());
    }
    let mut out = StringBuilder::new();
    each().for_each(|v| match v {
        None | Some(Value::Null) => out.append_null(),
        Some(Value::String(s)) => out.append_value(s),
        Some(other) => {
            let mut text = String::new();
            write_json_value(&mut text, other);
            out.append_value(text);
        }
    });
    Arc::new(out.finish())
}

/// Collects rows of properties into one column per name, in the order of first occurrence.
#[derive(Default)]
pub(crate) struct PropertyColumns {
    names: Vec<String>,
    indexes: std::collections::HashMap<String, usize>,
    columns: Vec<Vec<Option<Value>>>,
    rows: usize,
}

impl PropertyColumns {
    pub(crate) fn push<'a>(&mut self, values: impl Iterator<Item = (&'a str, &'a Value)>) {
        for (name, value) in values {
            let at = *self.indexes.entry(name.to_owned()).or_insert_with(|| {
                self.names.push(name.to_owned());
                self.columns.push(Vec::new());
                self.columns.len() - 1
            });
            if let Some(column) = self.columns.get_mut(at)
                && column.len() <= self.rows
            {
                column.resize(self.rows, None);
                column.push(Some(value.clone()));
            }
        }
        self.rows += 1;
    }

    /// Adds the columns to a table; names already in use get the prefix `taken`.
    pub(crate) fn add_to(self, table: &mut Table, taken: &str) {
        for (name, mut column) in self.names.into_iter().zip(self.columns) {
            column.resize(self.rows, None);
            let name = if table.names.contains(&name) {
                format!("{taken}{name}")
            } else {
                name
            };
            table.add(name, of_mixed(&column));
        }
    }
}

/// Formats properties as one JSON object.
pub(crate) fn json_of(properties: &Properties) -> String {
    let mut out = String::from("{");
    for (i, (name, value)) in properties.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        esker::lineage::write_json_string(&mut out, name);
        out.push(':');
        write_json_value(&mut out, value);
    }
    out.push('}');
    out
}
