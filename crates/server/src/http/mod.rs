//! HTTP on the same port: health, metrics, the JSON API.
//!
//! [`API`] is the one list of paths: the routes and the `OpenAPI` document are made from it.

mod api;
mod body;
mod files;
mod find;
mod json;
mod objects;
mod openapi;
mod ops;
mod prove;
mod query;
mod sparql;
mod status;
mod write;

use crate::call::Watch;
use crate::service::Service;
use api::{Answer, Asked};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{delete, get, patch, post};
use esker_model::filter::ParseError;
use esker_model::{Error, ErrorKind};
use esker_rpc::proto;
use esker_rpc::proto::failure::Kind;
use http::{HeaderValue, Request, Response, StatusCode, header};
use query::Query;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use write::What;

/// How a path is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

/// One path of the API.
struct Endpoint {
    verb: Verb,
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    parameters: &'static [&'static str],
    /// The body's content type and the name of its schema.
    body: Option<(&'static str, &'static str)>,
    /// The name of the answer's schema.
    answer: &'static str,
    /// The call that it counts as, by its number in `Request`.
    counts_as: usize,
    run: Run,
}

/// What answers a path.
#[derive(Clone, Copy)]
enum Run {
    Read(fn(&Asked<'_>) -> Answer),
    /// A search, asked behind the question mark or in the body.
    Find,
    Write(What),
    Describe,
}

const fn read(
    path: &'static str,
    name: &'static str,
    counts_as: usize,
    parameters: &'static [&'static str],
    answer: &'static str,
    run: Run,
    summary: &'static str,
) -> Endpoint {
    Endpoint {
        verb: Verb::Get,
        path,
        name,
        summary,
        parameters,
        body: None,
        answer,
        counts_as,
        run,
    }
}

const API: [Endpoint; 27] = [
    read(
        "/api/v1/schema",
        "schema",
        2,
        &[],
        "Schema",
        Run::Read(api::schema),
        "All types",
    ),
    read(
        "/api/v1/stats",
        "stats",
        17,
        &[],
        "Stats",
        Run::Read(api::stats),
        "Counts, sizes and cache figures",
    ),
    read(
        "/api/v1/vertex",
        "vertex",
        4,
        &["id", "as_of", "uid", "gids"],
        "Vertex",
        Run::Read(api::vertex),
        "One vertex with its attributes",
    ),
    read(
        "/api/v1/vertices",
        "vertices",
        7,
        &["vertex_type", "after", "limit", "as_of", "uid", "gids"],
        "Vertices",
        Run::Read(api::vertices),
        "Vertices of a type",
    ),
    read(
        "/api/v1/edges",
        "edges",
        6,
        &["id", "type", "limit", "as_of", "uid", "gids"],
        "Edges",
        Run::Read(api::edges),
        "The edges that leave a vertex",
    ),
    read(
        "/api/v1/history",
        "history",
        8,
        &["id", "type", "dst", "from", "until", "uid", "gids"],
        "History",
        Run::Read(api::history),
        "All that happened to a vertex or an edge, newest first",
    ),
    read(
        "/api/v1/lineage",
        "lineage",
        14,
        &["id", "as_of", "depth", "uid", "gids"],
        "Graph",
        Run::Read(api::lineage),
        "How a file came to be: the jobs, inputs, executables and users behind it",
    ),
    read(
        "/api/v1/impact",
        "impact",
        14,
        &["id", "as_of", "depth", "uid", "gids"],
        "Graph",
        Run::Read(api::impact),
        "What was derived from a file",
    ),
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/travel",
        name: "travel",
        summary: "Run a traversal",
        parameters: &["uid", "gids"],
        body: Some(("application/json", "TravelRequest")),
        answer: "Travel",
        counts_as: 14,
        run: Run::Read(api::travel),
    },
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/apply",
        name: "apply",
        summary: "Apply operations, all or none",
        parameters: &["once", "sync"],
        body: Some(("application/x-ndjson", "Operations")),
        answer: "Commit",
        counts_as: 16,
        run: Run::Write(What::Lines),
    },
    read(
        "/api/v1/find",
        "find",
        26,
        &[
            "filter",
            "select",
            "limit",
            "count",
            "explain",
            "uid",
            "gids",
            "rank",
            "of",
            "after_object",
            "format",
        ],
        "Found",
        Run::Find,
        "Search for objects by their attributes and tags",
    ),
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/find",
        name: "findByBody",
        summary: "The same, with what is asked in the body",
        parameters: &[],
        body: Some(("application/json", "FindRequest")),
        answer: "Found",
        counts_as: 26,
        run: Run::Find,
    },
    read(
        "/api/v1/objects/{id}",
        "object",
        25,
        &["object", "uid", "gids"],
        "Object",
        Run::Read(objects::object),
        "One object, by its number",
    ),
    read(
        "/api/v1/objects",
        "objectByIdentity",
        25,
        &["name", "app", "owner", "step", "uid", "gids"],
        "Object",
        Run::Read(objects::by_identity),
        "One object, by its four ID attributes",
    ),
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/objects",
        name: "createObject",
        summary: "Create an object; the answer has its number",
        parameters: &["once", "sync"],
        body: Some(("application/json", "NewObject")),
        answer: "Created",
        counts_as: 16,
        run: Run::Write(What::Create),
    },
    Endpoint {
        verb: Verb::Patch,
        path: "/api/v1/objects/{id}",
        name: "updateObject",
        summary: "Set and remove attributes and tags of an object; setting ID attributes moves it",
        parameters: &["object", "once", "sync"],
        body: Some(("application/json", "Changes")),
        answer: "Commit",
        counts_as: 16,
        run: Run::Write(What::Update),
    },
    Endpoint {
        verb: Verb::Delete,
        path: "/api/v1/objects/{id}",
        name: "deleteObject",
        summary: "Delete an object",
        parameters: &["object", "once", "sync"],
        body: None,
        answer: "Commit",
        counts_as: 16,
        run: Run::Write(What::Delete),
    },
    read(
        "/api/v1/tags",
        "tags",
        27,
        &["uid", "gids"],
        "Tags",
        Run::Read(objects::tags),
        "All names that objects have values under",
    ),
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/tag",
        name: "tag",
        summary: "Set and remove tags of all objects that a filter holds of",
        parameters: &["once", "sync"],
        body: Some(("application/json", "TagRequest")),
        answer: "Tagged",
        counts_as: 28,
        run: Run::Read(objects::tag),
    },
    Endpoint {
        verb: Verb::Post,
        path: "/api/v1/index",
        name: "index",
        summary: "Let searches use an index on a name, or forbid it",
        parameters: &[],
        body: Some(("application/json", "IndexRequest")),
        answer: "Indexed",
        counts_as: 29,
        run: Run::Read(objects::index),
    },
    read(
        "/api/v1/files/stat",
        "statFile",
        32,
        &["path", "follow", "uid", "gids"],
        "File",
        Run::Read(files::stat),
        "One file, by its path",
    ),
    read(
        "/api/v1/files/list",
        "listFiles",
        33,
        &["path", "after_entry", "limit", "uid", "gids"],
        "Entries",
        Run::Read(files::list),
        "What is in a directory",
    ),
    read(
        "/api/v1/files/find",
        "findFiles",
        34,
        &["path", "files_filter", "limit", "uid", "gids"],
        "Files",
        Run::Read(files::find),
        "Files below a path, by what holds of them",
    ),
    read(
        "/api/v1/files/usage",
        "fileUsage",
        37,
        &["path", "levels", "limit", "uid", "gids"],
        "Usages",
        Run::Read(files::usage),
        "What directories hold with all below them",
    ),
    read(
        "/api/v1/files/top",
        "topFiles",
        38,
        &["by", "path_under", "limit", "uid", "gids"],
        "Usages",
        Run::Read(files::top),
        "Where the space is: by directory, owner, group, kind, ending or day of the last change",
    ),
    // Where the stock plug-in jobcomp/elasticsearch of Slurm is told to send: `JobCompLoc`.
    Endpoint {
        verb: Verb::Post,
        path: "/ingest/slurm/_doc",
        name: "ingestSlurmJob",
        summary: "A job that ended, as Slurm's jobcomp/elasticsearch tells of it",
        parameters: &["slurm_cluster"],
        body: Some(("application/json", "SlurmJob")),
        answer: "Commit",
        counts_as: 16,
        run: Run::Write(What::SlurmJob),
    },
    Endpoint {
        verb: Verb::Get,
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "This document",
        parameters: &[],
        body: None,
        answer: "OpenApi",
        counts_as: 0,
        run: Run::Describe,
    },
];

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
enum Refused {
    /// With a status and a message of our own.
    Said(StatusCode, String),
    /// As the engine said it.
    Failed(Error),
    /// A filter that does not parse, shown with the place, and where that is.
    Filter(String, Json),
}

