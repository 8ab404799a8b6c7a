//! Each call enters here, whatever protocol it arrived by, and goes to the thread that answers it.

use crate::answer;
use crate::call::Call;
use crate::calls::number_named;
use crate::limits::{INLINE_DECODE_BYTES, INLINE_REQUEST_BYTES, INLINE_WRITE_MUTATIONS};
use crate::names;
use crate::objects;
use crate::service::{APPLY, PEER, Service};
use crate::storage_quota::Holdings;
use crate::work::QueueFull;
use crate::writer::InlineGroup;
use bytes::Bytes;
use esker_cluster::peer::ApplyOptions;
use esker_model::namespace::FileRefResolver;
use esker_model::{Batch, Error, Result, Schema, Version, VertexName};
use esker_rpc::convert::{batch_in, find_in};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Request;
use prost::Message as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of calls in `Request` that have a special path.
const PING: usize = number_named("ping");
const READ_OBJECTS: usize = number_named("read_objects");
const FIND: usize = number_named("find");
const STAT_FILE: usize = number_named("stat_file");
const CHANGE_FILES: usize = number_named("change_files");

impl Service {
    pub(crate) fn reject(&self, call: Call, full: &QueueFull) {
        self.metrics.shed.add(1);
        call.done(Reply::Failure(full.failure()));
    }

