//! Start vertices and admission: which vertices of this engine a traversal may visit.

use super::expand::{CHUNK_VERTICES, ReadContext, existed_in};
use super::filter::VertexFilter;
use super::part::TraversalPlan;
use super::plan::PlanStart;
use super::stop::Stopper;
use crate::{Engine, read};
use esker_model::traversal::Budget;
use esker_model::{Cancel, Flow, Result, Version, VersionRange, Versions, Vertex, VertexId};

impl Engine {
    /// Takes a snapshot for a traversal, and the view of the adjacency cache that agrees with it.
    pub(super) fn traversal_context<'e>(
        &'e self,
        plan: &TraversalPlan,
        budget: &Budget,
        cancel: &'e dyn Cancel,
    ) -> Result<ReadContext<'e>> {
        let versions = plan.versions();
        let (oldest, until) = match versions {
            Versions::AsOf(v) => (v, v.next()),
            Versions::Range(r) => (r.from, r.until),
        };
        let stopper = Stopper::new(budget, cancel, &*self.clock);
        self.memtable.fit();
        // The view must be taken before the snapshot: see `adjacency`.
        let view = self.adjacency.view();
        // Versions in force at the start of a range may be older than it.
        let from = Version::ZERO;
        let source = self.source(oldest, VersionRange { from, until })?;
        Ok(ReadContext {
            adjacency: &self.adjacency,
            view,
            source,
            versions,
            stopper,
        })
    }

    /// Returns this engine's start vertices that were inserted at some time, each once.
    pub(super) fn start_vertices(
        &self,
        plan: &TraversalPlan,
        context: &ReadContext<'_>,
    ) -> Result<Vec<VertexId>> {
        let mut ids = Vec::new();
        match plan.start() {
            PlanStart::Vertices(vertices) => {
                for v in vertices {
                    let record = read::vertex_record(&context.source, v.id)?;
                    if record.is_some() && !ids.contains(&v.id) {
                        ids.push(v.id);
                    }
                }
            }
            PlanStart::Type(t) => {
                let sink = &mut |id| {
                    ids.push(id);
                    let look = ids.len().is_multiple_of(CHUNK_VERTICES);
                    if look && context.stopper.must_stop().is_some() {
                        return Flow::Break(());
                    }
                    Flow::Continue(())
                };
                read::scan_type_index(&context.source, &self.schema_now(), *t, None, sink)?;
            }
        }
        Ok(ids)
    }

    /// Whether reached vertices need no look-up: present versions, no deletions ever, and no filters.
    pub(super) fn admits_all(&self, plan: &TraversalPlan, filters: &[VertexFilter]) -> bool {
        filters.is_empty() && plan.present().is_some() && self.deleted.is_empty()
    }

    /// Whether a vertex exists at the traversal's version and satisfies the filters. `name` gives a vertex of a file its path.
    pub(super) fn admits(
        &self,
        plan: &TraversalPlan,
        context: &ReadContext<'_>,
        id: VertexId,
        filters: &[VertexFilter],
        name: &dyn Fn(&mut Vertex) -> Result<()>,
    ) -> Result<bool> {
        let look = plan.present().is_none() || self.deleted.may_contain(id);
        if look && !existed_in(&context.source, id, context.versions)? {
            // The present includes everything that is not deleted: a vertex inserted only after it was chosen still counts.
            let record = read::vertex_record(&context.source, id)?;
            let later = |present| record.is_some_and(|r| r.first > present);
            if !plan.present().is_some_and(later) {
                return Ok(false);
            }
        }
        if filters.is_empty() {
            return Ok(true);
        }
        let mut vertex = read::read_vertex(&context.source, id, plan.newest())?;
        if let Some(vertex) = &mut vertex {
            name(vertex)?;
        }
        Ok(vertex.is_some_and(|v| filters.iter().all(|f| f.matches(&v))))
    }
}
