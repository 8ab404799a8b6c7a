//! Handlers of the JSON API, one function per path; they run on threads that may wait for the disk.

use super::ApiError;
use super::json::{
    edge_out, name_of, properties_out, server_steps_out, steps_out, value_out, vertex_out,
};
use super::json_body::advice;
use super::query::{Query, unknown_value};
use super::quota::{rows_of_all, rows_of_client};
use crate::call::CallState;
use crate::cluster::Graph;
use crate::service::Service;
use crate::storage_quota::Owner;
use esker::lineage::{Direction, LineageOptions, render_json};
use esker_model::namespace::resolve;
use esker_model::object::Principal;
use esker_model::traversal::{Budget, Start, Strategy, TravelResult};
use esker_model::{
    Cancel as _, Edge, EdgeKey, EdgeSelect, EdgeTypeId, Schema, Traversal, Version, VersionRange,
    Versions, Vertex, VertexChange, VertexId, VertexName, VertexRef, VertexSelect, VertexTypeId,
};
use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A request with its context, as handlers get it.
pub(super) struct ApiRequest<'a> {
    pub(super) service: &'a Service,
    pub(super) call_state: &'a CallState,
    pub(super) query: Query,
    pub(super) body: &'a str,
    /// Principal of the request, by its parameters and its sender's rights; `None` sees everything.
    pub(super) principal: Option<Principal>,
}

impl<'a> ApiRequest<'a> {
    /// Principal of the request, if there is one.
    pub(super) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Whether data may be hidden from the principal.
    pub(super) fn is_limited(&self) -> bool {
        Principal::limited(self.principal()).is_some()
    }

    /// Memory that a traversal may use, in bytes.
    pub(super) fn memory_max(&self) -> u64 {
        let most = self.service.settings.limits.memory_bytes;
        self.call_state.memory_within(most) as u64
    }

    /// Returns the graph as the principal sees it.
    pub(super) fn graph(&self) -> Graph<'a> {
        self.service.graph_as(self.principal())
    }

    /// Resolves vertex names as the principal sees them now.
    pub(super) fn resolve(
        &self,
        schema: &Schema,
        names: &[VertexName],
    ) -> esker_model::Result<Vec<VertexRef>> {
        resolve(&*self.service.names_now(), self.principal(), schema, names)
    }

    /// Resolves the vertex in a parameter; a path means the file that it names now.
    pub(super) fn vertex(
        &self,
        parameter: &str,
        schema: &Schema,
    ) -> Result<(String, VertexRef), ApiError> {
        let name = self.query.vertex_name(parameter)?;
        let found = self.resolve(schema, std::slice::from_ref(&name))?;
        let vertex = match found.first() {
            Some(vertex) => *vertex,
            None => name.resolve(schema)?,
        };
        Ok((name.to_string(), vertex))
    }

    /// Resolves the vertex in the parameter `after`, as a position in a scan.
    fn after(&self, schema: &Schema) -> Result<Option<(VertexTypeId, VertexId)>, ApiError> {
        if self.query.get("after").is_none() {
            return Ok(None);
        }
        let (_, vertex) = self.vertex("after", schema)?;
        Ok(Some((vertex.type_id, vertex.id)))
    }
}

/// Result of a handler: JSON text.
pub(super) type Answer = Result<String, ApiError>;

pub(super) fn missing(name: &str, query: &Query) -> ApiError {
    let when = match query.get("as_of") {
        Some(time) => format!(" as of {time}"),
        None => String::new(),
    };
    ApiError::missing(format!("no vertex `{name}`{when}"))
}

/// `GET /api/v1/quota`: limits of the sender and how much of them is used; with `all`, of everybody, for administrators.
pub(super) fn quota(request: &ApiRequest<'_>) -> Answer {
    let (service, client) = (request.service, request.call_state.client());
    let table = service.access.clients().quotas();
    let storage = service.storage.as_ref();
    let rows = if request.query.flag("all")? {
        if !client.is_admin {
            return Err(ApiError::Status(
                StatusCode::FORBIDDEN,
                "the quotas of all are for role `admin`: leave out `all` to see your own".into(),
            ));
        }
        let owners = storage.map_or_else(Vec::new, |storage| storage.all(table));
        rows_of_all(&service.queries.all(), &owners)
    } else {
        let user = client.user.map(Owner::User);
        let owned = storage.zip(user).map(|(storage, user)| storage.of(&user));
        let queries = service.queries.of(&client.share.client);
        rows_of_client(client, queries, owned)
    };
    let answer = json!({"client": client.name(), "contact": &**table.contact(), "rows": rows});
    Ok(answer.to_string())
}

