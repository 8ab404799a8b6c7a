//! Input of the metadata graph: the property graph at one time, as the principal sees it.

use super::terms::{displaced, vertex as name_of};
use super::vocabulary::Vocabulary;
use crate::database::Database;
use crate::engine::Touched;
use crate::session::Session;
use esker_model::key::EdgeKey;
use esker_model::namespace::{Inode, NamePath, Namespace as _};
use esker_model::{
    Edge, EdgeEvent, EdgeSelect, EdgeTypeId, Error, Flow, GraphRead as _, Result, Schema, Version,
    VersionRange, Versions, Vertex, VertexEvent, VertexId, VertexSelect, VertexTypeId,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of vertices read and mapped at once.
pub(super) const CHUNK: usize = 4_096;

/// Cancellation check, called repeatedly; returns the reason to stop.
pub(super) type StopFn<'a> = &'a (dyn Fn() -> Option<&'static str> + Sync);

/// The property graph at one time, as the principal of the handle sees it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) database: &'a Database,
    pub(super) as_of: Version,
    pub(super) stop: StopFn<'a>,
}

impl Source<'_> {
    pub(super) fn check_stop(&self) -> Result<()> {
        match (self.stop)() {
            Some(_) => Err(Error::Interrupted),
            None => Ok(()),
        }
    }

    pub(super) fn schema(&self) -> Result<Arc<Schema>> {
        self.database.schema()
    }

    /// Whether there is a namespace, so that names of files must be looked up.
    pub(super) fn has_names(&self) -> Result<bool> {
        let mut any = false;
        self.database
            .list(None, &NamePath::root(), None, &mut |_, _| {
                any = true;
                ControlFlow::Break(())
            })?;
        Ok(any)
    }

    /// Reads all vertices in pieces, including deleted ones.
    pub(super) fn vertices(
        &self,
        schema: &Schema,
        piece: &mut dyn FnMut(Vec<Vertex>) -> Flow,
    ) -> Result<()> {
        let roots = schema.vertex_types().filter(|(_, t)| t.parent.is_none());
        for (type_id, _) in roots {
            let mut after = None;
            loop {
                self.check_stop()?;
                let mut some = Vec::with_capacity(CHUNK);
                let select = VertexSelect {
                    type_id,
                    after,
                    as_of: self.as_of,
                    deleted: true,
                };
                self.database.scan_vertices(&select, &mut |vertex| {
                    after = Some((vertex.type_id, vertex.id));
                    some.push(vertex);
                    if some.len() < CHUNK {
                        Flow::Continue(())
                    } else {
                        Flow::Break(())
                    }
                })?;
                let last = some.len() < CHUNK;
                if piece(some).is_break() {
                    return Ok(());
                }
                if last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads all edges of the given types that leave the vertices, in pieces.
    pub(super) fn edges(
        &self,
        of: &[VertexId],
        types: &[EdgeTypeId],
        piece: &mut dyn FnMut(Vec<Edge>) -> Flow,
    ) -> Result<()> {
        let select = EdgeSelect {
            types: types.to_vec(),
            versions: Versions::AsOf(self.as_of),
            properties: true,
            after: None,
        };
        for some in of.chunks(CHUNK) {
            self.check_stop()?;
            let mut edges = Vec::with_capacity(CHUNK);
            let mut flow = Flow::Continue(());
            self.database.scan_edges(some, &select, &mut |_, edge| {
                edges.push(edge);
                if edges.len() >= CHUNK {
                    flow = piece(std::mem::take(&mut edges));
                    if flow.is_continue() && (self.stop)().is_some() {
                        flow = Flow::Break(());
                    }
                }
                flow
            })?;
            self.check_stop()?;
            if flow.is_break() || piece(edges).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Mapped edge types that can leave vertices of each type; for the present, only types that have edges.
    pub(super) fn leaving(
        &self,
        schema: &Schema,
        vocabulary: &Vocabulary,
    ) -> Result<HashMap<VertexTypeId, Vec<EdgeTypeId>>> {
        let counts = if self.as_of == Version::MAX {
            self.database.on_behalf_of(None).counts()?.edges
        } else {
            Vec::new()
        };
        let absent = |t: &EdgeTypeId| counts.iter().any(|(of, n)| of == t && *n == 0);
        let mut leaving = HashMap::new();
        for edge_type in vocabulary.edge_types().into_iter().filter(|t| !absent(t)) {
            let Some(definition) = schema.edge_type(edge_type) else {
                continue;
            };
            let either = definition.inverse == edge_type;
            for (type_id, _) in schema.vertex_types() {
                if schema.is_a(type_id, definition.source)
                    || either && schema.is_a(type_id, definition.destination)
                {
                    let list: &mut Vec<EdgeTypeId> = leaving.entry(type_id).or_default();
                    list.push(edge_type);
                }
            }
        }
        Ok(leaving)
    }

    pub(super) fn vertices_of(&self, ids: &[VertexId]) -> Result<Vec<Option<Vertex>>> {
        self.database.read_vertices(ids, self.as_of)
    }

    pub(super) fn edges_of(&self, keys: &[EdgeKey]) -> Result<Vec<Option<Edge>>> {
        self.database.read_edges(keys, self.as_of)
    }

    /// Events of a vertex up to the source's version.
    pub(super) fn events(&self, id: VertexId) -> Result<Vec<VertexEvent>> {
        let until = self.as_of.next();
        let range = VersionRange {
            from: Version::ZERO,
            until,
        };
        self.database.vertex_history(id, range)
    }

    /// Events of an edge up to the source's version, newest first.
    pub(super) fn edge_events(&self, key: EdgeKey) -> Result<Vec<EdgeEvent>> {
        let range = VersionRange {
            from: Version::ZERO,
            until: self.as_of.next(),
        };
        self.database.edge_history(key, range)
    }

    /// Vertices and edges with superseded versions or with versions inserted out of order.
    pub(super) fn with_history(&self) -> Result<Vec<Touched>> {
        self.database.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.with_history()?),
            Session::Attached(_) | Session::Server(_) => Ok(Err(not_owner_error())?),
        })
    }

    /// Inodes of the vertices that are files. Not available for the past.
    pub(super) fn inodes(
        &self,
        has_names: bool,
        vertices: &[Vertex],
    ) -> Result<Vec<Option<Inode>>> {
        if !has_names || self.as_of != Version::MAX {
            return Ok(vec![None; vertices.len()]);
        }
        self.database.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.inodes_of(vertices)?),
            Session::Attached(_) | Session::Server(_) => Ok(Err(not_owner_error())?),
        })
    }

    /// IRIs of vertices. A file is named by its path. If several files had the path, one of them gets the plain name
    /// (the current
    /// one, otherwise the first), and the others get their id appended.
    pub(super) fn names(
        &self,
        schema: &Schema,
        vocabulary: &Vocabulary,
        has_names: bool,
        vertices: &[Vertex],
    ) -> Result<Vec<String>> {
        let mut displaced_ones = vec![false; vertices.len()];
        if has_names {
            let (mut indexes, mut paths) = (Vec::new(), Vec::new());
            for (i, vertex) in vertices.iter().enumerate() {
                if !vocabulary.is_file(vertex.type_id) {
                    continue;
                }
                if let Ok(path) = NamePath::parse(vertex.key.as_bytes()) {
                    indexes.push(i);
                    paths.push(path);
                }
            }
            let found = self.database.ids(self.database.principal(), &paths)?;
            let type_name = |vertex: &Vertex| {
                schema
                    .vertex_type(vertex.type_id)
                    .map_or("", |t| t.name.as_str())
            };
            // The file that is there now has the name, if it has a vertex.
            let mut others = Vec::new();
            for (i, found) in indexes.into_iter().zip(found) {
                let vertex = &vertices[i];
                let there = found.filter(|(_, kind)| kind.type_name() == type_name(vertex));
                if there.is_some_and(|(id, _)| id == vertex.id) {
                    continue;
                }
                if let Some((id, _)) = there {
                    others.push((i, id));
                }
                // Otherwise the first file of the path has it.
                displaced_ones[i] = VertexId::of(type_name(vertex), &vertex.key) != vertex.id;
            }
            let ids: Vec<VertexId> = others.iter().map(|(_, id)| *id).collect();
            for ((i, _), found) in others.into_iter().zip(self.vertices_of(&ids)?) {
                displaced_ones[i] |= found.is_some();
            }
        }
        Ok(vertices
            .iter()
            .zip(displaced_ones)
            .map(|(vertex, gone)| {
                let prefix = vocabulary.prefix(vertex.type_id);
                if gone {
                    displaced(prefix, &vertex.key, vertex.id)
                } else {
                    name_of(prefix, &vertex.key)
                }
            })
            .collect())
    }
}

/// Error for processes that have not opened the database as owner.
pub(super) fn not_owner_error() -> Error {
    Error::Target(
        "the metadata graph `urn:esker:meta` is made by the process that has the database open, \
         which is not this one: query through that process, or end it and repeat"
            .into(),
    )
}
