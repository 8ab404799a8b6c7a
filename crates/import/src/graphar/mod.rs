//! The whole graph in the layout of Apache `GraphAr` (format `gar/v1`), for Spark and other engines.
//!
//! ```text
//!  NAME.graph.yml  File.vertex.yml  Job_write_File.edge.yml                  describe.rs: what there is
//!  vertex/File/all/chunk0 …                                                  a row a vertex, 2^18 in a file
//!  edge/Job_write_File/ordered_by_source/adj_list/part0/chunk0 …             source and destination as numbers of rows
//!                                       /all/part0/chunk0 …                  the same edges' properties
//!                                       /offset/chunk0 …                     where each source's edges begin in its part
//! ```
//!
//! Tables of vertices have what `esker export vertices` writes (`id`, `version`, `deleted`, `attributes`, `user`), and each attribute that the schema
//! declares in a column of its own; tables of edges what `esker export edges` writes. So nothing is lost, and importing is reading those columns.
//! A type has only vertices that are of just that type; edges are told apart by the types of both their ends.
//!
//! The host says where files are made, and when to stop.

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

/// Vertices in a file, unless somebody says otherwise: what `GraphAr` advises.
pub const VERTEX_CHUNK: usize = 1 << 18;
/// So many times as many edges are in a file.
const EDGES_EACH: u64 = 1 << 4;
/// Sources whose edges are read at once.
const PAGE: usize = 2_048;
/// Columns of vertices that come first.
const VERTEX_COLUMNS: [(&str, ValueKind); 6] = [
    ("_graphArVertexIndex", ValueKind::I64),
    ("id", ValueKind::String),
    ("version", ValueKind::String),
    ("deleted", ValueKind::Bool),
    ("attributes", ValueKind::String),
    ("user", ValueKind::String),
];

/// What a file is written to.
pub type Out = Box<dyn Write + Send>;

/// The host's part.
pub trait Host {
    /// Makes a file at a path below the folder, and the folders that it lies in.
    ///
    /// # Errors
    /// If that cannot be.
    fn create(&mut self, path: &str) -> io::Result<Out>;

    /// Told how many rows there are; false stops.
    fn go_on(&mut self, rows: u64) -> bool;
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Rows of vertices, deleted ones that edges may still lead to among them.
    pub vertices: u64,
    /// Rows of edges.
    pub edges: u64,
    /// Edges to vertices that were never inserted: the layout has no place for them.
    pub dangling: u64,
}

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrapharError {
    /// The database.
    #[error(transparent)]
    Graph(#[from] Error),
    /// A file.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Below the folder.
        path: String,
        /// What is wrong with it.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, GrapharError>;

/// A type of vertices, and which there are, in the order of their rows.
struct Kind {
    id: VertexTypeId,
    name: String,
    vertices: Vec<VertexId>,
}

/// Files by way of the host.
struct Files<'a> {
    host: &'a mut dyn Host,
    /// Vertices in a file.
    chunk: usize,
    written: Written,
}

impl Files<'_> {
    /// Edges in a file.
    fn edge_chunk(&self) -> u64 {
        self.chunk as u64 * EDGES_EACH
    }

    fn create(&mut self, path: &str) -> Result<Out> {
        self.host.create(path).map_err(|source| GrapharError::File {
            path: path.to_owned(),
            source,
        })
    }

    /// A small file, whole.
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut out = self.create(path)?;
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|source| GrapharError::File {
            path: path.to_owned(),
            source,
        })
    }

    /// A number, as the layout keeps them.
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

/// Writes all of a graph as of a version, `chunk` vertices in a file. What is described stands last: a folder without `NAME.graph.yml` is not whole.
///
/// # Errors
/// If reading or writing fails, or the host stops it.
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
            kinds.push(Kind {
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

/// The columns of a type: what all have, and what the schema declares, as far as a column can hold it.
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

/// Writes the vertices that are of a type and of none that specialises it; their ids in order.
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

/// Writes the edges of a type that leave vertices of a type, by the types that they lead to; the names of those.
fn edges(
    graph: &dyn GraphRead,
    as_of: Version,
    edge_type: EdgeTypeId,
    source: &Kind,
    kinds: &[Kind],
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
                let Some((kind, index)) = place(kinds, edge.key.destination) else {
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

/// Which type a vertex is of, and which row it has.
fn place(kinds: &[Kind], id: VertexId) -> Option<(usize, usize)> {
    kinds.iter().enumerate().find_map(|(number, kind)| {
        let index = kind.vertices.binary_search(&id).ok()?;
        Some((number, index))
    })
}

/// Names of both ends.
fn names(
    graph: &dyn GraphRead,
    schema: &Schema,
    ends: &[VertexId],
    sources: &[VertexId],
) -> Result<BTreeMap<VertexId, String>> {
    let mut ids: Vec<VertexId> = ends.iter().chain(sources).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    // Type and key never change: what is now names what was then.
    let found = graph.read_vertices(&ids, Version::MAX)?;
    let both = ids.into_iter().zip(found);
    Ok(both
        .filter_map(|(id, vertex)| Some((id, vertex?.name(schema))))
        .collect())
}
