//! SPARQL updates.

use super::parameters::Parameters;
use super::plain::text_response;
use super::{
    CancelOnDrop, SparqlRequest, SparqlResult, bad, error_response, graphs_of, stop, stopped,
};
use crate::call::CallState;
use crate::http::{failed, json_response};
use crate::service::InFlight;
use crate::service::Service;
use axum::body::Body;
use esker::rdf::engine::{self, Update, UpdateOperation, loads_of, services_of, syntax};
use esker::rdf::{ServiceResults, UpdateCounts, UpdateOptions, UpdateRequest, now_and_seed};
use esker_model::Error;
use http::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Largest text in bytes that the updating thread parses itself, if the text only lists quads.
const PLAIN_BYTES: usize = 4_096;

/// Whether a text is short and simple, so that its parsing takes little time compared to the update, and names no other server.
fn is_plain(text: &str) -> bool {
    if text.len() > PLAIN_BYTES || text.contains(['(', '[']) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    if lower.contains("load") || lower.contains("service") {
        return false;
    }
    let mut rest = text.trim_start();
    loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        if word.eq_ignore_ascii_case("prefix") || word.eq_ignore_ascii_case("base") {
            match rest.split_once('>') {
                Some((_, after)) => rest = after.trim_start(),
                None => return false,
            }
        } else {
            let mut words = rest.splitn(3, |c: char| c.is_whitespace() || c == '{');
            let verb = words.next().unwrap_or_default();
            let data = words.next().unwrap_or_default();
            return (verb.eq_ignore_ascii_case("insert") || verb.eq_ignore_ascii_case("delete"))
                && data.eq_ignore_ascii_case("data");
        }
    }
}

/// Whether an update's text names the graphs of its patterns.
fn says_graphs(update: &Update) -> bool {
    update
        .operations
        .iter()
        .any(|o| matches!(o, UpdateOperation::DeleteInsert { using: Some(_), .. }))
}

/// Encodes the result of an update.
pub(super) fn changed(changed: UpdateCounts) -> Response<Body> {
    json_response(json!({"added": changed.added, "removed": changed.removed}).to_string())
}

/// Puts into `how` the answers of remote endpoints to the `SERVICE` clauses of an update, and the documents of its `LOAD` operations. They are
/// requested before the update's turn, so that no other update waits for them.
fn add_remote_answers(
    service: &Service,
    update: &Update,
    how: &mut UpdateOptions,
) -> Result<(), engine::Error> {
    let stop = &*how.stop;
    let sparql = &service.settings.sparql;
    if !sparql.load.is_empty() {
        let (_, seed) = now_and_seed();
        let mut documents = Vec::new();
        for load in loads_of(update, seed) {
            if let Some(why) = stop() {
                return Err(engine::Error::Stopped(why));
            }
            documents.push(sparql.load.read_document(&load, &|| stop().is_some()));
        }
        how.documents = Arc::new(documents);
    }
    let services = &sparql.services;
    if services.is_empty() {
        return Ok(());
    }
    let mut service_results = ServiceResults::new();
    for (endpoint, query) in services_of(update)? {
        if let Some(why) = stop() {
            return Err(engine::Error::Stopped(why));
        }
        service_results
            .entry((endpoint, query))
            .or_insert_with_key(|(endpoint, query)| {
                services.query_endpoint(endpoint, query, &|| stop().is_some())
            });
    }
    how.service_results = Arc::new(service_results);
    Ok(())
}

pub(super) async fn update(
    request: &SparqlRequest,
    text: String,
    parameters: &Parameters,
) -> SparqlResult {
    request.may_write()?;
    let using = graphs_of(parameters, "using-graph-uri", "using-named-graph-uri")?;
    let timeout = SparqlRequest::timeout(parameters)?;
    let own = timeout.is_some();
    let turn = request.acquire_slot()?;
    let service = &request.service;
    let deadline = service.deadline(Service::query_time(timeout));
    let call_state = CallState::new(deadline, Arc::clone(&service.cut));
    let mut guard = CancelOnDrop(Some(Arc::clone(&call_state)));
    let under_way = InFlight::new(&service.metrics);
    let (tell, told) = oneshot::channel::<Result<UpdateCounts, Response<Body>>>();
    let answered_state = Arc::clone(&call_state);
    let mut how = UpdateOptions {
        graphs: using,
        stop: {
            let call_state = Arc::clone(&call_state);
            Arc::new(move || stop(&call_state))
        },
        sync: parameters.flag("sync").map_err(bad)?,
        files: false,
        memory: call_state.memory_within(service.settings.sparql.memory_bytes),
        ..UpdateOptions::default()
    };
    let reader = request.principal(parameters)?;
    how.principal.clone_from(&reader);
    let answer = move |outcome: esker_model::Result<UpdateCounts>| {
        drop((turn, under_way));
        // The client may be gone.
        let _ = tell.send(outcome.map_err(|e| match e {
            Error::Interrupted => stopped(&answered_state, own),
            e => error_response(&e),
        }));
    };
    match service.database.rdf_opened() {
        Some(live) if how.graphs.is_none() && is_plain(&text) => {
            live.submit(UpdateRequest::Text(text), how, Box::new(answer));
        }
        _ => {
            let service = Arc::clone(service);
            let job = Box::new(move || {
                let update = match syntax::update(&text, None) {
                    Ok(update) => update,
                    Err(_) if syntax::query(&text, None).is_ok() => {
                        return answer(Err(Error::Invalid(
                            "this is a query, not an update: send it as `query`, or as application/sparql-query".into(),
                        )));
                    }
                    Err(e) => return answer(Err(esker::rdf::error(e))),
                };
                if how.graphs.is_some() && says_graphs(&update) {
                    return answer(Err(Error::Invalid(
                        "the request names graphs by `using-graph-uri`, and its text does by USING or WITH: only one of the two is allowed"
                            .into(),
                    )));
                }
                if let Err(e) = add_remote_answers(&service, &update, &mut how) {
                    return answer(Err(esker::rdf::error(e)));
                }
                let database = service.database.on_behalf_of(reader.as_ref());
                let live = database.rdf_live().and_then(|live| {
                    let graphs = how.graphs.as_ref();
                    how.meta = live.meta_of(&database, &update, graphs, &*how.stop)?;
                    Ok(live)
                });
                match live {
                    Ok(live) => {
                        live.submit(
                            UpdateRequest::Parsed(Box::new(update)),
                            how,
                            Box::new(answer),
                        );
                    }
                    Err(e) => answer(Err(e)),
                }
            });
            if let Err(full) = request.service.sparql.submit(job) {
                request.service.metrics.shed.add(1);
                return Err(failed(&full.failure()));
            }
        }
    }
    let told = told.await.map_err(|_| {
        text_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server could not finish this update; its log says more",
        )
    });
    guard.0 = None;
    told?.map(changed)
}
