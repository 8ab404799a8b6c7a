//! Database for Python's classes: names and plain values in, tuples and columns out. `esker.Database` is based on it.

use crate::bulk::{BulkResult, Loader, Options as BulkOptions};
use crate::cancel::work;
use crate::columns::Columns;
use crate::error::{invalid, raise};
use crate::value::{as_of, at, dict_of, properties_of, to_python};
use crate::walk::{Travelled, Walk, options, vertex_tuple};
use esker::lineage::Direction;
use esker::{Database, Durability, OpenOptions, Role};
use esker_model::filter::Expr;
use esker_model::namespace::resolve;
use esker_model::object::{Find, ObjectRead as _, ObjectWrite as _, TagChange, TagWhere};
use esker_model::traversal::Budget;
use esker_model::{
    Cancel as _, Edge, EdgeTypeId, Error, GraphRead as _, GraphWrite as _, Result, Schema,
    Traversal, Version, VersionRange, VertexChange, VertexId, VertexName, VertexRef, VertexSelect,
    VertexTypeId,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of vertices whose names or edges are read at once.
pub(crate) const CHUNK: usize = 4096;

pub(crate) fn vertex_type_name(schema: &Schema, id: VertexTypeId) -> String {
    schema
        .vertex_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}

pub(crate) fn edge_type_name(schema: &Schema, id: EdgeTypeId) -> String {
    schema
        .edge_type(id)
        .map_or_else(|| format!("type-{}", id.0), |t| t.name.clone())
}

/// Returns the names of vertices. Type and key never change, so current names are valid for any time.
pub(crate) fn names_of(
    database: &Database,
    schema: &Schema,
    ids: impl Iterator<Item = VertexId>,
) -> Result<HashMap<VertexId, String>> {
    let mut ids: Vec<VertexId> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let mut names = HashMap::with_capacity(ids.len());
    for chunk in ids.chunks(CHUNK) {
        for (id, vertex) in chunk
            .iter()
            .zip(database.read_vertices(chunk, Version::MAX)?)
        {
            names.insert(
                *id,
                vertex.map_or_else(|| format!("?:{id}"), |v| v.name(schema)),
            );
        }
    }
    Ok(names)
}

pub(crate) fn vertex_of(
    database: &Database,
    schema: &Schema,
    text: &str,
) -> Result<(VertexName, VertexRef)> {
    let name = VertexName::parse(text)?;
    let found = resolve(
        database,
        database.principal(),
        schema,
        std::slice::from_ref(&name),
    )?;
    match found.first() {
        Some(vertex) => Ok((name, *vertex)),
        None => Ok((name.clone(), name.resolve(schema)?)),
    }
}

pub(crate) fn filter_of(text: &str) -> Result<Expr> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    Expr::parse(text, i64::try_from(now).ok()).map_err(|e| invalid(e.render(text)))
}

/// Parses a filter of objects and checks that values have the kinds of their attributes.
pub(crate) fn object_filter(database: &Database, text: &str) -> Result<Expr> {
    let filter = filter_of(text)?;
    filter.check_kinds_of_objects(&*database.schema()?)?;
    Ok(filter)
}

/// An open database; other Python threads can run during calls.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Core {
    database: Mutex<Option<Database>>,
    target: String,
}

impl Core {
    pub(crate) fn database(&self, py: Python<'_>) -> PyResult<Database> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || {
            raise(
                py,
                &Error::Closed(format!("`{}` was closed: open it again", self.target)),
            )
        };
        database.clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Core {
    /// Opens a folder or `esker://host:port`.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        target: String,
        create: bool,
        durability: &str,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let durability = match durability {
            "sync" => Durability::Sync,
            "relaxed" => Durability::Relaxed,
            other => {
                let text = format!(
                    "durability `{other}`: expected sync (each commit survives a power failure) or relaxed (the death of this process)"
                );
                return Err(raise(py, &invalid(text)));
            }
        };
        let mut options = OpenOptions::new().create(create).durability(durability);
        if let Some(bytes) = memory {
            options = options.memory_bytes(bytes);
        }
        let database = work(py, |_| options.open(&target))?;
        Ok(Self {
            database: Mutex::new(Some(database)),
            target,
        })
    }

