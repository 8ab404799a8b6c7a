//! Calls about objects for clients: each server is asked about its own objects, and the results are combined.
//!
//! A search sees each server's state when that server is asked, and everything that the client has seen. On each
//! server a batch is seen completely or not at all; one that is committed during the search may be seen on one server
//! and not yet on another. Objects come server by server, in the order of their numbers, so that a search can
//! continue after any object; the servers work at the same time, each one page ahead.

use super::peers::unexpected;
use super::read::{BlockOn, ClusterGraph};
use super::tagging::share_of;
use super::{BoxFuture, Node};
use crate::peer::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply, Request, Response};
use crate::vnode::ServerId;
use esker_model::object::{
    Find, FindReport, Found, ObjectKey, ObjectRead, Principal, TagInfo, TagReport, TagWhere,
};
use esker_model::schema::nearest;
use esker_model::{Cancel, Error, ErrorKind, Flow, Result, Version};
use futures_util::future::{Either, join_all, select};
use std::collections::{BTreeMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Time for which a server that cannot be reached is asked again (microseconds), and the first pause between attempts (milliseconds).
const RETRY_MICROS: u64 = 1_000_000;
const RETRY_FIRST: u64 = 50;
/// Interval between checks for cancellation, in milliseconds.
const CANCEL_POLL: u64 = 20;

impl Node {
    /// Calls a server about its objects, this one included.
    async fn objects_at(
        self: &Arc<Self>,
        server: ServerId,
        call: ObjectCall,
    ) -> Result<ObjectReply> {
        if server == self.settings.id {
            return self.objects_here(call).await;
        }
        match self.request(server, Request::Objects(call)).await? {
            Response::Objects(reply) => Ok(reply),
            _ => Err(unexpected(server)),
        }
    }

    /// Calls [`Self::objects_at`] repeatedly for a while if the server cannot be reached. A server that hangs has
    /// used its time already.
    async fn objects_at_with_retry(
        self: &Arc<Self>,
        server: ServerId,
        call: ObjectCall,
    ) -> Result<ObjectReply> {
        let began = self.time.monotonic_micros();
        let mut pause = RETRY_FIRST;
        loop {
            match self.objects_at(server, call.clone()).await {
                Err(e)
                    if e.kind() == ErrorKind::Unavailable
                        && self.time.monotonic_micros().saturating_sub(began) < RETRY_MICROS =>
                {
                    self.host.sleep(pause).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    /// Reads objects by key, as [`esker_model::object::ObjectRead::read_objects`].
    pub async fn read_objects(
        self: &Arc<Self>,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
        seen: Version,
    ) -> Result<Vec<Option<Found>>> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let home = |key: &ObjectKey| match key {
            ObjectKey::Id(id) => self.home(id.vertex()),
            ObjectKey::Identity(identity) => self.home(identity.prefix().home_vertex()),
        };
        let wanted = keys
            .iter()
            .enumerate()
            .map(|(index, key)| (index, key.clone(), home(key)));
        let mut found: Vec<Option<Found>> = vec![None; keys.len()];
        let mut moved: Vec<(usize, ObjectKey, ServerId)> = Vec::new();
        for (index, at) in self.read_objects_at(wanted, principal).await? {
            match at {
                ObjectAt::Nowhere => {}
                ObjectAt::Here(object) => put(&mut found, index, object),
                ObjectAt::Elsewhere(id) => moved.push((index, id.into(), self.home(id.vertex()))),
            }
        }
        if moved.is_empty() {
            return Ok(found);
        }
        // The object may have moved on, or be deleted: its home knows its ID attributes.
        for (index, at) in self.read_objects_at(moved.into_iter(), principal).await? {
            if let (ObjectAt::Here(object), Some(ObjectKey::Identity(asked))) =
                (at, keys.get(index))
                && object.identity().as_ref() == Some(asked)
            {
                put(&mut found, index, object);
            }
        }
        Ok(found)
    }

    /// Reads objects from their servers; results come with their indexes in the request.
    async fn read_objects_at(
        self: &Arc<Self>,
        wanted: impl Iterator<Item = (usize, ObjectKey, ServerId)>,
        principal: Option<&Principal>,
    ) -> Result<Vec<(usize, ObjectAt)>> {
        let at = self.newest();
        let mut servers = BTreeMap::<ServerId, (Vec<usize>, Vec<ObjectKey>)>::new();
        for (index, key, server) in wanted {
            let (indexes, keys) = servers.entry(server).or_default();
            indexes.push(index);
            keys.push(key);
        }
        let reads = servers.iter().map(|(server, (_, keys))| {
            let call = ObjectCall::Read {
                keys: keys.clone(),
                principal: principal.cloned(),
                at,
            };
            self.objects_at(*server, call)
        });
        let mut all = Vec::new();
        for ((server, (indexes, _)), answer) in servers.iter().zip(join_all(reads).await) {
            match answer? {
                ObjectReply::Objects(found) if found.len() == indexes.len() => {
                    all.extend(indexes.iter().copied().zip(found));
                }
                _ => return Err(unexpected(*server)),
            }
        }
        Ok(all)
    }

    /// Searches objects, as [`esker_model::object::ObjectRead::find`]. The report names servers that do not answer.
    pub async fn find(
        self: &Arc<Self>,
        find: &Find,
        seen: Version,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let id = FindId {
            server: self.settings.id,
            incarnation: self.incarnation,
            number: {
                let mut state = self.state();
                state.finds_begun += 1;
                state.finds_begun
            },
        };
        let first = find.after.map(|object| self.home(object.vertex()));
        let servers = self.map.servers().iter().copied();
        let servers = servers.filter(|server| first.is_none_or(|first| *server >= first));
        let at = self.newest();
        let source = |server: ServerId| Source {
            server,
            find: Find {
                // All objects of later servers follow the cursor.
                after: find.after.filter(|_| first == Some(server)),
                ..find.clone()
            },
            pending: None,
            page: None,
        };
        let search = Search {
            node: self,
            id,
            at,
            cancel,
            sources: servers.map(source).collect(),
            reports: BTreeMap::new(),
            report: FindReport::default(),
            left: find.limit,
        };
        search.run(find, sink).await
    }

    /// Lists tags, as [`esker_model::object::ObjectRead::tags`].
    pub async fn tags(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        seen: Version,
    ) -> Result<Vec<TagInfo>> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let call = ObjectCall::Tags {
            principal: principal.cloned(),
            at: self.newest(),
        };
        let mut all = BTreeMap::<(bool, String), TagInfo>::new();
        for (server, answer) in self.objects_everywhere(|_| call.clone()).await {
            let ObjectReply::Tags(tags) = answer? else {
                return Err(unexpected(server));
            };
            for tag in tags {
                // Predefined attributes sort first.
                let known = all.get_mut(&(!tag.predefined, tag.name.clone()));
                let Some(known) = known else {
                    all.insert((!tag.predefined, tag.name.clone()), tag);
                    continue;
                };
                known.objects += tag.objects;
                // A value may occur on both servers.
                known.distinct = None;
                known.indexed &= tag.indexed;
                known.bytes.0 += tag.bytes.0;
                known.bytes.1 += tag.bytes.1;
            }
        }
        Ok(all.into_values().collect())
    }

    /// Tags objects, as [`esker_model::object::ObjectWrite::tag_where`]: atomically on each server. If a server
    /// fails, the error says which have done it; with an idempotency key the call can be repeated, and those servers
    /// then do nothing.
    pub async fn tag_where(
        self: &Arc<Self>,
        change: &TagWhere,
        seen: Version,
    ) -> Result<TagReport> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let at = self.newest();
        let mut report = TagReport {
            matches: 0,
            changed: 0,
            refused: 0,
            version: Version::ZERO,
            applied: false,
        };
        let call = |server| {
            let mut change = change.clone();
            change.idempotency_key = change
                .idempotency_key
                .map(|idempotency_key| share_of(idempotency_key, server));
            ObjectCall::Tag { change, at }
        };
        let mut done = Vec::new();
        let mut failed = Vec::new();
        for (server, answer) in self.objects_everywhere(call).await {
            match answer {
                Ok(ObjectReply::Tagged(tagged)) => {
                    done.push(server);
                    report.matches += tagged.matches;
                    report.changed += tagged.changed;
                    report.refused += tagged.refused;
                    report.version = report.version.max(tagged.version);
                    report.applied |= tagged.applied;
                }
                Ok(_) => return Err(unexpected(server)),
                Err(e) => failed.push((server, e)),
            }
        }
        match (failed.into_iter().next(), done.is_empty()) {
            (None, _) => Ok(report),
            // An invalid request is invalid on all servers.
            (Some((_, e)), true) => Err(e),
            (Some((server, e)), false) => {
                let done: Vec<String> = done.iter().map(ToString::to_string).collect();
                Err(Error::Unavailable(format!(
                    "the tags of {} objects on {} are changed, those on {server} are not: {e}; repeat it for the rest",
                    report.changed,
                    done.join(", ")
                )))
            }
        }
    }

    /// Enables or disables an index on all servers, as [`esker_model::object::ObjectWrite::set_index`].
    pub async fn set_index(self: &Arc<Self>, name: &str, on: bool) -> Result<bool> {
        self.check_serving()?;
        let call = ObjectCall::Index {
            name: name.to_owned(),
            on,
        };
        let mut changed = false;
        let mut failed = None;
        for (server, answer) in self.objects_everywhere(|_| call.clone()).await {
            match answer {
                Ok(ObjectReply::Indexed(new)) => changed |= new,
                Ok(_) => return Err(unexpected(server)),
                Err(e) => failed = failed.or(Some((server, e))),
            }
        }
        match failed {
            None => Ok(changed),
            Some((server, e)) if e.kind() == ErrorKind::Unavailable => {
                Err(Error::Unavailable(format!(
                    "the index on `{name}` was changed on some servers, but not on {server}: {e}; repeat it"
                )))
            }
            Some((_, e)) => Err(e),
        }
    }

    /// Calls all servers, this one last, because it works synchronously.
    async fn objects_everywhere(
        self: &Arc<Self>,
        call: impl Fn(ServerId) -> ObjectCall,
    ) -> Vec<(ServerId, Result<ObjectReply>)> {
        let mut servers = self.map.servers().to_vec();
        servers.sort_by_key(|server| *server == self.settings.id);
        let asks = servers
            .iter()
            .map(|server| self.objects_at_with_retry(*server, call(*server)));
        let mut answers: Vec<_> = servers.iter().copied().zip(join_all(asks).await).collect();
        answers.sort_by_key(|(server, _)| *server);
        answers
    }
}

fn put(found: &mut [Option<Found>], index: usize, object: Found) {
    if let Some(slot) = found.get_mut(index) {
        *slot = Some(object);
    }
}

/// One server's results of a search.
struct Source<'a> {
    server: ServerId,
    /// The next request to the server.
    find: Find,
    pending: Option<Pin<Box<dyn Future<Output = Result<FindPage>> + 'a>>>,
    page: Option<Result<FindPage>>,
}

/// A search over all servers.
struct Search<'a> {
    node: &'a Arc<Node>,
    id: FindId,
    at: Version,
    cancel: &'a dyn Cancel,
    sources: VecDeque<Source<'a>>,
    /// Report of each server's first page.
    reports: BTreeMap<ServerId, FindReport>,
    report: FindReport,
    /// Number of results that may still be returned.
    left: Option<u64>,
}

