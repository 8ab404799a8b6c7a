//! Answers to calls about files.

use crate::access::needs::Needs;
use crate::call::Call;
use crate::pieces::{Pieces, Stop, check_cancelled, check_count, send_all};
use crate::service::Service;
use crate::storage_quota::Holdings;
use crate::watch::Watcher;
use esker::Database;
use esker_access::Role;
use esker_cluster::Node;
use esker_model::namespace::{
    Answer, AppliedChange, Call as NamesCall, Changes, Errno, NamePath, Namespace,
};
use esker_model::{Cancel as _, Error, Result, Version};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which a watcher checks whether its call is still wanted.
const CANCEL_POLL: Duration = Duration::from_millis(100);
/// Interval at which the right to watch is checked again.
const RIGHTS_POLL: Duration = Duration::from_millis(500);
const READS: Needs = Needs::Role(Role::Read);
/// Largest number of notifications in one message.
const NOTIFICATIONS_PER_MESSAGE: usize = 1_024;

pub(crate) fn stat(names: &dyn Namespace, request: &proto::StatFileRequest) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal.clone());
    let path = convert::path_in(&request.path)?;
    let inode = names.stat(principal.as_ref(), &path, request.follow)?;
    Ok(Reply::StatFile(proto::StatFileReply {
        inode: Some(convert::inode_out(&inode)),
        ..Default::default()
    }))
}

/// Answers `StatFile` on a single server, with a lease if the request asks for one.
pub(crate) fn stat_single(
    database: &Database,
    request: &proto::StatFileRequest,
) -> Result<Reply, Stop> {
    if !request.lease {
        return stat(database, request);
    }
    let principal = convert::principal_in(request.principal.clone());
    let path = convert::path_in(&request.path)?;
    let (inode, lease_ms) = database.stat_with_lease(principal.as_ref(), &path, request.follow)?;
    Ok(Reply::StatFile(proto::StatFileReply {
        inode: Some(convert::inode_out(&inode)),
        lease_ms,
        ..Default::default()
    }))
}

/// Answers `StatFile` on a single server and registers the path with the request's watcher.
fn stat_watched(service: &Service, request: &proto::StatFileRequest) -> Result<Reply, Stop> {
    let Some(watcher) = service.watchers.get(request.watcher) else {
        return stat_single(&service.database, request);
    };
    let covered = watcher.cover(&convert::path_in(&request.path)?)?;
    let absent = |e: &Error| matches!(e, Error::File(e) if matches!(e.errno, Errno::NotFound | Errno::NotDirectory));
    let mut reply = match stat_single(&service.database, request) {
        Err(Stop::Failed(e)) if absent(&e) => proto::StatFileReply::default(),
        Ok(Reply::StatFile(reply)) => reply,
        other => return other,
    };
    reply.watched = covered;
    Ok(Reply::StatFile(reply))
}

/// Sends notifications of changes to files until the call is cancelled.
pub(crate) fn watch(service: &Arc<Service>, request: proto::WatchFilesRequest, call: Call) {
    let client = match &call.requester {
        Some(requester) => requester.client(&service.access),
        None => "nobody".into(),
    };
    let opened = || {
        if let Some(cluster) = &service.cluster {
            return Err(cluster.refuse("watching files", "ask again from time to time"));
        }
        let (engine, _) = service.database.engine()?;
        let (number, watcher) = service.watchers.open(&engine, client)?;
        Ok((number, watcher))
    };
    let (number, watcher) = match opened() {
        Ok(opened) => opened,
        Err(e) => return call.failed(&e),
    };
    let service = Arc::clone(service);
    let run = move || {
        let outcome = notify_watcher(&service, &watcher, number, &request, &call);
        service.watchers.close(number);
        match outcome {
            Ok(()) if service.closing() => call.cut_off(),
            Ok(()) => call.done(Reply::WatchFiles(proto::WatchFilesReply::default())),
            Err(Stop::Failed(e)) => call.failed(&e),
            Err(Stop::ClientGone) => drop(call),
        }
    };
    if let Err(e) = std::thread::Builder::new()
        .name("esker-watch".into())
        .spawn(run)
    {
        // The call was moved into the closure; dropping it has answered the client.
        tracing::error!(error = %e, "no thread for a watcher");
    }
}

