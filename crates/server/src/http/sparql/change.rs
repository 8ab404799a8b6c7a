//! Updates.

use super::parameters::Parameters;
use super::{Abandon, Answered, Asked, bad, graphs_of, refused, said, stop, stopped};
use crate::call::Watch;
use crate::http::{failed, json_response};
use crate::service::Service;
use crate::service::UnderWay;
use axum::body::Body;
use esker::rdf::engine::{self, Update, UpdateOperation, services_of, syntax};
use esker::rdf::{Changed, Heard, How, Request};
use esker_model::Error;
use http::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Texts up to this size that only name quads are parsed by the thread that makes the change.
const PLAIN_BYTES: usize = 4_096;

/// Whether a text is short and flat: what it costs to parse is nothing beside the change.
fn is_plain(text: &str) -> bool {
    if text.len() > PLAIN_BYTES || text.contains(['(', '[']) {
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

/// Whether a text says itself which graphs its patterns ask.
fn says_graphs(update: &Update) -> bool {
    update
        .operations
        .iter()
        .any(|o| matches!(o, UpdateOperation::DeleteInsert { using: Some(_), .. }))
}

/// What an update did.
pub(super) fn changed(changed: Changed) -> Response<Body> {
    json_response(json!({"added": changed.added, "removed": changed.removed}).to_string())
}

/// What other endpoints say to what an update asks them. They are asked before its turn comes, so that nobody waits for them but
/// who asked.
fn heard(
    service: &Service,
    update: &Update,
    stop: &(dyn Fn() -> Option<&'static str> + Sync),
) -> Result<Heard, engine::Error> {
    let services = &service.settings.sparql.services;
    let mut heard = Heard::new();
    if services.is_empty() {
        return Ok(heard);
    }
    for (endpoint, query) in services_of(update)? {
        if let Some(why) = stop() {
            return Err(engine::Error::Stopped(why));
        }
        heard
            .entry((endpoint, query))
            .or_insert_with_key(|(endpoint, query)| {
                services.ask(endpoint, query, &|| stop().is_some())
            });
    }
    Ok(heard)
}

pub(super) async fn update(asked: &Asked, text: String, parameters: &Parameters) -> Answered {
    asked.may_write()?;
    let using = graphs_of(parameters, "using-graph-uri", "using-named-graph-uri")?;
    let timeout = Asked::timeout(parameters)?;
    let own = timeout.is_some();
    let turn = asked.turn()?;
    let service = &asked.service;
    let watch = Watch::new(service.deadline(timeout), Arc::clone(&service.cut));
    let mut guard = Abandon(Some(Arc::clone(&watch)));
    let under_way = UnderWay::new(&service.metrics);
    let (tell, told) = oneshot::channel::<Result<Changed, Response<Body>>>();
    let asker = Arc::clone(&watch);
    let mut how = How {
        graphs: using,
        stop: {
            let watch = Arc::clone(&watch);
            Arc::new(move || stop(&watch))
        },
        sync: parameters.flag("sync").map_err(bad)?,
        files: false,
        memory: service.settings.sparql.memory_bytes,
        ..How::default()
    };
    let reader = asked.asker(parameters)?;
    how.asker.clone_from(&reader);
    let answer = move |outcome: esker_model::Result<Changed>| {
        drop((turn, under_way));
        // Who asked may be gone.
        let _ = tell.send(outcome.map_err(|e| match e {
            Error::Interrupted => stopped(&asker, own),
            e => refused(&e),
        }));
    };
    match service.database.rdf_opened() {
        Some(live) if how.graphs.is_none() && is_plain(&text) => {
            live.submit(Request::Text(text), how, Box::new(answer));
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
                        "the request names graphs by `using-graph-uri`, and its text does by USING or WITH: one of both may"
                            .into(),
                    )));
                }
                match heard(&service, &update, &*how.stop) {
                    Ok(heard) => how.heard = Arc::new(heard),
                    Err(e) => return answer(Err(esker::rdf::error(e))),
                }
                let database = service.database.on_behalf_of(reader.as_ref());
                let live = database.rdf_live().and_then(|live| {
                    let graphs = how.graphs.as_ref();
                    how.meta = live.meta_of(&database, &update, graphs, &*how.stop)?;
                    Ok(live)
                });
                match live {
                    Ok(live) => {
                        live.submit(Request::Parsed(Box::new(update)), how, Box::new(answer));
                    }
                    Err(e) => answer(Err(e)),
                }
            });
            if let Err(full) = asked.service.sparql.submit(job) {
                asked.service.metrics.shed.add(1);
                return Err(failed(&full.failure()));
            }
        }
    }
    let told = told.await.map_err(|_| {
        said(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server could not finish this update; its log says more",
        )
    });
    guard.0 = None;
    told?.map(changed)
}
