//! Queries.

use super::out::Out;
use super::parameters::Parameters;
use super::{Answered, Asked, accept, bad, graphs_of, mistaken, refused, said, stop};
use crate::call::Watch;
use crate::service::Service;
use esker::rdf::engine::{self, Format, Graphs, Options, Query, RdfFormat, query_parsed, syntax};
use esker::rdf::moment;
use esker_model::object::Asker;
use http::StatusCode;
use std::io::Write as _;

/// How a query is asked.
struct How {
    text: String,
    graphs: Option<Graphs>,
    accept: Vec<String>,
    /// Only how it would be answered.
    explain: bool,
    /// How it was answered, in the place of the answer.
    profile: bool,
    /// On whose behalf the metadata graph is read.
    asker: Option<Asker>,
    /// The client said how long it may take.
    timed: bool,
}

pub(super) async fn query(asked: &Asked, text: String, parameters: &Parameters) -> Answered {
    let timeout = Asked::timeout(parameters)?;
    let how = How {
        text,
        graphs: graphs_of(parameters, "default-graph-uri", "named-graph-uri")?,
        accept: asked.accept(),
        explain: parameters.flag("explain").map_err(bad)?,
        profile: parameters.flag("profile").map_err(bad)?,
        asker: asked.asker(parameters)?,
        timed: timeout.is_some(),
    };
    asked
        .on_thread(timeout, move |service, watch, out| {
            answer(service, watch, &how, out);
        })
        .await
}

/// In which format, once it is known what the answer is.
enum Shape {
    Rows(accept::Chosen<Format>),
    Graph(accept::Chosen<RdfFormat>),
}

fn shape(query: &Query, accept: &[String]) -> Result<Shape, String> {
    match query {
        Query::Select { .. } | Query::Ask { .. } => accept::solutions(accept).map(Shape::Rows),
        Query::Construct { .. } | Query::Describe { .. } => {
            accept::graphs(accept).map(Shape::Graph)
        }
    }
}

fn answer(service: &Service, watch: &Watch, how: &How, mut out: Out) {
    let query = match syntax::query(&how.text, None) {
        Ok(query) => query,
        Err(e) => {
            // An update in the place of a query is a common slip.
            return out.instead(if syntax::update(&how.text, None).is_ok() {
                bad("this is an update, not a query: send it as `update`, or as application/sparql-update")
            } else {
                mistaken(&e, watch, how.timed)
            });
        }
    };
    let shape = match shape(&query, &how.accept) {
        Ok(shape) => shape,
        Err(message) => return out.instead(said(StatusCode::NOT_ACCEPTABLE, &message)),
    };
    let graphs = how.graphs.as_ref();
    let database = service.database.on_behalf_of(how.asker.as_ref());
    let stop = || stop(watch);
    let data = match database.rdf_snapshot_for(&how.text, &query, graphs, &stop) {
        Ok(data) => data,
        Err(esker_model::Error::Interrupted) => {
            let e = engine::Error::Stopped("time-out");
            return out.instead(mistaken(&e, watch, how.timed));
        }
        Err(e) => return out.instead(refused(&e)),
    };
    let (now, moment) = moment();
    let own = service.database.rdf_opened().map_or(0, |live| live.seed());
    let mut options = Options::new(now, moment ^ own);
    options.memory = service.settings.sparql.memory_bytes;
    let part = service.sparql_memory.part();
    let most = service.settings.sparql.memory_all_bytes;
    let grows = |bytes: usize| part.grow(bytes, most);
    options.grows = &grows;
    options.stop = &stop;
    options.plan = how.explain;
    let services = &service.settings.sparql.services;
    let remote = |endpoint: &str, text: &str| services.ask(endpoint, text, &|| stop().is_some());
    if !services.is_empty() {
        options.remote = Some(&remote);
    }
    // Many at once share the processors as they are.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    options.threads = (cores / service.sparql_clients.busy()).max(1);
    let found = query_parsed(&data, &how.text, &query, graphs, how.profile, &options);
    let found = match found {
        Ok(found) => found,
        Err(e) => return out.instead(mistaken(&e, watch, how.timed)),
    };
    let written = if how.explain || how.profile {
        let mut lines = found.notes().into_iter();
        lines.try_for_each(|line| writeln!(out, "{line}"))
    } else {
        match shape {
            Shape::Rows((format, content_type)) => {
                out.content_type(content_type);
                found.write(format, &mut out)
            }
            Shape::Graph((format, content_type)) => {
                out.content_type(content_type);
                found.write_graph(format, &mut out)
            }
        }
    };
    match written {
        Ok(()) => out.finish(),
        Err(e) if stop().is_some() => {
            tracing::debug!(error = %e, "nobody took the whole answer to a query");
            out.instead(mistaken(
                &engine::Error::Stopped("time-out"),
                watch,
                how.timed,
            ));
        }
        Err(e) => {
            tracing::debug!(error = %e, "an answer to a query could not be written");
            out.cut();
        }
    }
}