pub(super) fn schema(request: &ApiRequest<'_>) -> Answer {
    let schema = request.service.schema()?;
    let vertex_types = schema.vertex_types().map(|(_, t)| {
        let parent = t.parent.and_then(|p| schema.vertex_type(p)).map(|p| &p.name);
        let attributes = t.attributes.iter().map(|a| json!({"name": a.name, "kind": a.kind.name()}));
        json!({"name": t.name, "parent": parent, "attributes": attributes.collect::<Json>(), "builtin": t.builtin})
    });
    let vertex_types: Json = vertex_types.collect();
    let name = |t| schema.vertex_type(t).map(|t| t.name.clone());
    let edge_types = schema.edge_types().map(|(_, t)| {
        let inverse = schema.edge_type(t.inverse).map(|i| &i.name);
        json!({"name": t.name, "inverse": inverse, "source": name(t.source), "destination": name(t.destination),
               "forward": t.forward})
    });
    let edge_types: Json = edge_types.collect();
    Ok(json!({"vertex_types": vertex_types, "edge_types": edge_types}).to_string())
}

pub(super) fn stats(request: &ApiRequest<'_>) -> Answer {
    let schema = request.service.schema()?;
    let stats = request
        .service
        .stats(&*request.graph(), request.principal())?;
    let vertices = stats
        .counts
        .vertices
        .iter()
        .filter_map(|(t, n)| Some((schema.vertex_type(*t)?.name.clone(), (*n).into())));
    let edges = stats
        .counts
        .edges
        .iter()
        .filter_map(|(t, n)| Some((schema.edge_type(*t)?.name.clone(), (*n).into())));
    let tables = stats.store.table_bytes.iter();
    let tables: Map<String, Json> = tables
        .map(|(t, n)| (t.name().to_owned(), (*n).into()))
        .collect();
    Ok(json!({
        "vertices": vertices.collect::<Map<String, Json>>(),
        "edges": edges.collect::<Map<String, Json>>(),
        "store": {
            "engine": stats.store.engine,
            "table_bytes": tables,
            "log_bytes": stats.store.log_bytes,
            "cache_bytes": stats.store.cache_bytes,
            "cache_bytes_max": stats.store.cache_bytes_max,
        },
        "adjacency": {
            "lists": stats.adjacency_lists,
            "edges": stats.adjacency_edges,
            "bytes": stats.adjacency_bytes,
            "bytes_max": stats.adjacency_bytes_max,
        },
        "objects": {
            "bytes": stats.objects_bytes,
            "index_bytes": stats.objects_index_bytes,
            "disk_bytes": stats.objects_disk_bytes,
        },
        "newest": stats.newest.map(|v| v.to_string()),
        "retained_since": stats.retained_since.map(|v| v.to_string()),
        "owner_pid": std::process::id(),
    })
    .to_string())
}

pub(super) fn vertex(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, vertex) = request.vertex("id", &schema)?;
    let found = graph.read_vertices(&[vertex.id], request.query.as_of()?)?;
    match found.into_iter().next().flatten() {
        Some(found) if !found.deleted => {
            Ok(vertex_out(vertex.id, Some(&found), &schema).to_string())
        }
        Some(found) => Err(ApiError::missing(format!(
            "`{name}` was deleted at {}",
            found.version
        ))),
        None => Err(missing(&name, &request.query)),
    }
}

