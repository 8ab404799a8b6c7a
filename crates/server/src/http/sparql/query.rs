//! SPARQL queries.

use super::parameters::Parameters;
use super::plain::text_response;
use super::response_writer::ResponseWriter;
use super::{
    SparqlRequest, SparqlResult, accept, bad, engine_error, error_response, graphs_of, stop,
};
use crate::call::CallState;
use crate::service::Service;
use esker::rdf::engine::{
    self, Answer, Format, Graphs, Options, PlanNode, Query, RdfFormat, query_parsed, syntax,
};
use esker::rdf::now_and_seed;
use esker_model::object::Principal;
use http::StatusCode;
use std::io::{self, Write as _};
use std::time::Instant;

/// A query with its options.
struct QueryOptions {
    text: String,
    graphs: Option<Graphs>,
    accept: Vec<String>,
    /// Whether to return only the plan.
    explain: bool,
    /// Whether to return a profile instead of the result.
    profile: bool,
    /// Principal on whose behalf the metadata graph is read.
    principal: Option<Principal>,
    /// Whether the client set a timeout.
    timed: bool,
}

pub(super) async fn query(
    request: &SparqlRequest,
    text: String,
    parameters: &Parameters,
) -> SparqlResult {
    let timeout = SparqlRequest::timeout(parameters)?;
    if let Some(requester) = &request.requester {
        requester.note.query(&text);
    }
    let how = QueryOptions {
        text,
        graphs: graphs_of(parameters, "default-graph-uri", "named-graph-uri")?,
        accept: request.accept(),
        explain: parameters.flag("explain").map_err(bad)?,
        profile: parameters.flag("profile").map_err(bad)?,
        principal: request.principal(parameters)?,
        timed: timeout.is_some(),
    };
    request
        .run_on_thread(timeout, move |service, call_state, out| {
            answer(service, call_state, &how, out);
        })
        .await
}

/// Kind of result and its format.
enum Shape {
    Plan { json: bool },
    Rows(accept::ChosenFormat<Format>),
    Graph(accept::ChosenFormat<RdfFormat>),
}

fn shape(query: &Query, how: &QueryOptions) -> Result<Shape, String> {
    let accept = &how.accept;
    match query {
        _ if how.explain || how.profile => Ok(Shape::Plan {
            json: accept::names_json(accept),
        }),
        Query::Select { .. } | Query::Ask { .. } => accept::solutions(accept).map(Shape::Rows),
        Query::Construct { .. } | Query::Describe { .. } => {
            accept::graphs(accept).map(Shape::Graph)
        }
    }
}

fn answer(service: &Service, call_state: &CallState, how: &QueryOptions, mut out: ResponseWriter) {
    let query = match syntax::query(&how.text, None) {
        Ok(query) => query,
        Err(e) => {
            // An update sent as a query is a common mistake.
            return out.replace_with(if syntax::update(&how.text, None).is_ok() {
                bad("this is an update, not a query: send it as `update`, or as application/sparql-update")
            } else {
                engine_error(&e, call_state, how.timed)
            });
        }
    };
    let shape = match shape(&query, how) {
        Ok(shape) => shape,
        Err(message) => {
            return out.replace_with(text_response(StatusCode::NOT_ACCEPTABLE, &message));
        }
    };
    let graphs = how.graphs.as_ref();
    let database = service.database.on_behalf_of(how.principal.as_ref());
    let stop = || stop(call_state);
    let data = match database.rdf_snapshot_for(&how.text, &query, graphs, &stop) {
        Ok(data) => data,
        Err(esker_model::Error::Interrupted) => {
            let e = engine::Error::Stopped("time-out");
            return out.replace_with(engine_error(&e, call_state, how.timed));
        }
        Err(e) => return out.replace_with(error_response(&e)),
    };
    let (now, moment) = now_and_seed();
    let own = service.database.rdf_opened().map_or(0, |live| live.seed());
    let mut options = Options::new(now, moment ^ own);
    options.memory = call_state.memory_within(service.settings.sparql.memory_bytes);
    let part = service.sparql_memory.reserve();
    let most = service.settings.sparql.memory_all_bytes;
    let grows = |bytes: usize| part.grow(bytes, most);
    options.on_growth = &grows;
    options.stop = &stop;
    options.explain_only = how.explain;
    let began = Instant::now();
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    options.clock = Some(&clock);
    let services = &service.settings.sparql.services;
    let remote =
        |endpoint: &str, text: &str| services.query_endpoint(endpoint, text, &|| stop().is_some());
    if !services.is_empty() {
        options.remote = Some(&remote);
    }
    // Concurrent queries share the processors.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    options.threads = (cores / service.sparql_clients.busy()).max(1);
    let found = query_parsed(&data, &how.text, &query, graphs, how.profile, &options);
    let found = match found {
        Ok(found) => found,
        Err(e) => return out.replace_with(engine_error(&e, call_state, how.timed)),
    };
    match shape.write(&found, &mut out) {
        Ok(()) => out.finish(),
        Err(e) if stop().is_some() => {
            tracing::debug!(error = %e, "the client did not read the whole answer to a query");
            out.replace_with(engine_error(
                &engine::Error::Stopped("time-out"),
                call_state,
                how.timed,
            ));
        }
        Err(e) => {
            tracing::debug!(error = %e, "an answer to a query could not be written");
            out.abort();
        }
    }
}

impl Shape {
    fn write(&self, found: &Answer<'_>, out: &mut ResponseWriter) -> io::Result<()> {
        match (self, found.plan()) {
            (Self::Plan { json: true }, Some(plan)) => {
                out.content_type("application/json");
                writeln!(out, "{}", plan.json())
            }
            (Self::Plan { .. }, plan) => {
                let lines = plan.map_or_else(Vec::new, PlanNode::lines);
                lines.iter().try_for_each(|line| writeln!(out, "{line}"))
            }
            (Self::Rows((format, content_type)), _) => {
                out.content_type(content_type);
                found.write(*format, out)
            }
            (Self::Graph((format, content_type)), _) => {
                out.content_type(content_type);
                found.write_graph(*format, out)
            }
        }
    }
}
