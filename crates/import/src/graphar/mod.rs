//! Export of the whole graph in the layout of Apache `GraphAr` (format `gar/v1`), for Spark and other engines.
//!
//! ```text
//!  NAME.graph.yml  File.vertex.yml  Job_write_File.edge.yml                  describe.rs: the descriptions
//!  vertex/File/all/chunk0 …                                                  a row per vertex, 2^18 in a file
//!  edge/Job_write_File/ordered_by_source/adj_list/part0/chunk0 …             source and destination as row numbers
//!                                       /all/part0/chunk0 …                  properties of the same edges
//!                                       /offset/chunk0 …                     offset of each source's first edge in its part
//! ```
//!
//! Vertex tables have the columns of `esker export vertices` (`id`, `version`, `deleted`, `attributes`, `user`), and one column for each
//! attribute that the schema declares; edge tables have the columns of `esker export edges`. So nothing is lost, and an import reads those
//! columns. A type's table has only vertices of exactly this type; edges are separated by the types of both ends.
//!
//! The host creates the files and decides when to stop.

mod describe;
mod edges;

use crate::table::write::{object, text, user};
use crate::table::{TableError, TypedWriter};
use edges::EdgeFiles;
use esker_model::{
    Edge, EdgeSelect, EdgeTypeId, Error, GraphRead, Schema, Value, ValueKind, Version, Versions,
    Vertex, VertexId, VertexSelect, VertexTypeId,
};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Default number of vertices in a file, as `GraphAr` recommends.
pub const VERTEX_CHUNK: usize = 1 << 18;
/// Ratio of edges per file to vertices per file.
const EDGES_EACH: u64 = 1 << 4;
/// Number of sources whose edges are read at a time.
const PAGE: usize = 2_048;
/// Leading columns of vertex tables.
const VERTEX_COLUMNS: [(&str, ValueKind); 6] = [
    ("_graphArVertexIndex", ValueKind::I64),
    ("id", ValueKind::String),
    ("version", ValueKind::String),
    ("deleted", ValueKind::Bool),
    ("attributes", ValueKind::String),
    ("user", ValueKind::String),
];

/// Output of a file.
pub type Out = Box<dyn Write + Send>;

/// Callbacks to the host.
pub trait Host {
    /// Creates a file at a path below the folder, including its parent folders.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    fn create(&mut self, path: &str) -> io::Result<Out>;

    /// Reports the number of rows so far; `false` stops the export.
    fn go_on(&mut self, rows: u64) -> bool;
}

/// Statistics of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Number of vertex rows, including deleted vertices to which edges may still lead.
    pub vertices: u64,
    /// Number of edge rows.
    pub edges: u64,
    /// Number of edges to vertices that were never inserted: the layout cannot represent them.
    pub dangling: u64,
}

/// Cause for which an export ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrapharError {
    /// Reading the database failed.
    #[error(transparent)]
    Graph(#[from] Error),
    /// Writing a table failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Writing a file failed.
    #[error("{path}: {source}")]
    File {
        /// Path below the folder.
        path: String,
        /// Cause of the failure.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, GrapharError>;

/// A vertex type and its vertices, in the order of their rows.
struct TypeVertices {
    id: VertexTypeId,
    name: String,
    vertices: Vec<VertexId>,
}

/// Writer of files through the host.
struct Files<'a> {
    host: &'a mut dyn Host,
    /// Vertices per file.
    chunk: usize,
    written: Written,
}

impl Files<'_> {
    /// Returns the number of edges per file.
    fn edge_chunk(&self) -> u64 {
        self.chunk as u64 * EDGES_EACH
    }

    fn create(&mut self, path: &str) -> Result<Out> {
        self.host.create(path).map_err(|source| GrapharError::File {
            path: path.to_owned(),
            source,
        })
    }

    /// Writes a small file at once.
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut out = self.create(path)?;
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|source| GrapharError::File {
            path: path.to_owned(),
            source,
        })
    }

    /// Writes a number in the encoding of the layout.
    fn number(&mut self, path: &str, number: u64) -> Result<()> {
        self.put(path, &number.to_le_bytes())
    }

    fn table(&mut self, path: &str, columns: &[(String, ValueKind)]) -> Result<TypedWriter<Out>> {
        let out = self.create(path)?;
        Ok(TypedWriter::of(out, columns)?)
    }

    fn go_on(&mut self) -> Result<()> {
        if self.host.go_on(self.written.vertices + self.written.edges) {
            Ok(())
        } else {
            Err(Error::Interrupted.into())
        }
    }
}