pub(super) fn vertices(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let type_id = request.query.vertex_type(&schema)?;
    let limit = request.query.limit()?;
    let mut found: Vec<Vertex> = Vec::new();
    let mut more = false;
    let select = VertexSelect {
        type_id,
        after: request.after(&schema)?,
        as_of: request.query.as_of()?,
        deleted: false,
    };
    graph.scan_vertices(&select, &mut |vertex| {
        if found.len() == limit {
            more = true;
            return ControlFlow::Break(());
        }
        found.push(vertex);
        if request.call_state.cancelled() {
            more = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    let next = found.last().filter(|_| more).map(|v| v.name(&schema));
    let vertices: Json = found
        .iter()
        .map(|v| vertex_out(v.id, Some(v), &schema))
        .collect();
    Ok(json!({"vertices": vertices, "next": next}).to_string())
}

/// Looks up the names of vertices, except those in `names` already.
pub(super) fn add_names(
    graph: &Graph<'_>,
    schema: &Schema,
    names: &mut HashMap<VertexId, String>,
    ids: impl Iterator<Item = VertexId>,
) -> Result<(), ApiError> {
    let mut unknown: Vec<_> = ids.filter(|id| !names.contains_key(id)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    // Type and key never change, so the present vertex has the name of earlier versions, too.
    let vertices = graph.read_vertices(&unknown, Version::MAX)?;
    for (id, vertex) in unknown.into_iter().zip(vertices) {
        names.insert(id, name_of(id, vertex.as_ref(), schema));
    }
    Ok(())
}

pub(super) fn edges(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, vertex) = request.vertex("id", &schema)?;
    let types = match request.query.get("type") {
        None => Vec::new(),
        Some(list) => list
            .split(',')
            .map(|t| schema.edge_type_id(t))
            .collect::<Result<_, _>>()?,
    };
    let limit = request.query.limit()?;
    let select = EdgeSelect {
        types,
        versions: Versions::AsOf(request.query.as_of()?),
        properties: true,
        after: match request.query.get("after") {
            None => None,
            Some(text) => Some(edge_cursor_in(text, &schema)?),
        },
    };
    let (mut found, mut more): (Vec<Edge>, bool) = (Vec::new(), false);
    graph.scan_edges(&[vertex.id], &select, &mut |_, edge| {
        if found.len() == limit || request.call_state.cancelled() {
            more = true;
            return ControlFlow::Break(());
        }
        found.push(edge);
        ControlFlow::Continue(())
    })?;
    // Edges may leave a vertex that was never inserted.
    if found.is_empty() && select.after.is_none() {
        let vertices = graph.read_vertices(&[vertex.id], Version::MAX)?;
        if vertices.iter().all(Option::is_none) {
            return Err(ApiError::missing(format!("no vertex `{name}`")));
        }
    }
    let mut names = HashMap::new();
    let ends = found.iter().map(|e| e.key.destination);
    add_names(&graph, &schema, &mut names, ends)?;
    let edges: Json = found
        .iter()
        .map(|e| {
            edge_out(
                e,
                &name,
                names.get(&e.key.destination).map_or("", String::as_str),
                &schema,
            )
        })
        .collect();
    let last = found.last().filter(|_| more);
    let next = last.map(|e| edge_cursor_out(&e.key, &schema));
    Ok(json!({"edges": edges, "more": more, "next": next}).to_string())
}

/// Formats the cursor of a page of edges: the last edge's type, and its destination's id in hexadecimal digits.
fn edge_cursor_out(last: &EdgeKey, schema: &Schema) -> String {
    let edge_type = schema.edge_type(last.edge_type);
    format!("{}/{}", edge_type.map_or("", |t| &t.name), last.destination)
}

/// Parses a cursor that [`edge_cursor_out`] has formatted.
fn edge_cursor_in(text: &str, schema: &Schema) -> Result<(EdgeTypeId, VertexId), ApiError> {
    let parts = text.split_once('/').and_then(|(edge_type, id)| {
        let is_hex = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_hex)?;
        Some((edge_type, VertexId(id.to_be_bytes())))
    });
    let Some((edge_type, destination)) = parts else {
        return Err(ApiError::bad(format!(
            "after: `{text}` is not a cursor; expected `next` of the previous answer"
        )));
    };
    Ok((schema.edge_type_id(edge_type)?, destination))
}

pub(super) fn history(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (_, vertex) = request.vertex("id", &schema)?;
    let bound = |name: &str, default| match request.query.get(name) {
        None => Ok(default),
        Some(text) => Version::parse_since(text),
    };
    let range = VersionRange {
        from: bound("from", Version::ZERO)?,
        until: bound("until", Version::MAX)?,
    };
    let events: Json = if let Some(edge_type) = request.query.get("type") {
        let key = EdgeKey {
            source: vertex.id,
            edge_type: schema.edge_type_id(edge_type)?,
            destination: request.vertex("dst", &schema)?.1.id,
        };
        let events = graph.edge_history(key, range)?;
        let event = events.into_iter().map(|e| {
            let change = if e.edge.deleted { "deleted" } else { "put" };
            json!({"version": e.edge.version.to_string(), "change": change,
                   "properties": properties_out(&e.edge.properties), "archived": e.archived})
        });
        event.collect()
    } else {
        let events = graph.vertex_history(vertex.id, range)?;
        let event = events.into_iter().map(|e| {
            let (change, attribute, value) = match &e.change {
                VertexChange::Put(attributes) => ("put", None, properties_out(attributes)),
                VertexChange::Deleted => ("deleted", None, Json::Null),
                VertexChange::Set(name, value) => ("set", Some(name), value_out(value)),
                VertexChange::Removed(name) => ("removed", Some(name), Json::Null),
            };
            json!({"version": e.version.to_string(), "change": change, "attribute": attribute, "value": value,
                   "archived": e.archived})
        });
        event.collect()
    };
    Ok(json!({ "events": events }).to_string())
}

pub(super) fn lineage(request: &ApiRequest<'_>) -> Answer {
    related(request, Direction::Lineage)
}

pub(super) fn impact(request: &ApiRequest<'_>) -> Answer {
    related(request, Direction::Impact)
}

fn related(request: &ApiRequest<'_>, direction: Direction) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, vertex) = request.vertex("id", &schema)?;
    let depth = request.query.number("depth")?;
    let options = LineageOptions {
        as_of: request.query.as_of()?,
        depth: depth.map(|d| u32::try_from(d).unwrap_or(u32::MAX)),
        bytes: Some(request.memory_max()),
        ..LineageOptions::default()
    };
    let found = match direction {
        Direction::Lineage => {
            esker::lineage::lineage(&*graph, vertex.id, &options, request.call_state)
        }
        Direction::Impact => {
            esker::lineage::impact(&*graph, vertex.id, &options, request.call_state)
        }
    };
    match found {
        Ok(found) => Ok(render_json(&found, &schema)),
        Err(esker_model::Error::NoVertex { .. }) => Err(missing(&name, &request.query)),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn travel(request: &ApiRequest<'_>) -> Answer {
    const KEYS: [&str; 6] = [
        "chain",
        "depth",
        "max_edges",
        "timeout_ms",
        "profile",
        "strategy",
    ];
    let body: Json = serde_json::from_str(request.body)
        .map_err(|e| ApiError::bad(format!("the body is not JSON: {e}")))?;
    let Json::Object(body) = body else {
        return Err(ApiError::bad(
            "the body: expected a JSON object with `chain`".into(),
        ));
    };
    if let Some(key) = body.keys().find(|k| !KEYS.contains(&k.as_str())) {
        let advice = advice(key, KEYS.into_iter());
        return Err(ApiError::bad(format!("unknown key `{key}`; {advice}")));
    }
    let number = |key: &str| match body.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| ApiError::bad(format!("`{key}`: expected a whole number"))),
    };
    let Some(Json::String(chain)) = body.get("chain") else {
        return Err(ApiError::bad(
            "`chain`: expected a string, as in v(\"user:1001\").e(\"run\").v()".into(),
        ));
    };
    let traversal =
        Traversal::parse_at(chain, now_nanos()).map_err(|e| ApiError::chain(&e, chain))?;
    let budget = Budget {
        steps: number("depth")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        edges: number("max_edges")?,
        bytes: Some(request.memory_max()),
        millis: number("timeout_ms")?,
        strategy: strategy(body.get("strategy"))?,
    };
    let profile = body.get("profile") == Some(&Json::Bool(true));
    let graph = request.graph();
    traversal.check_possible(&*graph.schema()?)?;
    let begun = Instant::now();
    let result = graph.travel(&traversal, &budget, request.call_state)?;
    let latest = &request.service.console.traversals;
    latest.note(request.principal(), &traversal, &result, begun.elapsed());
    let schema = request.service.schema()?;
    travel_out((&graph, &schema), &traversal, &result, profile)
}

/// Nanoseconds since 1970: the origin of relative times such as `30d ago` in filters.
fn now_nanos() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}

fn strategy(value: Option<&Json>) -> Result<Strategy, ApiError> {
    let found = match value {
        None | Some(Json::Null) => Some(Strategy::default()),
        Some(Json::String(name)) => Strategy::ALL.into_iter().find(|s| s.name() == name),
        Some(_) => None,
    };
    found.ok_or_else(|| {
        let names = Strategy::ALL.map(Strategy::name);
        let given = value.map(Json::to_string).unwrap_or_default();
        ApiError::bad(unknown_value("strategy", given.trim_matches('"'), &names))
    })
}

fn travel_out(
    (graph, schema): (&Graph<'_>, &Schema),
    traversal: &Traversal,
    result: &TravelResult,
    profile: bool,
) -> Answer {
    let names = |names: &[VertexName]| match names {
        [one] => Json::from(one.to_string()),
        many => many.iter().map(ToString::to_string).collect(),
    };
    let target = match &traversal.start {
        Start::Type(name) => Json::from(format!("type={name}")),
        Start::Vertices(list) => names(list),
    };
    let stopped = result.stopped.iter().map(
        |s| json!({"reason": s.reason.name(), "step": s.step, "vertices_left": s.vertices_left}),
    );
    let mut out = json!({
        "target": target,
        "complete": result.complete,
        "stopped": stopped.collect::<Json>(),
    });
    let read = |ids: &[VertexId]| -> Result<Json, ApiError> {
        let vertices = graph.read_vertices(ids, result.as_of)?;
        let both = ids.iter().zip(&vertices);
        Ok(both
            .map(|(id, v)| vertex_out(*id, v.as_ref(), schema))
            .collect())
    };
    if let Some(paths) = &result.paths {
        let mut ids: Vec<_> = paths.nodes.iter().map(|n| n.vertex).collect();
        let mut seen = std::collections::HashSet::new();
        ids.retain(|id| seen.insert(*id));
        out["vertices"] = read(&ids)?;
        let mut steps: Vec<_> = paths
            .nodes
            .iter()
            .flat_map(|n| &n.parents)
            .map(|p| (p.edge, p.version))
            .collect();
        let mut seen = std::collections::HashSet::new();
        steps.retain(|step| seen.insert(*step));
        let mut names = HashMap::new();
        add_names(graph, schema, &mut names, ids.into_iter())?;
        let keys: Vec<_> = steps.iter().map(|(key, _)| *key).collect();
        let as_read = graph.read_edges(&keys, result.as_of)?;
        let name = |id: VertexId| names.get(&id).map_or("", String::as_str);
        let edges = steps.iter().zip(as_read).map(|((key, version), read)| {
            let edge = read
                .filter(|e| e.version == *version)
                .unwrap_or_else(|| Edge {
                    key: *key,
                    version: *version,
                    deleted: false,
                    properties: esker_model::Properties::new(),
                });
            edge_out(&edge, name(key.source), name(key.destination), schema)
        });
        out["edges"] = edges.collect();
    }
    let has_rtn = traversal.start_returned || traversal.hops().any(|(_, h)| h.returned);
    if result.paths.is_none() || has_rtn {
        let mut sets = Vec::new();
        for set in &result.sets {
            sets.push(json!({"hop": set.hop, "vertices": read(&set.vertices)?}));
        }
        out["sets"] = sets.into();
    }
    if profile {
        out["profile"] = steps_out(&result.profile);
        if !result.servers.is_empty() {
            out["servers"] = server_steps_out(&result.servers);
        }
    }
    Ok(out.to_string())
}
