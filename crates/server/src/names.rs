//! Calls about files, answered.

use crate::access::table::Needs;
use crate::answer::{Pieces, Stop, all, wanted, within};
use crate::call::Call;
use crate::service::Service;
use crate::watch::Watcher;
use esker::Database;
use esker_access::Role;
use esker_cluster::Node;
use esker_model::namespace::{
    Answer, Call as NamesCall, Changes, Done, Errno, NamePath, Namespace,
};
use esker_model::{Cancel as _, Error, Result, Version};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a watcher looks whether it is wanted still.
const WATCH_LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether whoever watches may do so still.
const ADMITTED_LOOK: Duration = Duration::from_millis(500);
const READS: Needs = Needs::Role(Role::Read);
/// What happened that is told in one message.
const TOLD_TOGETHER: usize = 1_024;

pub(crate) fn stat(names: &dyn Namespace, request: &proto::StatFileRequest) -> Result<Reply, Stop> {
    let asker = convert::asker_in(request.asker.clone());
    let path = convert::path_in(&request.path)?;
    let inode = names.stat(asker.as_ref(), &path, request.follow)?;
    Ok(Reply::StatFile(proto::StatFileReply {
        inode: Some(convert::inode_out(&inode)),
        ..Default::default()
    }))
}

/// The same, with a promise that it stays so if that is asked for: of a server that stands alone.
pub(crate) fn stat_own(
    database: &Database,
    request: &proto::StatFileRequest,
) -> Result<Reply, Stop> {
    if !request.lease {
        return stat(database, request);
    }
    let asker = convert::asker_in(request.asker.clone());
    let path = convert::path_in(&request.path)?;
    let (inode, lease_ms) = database.stat_promised(asker.as_ref(), &path, request.follow)?;
    Ok(Reply::StatFile(proto::StatFileReply {
        inode: Some(convert::inode_out(&inode)),
        lease_ms,
        ..Default::default()
    }))
}

/// The same, with whoever is to be told of changes.
fn stat_watched(service: &Service, request: &proto::StatFileRequest) -> Result<Reply, Stop> {
    let Some(watcher) = service.watchers.get(request.watcher) else {
        return stat_own(&service.database, request);
    };
    let covered = watcher.cover(&convert::path_in(&request.path)?)?;
    let absent = |e: &Error| matches!(e, Error::File(e) if matches!(e.errno, Errno::NotFound | Errno::NotDirectory));
    let mut reply = match stat_own(&service.database, request) {
        Err(Stop::Failed(e)) if absent(&e) => proto::StatFileReply::default(),
        Ok(Reply::StatFile(reply)) => reply,
        other => return other,
    };
    reply.watched = covered;
    Ok(Reply::StatFile(reply))
}

/// Tells what happens to files, until it is given up.
pub(crate) fn watch(service: &Arc<Service>, request: proto::WatchFilesRequest, call: Call) {
    let client = match &call.asking {
        Some(asking) => asking.client(&service.access),
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
        let outcome = tell_watcher(&service, &watcher, number, &request, &call);
        service.watchers.close(number);
        match outcome {
            Ok(()) if service.closing() => call.cut_off(),
            Ok(()) => call.done(Reply::WatchFiles(proto::WatchFilesReply::default())),
            Err(Stop::Failed(e)) => call.failed(&e),
            Err(Stop::Gone) => drop(call),
        }
    };
    if let Err(e) = std::thread::Builder::new()
        .name("esker-watch".into())
        .spawn(run)
    {
        // The call went with the thread, and has answered that it was not.
        tracing::error!(error = %e, "no thread for a watcher");
    }
}

fn tell_watcher(
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
                "{path} leads through a symbolic link, behind which nothing is watched: name the path that it leads to"
            ))));
        }
    }
    call.piece(Reply::WatchFiles(proto::WatchFilesReply {
        watcher: number,
        happened: Vec::new(),
    }))?;
    let mut looked = Instant::now();
    while !call.watch.cancelled() && !service.closing() {
        if looked.elapsed() >= ADMITTED_LOOK {
            looked = Instant::now();
            if let Some(asking) = &call.asking
                && let Err(denied) = service.access.admit(asking, READS, "watch_files")
            {
                return Err(Stop::Failed(Error::Target(denied.words)));
            }
        }
        let happened = watcher.take(WATCH_LOOK);
        for part in happened.chunks(TOLD_TOGETHER) {
            call.piece(Reply::WatchFiles(proto::WatchFilesReply {
                watcher: 0,
                happened: part.to_vec(),
            }))?;
        }
    }
    Ok(())
}

