//! The router of all that is not gRPC, and the list that it is made from: what is not listed is not routed, and nothing is listed without saying
//! who may ask it.

use super::table::{self, Endpoint, Verb};
use super::{answer, console, incoming, prove, sparql, status};
use crate::access::table::{ADMIN, Listed, Needs, READ, WRITE};
use crate::service::Service;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{HeaderName, HeaderValue, Request, Response, header};
use sparql::Door;
use std::sync::Arc;

/// What answers a request that is none of the API's.
#[derive(Debug, Clone, Copy)]
enum Handler {
    Health,
    Ready,
    Metrics,
    Prove,
    Page,
    Icon,
    Part,
    Ticket,
    Look,
    Enter,
    Leave,
    Sessions,
    EndSession,
    Events,
    Site,
    Rdf(Door),
}

impl Handler {
    /// Whether it answers as one user's, or says nothing of the data.
    fn is_per_user(self) -> bool {
        !matches!(
            self,
            Self::Metrics | Self::Site | Self::Sessions | Self::EndSession
        )
    }
}

const SPARQL: Handler = Handler::Rdf(Door::Sparql);
const GRAPHS: Handler = Handler::Rdf(Door::Graphs);
const KEEP: Handler = Handler::Rdf(Door::Keep);

/// What is beside the API: method, path, who may, what answers. GET is HEAD as well.
const OTHERS: [(Verb, &str, Needs, Handler); 39] = [
    (Verb::Get, "/healthz", Needs::Nothing, Handler::Health),
    (Verb::Get, "/readyz", Needs::Nothing, Handler::Ready),
    (Verb::Get, "/metrics", READ, Handler::Metrics),
    (Verb::Post, "/api/v1/prove", Needs::Nothing, Handler::Prove),
    // The pages say nothing of the data.
    (Verb::Get, "/", Needs::Nothing, Handler::Page),
    (Verb::Get, "/favicon.svg", Needs::Nothing, Handler::Icon),
    (Verb::Get, "/assets/{*name}", Needs::Nothing, Handler::Part),
    (Verb::Post, "/api/v1/session/ticket", READ, Handler::Ticket),
    // What a session is for is said by who asks.
    (Verb::Get, "/api/v1/session", Needs::Nothing, Handler::Look),
    (
        Verb::Post,
        "/api/v1/session",
        Needs::Nothing,
        Handler::Enter,
    ),
    (
        Verb::Delete,
        "/api/v1/session",
        Needs::Nothing,
        Handler::Leave,
    ),
    (Verb::Get, "/api/v1/sessions", ADMIN, Handler::Sessions),
    (
        Verb::Delete,
        "/api/v1/sessions/{id}",
        ADMIN,
        Handler::EndSession,
    ),
    (Verb::Get, "/api/v1/events", READ, Handler::Events),
    (Verb::Get, "/api/v1/site", READ, Handler::Site),
    // An update is sent as a query is: who may is seen where it is read (`Asked::may_write`).
    (Verb::Get, "/sparql", READ, SPARQL),
    (Verb::Post, "/sparql", READ, SPARQL),
    (Verb::Options, "/sparql", Needs::Nothing, SPARQL),
    (Verb::Get, "/sparql/", READ, SPARQL),
    (Verb::Post, "/sparql/", READ, SPARQL),
    (Verb::Options, "/sparql/", Needs::Nothing, SPARQL),
    (Verb::Get, "/rdf-graphs", READ, GRAPHS),
    (Verb::Put, "/rdf-graphs", WRITE, GRAPHS),
    (Verb::Post, "/rdf-graphs", WRITE, GRAPHS),
    (Verb::Delete, "/rdf-graphs", WRITE, GRAPHS),
    (Verb::Options, "/rdf-graphs", Needs::Nothing, GRAPHS),
    (Verb::Get, "/rdf-graphs/", READ, GRAPHS),
    (Verb::Put, "/rdf-graphs/", WRITE, GRAPHS),
    (Verb::Post, "/rdf-graphs/", WRITE, GRAPHS),
    (Verb::Delete, "/rdf-graphs/", WRITE, GRAPHS),
    (Verb::Options, "/rdf-graphs/", Needs::Nothing, GRAPHS),
    (Verb::Get, "/rdf-graphs/{*name}", READ, GRAPHS),
    (Verb::Put, "/rdf-graphs/{*name}", WRITE, GRAPHS),
    (Verb::Post, "/rdf-graphs/{*name}", WRITE, GRAPHS),
    (Verb::Delete, "/rdf-graphs/{*name}", WRITE, GRAPHS),
    (Verb::Options, "/rdf-graphs/{*name}", Needs::Nothing, GRAPHS),
    (Verb::Get, "/api/v1/rdf/{what}", READ, KEEP),
    (Verb::Post, "/api/v1/rdf/{what}", WRITE, KEEP),
    (Verb::Options, "/api/v1/rdf/{what}", Needs::Nothing, KEEP),
];

