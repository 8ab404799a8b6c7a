//! Common parts of the answers: a view of the graph with its types, lookups by `OpenLineage` names, pages.

use super::super::ApiError;
use super::super::api::ApiRequest;
use crate::cluster::Graph;
use esker_console::{label, value};
use esker_import::openlineage::{NAME, NAMESPACE, Types, joined};
use esker_model::{
    EdgeSelect, EdgeTypeId, Schema, Version, VersionRange, Versions, Vertex, VertexId, VertexName,
};
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Default and largest number of items of a page.
const PAGE: (u64, u64) = (100, 1_000);

/// A view of the graph with the types of `OpenLineage`.
pub(super) struct GraphView<'a> {
    pub(super) graph: Graph<'a>,
    pub(super) schema: Arc<Schema>,
    /// The types; `None` if the database never received an event.
    pub(super) types: Option<Types>,
}

/// A job or a dataset.
pub(super) struct JobOrDataset {
    pub(super) vertex: Vertex,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl JobOrDataset {
    pub(super) fn of(vertex: Vertex) -> Option<Self> {
        let text = |name| Some(label::text(&vertex, name)?.to_owned());
        let (namespace, name) = (text(NAMESPACE)?, text(NAME)?);
        Some(Self {
            vertex,
            namespace,
            name,
        })
    }

    /// Encodes the name as `{"namespace", "name"}`.
    pub(super) fn id(&self) -> Json {
        json!({"namespace": self.namespace, "name": self.name})
    }

    pub(super) fn facets(&self) -> Map<String, Json> {
        facets_of(&self.vertex)
    }
}

pub(super) fn facets_of(vertex: &Vertex) -> Map<String, Json> {
    let user = vertex.user.iter();
    let mut out = joined(user.map(|a| (a.name.as_str(), &a.value)));
    // These two facets only repeat the name.
    for name in ["namespace", "name"] {
        out.remove(name);
    }
    out
}

/// Formats the time of a version.
pub(super) fn time(version: Version) -> String {
    let millis = i64::try_from(version.millis()).unwrap_or(i64::MAX);
    value::time(millis.saturating_mul(1_000_000))
}

/// A range of items of a list.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Page {
    pub(super) fn of(request: &ApiRequest<'_>) -> Result<Self, ApiError> {
        let limit = request.query.number("limit")?.unwrap_or(PAGE.0);
        if !(1..=PAGE.1).contains(&limit) {
            return Err(ApiError::bad(format!(
                "parameter `limit`: expected 1 to {}; got {limit}",
                PAGE.1
            )));
        }
        let offset = request.query.number("offset")?.unwrap_or_default();
        Ok(Self {
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            limit: limit as usize,
        })
    }

    pub(super) fn cut<T>(self, items: Vec<T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.offset).take(self.limit)
    }
}

impl<'a> GraphView<'a> {
    pub(super) fn new(request: &ApiRequest<'a>) -> Result<Self, ApiError> {
        let graph = request.graph();
        let schema = graph.schema()?;
        let types = Types::resolve(&schema).ok();
        Ok(Self {
            graph,
            schema,
            types,
        })
    }

    /// Looks up a vertex by its name; paths mean the files that they name now. `None` if it does not exist.
    pub(super) fn vertex(
        &self,
        request: &ApiRequest<'_>,
        name: &VertexName,
    ) -> Result<Option<Vertex>, ApiError> {
        if self.types.is_none() {
            return Ok(None);
        }
        let found = request.resolve(&self.schema, std::slice::from_ref(name))?;
        let ids: Vec<VertexId> = found.iter().map(|v| v.id).collect();
        let mut read = self.graph.read_vertices(&ids, Version::MAX)?;
        Ok(read.pop().flatten().filter(|v| !v.deleted))
    }

    /// Looks up a job or a dataset by its name.
    pub(super) fn job_or_dataset(
        &self,
        request: &ApiRequest<'_>,
        name: &VertexName,
    ) -> Result<Option<JobOrDataset>, ApiError> {
        Ok(self.vertex(request, name)?.and_then(JobOrDataset::of))
    }

    /// Destinations of a vertex's edges of one type, with the versions of the edges.
    pub(super) fn destinations(
        &self,
        of: VertexId,
        edge_type: EdgeTypeId,
    ) -> Result<Vec<(VertexId, Version)>, ApiError> {
        let mut out = Vec::new();
        let select = EdgeSelect {
            types: vec![edge_type],
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        self.graph.scan_edges(&[of], &select, &mut |_, edge| {
            out.push((edge.key.destination, edge.version));
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    /// The inverse of an edge type.
    pub(super) fn inverse(&self, edge_type: EdgeTypeId) -> EdgeTypeId {
        self.schema
            .edge_type(edge_type)
            .map_or(edge_type, |t| t.inverse)
    }

    /// Reads those of the vertices that are jobs or datasets.
    pub(super) fn jobs_or_datasets(&self, ids: &[VertexId]) -> Result<Vec<JobOrDataset>, ApiError> {
        let read = self.graph.read_vertices(ids, Version::MAX)?;
        let there = read.into_iter().flatten().filter(|v| !v.deleted);
        Ok(there.filter_map(JobOrDataset::of).collect())
    }

    /// Times of the first and the last change of a vertex.
    pub(super) fn times(&self, id: VertexId) -> Result<(String, String), ApiError> {
        let range = VersionRange {
            from: Version::ZERO,
            until: Version::MAX,
        };
        let events = self.graph.vertex_history(id, range)?;
        let last = events.first().map_or(Version::ZERO, |e| e.version);
        let first = events.last().map_or(Version::ZERO, |e| e.version);
        Ok((time(first), time(last)))
    }
}

/// Error for a job, dataset or run that does not exist.
pub(super) fn absent(what: &str, name: &str) -> ApiError {
    ApiError::missing(format!("no {what} `{name}`"))
}
