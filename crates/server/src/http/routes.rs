//! The router of everything but gRPC, and the list from which it is made: a path that is not listed is not routed, and each listed path
//! states the access that it needs.

use super::table::{self, Endpoint, Verb};
use super::{answer_session, catalogue, console, prove, request_body, sparql, status};
use crate::access::needs::{ADMIN, ListedRoute, Needs, READ, WRITE};
use crate::service::Service;
use crate::settings_oidc::CALLBACK;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Request, Response};
use sparql::RdfEndpoint;
use std::sync::Arc;

/// Handlers of requests outside the API.
#[derive(Debug, Clone, Copy)]
enum RouteHandler {
    Health,
    Ready,
    Metrics,
    Prove,
    Page,
    Icon,
    Part,
    Ticket,
    CurrentSession,
    Enter,
    Leave,
    Sessions,
    EndSession,
    OidcProvider,
    OidcLogin,
    OidcCallback,
    Events,
    Site,
    Record,
    Harvest,
    Rdf(RdfEndpoint),
}

impl RouteHandler {
    /// Whether bound clients may use the handler: its answer is limited to one user, or reveals nothing of the data.
    fn is_per_user(self) -> bool {
        !matches!(
            self,
            Self::Metrics | Self::Site | Self::Sessions | Self::EndSession
        )
    }
}

const SPARQL: RouteHandler = RouteHandler::Rdf(RdfEndpoint::Sparql);
const GRAPHS: RouteHandler = RouteHandler::Rdf(RdfEndpoint::Graphs);
const MANAGE: RouteHandler = RouteHandler::Rdf(RdfEndpoint::Manage);

/// Routes besides the API: method, path, needed access, handler. GET includes HEAD.
const NON_API_ROUTES: [(Verb, &str, Needs, RouteHandler); 45] = [
    (Verb::Get, "/healthz", Needs::Nothing, RouteHandler::Health),
    (Verb::Get, "/readyz", Needs::Nothing, RouteHandler::Ready),
    (Verb::Get, "/metrics", READ, RouteHandler::Metrics),
    (
        Verb::Post,
        "/api/v1/prove",
        Needs::Nothing,
        RouteHandler::Prove,
    ),
    // The pages contain no data.
    (Verb::Get, "/", Needs::Nothing, RouteHandler::Page),
    (
        Verb::Get,
        "/favicon.svg",
        Needs::Nothing,
        RouteHandler::Icon,
    ),
    (
        Verb::Get,
        "/assets/{*name}",
        Needs::Nothing,
        RouteHandler::Part,
    ),
    (
        Verb::Post,
        "/api/v1/session/ticket",
        READ,
        RouteHandler::Ticket,
    ),
    // The session in the request determines the answer.
    (
        Verb::Get,
        "/api/v1/session",
        Needs::Nothing,
        RouteHandler::CurrentSession,
    ),
    (
        Verb::Post,
        "/api/v1/session",
        Needs::Nothing,
        RouteHandler::Enter,
    ),
    (
        Verb::Delete,
        "/api/v1/session",
        Needs::Nothing,
        RouteHandler::Leave,
    ),
    (Verb::Get, "/api/v1/sessions", ADMIN, RouteHandler::Sessions),
    (
        Verb::Delete,
        "/api/v1/sessions/{id}",
        ADMIN,
        RouteHandler::EndSession,
    ),
    // A login authenticates its user; the state in the request determines the answer of the callback.
    (
        Verb::Get,
        "/api/v1/oidc",
        Needs::Nothing,
        RouteHandler::OidcProvider,
    ),
    (
        Verb::Get,
        "/api/v1/oidc/login",
        Needs::Nothing,
        RouteHandler::OidcLogin,
    ),
    (
        Verb::Get,
        CALLBACK,
        Needs::Nothing,
        RouteHandler::OidcCallback,
    ),
    (Verb::Get, "/api/v1/events", READ, RouteHandler::Events),
    (Verb::Get, "/api/v1/site", READ, RouteHandler::Site),
    (Verb::Get, "/records/{*name}", READ, RouteHandler::Record),
    // A harvester may send the arguments of a read in the body.
    (Verb::Get, "/oai", READ, RouteHandler::Harvest),
    (Verb::Post, "/oai", READ, RouteHandler::Harvest),
    // Updates are sent like queries, so the right to write is checked after decoding (`Asked::may_write`).
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
    (Verb::Get, "/api/v1/rdf/{what}", READ, MANAGE),
    (Verb::Post, "/api/v1/rdf/{what}", WRITE, MANAGE),
    (Verb::Options, "/api/v1/rdf/{what}", Needs::Nothing, MANAGE),
];

