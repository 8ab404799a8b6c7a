//! `esker object create`.

use super::names::NO_OBJECTS;
use crate::args::{ObjectCreateArgs, RowFormat};
use crate::commands::write::Change;
use crate::values::TagArg;
use esker_model::object::{ID_ATTRIBUTES, Identity, ObjectKey, ObjectRead as _, object_type};
use esker_model::{GraphRead as _, Op, Properties, Schema, Value};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{ObjectColumn, Rows};

pub(super) fn run(args: &ObjectCreateArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let Some(name) = args.identity.name.clone() else {
        return Err(usage("an object needs a name: give --name"));
    };
    let identity = Identity {
        name,
        app: args.identity.app.clone().unwrap_or_default(),
        owner: args.identity.owner.unwrap_or_else(own_uid),
        step: args.identity.step.unwrap_or(0),
    };
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let mut change = Change::new(None);
    change.push(Op::CreateObject {
        identity: identity.clone(),
        attributes: attributes(args, &schema)?,
        tags: TagArg::all(&args.tags, &schema)?,
    });
    change.apply(&database)?;
    let found = database.read_objects(&[ObjectKey::Identity(identity.clone())], None)?;
    let Some(found) = found.into_iter().flatten().next() else {
        return Err(anyhow::anyhow!(
            "the object with {identity} was created, and has been deleted already"
        ));
    };
    match args.format.format {
        // The number alone is printed, so that a script can use it.
        RowFormat::Table => writeln!(context.out, "{}", found.id)?,
        format => {
            let columns = ObjectColumn::all(format.is_json());
            let names = columns.iter().map(ObjectColumn::name).collect();
            let mut rows = Rows::named(&mut context.out, format, context.style, names);
            rows.row(columns.iter().map(|c| c.cell(&found)).collect())?;
            rows.finish()?;
        }
    }
    Ok(Outcome::Done)
}

/// Returns the user id of this process.
pub(super) fn own_uid() -> i64 {
    i64::from(rustix::process::getuid().as_raw())
}

fn attributes(args: &ObjectCreateArgs, schema: &Schema) -> anyhow::Result<Properties> {
    let mut attributes = Properties::new();
    if let Some(location) = &args.location {
        attributes.set("location", location.as_str());
    }
    if let Some(mode) = args.mode {
        attributes.set("mode", mode);
    }
    if let Some(gid) = args.gid {
        attributes.set("gid", gid);
    }
    if let Some(size) = args.size {
        let size = i64::try_from(size).map_err(|_| usage("--size is beyond 2^63 bytes"))?;
        attributes.set("size", size);
    }
    let Some(type_id) = object_type(schema) else {
        return Err(usage(NO_OBJECTS));
    };
    for assignment in &args.attributes {
        let name = assignment.name.as_str();
        if ID_ATTRIBUTES.contains(&name) {
            return Err(usage(format!("`{name}` is an ID attribute: give --{name}")));
        }
        let (value, defined) = value_of(assignment, schema, type_id)?;
        if !defined {
            return Err(usage(format!(
                "objects have no predefined attribute `{name}`: give it as --tag {name}={}",
                assignment.text
            )));
        }
        attributes.set(name, value);
    }
    Ok(attributes)
}

/// Returns the value of a predefined attribute; modes are in octal.
pub(super) fn value_of(
    assignment: &crate::values::Assignment,
    schema: &Schema,
    type_id: esker_model::VertexTypeId,
) -> anyhow::Result<(Value, bool)> {
    if assignment.name == "mode" {
        let mode = crate::values::parse_mode(&assignment.text).map_err(usage)?;
        return Ok((Value::I64(mode), true));
    }
    assignment.value_for(schema, type_id)
}
