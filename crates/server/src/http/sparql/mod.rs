//! SPARQL over HTTP: the SPARQL 1.1 Protocol at `/sparql`, the Graph Store Protocol at `/rdf-graphs`, and what
//! `esker rdf` does to a server at `/api/v1/rdf/…`.
//!
//! Nothing here touches data on the threads that move bytes: queries and loads run on threads with large stacks
//! (`Service::sparql`), updates on the one that [`esker::rdf::Live`] has for them.

#![allow(
    clippy::result_large_err,
    reason = "what ends a request early is its response, made once"
)]

mod about;
mod accept;
mod ask;
mod body;
mod change;
mod cors;
pub(crate) mod form;
mod graphs;
mod keep;
mod out;
mod parameters;

use super::{failed, status_of};
use crate::access::table::Needs;
use crate::access::{Asking, BoundUser};
use crate::call::Watch;
use crate::service::{Service, Turn, UnderWay};
use axum::body::Body;
use cors::Origin;
use esker::rdf::engine;
use esker_access::Role;
use esker_model::namespace::Errno;
use esker_model::object::Asker;
use esker_model::traversal::StopReason;
use esker_model::{Cancel as _, Error};
use esker_rpc::failure::busy;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use out::Out;
use parameters::Parameters;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What is behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Sparql,
    Graphs,
    Keep,
}

