//! Requests that change the graph: batches from lines of JSON and from single requests, applied by the writer.

use super::query::Query;
use super::{ApiError, failed, objects, ops};
use crate::call::{Call, CallOptions, CallState, Sink};
use crate::service::Service;
use axum::body::Body;
use esker_cluster::peer::ApplyOptions;
use esker_import::jobs::{LinkTypes, settle};
use esker_import::slurm::{self, JobTypes};
use esker_model::object::Identity;
use esker_model::{Batch, Error, Version, VertexId};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use http::Response;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Numbers of calls in `Request`.
const APPLY: usize = 16;
const READ_OBJECTS: usize = 25;

/// Kinds of writing requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteKind {
    /// Lines of operations.
    Lines,
    /// Creation of an object.
    Create,
    /// Change of an object's attributes and tags.
    Update,
    /// Deletion of an object.
    Delete,
    /// A record of a Slurm job.
    SlurmJob,
}

/// Subject of a write that needs more than one commit or an answer of its own.
enum Written {
    /// An object was created.
    Object(Identity),
    /// A record of this job was written.
    SlurmJob(VertexId),
    /// Anything else.
    Other,
}

pub(super) async fn write(
    service: &Arc<Service>,
    what: WriteKind,
    query: Query,
    body: String,
) -> Result<String, Response<Body>> {
    let sync = query.flag("sync").map_err(|e| e.response())?;
    let idempotency_key = query
        .get("once")
        .map(|idempotency_key| idempotency_key.as_bytes().to_vec());
    let bytes = body.len();
    let read = move |service: &Service, _: &CallState| match what {
        WriteKind::Lines => {
            let schema = service.schema()?;
            let (mut batch, paths) = ops::batch(&body, &schema)?;
            service.resolve_paths(&mut batch, &schema, &paths, Version::ZERO)?;
            Ok((batch, Written::Other))
        }
        WriteKind::Create => {
            let (batch, identity) = objects::create(&body, &*service.schema()?)?;
            Ok((batch, Written::Object(identity)))
        }
        WriteKind::Update => Ok((objects::update(service, &query, &body)?, Written::Other)),
        WriteKind::Delete => Ok((objects::delete(service, &query)?, Written::Other)),
        WriteKind::SlurmJob => {
            let (batch, job) = slurm_job(service, &query, &body)?;
            Ok((batch, Written::SlurmJob(job)))
        }
    };
    let batch: Result<_, ApiError> = service.work(0, read).await.map_err(|e| failed(&e))?;
    let (mut batch, written) = batch.map_err(|e| e.response())?;
    batch.idempotency_key = idempotency_key;
    let commit = commit(service, batch, sync, bytes).await?;
    match written {
        Written::Object(identity) => {
            let find = move |service: &Service, _: &CallState| objects::created(service, identity);
            let found = service.work(READ_OBJECTS, find).await;
            return found.map_err(|e| failed(&e))?.map_err(|e| e.response());
        }
        Written::SlurmJob(job) => settle_links(service, job, sync).await?,
        Written::Other => {}
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

/// Reads a job's document. Slurm repeats a document that was refused, so it is only refused, with a log message, if it cannot be read at
/// all.
fn slurm_job(service: &Service, query: &Query, body: &str) -> Result<(Batch, VertexId), ApiError> {
    let types = JobTypes::resolve(&*service.schema()?).map_err(Error::from)?;
    let job = slurm::document(body.as_bytes()).map_err(|e| {
        let text = format!("a document of Slurm's jobcomp/elasticsearch: {e}");
        tracing::warn!(error = text, "a job was not taken");
        ApiError::bad(text)
    })?;
    let cluster = query.get("cluster");
    let vertex = slurm::vertex(&job, cluster);
    Ok((slurm::batch(&job, &types, cluster), vertex))
}

/// Commits the changes of links that follow from a job's record.
async fn settle_links(
    service: &Arc<Service>,
    job: VertexId,
    sync: bool,
) -> Result<(), Response<Body>> {
    let read = move |service: &Service, _: &CallState| -> Result<Batch, Error> {
        let types = LinkTypes::resolve(&*service.schema()?)?;
        settle(&*service.graph_now(), &types, &[job])
    };
    let links = service.work(0, read).await.map_err(|e| failed(&e))?;
    let links = links.map_err(|e| ApiError::from(e).response())?;
    if !links.is_empty() {
        commit(service, links, sync, 0).await?;
    }
    Ok(())
}

pub(super) async fn commit(
    service: &Arc<Service>,
    batch: Batch,
    sync: bool,
    bytes: usize,
) -> Result<proto::ApplyReply, Response<Body>> {
    let deadline = service.deadline(None);
    let call_state = CallState::new(deadline, Arc::clone(&service.cut));
    let (sender, mut answer) = mpsc::channel(1);
    let options = CallOptions {
        deadline,
        ..CallOptions::default()
    };
    let call = Call::new(
        service,
        APPLY,
        bytes,
        options,
        call_state,
        Sink::Channel(sender),
    );
    // An HTTP client does not keep the batch for replay.
    service.write(batch, sync, ApplyOptions::default(), call);
    match answer.recv().await.and_then(|r| r.reply) {
        Some(Reply::Apply(commit)) => Ok(commit),
        Some(Reply::Failure(e)) => Err(failed(&e)),
        _ => Err(failed(&proto::Failure::default())),
    }
}
