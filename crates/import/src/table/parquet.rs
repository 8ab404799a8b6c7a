//! Parquet, one row group at a time; read through the record interface, so that any flat table can be read.

use super::columns::Column;
use super::record::{Cell, Row};
use super::write::TableError;
use super::{ReadOptions, RecordError, RowSource, file_error};
use esker_model::Value;
use parquet::basic::{Compression, LogicalType, TimeUnit};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Limit of rows in a written row group.
const GROUP_ROWS_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// Limit of bytes in a written row group, before compression.
const GROUP_BYTES_MAX: usize = 32 << 20;

/// Converts panics to errors: the library checks some pages by assertions, and damage must not end the process.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err("the bytes do not decode".to_owned()),
    }
}

/// A column, and whether its 64-bit integers are nanoseconds since 1970 (which the record interface does not show).
struct Head {
    column: Arc<Column>,
    nanos: bool,
}

pub(super) struct RowGroups {
    reader: SerializedFileReader<File>,
    heads: Vec<Head>,
    file: String,
    /// Number of the next row group.
    group: usize,
    /// Number of rows before the next row group.
    before: u64,
    rows: Option<ReaderIter>,
    row: u64,
}

impl RowGroups {
    pub(super) fn new(input: File, options: &ReadOptions) -> Result<Self, RecordError> {
        let reader = guarded(|| SerializedFileReader::new(input))
            .map_err(|e| file_error(options, &format!("not a Parquet file: {e}")))?;
        let root = Arc::clone(
            &reader
                .metadata()
                .file_metadata()
                .schema_descr()
                .root_schema_ptr(),
        );
        let fields = root.get_fields();
        let columns = Column::of_heading(fields.iter().map(|f| f.name()), options)?;
        let heads = columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| Head {
                column: Arc::new(column),
                nanos: matches!(
                    field.get_basic_info().logical_type_ref(),
                    Some(LogicalType::Timestamp(t)) if t.unit == TimeUnit::NANOS
                ),
            })
            .collect();
        Ok(Self {
            reader,
            heads,
            file: options.file.clone(),
            group: 0,
            before: 0,
            rows: None,
            row: 0,
        })
    }

    fn error(&self, line: u64, message: String) -> RecordError {
        RecordError {
            file: self.file.clone(),
            line,
            byte: None,
            message,
            fatal: false,
        }
    }

    /// Opens the next row group; `None` at the end.
    fn next_group(&mut self) -> Option<Result<(), RecordError>> {
        let metadata = self.reader.metadata();
        if self.group >= metadata.num_row_groups() {
            return None;
        }
        let count = u64::try_from(metadata.row_group(self.group).num_rows()).unwrap_or(0);
        let first = self.before + 1;
        self.row = self.before;
        self.before += count;
        let number = self.group;
        self.group += 1;
        let descr = metadata.file_metadata().schema_descr_ptr();
        let opened = guarded(|| {
            let group = self.reader.get_row_group(number)?;
            TreeBuilder::new().as_iter(descr, &*group)
        });
        Some(match opened {
            Ok(rows) => {
                self.rows = Some(rows);
                Ok(())
            }
            Err(e) => Err(self.lost(first, &e)),
        })
    }

    fn lost(&self, first: u64, why: &str) -> RecordError {
        let last = self.before;
        self.error(
            first,
            format!(
                "row group {} is damaged, rows {first} to {last} are lost: {why}",
                self.group
            ),
        )
    }
}

impl RowSource for RowGroups {
    fn headings(&self) -> Vec<String> {
        self.heads
            .iter()
            .filter_map(|h| h.column.named())
            .map(str::to_owned)
            .collect()
    }

    fn next_row(&mut self) -> Option<Result<Row, RecordError>> {
        loop {
            let Some(rows) = &mut self.rows else {
                match self.next_group()? {
                    Ok(()) => continue,
                    Err(e) => return Some(Err(e)),
                }
            };
            let read = guarded(|| rows.next().transpose());
            self.row += 1;
            let row = match read {
                Ok(Some(row)) => row,
                Ok(None) => {
                    self.rows = None;
                    continue;
                }
                Err(e) => {
                    self.rows = None;
                    return Some(Err(self.lost(self.row, &e)));
                }
            };
            let mut cells = Vec::with_capacity(self.heads.len());
            for (head, (name, field)) in self.heads.iter().zip(row.into_columns()) {
                match value(&field, head.nanos) {
                    Ok(Value::Null) => {}
                    Ok(value) => cells.push((Arc::clone(&head.column), Cell::Typed(value))),
                    Err(what) => {
                        let message = format!(
                            "column `{name}` contains {what}, which is not supported as a value"
                        );
                        return Some(Err(self.error(self.row, message)));
                    }
                }
            }
            return Some(Ok(Row {
                line: self.row,
                byte: None,
                cells,
            }));
        }
    }
}

