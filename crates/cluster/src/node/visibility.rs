//! Visibility of vertices and present paths of files for a principal: like the engine's `visibility`, where the
//! deciding rows are on several servers. The rule itself is [`esker_model::visibility`].
//!
//! The server that a client calls filters the results of other servers in batches; a traversal checks at the home of
//! each vertex, before it is visited. Decisions are remembered for one call.

use super::Node;
use super::hashed::{Map, Set};
use super::names::cluster_flags::FILES;
use esker_engine::{FileVisibility, MaybeFile, NamesReader, RemoteData};
use esker_model::object::{ObjectId, Principal};
use esker_model::visibility::{Access, ItemAccess, sees};
use esker_model::{Difference, Edge, EdgeKey, Result, Version, Vertex, VertexId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of vertices that are looked up together.
const LOOKUP_BATCH: usize = 1_024;

/// Number of decisions and rows that are remembered from one page to the next.
const REMEMBERED_MAX: usize = 1 << 16;

/// The caller of a read.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Highest version that the caller has seen.
    pub seen: Version,
    /// Principal of the call; `None` sees everything.
    pub principal: Option<&'a Principal>,
}

impl From<Version> for Caller<'_> {
    fn from(seen: Version) -> Self {
        Self {
            seen,
            principal: None,
        }
    }
}

/// Visibility decisions of one call for a principal.
#[derive(Debug, Default)]
pub(crate) struct Visibility {
    /// Principal of the call; `None` sees everything.
    principal: Option<Principal>,
    /// Namespace rows fetched so far.
    fetched: RemoteData,
    known: Map<VertexId, bool>,
}

impl Visibility {
    pub(crate) fn of(principal: Option<&Principal>) -> Self {
        Self {
            principal: Principal::limited(principal).cloned(),
            ..Self::default()
        }
    }

    /// Whether anything may be hidden from the principal.
    pub(crate) fn hides(&self) -> bool {
        self.principal.is_some()
    }

    /// Whether a vertex is visible; must have been learned before.
    pub(crate) fn sees(&self, id: VertexId) -> bool {
        !self.hides() || self.known.get(&id).copied().unwrap_or(false)
    }

    /// Whether an edge is visible: both its ends are.
    pub(crate) fn sees_edge(&self, key: &EdgeKey) -> bool {
        self.sees(key.source) && self.sees(key.destination)
    }

    /// Forgets everything if it is much. What is visible must be learned again.
    pub(crate) fn limit_memory(&mut self) {
        let fetched = self.fetched.rows.len() + self.fetched.vertices.len();
        if self.known.len() + fetched > REMEMBERED_MAX {
            self.known.clear();
            self.fetched = RemoteData::default();
        }
    }

    /// Adds decisions that were made elsewhere.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.known.extend(other.known);
        if other.fetched.epoch == self.fetched.epoch {
            self.fetched.rows.extend(other.fetched.rows);
        } else if other.fetched.epoch > self.fetched.epoch {
            self.fetched = other.fetched;
        }
    }
}

impl Node {
    /// Looks up visibility and present paths of vertices that may be files.
    async fn file_visibility(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        of: &[MaybeFile],
    ) -> Result<Vec<FileVisibility>> {
        if !self.has_flag(FILES) {
            let all = FileVisibility {
                visible: true,
                key: None,
            };
            return Ok(vec![all; of.len()]);
        }
        let mut found = Vec::with_capacity(of.len());
        let principal = visibility.principal.clone();
        for piece in of.chunks(LOOKUP_BATCH) {
            found.extend(
                self.run_with_rows(&mut visibility.fetched, |view, fetched| {
                    let visibility = |names: &NamesReader<'_>| names.visibility(piece);
                    self.own_names()
                        .read(principal.as_ref(), view, fetched, visibility)
                })
                .await?,
            );
        }
        Ok(found)
    }

