//! `esker set`: changes single attributes of an existing vertex.

use super::put::split;
use super::write::{Change, report};
use crate::args::SetArgs;
use crate::graph::NamedVertex;
use esker_model::{GraphRead as _, Op, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};

pub(crate) fn run(args: &SetArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let named = NamedVertex::parse(&args.vertex, &database, &schema)?;
    let (predefined, set) = split(&args.values, &schema, named.vertex.type_id)?;
    let both = args
        .remove
        .iter()
        .find(|name| args.values.iter().any(|a| a.name == **name));
    if let Some(name) = both {
        return Err(usage(format!("`{name}` is both set and removed")));
    }
    let (remove_predefined, remove): (Vec<_>, Vec<_>) = args
        .remove
        .iter()
        .cloned()
        .partition(|name| schema.attribute(named.vertex.type_id, name).is_some());

    // This read only serves error messages: the change itself is atomic. A time in the past changes the vertex as it was then; its later
    // versions are not affected.
    let as_of = args.at.unwrap_or(Version::MAX);
    let read = database.read_vertices(&[named.vertex.id], as_of)?;
    let Some(vertex) = read.into_iter().flatten().next().filter(|v| !v.deleted) else {
        let when = args.at.map(|at| format!(" as of {at}")).unwrap_or_default();
        return Err(named
            .missing(&format!("{when}; `esker put` inserts it"))
            .into());
    };
    let of_user = |name: &&String| !vertex.user.iter().any(|a| a.name == **name);
    let of_schema = |name: &&String| vertex.attributes.get(name).is_none();
    let unknown = remove
        .iter()
        .find(of_user)
        .or_else(|| remove_predefined.iter().find(of_schema));
    if let Some(name) = unknown {
        return Err(usage(format!("`{}` has no attribute `{name}`", named.name)));
    }
    let mut change = Change::new(args.at);
    if !predefined.is_empty() || !remove_predefined.is_empty() {
        change.push(Op::ChangeVertex {
            vertex: named.vertex,
            set: predefined,
            remove: remove_predefined,
        });
    }
    if !set.is_empty() || !remove.is_empty() {
        change.push(Op::SetAttributes {
            vertex: named.vertex,
            set,
            remove,
        });
    }
    let commit = change.apply(&database)?;
    report(
        context,
        args.format.format,
        "set",
        &named.name.to_string(),
        args.at,
        &commit,
    )
}
