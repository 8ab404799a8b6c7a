//! HTTP on the same port: health, metrics, the JSON API.
//!
//! [`table`] is the one list of paths: the routes and the `OpenAPI` document are made from it.

mod api;
mod body;
mod console;
mod files;
mod find;
mod incoming;
mod json;
mod news;
mod objects;
mod openapi;
mod openlineage;
mod ops;
mod prove;
mod query;
mod sparql;
mod status;
mod table;
mod view;
mod write;

use crate::call::Watch;
use crate::service::Service;
use api::Asked;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{delete, get, patch, post};
pub(crate) use console::session::{Sessions, Somebody, cookie};
pub(crate) use console::{Console, sample};
use esker_model::filter::ParseError;
use esker_model::traversal;
use esker_model::{Error, ErrorKind};
use esker_rpc::proto;
use esker_rpc::proto::failure::Kind;
use http::{HeaderValue, Request, Response, StatusCode, header};
use query::Query;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use table::{Endpoint, Run, Verb};

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
enum Refused {
    /// With a status and a message of our own.
    Said(StatusCode, String),
    /// As the engine said it.
    Failed(Error),
    /// A filter or a chain that does not parse, shown with the place, and where that is.
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

    fn chain(e: &traversal::ParseError, text: &str) -> Self {
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
    let changes = |run: &Run| matches!(run, Run::Write(_) | Run::Receive);
    let each = |e: &Endpoint| (verb(e.verb), e.path, changes(&e.run));
    table::all().map(each).collect()
}

/// All that is not gRPC.
pub(crate) fn routes(service: &Arc<Service>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .route("/api/v1/prove", post(prove::answer))
        .route("/", get(console::assets::page))
        .route("/favicon.svg", get(console::assets::icon))
        .route("/assets/{*name}", get(console::assets::part))
        .route("/api/v1/session/ticket", post(console::session::ticket))
        .route(
            "/api/v1/session",
            get(console::session::look)
                .post(console::session::enter)
                .delete(console::session::leave),
        )
        .route("/api/v1/events", get(console::events::events))
        .route("/api/v1/site", get(console::sites::sites));
    router = sparql::routes(router);
    for endpoint in table::all() {
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
    // The router has seen that there are as many parts.
    let both = endpoint
        .path
        .split('/')
        .zip(request.uri().path().split('/'));
    let query = both.fold(query, |query, (part, given)| {
        match part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            Some(name) => query.and_then(|q| q.with(name, given)),
            None => query,
        }
    });
    let query = query.map_err(|e| e.response())?;
    let body = incoming::text(&service, request).await?;
    match endpoint.run {
        Run::Describe => Ok(json_response(openapi::document().to_string())),
        Run::Write(what) => {
            let done = write::write(&service, what, query, body).await;
            done.map(json_response)
        }
        Run::Receive => {
            let sync = query.flag("sync").map_err(|e| e.response())?;
            let (status, text) = openlineage::receive(&service, sync, body).await?;
            let mut response = json_response(text);
            *response.status_mut() = status;
            Ok(response)
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
