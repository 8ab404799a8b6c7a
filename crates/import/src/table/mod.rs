//! Bulk import and export of vertices and edges as tables: CSV, NDJSON, Parquet, and plain edge lists. Exported files can be imported.
//!
//! ```text
//!  vertices   id · version · deleted · attributes · user            any other column is an attribute
//!  edges      source · type · destination · version · properties    any other column is a property
//! ```
//!
//! [`TableWriter`] writes exactly these columns, so that a table is lossless: `attributes` and `properties` are JSON objects of typed
//! values (see `value`), `user` has the user-defined attributes, each with its own version. [`TableReader`] reads these tables, and any
//! table with an `id` column (or `source` and `destination`). A column declared by the vertex's type is a predefined attribute, any other a
//! user-defined one; `name:kind` in a heading declares the type of the cells, otherwise it is inferred.
//!
//! A version in the table makes an import repeatable: equal rows have equal versions. Rows without a version get the one given by the host,
//! or the commit's.
//!
//! At most one row group is in memory. An invalid record is an error with its location, and the next call continues after the record.
//!
//! Tables of objects have columns of any names: [`ObjectReader`] is given those of the ID attributes. [`TypedWriter`] writes typed columns.
//!
//! Text compressed by gzip is detected by its first bytes and decompressed.
//!
//! The entry points are [`TableReader::text`], [`TableReader::parquet`] and [`TableWriter::new`].

mod columns;
mod edge_list;
mod objects;
mod outline;
mod parquet;
mod record;
mod text;
mod typed;
mod value;
pub(crate) mod write;

#[cfg(test)]
mod objects_tests;
#[cfg(test)]
mod tests;

pub use objects::{IdColumns, IdSource, ObjectReader, ObjectRecord, ObjectTable};
pub use outline::{Outline, outline};
pub use typed::TypedWriter;
pub use value::{value_from_json, value_to_json, version_from_text};
pub use write::{TableError, TableWriter};

use esker_model::{Mutation, Schema, SchemaError, Version};
use record::{Builder, Row};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;

/// Limit of a record in bytes, in every format: an unterminated quote must not exhaust the memory.
pub const RECORD_BYTES_MAX: u64 = 32 << 20;

/// Magic number of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a heading (RFC 4180).
    Csv,
    /// Tab-separated values with a heading.
    Tsv,
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet files.
    Parquet,
    /// Two ends per line, separated by blanks, tabs, commas or semicolons; `#` and `%` begin comments. Edges only.
    EdgeList,
}

impl Format {
    /// Returns the format for a file name's extension; a `.gz` after it is ignored.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "ndjson" | "jsonl" | "json" => Self::Ndjson,
            "parquet" | "pq" => Self::Parquet,
            "txt" | "edges" | "el" => Self::EdgeList,
            _ => return None,
        })
    }

    /// Returns the name of the format in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
            Self::EdgeList => "edges",
        }
    }

    /// Returns the format with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Csv,
            Self::Tsv,
            Self::Ndjson,
            Self::Parquet,
            Self::EdgeList,
        ]
        .into_iter()
        .find(|f| f.name() == name)
    }
}

/// Content of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One vertex per row.
    Vertices,
    /// One edge per row.
    Edges,
    /// One object per row.
    Objects,
}

/// Options for reading a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// Name of the file, for messages.
    pub file: String,
    /// Content of the rows.
    pub rows: Rows,
    /// Vertex type of ids without one (`1001` rather than `user:1001`), for both ends of edges.
    pub vertex_type: Option<String>,
    /// Vertex type of ids without one, for destinations only.
    pub destination_type: Option<String>,
    /// Edge type of rows without one.
    pub edge_type: Option<String>,
    /// Version of rows without one; `None` for the version of their commit.
    pub version: Option<Version>,
    /// Whether to leave missing ends of edges missing: then the edge is refused when it is applied.
    pub strict: bool,
    /// Whether untyped cells that look like numbers or booleans become such; otherwise they stay text.
    pub infer: bool,
    /// Further required columns, besides those that the rows need.
    pub needed: Vec<String>,
    /// Whether to skip columns of single attributes: `attributes`, `user` and `properties` contain everything.
    pub whole_only: bool,
}

impl ReadOptions {
    /// Returns the default options for a file's name and the content of its rows.
    pub fn new(file: impl Into<String>, rows: Rows) -> Self {
        Self {
            file: file.into(),
            rows,
            vertex_type: None,
            destination_type: None,
            edge_type: None,
            version: None,
            strict: false,
            infer: true,
            needed: Vec::new(),
            whole_only: false,
        }
    }
}

