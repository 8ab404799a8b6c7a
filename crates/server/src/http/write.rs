//! `POST /api/v1/apply`: lines of JSON as one batch, through the writer like every other.

use super::query::Query;
use super::{Refused, failed, ops};
use crate::call::{Call, Sink, Terms, Watch};
use crate::service::Service;
use axum::body::Body;
use esker_model::Version;
use esker_rpc::proto::reply::Reply;
use http::Response;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

pub(super) async fn apply(
    service: &Arc<Service>,
    query: &Query,
    body: String,
) -> Result<String, Response<Body>> {
    const APPLY: usize = 16;
    let sync = match query.get("sync") {
        None | Some("false") => false,
        Some("true" | "") => true,
        Some(other) => {
            let message = format!("parameter `sync`: expected true or false; got `{other}`");
            return Err(Refused::bad(message).response());
        }
    };
    let bytes = body.len();
    let read = move |service: &Service, _: &Watch| ops::batch(&body, &*service.schema()?);
    let batch = service.work(0, read).await.map_err(|e| failed(&e))?;
    let mut batch = batch.map_err(|e| e.response())?;
    batch.once = query.get("once").map(|once| once.as_bytes().to_vec());
    let deadline = service.deadline(None);
    let watch = Watch::new(deadline, Arc::clone(&service.cut));
    let (sender, mut answer) = mpsc::channel(1);
    let terms = Terms {
        deadline,
        ..Terms::default()
    };
    let call = Call::new(service, APPLY, bytes, terms, watch, Sink::Channel(sender));
    service.write(batch, sync, call);
    match answer.recv().await.and_then(|r| r.reply) {
        Some(Reply::Apply(commit)) => Ok(json!({
            "applied": commit.applied,
            "version": Version(commit.version).to_string(),
            "vertices_created": commit.vertices_created,
            "edges_created": commit.edges_created,
            "unchanged": commit.unchanged,
        })
        .to_string()),
        Some(Reply::Failure(e)) => Err(failed(&e)),
        _ => Err(failed(&esker_rpc::proto::Failure::default())),
    }
}
