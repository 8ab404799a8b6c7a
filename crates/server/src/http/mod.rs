//! HTTP on the same port: health, metrics, the JSON API.
//!
//! [`table`] lists the API's paths, from which the `OpenAPI` document is made. [`routes`](mod@routes) has the other paths and makes the
//! router of both.

mod api;
mod catalogue;
mod change_feed;
mod console;
mod files;
mod find;
mod json;
mod json_body;
mod objects;
mod openapi;
mod openlineage;
mod ops;
mod percent;
mod prove;
mod query;
mod quota;
mod request_body;
mod routes;
pub(crate) mod sparql;
mod status;
mod table;
mod view;
mod write;

use crate::access::needs::READ;
use crate::access::{BoundUser, Requester};
use crate::call::CallState;
use crate::service::Service;
use crate::settings::QuotaKind;
use api::{Answer, ApiRequest};
use axum::body::Body;
pub(crate) use console::session::{Bound, PREFIX as SESSION_PREFIX, Session, Sessions, cookie};
pub(crate) use console::{Console, sample};
use esker_model::filter::FilterParseError;
use esker_model::object::Principal;
use esker_model::traversal;
use esker_model::{Error, ErrorKind, Version};
use esker_rpc::failure::QUOTA;
use esker_rpc::proto;
use esker_rpc::proto::failure::Kind;
use http::{HeaderValue, Request, Response, StatusCode, header};
use query::Query;
pub(crate) use routes::{listed_routes, routes};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use table::{Endpoint, Run};

/// Reasons for refusing a request.
#[derive(Debug)]
enum ApiError {
    /// A status and a message of the HTTP API.
    Status(StatusCode, String),
    /// An error of the engine.
    Engine(Error),
    /// A filter or chain that does not parse: a message that shows the position, and the position as JSON.
    Filter(String, Json),
}

impl ApiError {
    fn bad(message: String) -> Self {
        Self::Status(StatusCode::BAD_REQUEST, message)
    }

    fn missing(message: String) -> Self {
        Self::Status(StatusCode::NOT_FOUND, message)
    }

    fn at_line(self, line: usize) -> Self {
        self.prefixed(&format!("line {line}"))
    }

    /// Adds the name of a key to the message.
    fn in_key(self, key: &str) -> Self {
        self.prefixed(&format!("`{key}`"))
    }

    fn filter(e: &FilterParseError, text: &str) -> Self {
        let at = json!({"byte": e.at, "length": e.len, "line": e.line, "column": e.column});
        let more = json!({"at": at, "suggestion": e.suggestion});
        Self::Filter(e.render(text), more)
    }

    fn chain(e: &traversal::TraversalParseError, text: &str) -> Self {
        let at = json!({"byte": e.at, "length": e.len, "line": e.line, "column": e.column});
        let more = json!({"at": at, "suggestion": e.suggestion});
        Self::Filter(e.render(text), more)
    }

    fn prefixed(self, place: &str) -> Self {
        let (status, message) = match self {
            Self::Status(status, message) => (status, message),
            Self::Filter(message, _) => (StatusCode::BAD_REQUEST, message),
            Self::Engine(e) => (status_of(e.kind()), e.to_string()),
        };
        Self::Status(status, format!("{place}: {message}"))
    }

    fn response(&self) -> Response<Body> {
        match self {
            Self::Status(status, message) => failure(*status, message, None),
            Self::Engine(e) => failure(status_of(e.kind()), &e.to_string(), None),
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
            Self::Status(_, message) | Self::Filter(message, _) => message,
            Self::Engine(_) => "",
        }
    }
}

