//! SPARQL over HTTP: the SPARQL 1.1 Protocol at `/sparql`, the Graph Store Protocol at `/rdf-graphs`, and the requests of `esker rdf` at
//! `/api/v1/rdf/…`.
//!
//! No data is accessed on network threads: queries and loads run on threads with large stacks (`Service::sparql`), updates on a thread of
//! [`esker::rdf::Live`].

#![allow(
    clippy::result_large_err,
    reason = "what ends a request early is its response, made once"
)]

mod accept;
mod body;
mod cors;
pub(crate) mod form;
mod graphs;
mod manage;
mod parameters;
mod plain;
mod query;
mod response_writer;
mod service_description;
mod update;

use super::{failed, status_of};
use crate::access::needs::Needs;
use crate::access::{BoundUser, Requester};
use crate::call::CallState;
use crate::service::{ClientSlot, InFlight, Service};
use crate::settings::QuotaKind;
use axum::body::Body;
use cors::Origin;
use esker::rdf::engine;
use esker_access::Role;
use esker_model::namespace::Errno;
use esker_model::object::Principal;
use esker_model::traversal::StopReason;
use esker_model::{Cancel as _, Error};
use esker_rpc::failure::busy;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use parameters::Parameters;
use plain::text_response;
use response_writer::ResponseWriter;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The service that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RdfEndpoint {
    Sparql,
    Graphs,
    Manage,
}

impl RdfEndpoint {
    fn methods(self) -> &'static [Method] {
        match self {
            Self::Sparql | Self::Manage => {
                &[Method::GET, Method::HEAD, Method::POST, Method::OPTIONS]
            }
            Self::Graphs => &[
                Method::GET,
                Method::HEAD,
                Method::PUT,
                Method::POST,
                Method::DELETE,
                Method::OPTIONS,
            ],
        }
    }
}

/// A request with the parts that all services need.
struct SparqlRequest {
    service: Arc<Service>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// Parameters of the URL.
    parameters: Parameters,
    origin: Origin,
    /// Host name by which the client addresses this server.
    host: String,
    requester: Option<Requester>,
    /// User to whom answers to the request's sender are limited.
    bound: BoundUser,
}

/// Slots of one request: among its client's requests, and among its client's queries.
type RequestSlots = (ClientSlot, Option<ClientSlot>);

type SparqlResult = Result<Response<Body>, Response<Body>>;

fn bad(message: impl AsRef<str>) -> Response<Body> {
    text_response(StatusCode::BAD_REQUEST, message.as_ref())
}

fn error_response(e: &Error) -> Response<Body> {
    let status = match e {
        Error::File(f) if f.errno == Errno::Access => StatusCode::FORBIDDEN,
        e => status_of(e.kind()),
    };
    text_response(status, &e.to_string())
}