fn notify_watcher(
    service: &Service,
    watcher: &Watcher,
    number: u64,
    request: &proto::WatchFilesRequest,
    call: &Call,
) -> Result<(), Stop> {
    for path in &request.paths {
        let path = convert::path_in(path)?;
        if !watcher.cover(&path)? {
            return Err(Stop::Failed(Error::Invalid(format!(
                "{path} leads through a symbolic link, behind which nothing is watched: name the path that it points to"
            ))));
        }
    }
    call.piece(Reply::WatchFiles(proto::WatchFilesReply {
        watcher: number,
        happened: Vec::new(),
    }))?;
    let mut last_rights_check = Instant::now();
    while !call.state.cancelled() && !service.closing() {
        if last_rights_check.elapsed() >= RIGHTS_POLL {
            last_rights_check = Instant::now();
            if let Some(requester) = &call.requester
                && let Err(denied) = service.access.admit(requester, READS, "watch_files")
            {
                return Err(Stop::Failed(Error::Target(denied.message)));
            }
        }
        let happened = watcher.take(CANCEL_POLL);
        for part in happened.chunks(NOTIFICATIONS_PER_MESSAGE) {
            call.piece(Reply::WatchFiles(proto::WatchFilesReply {
                watcher: 0,
                happened: part.to_vec(),
            }))?;
        }
    }
    Ok(())
}

/// Answers `StatFile`, with the server that has the entry if the request asks for it and it is another server of the cluster.
pub(crate) fn stat_routed(
    service: &Service,
    names: &dyn Namespace,
    request: &proto::StatFileRequest,
    seen: Version,
) -> Result<Reply, Stop> {
    if service.cluster.is_none() {
        return stat_watched(service, request);
    }
    let mut reply = match &service.cluster {
        Some(cluster) if request.lease => {
            let principal = convert::principal_in(request.principal.clone());
            let path = convert::path_in(&request.path)?;
            let (inode, lease_ms) =
                cluster.stat_with_lease(principal, path, request.follow, seen)?;
            Reply::StatFile(proto::StatFileReply {
                inode: Some(convert::inode_out(&inode)),
                lease_ms,
                ..Default::default()
            })
        }
        _ => stat(names, request)?,
    };
    if let (Reply::StatFile(reply), true, Some(cluster)) =
        (&mut reply, request.routes, &service.cluster)
    {
        let path = convert::path_in(&request.path)?;
        let routes = cluster.node.routes(std::iter::once(&path));
        reply.routes = routes.iter().map(convert::route_out).collect();
    }
    Ok(reply)
}

pub(crate) fn list(
    names: &dyn Namespace,
    watcher: Option<&Watcher>,
    request: proto::ListFilesRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let path = convert::path_in(&request.path)?;
    let after = request.after.map(convert::cookie_in).transpose()?;
    let mut left = match request.limit {
        0 => u64::MAX,
        limit => limit,
    };
    let covered = match watcher {
        Some(watcher) => watcher.cover(&path)?,
        None => false,
    };
    let reply = if covered {
        |entries| {
            Reply::ListFiles(proto::ListFilesReply {
                entries,
                watched: true,
            })
        }
    } else {
        |entries| {
            Reply::ListFiles(proto::ListFilesReply {
                entries,
                watched: false,
            })
        }
    };
    let mut pieces = Pieces::new(call, reply);
    let (mut gone, mut stopped) = (false, false);
    names.list(principal.as_ref(), &path, after, &mut |cookie, entry| {
        // A long listing has no other check for cancellation.
        stopped = check_cancelled(call).is_err();
        if stopped {
            return ControlFlow::Break(());
        }
        left -= 1;
        let flow = pieces.flow(convert::entry_out(cookie, &entry), &mut gone);
        if left == 0 {
            return ControlFlow::Break(());
        }
        flow
    })?;
    if gone {
        return Err(Stop::ClientGone);
    }
    if stopped {
        return Err(Stop::Failed(Error::Interrupted));
    }
    Ok(pieces.last())
}

pub(crate) fn walk(
    names: &dyn Namespace,
    request: proto::WalkFilesRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let path = convert::path_in(&request.path)?;
    let mut pieces = Pieces::new(call, |files| {
        Reply::WalkFiles(proto::WalkFilesReply { files })
    });
    let mut gone = false;
    names.walk(
        principal.as_ref(),
        &path,
        &*call.state,
        &mut |path, inode| pieces.flow(convert::walked_out(path, inode), &mut gone),
    )?;
    if gone {
        return Err(Stop::ClientGone);
    }
    Ok(pieces.last())
}

pub(crate) fn look_file(
    names: &dyn Namespace,
    request: proto::LookFileRequest,
) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let path = convert::path_in(&request.path)?;
    let how = convert::open_in(request.how)?;
    let looked = names.resolve_open(principal.as_ref(), &path, how)?;
    Ok(Reply::LookFile(convert::looked_out(&looked)))
}

pub(crate) fn usage(names: &dyn Namespace, request: proto::UsageRequest) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let path = convert::path_in(&request.path)?;
    let usage = names.usage(principal.as_ref(), &path, request.include_subtrees)?;
    Ok(Reply::Usage(proto::UsageReply {
        usage: Some(convert::usage_out(&usage)),
    }))
}

pub(crate) fn usages(
    names: &dyn Namespace,
    request: proto::UsagesRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let path = convert::path_in(&request.path)?;
    let mut pieces = Pieces::new(call, |directories| {
        Reply::Usages(proto::UsagesReply { directories })
    });
    let mut gone = false;
    names.usages(
        principal.as_ref(),
        &path,
        &*call.state,
        &mut |path, usage| pieces.flow(convert::directory_usage_out(path, usage), &mut gone),
    )?;
    if gone {
        return Err(Stop::ClientGone);
    }
    Ok(pieces.last())
}

