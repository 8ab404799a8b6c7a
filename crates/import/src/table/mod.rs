//! Vertices and edges in bulk, as tables: CSV, NDJSON, Parquet, and plain lists of edges. The same files both ways.
//!
//! ```text
//!  vertices   id · version · deleted · attributes · user            any other column is an attribute
//!  edges      source · type · destination · version · properties    any other column is a property
//! ```
//!
//! [`TableWriter`] writes exactly these columns, so that a table says everything: `attributes` and `properties` are
//! JSON objects of typed values (see `value`), `user` holds user-defined attributes, each with its own version.
//! [`TableReader`] reads them back, and reads what people have: any table with an `id` column (or `source` and
//! `destination`). A column that the vertex's type declares is a predefined attribute, any other a user-defined one;
//! `name:kind` as a heading says what the cells are, else they are what they look like.
//!
//! A version in the table makes an import repeatable: the same rows are the same versions. Rows without one take
//! the version that the host gives, or the commit's.
//!
//! Nothing here holds more than a row group in memory. A bad record is an error with its place, and the next call
//! goes on behind it.
//!
//! Tables of objects have columns of any names: [`ObjectReader`] is told which hold the ID attributes. [`TypedWriter`]
//! writes columns that have a kind each.
//!
//! Text that is compressed by gzip is told by its first bytes, and read as it is without.
//!
//! Start with [`TableReader::text`], [`TableReader::parquet`] and [`TableWriter::new`].

mod columns;
mod edge_list;
mod objects;
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
pub use typed::TypedWriter;
pub use value::{value_from_json, value_to_json, version_from_text};
pub use write::{TableError, TableWriter};

use esker_model::{Mutation, Schema, SchemaError, Version};
use record::{Builder, Row};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;

/// Longest record in bytes, whatever the format: a quote that is never closed must not swallow the memory.
pub const RECORD_BYTES_MAX: u64 = 32 << 20;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How a table is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a heading (RFC 4180).
    Csv,
    /// The same with tabs.
    Tsv,
    /// One JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Two ends a line, separated by blanks, tabs, commas or semicolons; `#` and `%` begin comments. Edges only.
    EdgeList,
}

impl Format {
    /// The format that the end of a file's name promises; `.gz` behind it does not count.
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

    /// The word for it in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
            Self::EdgeList => "edges",
        }
    }

    /// The format of that name.
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

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Vertices.
    Vertices,
    /// Edges.
    Edges,
    /// Objects.
    Objects,
}

/// How to read a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// The file's name, for messages.
    pub file: String,
    /// What its rows are.
    pub rows: Rows,
    /// The vertex type of ids without one (`1001` rather than `user:1001`), of both ends of edges.
    pub vertex_type: Option<String>,
    /// The same, for destinations only.
    pub destination_type: Option<String>,
    /// The edge type of rows without one.
    pub edge_type: Option<String>,
    /// The version of rows without one; `None` for the version of their commit.
    pub version: Option<Version>,
    /// Do not create the missing ends of edges: the edge is then refused when it is applied.
    pub strict: bool,
    /// Cells without a declared kind that look like numbers or truth values become such; otherwise they stay text.
    pub infer: bool,
    /// Columns that must be there, beside those that the rows need anyhow.
    pub needed: Vec<String>,
    /// Pass over columns that have names of their own: `attributes`, `user` and `properties` say it all.
    pub whole_only: bool,
}

impl ReadOptions {
    /// Rows of that kind in a file of that name; everything else as most want it.
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

/// A record that cannot be imported, or a file that cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", place(*.line, *.byte))]
pub struct RecordError {
    /// The file.
    pub file: String,
    /// Line (text) or row (Parquet) from 1; 0 if it is about the file as a whole.
    pub line: u64,
    /// Where the record begins, in bytes from the start of the file, if known.
    pub byte: Option<u64>,
    /// What is wrong, what was expected.
    pub message: String,
    /// Whether the rest of the file cannot be read: no more comes after it.
    pub fatal: bool,
}

fn place(line: u64, byte: Option<u64>) -> String {
    match (line, byte) {
        (0, _) => String::new(),
        (line, Some(byte)) => format!(", line {line} (byte {byte})"),
        (line, None) => format!(", row {line}"),
    }
}

/// Rows of a file, or what was wrong with one.
trait RowSource: Send {
    fn next_row(&mut self) -> Option<Result<Row, RecordError>>;

    /// The names of its columns that have names of their own, where a heading says them.
    fn headings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads a table as mutations.
///
/// An iterator: records in the order of the file, each as one mutation or several, or as an error that names its
/// place. A record is never torn: either all its mutations come, or its error.
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
    /// Reads any format but Parquet.
    ///
    /// # Errors
    /// If the heading lacks the columns that rows of that kind need, or an option names an unknown type.
    pub fn text(
        input: impl Read + Send + 'static,
        format: Format,
        options: &ReadOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, RecordError> {
        let rows = text_rows(input, format, options)?;
        Self::new(rows, options, schema)
    }

    /// Reads Parquet.
    ///
    /// # Errors
    /// If it is no Parquet file, or for the reasons of [`Self::text`].
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
            return Err(whole(options, "objects have a reader of their own"));
        }
        let builder = Builder::new(options, schema)
            .map_err(|e: SchemaError| whole(options, &e.to_string()))?;
        Ok(Self {
            rows,
            builder,
            ready: VecDeque::new(),
            failed: false,
            records: 0,
        })
    }

    /// Good records so far.
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

/// The rows of any format but Parquet; unpacked where gzip packed them.
fn text_rows(
    input: impl Read + Send + 'static,
    format: Format,
    options: &ReadOptions,
) -> Result<Box<dyn RowSource>, RecordError> {
    let mut input = BufReader::with_capacity(1 << 16, Box::new(input) as Box<dyn Read + Send>);
    let packed = input
        .fill_buf()
        .map_err(|e| whole(options, &e.to_string()))?
        .starts_with(&GZIP);
    if packed {
        let unpacked = Box::new(flate2::bufread::MultiGzDecoder::new(input));
        input = BufReader::with_capacity(1 << 16, unpacked);
    }
    Ok(match format {
        Format::Csv => Box::new(text::Separated::new(input, b',', options)?),
        Format::Tsv => text::tsv(input, options)?,
        Format::Ndjson => Box::new(text::Lines::new(input, options)),
        Format::EdgeList => Box::new(edge_list::EdgeList::new(input, options)?),
        Format::Parquet => {
            let message = "Parquet has its index at the end: it must be a file, not a stream";
            return Err(whole(options, message));
        }
    })
}

/// An error about a file as a whole.
fn whole(options: &ReadOptions, message: &str) -> RecordError {
    RecordError {
        file: options.file.clone(),
        line: 0,
        byte: None,
        message: message.to_owned(),
        fatal: true,
    }
}
