//! Objects as JSON: one by one, by their tags, and what tags there are.

use super::Refused;
use super::api::{Answer, Asked};
use super::body::{Fields, object_id, parse};
use super::find::filter;
use super::json::{found_out, version_out};
use super::query::Query;
use crate::service::Service;
use esker_model::object::{
    Found, ID_ATTRIBUTES, Identity, OBJECT_TYPE, ObjectId, ObjectKey, TagChange, TagWhere,
    object_type,
};
use esker_model::{Batch, Error, Op, Properties, Schema, Value, VertexRef, VertexTypeId};
use serde_json::{Value as Json, json};

/// One object, by its number in the path.
pub(super) fn object(asked: &Asked<'_>) -> Answer {
    let id = object_id(asked.query.required("id")?)?;
    one(asked, ObjectKey::Id(id))
}

/// One object, by its ID attributes.
pub(super) fn by_identity(asked: &Asked<'_>) -> Answer {
    one(asked, ObjectKey::Identity(identity(&asked.query)?))
}

fn identity(query: &Query) -> Result<Identity, Refused> {
    Ok(Identity {
        name: query.required("name")?.to_owned(),
        app: query.get("app").unwrap_or_default().to_owned(),
        owner: query
            .integer("owner")?
            .ok_or_else(|| Refused::bad("parameter `owner` is missing".into()))?,
        step: query.integer("step")?.unwrap_or_default(),
    })
}

fn one(asked: &Asked<'_>, key: ObjectKey) -> Answer {
    let asker = asked.asker.clone();
    let graph = asked.service.graph_now();
    let found = graph.read_objects(std::slice::from_ref(&key), asker.as_ref())?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(found_out(&found).to_string()),
        // Also for one that the asker may not read: they are not told that it is there.
        None => Err(Refused::missing(match key {
            ObjectKey::Id(id) => format!("no object {id}"),
            ObjectKey::Identity(identity) => format!("no object of {identity}"),
        })),
    }
}

/// The object that now has an identity: asked right after it was created.
pub(super) fn created(service: &Service, identity: Identity) -> Answer {
    let key = ObjectKey::Identity(identity);
    let found = service.graph_now().read_objects(&[key], None)?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(json!({
            "id": found.id.to_string(),
            "version": version_out(found.created),
        })
        .to_string()),
        None => Err(Refused::missing(
            "the object was created, and moved or deleted since".into(),
        )),
    }
}

/// What `POST /api/v1/objects` brings, as a batch.
pub(super) fn create(body: &str, schema: &Schema) -> Result<(Batch, Identity), Refused> {
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

fn reference(schema: &Schema, id: ObjectId) -> Result<(VertexRef, VertexTypeId), Refused> {
    let type_id = object_type(schema).ok_or_else(|| {
        Error::Invalid(format!(
            "this database has a vertex type `{OBJECT_TYPE}` of its own, and so no objects"
        ))
    })?;
    let id = id.vertex();
    Ok((VertexRef { id, type_id }, type_id))
}

/// What `PATCH /api/v1/objects/{id}` brings, as a batch: predefined attributes, ID attributes and tags each go their way.
pub(super) fn update(service: &Service, query: &Query, body: &str) -> Result<Batch, Refused> {
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
        return Err(Refused::bad(format!(
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
        let from = from.ok_or_else(|| Refused::missing(format!("no object {id}")))?;
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

fn renamed(mut identity: Identity, changes: Vec<(String, Value)>) -> Result<Identity, Refused> {
    for (name, value) in changes {
        match (name.as_str(), value) {
            ("name", Value::String(text)) => identity.name = text,
            ("app", Value::String(text)) => identity.app = text,
            ("owner", Value::I64(number)) => identity.owner = number,
            ("step", Value::I64(number)) => identity.step = number,
            (name, _) => {
                let message = format!("`set.{name}`: an object always has one; it cannot be null");
                return Err(Refused::bad(message));
            }
        }
    }
    Ok(identity)
}

/// `DELETE /api/v1/objects/{id}` as a batch.
pub(super) fn delete(service: &Service, query: &Query) -> Result<Batch, Refused> {
    let schema = service.schema()?;
    let id = object_id(query.required("id")?)?;
    let (vertex, _) = reference(&schema, id)?;
    let mut batch = Batch::new();
    batch.push(Op::DeleteVertex { vertex });
    Ok(batch)
}

/// All names that objects have values under.
pub(super) fn tags(asked: &Asked<'_>) -> Answer {
    let asker = asked.asker.clone();
    let tags = asked.service.graph_now().tags(asker.as_ref())?;
    let tags = tags.into_iter().map(|tag| {
        json!({"name": tag.name, "predefined": tag.predefined, "objects": tag.objects, "distinct": tag.distinct,
               "indexed": tag.indexed, "bytes": tag.bytes.0, "index_bytes": tag.bytes.1})
    });
    Ok(json!({ "tags": tags.collect::<Json>() }).to_string())
}

/// Tags all that a filter holds of.
pub(super) fn tag(asked: &Asked<'_>) -> Answer {
    const KEYS: [&str; 7] = ["filter", "set", "keep", "remove", "dry_run", "uid", "gids"];
    let body = parse(asked.body, &KEYS)?;
    let schema = Schema::empty();
    let body = Fields {
        object: &body,
        schema: &schema,
        paths: None,
    };
    let change = TagWhere {
        filter: filter(body.text("filter")?)?,
        change: TagChange {
            set: body.properties("set", None)?,
            keep: body.flag("keep")?,
            remove: body.names("remove")?,
        },
        asker: body.asker()?,
        dry_run: body.flag("dry_run")?,
        once: asked.query.get("once").map(|once| once.as_bytes().to_vec()),
    };
    let sync = asked.query.flag("sync")?;
    let done = crate::objects::retag(asked.service, &change, sync, asked.watch)?;
    Ok(json!({
        "matches": done.matches,
        "changed": done.changed,
        "refused": done.refused,
        "version": version_out(done.version),
        "applied": done.applied,
    })
    .to_string())
}

/// Lets searches use an index on a name, or forbids it.
pub(super) fn index(asked: &Asked<'_>) -> Answer {
    let body = parse(asked.body, &["name", "on"])?;
    let schema = Schema::empty();
    let fields = Fields {
        object: &body,
        schema: &schema,
        paths: None,
    };
    if !body.contains_key("on") {
        return Err(Refused::bad("`on` is missing".into()));
    }
    let changed = crate::objects::index(asked.service, fields.text("name")?, fields.flag("on")?)?;
    Ok(json!({ "changed": changed }).to_string())
}
