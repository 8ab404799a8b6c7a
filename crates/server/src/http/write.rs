//! What changes the graph: batches from lines of JSON and from single requests, through the writer like every other.

use super::query::Query;
use super::{Refused, failed, objects, ops};
use crate::call::{Call, Sink, Terms, Watch};
use crate::service::Service;
use axum::body::Body;
use esker_cluster::peer::Applying;
use esker_import::slurm::{self, Types};
use esker_model::{Batch, Error, Version};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use http::Response;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The numbers of calls in `Request`.
const APPLY: usize = 16;
const READ_OBJECTS: usize = 25;

/// What a request writes.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// Lines of operations.
    Lines,
    /// A new object.
    Create,
    /// Other attributes and tags of an object.
    Update,
    /// An object that goes.
    Delete,
    /// A job of Slurm.
    SlurmJob,
}

pub(super) async fn write(
    service: &Arc<Service>,
    what: What,
    query: Query,
    body: String,
) -> Result<String, Response<Body>> {
    let sync = query.flag("sync").map_err(|e| e.response())?;
    let once = query.get("once").map(|once| once.as_bytes().to_vec());
    let bytes = body.len();
    let read = move |service: &Service, _: &Watch| match what {
        What::Lines => {
            let schema = service.schema()?;
            let (mut batch, paths) = ops::batch(&body, &schema)?;
            service.settle(&mut batch, &schema, &paths, Version::ZERO)?;
            Ok((batch, None))
        }
        What::Create => {
            let (batch, identity) = objects::create(&body, &*service.schema()?)?;
            Ok((batch, Some(identity)))
        }
        What::Update => Ok((objects::update(service, &query, &body)?, None)),
        What::Delete => Ok((objects::delete(service, &query)?, None)),
        What::SlurmJob => Ok((slurm_job(service, &query, &body)?, None)),
    };
    let batch: Result<_, Refused> = service.work(0, read).await.map_err(|e| failed(&e))?;
    let (mut batch, created) = batch.map_err(|e| e.response())?;
    batch.once = once;
    let commit = commit(service, batch, sync, bytes).await?;
    if let Some(identity) = created {
        let find = move |service: &Service, _: &Watch| objects::created(service, identity);
        let found = service.work(READ_OBJECTS, find).await;
        return found.map_err(|e| failed(&e))?.map_err(|e| e.response());
    }
    Ok(json!({
        "applied": commit.applied,
        "version": Version(commit.version).to_string(),
        "vertices_created": commit.vertices_created,
        "edges_created": commit.edges_created,
        "unchanged": commit.unchanged,
    })
    .to_string())
}

/// A document of a job. Slurm sends one that is refused again and again: so it is only refused if nothing can be made of it, and the log says so.
fn slurm_job(service: &Service, query: &Query, body: &str) -> Result<Batch, Refused> {
    let types = Types::resolve(&*service.schema()?).map_err(Error::from)?;
    let job = slurm::document(body.as_bytes()).map_err(|e| {
        let text = format!("a document of Slurm's jobcomp/elasticsearch: {e}");
        tracing::warn!(error = text, "a job was not taken");
        Refused::bad(text)
    })?;
    Ok(slurm::batch(&job, &types, query.get("cluster")))
}

pub(super) async fn commit(
    service: &Arc<Service>,
    batch: Batch,
    sync: bool,
    bytes: usize,
) -> Result<proto::ApplyReply, Response<Body>> {
    let deadline = service.deadline(None);
    let watch = Watch::new(deadline, Arc::clone(&service.cut));
    let (sender, mut answer) = mpsc::channel(1);
    let terms = Terms {
        deadline,
        ..Terms::default()
    };
    let call = Call::new(service, APPLY, bytes, terms, watch, Sink::Channel(sender));
    // Nobody keeps it.
    service.write(batch, sync, Applying::default(), call);
    match answer.recv().await.and_then(|r| r.reply) {
        Some(Reply::Apply(commit)) => Ok(commit),
        Some(Reply::Failure(e)) => Err(failed(&e)),
        _ => Err(failed(&proto::Failure::default())),
    }
}
