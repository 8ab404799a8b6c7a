//! Bulk insertion of tables of vertices and edges: batches are built from columns, without a Python object per row.
//!
//! ```text
//!  vertices   id (TYPE:KEY)                                   version    any other column is an attribute
//!  edges      source · destination (TYPE:KEY each) · type     version    any other column is a property
//! ```
//!
//! These are the columns of `esker import`; a null is no attribute. A batch is one commit; after an error, the rows of earlier
//! batches remain in the database, and the error says how many.

use crate::arrays::{Column, is_known};
use crate::cancel::Signals;
use crate::error::invalid;
use arrow_array::RecordBatch;
use esker::Database;
use esker_model::namespace::resolve;
use esker_model::{
    Batch, Cancel as _, EdgeTypeId, Error, GraphRead as _, GraphWrite as _, Mutation, Op,
    Properties, Result, Schema, Value, Version, VertexId, VertexName, VertexRef,
};
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};

/// Result of a bulk insertion.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BulkResult {
    pub(crate) vertices: u64,
    pub(crate) edges: u64,
    pub(crate) vertices_created: u64,
    pub(crate) edges_created: u64,
    pub(crate) unchanged: u64,
    pub(crate) version: u64,
}

/// Options of a bulk insertion.
pub(crate) struct Options<'a> {
    /// Number of rows per commit.
    pub(crate) rows: usize,
    /// Edge type for tables without a column `type`.
    pub(crate) edge_type: Option<&'a str>,
    /// Whether missing end vertices of edges are created.
    pub(crate) ensure: bool,
    /// Called with (rows done, rows in all).
    pub(crate) progress: Option<Py<PyAny>>,
}

/// Role of a table's column.
enum Part {
    Named,
    Id,
    Source,
    Destination,
    Type,
    Version,
}

fn part(name: &str, edges: bool) -> Part {
    match (name, edges) {
        ("id", false) => Part::Id,
        ("source" | "src", true) => Part::Source,
        ("destination" | "dst", true) => Part::Destination,
        ("type", true) => Part::Type,
        ("version", _) => Part::Version,
        _ => Part::Named,
    }
}