/// The same, and where the entry is, if that is asked for and it is with another server of the cluster.
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
            let asker = convert::asker_in(request.asker.clone());
            let path = convert::path_in(&request.path)?;
            let (inode, lease_ms) = cluster.stat_promised(asker, path, request.follow, seen)?;
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
    let asker = convert::asker_in(request.asker);
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
    names.list(asker.as_ref(), &path, after, &mut |cookie, entry| {
        // Nobody else looks whether a long listing is wanted still.
        stopped = wanted(call).is_err();
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
        return Err(Stop::Gone);
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
    let asker = convert::asker_in(request.asker);
    let path = convert::path_in(&request.path)?;
    let mut pieces = Pieces::new(call, |files| {
        Reply::WalkFiles(proto::WalkFilesReply { files })
    });
    let mut gone = false;
    names.walk(asker.as_ref(), &path, &*call.watch, &mut |path, inode| {
        pieces.flow(convert::walked_out(path, inode), &mut gone)
    })?;
    if gone {
        return Err(Stop::Gone);
    }
    Ok(pieces.last())
}

pub(crate) fn look(names: &dyn Namespace, request: proto::LookFileRequest) -> Result<Reply, Stop> {
    let asker = convert::asker_in(request.asker);
    let path = convert::path_in(&request.path)?;
    let how = convert::open_in(request.how)?;
    let looked = names.look(asker.as_ref(), &path, how)?;
    Ok(Reply::LookFile(convert::looked_out(&looked)))
}

pub(crate) fn usage(names: &dyn Namespace, request: proto::UsageRequest) -> Result<Reply, Stop> {
    let asker = convert::asker_in(request.asker);
    let path = convert::path_in(&request.path)?;
    let usage = names.usage(asker.as_ref(), &path, request.below)?;
    Ok(Reply::Usage(proto::UsageReply {
        usage: Some(convert::usage_out(&usage)),
    }))
}

pub(crate) fn usages(
    names: &dyn Namespace,
    request: proto::UsagesRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let asker = convert::asker_in(request.asker);
    let path = convert::path_in(&request.path)?;
    let mut pieces = Pieces::new(call, |directories| {
        Reply::Usages(proto::UsagesReply { directories })
    });
    let mut gone = false;
    names.usages(asker.as_ref(), &path, &*call.watch, &mut |path, usage| {
        pieces.flow(convert::directory_usage_out(path, usage), &mut gone)
    })?;
    if gone {
        return Err(Stop::Gone);
    }
    Ok(pieces.last())
}

pub(crate) fn space(
    names: &dyn Namespace,
    request: proto::SpaceRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let space = names.space(convert::space_by_in(request.by)?)?;
    all(call, space, convert::space_out, |rows| {
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
    all(call, partitions, convert::partition_out, |partitions| {
        Reply::Partitions(proto::PartitionsReply { partitions })
    })
}

pub(crate) fn ids(
    service: &Service,
    names: &dyn Namespace,
    request: proto::FileIdsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    within(service, "paths", request.paths.len())?;
    let asker = convert::asker_in(request.asker);
    let paths = request.paths.iter().map(|path| convert::path_in(path));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let found = names.ids(asker.as_ref(), &paths)?;
    all(call, found, convert::at_path_out, |items| {
        Reply::FileIds(proto::FileIdsReply { items })
    })
}

/// Answers a call with what became of its changes.
pub(crate) fn tell(service: &Service, call: Call, done: Result<Vec<Result<Done>>>) {
    tell_routed(service, call, done, Vec::new());
}

/// The same, with where entries are that are not here.
fn tell_routed(
    service: &Service,
    call: Call,
    done: Result<Vec<Result<Done>>>,
    routes: Vec<proto::FileRoute>,
) {
    match done {
        Ok(outcomes) => {
            let newest = outcomes.iter().flatten().map(|done| done.version).max();
            service.saw(newest.unwrap_or(Version::ZERO));
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
    /// Takes changes of files: they are made here if they are few and nobody writes just now, else by the writer.
    pub(crate) fn change_names(self: &Arc<Self>, request: proto::ChangeFilesRequest, call: Call) {
        let routes = request.routes;
        let changes = within(self, "changes", request.changes.len())
            .and_then(|()| Ok(convert::changes_in(request)?));
        let (changes, sync) = match changes {
            Ok(changes) => changes,
            Err(Stop::Failed(e)) => return call.failed(&e),
            Err(Stop::Gone) => return,
        };
        if self.cluster.is_some() {
            return self.change_names_everywhere(changes, sync, routes, call);
        }
        let count = changes.changes.len();
        if self.writes_here(count, sync, &call)
            && let Some(done) = self.database.change_now(&changes)
        {
            self.metrics.groups.record(1);
            self.metrics.batches.record(count as u64);
            tell(self, call, done);
            return;
        }
        if let Err((call, full)) = self.writer.submit(changes.into(), sync, call) {
            self.turn_away(call, &full);
        }
    }

    /// Changes of files of a cluster, beside others.
    fn change_names_everywhere(
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
        let (service, seen) = (Arc::clone(self), call.terms.at_least.0);
        self.metrics.batches.record(changes.changes.len() as u64);
        let look_at = if routes { Node::ROUTES_LOOKED_AT } else { 0 };
        let about = changes.changes.iter().take(look_at);
        let about: Vec<NamePath> = about.map(|change| change.path().clone()).collect();
        let inner = Arc::clone(&cluster);
        cluster.spawn(async move {
            let done = match inner.names(NamesCall::Change(changes), seen).await {
                Ok(Answer::Changed(done)) => Ok(done),
                Ok(_) => Err(Error::Unavailable(
                    "a server answered another question: use the same release on all".into(),
                )),
                Err(e) => Err(e),
            };
            let routes = inner.node.routes(about.iter());
            let routes = routes.iter().map(convert::route_out).collect();
            tell_routed(&service, call, done, routes);
        });
    }
}
