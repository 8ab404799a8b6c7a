//! What somebody sees of the graph, and by which paths: as the engine's `sight`, where the rows that tell lie on several servers.
//! The rule itself is [`esker_model::visibility`].
//!
//! The server that a client asks takes out of what the others say what its client must not see, in batches; a traversal asks at
//! the home of each vertex, before it is visited. What was found out is remembered for one call.

use super::Node;
use super::hashed::{Map, Set};
use super::names::known::FILES;
use esker_engine::{Fetched, MaybeFile, Shown};
use esker_model::object::{Asker, ObjectId};
use esker_model::visibility::{Access, READ};
use esker_model::{Difference, Edge, EdgeKey, Result, Version, Vertex, VertexId};
use std::sync::Arc;

/// Vertices that are looked up together.
const TOGETHER: usize = 1_024;

/// Who reads.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The highest version that they have seen.
    pub seen: Version,
    /// On whose behalf; `None` sees all.
    pub asker: Option<&'a Asker>,
}

impl From<Version> for Caller<'_> {
    fn from(seen: Version) -> Self {
        Self { seen, asker: None }
    }
}

/// What somebody sees, as far as one call has found out.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// `None` sees all.
    asker: Option<Asker>,
    /// Rows of the namespace.
    fetched: Fetched,
    known: Map<VertexId, bool>,
}

impl Sight {
    pub(crate) fn of(asker: Option<&Asker>) -> Self {
        Self {
            asker: Asker::limited(asker).cloned(),
            ..Self::default()
        }
    }

    /// Whether something may be hidden.
    pub(crate) fn hides(&self) -> bool {
        self.asker.is_some()
    }

    /// Whether a vertex shows; it has to be learned before.
    pub(crate) fn sees(&self, id: VertexId) -> bool {
        !self.hides() || self.known.get(&id).copied().unwrap_or(false)
    }

    /// The same for an edge.
    pub(crate) fn sees_edge(&self, key: &EdgeKey) -> bool {
        self.sees(key.source) && self.sees(key.destination)
    }

    /// Adds what another has found out.
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
    /// What is known of vertices that may be files.
    async fn look(self: &Arc<Self>, sight: &mut Sight, of: &[MaybeFile]) -> Result<Vec<Shown>> {
        if !self.has_heard(FILES) {
            let all = Shown {
                seen: true,
                key: None,
            };
            return Ok(vec![all; of.len()]);
        }
        let mut found = Vec::with_capacity(of.len());
        let asker = sight.asker.clone();
        for piece in of.chunks(TOGETHER) {
            found.extend(
                self.run_with(&mut sight.fetched, |view, fetched| {
                    self.engine
                        .shown_spread(asker.as_ref(), piece, view, fetched)
                })
                .await?,
            );
        }
        Ok(found)
    }

    /// Finds out which of these vertices show.
    pub(crate) async fn learn(
        self: &Arc<Self>,
        sight: &mut Sight,
        ids: impl IntoIterator<Item = VertexId>,
    ) -> Result<()> {
        let Some(asker) = sight.asker.clone() else {
            return Ok(());
        };
        let new: Set<VertexId> = ids
            .into_iter()
            .filter(|id| !sight.known.contains_key(id))
            .collect();
        let mut new: Vec<VertexId> = new.into_iter().collect();
        new.sort_unstable();
        for piece in new.chunks(TOGETHER) {
            // What decides is what is now.
            let vertices = self.stored_vertices(piece, self.moment_now()).await?;
            let mut files = Vec::new();
            for (id, vertex) in piece.iter().zip(vertices) {
                if ObjectId::of_vertex(*id).is_some() {
                    let vertex = match vertex {
                        // What was deleted says no more whose it was.
                        Some(gone) if gone.deleted => self.before(&gone).await?,
                        other => other,
                    };
                    let seen = vertex.as_ref().is_none_or(|v| {
                        Access::of_attributes(&v.attributes).lets(Some(&asker), READ)
                    });
                    sight.known.insert(*id, seen);
                    continue;
                }
                let vertex = vertex.map(|v| (v.type_id, v.key));
                match &vertex {
                    Some((type_id, _)) if !self.engine.is_file_type(*type_id) => {
                        sight.known.insert(*id, true);
                    }
                    _ => files.push(MaybeFile { id: *id, vertex }),
                }
            }
            let shown = self.look(sight, &files).await?;
            for (file, shown) in files.iter().zip(shown) {
                sight.known.insert(file.id, shown.seen);
            }
        }
        Ok(())
    }