impl Door {
    fn methods(self) -> &'static [Method] {
        match self {
            Self::Sparql | Self::Keep => {
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

/// A request, looked at as far as all doors do.
struct Asked {
    service: Arc<Service>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// Of the URL.
    parameters: Parameters,
    origin: Origin,
    /// What clients call this server.
    host: String,
    asking: Option<Asking>,
    /// As whom whoever sends it may ask.
    bound: BoundUser,
}

type Answered = Result<Response<Body>, Response<Body>>;

/// A text for people.
fn said(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn bad(message: impl AsRef<str>) -> Response<Body> {
    said(StatusCode::BAD_REQUEST, message.as_ref())
}

fn refused(e: &Error) -> Response<Body> {
    let status = match e {
        Error::File(f) if f.errno == Errno::Access => StatusCode::FORBIDDEN,
        e => status_of(e.kind()),
    };
    said(status, &e.to_string())
}

/// Answers what is asked there.
pub(super) async fn enter(
    service: Arc<Service>,
    request: Request<Body>,
    door: Door,
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
        let mut response = origin.preflight(&head.headers, door.methods());
        origin.sign(response.headers_mut());
        return response;
    }
    let mut asked = Asked {
        method: head.method,
        asking: head.extensions.get::<Asking>().cloned(),
        bound,
        uri: head.uri,
        headers: head.headers,
        parameters: Parameters::default(),
        origin,
        host,
        service,
    };
    let answer = match asked.ready(door) {
        Ok(()) => match door {
            Door::Sparql => asked.sparql(body).await,
            Door::Graphs => graphs::answer(&asked, body).await,
            Door::Keep => keep::answer(&asked, body).await,
        },
        Err(response) => Err(response),
    };
    let (Ok(mut response) | Err(mut response)) = answer;
    asked.origin.sign(response.headers_mut());
    response
}

impl Asked {
    fn ready(&mut self, door: Door) -> Result<(), Response<Body>> {
        if !door.methods().contains(&self.method) {
            let names: Vec<&str> = door.methods().iter().map(Method::as_str).collect();
            let names = names.join(", ");
            let mut response = said(
                StatusCode::METHOD_NOT_ALLOWED,
                &format!(
                    "`{}` is not asked with {}; expected {names}",
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
            return Err(said(
                StatusCode::NOT_IMPLEMENTED,
                "servers of a cluster have no RDF data: serve a folder of its own with `esker serve`",
            ));
        }
        let query = self.uri.query().unwrap_or_default();
        self.parameters.read(query).map_err(bad)
    }

    /// The protocol's one path: queries, updates, the description of the service.
    async fn sparql(&self, body: Body) -> Answered {
        let mut parameters = self.parameters.clone();
        if self.method != Method::POST {
            if parameters.has("update") {
                return Err(bad("an update is sent by POST"));
            }
            return match parameters.one("query").map_err(bad)? {
                Some(query) => ask::query(self, query.to_owned(), &parameters).await,
                None => about::service(self),
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
            return Err(said(
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
                (Some(query), None) => ask::query(self, query, &parameters).await,
                (None, Some(update)) => change::update(self, update, &parameters).await,
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
            ask::query(self, text, &parameters).await
        } else {
            change::update(self, text, &parameters).await
        }
    }

    /// Refuses what changes data to those who may only read, and to pages that may not.
    fn may_write(&self) -> Result<(), Response<Body>> {
        self.origin.may_write()?;
        let Some(asking) = &self.asking else {
            return Err(said(StatusCode::FORBIDDEN, "it is not known who asks"));
        };
        let needs = Needs::Role(Role::Write);
        let admitted = self.service.access.admit(asking, needs, self.uri.path());
        match admitted {
            Ok(_) => Ok(()),
            Err(denied) => Err(said(StatusCode::FORBIDDEN, &denied.words)),
        }
    }

    /// On whose behalf it is answered, with these parameters.
    fn asker(&self, parameters: &Parameters) -> Result<Option<Asker>, Response<Body>> {
        let asker = self.bound.asker(parameters.asker().map_err(bad)?);
        asker.map_err(|why| said(StatusCode::FORBIDDEN, &why))
    }

    fn header(&self, name: header::HeaderName) -> String {
        let value = self.headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// A body that is a text.
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
            return Err(said(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                &format!("the charset is UTF-8, not `{charset}`"),
            ));
        }
        let limit = self.service.settings.limits.request_bytes;
        let bytes = axum::body::to_bytes(body, limit).await.map_err(|_| {
            said(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("the request's body is larger than {limit} bytes, the most that this server takes, or did not arrive whole"),
            )
        })?;
        self.service.metrics.received.add(bytes.len() as u64);
        String::from_utf8(bytes.into()).map_err(|_| bad("the request's body is not UTF-8"))
    }

    /// What the client accepts.
    fn accept(&self) -> Vec<String> {
        let all = self.headers.get_all(header::ACCEPT).iter();
        let accept: Vec<String> = all
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        // Some clients can set a parameter only.
        match self.parameters.one("format") {
            Ok(Some(format)) if accept.iter().all(|a| a.trim() == "*/*") => {
                vec![format!("{format}, */*;q=0.1")]
            }
            _ => accept,
        }
    }

    /// One more of this client's requests, unless it has as many as one may.
    fn turn(&self) -> Result<Turn, Response<Body>> {
        let most = self.service.settings.sparql.each;
        let client = match &self.asking {
            Some(asking) => asking.client(&self.service.access),
            None => "nobody".into(),
        };
        self.service
            .sparql_clients
            .turn(&client, most)
            .ok_or_else(|| {
                failed(&busy(
                    format!(
                        "{most} requests of this client are under way, the most that may (sparql.each); try again in 100 ms"
                    ),
                    100,
                ))
            })
    }

    /// For how long, if the client says so.
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

    /// As [`Self::on_thread`], for what moves all data: it takes as long as it takes.
    async fn move_on_thread(
        &self,
        timeout: Option<Duration>,
        work: impl FnOnce(&Arc<Service>, &Arc<Watch>, Out) + Send + 'static,
    ) -> Answered {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        self.until_on_thread(deadline, work).await
    }

    /// Runs something on the threads for queries, which answers as it likes. Whoever goes away is noticed.
    async fn on_thread(
        &self,
        timeout: Option<Duration>,
        work: impl FnOnce(&Arc<Service>, &Arc<Watch>, Out) + Send + 'static,
    ) -> Answered {
        self.until_on_thread(self.service.deadline(timeout), work)
            .await
    }

    async fn until_on_thread(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce(&Arc<Service>, &Arc<Watch>, Out) + Send + 'static,
    ) -> Answered {
        let turn = self.turn()?;
        let service = Arc::clone(&self.service);
        let watch = Watch::new(deadline, Arc::clone(&service.cut));
        let mut guard = Abandon(Some(Arc::clone(&watch)));
        let (tell, told) = oneshot::channel();
        let under_way = UnderWay::new(&service.metrics);
        let out = Out::new(tell, Arc::clone(&watch), turn);
        let job = Box::new(move || {
            work(&service, &watch, out);
            drop(service);
            drop(under_way);
        });
        if let Err(full) = self.service.sparql.submit(job) {
            self.service.metrics.shed.add(1);
            return Err(failed(&full.failure()));
        }
        let answer = told.await.map_err(|_| {
            said(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server could not finish this request; its log says more",
            )
        });
        guard.0 = None;
        answer
    }
}

/// Who waits for an answer. If it goes away, whoever works on it is told.
struct Abandon(Option<Arc<Watch>>);

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            watch.abandon();
        }
    }
}

/// Whether to stop, and why, as the engine asks.
fn stop(watch: &Watch) -> Option<&'static str> {
    watch.cancelled().then(|| match watch.reason() {
        StopReason::TimeOut => "time-out",
        _ => "interrupted",
    })
}

/// Two kinds of time are over: the client's own, and the server's.
fn stopped(watch: &Watch, own: bool) -> Response<Body> {
    match (watch.reason(), own) {
        (StopReason::TimeOut, true) => said(
            StatusCode::REQUEST_TIMEOUT,
            "the request was stopped: it took longer than its `timeout`",
        ),
        (StopReason::TimeOut, false) => said(
            StatusCode::SERVICE_UNAVAILABLE,
            "the request was stopped: it took longer than this server allows (limits.time)",
        ),
        _ => said(StatusCode::SERVICE_UNAVAILABLE, "the request was stopped"),
    }
}

/// What the engine says, as a response.
fn mistaken(e: &engine::Error, watch: &Watch, own: bool) -> Response<Body> {
    match e {
        engine::Error::Stopped(_) => stopped(watch, own),
        engine::Error::MemoryOfAll => failed(&busy(format!("{e} (sparql.memory_all)"), 1_000)),
        engine::Error::Corrupt(_) | engine::Error::Full => {
            said(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string())
        }
        _ => bad(e.to_string()),
    }
}

/// Graphs that a request names beside its text.
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
        engine::check_iri(iri).map_err(|e| bad(format!("`{iri}` is no IRI of a graph: {e}")))?;
    }
    let any = !graphs.default.is_empty() || !graphs.named.is_empty();
    Ok(any.then_some(graphs))
}
