//! Calls about shares of lineages, in the process that owns the database.

use super::core::Core;
use crate::engine::View;
use esker_lineage::{LineageOptions, impact, lineage};
use esker_model::limits::SHARE_VERTICES_MAX;
use esker_model::object::Principal;
use esker_model::sharing::{ShareCall, ShareRequest, SharedLineage};
use esker_model::traversal::StopReason;
use esker_model::{Cancel, Error, Result, VertexId};

/// Largest number of edges that are read for one share.
const EDGES_MAX: u64 = 10_000_000;
/// Largest memory for the lineage of one share, in bytes.
const BYTES_MAX: u64 = 256 << 20;

impl Core {
    /// Makes, revokes or lists shares for a principal.
    pub(crate) fn call_shares(
        &self,
        principal: Option<&Principal>,
        call: &ShareCall,
        cancel: &dyn Cancel,
    ) -> Result<Vec<SharedLineage>> {
        if let Some(whole) = &self.part_of {
            return Err(Error::Invalid(format!(
                "lineages can be shared in a folder or through its server, and not on {whole}"
            )));
        }
        match call {
            ShareCall::List => Ok(self.engine.shares(principal)),
            ShareCall::Share(request) => {
                request.check()?;
                let vertices = self.lineage_of(principal, request, cancel)?;
                let terms = request.terms.clone();
                self.write(|engine| engine.share(principal, terms, &vertices))
                    .map(|share| vec![share])
            }
            ShareCall::Revoke(id) => self
                .write(|engine| engine.revoke_share(principal, *id))
                .map(|share| share.into_iter().collect()),
        }
    }

    /// Returns the vertices of the lineage that a request names, as the principal sees it.
    fn lineage_of(
        &self,
        principal: Option<&Principal>,
        request: &ShareRequest,
        cancel: &dyn Cancel,
    ) -> Result<Vec<VertexId>> {
        let mut options = LineageOptions {
            depth: request.depth,
            vertices: Some(SHARE_VERTICES_MAX as u64),
            edges: Some(EDGES_MAX),
            bytes: Some(BYTES_MAX),
            ..LineageOptions::default()
        };
        for (own, named) in [
            (&mut options.made_by, &request.made_by),
            (&mut options.used, &request.used),
        ] {
            if !named.is_empty() {
                own.clone_from(named);
            }
        }
        let view = View::new(&self.engine, principal);
        let follow = if request.terms.impact {
            impact
        } else {
            lineage
        };
        let found = follow(&view, request.terms.root, &options, cancel)?;
        for stop in &found.stopped {
            match stop.reason {
                StopReason::Depth => {}
                StopReason::Interrupted | StopReason::TimeOut => return Err(Error::Interrupted),
                StopReason::Limit | StopReason::Edges | StopReason::Bytes => {
                    return Err(Error::Invalid(format!(
                        "the lineage is too large to be shared at once: at most {SHARE_VERTICES_MAX} vertices and {EDGES_MAX} edges; \
                         share a part of it (--depth)"
                    )));
                }
            }
        }
        Ok(found.vertices.iter().map(|v| v.id).collect())
    }
}
