//! Answers to calls about objects.

use crate::call::Call;
use crate::limits::{INLINE_READ_KEYS, INLINE_REPLY_BYTES};
use crate::pieces::{Pieces, Stop, check_cancelled, check_count, send_all};
use crate::service::Service;
use esker_model::object::{Find, Found, ObjectRead, ObjectWrite as _, TagReport, TagWhere};
use esker_model::{Cancel, Error, Result};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use prost::Message;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970: the origin of relative times such as `30d ago`.
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
    check_count(service, "objects", request.keys.len())?;
    let keys = convert::list(request.keys, "keys", convert::object_key_in)?;
    let principal = convert::principal_in(request.principal);
    let objects = graph.read_objects(&keys, principal.as_ref())?;
    let form = call.options.form;
    let item = |object: &Option<Found>| proto::read_objects_reply::Item {
        object: object.as_ref().map(|o| convert::found_out(o, form)),
    };
    send_all(call, objects, item, |items| {
        Reply::ReadObjects(proto::ReadObjectsReply { items })
    })
}

/// Reads objects on a thread that must not block: `None` if the answer is large, or an error.
pub(crate) fn read_inline(
    graph: &dyn ObjectRead,
    request: proto::ReadObjectsRequest,
    call: &Call,
) -> Option<Reply> {
    if request.keys.len() > INLINE_READ_KEYS {
        return None;
    }
    let keys = convert::list(request.keys, "keys", convert::object_key_in).ok()?;
    let principal = convert::principal_in(request.principal);
    let objects = graph.read_objects(&keys, principal.as_ref()).ok()?;
    let item = |object: Option<Found>| proto::read_objects_reply::Item {
        object: object.map(|o| convert::found_out(&o, call.options.form)),
    };
    let items: Vec<_> = objects.into_iter().map(item).collect();
    let bytes: usize = items.iter().map(Message::encoded_len).sum();
    (bytes <= INLINE_REPLY_BYTES).then_some(Reply::ReadObjects(proto::ReadObjectsReply { items }))
}

/// Runs [`find`] on a thread that must not block: `None` if the answer is large, or an error.
pub(crate) fn find_inline(graph: &dyn ObjectRead, find: &Find, call: &Call) -> Option<Reply> {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    let report = graph.find(find, &*call.state, &mut |found| {
        let found = convert::found_out(&found, call.options.form);
        bytes += found.encoded_len();
        objects.push(found);
        if bytes > INLINE_REPLY_BYTES {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let report = report.ok().filter(|_| bytes <= INLINE_REPLY_BYTES)?;
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
    let form = call.options.form;
    let mut pieces = Pieces::new(call, |objects| {
        Reply::Find(proto::FindReply {
            objects,
            report: None,
        })
    });
    let mut gone = false;
    let report = graph.find(&find, &*call.state, &mut |found| {
        pieces.flow(convert::found_out(&found, form), &mut gone)
    })?;
    // A client repeats a search that was cut off, behind the last object that it got. Servers before that object are not asked again, so
    // if some did not answer, the client gets the report, which names them.
    if report.missing.is_empty() || !call.state.cut_off() {
        if gone {
            return Err(Stop::ClientGone);
        }
        if !report.complete && call.state.cut_off() {
            return Err(Stop::Failed(Error::Interrupted));
        }
    }
    Ok(Reply::Find(proto::FindReply {
        objects: pieces.remaining(),
        report: Some(convert::report_out(report)),
    }))
}

pub(crate) fn tags(
    graph: &dyn ObjectRead,
    request: proto::TagsRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    let principal = convert::principal_in(request.principal);
    let tags = graph.tags(principal.as_ref())?;
    send_all(call, tags, convert::tag_info_out, |tags| {
        Reply::Tags(proto::TagsReply { tags })
    })
}

pub(crate) fn tag_where(
    service: &Service,
    request: proto::TagWhereRequest,
    call: &Call,
) -> Result<Reply, Stop> {
    check_cancelled(call)?;
    let (change, sync) = convert::tag_where_in(request, now_nanos())?;
    let report = retag(service, &change, sync, &*call.state)?;
    Ok(Reply::TagWhere(convert::tag_report_out(report)))
}

/// Changes the tags of all objects that match a filter, in this database or in the cluster.
pub(crate) fn retag(
    service: &Service,
    change: &TagWhere,
    sync: bool,
    cancel: &dyn Cancel,
) -> Result<TagReport> {
    let sync = sync && !change.dry_run;
    let Some(cluster) = &service.cluster else {
        let report = service.database.tag_where(change, cancel)?;
        service.note_version(report.version);
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
    cluster.tag_where(change)
}

pub(crate) fn set_index(
    service: &Service,
    request: &proto::SetIndexRequest,
) -> Result<Reply, Stop> {
    let changed = index(service, &request.name, request.on)?;
    Ok(Reply::SetIndex(proto::SetIndexReply { changed }))
}

/// Enables or disables an index on a name, in this database or in the cluster.
pub(crate) fn index(service: &Service, name: &str, on: bool) -> Result<bool> {
    match &service.cluster {
        Some(cluster) => cluster.set_index(name, on),
        None => service.database.set_index(name, on),
    }
}