    /// Decides which of these vertices are visible.
    pub(crate) async fn learn(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        ids: impl IntoIterator<Item = VertexId>,
    ) -> Result<()> {
        let Some(principal) = visibility.principal.clone() else {
            return Ok(());
        };
        let new: Set<VertexId> = ids
            .into_iter()
            .filter(|id| !visibility.known.contains_key(id))
            .collect();
        let mut new: Vec<VertexId> = new.into_iter().collect();
        new.sort_unstable();
        for piece in new.chunks(LOOKUP_BATCH) {
            // The present state decides.
            let mut vertices = self
                .stored_vertices(piece, self.current_read_version())
                .await?;
            let is_deleted = |v: &Option<Vertex>| v.as_ref().is_some_and(|v| v.deleted);
            let deleted: Vec<bool> = vertices.iter().map(is_deleted).collect();
            self.undelete_objects(&mut vertices).await?;
            let mut files = Vec::new();
            for ((id, vertex), deleted) in piece.iter().zip(vertices).zip(deleted) {
                if ObjectId::of_vertex(*id).is_some() {
                    let item = match vertex {
                        // The owner is unknown.
                        None if deleted => ItemAccess::Object(None),
                        None => ItemAccess::Vertex,
                        Some(v) => ItemAccess::Object(Some(Access::of_attributes(&v.attributes))),
                    };
                    visibility
                        .known
                        .insert(*id, sees(Some(&principal), &item, None));
                    continue;
                }
                let vertex = vertex.map(|v| (v.type_id, v.key));
                match &vertex {
                    Some((type_id, _)) if !self.own_names().is_file_type(*type_id) => {
                        visibility.known.insert(*id, true);
                    }
                    _ => files.push(MaybeFile { id: *id, vertex }),
                }
            }
            let shown = self.file_visibility(visibility, &files).await?;
            for (file, shown) in files.iter().zip(shown) {
                visibility.known.insert(file.id, shown.visible);
            }
        }
        Ok(())
    }

    /// Gives vertices of files their present paths, and removes what the principal must not see.
    pub(crate) async fn apply_visibility(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        vertices: &mut [Option<Vertex>],
    ) -> Result<()> {
        if visibility.hides() {
            let objects = vertices.iter().flatten().map(|v| v.id);
            let objects: Vec<VertexId> = objects
                .filter(|id| ObjectId::of_vertex(*id).is_some())
                .collect();
            self.learn(visibility, objects).await?;
        } else if !self.has_flag(FILES) {
            return Ok(());
        }
        let (mut files, mut indexes) = (Vec::new(), Vec::new());
        for (index, vertex) in vertices.iter_mut().enumerate() {
            let Some(known) = vertex else { continue };
            if ObjectId::of_vertex(known.id).is_some() {
                if !visibility.sees(known.id) {
                    *vertex = None;
                }
            } else if self.own_names().is_file_type(known.type_id) {
                indexes.push(index);
                files.push(MaybeFile {
                    id: known.id,
                    vertex: Some((known.type_id, known.key.clone())),
                });
            }
        }
        let shown = self.file_visibility(visibility, &files).await?;
        for (index, shown) in indexes.into_iter().zip(shown) {
            let Some(vertex) = vertices.get_mut(index) else {
                continue;
            };
            if !shown.visible {
                *vertex = None;
            } else if let (Some(vertex), Some(key)) = (vertex.as_mut(), shown.key) {
                vertex.key = key;
            }
        }
        Ok(())
    }

    /// Applies [`Self::apply_visibility`] to vertices that all exist.
    pub(crate) async fn visible_vertices(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        vertices: Vec<Vertex>,
    ) -> Result<Vec<Vertex>> {
        let mut vertices: Vec<Option<Vertex>> = vertices.into_iter().map(Some).collect();
        self.apply_visibility(visibility, &mut vertices).await?;
        Ok(vertices.into_iter().flatten().collect())
    }

