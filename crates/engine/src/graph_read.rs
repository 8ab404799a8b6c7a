//! The reads of the API: from one consistent snapshot, and of that what a principal sees.

use crate::counts;
use crate::filtered_stats;
use crate::read;
use crate::traverse;
use crate::txn::{lock, parse_idempotency_key, was_applied};
use crate::visibility::View;
use crate::{Engine, catalog};
use esker_model::key::Counter;
use esker_model::namespace::{Entry, is_superuser};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Error, Flow, GraphRead, Result, Schema, Traversal, Version, VersionRange, Versions,
    Vertex, VertexEvent, VertexId, VertexSelect,
};
use esker_store::Table;
use std::ops::ControlFlow;
use std::sync::Arc;

impl GraphRead for Engine {
    fn schema(&self) -> Result<Arc<Schema>> {
        Ok(self.schema_now())
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        if let [id] = ids
            && as_of == Version::MAX
        {
            // A single row is consistent without a snapshot.
            return Ok(vec![read::read_vertex(&*self.store, *id, as_of)?]);
        }
        read::read_vertices(&self.source_as_of(as_of)?, ids, as_of)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        read::read_edges(&self.source_as_of(as_of)?, keys, as_of)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let source = match select.versions {
            Versions::AsOf(as_of) => self.source_as_of(as_of),
            Versions::Range(range) => self.source(range.from, range),
        };
        read::scan_edges(&source?, frontier, select, sink)
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let source = self.source_as_of(select.as_of)?;
        read::scan_vertices(&source, &self.schema_now(), select, sink)
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let snapshot = self.store.snapshot()?;
        read::vertex_history(&*snapshot, &*self.archive, id, range)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let snapshot = self.store.snapshot()?;
        read::edge_history(&*snapshot, &*self.archive, key, range)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        let mut pending = lock(&self.counters);
        of.iter()
            .map(|(id, edge_type)| {
                let counter = Counter::Degree(*id, *edge_type);
                let merged = counts::read(&*self.store, &counter.encode())?;
                counts::apply(&counter, merged, pending.change(&counter))
            })
            .collect()
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        crate::top::top_degrees(self, edge_type, limit)
    }

    fn counts(&self) -> Result<Counts> {
        let schema = self.schema_now();
        let mut pending = lock(&self.counters);
        let mut total = |counter: Counter| {
            let merged = counts::read(&*self.store, &counter.encode())?;
            counts::apply(&counter, merged, pending.change(&counter))
        };
        let vertices = schema
            .vertex_types()
            .map(|(t, _)| Ok((t, total(Counter::Vertices(t))?)))
            .collect::<Result<_>>()?;
        let edges = schema
            .edge_types()
            .map(|(t, _)| Ok((t, total(Counter::Edges(t))?)))
            .collect::<Result<_>>()?;
        Ok(Counts { vertices, edges })
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let (before, after) = (select.before, select.after);
        let source = self.source(before.min(after), VersionRange::up_to(before.max(after)))?;
        read::diff(&source, &self.schema_now(), select, sink)
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        traverse::run(self, traversal, budget, cancel, None)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        if let Some(numbered) = parse_idempotency_key(idempotency_key)? {
            return was_applied(&*self.store, &numbered);
        }
        self.store.get_with(
            Table::Meta,
            &catalog::idempotency_row_key(idempotency_key),
            &mut |_| {},
        )
    }

    fn past_files(
        &self,
        as_of: Version,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        Self::past_files(self, as_of, sink)
    }
}

/// Records the error of a failed result in `slot`, for use in sinks.
fn keep<T>(slot: &mut Result<()>, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(e) => {
            *slot = Err(e);
            None
        }
    }
}

impl GraphRead for View<'_> {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.engine.schema()
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let found = self.engine.read_vertices(ids, as_of)?;
        self.with(|visibility| match visibility {
            None => Ok(found),
            Some(visibility) => found
                .into_iter()
                .map(|v| v.map_or(Ok(None), |v| visibility.show(v)))
                .collect(),
        })
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let all = || self.engine.read_edges(keys, as_of);
        self.guarded(all, |visibility| {
            let mut found = all()?;
            for edge in &mut found {
                if let Some(e) = edge
                    && !visibility.sees_edge(&e.key)?
                {
                    *edge = None;
                }
            }
            Ok(found)
        })
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        if self.principal.is_none() {
            return self.engine.scan_edges(frontier, select, sink);
        }
        self.with(|visibility| {
            let mut error = Ok(());
            self.engine
                .scan_edges(frontier, select, &mut |i, edge| match visibility {
                    Some(visibility) => match keep(&mut error, visibility.sees_edge(&edge.key)) {
                        Some(true) => sink(i, edge),
                        Some(false) => ControlFlow::Continue(()),
                        None => ControlFlow::Break(()),
                    },
                    None => sink(i, edge),
                })?;
            error
        })
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        self.with(|visibility| {
            let Some(visibility) = visibility else {
                return self.engine.scan_vertices(select, sink);
            };
            let mut error = Ok(());
            self.engine.scan_vertices(select, &mut |vertex| match keep(
                &mut error,
                visibility.show(vertex),
            ) {
                Some(Some(vertex)) => sink(vertex),
                Some(None) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            })?;
            error
        })
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let all = || self.engine.vertex_history(id, range);
        self.guarded(all, |visibility| {
            if visibility.sees_id(id)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let all = || self.engine.edge_history(key, range);
        self.guarded(all, |visibility| {
            if visibility.sees_edge(&key)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        if self.principal.is_none() {
            return self.engine.degrees(of);
        }
        filtered_stats::degrees(self, of)
    }

    /// Counts all edges that a principal sees, which takes as long as reading them.
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.principal.is_none() {
            return self.engine.top_degrees(edge_type, limit);
        }
        filtered_stats::top_degrees(self, edge_type, limit)
    }

    /// Counts everything that a principal sees, which takes as long as reading it.
    fn counts(&self) -> Result<Counts> {
        let counts = self.engine.counts()?;
        if self.principal.is_none() {
            return Ok(counts);
        }
        filtered_stats::counts(self, counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        self.with(|visibility| {
            let Some(visibility) = visibility else {
                return self.engine.diff(select, sink);
            };
            let mut error = Ok(());
            let show = |vertex: Option<Vertex>| vertex.map_or(Ok(None), |v| visibility.show(v));
            self.engine.diff(select, &mut |difference| {
                let shown =
                    match difference {
                        Difference::Vertex(old, new) => show(old).and_then(|old| {
                            let new = show(new)?;
                            Ok((old.is_some() || new.is_some())
                                .then_some(Difference::Vertex(old, new)))
                        }),
                        Difference::Edge(old, new) => {
                            let key = old.as_ref().or(new.as_ref()).map(|e| e.key);
                            key.map_or(Ok(false), |key| visibility.sees_edge(&key))
                                .map(|seen| seen.then_some(Difference::Edge(old, new)))
                        }
                    };
                match keep(&mut error, shown) {
                    Some(Some(difference)) => sink(difference),
                    Some(None) => ControlFlow::Continue(()),
                    None => ControlFlow::Break(()),
                }
            })?;
            error
        })
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        self.with(|visibility| traverse::run(self.engine, traversal, budget, cancel, visibility))
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.engine.applied(idempotency_key)
    }

    fn past_files(
        &self,
        as_of: Version,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        if !is_superuser(self.principal) {
            return Err(Error::Invalid(
                "all files as of a past time are listed for the owner of the database alone".into(),
            ));
        }
        self.engine.past_files(as_of, sink)
    }
}
