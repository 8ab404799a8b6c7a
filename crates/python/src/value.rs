//! Conversion of single values between Python and the model.
//!
//! ```text
//!  None bool int float str bytes list      null bool i64 f64 string bytes list
//!  datetime with a time zone               timestamp (nanoseconds; Python keeps microseconds)
//! ```

use crate::error::{invalid, raise};
use esker_model::{Properties, Value, Version, Vertex};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Maximum nesting depth of lists.
const DEPTH_MAX: usize = 32;

/// Converts a Python object to a value.
pub(crate) fn value_of(any: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(any, 0)
}

fn nested(any: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = any.py();
    let refuse = |text: String| raise(py, &invalid(text));
    if any.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(b) = any.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if let Ok(n) = any.cast::<PyInt>() {
        return match n.extract::<i64>() {
            Ok(n) => Ok(Value::I64(n)),
            Err(e) if e.is_instance_of::<PyOverflowError>(py) => Err(refuse(format!(
                "{n} does not fit: integers have 64 bits with a sign; give a float or a str"
            ))),
            Err(e) => Err(e),
        };
    }
    if let Ok(x) = any.cast::<PyFloat>() {
        return Ok(Value::F64(x.value()));
    }
    if let Ok(s) = any.cast::<PyString>() {
        return Ok(Value::String(s.to_str()?.to_owned()));
    }
    if let Ok(b) = any.cast::<PyBytes>() {
        return Ok(Value::Bytes(b.as_bytes().to_vec()));
    }
    if any.is_instance_of::<PyList>() || any.is_instance_of::<PyTuple>() {
        if depth >= DEPTH_MAX {
            return Err(refuse(format!("lists are nested deeper than {DEPTH_MAX}")));
        }
        let items = any.try_iter()?;
        let items: PyResult<Vec<Value>> = items.map(|x| nested(&x?, depth + 1)).collect();
        return Ok(Value::List(items?));
    }
    if any.hasattr("timestamp")? && any.hasattr("tzinfo")? {
        let nanos = py.import("esker._times")?.call_method1("nanos", (any,))?;
        return Ok(Value::Timestamp(nanos.extract()?));
    }
    // NumPy scalars and similar types convert themselves.
    if any.hasattr("item")? {
        let item = any.call_method0("item")?;
        if !item.is(any) {
            return nested(&item, depth + 1);
        }
    }
    let kind = any.get_type().name()?;
    Err(refuse(format!(
        "a {kind} is not a value: expected None, bool, int, float, str, bytes, datetime (with a time zone) or a list of such"
    )))
}

/// Converts a dict to properties.
pub(crate) fn properties_of(dict: &Bound<'_, PyDict>) -> PyResult<Properties> {
    let pairs = dict.iter().map(|(name, value)| {
        let value = value_of(&value)?;
        Ok((name.extract::<String>()?, value))
    });
    pairs.collect()
}

/// Converts a value to a Python object.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::I64(n) => n.into_pyobject(py)?.into_any(),
        Value::F64(x) => PyFloat::new(py, *x).into_any(),
        Value::String(s) => PyString::new(py, s).into_any(),
        Value::Bytes(b) => PyBytes::new(py, b).into_any(),
        Value::Timestamp(nanos) => py
            .import("esker._times")?
            .call_method1("of_nanos", (*nanos,))?,
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
    })
}

/// Converts properties to a dict.
pub(crate) fn dict_of<'py>(
    py: Python<'py>,
    properties: &Properties,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in properties.iter() {
        dict.set_item(name, to_python(py, value)?)?;
    }
    Ok(dict)
}

/// Converts user-defined attributes to a dict.
pub(crate) fn user_of<'py>(py: Python<'py>, vertex: &Vertex) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for a in &vertex.user {
        dict.set_item(&a.name, to_python(py, &a.value)?)?;
    }
    Ok(dict)
}

/// Parses a time to read as of; `None` is now.
pub(crate) fn as_of(py: Python<'_>, text: Option<&str>) -> PyResult<Version> {
    let Some(text) = text else {
        return Ok(Version::MAX);
    };
    Version::parse_as_of(text).map_err(|e| raise(py, &e.into()))
}

/// Parses a time to write at; `None` is the commit's.
pub(crate) fn at(py: Python<'_>, text: Option<&str>) -> PyResult<Option<Version>> {
    let parse = |text| Version::parse_as_of(text).map_err(|e| raise(py, &e.into()));
    text.map(parse).transpose()
}