fn end(table: TypedWriter<Out>, path: &str) -> Result<()> {
    table
        .finish()?
        .flush()
        .map_err(|source| GrapharError::File {
            path: path.to_owned(),
            source,
        })
}

fn int(number: usize) -> Option<Value> {
    i64::try_from(number).ok().map(Value::I64)
}

/// Exports a graph as of a version, with `chunk` vertices per file. The description is written last: a folder without `NAME.graph.yml` is
/// incomplete.
///
/// # Errors
/// Fails if reading or writing fails, or the host stops the export.
pub fn export(
    graph: &dyn GraphRead,
    as_of: Version,
    name: &str,
    chunk: usize,
    host: &mut dyn Host,
) -> Result<Written> {
    let schema = graph.schema()?;
    let chunk = chunk.max(1);
    let mut files = Files {
        host,
        chunk,
        written: Written::default(),
    };
    let mut kinds = Vec::new();
    let mut described = Vec::new();
    for (id, kind) in schema.vertex_types() {
        let columns = columns(&schema, id);
        let vertices = vertices(
            graph,
            as_of,
            (id, &kind.name),
            &columns,
            &schema,
            &mut files,
        )?;
        if !vertices.is_empty() {
            let path = format!("{}.vertex.yml", kind.name);
            files.put(
                &path,
                describe::vertices(&kind.name, &columns, chunk).as_bytes(),
            )?;
            described.push(path);
            kinds.push(TypeVertices {
                id,
                name: kind.name.clone(),
                vertices,
            });
        }
    }
    let vertex_files = described.len();
    for (edge_type, about) in schema.edge_types().filter(|(_, t)| t.forward) {
        for source in &kinds {
            if !schema.is_a(source.id, about.source) {
                continue;
            }
            let found = edges(graph, as_of, edge_type, source, &kinds, &schema, &mut files)?;
            for destination in found {
                let triple = [&source.name, &about.name, &destination];
                let path = format!("{}_{}_{}.edge.yml", triple[0], triple[1], triple[2]);
                let about = describe::edges(triple, chunk, files.edge_chunk());
                files.put(&path, about.as_bytes())?;
                described.push(path);
            }
        }
    }
    let (vertices, edges) = described.split_at(vertex_files);
    let graph = describe::graph(name, vertices, edges);
    files.put(&format!("{name}.graph.yml"), graph.as_bytes())?;
    Ok(files.written)
}

/// Returns the columns of a type: the common ones, and declared attributes of representable kinds.
fn columns(schema: &Schema, id: VertexTypeId) -> Vec<(String, ValueKind)> {
    let mut all: Vec<(String, ValueKind)> = VERTEX_COLUMNS
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), *kind))
        .collect();
    for attribute in schema.attributes(id) {
        let holds = matches!(
            attribute.kind,
            ValueKind::Bool
                | ValueKind::I64
                | ValueKind::F64
                | ValueKind::String
                | ValueKind::Timestamp
        );
        if holds && !all.iter().any(|(name, _)| *name == attribute.name) {
            all.push((attribute.name.clone(), attribute.kind));
        }
    }
    all
}

