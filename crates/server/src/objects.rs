//! Calls about objects, answered.

use crate::answer::{Pieces, Stop, all, wanted, within};
use crate::call::Call;
use crate::cluster::ClusterGraph;
use crate::limits::{READ_HERE_KEYS, REPLY_HERE_BYTES};
use crate::service::Service;
use esker_model::object::{Find, Found, ObjectRead, ObjectWrite as _, TagReport, TagWhere};
use esker_model::{Cancel, Error, Result};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use prost::Message;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970: what `30d ago` is reckoned from.
pub(crate) fn now_nanos() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

pub(crate) fn read(
    service: &Service,
    graph: &dyn ObjectRead,
    request: proto::ReadObjectsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    within(service, "objects", request.keys.len())?;
    let keys = convert::list(request.keys, "keys", convert::object_key_in)?;
    let asker = convert::asker_in(request.asker);
    let objects = graph.read_objects(&keys, asker.as_ref())?;
    let form = call.terms.form;
    let item = |object: &Option<Found>| proto::read_objects_reply::Item {
        object: object.as_ref().map(|o| convert::found_out(o, form)),
    };
    all(call, objects, item, |items| {
        Reply::ReadObjects(proto::ReadObjectsReply { items })
    })
}

/// [`read`] for a thread that must not wait: `None` if that is much, or fails.
pub(crate) fn read_here(
    graph: &dyn ObjectRead,
    request: proto::ReadObjectsRequest,
    call: &Call,
) -> Option<Reply> {
    if request.keys.len() > READ_HERE_KEYS {
        return None;
    }
    let keys = convert::list(request.keys, "keys", convert::object_key_in).ok()?;
    let asker = convert::asker_in(request.asker);
    let objects = graph.read_objects(&keys, asker.as_ref()).ok()?;
    let item = |object: Option<Found>| proto::read_objects_reply::Item {
        object: object.map(|o| convert::found_out(&o, call.terms.form)),
    };
    let items: Vec<_> = objects.into_iter().map(item).collect();
    let bytes: usize = items.iter().map(Message::encoded_len).sum();
    (bytes <= REPLY_HERE_BYTES).then_some(Reply::ReadObjects(proto::ReadObjectsReply { items }))
}

/// [`find`] for a thread that must not wait: `None` if that is much, or fails.
pub(crate) fn find_here(graph: &dyn ObjectRead, find: &Find, call: &Call) -> Option<Reply> {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    let report = graph.find(find, &*call.watch, &mut |found| {
        let found = convert::found_out(&found, call.terms.form);
        bytes += found.encoded_len();
        objects.push(found);
        if bytes > REPLY_HERE_BYTES {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let report = report.ok().filter(|_| bytes <= REPLY_HERE_BYTES)?;
    Some(Reply::Find(proto::FindReply {
        objects,
        report: Some(convert::report_out(report)),
    }))
}

pub(crate) fn find(
    graph: &dyn ObjectRead,
    request: proto::FindRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let find: Find = convert::find_in(request, now_nanos())?;
    let form = call.terms.form;
    let mut pieces = Pieces::new(call, |objects| {
        Reply::Find(proto::FindReply {
            objects,
            report: None,
        })
    });
    let mut gone = false;
    let report = graph.find(&find, &*call.watch, &mut |found| {
        pieces.flow(convert::found_out(&found, form), &mut gone)
    })?;
    if gone {
        return Err(Stop::Gone);
    }
    // The client did not ask for less: the next server gives it the rest.
    if !report.complete && call.watch.cut_off() {
        return Err(Stop::Failed(Error::Interrupted));
    }
    Ok(Reply::Find(proto::FindReply {
        objects: pieces.rest(),
        report: Some(convert::report_out(report)),
    }))
}

pub(crate) fn tags(
    graph: &dyn ObjectRead,
    request: proto::TagsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let asker = convert::asker_in(request.asker);
    let tags = graph.tags(asker.as_ref())?;
    all(call, tags, convert::tag_info_out, |tags| {
        Reply::Tags(proto::TagsReply { tags })
    })
}

pub(crate) fn tag_where(
    service: &Service,
    request: proto::TagWhereRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    wanted(call)?;
    let (change, sync) = convert::tag_where_in(request, now_nanos())?;
    let report = retag(service, &change, sync, &*call.watch)?;
    Ok(Reply::TagWhere(convert::tag_report_out(report)))
}

/// Changes the tags of what a filter holds of, here or everywhere.
pub(crate) fn retag(
    service: &Service,
    change: &TagWhere,
    sync: bool,
    cancel: &dyn Cancel,
) -> Result<TagReport> {
    let sync = sync && !change.dry_run;
    let Some(cluster) = &service.cluster else {
        let report = service.database.tag_where(change, cancel)?;
        service.saw(report.version);
        if sync {
            service.database.persist()?;
        }
        return Ok(report);
    };
    if sync && !cluster.is_sync() {
        return Err(cluster.refuse(
            "a write that is on disk when it is acknowledged",
            "set durability = \"sync\" in the cluster file, or write with --durability relaxed",
        ));
    }
    ClusterGraph::tag_where(cluster, change, cancel)
}

pub(crate) fn set_index(
    service: &Service,
    request: &proto::SetIndexRequest,
) -> Result<Reply, Stop> {
    let changed = index(service, &request.name, request.on)?;
    Ok(Reply::SetIndex(proto::SetIndexReply { changed }))
}

/// Lets searches use an index on a name, or forbids it, here or everywhere.
pub(crate) fn index(service: &Service, name: &str, on: bool) -> Result<bool> {
    match &service.cluster {
        Some(cluster) => ClusterGraph::set_index(cluster, name, on),
        None => service.database.set_index(name, on),
    }
}
