//! Type-ahead and search over the names of all vertices, which are read at the first request and again after changes.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::super::find::filter;
use super::super::json::{properties_out, version_out};
use super::json_text;
use esker_console::label;
use esker_console::names::{Hit, Names, is_of};
use esker_model::filter::Expr;
use esker_model::object::{Find, Principal};
use esker_model::sharing::OpenShares;
use esker_model::{
    Cancel as _, Result, Schema, Value, Version, Vertex, VertexId, VertexName, VertexTypeId,
};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least age of names before they are read again; the age is also at least `WORTH` times the duration of the last read.
const FRESH: Duration = Duration::from_secs(3);
const WORTH: u32 = 20;
/// Largest number of hits over which facets are counted.
const COUNTED_MAX: usize = 1 << 20;
/// Largest number of values of one facet.
const FACET_MAX: usize = 30;
/// Largest number of suggestions.
const SUGGESTED_MAX: u64 = 50;
/// Largest number of hits that are read to check their visibility.
const READ_MAX: usize = 1_000;

/// Number of limited principals whose names are cached.
const PRINCIPALS_MAX: usize = 4;
/// Bytes of cached names: those of all vertices, and those that one limited principal sees.
const NAMES_BYTES: usize = 512 << 20;
const PRINCIPAL_NAMES_BYTES: usize = 64 << 20;

/// Cached names per principal, the most recently used last.
#[derive(Default)]
pub(super) struct NameCache(Mutex<Vec<CachedNames>>);

struct CachedNames {
    /// Principal of the names; `None` sees everything.
    principal: Option<Principal>,
    /// Shares that were open to the principal.
    shares: OpenShares,
    names: Arc<Names>,
    at: Instant,
    took: Duration,
}

impl NameCache {
    /// Returns names that are fresh enough and that the principal may see, so that hidden vertices are neither found nor counted. The
    /// first request, and one that finds them too old, waits while they are read; other requests use the cached ones.
    fn names(&self, request: &ApiRequest<'_>) -> Result<Arc<Names>> {
        let (service, call_state) = (request.service, request.call_state);
        let principal = Principal::limited(request.principal());
        let newest = service.database.stats()?.newest;
        let shares = service.database.on_behalf_of(principal).open_shares()?;
        let changed =
            |read: &CachedNames| service.cluster.is_some() || read.names.newest() != newest;
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = kept
                .iter()
                .position(|read| read.principal.as_ref() == principal)
            {
                let read = kept.remove(place);
                let old = read.at.elapsed() > FRESH.max(read.took * WORTH);
                let fresh = read.shares == shares && (!old || !changed(&read));
                let fresh = fresh.then(|| Arc::clone(&read.names));
                kept.push(read);
                if let Some(names) = fresh {
                    return Ok(names);
                }
            }
        }
        let begun = Instant::now();
        let bytes = match principal {
            None => NAMES_BYTES,
            Some(_) => PRINCIPAL_NAMES_BYTES,
        };
        let graph = service.graph_as(principal);
        let names = Arc::new(Names::read(&*graph, newest, bytes, call_state)?);
        if !call_state.cancelled() {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|read| read.principal.as_ref() != principal);
            kept.push(CachedNames {
                principal: principal.cloned(),
                shares,
                names: Arc::clone(&names),
                at: Instant::now(),
                took: begun.elapsed(),
            });
            let others = kept.iter().filter(|read| read.principal.is_some()).count();
            if others > PRINCIPALS_MAX
                && let Some(oldest) = kept.iter().position(|read| read.principal.is_some())
            {
                kept.remove(oldest);
            }
        }
        Ok(names)
    }
}

/// Kind of a vertex as shown in results.
fn kind_of(schema: &Schema, vertex: &Vertex) -> &'static str {
    let is = |name: &str| {
        schema
            .vertex_type_id(name)
            .is_ok_and(|wanted| is_of(schema, vertex.type_id, wanted))
    };
    if is("User") {
        "user"
    } else if is("Execution") {
        "run"
    } else if vertex.key.starts_with('/') {
        "path"
    } else {
        "vertex"
    }
}