impl Refused {
    fn bad(message: String) -> Self {
        Self::Said(StatusCode::BAD_REQUEST, message)
    }

    fn missing(message: String) -> Self {
        Self::Said(StatusCode::NOT_FOUND, message)
    }

    fn at_line(self, line: usize) -> Self {
        self.below(&format!("line {line}"))
    }

    /// The same, of what a key holds.
    fn within(self, key: &str) -> Self {
        self.below(&format!("`{key}`"))
    }

    fn filter(e: &ParseError, text: &str) -> Self {
        let at = json!({"byte": e.at, "length": e.len, "line": e.line, "column": e.column});
        let more = json!({"at": at, "suggestion": e.suggestion});
        Self::Filter(e.render(text), more)
    }

    fn below(self, place: &str) -> Self {
        let (status, message) = match self {
            Self::Said(status, message) => (status, message),
            Self::Filter(message, _) => (StatusCode::BAD_REQUEST, message),
            Self::Failed(e) => (status_of(e.kind()), e.to_string()),
        };
        Self::Said(status, format!("{place}: {message}"))
    }

    fn response(&self) -> Response<Body> {
        match self {
            Self::Said(status, message) => failure(*status, message, None),
            Self::Failed(e) => failure(status_of(e.kind()), &e.to_string(), None),
            Self::Filter(message, more) => {
                let mut json = more.clone();
                json["error"] = message.as_str().into();
                json["retry_after_ms"] = Json::Null;
                let mut response = json_response(json.to_string());
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response
            }
        }
    }