    /// Removes edges with an end that the principal must not see.
    pub(crate) async fn retain_visible_edges(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        edges: &mut Vec<Edge>,
    ) -> Result<()> {
        if visibility.hides() {
            let ends = edges.iter();
            let ends = ends.flat_map(|e| [e.key.source, e.key.destination]);
            self.learn(visibility, ends.collect::<Vec<_>>()).await?;
            edges.retain(|e| visibility.sees_edge(&e.key));
        }
        Ok(())
    }

    /// Filters differences for the principal: their vertices are looked up together.
    pub(crate) async fn visible_differences(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        mut all: Vec<Difference>,
    ) -> Result<Vec<Difference>> {
        if !visibility.hides() && !self.has_flag(FILES) {
            return Ok(all);
        }
        let (mut ids, mut vertices) = (Vec::new(), Vec::new());
        for difference in &mut all {
            match difference {
                Difference::Vertex(before, after) => {
                    let all = before.iter().chain(after.iter()).map(|v| v.id);
                    ids.extend(all.filter(|id| ObjectId::of_vertex(*id).is_some()));
                    vertices.extend([before.take(), after.take()]);
                }
                Difference::Edge(before, after) => {
                    let edge = before.as_ref().or(after.as_ref());
                    ids.extend(edge.iter().flat_map(|e| [e.key.source, e.key.destination]));
                }
            }
        }
        self.learn(visibility, ids).await?;
        self.apply_visibility(visibility, &mut vertices).await?;
        let mut vertices = vertices.into_iter();
        let mut next = || vertices.next().flatten();
        all.retain_mut(|difference| match difference {
            Difference::Vertex(before, after) => {
                (*before, *after) = (next(), next());
                before.is_some() || after.is_some()
            }
            Difference::Edge(before, after) => {
                let edge = before.as_ref().or(after.as_ref());
                edge.is_some_and(|e| visibility.sees_edge(&e.key))
            }
        });
        Ok(all)
    }

    /// Returns the present paths, as keys, of those vertices that are files.
    pub(crate) async fn paths_of(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        ids: &[VertexId],
    ) -> Result<std::collections::HashMap<VertexId, String>> {
        let mut paths = std::collections::HashMap::new();
        if !self.has_flag(FILES) {
            return Ok(paths);
        }
        for piece in ids.chunks(LOOKUP_BATCH) {
            let vertices = self
                .stored_vertices(piece, self.current_read_version())
                .await?;
            let files = vertices.into_iter().flatten();
            let files = files.filter(|v| self.own_names().is_file_type(v.type_id));
            let files: Vec<MaybeFile> = files
                .map(|v| MaybeFile {
                    id: v.id,
                    vertex: Some((v.type_id, v.key)),
                })
                .collect();
            let shown = self.file_visibility(visibility, &files).await?;
            for (file, shown) in files.into_iter().zip(shown) {
                paths.extend(shown.key.map(|key| (file.id, key)));
            }
        }
        Ok(paths)
    }

    /// Replaces deleted objects by their last states: a deletion does not say whose the object was.
    async fn undelete_objects(self: &Arc<Self>, vertices: &mut [Option<Vertex>]) -> Result<()> {
        let mut deleted = BTreeMap::<Version, (Vec<usize>, Vec<VertexId>)>::new();
        for (index, vertex) in vertices.iter().enumerate() {
            if let Some(vertex) = vertex
                && vertex.deleted
                && ObjectId::of_vertex(vertex.id).is_some()
            {
                let before = Version(vertex.version.0.saturating_sub(1));
                let (indexes, ids) = deleted.entry(before).or_default();
                indexes.push(index);
                ids.push(vertex.id);
            }
        }
        let reads = deleted
            .iter()
            .map(|(before, (_, ids))| self.stored_vertices(ids, *before));
        for ((indexes, _), found) in deleted.values().zip(join_all(reads).await) {
            for (index, vertex) in indexes.iter().zip(found?) {
                if let Some(slot) = vertices.get_mut(*index) {
                    *slot = vertex;
                }
            }
        }
        Ok(())
    }

    fn current_read_version(&self) -> Version {
        self.read_version(Version::MAX, Version::ZERO)
    }
}