    /// Takes a call whose request is not decoded yet. The caller writes `group` after all calls of the message.
    pub(crate) fn call(
        self: &Arc<Self>,
        request: Bytes,
        number: usize,
        call: Call,
        group: &mut InlineGroup,
    ) {
        if number == PEER {
            let error = Error::Invalid("only servers of a cluster send each other that".into());
            call.failed(&error);
            return;
        }
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            call.done(Reply::Failure(refusal));
            return;
        }
        if number == PING {
            call.done(answer::ping_reply());
            return;
        }
        if matches!(number, APPLY | CHANGE_FILES) && request.len() <= INLINE_DECODE_BYTES {
            self.decode(request, call, Some(group));
            return;
        }
        // Reading from memory takes less time than waking another thread.
        if request.len() <= INLINE_REQUEST_BYTES
            && self.can_answer_inline(number, &call)
            && let Some(reply) = self.answer_in_share(&request, &call)
        {
            call.done(reply);
            return;
        }
        self.submit(number, call, move |service, call| {
            service.decode(request, call, None);
        });
    }

    /// Whether a read of objects, which are in memory, or of one row of a file will probably not block.
    fn can_answer_inline(&self, number: usize, call: &Call) -> bool {
        matches!(number, READ_OBJECTS | FIND | STAT_FILE)
            && self.cluster.is_none()
            && self.has(call.options.at_least.0)
            && self.writer.is_idle()
    }

    /// Answers a request on this thread, unless its client has used its share of the network threads.
    fn answer_in_share(&self, request: &Bytes, call: &Call) -> Option<Reply> {
        let answer = || self.answer_inline(request, call);
        match &self.inline_use {
            Some(inline) => inline.run(&call.state.client().share, answer),
            None => answer(),
        }
    }

    /// Returns the complete answer to a request about objects, if it is small and computed sooner than another thread is woken. Must not
    /// block, neither on other threads nor on the client. A failed request returns `None` and is repeated where errors are reported.
    fn answer_inline(&self, request: &Bytes, call: &Call) -> Option<Reply> {
        let graph = self.graph(call.options.at_least.0, None);
        match proto::Request::decode(request.clone()).ok()?.call? {
            Request::ReadObjects(request) => objects::read_inline(&*graph, request, call),
            Request::Find(request) => {
                let find = find_in(request, objects::now_nanos()).ok()?;
                let short = self.database.finds_few(&find);
                short
                    .then(|| objects::find_inline(&*graph, &find, call))
                    .flatten()
            }
            // A watched `StatFile` waits for the writer.
            Request::StatFile(request) if request.watcher != 0 => None,
            Request::StatFile(request) => names::stat_single(&self.database, &request).ok(),
            _ => None,
        }
    }

    /// Whether a write of `changes` mutations runs on this thread: it is small, no other write is in progress and it needs no sync.
    pub(crate) fn can_write_inline(&self, changes: usize, sync: bool, call: &Call) -> bool {
        let small = changes <= INLINE_WRITE_MUTATIONS && call.bytes() <= INLINE_REQUEST_BYTES;
        small && !sync && self.cluster.is_none() && self.writer.is_idle()
    }

    /// Runs a closure on the thread pool for calls of this number.
    fn submit(
        self: &Arc<Self>,
        number: usize,
        mut call: Call,
        run: impl FnOnce(&Arc<Self>, Call) + Send + 'static,
    ) {
        call.slot = match self.begin_query(number) {
            Ok(slot) => slot,
            Err(refusal) => return call.done(Reply::Failure(refusal)),
        };
        let span = call.span();
        // The call must come back if the queue is full.
        let held = Arc::new(Mutex::new(Some(call)));
        let (service, inner) = (Arc::clone(self), Arc::clone(&held));
        let take =
            |held: &Mutex<Option<Call>>| held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let job = Box::new(move || {
            if let Some(call) = take(&inner) {
                esker_telemetry::sync_scope(span, || run(&service, call));
            }
        });
        if let Err(full) = self.lane(number).submit(job)
            && let Some(call) = take(&held)
        {
            self.reject(call, &full);
        }
    }

    fn decode(self: &Arc<Self>, request: Bytes, call: Call, group: Option<&mut InlineGroup>) {
        match proto::Request::decode(request) {
            Ok(proto::Request { call: Some(request) }) => self.answer(request, call, group),
            Ok(proto::Request { call: None }) => call.failed(&Error::Invalid(
                "malformed message: `request.call`: expected one of its fields to be set (is the server older than \
                 the client?)"
                    .into(),
            )),
            Err(e) => call.failed(&Error::Invalid(format!("malformed message: `request`: {e}"))),
        }
    }

    /// Answers a request on this thread, or passes a batch to the writer or the group of its message.
    fn answer(self: &Arc<Self>, request: Request, call: Call, group: Option<&mut InlineGroup>) {
        match request {
            Request::Apply(request) if crate::text::names_paths(&request) => {
                // Path lookups may block.
                self.submit(APPLY, call, move |service, call| {
                    service.apply_text(request, call);
                });
            }
            Request::Apply(request) => {
                let how = crate::cluster::apply_options_in(&request);
                let batch = self
                    .schema()
                    .and_then(|schema| Ok(batch_in(request, &schema)?));
                match batch {
                    Ok((batch, sync)) if self.can_write_inline(batch.len(), sync, &call) => {
                        let Some(call) = self.admit_storage(call, || Holdings::of_batch(&batch))
                        else {
                            return;
                        };
                        let mut alone = InlineGroup::default();
                        match group {
                            Some(group) => group.add(self, batch, call),
                            None => alone.add(self, batch, call),
                        }
                        alone.write(self);
                    }
                    Ok((batch, sync)) => self.write(batch, sync, how, call),
                    Err(e) => call.failed(&e),
                }
            }
            Request::ChangeFiles(request) => self.change_names(request, call),
            Request::WatchFiles(request) => names::watch(self, request, call),
            request => answer::answer(self, request, call),
        }
    }

    /// Replaces paths in a batch by the files that they name now.
    pub(crate) fn resolve_paths(
        &self,
        batch: &mut Batch,
        schema: &Schema,
        paths: &[VertexName],
        seen: Version,
    ) -> Result<()> {
        let mut resolver = FileRefResolver::default();
        resolver.resolve_names(&*self.names(seen), schema, paths)?;
        resolver.substitute(&mut batch.mutations);
        Ok(())
    }

    /// Passes a batch to the writer.
    pub(crate) fn write(self: &Arc<Self>, batch: Batch, sync: bool, how: ApplyOptions, call: Call) {
        let Some(call) = self.admit_storage(call, || Holdings::of_batch(&batch)) else {
            return;
        };
        let taken = match &self.cluster {
            None => self.writer.submit(batch.into(), sync, call),
            Some(cluster) => self.write_to_cluster(cluster, batch, sync, how, call),
        };
        if let Err((call, full)) = taken {
            self.reject(call, &full);
        }
    }

    /// Takes a call whose request is decoded.
    pub(crate) fn request(self: &Arc<Self>, request: Request, number: usize, call: Call) {
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            call.done(Reply::Failure(refusal));
            return;
        }
        self.submit(number, call, move |service, call| {
            service.answer(request, call, None);
        });
    }
}
