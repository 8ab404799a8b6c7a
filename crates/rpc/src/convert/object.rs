//! Objects: what is asked of them, what is found.

use super::value::{properties_in, properties_out};
use super::{At as _, Decoded, Form, Malformed, required};
use crate::proto;
use crate::proto::object_key::Key as Message;
use esker_model::Version;
use esker_model::filter::Expr;
use esker_model::object::{
    Asker, Find, FindReport, Found, Identity, ObjectId, ObjectKey, PlanStep, Share, TagChange,
    TagInfo, TagReport, TagWhere,
};

/// A filter out of text: of our own client's, or of somebody's, where `now` is what `30d ago` is reckoned from, in
/// nanoseconds since 1970.
fn filter_in(text: &str, canonical: bool, now: Option<i64>) -> Decoded<Expr> {
    let filter = if canonical {
        Expr::parse_canonical(text)
    } else {
        Expr::parse(text, now)
    };
    filter.map_err(Malformed::model)
}

/// The number of an object.
pub(super) fn object_id_in(id: u64, field: &str) -> Decoded<ObjectId> {
    if id >> 63 == 0 {
        return Ok(ObjectId(id));
    }
    Err(Malformed::new(
        field,
        format!("the number of an object, below 2^63; got {id}"),
    ))
}

/// ID attributes as a message.
pub fn identity_out(identity: &Identity) -> proto::Identity {
    proto::Identity {
        name: identity.name.clone(),
        app: identity.app.clone(),
        owner: identity.owner,
        step: identity.step,
    }
}

/// ID attributes. That there is a name is the engine's to check.
pub fn identity_in(identity: Option<proto::Identity>, field: &str) -> Decoded<Identity> {
    let identity = required(identity, field)?;
    Ok(Identity {
        name: identity.name,
        app: identity.app,
        owner: identity.owner,
        step: identity.step,
    })
}

/// What an object is asked for by, as a message.
pub fn object_key_out(key: &ObjectKey) -> proto::ObjectKey {
    proto::ObjectKey {
        key: Some(match key {
            ObjectKey::Id(id) => Message::Id(id.0),
            ObjectKey::Identity(identity) => Message::Identity(identity_out(identity)),
        }),
    }
}

/// What an object is asked for by.
pub fn object_key_in(key: proto::ObjectKey) -> Decoded<ObjectKey> {
    Ok(match key.key {
        Some(Message::Id(id)) => ObjectKey::Id(object_id_in(id, "id")?),
        Some(Message::Identity(identity)) => {
            ObjectKey::Identity(identity_in(Some(identity), "identity")?)
        }
        None => return Err(Malformed::new("key", "one of its fields to be set")),
    })
}

/// On whose behalf, as a message.
pub fn asker_out(asker: Option<&Asker>) -> Option<proto::Asker> {
    asker.map(|asker| proto::Asker {
        uid: asker.uid,
        gids: asker.gids.clone(),
    })
}

/// On whose behalf.
pub fn asker_in(asker: Option<proto::Asker>) -> Option<Asker> {
    asker.map(|asker| Asker {
        uid: asker.uid,
        gids: asker.gids,
    })
}

/// An object as a message.
pub fn found_out(found: &Found, form: Form) -> proto::Found {
    proto::Found {
        id: found.id.0,
        created: found.created.0,
        modified: found.modified.0,
        attributes: properties_out(&found.attributes, form),
        tags: properties_out(&found.tags, form),
    }
}

/// An object out of a message.
pub fn found_in(found: proto::Found) -> Decoded<Found> {
    Ok(Found {
        id: object_id_in(found.id, "id")?,
        created: Version(found.created),
        modified: Version(found.modified),
        attributes: properties_in(found.attributes).at("attributes")?,
        tags: properties_in(found.tags).at("tags")?,
    })
}

/// A search as a message.
pub fn find_out(find: &Find) -> proto::FindRequest {
    proto::FindRequest {
        filter: find.filter.to_string(),
        canonical: true,
        select: find.select.clone().map(|names| proto::Selection { names }),
        limit: find.limit,
        count: find.count,
        explain: find.explain,
        asker: asker_out(find.asker.as_ref()),
        share: find.share.map(|share| proto::Share {
            rank: share.rank,
            of: share.of,
        }),
        after: find.after.map(|id| id.0),
    }
}

/// A search out of a message.
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
        asker: asker_in(request.asker),
        share,
        after: after.transpose()?,
    })
}

/// What a search did, as a message.
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

/// What a search did.
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

/// A name and how many objects have it, as a message.
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

/// A name and how many objects have it.
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

/// Tagging as a message.
pub fn tag_where_out(change: &TagWhere, sync: bool) -> proto::TagWhereRequest {
    proto::TagWhereRequest {
        filter: change.filter.to_string(),
        canonical: true,
        set: properties_out(&change.change.set, Form::Packed),
        keep: change.change.keep,
        remove: change.change.remove.clone(),
        asker: asker_out(change.asker.as_ref()),
        dry_run: change.dry_run,
        once: change.once.clone().unwrap_or_default(),
        sync,
    }
}

/// Tagging out of a message, and whether it is to survive a power failure.
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
        asker: asker_in(request.asker),
        dry_run: request.dry_run,
        once: (!request.once.is_empty()).then_some(request.once),
    };
    Ok((change, request.sync))
}

/// What tagging did, as a message.
pub fn tag_report_out(report: TagReport) -> proto::TagWhereReply {
    proto::TagWhereReply {
        matches: report.matches,
        changed: report.changed,
        refused: report.refused,
        version: report.version.0,
        applied: report.applied,
    }
}

/// What tagging did.
pub fn tag_report_in(reply: proto::TagWhereReply) -> TagReport {
    TagReport {
        matches: reply.matches,
        changed: reply.changed,
        refused: reply.refused,
        version: Version(reply.version),
        applied: reply.applied,
    }
}