/// All that is not gRPC, and who may ask it.
pub(crate) fn listed() -> impl Iterator<Item = Listed> {
    let others = OTHERS
        .iter()
        .map(|(verb, path, needs, handler)| (*verb, *path, *needs, handler.is_per_user()));
    let api = table::all().map(|e| (e.verb, e.path, e.needs, e.is_per_user()));
    others
        .chain(api)
        .map(|(verb, path, needs, per_user)| Listed {
            method: verb.name(),
            path: path.into(),
            needs,
            per_user,
        })
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
        Verb::Options => MethodFilter::OPTIONS,
    }
}

/// A ticket comes as JSON: pages of other sites cannot send that.
async fn enter(state: State<Arc<Service>>, request: Request<Body>) -> Response<Body> {
    match incoming::is_typed(&request, "application/json") {
        Ok(()) => console::session::enter(state, request).await,
        Err(refused) => refused.response(),
    }
}

fn other(verb: Verb, handler: Handler) -> MethodRouter<Arc<Service>> {
    let filter = filter(verb);
    match handler {
        Handler::Health => on(filter, status::health),
        Handler::Ready => on(filter, status::ready),
        Handler::Metrics => on(filter, status::metrics),
        Handler::Prove => on(filter, prove::answer),
        Handler::Page => on(filter, console::assets::page),
        Handler::Icon => on(filter, console::assets::icon),
        Handler::Part => on(filter, console::assets::part),
        Handler::Ticket => on(filter, console::session::ticket),
        Handler::Look => on(filter, console::session::look),
        Handler::Enter => on(filter, enter),
        Handler::Leave => on(filter, console::session::leave),
        Handler::Sessions => on(filter, console::session::list),
        Handler::EndSession => on(filter, console::session::end),
        Handler::Events => on(filter, console::events::events),
        Handler::Site => on(filter, console::sites::sites),
        Handler::Rdf(door) => on(
            filter,
            move |State(service): State<Arc<Service>>, request: Request<Body>| {
                sparql::enter(service, request, door)
            },
        ),
    }
}

fn api(endpoint: &'static Endpoint) -> MethodRouter<Arc<Service>> {
    let handler = move |State(service): State<Arc<Service>>, request: Request<Body>| async move {
        service.metrics.http.add(1);
        match answer(service, endpoint, request).await {
            Ok(response) | Err(response) => response,
        }
    };
    on(filter(endpoint.verb), handler)
}

/// The router of all that is not gRPC.
pub(crate) fn routes(service: &Arc<Service>) -> Router {
    let mut router = Router::new();
    for (verb, path, _, handler) in OTHERS {
        router = router.route(path, other(verb, handler));
    }
    for endpoint in table::all() {
        router = router.route(endpoint.path, api(endpoint));
    }
    router.with_state(Arc::clone(service))
}

/// Headers of all answers but gRPC's: browsers take them for what they say they are, give them to no page of another origin that has not asked
/// by CORS, and keep none, unless an answer says otherwise.
const GUARDS: [(HeaderName, HeaderValue); 3] = [
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// An answer with what keeps browsers from more than they are to do with it.
pub(crate) fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let kind = headers.get(header::CONTENT_TYPE);
    if kind.is_some_and(|k| k.as_bytes().starts_with(b"application/grpc")) {
        return response;
    }
    for (name, value) in GUARDS {
        headers.entry(name).or_insert(value);
    }
    response
}