pub(crate) fn space(
    names: &dyn Namespace,
    request: proto::SpaceRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let space = names.space(convert::space_by_in(request.by)?)?;
    send_all(call, space, convert::space_out, |rows| {
        Reply::Space(proto::SpaceReply { rows })
    })
}

pub(crate) fn partitions(
    names: &dyn Namespace,
    request: &proto::PartitionsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let path = convert::path_in(&request.path)?;
    let partitions = names.partitions(&path)?;
    send_all(call, partitions, convert::partition_out, |partitions| {
        Reply::Partitions(proto::PartitionsReply { partitions })
    })
}

pub(crate) fn ids(
    service: &Service,
    names: &dyn Namespace,
    request: proto::FileIdsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    check_count(service, "paths", request.paths.len())?;
    let principal = convert::principal_in(request.principal);
    let paths = request.paths.iter().map(|path| convert::path_in(path));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let found = names.ids(principal.as_ref(), &paths)?;
    send_all(call, found, convert::at_path_out, |items| {
        Reply::FileIds(proto::FileIdsReply { items })
    })
}

/// Answers a call with the outcome of its changes.
pub(crate) fn respond(service: &Service, call: Call, done: Result<Vec<Result<AppliedChange>>>) {
    respond_with_routes(service, call, done, Vec::new());
}

/// Answers a call with the outcome of its changes and the servers that have entries.
fn respond_with_routes(
    service: &Service,
    call: Call,
    done: Result<Vec<Result<AppliedChange>>>,
    routes: Vec<proto::FileRoute>,
) {
    match done {
        Ok(outcomes) => {
            let newest = outcomes.iter().flatten().map(|done| done.version).max();
            service.note_version(newest.unwrap_or(Version::ZERO));
            call.done(Reply::ChangeFiles(proto::ChangeFilesReply {
                routes,
                ..convert::outcomes_out(&outcomes)
            }));
        }
        Err(e) if service.cluster.is_some() => call.failed_for_now(&e),
        Err(e) => call.failed(&e),
    }
}

impl Service {
    /// Applies changes to files: on this thread if they are few and no other write is in progress, else by the writer.
    pub(crate) fn change_names(self: &Arc<Self>, request: proto::ChangeFilesRequest, call: Call) {
        let routes = request.routes;
        let changes = check_count(self, "changes", request.changes.len())
            .and_then(|()| Ok(convert::changes_in(request)?));
        let (changes, sync) = match changes {
            Ok(changes) => changes,
            Err(Stop::Failed(e)) => return call.failed(&e),
            Err(Stop::ClientGone) => return,
        };
        if self.cluster.is_some() {
            return self.change_names_in_cluster(changes, sync, routes, call);
        }
        let Some(call) = self.admit_storage(call, || Holdings::of_changes(&changes)) else {
            return;
        };
        let count = changes.changes.len();
        if self.can_write_inline(count, sync, &call)
            && let Some(done) = self.database.try_change(&changes)
        {
            self.metrics.groups.record(1);
            self.metrics.batches.record(count as u64);
            respond(self, call, done);
            return;
        }
        if let Err((call, full)) = self.writer.submit(changes.into(), sync, call) {
            self.reject(call, &full);
        }
    }

    /// Applies changes to files in a cluster, without blocking this thread.
    fn change_names_in_cluster(
        self: &Arc<Self>,
        changes: Changes,
        sync: bool,
        routes: bool,
        call: Call,
    ) {
        let Some(cluster) = self.cluster.clone() else {
            return;
        };
        if sync && !cluster.is_sync() {
            return call.failed(&cluster.refuse(
                "a write that is on disk when it is acknowledged",
                "set durability = \"sync\" in the cluster file, or write with --durability relaxed",
            ));
        }
        let (service, seen) = (Arc::clone(self), call.options.at_least.0);
        self.metrics.batches.record(changes.changes.len() as u64);
        let look_at = if routes { Node::ROUTE_PATHS_MAX } else { 0 };
        let about = changes.changes.iter().take(look_at);
        let about: Vec<NamePath> = about.map(|change| change.path().clone()).collect();
        let inner = Arc::clone(&cluster);
        cluster.spawn(async move {
            let done = match inner.names(NamesCall::Change(changes), seen).await {
                Ok(Answer::Changed(done)) => Ok(done),
                Ok(_) => Err(Error::OtherRelease(
                    "a server answered another request: use the same release on all".into(),
                )),
                Err(e) => Err(e),
            };
            let routes = inner.node.routes(about.iter());
            let routes = routes.iter().map(convert::route_out).collect();
            respond_with_routes(&service, call, done, routes);
        });
    }
}
