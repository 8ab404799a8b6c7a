//! Parquet writer with one typed column per name.

use super::value::value_to_json;
use super::write::TableError;
use esker_model::{Value, ValueKind};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Limit of rows in a row group.
const GROUP_ROWS_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// Limit of estimated bytes in a row group, before compression.
const GROUP_BYTES_MAX: usize = 64 << 20;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    Bool,
    I64,
    F64,
    Timestamp,
    /// Timestamp in milliseconds, for readers without nanoseconds.
    Millis,
    /// Text as it is; any other value as JSON.
    Text,
}

impl ColumnType {
    const fn of(kind: ValueKind) -> Self {
        match kind {
            ValueKind::Bool => Self::Bool,
            ValueKind::I64 => Self::I64,
            ValueKind::F64 => Self::F64,
            ValueKind::Timestamp => Self::Millis,
            _ => Self::Text,
        }
    }
}

/// Writes rows of values as Parquet, one column per name. A column's type follows from its values in the first row group: booleans,
/// integers, floating-point numbers, timestamps; text if they are of any other type or differ (then values that are not text become JSON).
pub struct TypedWriter<W: Write + Send> {
    names: Vec<String>,
    /// The writer is created once the types are known.
    state: WriterState<W>,
    waiting: Vec<Vec<Option<Value>>>,
    bytes: usize,
    rows: u64,
}

enum WriterState<W: Write + Send> {
    Waiting(W),
    Begun(Box<SerializedFileWriter<W>>, Vec<ColumnType>),
    Failed,
}

impl<W: Write + Send> std::fmt::Debug for TypedWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypedWriter")
            .field("names", &self.names)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> TypedWriter<W> {
    /// Creates a writer whose column types are inferred.
    pub fn new(out: W, names: Vec<String>) -> Self {
        Self {
            names,
            state: WriterState::Waiting(out),
            waiting: Vec::new(),
            bytes: 0,
            rows: 0,
        }
    }

    /// Creates a writer with typed columns; timestamps have milliseconds; kinds without a Parquet type (bytes, lists, any) are text.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn of(out: W, columns: &[(String, ValueKind)]) -> Result<Self, TableError> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let kinds: Vec<ColumnType> = columns
            .iter()
            .map(|(_, kind)| ColumnType::of(*kind))
            .collect();
        let writer = Box::new(begin(out, &names, &kinds)?);
        Ok(Self {
            names,
            state: WriterState::Begun(writer, kinds),
            waiting: Vec::new(),
            bytes: 0,
            rows: 0,
        })
    }

    /// Adds a row: a value or `None` for each column.
    ///
    /// # Errors
    /// Fails if the output fails, or if a value has another type than its column.
    pub fn row(&mut self, values: Vec<Option<Value>>) -> Result<(), TableError> {
        self.bytes += values.iter().map(|v| weight(v.as_ref())).sum::<usize>();
        self.waiting.push(values);
        self.rows += 1;
        if self.waiting.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes buffered rows and returns the output.
    ///
    /// # Errors
    /// Fails in the same cases as [`Self::row`].
    pub fn finish(mut self) -> Result<W, TableError> {
        self.flush()?;
        match self.state {
            WriterState::Begun(writer, _) => writer.into_inner().map_err(TableError::parquet),
            WriterState::Waiting(_) | WriterState::Failed => Err(broken()),
        }
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let rows = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        let (mut writer, kinds) = match std::mem::replace(&mut self.state, WriterState::Failed) {
            WriterState::Waiting(out) => {
                let kinds: Vec<ColumnType> = (0..self.names.len())
                    .map(|i| kind_of(rows.iter().filter_map(|r| r.get(i)?.as_ref())))
                    .collect();
                (Box::new(begin(out, &self.names, &kinds)?), kinds)
            }
            WriterState::Begun(writer, kinds) => (writer, kinds),
            WriterState::Failed => return Err(broken()),
        };
        if !rows.is_empty() {
            let first = self.rows - rows.len() as u64;
            write_group(&mut writer, &self.names, &kinds, &rows, first)?;
        }
        self.state = WriterState::Begun(writer, kinds);
        Ok(())
    }
}

fn broken() -> TableError {
    TableError::Parquet("an earlier row failed".to_owned())
}

fn weight(value: Option<&Value>) -> usize {
    match value {
        Some(Value::String(s)) => 32 + s.len(),
        Some(Value::Bytes(b)) => 32 + b.len() * 2,
        Some(Value::List(items)) => 32 * (items.len() + 1),
        _ => 32,
    }
}