/// Writes the vertices of exactly this type, not of its subtypes; returns their ids in order.
fn vertices(
    graph: &dyn GraphRead,
    as_of: Version,
    (id, name): (VertexTypeId, &str),
    columns: &[(String, ValueKind)],
    schema: &Schema,
    files: &mut Files<'_>,
) -> Result<Vec<VertexId>> {
    let mut all: Vec<VertexId> = Vec::new();
    let mut table: Option<(TypedWriter<Out>, String)> = None;
    let mut after = None;
    loop {
        let select = VertexSelect {
            type_id: id,
            after,
            as_of,
            deleted: true,
        };
        let mut page: Vec<Vertex> = Vec::new();
        graph.scan_vertices(&select, &mut |vertex| {
            page.push(vertex);
            if page.len() < PAGE {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        let Some(last) = page.last() else { break };
        after = Some((last.type_id, last.id));
        let full = page.len() == PAGE;
        for vertex in page.iter().filter(|v| v.type_id == id) {
            if all.len().is_multiple_of(files.chunk) {
                if let Some((table, path)) = table.take() {
                    end(table, &path)?;
                }
                let path = format!("vertex/{name}/all/chunk{}", all.len() / files.chunk);
                table = Some((files.table(&path, columns)?, path));
            }
            if let Some((table, _)) = &mut table {
                table.row(row(vertex, all.len(), columns, schema))?;
            }
            all.push(vertex.id);
            files.written.vertices += 1;
        }
        files.go_on()?;
        if !full {
            break;
        }
    }
    if let Some((table, path)) = table {
        end(table, &path)?;
        files.number(&format!("vertex/{name}/vertex_count"), all.len() as u64)?;
    }
    Ok(all)
}

fn row(
    vertex: &Vertex,
    index: usize,
    columns: &[(String, ValueKind)],
    schema: &Schema,
) -> Vec<Option<Value>> {
    let mut row = vec![
        int(index),
        Some(vertex.name(schema).into()),
        Some(vertex.version.to_string().into()),
        Some(Value::Bool(vertex.deleted)),
        Some(text(object(&vertex.attributes)).into()),
        Some(text(user(vertex)).into()),
    ];
    let own = columns.iter().skip(VERTEX_COLUMNS.len());
    row.extend(own.map(|(name, kind)| {
        let value = vertex.attributes.get(name)?;
        kind.accepts(value).then(|| value.clone())
    }));
    row
}

/// Writes the edges of a type that leave vertices of a type, separated by destination type. Returns the names of the files' edge types.
fn edges(
    graph: &dyn GraphRead,
    as_of: Version,
    edge_type: EdgeTypeId,
    source: &TypeVertices,
    kinds: &[TypeVertices],
    schema: &Schema,
    files: &mut Files<'_>,
) -> Result<Vec<String>> {
    let type_name = schema
        .edge_type(edge_type)
        .map_or_else(|| format!("type-{}", edge_type.0), |t| t.name.clone());
    let select = EdgeSelect {
        types: vec![edge_type],
        versions: Versions::AsOf(as_of),
        properties: true,
        after: None,
    };
    let mut open: BTreeMap<usize, EdgeFiles> = BTreeMap::new();
    for (part, chunk) in source.vertices.chunks(files.chunk).enumerate() {
        for (page, sources) in chunk.chunks(PAGE).enumerate() {
            let mut found: Vec<(usize, Edge)> = Vec::new();
            graph.scan_edges(sources, &select, &mut |n, edge| {
                found.push((page * PAGE + n, edge));
                ControlFlow::Continue(())
            })?;
            let ends: Vec<VertexId> = found.iter().map(|(_, e)| e.key.destination).collect();
            let names = names(graph, schema, &ends, sources)?;
            for (n, edge) in found {
                let Some((kind, index)) = row_of(kinds, edge.key.destination) else {
                    files.written.dangling += 1;
                    continue;
                };
                let writer = open.entry(kind).or_insert_with(|| {
                    let to = &kinds[kind].name;
                    EdgeFiles::new(&format!("edge/{}_{type_name}_{to}", source.name))
                });
                let name = |id: VertexId| names.get(&id).map(String::as_str).unwrap_or_default();
                let properties = vec![
                    Some(name(edge.key.source).into()),
                    Some(type_name.as_str().into()),
                    Some(name(edge.key.destination).into()),
                    Some(edge.version.to_string().into()),
                    Some(text(object(&edge.properties)).into()),
                ];
                writer.edge((part, n), index, properties, files)?;
                files.written.edges += 1;
            }
            files.go_on()?;
        }
    }
    let mut to = Vec::new();
    for (kind, writer) in open {
        writer.finish(source.vertices.len(), files)?;
        to.push(kinds[kind].name.clone());
    }
    Ok(to)
}

/// Returns the index of a vertex's type, and its row.
fn row_of(kinds: &[TypeVertices], id: VertexId) -> Option<(usize, usize)> {
    kinds.iter().enumerate().find_map(|(number, kind)| {
        let index = kind.vertices.binary_search(&id).ok()?;
        Some((number, index))
    })
}

/// Returns the names of both ends.
fn names(
    graph: &dyn GraphRead,
    schema: &Schema,
    ends: &[VertexId],
    sources: &[VertexId],
) -> Result<BTreeMap<VertexId, String>> {
    let mut ids: Vec<VertexId> = ends.iter().chain(sources).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    // Type and key never change, so the current name is valid for all versions.
    let found = graph.read_vertices(&ids, Version::MAX)?;
    let both = ids.into_iter().zip(found);
    Ok(both
        .filter_map(|(id, vertex)| Some((id, vertex?.name(schema))))
        .collect())
}