fn suggestion(schema: &Schema, vertex: &Vertex) -> Json {
    let described = label::of(vertex.id, Some(vertex), schema);
    let detail = if vertex.key.contains('/') {
        label::directory(&vertex.key).to_owned()
    } else {
        described.detail
    };
    json!({
        "kind": kind_of(schema, vertex), "name": described.name, "label": described.label, "detail": detail, "type": described.type_name,
    })
}

/// Looks up the vertex with exactly this name.
fn exact(request: &ApiRequest<'_>, schema: &Schema, text: &str) -> Result<Option<Vertex>> {
    let text = text.trim();
    let name = if text.starts_with('/') {
        format!("file:{text}")
    } else {
        text.to_owned()
    };
    let Ok(name) = VertexName::parse(&name) else {
        return Ok(None);
    };
    let found = request.resolve(schema, std::slice::from_ref(&name));
    let Ok([vertex]) = found.as_deref() else {
        return Ok(None);
    };
    let read = request.graph().read_vertices(&[vertex.id], Version::MAX)?;
    Ok(read.into_iter().next().flatten())
}

/// Reads the vertices of hits that the principal may see and that still exist.
fn read(
    request: &ApiRequest<'_>,
    names: &Names,
    hits: &[Hit],
    most: usize,
) -> Result<Vec<Vertex>, ApiError> {
    let graph = request.graph();
    let mut out = Vec::new();
    for chunk in hits.chunks(most.clamp(16, READ_MAX)) {
        let ids: Vec<VertexId> = chunk.iter().map(|h| names.vertex(*h).0).collect();
        let found = graph.read_vertices(&ids, Version::MAX)?;
        out.extend(found.into_iter().flatten().filter(|v| !v.deleted));
        if out.len() >= most || request.call_state.cancelled() {
            break;
        }
    }
    out.truncate(most);
    Ok(out)
}

/// Answers the request `GET /api/v1/suggest`.
pub(in super::super) fn suggest(request: &ApiRequest<'_>) -> Answer {
    let schema = request.service.schema()?;
    let text = request.query.required("q")?;
    let limit = request
        .query
        .number("limit")?
        .unwrap_or(12)
        .clamp(1, SUGGESTED_MAX) as usize;
    let names = request.service.console.names.names(request)?;
    let mut items = Vec::new();
    let found = exact(request, &schema, text)?;
    if let Some(vertex) = &found {
        items.push(suggestion(&schema, vertex));
    }
    let lower = text.trim().to_lowercase();
    let (prefix, words) = match lower.split_once(':') {
        Some((prefix, rest)) => (Some(prefix), rest),
        None => (None, lower.as_str()),
    };
    let wanted = |type_id: VertexTypeId| {
        prefix.is_none_or(|prefix| schema.prefix(type_id).to_lowercase() == prefix)
    };
    let hits = names.find(words, Some(&wanted), request.call_state);
    for vertex in read(request, &names, &hits, limit)? {
        if found.as_ref().is_none_or(|f| f.id != vertex.id) {
            items.push(suggestion(&schema, &vertex));
        }
    }
    let typed = !lower.is_empty() && prefix.is_none();
    if typed {
        for (_, declared) in schema.vertex_types() {
            if declared.name.to_lowercase().starts_with(&lower) {
                items.push(json!({"kind": "type", "name": declared.name, "label": declared.name, "detail": "all of this type",
                                  "type": declared.name}));
            }
        }
        let principal = request.principal.clone();
        let mut tags = request.service.graph_now().tags(principal.as_ref())?;
        tags.retain(|t| !t.predefined && t.name.to_lowercase().contains(&lower));
        tags.sort_by_key(|t| std::cmp::Reverse(t.objects));
        for tag in tags.iter().take(4) {
            items.push(json!({"kind": "tag", "name": tag.name, "label": tag.name, "detail": format!("tag of {} objects", tag.objects),
                              "type": null}));
        }
    }
    items.truncate(limit);
    Ok(json!({"items": items, "stopped": !names.complete()}).to_string())
}

