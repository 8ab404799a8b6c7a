//! `esker object update`, `delete` and `move`.

use super::create::value_of;
use super::names::{NO_OBJECTS, missing, vertex};
use super::{object_name, parse_id};
use crate::args::{ObjectDeleteArgs, ObjectMoveArgs, ObjectUpdateArgs};
use crate::commands::find::search;
use crate::commands::note_if_stopped;
use crate::commands::write::{Change, report};
use esker::Database;
use esker_model::object::{
    Find, Found, ID_ATTRIBUTES, Identity, ObjectId, ObjectKey, ObjectRead as _, object_type,
};
use esker_model::{Cancel as _, Commit, GraphRead as _, Op, Properties, Schema, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{self, Cell};
use esker_terminal::units::counted;
use std::ops::ControlFlow;

/// Number of objects to delete per batch.
const DELETE_BATCH: usize = 8_192;

pub(super) fn update(args: &ObjectUpdateArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let Some(type_id) = object_type(&schema) else {
        return Err(usage(NO_OBJECTS));
    };
    let names = args.set.iter().map(|a| a.name.as_str());
    for name in names.chain(args.remove.iter().map(String::as_str)) {
        check_updatable(name, &schema, type_id)?;
    }
    let mut set = Properties::new();
    for assignment in &args.set {
        set.set(
            assignment.name.as_str(),
            value_of(assignment, &schema, type_id)?.0,
        );
    }
    if let Some(name) = args.remove.iter().find(|n| set.get(n).is_some()) {
        return Err(usage(format!("`{name}` is both set and removed")));
    }
    let found = args.objects.resolve(&database)?;
    for object in &found {
        let lacks = |name: &&String| object.attributes.get(name).is_none();
        if let Some(name) = args.remove.iter().find(lacks) {
            return Err(usage(format!(
                "`{}` has no attribute `{name}`",
                object_name(object.id)
            )));
        }
    }
    let mut change = Change::new(None);
    for object in &found {
        change.push(Op::ChangeVertex {
            vertex: vertex(&schema, object.id)?,
            set: set.clone(),
            remove: args.remove.clone(),
        });
    }
    let commit = change.apply(&database)?;
    let names: Vec<String> = found.iter().map(|f| object_name(f.id)).collect();
    report(
        context,
        args.format.format,
        "updated",
        &names.join(" "),
        None,
        &commit,
    )
}

fn check_updatable(
    name: &str,
    schema: &Schema,
    type_id: esker_model::VertexTypeId,
) -> anyhow::Result<()> {
    if ID_ATTRIBUTES.contains(&name) {
        return Err(usage(format!(
            "`{name}` is an ID attribute: `esker object move` changes it"
        )));
    }
    if schema.attribute(type_id, name).is_none() {
        return Err(usage(format!(
            "objects have no predefined attribute `{name}`: `esker tag set` and `esker tag remove` change tags"
        )));
    }
    Ok(())
}

pub(super) fn move_object(args: &ObjectMoveArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let id = parse_id(&args.id)?;
    if args.name.is_none() && args.app.is_none() && args.owner.is_none() && args.step.is_none() {
        return Err(usage(
            "nothing changes: give the new ID attributes with --name, --app, --owner or --step",
        ));
    }
    let database = context.open(&args.target)?;
    let found = one(&database, id)?;
    let Some(from) = found.identity() else {
        return Err(anyhow::anyhow!(
            "`{}` lacks some of its ID attributes; run `esker check`",
            object_name(id)
        ));
    };
    let to = Identity {
        name: args.name.clone().unwrap_or_else(|| from.name.clone()),
        app: args.app.clone().unwrap_or_else(|| from.app.clone()),
        owner: args.owner.unwrap_or(from.owner),
        step: args.step.unwrap_or(from.step),
    };
    let mut change = Change::new(None);
    change.push(Op::MoveObject {
        object: id,
        from,
        to,
    });
    let commit = change.apply(&database)?;
    report(
        context,
        args.format.format,
        "moved",
        &object_name(id),
        None,
        &commit,
    )
}

fn one(database: &Database, id: ObjectId) -> anyhow::Result<Found> {
    let found = database.read_objects(&[id.into()], None)?;
    let found = found.into_iter().flatten().next();
    found.ok_or_else(|| missing(&ObjectKey::Id(id)))
}

pub(super) fn delete(args: &ObjectDeleteArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let filter = args.filter.as_deref().map(search::parse).transpose()?;
    if filter.is_none() {
        args.objects.keys()?;
    }
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let mut outcome = Outcome::Done;
    let ids = match (filter, &args.filter) {
        (Some(filter), Some(text)) => {
            filter.check_kinds_of_objects(&schema)?;
            let mut find = Find::all(filter);
            find.select = Some(Vec::new());
            let mut ids = Vec::new();
            let report = database.find(&find, &context.interrupt, &mut |found| {
                ids.push(found.id);
                ControlFlow::Continue(())
            })?;
            search::refuse_unknown(&report, text, false)?;
            outcome = search::warn_missing_servers(&report, context);
            ids
        }
        _ => args
            .objects
            .resolve(&database)?
            .iter()
            .map(|f| f.id)
            .collect(),
    };
    if context.interrupt.cancelled() {
        // A partial search deletes nothing, because the user could not tell which objects remain.
        return Ok(note_if_stopped(context));
    }
    let mut deleted = 0;
    let mut version = None;
    if !args.dry_run {
        for some in ids.chunks(DELETE_BATCH) {
            let commit = delete_some(&database, &schema, some)?;
            deleted += some.len() as u64 - commit.unchanged;
            version = Some(commit.version);
            if context.interrupt.cancelled() {
                break;
            }
        }
    }
    print_deleted(args, context, ids.len() as u64, deleted, version)?;
    Ok(outcome.and(note_if_stopped(context)))
}

fn delete_some(database: &Database, schema: &Schema, ids: &[ObjectId]) -> anyhow::Result<Commit> {
    let mut change = Change::new(None);
    for id in ids {
        change.push(Op::DeleteVertex {
            vertex: vertex(schema, *id)?,
        });
    }
    change.apply(database)
}

fn print_deleted(
    args: &ObjectDeleteArgs,
    context: &mut Context,
    matches: u64,
    deleted: u64,
    version: Option<Version>,
) -> anyhow::Result<()> {
    let sentence = if args.dry_run {
        format!("would delete {}", counted(matches, "object", "objects"))
    } else {
        format!("deleted {}", counted(deleted, "object", "objects"))
    };
    output::report(
        context,
        args.format.format,
        &sentence,
        &["matches", "deleted", "version"],
        vec![
            Cell::Count(matches),
            Cell::Count(deleted),
            version.map_or(Cell::Empty, Cell::Version),
        ],
    )?;
    Ok(())
}
