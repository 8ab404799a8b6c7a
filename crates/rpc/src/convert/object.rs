//! Conversion of objects, searches and tag changes.

use super::value::{properties_in, properties_out};
use super::{At as _, Decoded, Form, Malformed, required};
use crate::proto;
use crate::proto::object_key::Key as Message;
use esker_model::Version;
use esker_model::filter::Expr;
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};

/// Decodes a filter: canonical text of Esker's own client, or text of another client, where times like `30d ago` are
/// relative to
/// `now`, in nanoseconds since 1970.
fn filter_in(text: &str, canonical: bool, now: Option<i64>) -> Decoded<Expr> {
    let filter = if canonical {
        Expr::parse_canonical(text)
    } else {
        Expr::parse(text, now)
    };
    filter.map_err(Malformed::model)
}

/// Decodes the number of an object.
pub(super) fn object_id_in(id: u64, field: &str) -> Decoded<ObjectId> {
    if id >> 63 == 0 {
        return Ok(ObjectId(id));
    }
    Err(Malformed::new(
        field,
        format!("the number of an object, below 2^63; got {id}"),
    ))
}

/// Encodes the ID attributes of an object.
pub fn identity_out(identity: &Identity) -> proto::Identity {
    proto::Identity {
        name: identity.name.clone(),
        app: identity.app.clone(),
        owner: identity.owner,
        step: identity.step,
    }
}

/// Decodes ID attributes. The engine checks that there is a name.
pub fn identity_in(identity: Option<proto::Identity>, field: &str) -> Decoded<Identity> {
    let identity = required(identity, field)?;
    Ok(Identity {
        name: identity.name,
        app: identity.app,
        owner: identity.owner,
        step: identity.step,
    })
}

/// Encodes the key of an object: number or ID attributes.
pub fn object_key_out(key: &ObjectKey) -> proto::ObjectKey {
    proto::ObjectKey {
        key: Some(match key {
            ObjectKey::Id(id) => Message::Id(id.0),
            ObjectKey::Identity(identity) => Message::Identity(identity_out(identity)),
        }),
    }
}

/// Decodes the key of an object: number or ID attributes.
pub fn object_key_in(key: proto::ObjectKey) -> Decoded<ObjectKey> {
    Ok(match key.key {
        Some(Message::Id(id)) => ObjectKey::Id(object_id_in(id, "id")?),
        Some(Message::Identity(identity)) => {
            ObjectKey::Identity(identity_in(Some(identity), "identity")?)
        }
        None => return Err(Malformed::new("key", "one of its fields to be set")),
    })
}

/// Encodes the principal of a call.
pub fn principal_out(principal: Option<&Principal>) -> Option<proto::Principal> {
    principal.map(|principal| proto::Principal {
        uid: principal.uid,
        gids: principal.gids.clone(),
    })
}

/// Decodes the principal of a call.
pub fn principal_in(principal: Option<proto::Principal>) -> Option<Principal> {
    principal.map(|principal| Principal {
        uid: principal.uid,
        gids: principal.gids,
    })
}

/// Encodes an object with its tags.
pub fn found_out(found: &Found, form: Form) -> proto::Found {
    proto::Found {
        id: found.id.0,
        created: found.created.0,
        modified: found.modified.0,
        attributes: properties_out(&found.attributes, form),
        tags: properties_out(&found.tags, form),
    }
}

/// Decodes an object with its tags.
pub fn found_in(found: proto::Found) -> Decoded<Found> {
    Ok(Found {
        id: object_id_in(found.id, "id")?,
        created: Version(found.created),
        modified: Version(found.modified),
        attributes: properties_in(found.attributes).at("attributes")?,
        tags: properties_in(found.tags).at("tags")?,
    })
}

/// Encodes a search for objects.
pub fn find_out(find: &Find) -> proto::FindRequest {
    proto::FindRequest {
        filter: find.filter.to_string(),
        canonical: true,
        select: find.select.clone().map(|names| proto::Selection { names }),
        limit: find.limit,
        count: find.count,
        explain: find.explain,
        principal: principal_out(find.principal.as_ref()),
        share: find.share.map(|share| proto::Share {
            rank: share.rank,
            of: share.of,
        }),
        after: find.after.map(|id| id.0),
    }
}