/// All routes but those of gRPC, with the access that they need.
pub(crate) fn listed_routes() -> impl Iterator<Item = ListedRoute> {
    let others = NON_API_ROUTES
        .iter()
        .map(|(verb, path, needs, handler)| (*verb, *path, *needs, handler.is_per_user()));
    let api = table::all().map(|e| (e.verb, e.path, e.needs, e.is_per_user()));
    others
        .chain(api)
        .map(|(verb, path, needs, per_user)| ListedRoute {
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

/// Starts a session. The ticket must be sent as JSON, which pages of other sites cannot send.
async fn enter(state: State<Arc<Service>>, request: Request<Body>) -> Response<Body> {
    match request_body::is_typed(&request, "application/json") {
        Ok(()) => console::session::enter(state, request).await,
        Err(refused) => refused.response(),
    }
}

fn handler_route(verb: Verb, handler: RouteHandler) -> MethodRouter<Arc<Service>> {
    let filter = filter(verb);
    match handler {
        RouteHandler::Health => on(filter, status::health),
        RouteHandler::Ready => on(filter, status::ready),
        RouteHandler::Metrics => on(filter, status::metrics),
        RouteHandler::Prove => on(filter, prove::answer),
        RouteHandler::Page => on(filter, console::assets::page),
        RouteHandler::Icon => on(filter, console::assets::icon),
        RouteHandler::Part => on(filter, console::assets::part),
        RouteHandler::Ticket => on(filter, console::session::ticket),
        RouteHandler::CurrentSession => on(filter, console::session::current),
        RouteHandler::Enter => on(filter, enter),
        RouteHandler::Leave => on(filter, console::session::leave),
        RouteHandler::Sessions => on(filter, console::session::list),
        RouteHandler::EndSession => on(filter, console::session::end),
        RouteHandler::OidcProvider => on(filter, console::oidc::about),
        RouteHandler::OidcLogin => on(filter, console::oidc::begin),
        RouteHandler::OidcCallback => on(filter, console::oidc::finish),
        RouteHandler::Events => on(filter, console::events::events),
        RouteHandler::Site => on(filter, console::sites::sites),
        RouteHandler::Record => on(filter, catalogue::record),
        RouteHandler::Harvest => on(filter, catalogue::harvest),
        RouteHandler::Rdf(endpoint) => on(
            filter,
            move |State(service): State<Arc<Service>>, request: Request<Body>| {
                sparql::enter(service, request, endpoint)
            },
        ),
    }
}

fn api(endpoint: &'static Endpoint) -> MethodRouter<Arc<Service>> {
    let handler = move |State(service): State<Arc<Service>>, request: Request<Body>| async move {
        service.metrics.http.add(1);
        match answer_session(service, endpoint, request).await {
            Ok(response) | Err(response) => response,
        }
    };
    on(filter(endpoint.verb), handler)
}

/// Makes the router of everything but gRPC.
pub(crate) fn routes(service: &Arc<Service>) -> Router {
    let mut router = Router::new();
    for (verb, path, _, handler) in NON_API_ROUTES {
        router = router.route(path, handler_route(verb, handler));
    }
    for endpoint in table::all() {
        router = router.route(endpoint.path, api(endpoint));
    }
    router.with_state(Arc::clone(service))
}