    #[cfg(test)]
    fn message(&self) -> &str {
        match self {
            Self::Said(_, message) | Self::Filter(message, _) => message,
            Self::Failed(_) => "",
        }
    }
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(e: E) -> Self {
        Self::Failed(e.into())
    }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Missing => StatusCode::NOT_FOUND,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Unavailable | ErrorKind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Storage | ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Method and path of all of the API, and whether it changes anything.
#[cfg(test)]
pub(crate) fn paths() -> Vec<(&'static str, &'static str, bool)> {
    let verb = |verb| match verb {
        Verb::Get => "GET",
        Verb::Post => "POST",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
    };
    let each = |e: &Endpoint| (verb(e.verb), e.path, matches!(e.run, Run::Write(_)));
    API.iter().map(each).collect()
}

/// All that is not gRPC.
pub(crate) fn routes(service: &Arc<Service>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/api/v1/prove", post(prove::answer));
    router = sparql::routes(router);
    for endpoint in &API {
        let handler = move |State(service): State<Arc<Service>>, request: Request<Body>| async move {
            service.metrics.http.add(1);
            match answer(service, endpoint, request).await {
                Ok(response) | Err(response) => response,
            }
        };
        let method = match endpoint.verb {
            Verb::Get => get(handler),
            Verb::Post => post(handler),
            Verb::Patch => patch(handler),
            Verb::Delete => delete(handler),
        };
        router = router.route(endpoint.path, method);
    }
    router
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_verb)
        .with_state(Arc::clone(service))
}