/// Decodes a search for objects; relative times refer to `now`.
pub fn find_in(request: proto::FindRequest, now: Option<i64>) -> Decoded<Find> {
    let share = match request.share {
        Some(share) if share.rank >= share.of => {
            return Err(Malformed::new(
                "share.rank",
                format!("a number from 0 below {}; got {}", share.of, share.rank),
            ));
        }
        Some(share) => Some(Share {
            rank: share.rank,
            of: share.of,
        }),
        None => None,
    };
    let after = request.after.map(|id| object_id_in(id, "after"));
    Ok(Find {
        filter: filter_in(&request.filter, request.canonical, now)?,
        select: request.select.map(|select| select.names),
        limit: request.limit,
        count: request.count,
        explain: request.explain,
        principal: principal_in(request.principal),
        share,
        after: after.transpose()?,
    })
}

/// Encodes the report of a search.
pub fn report_out(report: FindReport) -> proto::FindReport {
    let step = |step: PlanStep| proto::PlanStep {
        server: step.server,
        term: step.term,
        access: step.access,
        estimate: step.estimate,
        left: step.left,
        micros: step.micros,
    };
    let unknown = |(name, near): (String, Option<(String, u64)>)| {
        let (nearest, objects) = near.unzip();
        proto::UnknownName {
            name,
            nearest,
            objects: objects.unwrap_or_default(),
        }
    };
    proto::FindReport {
        matches: report.matches,
        complete: report.complete,
        missing: report.missing,
        plan: report.plan.into_iter().map(step).collect(),
        unknown: report.unknown.into_iter().map(unknown).collect(),
    }
}

/// Decodes the report of a search.
pub fn report_in(report: proto::FindReport) -> FindReport {
    let step = |step: proto::PlanStep| PlanStep {
        server: step.server,
        term: step.term,
        access: step.access,
        estimate: step.estimate,
        left: step.left,
        micros: step.micros,
    };
    let unknown = |unknown: proto::UnknownName| {
        let near = unknown.nearest.map(|name| (name, unknown.objects));
        (unknown.name, near)
    };
    FindReport {
        matches: report.matches,
        complete: report.complete,
        missing: report.missing,
        plan: report.plan.into_iter().map(step).collect(),
        unknown: report.unknown.into_iter().map(unknown).collect(),
    }
}

/// Encodes statistics of a tag.
pub fn tag_info_out(info: &TagInfo) -> proto::TagInfo {
    proto::TagInfo {
        name: info.name.clone(),
        predefined: info.predefined,
        objects: info.objects,
        distinct: info.distinct,
        indexed: info.indexed,
        value_bytes: info.bytes.0,
        index_bytes: info.bytes.1,
    }
}

/// Decodes statistics of a tag.
pub fn tag_info_in(info: proto::TagInfo) -> Decoded<TagInfo> {
    Ok(TagInfo {
        name: info.name,
        predefined: info.predefined,
        objects: info.objects,
        distinct: info.distinct,
        indexed: info.indexed,
        bytes: (info.value_bytes, info.index_bytes),
    })
}

/// Encodes a change of tags by filter.
pub fn tag_where_out(change: &TagWhere, sync: bool) -> proto::TagWhereRequest {
    proto::TagWhereRequest {
        filter: change.filter.to_string(),
        canonical: true,
        set: properties_out(&change.change.set, Form::Packed),
        keep: change.change.keep,
        remove: change.change.remove.clone(),
        principal: principal_out(change.principal.as_ref()),
        dry_run: change.dry_run,
        idempotency_key: change.idempotency_key.clone().unwrap_or_default(),
        sync,
    }
}

/// Decodes a change of tags by filter, and whether it must survive a power failure before it is acknowledged.
pub fn tag_where_in(
    request: proto::TagWhereRequest,
    now: Option<i64>,
) -> Decoded<(TagWhere, bool)> {
    let change = TagWhere {
        filter: filter_in(&request.filter, request.canonical, now)?,
        change: TagChange {
            set: properties_in(request.set).at("set")?,
            keep: request.keep,
            remove: request.remove,
        },
        principal: principal_in(request.principal),
        dry_run: request.dry_run,
        idempotency_key: (!request.idempotency_key.is_empty()).then_some(request.idempotency_key),
    };
    Ok((change, request.sync))
}

/// Encodes the report of a change of tags.
pub fn tag_report_out(report: TagReport) -> proto::TagWhereReply {
    proto::TagWhereReply {
        matches: report.matches,
        changed: report.changed,
        refused: report.refused,
        version: report.version.0,
        applied: report.applied,
    }
}

/// Decodes the report of a change of tags.
pub fn tag_report_in(reply: proto::TagWhereReply) -> TagReport {
    TagReport {
        matches: reply.matches,
        changed: reply.changed,
        refused: reply.refused,
        version: Version(reply.version),
        applied: reply.applied,
    }
}
