//! Events that are sent, one or many.

use super::super::write::commit;
use super::super::{Refused, failed};
use crate::call::Watch;
use crate::service::Service;
use axum::body::Body;
use esker_import::openlineage::{self, Event, EventError, Types};
use esker_model::{Batch, Error, SchemaError};
use http::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Events of one commit.
const EVENTS: usize = 256;

/// What is read of a run before it is changed must not change meanwhile: events of a run are taken one after another.
static TURNS: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

async fn turns(events: &[Event]) -> Vec<MutexGuard<'static, ()>> {
    let place = |event: &Event| {
        let mut hasher = DefaultHasher::new();
        match (&event.run, &event.job, &event.dataset) {
            (Some(run), ..) => run.id.hash(&mut hasher),
            (_, Some(named), _) | (_, _, Some(named)) => named.name.hash(&mut hasher),
            _ => {}
        }
        hasher.finish() as usize % TURNS.len()
    };
    let places: BTreeSet<usize> = events.iter().map(place).collect();
    let mut out = Vec::with_capacity(places.len());
    for place in places {
        if let Some(turn) = TURNS.get(place) {
            out.push(turn.lock().await);
        }
    }
    out
}

/// The types that events need; a schema that lacks them learns them.
fn types(service: &Service) -> Result<Types, Error> {
    if let Ok(types) = Types::resolve(&*service.schema()?) {
        return Ok(types);
    }
    let schema = crate::answer::define(service, &Types::changes())?;
    Types::resolve(&schema).map_err(|e: SchemaError| Error::from(e))
}

async fn apply(
    service: &Arc<Service>,
    events: Vec<Event>,
    sync: bool,
    bytes: usize,
) -> Result<Json, Response<Body>> {
    let _turns = turns(&events).await;
    let read = move |service: &Service, _: &Watch| -> Result<Batch, Error> {
        let types = types(service)?;
        let (schema, names) = (service.schema()?, service.names_now());
        openlineage::batch(&events, &types, &schema, &*service.graph_now(), &*names)
    };
    let batch = service.work(0, read).await.map_err(|e| failed(&e))?;
    let batch = batch.map_err(|e| Refused::from(e).response())?;
    if batch.is_empty() {
        return Ok(
            json!({"applied": true, "vertices_created": 0, "edges_created": 0, "unchanged": 0}),
        );
    }
    let done = commit(service, batch, sync, bytes).await?;
    Ok(json!({
        "applied": done.applied,
        "vertices_created": done.vertices_created,
        "edges_created": done.edges_created,
        "unchanged": done.unchanged,
    }))
}

/// One event that was not taken.
struct Failed {
    index: usize,
    reason: String,
    retriable: bool,
}

impl Failed {
    async fn of(index: usize, response: Response<Body>) -> Self {
        let retriable = matches!(
            response.status(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 16).await;
        let said: Option<Json> = serde_json::from_slice(&bytes.unwrap_or_default()).ok();
        let reason = said.and_then(|said| Some(said.get("error")?.as_str()?.to_owned()));
        Self {
            index,
            reason: reason.unwrap_or_default(),
            retriable,
        }
    }
}

/// Many events: those that can be taken are.
async fn many(
    service: &Arc<Service>,
    read: Vec<Result<Event, EventError>>,
    sync: bool,
    bytes: usize,
) -> (StatusCode, Json) {
    let received = read.len();
    let mut bad = Vec::new();
    let mut good: Vec<(usize, Event)> = Vec::new();
    for (index, event) in read.into_iter().enumerate() {
        match event {
            Ok(event) => good.push((index, event)),
            Err(e) => {
                tracing::warn!(index, error = %e, "an event of OpenLineage was not taken");
                bad.push(Failed {
                    index,
                    reason: e.to_string(),
                    retriable: false,
                });
            }
        }
    }
    for chunk in good.chunks(EVENTS) {
        let events = chunk.iter().map(|(_, event)| event.clone()).collect();
        if apply(service, events, sync, bytes).await.is_ok() {
            continue;
        }
        // One may be to blame: each on its own.
        for (index, event) in chunk {
            if let Err(response) = apply(service, vec![event.clone()], sync, bytes).await {
                bad.push(Failed::of(*index, response).await);
            }
        }
    }
    bad.sort_by_key(|failed| failed.index);
    let retriable = bad.iter().filter(|failed| failed.retriable).count();
    let (status, word) = match bad.len() {
        0 => (StatusCode::OK, "success"),
        all if all == received => (StatusCode::BAD_REQUEST, "failure"),
        _ => (StatusCode::MULTI_STATUS, "partial_success"),
    };
    let failed = bad.iter().map(
        |failed| json!({"index": failed.index, "reason": failed.reason, "retriable": failed.retriable}),
    );
    let answer = json!({
        "status": word,
        "summary": {
            "received": received,
            "successful": received - bad.len(),
            "failed": bad.len(),
            "retriable": retriable,
            "non_retriable": bad.len() - retriable,
        },
        "failed_events": failed.collect::<Json>(),
    });
    (status, answer)
}

/// `POST /api/v1/lineage` and `POST /api/v1/lineage/batch`.
pub(in super::super) async fn receive(
    service: &Arc<Service>,
    sync: bool,
    body: String,
) -> Result<(StatusCode, String), Response<Body>> {
    let bytes = body.len();
    let read = move |_: &Service, _: &Watch| openlineage::events(&body);
    let read = service.work(0, read).await.map_err(|e| failed(&e))?;
    let refuse = |e: &EventError| {
        let text = format!("an event of OpenLineage: {e}");
        tracing::warn!(error = text, "it was not taken");
        Refused::bad(text).response()
    };
    let (is_list, read) = read.map_err(|e| refuse(&e))?;
    if is_list {
        let (status, answer) = many(service, read, sync, bytes).await;
        return Ok((status, answer.to_string()));
    }
    let mut events = Vec::new();
    for event in read {
        events.push(event.map_err(|e| refuse(&e))?);
    }
    let done = apply(service, events, sync, bytes).await?;
    Ok((StatusCode::CREATED, done.to_string()))
}
