//! Lossless tables of vertices and edges.

use super::parquet::ParquetSink;
use super::value::value_to_json;
use super::{Format, Rows};
use esker_model::record::UserAttribute;
use esker_model::{Edge, Properties, Schema, Vertex};
use serde_json::{Map, Value as Json};
use std::io::{BufWriter, Write};

const VERTEX_TEXTS: [&str; 4] = ["id", "version", "attributes", "user"];
const VERTEX_HEADING: [&str; 5] = ["id", "version", "deleted", "attributes", "user"];
const EDGE_HEADING: [&str; 5] = ["source", "type", "destination", "version", "properties"];

/// Error of a table that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The output failed.
    #[error("the table cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The Parquet library failed.
    #[error("the Parquet file cannot be written: {0}")]
    Parquet(String),
    /// A value of another kind than those before it.
    #[error(
        "column `{column}` of the Parquet file holds one kind of value, and row {row} has a {kind}; write csv or ndjson"
    )]
    Mixed {
        /// Name of the column.
        column: String,
        /// The row, from 1.
        row: u64,
        /// Kind of the value.
        kind: &'static str,
    },
    /// A format that would lose information.
    #[error(
        "a table in the format `{format}` cannot hold all of the {rows}; expected csv, tsv, ndjson or parquet"
    )]
    Format {
        /// Name of the requested format.
        format: &'static str,
        /// Either `vertices` or `edges`.
        rows: &'static str,
    },
}

impl TableError {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the shape that `map_err` wants"
    )]
    pub(super) fn parquet(error: parquet::errors::ParquetError) -> Self {
        Self::Parquet(error.to_string())
    }
}

enum Sink<W: Write + Send> {
    Separated(Box<csv::Writer<W>>),
    Ndjson(BufWriter<W>),
    Parquet(Box<ParquetSink<W>>),
}

/// Writes vertices, or edges, as a table.
///
/// ```text
///  id,version,deleted,attributes,user
///  file:/a,2026-03-01T12:00:00.000Z,,"{""size"":7}","{""tag"":{""value"":""x"",""version"":""2026-…""}}"
/// ```
///
/// The caller is responsible for consistency: it reads the graph as of one version and passes the results.
pub struct TableWriter<W: Write + Send> {
    sink: Sink<W>,
    rows: u64,
}

impl<W: Write + Send> std::fmt::Debug for TableWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts a table; the heading is written at once, so that a table without rows is valid.
    ///
    /// # Errors
    /// Fails for [`Format::EdgeList`], which has neither versions nor properties, for objects ([`super::TypedWriter`] writes those), and if
    /// the output fails.
    pub fn new(out: W, format: Format, rows: Rows) -> Result<Self, TableError> {
        if rows == Rows::Objects {
            return Err(TableError::Format {
                format: format.name(),
                rows: "objects",
            });
        }
        let vertices = rows == Rows::Vertices;
        let heading = if vertices {
            VERTEX_HEADING
        } else {
            EDGE_HEADING
        };
        let sink = match format {
            Format::Csv | Format::Tsv => {
                let delimiter = if format == Format::Csv { b',' } else { b'\t' };
                let mut writer = csv::WriterBuilder::new()
                    .delimiter(delimiter)
                    .from_writer(out);
                writer.write_record(heading).map_err(io)?;
                Sink::Separated(Box::new(writer))
            }
            Format::Ndjson => Sink::Ndjson(BufWriter::new(out)),
            Format::Parquet => {
                let texts: &[&str] = if vertices {
                    &VERTEX_TEXTS
                } else {
                    &EDGE_HEADING
                };
                Sink::Parquet(Box::new(ParquetSink::new(out, texts, vertices)?))
            }
            Format::EdgeList => {
                return Err(TableError::Format {
                    format: format.name(),
                    rows: if vertices { "vertices" } else { "edges" },
                });
            }
        };
        Ok(Self { sink, rows: 0 })
    }

    /// Adds a vertex as a row.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn vertex(&mut self, vertex: &Vertex, schema: &Schema) -> Result<(), TableError> {
        let name = vertex.name(schema);
        let version = vertex.version.to_string();
        let attributes = object(&vertex.attributes);
        let user = user(vertex);
        match &mut self.sink {
            Sink::Separated(out) => {
                let deleted = if vertex.deleted { "true" } else { "" };
                let texts = [text(attributes), text(user)];
                let [attributes, user] = &texts;
                out.write_record([&name, &version, deleted, attributes, user])
                    .map_err(io)?;
            }
            Sink::Ndjson(out) => {
                let mut row = Map::new();
                row.insert("id".into(), name.into());
                row.insert("version".into(), version.into());
                if vertex.deleted {
                    row.insert("deleted".into(), true.into());
                }
                row.insert("attributes".into(), attributes.into());
                row.insert("user".into(), user.into());
                line(out, row)?;
            }
            Sink::Parquet(out) => {
                out.write(
                    [name, version, text(attributes), text(user)],
                    vertex.deleted,
                )?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds an edge between the vertices with these names (`type:key`). The table cannot represent deleted edges: only existing edges may
    /// be added, and only one of an edge and its inverse.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn edge(
        &mut self,
        edge: &Edge,
        source: &str,
        destination: &str,
        schema: &Schema,
    ) -> Result<(), TableError> {
        let id = edge.key.edge_type;
        let type_name = schema
            .edge_type(id)
            .map_or_else(|| format!("#{}", id.0), |t| t.name.clone());
        let version = edge.version.to_string();
        let properties = object(&edge.properties);
        match &mut self.sink {
            Sink::Separated(out) => {
                let properties = text(properties);
                out.write_record([source, &type_name, destination, &version, &properties])
                    .map_err(io)?;
            }
            Sink::Ndjson(out) => {
                let mut row = Map::new();
                row.insert("source".into(), source.into());
                row.insert("type".into(), type_name.into());
                row.insert("destination".into(), destination.into());
                row.insert("version".into(), version.into());
                row.insert("properties".into(), properties.into());
                line(out, row)?;
            }
            Sink::Parquet(out) => {
                let (source, destination) = (source.to_owned(), destination.to_owned());
                out.write(
                    [source, type_name, destination, version, text(properties)],
                    false,
                )?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes buffered rows and returns the output. Without this call the table is incomplete.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn finish(self) -> Result<W, TableError> {
        Ok(match self.sink {
            Sink::Separated(out) => out
                .into_inner()
                .map_err(|e| TableError::Io(e.into_error()))?,
            Sink::Ndjson(out) => out
                .into_inner()
                .map_err(|e| TableError::Io(e.into_error()))?,
            Sink::Parquet(out) => out.finish()?,
        })
    }
}

/// Returns the user-defined attributes, with their versions.
pub(crate) fn user(vertex: &Vertex) -> Map<String, Json> {
    let member = |a: &UserAttribute| {
        let mut member = Map::new();
        member.insert("value".into(), value_to_json(&a.value));
        member.insert("version".into(), Json::String(a.version.to_string()));
        (a.name.clone(), Json::Object(member))
    };
    vertex.user.iter().map(member).collect()
}

pub(crate) fn object(properties: &Properties) -> Map<String, Json> {
    properties
        .iter()
        .map(|(name, value)| (name.to_owned(), value_to_json(value)))
        .collect()
}

pub(crate) fn text(object: Map<String, Json>) -> String {
    Json::Object(object).to_string()
}

fn line(out: &mut impl Write, row: Map<String, Json>) -> Result<(), TableError> {
    serde_json::to_writer(&mut *out, &Json::Object(row)).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn io(error: csv::Error) -> TableError {
    TableError::Io(error.into())
}
