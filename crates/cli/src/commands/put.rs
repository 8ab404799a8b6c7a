//! `esker put`: inserts a vertex, or a new version of it.

use super::write::{Change, report};
use crate::args::PutArgs;
use crate::graph::NamedVertex;
use crate::values::Assignment;
use esker_model::{GraphRead as _, Op, Properties, Schema, VertexTypeId};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;

pub(crate) fn run(args: &PutArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let named = NamedVertex::parse(&args.vertex, &database, &schema)?;
    let (attributes, set) = split(&args.values, &schema, named.vertex.type_id)?;
    let mut change = Change::new(args.at);
    change.push(Op::PutVertex {
        vertex: named.vertex,
        key: named.name.key.clone(),
        attributes,
    });
    if !set.is_empty() {
        change.push(Op::SetAttributes {
            vertex: named.vertex,
            set,
            remove: Vec::new(),
        });
    }
    let commit = change.apply(&database)?;
    let done = if commit.vertices_created > 0 {
        "inserted"
    } else {
        "updated"
    };
    report(
        context,
        args.format.format,
        done,
        &named.name.to_string(),
        args.at,
        &commit,
    )
}

/// Splits attributes into predefined and user-defined ones.
pub(crate) fn split(
    values: &[Assignment],
    schema: &Schema,
    vertex_type: VertexTypeId,
) -> anyhow::Result<(Properties, Properties)> {
    let (mut predefined, mut user) = (Properties::new(), Properties::new());
    for assignment in values {
        let (value, defined) = assignment.value_for(schema, vertex_type)?;
        let properties = if defined { &mut predefined } else { &mut user };
        properties.set(assignment.name.as_str(), value);
    }
    Ok((predefined, user))
}