fn value(field: &Field, nanos: bool) -> Result<Value, &'static str> {
    let timestamp = |n: i64, unit: i64| {
        n.checked_mul(unit)
            .map(Value::Timestamp)
            .ok_or("a time out of range")
    };
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(v) => Value::Bool(*v),
        Field::Byte(v) => Value::I64(i64::from(*v)),
        Field::Short(v) => Value::I64(i64::from(*v)),
        Field::Int(v) => Value::I64(i64::from(*v)),
        Field::Long(v) if nanos => Value::Timestamp(*v),
        Field::Long(v) => Value::I64(*v),
        Field::UByte(v) => Value::I64(i64::from(*v)),
        Field::UShort(v) => Value::I64(i64::from(*v)),
        Field::UInt(v) => Value::I64(i64::from(*v)),
        Field::ULong(v) => Value::I64(i64::try_from(*v).map_err(|_| "an integer beyond 63 bits")?),
        Field::Float(v) => Value::F64(f64::from(*v)),
        Field::Double(v) => Value::F64(*v),
        Field::Str(v) => Value::String(v.clone()),
        Field::Bytes(v) => Value::Bytes(v.data().to_vec()),
        Field::Date(days) => timestamp(i64::from(*days), 86_400_000_000_000)?,
        Field::TimestampMillis(v) => timestamp(*v, 1_000_000)?,
        Field::TimestampMicros(v) => timestamp(*v, 1_000)?,
        Field::ListInternal(list) => {
            let items = list.elements().iter().map(|item| value(item, nanos));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Field::Group(_) => return Err("a group"),
        Field::MapInternal(_) => return Err("a map"),
        Field::Decimal(_) => return Err("a decimal"),
        _ => return Err("a kind of its own"),
    })
}

/// Writes string columns (and, for vertices, `deleted`) in row groups.
pub(super) struct ParquetSink<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Texts by column, of the current row group.
    texts: Vec<Vec<ByteArray>>,
    deleted: Vec<bool>,
    has_deleted: bool,
    bytes: usize,
}

/// Position of `deleted` among the columns of vertices.
const DELETED_COLUMN: usize = 2;

impl<W: Write + Send> ParquetSink<W> {
    /// Creates a sink with text columns `names`; with `has_deleted` also that column, at its position.
    pub(super) fn new(out: W, names: &[&str], has_deleted: bool) -> Result<Self, TableError> {
        let mut lines: Vec<String> = names
            .iter()
            .map(|n| format!("REQUIRED BYTE_ARRAY {n} (UTF8);"))
            .collect();
        if has_deleted {
            lines.insert(DELETED_COLUMN, "REQUIRED BOOLEAN deleted;".to_owned());
        }
        let message = format!("message esker {{ {} }}", lines.join(" "));
        let schema = Arc::new(parse_message_type(&message).map_err(TableError::parquet)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("esker".to_owned())
            .build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties))
            .map_err(TableError::parquet)?;
        Ok(Self {
            writer,
            texts: vec![Vec::new(); names.len()],
            deleted: Vec::new(),
            has_deleted,
            bytes: 0,
        })
    }

    pub(super) fn write<const N: usize>(
        &mut self,
        row: [String; N],
        deleted: bool,
    ) -> Result<(), TableError> {
        for (column, text) in self.texts.iter_mut().zip(row) {
            self.bytes += text.len() + 32;
            column.push(ByteArray::from(text.into_bytes()));
        }
        self.deleted.push(deleted);
        if self.deleted.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.flush().map_err(TableError::parquet)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> parquet::errors::Result<()> {
        if self.deleted.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut texts = self.texts.iter();
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            if self.has_deleted && at == DELETED_COLUMN {
                column
                    .typed::<BoolType>()
                    .write_batch(&self.deleted, None, None)?;
            } else if let Some(text) = texts.next() {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(text, None, None)?;
            }
            column.close()?;
            at += 1;
        }
        group.close()?;
        self.texts.iter_mut().for_each(Vec::clear);
        self.deleted.clear();
        self.bytes = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W, TableError> {
        self.flush().map_err(TableError::parquet)?;
        self.writer.into_inner().map_err(TableError::parquet)
    }
}