/// A record that cannot be imported, or a file that cannot be read further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", location(*.line, *.byte))]
pub struct RecordError {
    /// Name of the file.
    pub file: String,
    /// Line (text) or row (Parquet) from 1; 0 if the error is about the file as a whole.
    pub line: u64,
    /// Start of the record, in bytes from the start of the file, if known.
    pub byte: Option<u64>,
    /// Description of the error and the expected content.
    pub message: String,
    /// Whether the rest of the file cannot be read.
    pub fatal: bool,
}

fn location(line: u64, byte: Option<u64>) -> String {
    match (line, byte) {
        (0, _) => String::new(),
        (line, Some(byte)) => format!(", line {line} (byte {byte})"),
        (line, None) => format!(", row {line}"),
    }
}

/// Source of a file's rows, each valid or an error.
trait RowSource: Send {
    fn next_row(&mut self) -> Option<Result<Row, RecordError>>;

    /// Returns the names of the attribute columns, if the format has a heading.
    fn headings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads a table as mutations.
///
/// An iterator over the records in the order of the file, each as one or more mutations, or as an error with its location. A record is
/// never split: either all its mutations are returned, or its error.
pub struct TableReader {
    rows: Box<dyn RowSource>,
    builder: Builder,
    ready: VecDeque<Mutation>,
    failed: bool,
    records: u64,
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader")
            .field("records", &self.records)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl TableReader {
    /// Reads any format except Parquet.
    ///
    /// # Errors
    /// Fails if the heading lacks required columns, or an option names an unknown type.
    pub fn text(
        input: impl Read + Send + 'static,
        format: Format,
        options: &ReadOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        let rows = text_rows(input, format, options)?;
        Self::new(rows, options, schema)
    }

    /// Reads a Parquet file.
    ///
    /// # Errors
    /// Fails if it is not a Parquet file, or for the reasons of [`Self::text`].
    pub fn parquet(
        input: std::fs::File,
        options: &ReadOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        Self::new(
            Box::new(parquet::RowGroups::new(input, options)?),
            options,
            schema,
        )
    }

    fn new(
        rows: Box<dyn RowSource>,
        options: &ReadOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        if options.rows == Rows::Objects {
            return Err(file_error(options, "objects have a reader of their own"));
        }
        let builder = Builder::new(options, schema)
            .map_err(|e: SchemaError| file_error(options, &e.to_string()))?;
        Ok(Self {
            rows,
            builder,
            ready: VecDeque::new(),
            failed: false,
            records: 0,
        })
    }

    /// Returns the number of valid records so far.
    pub fn records(&self) -> u64 {
        self.records
    }
}

impl Iterator for TableReader {
    type Item = Result<Mutation, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mutation) = self.ready.pop_front() {
                return Some(Ok(mutation));
            }
            if self.failed {
                return None;
            }
            let built = match self.rows.next_row()? {
                Ok(row) => self.builder.build(row, &mut self.ready),
                Err(error) => Err(error),
            };
            match built {
                Ok(()) => self.records += 1,
                Err(error) => {
                    self.failed = error.fatal;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Returns the rows of any format except Parquet, decompressed if necessary.
fn text_rows(
    input: impl Read + Send + 'static,
    format: Format,
    options: &ReadOptions,
) -> Result<Box<dyn RowSource>, RecordError> {
    let mut input = BufReader::with_capacity(1 << 16, Box::new(input) as Box<dyn Read + Send>);
    let packed = input
        .fill_buf()
        .map_err(|e| file_error(options, &e.to_string()))?
        .starts_with(&GZIP);
    if packed {
        let unpacked = Box::new(flate2::bufread::MultiGzDecoder::new(input));
        input = BufReader::with_capacity(1 << 16, unpacked);
    }
    Ok(match format {
        Format::Csv => Box::new(text::SeparatedValues::new(input, b',', options)?),
        Format::Tsv => text::tsv(input, options)?,
        Format::Ndjson => Box::new(text::NdjsonRows::new(input, options)),
        Format::EdgeList => Box::new(edge_list::EdgeList::new(input, options)?),
        Format::Parquet => {
            let message = "Parquet has its index at the end: it must be a file, not a stream";
            return Err(file_error(options, message));
        }
    })
}

/// Returns an error about a file as a whole.
fn file_error(options: &ReadOptions, message: &str) -> RecordError {
    RecordError {
        file: options.file.clone(),
        line: 0,
        byte: None,
        message: message.to_owned(),
        fatal: true,
    }
}