/// Names of vertices that contain a text, with a short description, for completion.
pub(super) fn vertices(request: &ApiRequest<'_>, text: &str, most: usize) -> Vec<(String, String)> {
    let Ok(schema) = request.service.schema() else {
        return Vec::new();
    };
    let Ok(names) = request.service.console.names.names(request) else {
        return Vec::new();
    };
    let lower = text.to_lowercase();
    let (prefix, words) = match lower.split_once(':') {
        Some((prefix, rest)) => (Some(prefix.to_owned()), rest),
        None => (None, lower.as_str()),
    };
    let wanted = |type_id: VertexTypeId| {
        prefix
            .as_ref()
            .is_none_or(|p| schema.prefix(type_id).to_lowercase() == *p)
    };
    let hits = names.find(words, Some(&wanted), request.call_state);
    let found = read(request, &names, &hits, most).unwrap_or_default();
    found
        .iter()
        .map(|v| {
            let described = label::of(v.id, Some(v), &schema);
            (described.name, described.detail)
        })
        .collect()
}

/// Counts by value.
#[derive(Default)]
struct Facet(HashMap<String, u64>);

impl Facet {
    fn add(&mut self, value: &str) {
        if let Some(count) = self.0.get_mut(value) {
            *count += 1;
        } else {
            self.0.insert(value.to_owned(), 1);
        }
    }

    fn into_json(self) -> Json {
        let mut all: Vec<(String, u64)> = self.0.into_iter().collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(FACET_MAX);
        let each = all
            .into_iter()
            .map(|(value, count)| json!({"value": value, "count": count}));
        each.collect()
    }
}

/// Owner of a vertex, by its own attributes.
fn owner(vertex: &Vertex) -> Option<String> {
    ["uid", "owner", "user"]
        .iter()
        .find_map(|name| match vertex.attribute(name) {
            Some(Value::I64(number)) => Some(number.to_string()),
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        })
}

fn row(schema: &Schema, vertex: &Vertex) -> Json {
    let described = label::of(vertex.id, Some(vertex), schema);
    let tags = vertex
        .user
        .iter()
        .map(|a| (a.name.clone(), super::super::json::value_out(&a.value)));
    json!({
        "id": described.name,
        "kind": kind_of(schema, vertex),
        "type": described.type_name,
        "label": described.label,
        "detail": described.detail,
        "user": owner(vertex),
        "begin": label::time(vertex, "start").or_else(|| label::time(vertex, "mtime")).map(esker_console::value::time),
        "size": label::number(vertex, "size"),
        "version": version_out(vertex.version),
        "tags": tags.take(8).collect::<serde_json::Map<_, _>>(),
    })
}

/// Parses a text as a filter if it contains an operator; else it is words.
fn as_filter(text: &str) -> Option<Result<Expr, ApiError>> {
    let operators = ['=', '<', '>', '~'];
    let words = [
        " like ",
        " ilike ",
        " glob ",
        " between ",
        " in (",
        " contains ",
        " exists",
        "exists ",
        " with ",
    ];
    let lower = format!(" {} ", text.to_lowercase());
    let meant = text.contains(operators) || words.iter().any(|w| lower.contains(w));
    meant.then(|| filter(text))
}

