//! What the answers have in common: a moment of the graph with the types, vertices by their names in `OpenLineage`, pages.

use super::super::Refused;
use super::super::api::Asked;
use crate::cluster::Graph;
use esker_console::{label, value};
use esker_import::openlineage::{NAME, NAMESPACE, Types, joined};
use esker_model::{
    EdgeSelect, EdgeTypeId, Schema, Version, VersionRange, Versions, Vertex, VertexId, VertexName,
};
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Items of a page, if it is not said; and at most.
const PAGE: (u64, u64) = (100, 1_000);

/// A graph that has taken events.
pub(super) struct Known<'a> {
    pub(super) graph: Graph<'a>,
    pub(super) schema: Arc<Schema>,
    /// Nothing where no event was ever taken.
    pub(super) types: Option<Types>,
}

/// A job or a dataset.
pub(super) struct Thing {
    pub(super) vertex: Vertex,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Thing {
    pub(super) fn of(vertex: Vertex) -> Option<Self> {
        let text = |name| Some(label::text(&vertex, name)?.to_owned());
        let (namespace, name) = (text(NAMESPACE)?, text(NAME)?);
        Some(Self {
            vertex,
            namespace,
            name,
        })
    }

    /// `{"namespace", "name"}`.
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
    // These two say what it is called.
    for name in ["namespace", "name"] {
        out.remove(name);
    }
    out
}

/// A version as a time.
pub(super) fn time(version: Version) -> String {
    let millis = i64::try_from(version.millis()).unwrap_or(i64::MAX);
    value::time(millis.saturating_mul(1_000_000))
}

/// Which items of a list.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Page {
    pub(super) fn of(asked: &Asked<'_>) -> Result<Self, Refused> {
        let limit = asked.query.number("limit")?.unwrap_or(PAGE.0);
        if !(1..=PAGE.1).contains(&limit) {
            return Err(Refused::bad(format!(
                "parameter `limit`: expected 1 to {}; got {limit}",
                PAGE.1
            )));
        }
        let offset = asked.query.number("offset")?.unwrap_or_default();
        Ok(Self {
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            limit: limit as usize,
        })
    }

    pub(super) fn cut<T>(self, items: Vec<T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.offset).take(self.limit)
    }
}

impl<'a> Known<'a> {
    pub(super) fn new(asked: &Asked<'a>) -> Result<Self, Refused> {
        let graph = asked.graph();
        let schema = graph.schema()?;
        let types = Types::resolve(&schema).ok();
        Ok(Self {
            graph,
            schema,
            types,
        })
    }

    /// The vertex of that name, files being where they are now; nothing if there is none.
    pub(super) fn vertex(
        &self,
        asked: &Asked<'_>,
        name: &VertexName,
    ) -> Result<Option<Vertex>, Refused> {
        if self.types.is_none() {
            return Ok(None);
        }
        let found = asked.resolve(&self.schema, std::slice::from_ref(name))?;
        let ids: Vec<VertexId> = found.iter().map(|v| v.id).collect();
        let mut read = self.graph.read_vertices(&ids, Version::MAX)?;
        Ok(read.pop().flatten().filter(|v| !v.deleted))
    }

    /// A job or dataset of that name.
    pub(super) fn thing(
        &self,
        asked: &Asked<'_>,
        name: &VertexName,
    ) -> Result<Option<Thing>, Refused> {
        Ok(self.vertex(asked, name)?.and_then(Thing::of))
    }

    /// Where edges of that type lead, and since when.
    pub(super) fn ends(
        &self,
        of: VertexId,
        edge_type: EdgeTypeId,
    ) -> Result<Vec<(VertexId, Version)>, Refused> {
        let mut out = Vec::new();
        let select = EdgeSelect {
            types: vec![edge_type],
            versions: Versions::NOW,
            properties: false,
        };
        self.graph.scan_edges(&[of], &select, &mut |_, edge| {
            out.push((edge.key.destination, edge.version));
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    /// The opposite direction of an edge type.
    pub(super) fn inverse(&self, edge_type: EdgeTypeId) -> EdgeTypeId {
        self.schema
            .edge_type(edge_type)
            .map_or(edge_type, |t| t.inverse)
    }

    /// Those vertices that are jobs or datasets.
    pub(super) fn things(&self, ids: &[VertexId]) -> Result<Vec<Thing>, Refused> {
        let read = self.graph.read_vertices(ids, Version::MAX)?;
        let there = read.into_iter().flatten().filter(|v| !v.deleted);
        Ok(there.filter_map(Thing::of).collect())
    }

    /// When something was first and last told of.
    pub(super) fn times(&self, id: VertexId) -> Result<(String, String), Refused> {
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

/// There is none.
pub(super) fn absent(what: &str, name: &str) -> Refused {
    Refused::missing(format!("no {what} `{name}`"))
}
