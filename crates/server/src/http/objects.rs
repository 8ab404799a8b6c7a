//! Objects as JSON: lookups, tags and tagging.

use super::ApiError;
use super::api::{Answer, ApiRequest};
use super::find::filter;
use super::json::{found_out, version_out};
use super::json_body::{Fields, object_id, parse};
use super::query::Query;
use crate::service::Service;
use esker_model::object::{
    Found, ID_ATTRIBUTES, Identity, OBJECT_TYPE, ObjectId, ObjectKey, TagChange, TagWhere,
    object_type,
};
use esker_model::{Batch, Error, Op, Properties, Schema, Value, VertexRef, VertexTypeId};
use serde_json::{Value as Json, json};

/// Answers with one object, by the number in the path.
pub(super) fn object(request: &ApiRequest<'_>) -> Answer {
    let id = object_id(request.query.required("id")?)?;
    one(request, ObjectKey::Id(id))
}

/// Answers with one object, by its ID attributes.
pub(super) fn by_identity(request: &ApiRequest<'_>) -> Answer {
    one(request, ObjectKey::Identity(identity(&request.query)?))
}

fn identity(query: &Query) -> Result<Identity, ApiError> {
    Ok(Identity {
        name: query.required("name")?.to_owned(),
        app: query.get("app").unwrap_or_default().to_owned(),
        owner: query
            .integer("owner")?
            .ok_or_else(|| ApiError::bad("parameter `owner` is missing".into()))?,
        step: query.integer("step")?.unwrap_or_default(),
    })
}

fn one(request: &ApiRequest<'_>, key: ObjectKey) -> Answer {
    let principal = request.principal.clone();
    let graph = request.service.graph_now();
    let found = graph.read_objects(std::slice::from_ref(&key), principal.as_ref())?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(found_out(&found).to_string()),
        // An object that the principal may not read gives the same answer, which does not reveal that it exists.
        None => Err(ApiError::missing(match key {
            ObjectKey::Id(id) => format!("no object {id}"),
            ObjectKey::Identity(identity) => format!("no object of {identity}"),
        })),
    }
}

/// Answers with the object that has an identity, right after its creation.
pub(super) fn created(service: &Service, identity: Identity) -> Answer {
    let key = ObjectKey::Identity(identity);
    let found = service.graph_now().read_objects(&[key], None)?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(json!({
            "id": found.id.to_string(),
            "version": version_out(found.created),
        })
        .to_string()),
        None => Err(ApiError::missing(
            "the object was created, and moved or deleted since".into(),
        )),
    }
}

/// Reads the body of `POST /api/v1/objects` as a batch.
pub(super) fn create(body: &str, schema: &Schema) -> Result<(Batch, Identity), ApiError> {
    const KEYS: [&str; 6] = ["name", "app", "owner", "step", "attributes", "tags"];
    let body = parse(body, &KEYS)?;
    let body = Fields {
        object: &body,
        schema,
        paths: None,
    };
    let identity = body.identity()?;
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: identity.clone(),
        attributes: body.properties("attributes", object_type(schema))?,
        tags: body.properties("tags", None)?,
    });
    Ok((batch, identity))
}

fn reference(schema: &Schema, id: ObjectId) -> Result<(VertexRef, VertexTypeId), ApiError> {
    let type_id = object_type(schema).ok_or_else(|| {
        Error::Invalid(format!(
            "this database has a vertex type `{OBJECT_TYPE}` of its own, and so no objects"
        ))
    })?;
    let id = id.vertex();
    Ok((VertexRef { id, type_id }, type_id))
}

