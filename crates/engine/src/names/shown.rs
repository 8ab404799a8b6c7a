//! Who sees which files of a namespace that is spread over many engines, and by which paths.

use super::apart::{Fetched, Placed, Ran, stopped};
use super::file_kind;
use super::places::{Known, Places};
use crate::Engine;
use esker_model::object::Asker;
use esker_model::{Result, VertexId, VertexTypeId};

/// A vertex that may be a file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaybeFile {
    /// Its id.
    pub id: VertexId,
    /// Its type and key, if there is a vertex.
    pub vertex: Option<(VertexTypeId, String)>,
}

/// What is known of such a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Whether the asker may know of it.
    pub seen: bool,
    /// Its present path as a key, if it is a file that is there.
    pub key: Option<String>,
}

impl Engine {
    /// What someone sees of vertices that may be files.
    pub fn shown_spread(
        &self,
        asker: Option<&Asker>,
        of: &[MaybeFile],
        placed: &dyn Placed,
        fetched: &Fetched,
    ) -> Result<Ran<Vec<Shown>>> {
        let schema = self.schema_now();
        self.way_apart(None, placed, fetched, |way, apart| {
            let places = Places::new(way.rows);
            let known = |file: &MaybeFile| -> Result<Known> {
                match &file.vertex {
                    Some((type_id, key)) => match file_kind(&schema, *type_id) {
                        Some(kind) => places.of(file.id, kind, key),
                        None => Ok(Known::Nothing),
                    },
                    None => Ok(places.by_whereabouts(file.id)?.unwrap_or(Known::Nothing)),
                }
            };
            let mut shown = Vec::with_capacity(of.len());
            for file in of {
                shown.push(match known(file) {
                    Ok(known) => Shown {
                        seen: known.shows(asker),
                        key: known.key(asker),
                    },
                    // What the others need is asked for together.
                    Err(_) if apart.is_stopped() => continue,
                    Err(e) => return Err(e),
                });
            }
            if apart.is_stopped() {
                return Err(stopped());
            }
            Ok(shown)
        })
    }
}