impl<E: Into<Error>> From<E> for ApiError {
    fn from(e: E) -> Self {
        Self::Engine(e.into())
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

/// Method and path of all endpoints, and whether they change data.
#[cfg(test)]
pub(crate) fn paths() -> Vec<(&'static str, &'static str, bool)> {
    let changes = |run: &Run| matches!(run, Run::Write(_) | Run::Receive);
    let each = |e: &Endpoint| (e.verb.name(), e.path, changes(&e.run));
    table::all().map(each).collect()
}

/// Whether a request is of gRPC, and is to be answered so.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    request.method() == http::Method::POST
        && kind.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"))
}

/// Header of a session's requests and of a cluster's answers: the latest version that the session has seen, a decimal number.
const AT_LEAST: &str = "esker-at-least";

/// Answers a request of a session: not before the version that its header names, and with the version that it has seen then.
async fn answer_session(
    service: Arc<Service>,
    endpoint: &'static Endpoint,
    request: Request<Body>,
) -> Result<Response<Body>, Response<Body>> {
    let Some(cluster) = service.cluster.clone() else {
        return answer(service, endpoint, request).await;
    };
    if let Some(header) = request.headers().get(AT_LEAST) {
        let version = header.to_str().ok().and_then(|text| text.parse().ok());
        let Some(version) = version else {
            let message =
                format!("header `{AT_LEAST}`: expected a version, a decimal number below 2^64");
            return Err(failure(StatusCode::BAD_REQUEST, &message, None));
        };
        cluster.node.observe_client_version(Version(version));
    }
    let mut response = answer(service, endpoint, request).await?;
    let newest = HeaderValue::from(cluster.node.newest().0);
    response.headers_mut().insert(AT_LEAST, newest);
    Ok(response)
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
        .map(|p| openapi::url_name(p))
        .collect();
    let query = Query::parse(request.uri().query(), &known);
    // The router has checked the number of segments.
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
    if let Some((kind, _)) = endpoint.body {
        request_body::is_typed(&request, kind).map_err(|e| e.response())?;
    }
    let bound = bound_of(&request)?;
    let principal =
        principal_of(&bound, query.principal()).map_err(|refused| refused.response())?;
    let requester = request.extensions().get::<Requester>().cloned();
    if let Some(requester) = &requester {
        requester.note.behalf(principal.as_ref());
    }
    let body = request_body::text(&service, request).await?;
    // The bodies of other requests have values.
    if let Some(requester) = &requester
        && endpoint.needs == READ
        && !body.is_empty()
    {
        requester.note.query(&body);
    }
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
        Run::Find => find::find(&service, query, body, (endpoint.body.is_some(), bound)).await,
        Run::Read(run) => {
            let work = move |service: &Service, call_state: &CallState| {
                let answer = run(&ApiRequest {
                    service,
                    call_state,
                    query,
                    body: &body,
                    principal,
                });
                in_time(service, call_state, answer)
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

/// Replaces an answer that took longer than the client's quota allows, and may be incomplete, by an error.
fn in_time(service: &Service, call_state: &CallState, answer: Answer) -> Answer {
    match call_state.over_time() {
        Some(message) => {
            service.metrics.quota_refused(QuotaKind::QueryTime);
            Err(ApiError::Status(StatusCode::SERVICE_UNAVAILABLE, message))
        }
        None => answer,
    }
}

/// Returns the user to whom answers are limited by the rights of the request's sender.
#[expect(
    clippy::result_large_err,
    reason = "the refusal is the response that is sent"
)]
fn bound_of<B>(request: &Request<B>) -> Result<BoundUser, Response<Body>> {
    let bound = request.extensions().get::<BoundUser>().cloned();
    bound.ok_or_else(|| failure(StatusCode::UNAUTHORIZED, "the caller is not known", None))
}

/// Returns the principal of a request from its parameters and its sender's rights.
fn principal_of(
    bound: &BoundUser,
    said: Result<Option<Principal>, ApiError>,
) -> Result<Option<Principal>, ApiError> {
    bound
        .principal(said?)
        .map_err(|why| ApiError::Status(StatusCode::FORBIDDEN, why))
}

/// Converts the failure of a call to a response.
pub(crate) fn failed(e: &proto::Failure) -> Response<Body> {
    let status = match Kind::try_from(e.kind) {
        Ok(Kind::Missing) => StatusCode::NOT_FOUND,
        Ok(Kind::Invalid) if e.code == QUOTA => StatusCode::INSUFFICIENT_STORAGE,
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

/// Response to a request for an unknown path.
pub(crate) fn unknown_path<B>(request: &Request<B>) -> Response<Body> {
    let message = format!(
        "there is nothing at `{}`; the API is described at /api/v1/openapi.json",
        request.uri().path()
    );
    if is_grpc(request) {
        return tonic::Status::unimplemented(message).into_http();
    }
    failure(StatusCode::NOT_FOUND, &message, None)
}

/// Response to a request with a method that its path does not have.
pub(crate) fn wrong_method<B>(request: &Request<B>, allow: &str) -> Response<Body> {
    let message = format!(
        "`{}` does not accept {}; expected {allow}. The API is described at /api/v1/openapi.json",
        request.uri().path(),
        request.method()
    );
    let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, &message, None);
    if let Ok(allow) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

fn json_response(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// An error as a JSON response.
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