    /// Folder or address of the database.
    #[getter]
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Closes the database; further calls do nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self
            .database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match open {
            Some(database) => work(py, |_| database.close()),
            None => Ok(()),
        }
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }

    /// Returns `owner`, `attached` or `client`.
    fn role(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(match self.database(py)?.role() {
            Role::Owner => "owner",
            Role::Attached { .. } => "attached",
            Role::Client { .. } => "client",
        })
    }

    /// Returns `(vertex types, edge types)`: `(name, parent, [(attribute, kind)])` and `(name, inverse, source, destination)`.
    #[expect(
        clippy::type_complexity,
        reason = "plain tuples, which Python's side gives names"
    )]
    fn schema(
        &self,
        py: Python<'_>,
    ) -> PyResult<(
        Vec<(String, Option<String>, Vec<(String, String)>)>,
        Vec<(String, String, String, String)>,
    )> {
        let database = self.database(py)?;
        let schema = work(py, |_| database.schema())?;
        let vertices = schema.vertex_types().map(|(_, t)| {
            let attributes = t
                .attributes
                .iter()
                .map(|a| (a.name.clone(), a.kind.name().to_owned()));
            (
                t.name.clone(),
                t.parent.map(|p| vertex_type_name(&schema, p)),
                attributes.collect(),
            )
        });
        let edges = schema
            .edge_types()
            .filter(|(_, t)| t.forward)
            .map(|(_, t)| {
                let end = |id| vertex_type_name(&schema, id);
                (
                    t.name.clone(),
                    edge_type_name(&schema, t.inverse),
                    end(t.source),
                    end(t.destination),
                )
            });
        Ok((vertices.collect(), edges.collect()))
    }

    /// Adds a vertex type.
    fn define_vertex_type(
        &self,
        py: Python<'_>,
        name: String,
        parent: Option<String>,
        attributes: Vec<(String, String)>,
    ) -> PyResult<()> {
        let database = self.database(py)?;
        work(py, |_| {
            let attributes = attributes
                .into_iter()
                .map(|(name, kind)| crate::change::definition(name, &kind));
            let attributes = attributes.collect::<Result<_>>()?;
            let change = esker_model::SchemaChange::VertexType {
                name,
                parent,
                attributes,
            };
            database.define(&[change]).map(drop)
        })
    }

    /// Adds an edge type with its inverse.
    fn define_edge_type(
        &self,
        py: Python<'_>,
        name: String,
        inverse: String,
        source: String,
        destination: String,
    ) -> PyResult<()> {
        let database = self.database(py)?;
        let change = esker_model::SchemaChange::EdgeType {
            name,
            inverse,
            source,
            destination,
        };
        work(py, |_| database.define(&[change]).map(drop))
    }

    /// Applies changes in one commit; returns `(version, vertices created, edges created, unchanged)`.
    #[pyo3(signature = (ops, when=None))]
    fn apply(
        &self,
        py: Python<'_>,
        ops: Vec<Bound<'_, PyTuple>>,
        when: Option<&str>,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let database = self.database(py)?;
        let version = at(py, when)?;
        let mut changes = Vec::with_capacity(ops.len());
        for op in &ops {
            changes.push(crate::change::Change::of(op)?);
        }
        let commit = work(py, |_| crate::change::apply(&database, changes, version))?;
        let version = version.unwrap_or(commit.version).0;
        Ok((
            version,
            commit.vertices_created,
            commit.edges_created,
            commit.unchanged,
        ))
    }

    /// Returns a vertex as `(name, type, version, deleted, attributes, tags)`, or `None`.
    #[pyo3(signature = (name, when=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        when: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (database, version) = (self.database(py)?, as_of(py, when)?);
        let (schema, vertex) = work(py, |_| {
            let schema = database.schema()?;
            let (_, vertex) = vertex_of(&database, &schema, name)?;
            let found = database.read_vertices(&[vertex.id], version)?;
            Ok((schema, found.into_iter().flatten().next()))
        })?;
        vertex.map(|v| vertex_tuple(py, &v, &schema)).transpose()
    }

    /// Returns the version and the properties of an edge, or `None`.
    #[pyo3(signature = (source, edge_type, destination, when=None))]
    fn get_edge<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        edge_type: &str,
        destination: &str,
        when: Option<&str>,
    ) -> PyResult<Option<(u64, Bound<'py, PyDict>)>> {
        let (database, version) = (self.database(py)?, as_of(py, when)?);
        let edge = work(py, |_| {
            let key = edge_key(&database, source, edge_type, destination)?;
            Ok(database
                .read_edges(&[key], version)?
                .into_iter()
                .flatten()
                .next())
        })?;
        edge.map(|e: Edge| Ok((e.version.0, dict_of(py, &e.properties)?)))
            .transpose()
    }

    /// Returns edges as columns: those that leave the named vertices, or all edges of the database in their defined direction.
    #[pyo3(signature = (names, types, when=None, limit=None))]
    fn edges(
        &self,
        py: Python<'_>,
        names: Option<Vec<String>>,
        types: Vec<String>,
        when: Option<&str>,
        limit: Option<usize>,
    ) -> PyResult<Columns> {
        crate::tables::edges(py, &self.database(py)?, names, types, when, limit)
    }

    /// Returns the vertices of a type that match a filter, as columns.
    #[pyo3(signature = (type_name, filter="", when=None, select=None, limit=None, deleted=false))]
    fn vertices(
        &self,
        py: Python<'_>,
        type_name: &str,
        filter: &str,
        when: Option<&str>,
        select: Option<Vec<String>>,
        limit: Option<usize>,
        deleted: bool,
    ) -> PyResult<Columns> {
        crate::tables::vertices(
            py,
            &self.database(py)?,
            type_name,
            filter,
            when,
            select,
            limit,
            deleted,
        )
    }

    /// Returns the objects that match a filter, as columns: `id`, then the selected attributes, or all of them.
    #[pyo3(signature = (filter, select=None, limit=None, lenient=false))]
    fn objects(
        &self,
        py: Python<'_>,
        filter: &str,
        select: Option<Vec<String>>,
        limit: Option<u64>,
        lenient: bool,
    ) -> PyResult<Columns> {
        crate::tables::objects(py, &self.database(py)?, filter, select, limit, lenient)
    }

    /// Returns the number of objects that match a filter.
    fn count_objects(&self, py: Python<'_>, filter: &str) -> PyResult<u64> {
        let database = self.database(py)?;
        work(py, |signals| {
            let find = Find {
                count: true,
                ..Find::all(object_filter(&database, filter)?)
            };
            Ok(database
                .find(&find, signals, &mut |_| ControlFlow::Continue(()))?
                .matches)
        })
    }

    /// Tags all objects that match a filter; returns `(matches, changed, refused)`.
    fn tag_where(
        &self,
        py: Python<'_>,
        filter: &str,
        set: &Bound<'_, PyDict>,
        remove: Vec<String>,
    ) -> PyResult<(u64, u64, u64)> {
        let database = self.database(py)?;
        let set = properties_of(set)?;
        work(py, |signals| {
            let change = TagWhere {
                filter: object_filter(&database, filter)?,
                change: TagChange {
                    set,
                    keep: false,
                    remove,
                },
                principal: None,
                dry_run: false,
                idempotency_key: None,
            };
            let done = database.tag_where(&change, signals)?;
            Ok((done.matches, done.changed, done.refused))
        })
    }

    /// Returns the changes of a vertex, newest first: `(version, what, attributes or (name, value) or None, archived)`.
    fn history<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let database = self.database(py)?;
        let events = work(py, |_| {
            let (name, vertex) = vertex_of(&database, &*database.schema()?, name)?;
            let events = database.vertex_history(vertex.id, VersionRange::ALL)?;
            if events.is_empty() {
                return Err(Error::NoVertex {
                    name: name.to_string(),
                    hint: String::new(),
                });
            }
            Ok(events)
        })?;
        let list = PyList::empty(py);
        for event in events {
            let (what, value) = match &event.change {
                VertexChange::Put(properties) => ("put", dict_of(py, properties)?.into_any()),
                VertexChange::Deleted => ("deleted", py.None().into_bound(py)),
                VertexChange::Set(name, value) => (
                    "set",
                    (name, to_python(py, value)?).into_pyobject(py)?.into_any(),
                ),
                VertexChange::Removed(name) => ("removed", name.into_pyobject(py)?.into_any()),
            };
            list.append((event.version.0, what, value, event.archived))?;
        }
        Ok(list)
    }

    /// Returns the versions of an edge, newest first: `(version, deleted, properties, archived)`.
    fn edge_history<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        edge_type: &str,
        destination: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let database = self.database(py)?;
        let events = work(py, |_| {
            let key = edge_key(&database, source, edge_type, destination)?;
            database.edge_history(key, VersionRange::ALL)
        })?;
        let list = PyList::empty(py);
        for e in events {
            list.append((
                e.edge.version.0,
                e.edge.deleted,
                dict_of(py, &e.edge.properties)?,
                e.archived,
            ))?;
        }
        Ok(list)
    }

    /// Returns the numbers of vertices and edges by type.
    fn counts(&self, py: Python<'_>) -> PyResult<(HashMap<String, u64>, HashMap<String, u64>)> {
        let database = self.database(py)?;
        let (schema, counts) = work(py, |_| Ok((database.schema()?, database.counts()?)))?;
        let vertices = counts
            .vertices
            .iter()
            .map(|(id, n)| (vertex_type_name(&schema, *id), *n));
        let edges = counts
            .edges
            .iter()
            .map(|(id, n)| (edge_type_name(&schema, *id), *n));
        Ok((vertices.collect(), edges.collect()))
    }

    /// Returns the differences between two times, as columns.
    fn diff(&self, py: Python<'_>, before: &str, after: Option<&str>) -> PyResult<Columns> {
        crate::tables::diff(py, &self.database(py)?, before, after)
    }

    /// Returns the lineage or the impact of a vertex.
    #[pyo3(signature = (name, impact, when=None, since=None, depth=None, max_vertices=None))]
    fn walk(
        &self,
        py: Python<'_>,
        name: &str,
        impact: bool,
        when: Option<&str>,
        since: Option<&str>,
        depth: Option<u32>,
        max_vertices: Option<u64>,
    ) -> PyResult<Walk> {
        let database = self.database(py)?;
        let parse = |text| Version::parse_since(text).map_err(|e| raise(py, &e.into()));
        let options = options(
            as_of(py, when)?,
            since.map(parse).transpose()?,
            depth,
            max_vertices,
        );
        let direction = if impact {
            Direction::Impact
        } else {
            Direction::Lineage
        };
        let (name, vertex) = work(py, |_| vertex_of(&database, &*database.schema()?, name))?;
        Walk::run(py, &database, vertex.id, direction, &options).map_err(|e| {
            // The engine knows only the id.
            let missing = e.get_type(py).name().is_ok_and(|n| n == "MissingError");
            if missing {
                raise(
                    py,
                    &Error::NoVertex {
                        name: name.to_string(),
                        hint: String::new(),
                    },
                )
            } else {
                e
            }
        })
    }

    /// Runs a traversal.
    #[pyo3(signature = (chain, steps=None, edges=None, memory=None, millis=None))]
    fn travel(
        &self,
        py: Python<'_>,
        chain: &str,
        steps: Option<u32>,
        edges: Option<u64>,
        memory: Option<u64>,
        millis: Option<u64>,
    ) -> PyResult<Travelled> {
        let database = self.database(py)?;
        work(py, |signals| {
            let traversal = Traversal::parse(chain)?;
            traversal.check_possible(&*database.schema()?)?;
            let budget = Budget {
                steps,
                edges,
                bytes: memory,
                millis,
                ..Budget::default()
            };
            let result = database.travel(&traversal, &budget, signals)?;
            Travelled::new(&database, database.schema()?, result)
        })
    }

    /// Inserts tables; returns `(vertices, edges, vertices created, edges created, unchanged, version)`.
    #[pyo3(signature = (vertices, edges, rows, edge_type=None, ensure=true, progress=None))]
    fn insert_many(
        &self,
        py: Python<'_>,
        vertices: Option<Bound<'_, PyAny>>,
        edges: Option<Bound<'_, PyAny>>,
        rows: usize,
        edge_type: Option<&str>,
        ensure: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64, u64, u64, u64)> {
        let database = self.database(py)?;
        let read = |table: Option<Bound<'_, PyAny>>| {
            table.map_or_else(|| Ok(Vec::new()), |t| crate::arrays::batches(&t))
        };
        let (vertices, edges) = (read(vertices)?, read(edges)?);
        let total = vertices
            .iter()
            .chain(&edges)
            .map(|b| b.num_rows() as u64)
            .sum();
        let options = BulkOptions {
            rows: rows.max(1),
            edge_type,
            ensure,
            progress,
        };
        let BulkResult {
            vertices,
            edges,
            vertices_created,
            edges_created,
            unchanged,
            version,
        } = work(py, |signals| {
            let mut loader = Loader::new(&database, options, total, signals)?;
            let mut row = 0;
            for batch in &vertices {
                loader.vertices(batch, row)?;
                row += batch.num_rows();
            }
            row = 0;
            for batch in &edges {
                loader.edges(batch, row)?;
                row += batch.num_rows();
            }
            Ok(loader.done())
        })?;
        Ok((
            vertices,
            edges,
            vertices_created,
            edges_created,
            unchanged,
            version,
        ))
    }

    /// Runs a SPARQL query; returns columns, or a boolean.
    fn sparql<'py>(&self, py: Python<'py>, query: &str) -> PyResult<Bound<'py, PyAny>> {
        crate::sparql::query(py, &self.database(py)?, query)
    }

    /// Runs a SPARQL update; returns the numbers of quads added and removed.
    fn sparql_update(&self, py: Python<'_>, update: &str) -> PyResult<(usize, usize)> {
        crate::sparql::update(py, &self.database(py)?, update)
    }

    /// Returns the position of the change feed, or the changes since one: `(place, names, edges)`; `None` if they are no longer kept.
    #[pyo3(signature = (place=None))]
    #[expect(
        clippy::type_complexity,
        reason = "plain tuples, which Python's side gives names"
    )]
    fn news(
        &self,
        py: Python<'_>,
        place: Option<u64>,
    ) -> PyResult<Option<(u64, Vec<String>, Vec<(String, String, String)>)>> {
        let database = self.database(py)?;
        work(py, |_| {
            let (engine, _) = database.engine().map_err(|_| {
                Error::InUse(
                    "changes are announced by the process that has the database open: watch there"
                        .into(),
                )
            })?;
            let Some(place) = place else {
                return Ok(Some((engine.follow(), Vec::new(), Vec::new())));
            };
            let Some(news) = engine.changes_since(place) else {
                return Ok(None);
            };
            let schema = database.schema()?;
            let (vertices, edges) = news.distinct(&schema);
            let ends = edges.iter().flat_map(|e| [e.source, e.destination]);
            let names = names_of(&database, &schema, vertices.iter().copied().chain(ends))?;
            let name = |id: &VertexId| names.get(id).cloned().unwrap_or_default();
            let triple = |e: &esker_model::EdgeKey| {
                (
                    name(&e.source),
                    edge_type_name(&schema, e.edge_type),
                    name(&e.destination),
                )
            };
            Ok(Some((
                news.until,
                vertices.iter().map(name).collect(),
                edges.iter().map(triple).collect(),
            )))
        })
    }

    /// Returns a file's attributes as a dict.
    fn stat<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyDict>> {
        crate::files::stat(py, &self.database(py)?, path)
    }

    /// Returns the sorted names of a directory.
    fn listdir(&self, py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
        crate::files::listdir(py, &self.database(py)?, path)
    }

    /// Creates a directory, or an empty file.
    fn make(&self, py: Python<'_>, path: &str, directory: bool, mode: u32) -> PyResult<()> {
        crate::files::make(py, &self.database(py)?, path, directory, mode)
    }

    /// Removes a file or an empty directory.
    fn remove(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        crate::files::remove(py, &self.database(py)?, path)
    }

    /// Renames a file or a directory.
    fn rename(&self, py: Python<'_>, path: &str, to: &str) -> PyResult<()> {
        crate::files::rename(py, &self.database(py)?, path, to)
    }
}

fn edge_key(
    database: &Database,
    source: &str,
    edge_type: &str,
    destination: &str,
) -> Result<esker_model::EdgeKey> {
    let schema = database.schema()?;
    Ok(esker_model::EdgeKey {
        source: vertex_of(database, &schema, source)?.1.id,
        edge_type: schema.edge_type_id(edge_type)?,
        destination: vertex_of(database, &schema, destination)?.1.id,
    })
}

pub(crate) fn all_vertices(
    database: &Database,
    schema: &Schema,
    as_of: Version,
    signals: &crate::cancel::Signals,
) -> Result<Vec<VertexId>> {
    let mut ids = Vec::new();
    for (type_id, _) in schema.vertex_types().filter(|(_, t)| t.parent.is_none()) {
        // Edges are facts about the past: those of deleted vertices remain.
        let select = VertexSelect {
            as_of,
            deleted: true,
            ..VertexSelect::of(type_id)
        };
        database.scan_vertices(&select, &mut |vertex| {
            ids.push(vertex.id);
            if signals.cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    Ok(ids)
}
