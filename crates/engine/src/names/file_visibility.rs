//! Visibility and present paths of files in a namespace that is distributed over several engines.

use super::file_kind;
use super::remote_rows::{RemoteData, RowPlacement, RunResult, stopped_error};
use super::vertex_paths::{FileState, VertexPaths};
use crate::Engine;
use esker_model::object::Principal;
use esker_model::{Result, VertexId, VertexTypeId};

/// A vertex that may be a file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaybeFile {
    /// Id of the vertex.
    pub id: VertexId,
    /// Type and key of the vertex, if it exists.
    pub vertex: Option<(VertexTypeId, String)>,
}

/// Visibility and key of such a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVisibility {
    /// Whether the vertex is visible to the principal.
    pub visible: bool,
    /// Present path as a key, if the vertex is a live file.
    pub key: Option<String>,
}

impl Engine {
    /// Returns the visibility of vertices that may be files.
    pub fn file_visibility_distributed(
        &self,
        principal: Option<&Principal>,
        of: &[MaybeFile],
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<Vec<FileVisibility>>> {
        let schema = self.schema_now();
        self.with_partial_store(None, placement, fetched, |resolver, partial| {
            let paths = VertexPaths::new(resolver.rows);
            let known = |file: &MaybeFile| -> Result<FileState> {
                match &file.vertex {
                    Some((type_id, key)) => match file_kind(&schema, *type_id) {
                        Some(kind) => paths.of(file.id, kind, key),
                        None => Ok(FileState::Unknown),
                    },
                    None => Ok(paths
                        .by_location_record(file.id)?
                        .unwrap_or(FileState::Unknown)),
                }
            };
            let mut shown = Vec::with_capacity(of.len());
            for file in of {
                shown.push(match known(file) {
                    Ok(known) => FileVisibility {
                        visible: known.shows(principal),
                        key: known.key(principal),
                    },
                    // Continue, so that the needs of all files are fetched at once.
                    Err(_) if partial.is_stopped() => continue,
                    Err(e) => return Err(e),
                });
            }
            if partial.is_stopped() {
                return Err(stopped_error());
            }
            Ok(shown)
        })
    }
}