/// Returns the type that can represent all values.
fn kind_of<'a>(values: impl Iterator<Item = &'a Value>) -> ColumnType {
    let mut all = None;
    for value in values {
        let kind = match value {
            Value::Null => continue,
            Value::Bool(_) => ColumnType::Bool,
            Value::I64(_) => ColumnType::I64,
            Value::F64(_) => ColumnType::F64,
            Value::Timestamp(_) => ColumnType::Timestamp,
            Value::String(_) | Value::Bytes(_) | Value::List(_) => return ColumnType::Text,
        };
        all = match (all, kind) {
            (None, kind) => Some(kind),
            (Some(a), b) if a == b => Some(a),
            (Some(ColumnType::I64 | ColumnType::F64), ColumnType::I64 | ColumnType::F64) => {
                Some(ColumnType::F64)
            }
            _ => return ColumnType::Text,
        };
    }
    all.unwrap_or(ColumnType::Text)
}

fn begin<W: Write + Send>(
    out: W,
    names: &[String],
    kinds: &[ColumnType],
) -> Result<SerializedFileWriter<W>, TableError> {
    let column = |(name, kind): (&String, &ColumnType)| {
        let (physical, logical) = match kind {
            ColumnType::Bool => (Physical::BOOLEAN, None),
            ColumnType::I64 => (Physical::INT64, None),
            ColumnType::F64 => (Physical::DOUBLE, None),
            ColumnType::Timestamp => (Physical::INT64, Some(nanos())),
            ColumnType::Millis => (Physical::INT64, Some(millis())),
            ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let columns: Result<Vec<_>, _> = names.iter().zip(kinds).map(column).collect();
    let schema = columns
        .and_then(|fields| {
            Type::group_type_builder("esker")
                .with_fields(fields)
                .build()
        })
        .map_err(TableError::parquet)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("esker".to_owned())
        .build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
        .map_err(TableError::parquet)
}

fn nanos() -> LogicalType {
    LogicalType::timestamp(true, parquet::basic::TimeUnit::NANOS)
}

fn millis() -> LogicalType {
    LogicalType::timestamp(true, parquet::basic::TimeUnit::MILLIS)
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    names: &[String],
    kinds: &[ColumnType],
    rows: &[Vec<Option<Value>>],
    first: u64,
) -> Result<(), TableError> {
    let mut group = writer.next_row_group().map_err(TableError::parquet)?;
    for (i, kind) in kinds.iter().enumerate() {
        let mut column = group
            .next_column()
            .map_err(TableError::parquet)?
            .ok_or_else(broken)?;
        let cells = rows.iter().map(|row| match row.get(i) {
            Some(Some(value)) if *value != Value::Null => Some(value),
            _ => None,
        });
        let wrong = |(row, value): (usize, &Value)| TableError::Mixed {
            column: names.get(i).cloned().unwrap_or_default(),
            row: first + row as u64 + 1,
            kind: value.kind_name(),
        };
        let cells = cells.enumerate();
        match kind {
            ColumnType::Bool => write::<BoolType>(&mut column, cells, wrong, |v| match v {
                Value::Bool(b) => Some(*b),
                _ => None,
            }),
            ColumnType::I64 => write::<Int64Type>(&mut column, cells, wrong, |v| match v {
                Value::I64(n) => Some(*n),
                _ => None,
            }),
            ColumnType::Timestamp => write::<Int64Type>(&mut column, cells, wrong, |v| match v {
                Value::Timestamp(n) => Some(*n),
                _ => None,
            }),
            ColumnType::Millis => write::<Int64Type>(&mut column, cells, wrong, |v| match v {
                Value::Timestamp(n) => Some(n.div_euclid(1_000_000)),
                _ => None,
            }),
            ColumnType::F64 => write::<DoubleType>(&mut column, cells, wrong, |v| match v {
                Value::F64(x) => Some(*x),
                Value::I64(n) => Some(*n as f64),
                _ => None,
            }),
            ColumnType::Text => write::<ByteArrayType>(&mut column, cells, wrong, |v| {
                Some(ByteArray::from(match v {
                    Value::String(text) => text.clone().into_bytes(),
                    other => value_to_json(other).to_string().into_bytes(),
                }))
            }),
        }?;
        column.close().map_err(TableError::parquet)?;
    }
    group.close().map_err(TableError::parquet)?;
    Ok(())
}

fn write<'v, T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = (usize, Option<&'v Value>)>,
    wrong: impl Fn((usize, &'v Value)) -> TableError,
    plain: impl Fn(&'v Value) -> Option<T::T>,
) -> Result<(), TableError> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for (row, cell) in cells {
        present.push(i16::from(cell.is_some()));
        if let Some(value) = cell {
            values.push(plain(value).ok_or_else(|| wrong((row, value)))?);
        }
    }
    column
        .typed::<T>()
        .write_batch(&values, Some(&present), None)
        .map_err(TableError::parquet)?;
    Ok(())
}