/// Answers a request to one of the services.
pub(super) async fn enter(
    service: Arc<Service>,
    request: Request<Body>,
    endpoint: RdfEndpoint,
) -> Response<Body> {
    service.metrics.http.add(1);
    let bound = match super::bound_of(&request) {
        Ok(bound) => bound,
        Err(refused) => return refused,
    };
    let (head, body) = request.into_parts();
    let host = match head.headers.get(header::HOST) {
        Some(host) => host.to_str().unwrap_or_default().to_owned(),
        None => head
            .uri
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    let origin = Origin::of(&head.headers, &host, &service.settings.sparql);
    if head.method == Method::OPTIONS {
        let mut response = origin.preflight(&head.headers, endpoint.methods());
        origin.add_cors_headers(response.headers_mut());
        return response;
    }
    let mut request = SparqlRequest {
        method: head.method,
        requester: head.extensions.get::<Requester>().cloned(),
        bound,
        uri: head.uri,
        headers: head.headers,
        parameters: Parameters::default(),
        origin,
        host,
        service,
    };
    let answer = match request.check(endpoint) {
        Ok(()) => match endpoint {
            RdfEndpoint::Sparql => request.sparql(body).await,
            RdfEndpoint::Graphs => graphs::answer(&request, body).await,
            RdfEndpoint::Manage => manage::answer(&request, body).await,
        },
        Err(response) => Err(response),
    };
    let (Ok(mut response) | Err(mut response)) = answer;
    request.origin.add_cors_headers(response.headers_mut());
    response
}

impl SparqlRequest {
    fn check(&mut self, endpoint: RdfEndpoint) -> Result<(), Response<Body>> {
        if !endpoint.methods().contains(&self.method) {
            let names: Vec<&str> = endpoint.methods().iter().map(Method::as_str).collect();
            let names = names.join(", ");
            let mut response = text_response(
                StatusCode::METHOD_NOT_ALLOWED,
                &format!(
                    "`{}` does not accept {}; expected {names}",
                    self.uri.path(),
                    self.method
                ),
            );
            if let Ok(names) = HeaderValue::from_str(&names) {
                response.headers_mut().insert(header::ALLOW, names);
            }
            return Err(response);
        }
        if let Some(refusal) = self.service.refusal(0) {
            return Err(failed(&refusal));
        }
        if self.service.cluster.is_some() {
            return Err(text_response(
                StatusCode::NOT_IMPLEMENTED,
                "servers of a cluster have no RDF data: serve a folder of its own with `esker serve`",
            ));
        }
        let query = self.uri.query().unwrap_or_default();
        self.parameters.read(query).map_err(bad)
    }

    /// Answers the path of the protocol: queries, updates, the description of the service.
    async fn sparql(&self, body: Body) -> SparqlResult {
        let mut parameters = self.parameters.clone();
        if self.method != Method::POST {
            if parameters.has("update") {
                return Err(bad("an update is sent by POST"));
            }
            return match parameters.one("query").map_err(bad)? {
                Some(query) => query::query(self, query.to_owned(), &parameters).await,
                None => service_description::service(self),
            };
        }
        let content_type = self.header(header::CONTENT_TYPE);
        let kind = accept::name_of(&content_type);
        if !matches!(
            kind.as_str(),
            "application/x-www-form-urlencoded"
                | "application/sparql-query"
                | "application/sparql-update"
        ) {
            return Err(text_response(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                &format!(
                    "a body of type `{content_type}` is neither a query nor an update; expected application/sparql-query, \
                     application/sparql-update, or application/x-www-form-urlencoded with `query` or `update`"
                ),
            ));
        }
        let text = self.text(body).await?;
        if kind == "application/x-www-form-urlencoded" {
            parameters.read(&text).map_err(bad)?;
            let query = parameters.one("query").map_err(bad)?.map(str::to_owned);
            let update = parameters.one("update").map_err(bad)?.map(str::to_owned);
            match (query, update) {
                (Some(query), None) => query::query(self, query, &parameters).await,
                (None, Some(update)) => update::update(self, update, &parameters).await,
                (Some(_), Some(_)) => {
                    Err(bad("a request is a query or an update; this one has both"))
                }
                (None, None) => Err(bad("the form has neither `query` nor `update`")),
            }
        } else if parameters.has("query") || parameters.has("update") {
            Err(bad(
                "the query or update is the request's body; the URL has another one",
            ))
        } else if kind == "application/sparql-query" {
            query::query(self, text, &parameters).await
        } else {
            update::update(self, text, &parameters).await
        }
    }

    /// Refuses a change if the sender lacks the role `write`, or if a page of its origin may not change data.
    fn may_write(&self) -> Result<(), Response<Body>> {
        self.origin.may_write()?;
        let Some(requester) = &self.requester else {
            return Err(text_response(
                StatusCode::FORBIDDEN,
                "the caller is not known",
            ));
        };
        let needs = Needs::Role(Role::Write);
        let admitted = self.service.access.admit(requester, needs, self.uri.path());
        match admitted {
            Ok(_) => {
                requester.note.writes();
                Ok(())
            }
            Err(denied) => Err(text_response(StatusCode::FORBIDDEN, &denied.message)),
        }
    }

    /// Principal of the request with these parameters.
    fn principal(&self, parameters: &Parameters) -> Result<Option<Principal>, Response<Body>> {
        let principal = self.bound.principal(parameters.principal().map_err(bad)?);
        let principal = principal.map_err(|why| text_response(StatusCode::FORBIDDEN, &why))?;
        if let Some(requester) = &self.requester {
            requester.note.behalf(principal.as_ref());
        }
        Ok(principal)
    }

    fn header(&self, name: header::HeaderName) -> String {
        let value = self.headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// Reads a body as text.
    async fn text(&self, body: Body) -> Result<String, Response<Body>> {
        let content_type = self.header(header::CONTENT_TYPE);
        let charset = content_type
            .split(';')
            .skip(1)
            .filter_map(|p| p.trim().split_once('='))
            .find(|(name, _)| name.eq_ignore_ascii_case("charset"));
        if let Some((_, charset)) = charset
            && !charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
        {
            return Err(text_response(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                &format!("the charset is UTF-8, not `{charset}`"),
            ));
        }
        let limit = self.service.settings.limits.request_bytes;
        let bytes = axum::body::to_bytes(body, limit).await.map_err(|_| {
            text_response(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("the request's body is larger than {limit} bytes, the most that this server takes, or arrived incomplete"),
            )
        })?;
        self.service.metrics.received.add(bytes.len() as u64);
        String::from_utf8(bytes.into()).map_err(|_| bad("the request's body is not UTF-8"))
    }

    /// Formats that the client accepts.
    fn accept(&self) -> Vec<String> {
        let all = self.headers.get_all(header::ACCEPT).iter();
        let accept: Vec<String> = all
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        // Some clients can only set a parameter.
        match self.parameters.one("format") {
            Ok(Some(format)) if accept.iter().all(|a| a.trim() == "*/*") => {
                vec![format!("{format}, */*;q=0.1")]
            }
            _ => accept,
        }
    }

    /// Counts one more request of this client; an error if it has too many in progress.
    fn acquire_slot(&self) -> Result<RequestSlots, Response<Body>> {
        let query = self.service.count_query().map_err(|e| failed(&e))?;
        let most = self.service.settings.sparql.each;
        let client = match &self.requester {
            Some(requester) => requester.client(&self.service.access),
            None => "nobody".into(),
        };
        let slot = self.service.sparql_clients.acquire(&client, most);
        let slot = slot.ok_or_else(|| {
            failed(&busy(
                format!(
                    "{most} requests of this client are in progress, the maximum (sparql.each); try again in 100 ms"
                ),
                100,
            ))
        })?;
        Ok((slot, query))
    }

    /// Timeout in the client's parameters.
    fn timeout(parameters: &Parameters) -> Result<Option<Duration>, Response<Body>> {
        let Some(text) = parameters.one("timeout").map_err(bad)? else {
            return Ok(None);
        };
        let seconds = match text.strip_suffix("ms") {
            Some(millis) => millis.parse::<f64>().map(|n| n / 1_000.0),
            None => text.strip_suffix('s').unwrap_or(text).parse::<f64>(),
        };
        match seconds {
            Ok(n) if n > 0.0 && n < 1e9 => Ok(Some(Duration::from_secs_f64(n))),
            _ => Err(bad(format!(
                "parameter `timeout`: expected seconds, as in 10, 10s or 500ms; got `{text}`"
            ))),
        }
    }

    /// Runs a job like [`Self::run_on_thread`], but without the server's time limit, because it moves all data.
    async fn run_unlimited(
        &self,
        timeout: Option<Duration>,
        work: impl FnOnce(&Arc<Service>, &Arc<CallState>, ResponseWriter) + Send + 'static,
    ) -> SparqlResult {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        self.run_until(deadline, work).await
    }

    /// Runs a job on the threads for queries; the job sends the response. If the client goes away, the job is cancelled.
    async fn run_on_thread(
        &self,
        timeout: Option<Duration>,
        work: impl FnOnce(&Arc<Service>, &Arc<CallState>, ResponseWriter) + Send + 'static,
    ) -> SparqlResult {
        let timeout = Service::query_time(timeout);
        self.run_until(self.service.deadline(timeout), work).await
    }

    async fn run_until(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce(&Arc<Service>, &Arc<CallState>, ResponseWriter) + Send + 'static,
    ) -> SparqlResult {
        let turn = self.acquire_slot()?;
        let service = Arc::clone(&self.service);
        let call_state = CallState::new(deadline, Arc::clone(&service.cut));
        let mut guard = CancelOnDrop(Some(Arc::clone(&call_state)));
        let (tell, told) = oneshot::channel();
        let under_way = InFlight::new(&service.metrics);
        let out = ResponseWriter::new(tell, Arc::clone(&call_state), turn);
        let job = Box::new(move || {
            work(&service, &call_state, out);
            drop(service);
            drop(under_way);
        });
        if let Err(full) = self.service.sparql.submit(job) {
            self.service.metrics.shed.add(1);
            return Err(failed(&full.failure()));
        }
        let answer = told.await.map_err(|_| {
            text_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server could not finish this request; its log says more",
            )
        });
        guard.0 = None;
        answer
    }
}

/// Cancels a job when the task that waits for its answer is dropped.
struct CancelOnDrop(Option<Arc<CallState>>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(call_state) = &self.0 {
            call_state.abandon();
        }
    }
}