/// Answers the request `GET /api/v1/search`.
pub(in super::super) fn search(request: &ApiRequest<'_>) -> Answer {
    let begun = Instant::now();
    let schema = request.service.schema()?;
    let text = request.query.get("q").unwrap_or_default();
    let limit = request.query.limit()?.min(READ_MAX);
    let from = request.query.number("skip")?.unwrap_or_default() as usize;
    if let Some(filter) = as_filter(text) {
        return by_filter(request, filter?, (from, limit), begun);
    }
    let names = request.service.console.names.names(request)?;
    let wanted = match request.query.get("type") {
        None | Some("") => None,
        Some(name) => Some(schema.vertex_type_id(name)?),
    };
    let (prefix, words) = match text.split_once(':') {
        Some((prefix, rest))
            if schema
                .vertex_types()
                .any(|(id, _)| schema.prefix(id) == prefix) =>
        {
            (Some(prefix), rest)
        }
        _ => (None, text),
    };
    let of_type = |type_id: VertexTypeId| {
        wanted.is_none_or(|wanted| is_of(&schema, type_id, wanted))
            && prefix.is_none_or(|prefix| schema.prefix(type_id) == prefix)
    };
    let narrowed = wanted.is_some() || prefix.is_some() || !words.trim().is_empty();
    let of_type: Option<&dyn Fn(VertexTypeId) -> bool> =
        if narrowed { Some(&of_type) } else { None };
    let mut hits = names.find(words, of_type, request.call_state);
    if let Some(ending) = request.query.get("ending").filter(|e| !e.is_empty()) {
        hits.retain(|hit| names.ending(*hit) == Some(ending));
    }
    let (mut types, mut endings) = (Facet::default(), Facet::default());
    for hit in hits.iter().take(COUNTED_MAX) {
        let declared = schema.vertex_type(names.vertex(*hit).1);
        types.add(declared.map_or("?", |t| t.name.as_str()));
        if let Some(ending) = names.ending(*hit) {
            endings.add(ending);
        }
    }
    let matches = hits.len();
    let user = request.query.get("user").filter(|u| !u.is_empty());
    let rest = hits.get(from..).unwrap_or_default();
    let mut vertices = read(
        request,
        &names,
        rest,
        if user.is_some() { READ_MAX } else { limit },
    )?;
    let read_to = from + vertices.len().min(rest.len());
    let mut users = Facet::default();
    for vertex in &vertices {
        if let Some(user) = owner(vertex) {
            users.add(&user);
        }
    }
    if let Some(user) = user {
        vertices.retain(|v| owner(v).as_deref() == Some(user));
        vertices.truncate(limit);
    }
    let mut items: Vec<Json> = Vec::new();
    // An exact name comes first, even one that is not in the cached names yet.
    let whole = exact(request, &schema, text)?.filter(|_| from == 0 && user.is_none());
    if let Some(vertex) = whole
        .as_ref()
        .filter(|v| of_type.is_none_or(|of| of(v.type_id)))
    {
        items.push(row(&schema, vertex));
    }
    for vertex in &vertices {
        if whole.as_ref().is_none_or(|w| w.id != vertex.id) {
            items.push(row(&schema, vertex));
        }
    }
    let facets = BTreeMap::from([
        ("type", types.into_json()),
        ("ending", endings.into_json()),
        ("user", users.into_json()),
    ]);
    json_text(&json!({
        "how": "words",
        "items": items,
        "matches": matches.max(items.len()),
        "facets": facets,
        "skip": (read_to < matches && user.is_none()).then_some(read_to),
        "stopped": (!names.complete()).then(|| json!({"reason": "limit", "looked_at": names.len()})),
        "micros": u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
    }))
}

/// Searches for objects that match a filter.
fn by_filter(
    request: &ApiRequest<'_>,
    filter: Expr,
    (from, limit): (usize, usize),
    begun: Instant,
) -> Answer {
    filter.check_kinds_of_objects(&*request.service.schema()?)?;
    let find = Find {
        filter,
        select: None,
        limit: None,
        count: false,
        explain: false,
        principal: request.principal.clone(),
        share: None,
        after: None,
    };
    let (mut items, mut seen) = (Vec::new(), 0_usize);
    let (mut apps, mut owners) = (Facet::default(), Facet::default());
    let report = request
        .service
        .graph_now()
        .find(&find, request.call_state, &mut |found| {
            seen += 1;
            let text = |name: &str| match found.attributes.get(name) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::I64(number)) => Some(number.to_string()),
                _ => None,
            };
            if let Some(app) = text("app").filter(|a| !a.is_empty()) {
                apps.add(&app);
            }
            if let Some(owner) = text("owner") {
                owners.add(&owner);
            }
            if seen > from && items.len() < limit {
                let detail = [text("app"), text("step").map(|s| format!("step {s}"))];
                let detail: Vec<String> = detail
                    .into_iter()
                    .flatten()
                    .filter(|t| !t.is_empty())
                    .collect();
                items.push(json!({
                    "id": format!("object:{}", found.id.0),
                    "kind": "object",
                    "type": "Object",
                    "label": text("name"),
                    "detail": detail.join(" · "),
                    "user": text("owner"),
                    "begin": version_out(found.created),
                    "size": null,
                    "version": version_out(found.modified),
                    "tags": properties_out(&found.tags),
                }));
            }
            if seen >= COUNTED_MAX {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
    let next = from + items.len();
    json_text(&json!({
        "how": "filter",
        "items": items,
        "matches": report.matches.max(seen as u64),
        "facets": {"app": apps.into_json(), "user": owners.into_json()},
        "skip": (next < seen).then_some(next),
        "stopped": (!report.complete).then(|| json!({"reason": "limit", "looked_at": seen})),
        "micros": u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
    }))
}