/// Reads the body of `PATCH /api/v1/objects/{id}` as a batch, with separate mutations for predefined attributes, ID attributes and tags.
pub(super) fn update(service: &Service, query: &Query, body: &str) -> Result<Batch, ApiError> {
    let schema = service.schema()?;
    let id = object_id(query.required("id")?)?;
    let (vertex, type_id) = reference(&schema, id)?;
    let body = parse(body, &["set", "remove"])?;
    let body = Fields {
        object: &body,
        schema: &schema,
        paths: None,
    };
    let (mut attributes, mut tags) = (Properties::new(), Properties::new());
    let mut moved: Vec<(String, Value)> = Vec::new();
    for (name, value) in body.properties("set", Some(type_id))?.iter() {
        if ID_ATTRIBUTES.contains(&name) {
            moved.push((name.to_owned(), value.clone()));
        } else if schema.attribute(type_id, name).is_some() {
            attributes.set(name.to_owned(), value.clone());
        } else {
            tags.set(name.to_owned(), value.clone());
        }
    }
    let mut names = body.names("remove")?;
    if let Some(name) = names.iter().find(|n| ID_ATTRIBUTES.contains(&n.as_str())) {
        return Err(ApiError::bad(format!(
            "`remove`: an object always has its `{name}`; set it to something else"
        )));
    }
    let untagged = names
        .extract_if(.., |n| schema.attribute(type_id, n).is_none())
        .collect::<Vec<_>>();
    let mut batch = Batch::new();
    if !moved.is_empty() {
        let key = [ObjectKey::Id(id)];
        let found = service.graph_now().read_objects(&key, None)?;
        let from = found.into_iter().next().flatten();
        let from = from.and_then(|found: Found| found.identity());
        let from = from.ok_or_else(|| ApiError::missing(format!("no object {id}")))?;
        let to = renamed(from.clone(), moved)?;
        batch.push(Op::MoveObject {
            object: id,
            from,
            to,
        });
    }
    if !attributes.is_empty() || !names.is_empty() {
        batch.push(Op::ChangeVertex {
            vertex,
            set: attributes,
            remove: names,
        });
    }
    if !tags.is_empty() || !untagged.is_empty() {
        batch.push(Op::SetAttributes {
            vertex,
            set: tags,
            remove: untagged,
        });
    }
    Ok(batch)
}

fn renamed(mut identity: Identity, changes: Vec<(String, Value)>) -> Result<Identity, ApiError> {
    for (name, value) in changes {
        match (name.as_str(), value) {
            ("name", Value::String(text)) => identity.name = text,
            ("app", Value::String(text)) => identity.app = text,
            ("owner", Value::I64(number)) => identity.owner = number,
            ("step", Value::I64(number)) => identity.step = number,
            (name, _) => {
                let message = format!("`set.{name}`: an object always has one; it cannot be null");
                return Err(ApiError::bad(message));
            }
        }
    }
    Ok(identity)
}

/// Turns `DELETE /api/v1/objects/{id}` into a batch.
pub(super) fn delete(service: &Service, query: &Query) -> Result<Batch, ApiError> {
    let schema = service.schema()?;
    let id = object_id(query.required("id")?)?;
    let (vertex, _) = reference(&schema, id)?;
    let mut batch = Batch::new();
    batch.push(Op::DeleteVertex { vertex });
    Ok(batch)
}

/// Answers with the names of all attributes and tags of objects.
pub(super) fn tags(request: &ApiRequest<'_>) -> Answer {
    let principal = request.principal.clone();
    let tags = request.service.graph_now().tags(principal.as_ref())?;
    let tags = tags.into_iter().map(|tag| {
        json!({"name": tag.name, "predefined": tag.predefined, "objects": tag.objects, "distinct": tag.distinct,
               "indexed": tag.indexed, "bytes": tag.bytes.0, "index_bytes": tag.bytes.1})
    });
    Ok(json!({ "tags": tags.collect::<Json>() }).to_string())
}

/// Changes the tags of all objects that match a filter.
pub(super) fn tag(request: &ApiRequest<'_>) -> Answer {
    const KEYS: [&str; 7] = ["filter", "set", "keep", "remove", "dry_run", "uid", "gids"];
    let body = parse(request.body, &KEYS)?;
    let schema = Schema::empty();
    let body = Fields {
        object: &body,
        schema: &schema,
        paths: None,
    };
    let filter = filter(body.text("filter")?)?;
    filter.check_kinds_of_objects(&*request.service.schema()?)?;
    let change = TagWhere {
        filter,
        change: TagChange {
            set: body.properties("set", None)?,
            keep: body.flag("keep")?,
            remove: body.names("remove")?,
        },
        principal: body.principal()?,
        dry_run: body.flag("dry_run")?,
        idempotency_key: request
            .query
            .get("once")
            .map(|idempotency_key| idempotency_key.as_bytes().to_vec()),
    };
    let sync = request.query.flag("sync")?;
    let done = crate::objects::retag(request.service, &change, sync, request.call_state)?;
    Ok(json!({
        "matches": done.matches,
        "changed": done.changed,
        "refused": done.refused,
        "version": version_out(done.version),
        "applied": done.applied,
    })
    .to_string())
}

/// Enables or disables an index on a name.
pub(super) fn index(request: &ApiRequest<'_>) -> Answer {
    let body = parse(request.body, &["name", "on"])?;
    let schema = Schema::empty();
    let fields = Fields {
        object: &body,
        schema: &schema,
        paths: None,
    };
    if !body.contains_key("on") {
        return Err(ApiError::bad("`on` is missing".into()));
    }
    let changed = crate::objects::index(request.service, fields.text("name")?, fields.flag("on")?)?;
    Ok(json!({ "changed": changed }).to_string())
}