async fn answer(
    service: Arc<Service>,
    endpoint: &'static Endpoint,
    request: Request<Body>,
) -> Result<Response<Body>, Response<Body>> {
    let known: Vec<&str> = endpoint
        .parameters
        .iter()
        .filter(|p| !openapi::in_path(p))
        .map(|p| openapi::shown(p))
        .collect();
    let query = Query::parse(request.uri().query(), &known);
    let query = match endpoint.path.rsplit_once("/{id}") {
        // The router has seen that there is such a part.
        Some(_) => {
            let part = request.uri().path().rsplit('/').next();
            query.and_then(|q| q.with("id", part.unwrap_or_default()))
        }
        None => query,
    };
    let query = query.map_err(|e| e.response())?;
    let limit = service.settings.limits.request_bytes;
    let body = axum::body::to_bytes(request.into_body(), limit)
        .await
        .map_err(|_| {
            let message = format!(
                "the request's body is larger than {limit} bytes, the most that this server takes"
            );
            failure(StatusCode::PAYLOAD_TOO_LARGE, &message, None)
        })?;
    service.metrics.received.add(body.len() as u64);
    let body = String::from_utf8(body.into())
        .map_err(|_| Refused::bad("the request's body is not UTF-8".into()).response())?;
    match endpoint.run {
        Run::Describe => Ok(json_response(openapi::document().to_string())),
        Run::Write(what) => {
            let done = write::write(&service, what, query, body).await;
            done.map(json_response)
        }
        Run::Find => find::find(&service, query, body, endpoint.body.is_some()).await,
        Run::Read(run) => {
            let work = move |service: &Service, watch: &Watch| {
                run(&Asked {
                    service,
                    watch,
                    query,
                    body: &body,
                })
            };
            let answered = service.work(endpoint.counts_as, work).await;
            match answered {
                Ok(Ok(text)) => Ok(json_response(text)),
                Ok(Err(refused)) => Err(refused.response()),
                Err(turned_away) => Err(failed(&turned_away)),
            }
        }
    }
}

/// A failure of a call as a response.
fn failed(e: &proto::Failure) -> Response<Body> {
    let status = match Kind::try_from(e.kind) {
        Ok(Kind::Missing) => StatusCode::NOT_FOUND,
        Ok(Kind::Invalid) => StatusCode::BAD_REQUEST,
        Ok(Kind::Storage | Kind::Corrupt) => StatusCode::INTERNAL_SERVER_ERROR,
        Ok(Kind::Busy) => StatusCode::TOO_MANY_REQUESTS,
        Ok(Kind::Unavailable | Kind::Interrupted | Kind::Unspecified) | Err(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let retry = (e.retry_after_ms > 0).then_some(e.retry_after_ms);
    failure(status, &e.message, retry)
}

async fn nothing(uri: http::Uri) -> Response<Body> {
    let message = format!(
        "there is nothing at `{}`; the API is described at /api/v1/openapi.json",
        uri.path()
    );
    failure(StatusCode::NOT_FOUND, &message, None)
}

async fn wrong_verb(request: Request<Body>) -> Response<Body> {
    let message = format!(
        "`{}` is not asked with {}; the API is described at /api/v1/openapi.json",
        request.uri().path(),
        request.method()
    );
    failure(StatusCode::METHOD_NOT_ALLOWED, &message, None)
}

fn json_response(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// An error as JSON.
pub(crate) fn failure(
    status: StatusCode,
    message: &str,
    retry_after_ms: Option<u32>,
) -> Response<Body> {
    let text = json!({"error": message, "retry_after_ms": retry_after_ms}).to_string();
    let mut response = json_response(text);
    *response.status_mut() = status;
    if let Some(millis) = retry_after_ms {
        response.headers_mut().insert(
            header::RETRY_AFTER,
            HeaderValue::from(u64::from(millis).div_ceil(1_000)),
        );
    }
    response
}