/// Reason to stop, for the engine's checks.
fn stop(call_state: &CallState) -> Option<&'static str> {
    call_state.cancelled().then(|| match call_state.reason() {
        StopReason::TimeOut => "time-out",
        _ => "interrupted",
    })
}

/// Response to a request that was stopped; a client's own timeout has another status than the server's limit.
fn stopped(call_state: &CallState, own: bool) -> Response<Body> {
    if let Some(message) = call_state.over_time() {
        return text_response(StatusCode::SERVICE_UNAVAILABLE, &message);
    }
    match (call_state.reason(), own) {
        (StopReason::TimeOut, true) => text_response(
            StatusCode::REQUEST_TIMEOUT,
            "the request was stopped: it took longer than its `timeout`",
        ),
        (StopReason::TimeOut, false) => text_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "the request was stopped: it took longer than this server allows (limits.time)",
        ),
        _ => text_response(StatusCode::SERVICE_UNAVAILABLE, "the request was stopped"),
    }
}

/// Converts an error of the engine to a response.
fn engine_error(e: &engine::Error, call_state: &CallState, own: bool) -> Response<Body> {
    match e {
        engine::Error::Stopped(_) => stopped(call_state, own),
        engine::Error::Memory { limit, .. } | engine::Error::MemoryOfStrings { limit } => {
            let quota = call_state.client().limit(QuotaKind::QueryMemory);
            let quota = quota.filter(|quota| quota.most == *limit as u64);
            bad(quota.map_or_else(
                || e.to_string(),
                |quota| call_state.client().too_large(quota),
            ))
        }
        engine::Error::MemoryOfAll => failed(&busy(format!("{e} (sparql.memory_all)"), 1_000)),
        engine::Error::Corrupt(_) | engine::Error::Full => {
            text_response(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string())
        }
        _ => bad(e.to_string()),
    }
}

/// Graphs that a request names in parameters.
fn graphs_of(
    parameters: &Parameters,
    default: &str,
    named: &str,
) -> Result<Option<engine::Graphs>, Response<Body>> {
    let graphs = engine::Graphs {
        default: parameters.all(default),
        named: parameters.all(named),
    };
    for iri in graphs.default.iter().chain(&graphs.named) {
        engine::check_iri(iri)
            .map_err(|e| bad(format!("`{iri}` is not an IRI of a graph: {e}")))?;
    }
    let any = !graphs.default.is_empty() || !graphs.named.is_empty();
    Ok(any.then_some(graphs))
}