    /// Gives vertices of files their present paths, and takes out what the asker must not see.
    pub(crate) async fn show(
        self: &Arc<Self>,
        sight: &mut Sight,
        vertices: &mut [Option<Vertex>],
    ) -> Result<()> {
        if sight.hides() {
            let objects = vertices.iter().flatten().map(|v| v.id);
            let objects: Vec<VertexId> = objects
                .filter(|id| ObjectId::of_vertex(*id).is_some())
                .collect();
            self.learn(sight, objects).await?;
        } else if !self.has_heard(FILES) {
            return Ok(());
        }
        let (mut files, mut places) = (Vec::new(), Vec::new());
        for (place, vertex) in vertices.iter_mut().enumerate() {
            let Some(known) = vertex else { continue };
            if ObjectId::of_vertex(known.id).is_some() {
                if !sight.sees(known.id) {
                    *vertex = None;
                }
            } else if self.engine.is_file_type(known.type_id) {
                places.push(place);
                files.push(MaybeFile {
                    id: known.id,
                    vertex: Some((known.type_id, known.key.clone())),
                });
            }
        }
        let shown = self.look(sight, &files).await?;
        for (place, shown) in places.into_iter().zip(shown) {
            let Some(vertex) = vertices.get_mut(place) else {
                continue;
            };
            if !shown.seen {
                *vertex = None;
            } else if let (Some(vertex), Some(key)) = (vertex.as_mut(), shown.key) {
                vertex.key = key;
            }
        }
        Ok(())
    }

    /// The same for vertices without gaps.
    pub(crate) async fn show_all(
        self: &Arc<Self>,
        sight: &mut Sight,
        vertices: Vec<Vertex>,
    ) -> Result<Vec<Vertex>> {
        let mut vertices: Vec<Option<Vertex>> = vertices.into_iter().map(Some).collect();
        self.show(sight, &mut vertices).await?;
        Ok(vertices.into_iter().flatten().collect())
    }

    /// Takes edges out that have an end which the asker must not see.
    pub(crate) async fn show_edges(
        self: &Arc<Self>,
        sight: &mut Sight,
        edges: &mut Vec<Edge>,
    ) -> Result<()> {
        if sight.hides() {
            let ends = edges.iter();
            let ends = ends.flat_map(|e| [e.key.source, e.key.destination]);
            self.learn(sight, ends.collect::<Vec<_>>()).await?;
            edges.retain(|e| sight.sees_edge(&e.key));
        }
        Ok(())
    }

    /// Differences as the asker sees them.
    pub(crate) async fn show_differences(
        self: &Arc<Self>,
        sight: &mut Sight,
        all: Vec<Difference>,
    ) -> Result<Vec<Difference>> {
        if !sight.hides() && !self.has_heard(FILES) {
            return Ok(all);
        }
        let mut shown = Vec::with_capacity(all.len());
        for difference in all {
            match difference {
                Difference::Vertex(before, after) => {
                    let mut both = [before, after];
                    self.show(sight, &mut both).await?;
                    let [before, after] = both;
                    if before.is_some() || after.is_some() {
                        shown.push(Difference::Vertex(before, after));
                    }
                }
                Difference::Edge(before, after) => {
                    if let Some(key) = before.as_ref().or(after.as_ref()).map(|e| e.key) {
                        self.learn(sight, [key.source, key.destination]).await?;
                        if sight.sees_edge(&key) {
                            shown.push(Difference::Edge(before, after));
                        }
                    }
                }
            }
        }
        Ok(shown)
    }

    /// The present paths of those vertices that are files, by vertex, as keys.
    pub(crate) async fn paths_of(
        self: &Arc<Self>,
        sight: &mut Sight,
        ids: &[VertexId],
    ) -> Result<std::collections::HashMap<VertexId, String>> {
        let mut paths = std::collections::HashMap::new();
        if !self.has_heard(FILES) {
            return Ok(paths);
        }
        for piece in ids.chunks(TOGETHER) {
            let vertices = self.stored_vertices(piece, self.moment_now()).await?;
            let files = vertices.into_iter().flatten();
            let files = files.filter(|v| self.engine.is_file_type(v.type_id));
            let files: Vec<MaybeFile> = files
                .map(|v| MaybeFile {
                    id: v.id,
                    vertex: Some((v.type_id, v.key)),
                })
                .collect();
            let shown = self.look(sight, &files).await?;
            for (file, shown) in files.into_iter().zip(shown) {
                paths.extend(shown.key.map(|key| (file.id, key)));
            }
        }
        Ok(paths)
    }

    /// A vertex as it was when it was deleted.
    async fn before(self: &Arc<Self>, gone: &Vertex) -> Result<Option<Vertex>> {
        let before = Version(gone.version.0.saturating_sub(1));
        let found = self.stored_vertices(&[gone.id], before).await?;
        Ok(found.into_iter().next().flatten())
    }

    fn moment_now(&self) -> Version {
        self.moment(Version::MAX, Version::ZERO)
    }
}
