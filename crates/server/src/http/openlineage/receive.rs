//! Receiving one or many events.

use super::super::write::commit;
use super::super::{ApiError, failed};
use crate::call::CallState;
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

/// Largest number of events in one commit.
const EVENTS: usize = 256;

/// Locks by run: a run must not change between the read and the commit of its events, so they are applied one after another.
static RUN_LOCKS: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

async fn lock_runs(events: &[Event]) -> Vec<MutexGuard<'static, ()>> {
    let slot = |event: &Event| {
        let mut hasher = DefaultHasher::new();
        match (&event.run, &event.job, &event.dataset) {
            (Some(run), ..) => run.id.hash(&mut hasher),
            (_, Some(named), _) | (_, _, Some(named)) => named.name.hash(&mut hasher),
            _ => {}
        }
        hasher.finish() as usize % RUN_LOCKS.len()
    };
    let slots: BTreeSet<usize> = events.iter().map(slot).collect();
    let mut out = Vec::with_capacity(slots.len());
    for slot in slots {
        if let Some(lock) = RUN_LOCKS.get(slot) {
            out.push(lock.lock().await);
        }
    }
    out
}

/// Returns the types that events need; adds them to a schema that lacks them.
fn types(service: &Service) -> Result<Types, Error> {
    if let Ok(types) = Types::resolve(&*service.schema()?) {
        return Ok(types);
    }
    let schema = service.define(&Types::changes())?;
    Types::resolve(&schema).map_err(|e: SchemaError| Error::from(e))
}

async fn apply(
    service: &Arc<Service>,
    events: Vec<Event>,
    sync: bool,
    bytes: usize,
) -> Result<Json, Response<Body>> {
    let _locks = lock_runs(&events).await;
    let read = move |service: &Service, _: &CallState| -> Result<Batch, Error> {
        let types = types(service)?;
        let (schema, names) = (service.schema()?, service.names_now());
        openlineage::batch(&events, &types, &schema, &*service.graph_now(), &*names)
    };
    let batch = service.work(0, read).await.map_err(|e| failed(&e))?;
    let batch = batch.map_err(|e| ApiError::from(e).response())?;
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

/// One event that was rejected.
struct RejectedEvent {
    index: usize,
    reason: String,
    retriable: bool,
}

impl RejectedEvent {
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

/// Applies all valid events of a list.
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
                bad.push(RejectedEvent {
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
        // One event may be invalid: apply each on its own.
        for (index, event) in chunk {
            if let Err(response) = apply(service, vec![event.clone()], sync, bytes).await {
                bad.push(RejectedEvent::of(*index, response).await);
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

/// Answers `POST /api/v1/lineage` and `POST /api/v1/lineage/batch`.
pub(in super::super) async fn receive(
    service: &Arc<Service>,
    sync: bool,
    body: String,
) -> Result<(StatusCode, String), Response<Body>> {
    let bytes = body.len();
    let read = move |_: &Service, _: &CallState| openlineage::events(&body);
    let read = service.work(0, read).await.map_err(|e| failed(&e))?;
    let refuse = |e: &EventError| {
        let text = format!("an event of OpenLineage: {e}");
        tracing::warn!(error = text, "it was not taken");
        ApiError::bad(text).response()
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