pub(crate) struct Loader<'a> {
    database: &'a Database,
    schema: std::sync::Arc<Schema>,
    options: Options<'a>,
    signals: &'a Signals,
    done: BulkResult,
    total: u64,
    /// End vertices that are known to exist.
    known: HashSet<VertexId>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        database: &'a Database,
        options: Options<'a>,
        total: u64,
        signals: &'a Signals,
    ) -> Result<Self> {
        Ok(Self {
            database,
            schema: database.schema()?,
            options,
            signals,
            done: BulkResult::default(),
            total,
            known: HashSet::new(),
        })
    }

    pub(crate) const fn done(&self) -> BulkResult {
        self.done
    }

    fn apply(&mut self, mutations: Vec<Mutation>, vertices: u64, edges: u64) -> Result<()> {
        if self.signals.cancelled() {
            return Err(Error::Interrupted);
        }
        let commit = self.database.apply(Batch {
            mutations,
            idempotency_key: None,
        })?;
        self.done.vertices += vertices;
        self.done.edges += edges;
        self.done.vertices_created += commit.vertices_created;
        self.done.edges_created += commit.edges_created;
        self.done.unchanged += commit.unchanged;
        self.done.version = commit.version.0;
        let so_far = self.done.vertices + self.done.edges;
        if let Some(progress) = &self.options.progress
            && !self
                .signals
                .call(|py| progress.call1(py, (so_far, self.total)).map(drop))
        {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Resolves the names to vertices.
    fn resolve(&self, names: &[VertexName]) -> Result<Vec<VertexRef>> {
        // Only paths need the namespace; a lookup costs a round trip if it is remote.
        resolve(
            self.database,
            self.database.principal(),
            &self.schema,
            names,
        )
    }

    fn wrong(&self, table: &str, row: usize, e: &Error) -> Error {
        let (v, n) = (self.done.vertices, self.done.edges);
        invalid(format!(
            "{table}, row {row}: {e} ({v} vertices and {n} edges before it are in the database)"
        ))
    }

    /// Inserts the vertices of a table; `first` is the number of its first row.
    pub(crate) fn vertices(&mut self, table: &RecordBatch, first: usize) -> Result<()> {
        let columns = Column::all(table);
        check(&columns, "vertices")?;
        let find =
            |wanted: fn(&Part) -> bool| columns.iter().find(|c| wanted(&part(c.name(), false)));
        let Some(ids) = find(|p| matches!(p, Part::Id)) else {
            return Err(missing("vertices", "id", &columns));
        };
        let versions = find(|p| matches!(p, Part::Version));
        let named: Vec<&Column> = columns
            .iter()
            .filter(|c| matches!(part(c.name(), false), Part::Named))
            .collect();
        // By vertex type, whether each column is a predefined attribute.
        let mut declared: HashMap<u16, Vec<bool>> = HashMap::new();
        for start in (0..table.num_rows()).step_by(self.options.rows) {
            let end = (start + self.options.rows).min(table.num_rows());
            let names = names(ids, start..end)
                .map_err(|wrong| self.wrong("vertices", first + wrong.0, &wrong.1))?;
            let refs = self.resolve(&names)?;
            let mut mutations = Vec::with_capacity(2 * refs.len());
            for ((at, name), vertex) in (start..end).zip(names).zip(refs) {
                let version =
                    version_at(versions, at).map_err(|e| self.wrong("vertices", first + at, &e))?;
                let schema = &self.schema;
                let predefined = declared.entry(vertex.type_id.0).or_insert_with(|| {
                    named
                        .iter()
                        .map(|c| schema.attribute(vertex.type_id, c.name()).is_some())
                        .collect()
                });
                let (mut attributes, mut user) = (Vec::new(), Vec::new());
                for (column, predefined) in named.iter().zip(predefined.iter()) {
                    if let Some(value) = column.cell(at) {
                        let to = if *predefined {
                            &mut attributes
                        } else {
                            &mut user
                        };
                        to.push((column.name().to_owned(), value));
                    }
                }
                let attributes: Properties = attributes.into_iter().collect();
                mutations.push(Mutation {
                    version,
                    op: Op::PutVertex {
                        vertex,
                        key: name.key,
                        attributes,
                    },
                });
                if !user.is_empty() {
                    let op = Op::SetAttributes {
                        vertex,
                        set: user.into_iter().collect(),
                        remove: Vec::new(),
                    };
                    mutations.push(Mutation { version, op });
                }
            }
            self.apply(mutations, (end - start) as u64, 0)?;
        }
        Ok(())
    }

    /// Inserts the edges of a table; `first` is the number of its first row.
    pub(crate) fn edges(&mut self, table: &RecordBatch, first: usize) -> Result<()> {
        let columns = Column::all(table);
        check(&columns, "edges")?;
        let find =
            |wanted: fn(&Part) -> bool| columns.iter().find(|c| wanted(&part(c.name(), true)));
        let Some(sources) = find(|p| matches!(p, Part::Source)) else {
            return Err(missing("edges", "source", &columns));
        };
        let Some(destinations) = find(|p| matches!(p, Part::Destination)) else {
            return Err(missing("edges", "destination", &columns));
        };
        let types = find(|p| matches!(p, Part::Type));
        let default = match (types, self.options.edge_type) {
            (None, None) => {
                return Err(missing(
                    "edges",
                    "type (or the argument `edge_type`)",
                    &columns,
                ));
            }
            (_, Some(name)) => Some(self.schema.edge_type_id(name)?),
            (Some(_), None) => None,
        };
        let versions = find(|p| matches!(p, Part::Version));
        let named: Vec<&Column> = columns
            .iter()
            .filter(|c| matches!(part(c.name(), true), Part::Named))
            .collect();
        let mut type_ids: HashMap<String, EdgeTypeId> = HashMap::new();
        for start in (0..table.num_rows()).step_by(self.options.rows) {
            let end = (start + self.options.rows).min(table.num_rows());
            let wrong = |wrong: Box<(usize, Error)>| self.wrong("edges", first + wrong.0, &wrong.1);
            let mut ends = names(sources, start..end).map_err(wrong)?;
            ends.extend(names(destinations, start..end).map_err(wrong)?);
            let refs = self.resolve(&ends)?;
            let (from, to) = refs.split_at(end - start);
            let mut mutations = Vec::with_capacity(refs.len());
            for (i, (source, destination)) in from.iter().zip(to).enumerate() {
                let at = start + i;
                let wrong = |e: Error| self.wrong("edges", first + at, &e);
                let version = version_at(versions, at).map_err(wrong)?;
                let edge_type = match types.and_then(|t| t.text(at)) {
                    None => default.ok_or_else(|| wrong(invalid("`type` is null or no text")))?,
                    Some(name) => {
                        if let Some(id) = type_ids.get(name) {
                            *id
                        } else {
                            let id = self.schema.edge_type_id(name);
                            let id = id.map_err(|e| wrong(e.into()))?;
                            type_ids.insert(name.to_owned(), id);
                            id
                        }
                    }
                };
                if self.options.ensure {
                    for (vertex, name) in [
                        (source, ends.get(i)),
                        (destination, ends.get(i + from.len())),
                    ] {
                        // With explicit versions, each one may be older than the last.
                        if let Some(name) = name
                            && (version.is_some() || self.known.insert(vertex.id))
                        {
                            let op = Op::EnsureVertex {
                                vertex: *vertex,
                                key: name.key.clone(),
                            };
                            mutations.push(Mutation { version, op });
                        }
                    }
                }
                let cells = named
                    .iter()
                    .filter_map(|c| Some((c.name().to_owned(), c.cell(at)?)));
                let op = Op::PutEdge {
                    source: *source,
                    edge_type,
                    destination: *destination,
                    properties: cells.collect(),
                };
                mutations.push(Mutation { version, op });
            }
            self.apply(mutations, 0, (end - start) as u64)?;
        }
        Ok(())
    }
}

fn check(columns: &[Column], table: &str) -> Result<()> {
    match columns.iter().find(|c| !is_known(c.data_type())) {
        None => Ok(()),
        Some(c) => Err(invalid(format!(
            "{table}: column `{}` is of Arrow type {}, which is not supported as a value; cast it \
             to integers, floats, booleans, texts, bytes, timestamps or lists of such",
            c.name(),
            c.data_type()
        ))),
    }
}

fn missing(table: &str, what: &str, columns: &[Column]) -> Error {
    let have: Vec<&str> = columns.iter().map(Column::name).collect();
    invalid(format!(
        "{table}: expected a column {what}; the table has: {}",
        have.join(", ")
    ))
}

fn names(
    column: &Column,
    rows: std::ops::Range<usize>,
) -> std::result::Result<Vec<VertexName>, Box<(usize, Error)>> {
    rows.map(|at| {
        if let Some(text) = column.text(at) {
            VertexName::parse(text).map_err(|e| Box::new((at, e.into())))
        } else {
            let why = format!("`{}` is null or no text: expected TYPE:KEY", column.name());
            Err(Box::new((at, invalid(why))))
        }
    })
    .collect()
}

fn version_at(column: Option<&Column>, at: usize) -> Result<Option<Version>> {
    match column.and_then(|c| c.cell(at)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(Version::parse_as_of(&text)?)),
        // The format of versions in tables: milliseconds, and the logical part in the nanoseconds below them.
        Some(Value::Timestamp(nanos)) => match u64::try_from(nanos / 1_000_000) {
            Ok(millis) if nanos >= 0 => {
                let logical = u16::try_from(nanos % 1_000_000).unwrap_or(u16::MAX);
                Ok(Some(Version::new(millis, logical)))
            }
            _ => Err(invalid("`version` is before 1970")),
        },
        Some(other) => Err(invalid(format!(
            "`version` is {}: expected a timestamp or a text such as 2026-03-01T12:00:00Z",
            other.kind_name()
        ))),
    }
}
