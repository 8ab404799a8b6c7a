//! Input of Arrow data: streams of record batches from objects with the `PyCapsule` interface, read without a copy.

use crate::error::raise_text;
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use esker_model::{ErrorKind, Value};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Returns the record batches of a table.
pub(crate) fn batches(table: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let py = table.py();
    let refuse = |text: String| raise_text(py, ErrorKind::Invalid, text);
    if !table.hasattr("__arrow_c_stream__")? {
        return Err(refuse(format!(
            "a {} is not an Arrow table: expected something with `__arrow_c_stream__`, as polars, pyarrow, pandas 2.2 and DuckDB give",
            table.get_type().name()?
        )));
    }
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    let pointer = stream.cast::<FFI_ArrowArrayStream>().as_ptr();
    #[expect(
        unsafe_code,
        reason = "a C structure behind a capsule with that very name, as the interface says"
    )]
    // SAFETY: the capsule's name says what it points at, and the capsule lives as long as `capsule`. The stream is moved out of
    // it, which leaves it marked as released.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer) };
    let reader = reader.map_err(|e| refuse(e.to_string()))?;
    reader
        .map(|batch| batch.map_err(|e| refuse(format!("reading the table: {e}"))))
        .collect()
}

/// Whether values of an Arrow type can be converted.
pub(crate) fn is_known(kind: &DataType) -> bool {
    match kind {
        DataType::Null
        | DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Timestamp(..) => true,
        DataType::List(field) | DataType::LargeList(field) => is_known(field.data_type()),
        DataType::Dictionary(_, values) => is_known(values),
        other => other.is_integer(),
    }
}

/// Returns a string of a string column, without a copy.
pub(crate) fn text(array: &ArrayRef, at: usize) -> Option<&str> {
    if array.is_null(at) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(at)),
        DataType::Utf8View => Some(array.as_string_view().value(at)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            text(dictionary.values(), *dictionary.normalized_keys().get(at)?)
        }
        _ => None,
    }
}

/// Converts one cell; `None` for null. Integers beyond 63 bits become doubles.
pub(crate) fn cell(array: &ArrayRef, at: usize) -> Option<Value> {
    if array.is_null(at) {
        return None;
    }
    let list = |items: ArrayRef| {
        Value::List(
            (0..items.len())
                .map(|i| cell(&items, i).unwrap_or(Value::Null))
                .collect(),
        )
    };
    Some(match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(at)),
        DataType::Int8 => Value::I64(array.as_primitive::<Int8Type>().value(at).into()),
        DataType::Int16 => Value::I64(array.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => Value::I64(array.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => Value::I64(array.as_primitive::<Int64Type>().value(at)),
        DataType::UInt8 => Value::I64(array.as_primitive::<UInt8Type>().value(at).into()),
        DataType::UInt16 => Value::I64(array.as_primitive::<UInt16Type>().value(at).into()),
        DataType::UInt32 => Value::I64(array.as_primitive::<UInt32Type>().value(at).into()),
        DataType::UInt64 => {
            let n = array.as_primitive::<UInt64Type>().value(at);
            i64::try_from(n).map_or(Value::F64(n as f64), Value::I64)
        }
        DataType::Float32 => Value::F64(array.as_primitive::<Float32Type>().value(at).into()),
        DataType::Float64 => Value::F64(array.as_primitive::<Float64Type>().value(at)),
        DataType::Timestamp(unit, _) => Value::Timestamp(match unit {
            TimeUnit::Second => {
                let s = array.as_primitive::<TimestampSecondType>().value(at);
                s.saturating_mul(1_000_000_000)
            }
            TimeUnit::Millisecond => {
                let ms = array.as_primitive::<TimestampMillisecondType>().value(at);
                ms.saturating_mul(1_000_000)
            }
            TimeUnit::Microsecond => {
                let us = array.as_primitive::<TimestampMicrosecondType>().value(at);
                us.saturating_mul(1000)
            }
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(at),
        }),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(at).to_vec()),
        DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(at).to_vec()),
        DataType::BinaryView => Value::Bytes(array.as_binary_view().value(at).to_vec()),
        DataType::List(_) => list(array.as_list::<i32>().value(at)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(at)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            return cell(dictionary.values(), *dictionary.normalized_keys().get(at)?);
        }
        _ => return text(array, at).map(Value::from),
    })
}

/// A column with the keys of its dictionary, if it has one, looked up once.
pub(crate) struct Column {
    name: String,
    array: ArrayRef,
    keys: Option<(ArrayRef, Vec<usize>)>,
}

impl Column {
    /// Returns the columns of a batch.
    pub(crate) fn all(batch: &RecordBatch) -> Vec<Self> {
        let schema = batch.schema();
        let each = schema.fields().iter().zip(batch.columns());
        each.map(|(field, array)| Self {
            name: field.name().clone(),
            array: array.clone(),
            keys: array
                .as_any_dictionary_opt()
                .filter(|d| !d.values().is_empty())
                .map(|d| (d.values().clone(), d.normalized_keys())),
        })
        .collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        match &self.keys {
            Some((values, keys)) if !self.array.is_null(at) => text(values, *keys.get(at)?),
            Some(_) => None,
            None => text(&self.array, at),
        }
    }

    pub(crate) fn cell(&self, at: usize) -> Option<Value> {
        match &self.keys {
            Some((values, keys)) if !self.array.is_null(at) => cell(values, *keys.get(at)?),
            Some(_) => None,
            None => cell(&self.array, at),
        }
    }
}