impl Search<'_> {
    async fn run(mut self, find: &Find, sink: &mut dyn FnMut(Found) -> Flow) -> Result<FindReport> {
        let count = self.sources.len();
        for index in 0..count {
            self.request_page(index);
        }
        let mut complete = true;
        'servers: while !self.sources.is_empty() {
            loop {
                let Some(page) = self.next_page().await else {
                    complete = false;
                    break 'servers;
                };
                let Some(source) = self.sources.front_mut() else {
                    break;
                };
                let server = source.server;
                let page = match page {
                    Ok(page) => page,
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        self.report.missing.push(server.0);
                        break;
                    }
                    Err(e) => return Err(e),
                };
                source.find.after = page.objects.last().map(|found| found.id);
                let last = !page.more;
                let cut_off = page.more && page.objects.is_empty();
                if find.count || find.explain {
                    complete &= page.report.complete;
                    self.report.matches += page.report.matches;
                }
                self.reports.entry(server).or_insert(page.report);
                if cut_off {
                    // The search was cancelled before the first object of the page, or its limit is 0.
                    complete = false;
                    break 'servers;
                }
                let many = page.objects.len() as u64;
                if !last && self.left.is_none_or(|left| left > many) {
                    if let (Some(left), Some(source)) = (self.left, self.sources.front_mut()) {
                        source.find.limit = Some(left - many);
                    }
                    self.request_page(0);
                    self.poll_once().await;
                }
                let mut objects = page.objects.into_iter();
                while let Some(object) = objects.next() {
                    if self.left == Some(0) {
                        complete = false;
                        break 'servers;
                    }
                    self.left = self.left.map(|left| left - 1);
                    self.report.matches += 1;
                    if sink(object).is_break() {
                        complete = last && objects.len() == 0 && self.sources.len() == 1;
                        break 'servers;
                    }
                }
                if last {
                    break;
                }
                if self.left == Some(0) {
                    complete = false;
                    break 'servers;
                }
            }
            self.sources.pop_front();
        }
        if find.count
            && let Some(limit) = find.limit
        {
            complete &= self.report.matches <= limit;
            self.report.matches = self.report.matches.min(limit);
        }
        let mut report = std::mem::take(&mut self.report);
        report.complete = complete && report.missing.is_empty();
        let reports = std::mem::take(&mut self.reports);
        // A name is unknown if no server knows it, so all must have been asked.
        if reports.len() + report.missing.len() == self.node.map.servers().len() {
            report.unknown = unknown(reports.values());
        }
        for (server, own) in reports {
            report.plan.extend(own.plan.into_iter().map(|mut step| {
                step.server = server.0;
                step
            }));
        }
        Ok(report)
    }

    /// Begins to request a server's next page.
    fn request_page(&mut self, index: usize) {
        let (node, at, id, cancel) = (self.node, self.at, self.id, self.cancel);
        let Some(source) = self.sources.get_mut(index) else {
            return;
        };
        let (server, find) = (source.server, source.find.clone());
        source.pending = Some(Box::pin(async move {
            if server == node.settings.id {
                return node.page_here(&find, at, cancel).await;
            }
            match node
                .objects_at_with_retry(server, ObjectCall::Find { id, find, at })
                .await?
            {
                ObjectReply::Found(page) => Ok(page),
                _ => Err(unexpected(server)),
            }
        }));
    }

    /// Returns the first server's next page; `None` if the caller has cancelled.
    async fn next_page(&mut self) -> Option<Result<FindPage>> {
        let cancel = self.cancel;
        let host = Arc::clone(&self.node.host);
        loop {
            if cancel.cancelled() {
                return None;
            }
            let page = std::future::poll_fn(|context| {
                self.poll(context);
                match self
                    .sources
                    .front_mut()
                    .and_then(|source| source.page.take())
                {
                    Some(page) => Poll::Ready(page),
                    None => Poll::Pending,
                }
            });
            let sleep: BoxFuture<'_, ()> = host.sleep(CANCEL_POLL);
            if let Either::Left((page, _)) = select(pin!(page), sleep).await {
                return Some(page);
            }
        }
    }

    /// Makes sure that pending requests have been sent.
    async fn poll_once(&mut self) {
        std::future::poll_fn(|context| {
            self.poll(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Polls all pending requests; this server's own last, so that the others work meanwhile.
    fn poll(&mut self, context: &mut Context<'_>) {
        let me = self.node.settings.id;
        let mut poll = |mine: bool| {
            for source in self.sources.iter_mut().filter(|s| (s.server == me) == mine) {
                if let Some(pending) = &mut source.pending
                    && let Poll::Ready(page) = pending.as_mut().poll(context)
                {
                    source.pending = None;
                    source.page = Some(page);
                }
            }
        };
        poll(false);
        poll(true);
    }
}

impl Drop for Search<'_> {
    /// Cancels the pages that other servers are still computing.
    fn drop(&mut self) {
        let me = self.node.settings.id;
        let busy = self
            .sources
            .iter()
            .filter(|s| s.pending.is_some() && s.server != me);
        let busy: Vec<ServerId> = busy.map(|s| s.server).collect();
        if busy.is_empty() {
            return;
        }
        let id = self.id;
        self.node.spawn(|node| async move {
            let stops = busy.into_iter().map(|server| {
                let node = &node;
                async move {
                    node.request(server, Request::Objects(ObjectCall::Stop { id }))
                        .await
                }
            });
            // A server that does not receive the message ends by itself.
            drop(join_all(stops).await);
        });
    }
}

/// Names that no server knows, with the nearest known name and the number of objects that have it.
fn unknown<'a>(
    reports: impl Iterator<Item = &'a FindReport>,
) -> Vec<(String, Option<(String, u64)>)> {
    let reports: Vec<&FindReport> = reports.collect();
    let Some(first) = reports.first() else {
        return Vec::new();
    };
    let names = first.unknown.iter().map(|(name, _)| name);
    let by_all = names.filter(|name| {
        reports
            .iter()
            .all(|report| report.unknown.iter().any(|(known, _)| known == *name))
    });
    let with_nearest = |name: &String| {
        let mut near = BTreeMap::<&str, u64>::new();
        for (other, suggested) in reports.iter().flat_map(|report| &report.unknown) {
            if let (true, Some((suggested, objects))) = (other == name, suggested) {
                *near.entry(suggested).or_default() += objects;
            }
        }
        let best = nearest(name, near.keys().copied());
        let best = best.and_then(|best| near.get(best.as_str()).map(|n| (best.clone(), *n)));
        (name.clone(), best)
    };
    by_all.map(with_nearest).collect()
}

impl<B: BlockOn> ObjectRead for ClusterGraph<'_, B> {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>> {
        let work = self.node.read_objects(keys, principal, self.seen);
        self.runtime.block_on(work)
    }

    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        let node = self.node;
        self.runtime
            .block_on(node.find(find, self.seen, cancel, sink))
    }

    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>> {
        self.runtime.block_on(self.node.tags(principal, self.seen))
    }
}
