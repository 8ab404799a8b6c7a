//! Visibility of vertices and present paths of files for a principal: like the engine's `visibility`, where the
//! deciding rows are on several servers. The rule itself is [`esker_model::visibility`].
//!
//! The server that a client calls filters the results of other servers in batches; a traversal checks at the home of
//! each vertex, before it is visited. Decisions are remembered for one call.

use super::Node;
use super::hashed::{Map, Set};
use super::names::cluster_flags::FILES;
use esker_engine::{FileVisibility, MaybeFile, RemoteData};
use esker_model::object::{ObjectId, Principal};
use esker_model::visibility::{Access, READ};
use esker_model::{Difference, Edge, EdgeKey, Result, Version, Vertex, VertexId};
use std::sync::Arc;

/// Number of vertices that are looked up together.
const LOOKUP_BATCH: usize = 1_024;

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
                    self.engine.file_visibility_distributed(
                        principal.as_ref(),
                        piece,
                        view,
                        fetched,
                    )
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
            let vertices = self
                .stored_vertices(piece, self.current_read_version())
                .await?;
            let mut files = Vec::new();
            for (id, vertex) in piece.iter().zip(vertices) {
                if ObjectId::of_vertex(*id).is_some() {
                    let vertex = match vertex {
                        // A deleted vertex no longer says who owned it.
                        Some(deleted) if deleted.deleted => self.before_deletion(&deleted).await?,
                        other => other,
                    };
                    let seen = vertex.as_ref().is_none_or(|v| {
                        Access::of_attributes(&v.attributes).allows(Some(&principal), READ)
                    });
                    visibility.known.insert(*id, seen);
                    continue;
                }
                let vertex = vertex.map(|v| (v.type_id, v.key));
                match &vertex {
                    Some((type_id, _)) if !self.engine.is_file_type(*type_id) => {
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
            } else if self.engine.is_file_type(known.type_id) {
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

    /// Filters differences for the principal.
    pub(crate) async fn visible_differences(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        all: Vec<Difference>,
    ) -> Result<Vec<Difference>> {
        if !visibility.hides() && !self.has_flag(FILES) {
            return Ok(all);
        }
        let mut shown = Vec::with_capacity(all.len());
        for difference in all {
            match difference {
                Difference::Vertex(before, after) => {
                    let mut both = [before, after];
                    self.apply_visibility(visibility, &mut both).await?;
                    let [before, after] = both;
                    if before.is_some() || after.is_some() {
                        shown.push(Difference::Vertex(before, after));
                    }
                }
                Difference::Edge(before, after) => {
                    if let Some(key) = before.as_ref().or(after.as_ref()).map(|e| e.key) {
                        self.learn(visibility, [key.source, key.destination])
                            .await?;
                        if visibility.sees_edge(&key) {
                            shown.push(Difference::Edge(before, after));
                        }
                    }
                }
            }
        }
        Ok(shown)
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
            let files = files.filter(|v| self.engine.is_file_type(v.type_id));
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

    /// Returns a vertex as it was before it was deleted.
    async fn before_deletion(self: &Arc<Self>, deleted: &Vertex) -> Result<Option<Vertex>> {
        let before = Version(deleted.version.0.saturating_sub(1));
        let found = self.stored_vertices(&[deleted.id], before).await?;
        Ok(found.into_iter().next().flatten())
    }

    fn current_read_version(&self) -> Version {
        self.read_version(Version::MAX, Version::ZERO)
    }
}
